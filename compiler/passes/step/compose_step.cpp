// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/compose_step.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/state_layout.h"

namespace thunderc {
namespace {

ArgInfo scalar_info(const std::string& name) {
    ArgInfo info;
    info.kind = ArgInfo::Kind::scalar;
    info.names = {name};
    return info;
}

Value scalar_argument(Function& f, const std::string& value, const std::string& name, DType dtype = DType::f32) {
    return f.add_argument(Type::tensor(dtype, {}), unique_value_name(f, value), scalar_info(name));
}
Value scalar_argument(Function& f, const std::string& name, DType dtype = DType::f32) {
    return scalar_argument(f, name, name, dtype);
}

// What main gives: result 0 is the loss, then its weights, then what buffers will be, then a gradient for each
// trainable parameter in order.
struct MainResults {
    std::vector<std::size_t> trainable;  // arguments
    std::size_t first_moved = 1, first_gradient = 1;
};

MainResults main_results(const Function& main) {
    MainResults out;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info.at(k);
        if (info.kind == ArgInfo::Kind::parameter && info.trainable && is_float(main.type(main.arguments[k]).dtype))
            out.trainable.push_back(k);
    }
    if (out.trainable.empty()) {
        Diagnostic d;
        d.message = "there is nothing to train: no trainable parameter reaches the loss";
        d.help = "freeze fewer (--freeze, --train-only), or say with --trainable which tensors are parameters";
        // A copy of a layer that begins with its numbers, as a target network does, may be one tensor with it.
        for (const ArgInfo& info : main.argument_info) {
            if (info.kind != ArgInfo::Kind::parameter || info.trainable || info.aliases.empty() ||
                info.aliases.front().empty())
                continue;
            d.actual = fmt::format("{} is frozen, and so is {}: they are one tensor", info.names.front(),
                                   fmt::join(info.aliases.front(), ", "));
            d.help +=
                "; where they are two in the model, torch.onnx.export(..., dynamo=True, optimize=False) keeps both";
            break;
        }
        throw UserError(std::move(d));
    }
    check(main.results.size() > out.trainable.size(),
          fmt::format("main gives {} results for {} trainable parameters", main.results.size(), out.trainable.size()));
    out.first_gradient = main.results.size() - out.trainable.size();
    const std::size_t moved = moved_buffers(main, out.first_gradient);
    const auto buffers = std::count_if(main.argument_info.begin(), main.argument_info.end(),
                                       [](const ArgInfo& info) { return info.kind == ArgInfo::Kind::buffer; });
    check(static_cast<std::size_t>(buffers) == moved,
          fmt::format("main has {} buffers and says what {} will be", buffers, moved));
    out.first_moved = out.first_gradient - moved;
    return out;
}

// Main divides the terms of its loss by weights that it is given.
bool has_terms(const Function& main) {
    return std::any_of(main.argument_info.begin(), main.argument_info.end(), [](const ArgInfo& info) {
        return info.kind == ArgInfo::Kind::scalar && info.names.front() == loss_weight_scalar(0);
    });
}

Function loss_weight(const Function& main, const MainResults& results) {
    Function f = main;
    f.results.assign(main.results.begin() + 1, main.results.begin() + static_cast<std::ptrdiff_t>(results.first_moved));
    remove_dead_ops(f);
    const Uses uses(f);
    std::vector<Value> arguments;
    std::vector<ArgInfo> infos;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        Value v = main.arguments[k];
        if (uses.users[v.index].empty() && !uses.is_result[v.index]) continue;
        const ArgInfo& info = main.argument_info[k];
        check(info.kind == ArgInfo::Kind::input || info.kind == ArgInfo::Kind::constant || is_seed(info),
              "the weight of the loss depends on " + main.info(v).name + ", which is no input");
        arguments.push_back(v);
        infos.push_back(info);
    }
    f.arguments = std::move(arguments);
    f.argument_info = std::move(infos);
    f.name = loss_weight_function;
    f.result_names.clear();
    const bool terms = has_terms(main);
    Builder b(f);
    for (std::size_t k = 0; k < f.results.size(); ++k) {
        const std::string name = terms ? loss_weight_scalar(k) : "loss_weight";
        const Value before =
            f.add_argument(Type::tensor(DType::f32, {}),
                           unique_value_name(f, terms ? fmt::format("loss_weight_{}", k) : name), scalar_info(name));
        f.result_names.push_back(f.info(before).name);
        f.results[k] = b.op("add", {before, f.results[k]}, {}, f.info(before).name + "_after");
    }
    compact_values(f);
    return f;
}

Value buffer_argument(const Function& main, const std::string& name) {
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::buffer && main.argument_info[k].names.front() == name)
            return main.arguments[k];
    throw InternalError("there is no buffer " + name);
}

Function forward_backward(const Function& main, const MainResults& results) {
    Function f = main;
    f.name = forward_backward_function;
    std::vector<Value> before;
    ValueNames names(f);
    for (std::size_t k : results.trainable) {
        Value parameter = f.arguments[k];
        before.push_back(f.add_argument(f.type(parameter), names.unique("grad_" + f.info(parameter).name),
                                        state_info(main.argument_info[k], gradient_state)));
    }
    Value first = scalar_argument(f, "first_micro_step", DType::boolean);
    Value loss_before = scalar_argument(f, "loss_sum");
    f.results.assign(results.trainable.size() + 1, {});
    f.result_names.assign(f.results.size(), {});

    // Each gradient is added right behind the op that gives it, so that it need not be kept until the end.
    std::map<Value, std::vector<std::size_t>> gradients;
    for (std::size_t k = 0; k < results.trainable.size(); ++k)
        gradients[main.results[results.first_gradient + k]].push_back(k);
    std::vector<Op> ops = std::exchange(f.ops, {});
    Builder b(f);
    auto accumulate = [&](Value gradient) {
        auto at = gradients.find(gradient);
        if (at == gradients.end()) return;
        for (std::size_t k : at->second) {
            const std::string& name = f.info(before[k]).name;
            f.result_names[k] = name;
            f.results[k] = b.op("accumulate_gradient", {before[k], gradient, first}, {}, name + "_after");
        }
    };
    // So is the loss: it is known where the forward pass ends.
    auto add_loss = [&](Value made) {
        if (made != main.results[0]) return;
        b.set_provenance({});
        f.results.back() = b.op("add", {loss_before, b.cast(made, DType::f32)}, {}, "loss_sum_after");
        f.result_names.back() = f.info(loss_before).name;
    };
    for (Value v : main.arguments) {
        accumulate(v);  // the gradient of a sum of parameters may be dloss itself
        add_loss(v);
    }
    for (Op& op : ops) {
        b.set_provenance(op.provenance);
        const std::vector<Value> made = op.results;
        f.ops.push_back(std::move(op));
        for (Value v : made) {
            accumulate(v);
            add_loss(v);
        }
    }
    b.set_provenance({});
    for (std::size_t r = results.first_moved; r < results.first_gradient; ++r) {
        const Value buffer = buffer_argument(main, main.result_names[r]);
        const auto at = static_cast<std::ptrdiff_t>(f.results.size() - 1);
        f.results.insert(f.results.begin() + at, main.results[r]);
        f.result_names.insert(f.result_names.begin() + at, f.info(buffer).name);
    }
    remove_dead_code(f);
    return f;
}

// Whether there is a parameter whose states may be codes: a model's norms alone have none.
bool has_coded(const Function& main, const MainResults& results, const thunder::RuleInfo& rule) {
    return std::any_of(results.trainable.begin(), results.trainable.end(), [&](std::size_t k) {
        const std::size_t rank = main.type(main.arguments[k]).dims.size();
        const bool outer = main.argument_info[k].outer;
        return thunder::is_coded(rank, outer ? thunder::rules::Stepped::by_element : rule.stepped(rank));
    });
}

Function update(const Function& main, const MainResults& results, const thunder::RuleInfo& rule, bool coded) {
    coded = coded && has_coded(main, results, rule);
    Function f;
    f.name = update_function;
    std::vector<Value> tensors, gradients;
    ValueNames names(f);
    for (std::size_t k : results.trainable) {
        Value v = main.arguments[k];
        tensors.push_back(f.add_argument(main.type(v), names.unique(main.info(v).name), main.argument_info[k]));
    }
    auto group = [&](std::string_view prefix) {
        for (std::size_t k = 0; k < results.trainable.size(); ++k) {
            Value v = main.arguments[results.trainable[k]];
            tensors.push_back(f.add_argument(main.type(v),
                                             names.unique(fmt::format("{}_{}", prefix, main.info(v).name)),
                                             state_info(main.argument_info[results.trainable[k]], prefix)));
        }
    };
    group(gradient_state);
    gradients.assign(tensors.end() - static_cast<std::ptrdiff_t>(results.trainable.size()), tensors.end());
    std::vector<std::int64_t> by_element;  // of each tensor, those of a family one by one
    bool excepted = false;
    for (std::size_t k : results.trainable) {
        const Type& type = main.type(main.arguments[k]);
        const bool outer = main.argument_info[k].outer;
        excepted = excepted || outer;
        by_element.insert(by_element.end(), static_cast<std::size_t>(type.is_family() ? type.count : 1), outer ? 1 : 0);
    }
    for (std::size_t state = 0; state < rule.states.size(); ++state) {
        group(rule.states[state]);
        for (std::size_t k = 0; k < results.trainable.size(); ++k) {
            const ArgInfo& info = main.argument_info[results.trainable[k]];
            Type& type = f.info(tensors[tensors.size() - results.trainable.size() + k]).type;
            const auto stepped = info.outer ? thunder::rules::Stepped::by_element : rule.stepped(type.dims.size());
            if (coded && thunder::is_coded(type.dims.size(), stepped)) type.dtype = DType::u8;
            type.dims = thunder::dims_of_state(rule.shape_of_state(state, stepped), type.dims);
        }
    }
    for (std::size_t state = 0; coded && state < rule.states.size(); ++state) {
        const std::size_t count = results.trainable.size(), states = (2 + state) * count;
        group(thunder::scales_of(rule.states[state]));
        for (std::size_t k = 0; k < count; ++k) {
            const Type codes = f.type(tensors[states + k]);
            Type& type = f.info(tensors[tensors.size() - count + k]).type;
            type.dtype = DType::f32;
            type.dims = {codes.dtype == DType::u8 ? thunder::blocks_of_codes(codes.elements()) : 0};
        }
    }
    Attributes attributes;
    if (excepted) attributes.set("by_element", by_element);
    if (coded) attributes.set("coded", true);

    std::vector<Value> operands = tensors;
    for (const std::string& number : rule.numbers)
        operands.push_back(scalar_argument(f, number, rule_scalar(rule.name, number)));
    Value max_norm = scalar_argument(f, "max_grad_norm");
    Value decay_all = scalar_argument(f, "decay_all", DType::boolean);

    Builder b(f);
    Value norm = b.op("global_norm", gradients, {}, "grad_norm");
    operands.push_back(b.op("clip_factor", {norm, max_norm}, {}, "clip_factor"));
    operands.push_back(decay_all);
    f.results = b.emit(rule.name, operands, attributes);
    if (rule.steps_wholes()) {
        f.info(f.results.back()).name = "scratch";  // the call's own
        f.results.pop_back();
    }
    const std::size_t count = results.trainable.size();
    for (std::size_t r = 0; r < f.results.size(); ++r) {
        // The results are parameters and states: the tensors without the second group, the gradients.
        Value replaced = tensors[r < count ? r : r + count];
        f.result_names.push_back(f.info(replaced).name);
        f.info(f.results[r]).name = f.info(replaced).name + "_after";
    }
    f.results.push_back(norm);
    f.result_names.emplace_back("grad_norm");
    return f;
}

}  // namespace

Module compose_step(Module module, const StepOptions& options, Report& report) {
    const thunder::RuleInfo* rule = thunder::find_rule(options.optimizer);
    check(rule != nullptr, "there is no optimizer " + options.optimizer);
    const Function main = std::move(module.main());
    const MainResults results = main_results(main);
    std::vector<Function> functions;
    functions.push_back(forward_backward(main, results));
    const std::size_t weights = results.first_moved - 1;
    if (weights > 0) functions.push_back(loss_weight(main, results));
    functions.push_back(update(main, results, *rule, options.coded_states));
    if (const Function* evaluate = module.find(evaluate_function)) functions.push_back(*evaluate);
    const std::size_t entries = functions.size();
    for (Function& f : std::span(module.functions).subspan(1))
        if (f.name != evaluate_function) functions.push_back(std::move(f));
    module.functions = std::move(functions);
    remove_unreached_functions(module, entries);
    report.done("compose_step", options.optimizer,
                fmt::format("{} trainable parameters, the loss {}", results.trainable.size(),
                            weights == 0       ? "is the mean of the micro-steps'"
                            : !has_terms(main) ? "is a mean: its weight is summed first"
                                               : fmt::format("has terms: {} weights are summed first", weights)));
    return module;
}

}  // namespace thunderc
