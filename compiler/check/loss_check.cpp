// SPDX-License-Identifier: Apache-2.0
#include "compiler/check/loss_check.h"

#include <fmt/format.h>

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/check/gradient_check.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/function_tools.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Tensors = std::map<std::string, Tensor>;

// By every name that an argument answers to.
void add_named(Tensors& tensors, const ArgInfo& info, const Members& members) {
    for (std::size_t m = 0; m < info.names.size(); ++m) {
        tensors.insert_or_assign(info.names[m], members.at(m));
        if (m >= info.aliases.size()) continue;
        for (const std::string& alias : info.aliases[m]) tensors.insert_or_assign(alias, members.at(m));
    }
}

// What is not known is zero: nothing that the loss depends on.
std::vector<Members> arguments_of(const Function& f, const Tensors& tensors) {
    std::vector<Members> out;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const Type type = f.type(f.arguments[k]).member();
        out.emplace_back();
        for (const std::string& name : f.argument_info[k].names) {
            const auto at = tensors.find(name);
            if (at != tensors.end())
                check(at->second.type == type,
                      name + " has two types: " + to_string(at->second.type) + " and " + to_string(type));
            out.back().push_back(at != tensors.end() ? at->second : Tensor(type));
        }
    }
    return out;
}

Tensor one_behind_the_other(const std::vector<Tensor>& parts) {
    Dims dims = parts.front().type.dims;
    dims.front() *= static_cast<std::int64_t>(parts.size());
    Tensor out(Type::tensor(parts.front().type.dtype, dims));
    std::int64_t at = 0;
    for (const Tensor& part : parts)
        for (std::int64_t k = 0; k < part.size(); ++k) out.set(at++, part.at(k));
    return out;
}

// The rows of all of them.
Tensors one_batch(const Function& model, const std::vector<Tensors>& batches) {
    Tensors out = batches.front();
    for (const ArgInfo& info : model.argument_info) {
        if (info.kind != ArgInfo::Kind::input || !info.batched) continue;
        std::vector<Tensor> parts;
        for (const Tensors& tensors : batches)
            if (const auto at = tensors.find(info.names.front()); at != tensors.end()) parts.push_back(at->second);
        if (!parts.empty()) out.insert_or_assign(info.names.front(), one_behind_the_other(parts));
    }
    return out;
}

// As the runtime makes a step of micro-batches, without its gradients.
double step_loss(const Module& composed, const std::vector<Tensors>& batches) {
    const LossForm form = loss_form(composed);
    std::vector<double> weights(form.weights.size(), 0);
    if (form.kind != LossForm::Kind::average)
        for (Tensors tensors : batches) {
            for (std::size_t k = 0; k < weights.size(); ++k)
                tensors[form.weights[k]] = Tensor::scalar(DType::f32, weights[k]);
            const Function& f = *composed.find(loss_weight_function);
            const std::vector<Members> arguments = arguments_of(f, tensors);
            const std::vector<Members> sums = evaluate(composed, f, std::span<const Members>(arguments));
            for (std::size_t k = 0; k < weights.size(); ++k) weights[k] = sums.at(k).at(0).at(0);
        }
    Function forward = composed.main();
    forward.results = {forward.results.back()};
    forward.result_names = {forward.result_names.back()};
    check(forward.result_names.front() == "loss_sum", "the last result of a step is " + forward.result_names.front());
    remove_dead_ops(forward);
    double sum = 0;
    for (Tensors tensors : batches) {
        for (std::size_t k = 0; k < weights.size(); ++k)
            tensors[form.weights[k]] = Tensor::scalar(DType::f32, weights[k]);
        tensors["loss_sum"] = Tensor::scalar(DType::f32, sum);
        const std::vector<Members> arguments = arguments_of(forward, tensors);
        sum = evaluate(composed, forward, std::span<const Members>(arguments)).at(0).at(0).at(0);
    }
    return sum / loss_divisor(form, weights, batches.size());
}

}  // namespace

LossCheck check_loss(const Module& graph, const Module* joined, const ChosenLoss& chosen, const Module& composed,
                     std::uint64_t seed) {
    LossCheck out;
    out.what = chosen.text();
    out.micro_batches = chosen.has_own() && (joined == nullptr || !chosen.whole) ? 1 : checked_micro_batches;
    const Function &step = composed.main(), &model = graph.main();
    std::vector<Tensors> batches(out.micro_batches);
    for (std::size_t batch = 0; batch < batches.size(); ++batch) {
        const std::vector<Members> drawn = random_arguments(step, seed + batch);
        for (std::size_t k = 0; k < drawn.size(); ++k) {
            const ArgInfo& info = step.argument_info[k];
            if (info.kind == ArgInfo::Kind::input && info.batched)
                add_named(batches[batch], info, drawn[k]);
            else if (info.kind == ArgInfo::Kind::input || info.kind == ArgInfo::Kind::parameter ||
                     info.kind == ArgInfo::Kind::constant)
                for (std::size_t later = batch == 0 ? 0 : batches.size(); later < batches.size(); ++later)
                    add_named(batches[later], info, drawn[k]);  // the same for all
        }
    }
    out.actual = step_loss(composed, batches);

    std::set<std::string> added, read;  // inputs: of the step and not of the graph; of the losses
    std::map<std::string, bool> batched;
    for (const ArgInfo& info : step.argument_info) {
        batched[info.names.front()] = info.batched;
        if (info.kind == ArgInfo::Kind::input) added.insert(info.names.front());
    }
    for (const ArgInfo& info : model.argument_info) added.erase(info.names.front());
    for (const ChosenTerm& term : chosen.terms) read.insert(term.inputs.begin(), term.inputs.end());
    check(added == read, "the step has not the inputs of its loss");
    const auto result_of = [&](const ChosenTerm& term, const Module& module, const Tensors& tensors) {
        const std::vector<Members> arguments = arguments_of(module.main(), tensors);
        return evaluate(module, module.main(), std::span<const Members>(arguments)).at(term.result).at(0);
    };
    for (const ChosenTerm& term : chosen.terms) {
        if (term.added.loss == nullptr) {
            const bool several = batches.size() > 1;
            out.expected +=
                term.factor *
                result_of(term, several ? *joined : graph, several ? one_batch(model, batches) : batches[0]).at(0);
            continue;
        }
        std::vector<Tensor> results, inputs;
        for (const Tensors& tensors : batches) results.push_back(result_of(term, graph, tensors));
        for (const std::string& name : term.inputs) {
            std::vector<Tensor> parts;
            for (const Tensors& tensors : batches) parts.push_back(tensors.at(name));
            inputs.push_back(batched[name] ? one_behind_the_other(parts) : parts.front());
        }
        out.expected +=
            term.factor * term.added.loss->definition(one_behind_the_other(results), inputs, term.added.numbers);
    }
    const double difference = std::abs(out.actual - out.expected);
    out.error = difference == 0 ? 0 : difference / (std::abs(out.actual) + std::abs(out.expected));
    return out;
}

}  // namespace thunderc
