// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/add_evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/analysis/class_scores.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/unread.h"
#include "compiler/ops/batch_norm.h"
#include "compiler/ops/sdpa.h"
#include "compiler/planned/step_form.h"

namespace thunderc {
namespace {

bool drops(const Op& op) {
    return op.name == "dropout" || (op.name == "sdpa" && op.attributes.has("dropout"));
}

bool is_norm_of_running(const Op& op) {
    return op.name == batch_norm_name && op.operands.size() == batch_norm_operands;
}

ArgInfo scalar_info(const char* name) {
    ArgInfo info;
    info.kind = ArgInfo::Kind::scalar;
    info.names = {name};
    return info;
}

// (x - running mean) / sqrt(running variance + eps), scaled and shifted: a channel is axis 1.
Value normed_by_running(Builder& b, const Op& op) {
    const Type type = b.type(op.operands[0]);
    const DType dtype = b.type(op.operands[batch_norm_running_mean]).dtype;
    const auto beside = [&](Value channels) {
        Dims dims(type.dims.size(), 1);
        dims[1] = type.dims[1];
        return b.reshape(b.cast(channels, dtype), dims);
    };
    const Value variance = op.operands[batch_norm_running_variance];
    Value rstd = b.op("rsqrt", {b.add(b.cast(variance, dtype), op.attributes.number("eps"))}, {}, "rstd");
    if (op.operands[1]) rstd = b.mul(rstd, b.cast(op.operands[1], dtype));
    const Value centred = b.sub(b.cast(op.operands[0], dtype), beside(op.operands[batch_norm_running_mean]));
    Value y = b.mul(centred, beside(rstd));
    if (op.operands[2]) y = b.add(y, beside(op.operands[2]));
    return b.cast(y, type.dtype);
}

class EvaluationMaker {
  public:
    explicit EvaluationMaker(Module& module) : module_(module) {}

    // The function and those that it calls, behind the module's others.
    void run(const std::optional<ClassScores>& classes) {
        Function f = module_.main();
        f.name = evaluate_function;
        f.results.resize(1);
        f.result_names.clear();
        std::vector<std::pair<const char*, Value>> sums = {{"loss_sum", f.results[0]}};
        Builder b(f);
        Provenance provenance;
        provenance.scope = "loss";
        b.set_provenance(provenance);
        sums.front().second = b.cast(f.results[0], DType::f32);
        if (classes) {
            const Value labels = b.reshape(classes->labels, {f.type(classes->scores).dims[0]});
            sums.emplace_back("label_count", b.op("cross_entropy_weight", {labels},
                                                  {{"ignore_index", classes->ignore_index}}, "labels"));
            const Value best =
                b.op("argmax", {classes->scores}, {{"axis", std::int64_t{1}}, {"keep_dims", false}}, "best_class");
            const Value hit = b.op("eq", {best, b.cast(labels, DType::i64)}, {}, "hit");
            sums.emplace_back("label_hits", b.reduce_sum(b.cast(hit, DType::f32), {0}));
        }
        f.results.clear();
        for (const auto& [name, value] : sums) {
            const Value before =
                f.add_argument(Type::tensor(DType::f32, {}), unique_value_name(f, name), scalar_info(name));
            f.result_names.push_back(f.info(before).name);
            f.results.push_back(b.op("add", {before, value}, {}, f.info(before).name + "_after"));
        }
        remove_dead_code(f);
        rewrite(f);
        module_.functions.push_back(std::move(f));
        const std::vector<std::string> made = callees_first(module_, module_.functions.back());
        leave_out_unread_results(module_, made);
        leave_out_unread_arguments(module_, made);
    }

  private:
    // What `name` is in an evaluation.
    std::string evaluated(const std::string& name) {
        const auto at = names_.find(name);
        if (at != names_.end()) return at->second;
        Function f = *module_.find(name);
        f.name = module_.unique_function_name(name + "_evaluation");
        names_[name] = f.name;
        rewrite(f);
        const std::string out = f.name;
        module_.functions.push_back(std::move(f));
        return out;
    }

    void rewrite(Function& f) {
        std::map<Value, Value> replaced;
        const std::vector<Op> ops = std::exchange(f.ops, {});
        Builder b(f);
        for (Op op : ops) {
            b.set_provenance(op.provenance);
            for (Value& v : op.operands)
                if (const auto at = replaced.find(v); at != replaced.end()) v = at->second;
            if (op.name == "dropout") {
                replaced[op.results[0]] = op.operands[0];
                continue;
            }
            if (is_norm_of_running(op)) {
                replaced[op.results[0]] = normed_by_running(b, op);
                replaced[op.results[1]] = op.operands[batch_norm_running_mean];
                replaced[op.results[2]] = op.operands[batch_norm_running_variance];
                continue;
            }
            if (drops(op)) {
                op.attributes.erase("dropout");
                op.operands.resize(sdpa_seed);
                while (!op.operands.back()) op.operands.pop_back();
            }
            for (const char* attribute : {"callee", "body"})
                if (op.attributes.has(attribute))
                    op.attributes.set(attribute, evaluated(op.attributes.string(attribute)));
            f.ops.push_back(std::move(op));
        }
        for (Value& v : f.results)
            if (const auto at = replaced.find(v); at != replaced.end()) v = at->second;
        remove_dead_code(f);
    }

    Module& module_;
    std::map<std::string, std::string> names_;  // by the function that is trained
};

bool any_op(const Module& module, bool (*asked)(const Op&)) {
    return std::any_of(module.functions.begin(), module.functions.end(),
                       [&](const Function& f) { return std::any_of(f.ops.begin(), f.ops.end(), asked); });
}

std::size_t count_of(const Function& f, ArgInfo::Kind kind) {
    return static_cast<std::size_t>(std::count_if(f.argument_info.begin(), f.argument_info.end(),
                                                  [&](const ArgInfo& info) { return info.kind == kind; }));
}

}  // namespace

Module add_evaluation(Module module, const EvaluationOptions& options, Report& report) {
    std::optional<ClassScores> classes = class_scores(module.main());
    if (classes && classes->of_tokens && !options.token_accuracy) classes.reset();  // whose measure is the perplexity
    if (options.token_accuracy && (!classes || !options.function))
        report.warning(evaluate_function, "",
                       classes ? "--token-accuracy counts nothing: a naive program has the forward pass of a step alone"
                               : "--token-accuracy counts nothing: the loss is not one cross entropy of classes");
    const std::size_t buffers = count_of(module.main(), ArgInfo::Kind::buffer);
    const bool needed = classes || buffers > 0 || options.of_its_own || any_op(module, drops);
    if (!needed || !options.function) return module;
    Module with = module;
    EvaluationMaker(with).run(classes);
    const Function& evaluate = *with.find(evaluate_function);
    const bool draws = std::any_of(evaluate.argument_info.begin(), evaluate.argument_info.end(), is_seed);
    if (draws || count_of(evaluate, ArgInfo::Kind::buffer) != buffers) {
        report.declined(evaluate_function, "",
                        draws ? "numbers are drawn that belong to no dropout"
                              : "not every buffer that the model moves is a statistic of a batch norm");
        return module;
    }
    report.done(evaluate_function, "",
                classes ? "the model in evaluation, which counts labels whose score is the largest"
                        : "the model in evaluation");
    return with;
}

}  // namespace thunderc
