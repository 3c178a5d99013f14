// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/add_loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/analysis/batch_share.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/passes/step/label_positions.h"
#include "compiler/passes/step/split_loss.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

class LossAdder {
  public:
    LossAdder(Module module, const std::string& loss, Report& report, bool several_ranks = true)
        : module_(std::move(module)),
          main_(module_.main()),
          builder_(main_),
          chooser_(main_, loss),
          report_(report),
          several_ranks_(several_ranks),
          uses_(main_) {}

    Module run() {
        const ChosenLoss chosen = chooser_.choose();
        std::set<std::size_t> said;
        for (const ChosenTerm& term : chosen.terms)
            if (!term.named && said.insert(term.result).second) say_which(chosen, term);
        const ChosenTerm& first = chosen.terms.front();
        if (chooser_.guesses() && first.added.loss != nullptr) {
            note_tokens(first.result);
            say_names(first);
        }
        return run(chosen);
    }

    Module run(const ChosenLoss& chosen) {
        if (chosen.has_own() && has_tokens()) describe_labels(main_);
        find_next_tokens(chosen.terms);
        const ChosenTerm& first = chosen.terms.front();
        if (chosen.terms.size() > 1 || first.factor != 1)
            append_sum(chosen.terms);
        else if (first.added.loss == nullptr)
            split(first.result);
        else
            finish(append(first));
        return std::move(module_);
    }

  private:
    // Of a result that nobody named: why it is taken, and what becomes of the others.
    void say_which(const ChosenLoss& chosen, const ChosenTerm& term) {
        std::string others;
        std::size_t left = 0;
        for (std::size_t k = 0; k < main_.results.size(); ++k) {
            const bool read = std::any_of(chosen.terms.begin(), chosen.terms.end(),
                                          [&](const ChosenTerm& other) { return other.result == k; });
            if (read) continue;
            others += (others.empty() ? "" : ", ") + chooser_.result_name(k);
            ++left;
        }
        if (others.empty()) return;
        std::string why, more;
        if (term.added.loss == nullptr) {
            why = term.name == "loss" ? "a scalar called loss" : "a scalar, and the first";
        } else {
            why = term.name == "logits"                               ? "called so"
                  : main_.type(main_.results[term.result]).rank() > 1 ? "the first of two dimensions or more"
                                                                      : "the first of one dimension";
            if (const std::string offer = chooser_.guesses()
                                              ? chooser_.offer_scalars("; if not, --loss cross-entropy says so")
                                              : std::string();
                !offer.empty())
                more = fmt::format("; a {} is added; {}", term.added.loss->name, offer);
        }
        report_.warning("output", term.name,
                        fmt::format("is what is trained on, being {}; {} not computed (--output NAME takes another){}",
                                    why, others + (left == 1 ? " is" : " are"), more));
    }

    // Of a loss that nobody named: that inputs which the graph has are not those that the loss is made of.
    void say_names(const ChosenTerm& term) {
        for (std::size_t k = 0; k < term.inputs.size(); ++k)
            if (const std::string& own = term.added.loss->inputs[k].name; chooser_.is_input(own))
                report_.warning("loss", term.name,
                                fmt::format("is trained on with a {} against the new input {}; the model's own input "
                                            "{} is something else (--loss {} says that this is meant)",
                                            term.added.loss->name, term.inputs[k], own, term.added.loss->name));
    }

    const Op* definition(Value v) const {
        const std::int32_t at = v ? uses_.definition[v.index] : -1;
        return at < 0 ? nullptr : &main_.ops[static_cast<std::size_t>(at)];
    }

    // The loss, and its weights.
    void finish(const std::vector<Value>& made) {
        main_.results = made;
        main_.result_names = {"loss"};
        for (std::size_t k = 0; k + 1 < made.size(); ++k)
            main_.result_names.push_back(made.size() == 2 ? "weight" : fmt::format("weight_{}", k));
    }

    void finish(const SplitLoss& split) {
        std::vector<Value> made = {split.loss};
        made.insert(made.end(), split.weights.begin(), split.weights.end());
        finish(made);
    }

    // ---- the model's own loss
    // --------------------------------------------------------------------------------------------

    void split(std::size_t result) {
        const std::string name = chooser_.result_name(result);
        if (const Op* op = definition(main_.results[result])) builder_.set_provenance(op->provenance);
        const SplitLoss split = split_loss(main_, main_.results[result], builder_.provenance());
        if (split.averaged && several_ranks_)
            report_.warning("loss", name, split.text);
        else
            report_.done("loss", name, split.text);
        finish(split);
    }

    bool has_tokens() const {
        return std::any_of(main_.argument_info.begin(), main_.argument_info.end(),
                           [](const ArgInfo& info) { return info.source == "tokens"; });
    }

    // ---- a loss on logits
    // ------------------------------------------------------------------------------------------------

    // An argument behind the inputs that there are.
    Value add_argument(Type type, ArgInfo info) {
        std::size_t at = 0;
        for (std::size_t k = 0; k < main_.arguments.size(); ++k)
            if (main_.argument_info[k].kind == ArgInfo::Kind::input) at = k + 1;
        const Value v = main_.add_value(std::move(type), info.names.front());
        main_.arguments.insert(main_.arguments.begin() + static_cast<std::ptrdiff_t>(at), v);
        main_.argument_info.insert(main_.argument_info.begin() + static_cast<std::ptrdiff_t>(at), std::move(info));
        return v;
    }

    // Of an input `name` of that type: the rows of the batch are its first dimension, as of every other input. Those
    // that the result has folded with what stands behind them, [batch * positions, classes], get two dimensions.
    Dims dims_of_input(std::size_t result, const std::string& name, const Type& labels) const {
        const BatchShare& share = chooser_.share(result);
        const std::int64_t rows = batch_rows(main_);
        Dims dims = labels.dims;
        if (rows == 0 || dims.empty() || dims[0] == 0) return dims;
        const bool known = share.kind == BatchShare::Kind::rows;
        if (known ? share.axis == 0 && share.outer == 1 : dims[0] == rows) {
            if (dims[0] == rows) return dims;
            dims[0] /= rows;
            dims.insert(dims.begin(), rows);
            return dims;
        }
        const std::string where =
            !known ? "a dimension 0 that is not the batch's"
                   : fmt::format("the batch in dimension {}{}", share.axis,
                                 share.outer > 1 ? fmt::format(", behind {} others", share.outer) : "");
        fail(fmt::format("the {} of {} would not have the batch's rows in their first dimension", name,
                         chooser_.result_name(result)),
             "let the model return [batch, …], as y.transpose(0, 1) does of [positions, batch, …]; or export it with "
             "its loss",
             fmt::format("a result with the {} row{} of the batch in dimension 0", rows, rows == 1 ? "" : "s"),
             fmt::format("{} {}, with {}", chooser_.result_name(result), to_string(main_.type(main_.results[result])),
                         where));
    }

    // Who takes a result for scores of the next token takes what they are scores of for tokens, whatever it is called.
    void note_tokens(std::size_t result) {
        const std::vector<std::size_t> ids = chooser_.ids_of(result);
        if (!has_tokens() && ids.size() == 1) main_.argument_info[ids[0]].source = "tokens";
    }

    // Of several results with classes for labels one has scores of the next token: the only one with scores for each
    // token, or the one called logits. What labels of the others are nobody knows, be it the token behind the next.
    void find_next_tokens(const std::vector<ChosenTerm>& terms) {
        const auto has_classes = [&](const ChosenTerm& term) {
            return term.added.loss != nullptr &&
                   std::any_of(term.added.loss->inputs.begin(), term.added.loss->inputs.end(), [&](const LossInput& i) {
                       return is_integer(i.type(main_.type(main_.results[term.result])).dtype);
                   });
        };
        std::set<std::size_t> all, of_tokens;
        for (const ChosenTerm& term : terms) {
            if (!has_classes(term)) continue;
            all.insert(term.result);
            if (!chooser_.ids_of(term.result).empty()) of_tokens.insert(term.result);
        }
        next_tokens_ = all;
        if (all.size() < 2) return;
        if (of_tokens.size() > 1)
            std::erase_if(of_tokens, [&](std::size_t k) { return chooser_.result_name(k) != "logits"; });
        next_tokens_ = of_tokens;
    }

    // Where the last dimension is so short that the loss is one number whatever the model gives, nothing is trained.
    void require_width(std::size_t result, const AddedLoss& added) const {
        const Type& type = main_.type(main_.results[result]);
        if (type.dims.back() >= added.least_width) return;
        fail(fmt::format("--loss {} does not change with {}, whose last dimension is {}", added.name,
                         chooser_.result_name(result), type.dims.back()),
             "say with another --loss what it is: bce-with-logits for the score of one class, mse and the like for "
             "numbers",
             fmt::format("a last dimension of {} or more", added.least_width),
             fmt::format("{} {}", chooser_.result_name(result), to_string(type)));
    }

    // Lists with a number for each class have as many as there are.
    void require_numbers(std::size_t result, const GivenLoss& added) const {
        const Type& type = main_.type(main_.results[result]);
        for (const LossOption& option : added.loss->options) {
            if (option.kind != LossOption::Kind::number_of_each_class) continue;
            const std::size_t given = added.numbers.numbers(option.name).size();
            const auto classes = static_cast<std::size_t>(type.dims.back());
            if (given == 0 || given == classes) continue;
            fail(fmt::format("{} of --loss {} has {} number{}, and {} has {} classes", option.name, added.loss->name,
                             given, given == 1 ? "" : "s", chooser_.result_name(result), classes),
                 "give one for each class, in their order, and 1 for those that count as they are",
                 fmt::format("{} numbers", classes),
                 fmt::format("{} {}", chooser_.result_name(result), to_string(type)));
        }
    }

    // The loss, and its weight where it has one; with the inputs that are not there yet.
    std::vector<Value> append(const ChosenTerm& term) {
        const AddedLoss& added = *term.added.loss;
        require_width(term.result, added);
        require_numbers(term.result, term.added);
        const Value logits = main_.results[term.result];
        const Type type = main_.type(logits);
        std::vector<Value> inputs;
        std::string against = term.inputs.size() == 1 ? "against the new input " : "against the new inputs ";
        for (std::size_t k = 0; k < term.inputs.size(); ++k) {
            const std::string& name = term.inputs[k];
            against += fmt::format("{}{}", k == 0 ? "" : k + 1 == term.inputs.size() ? " and " : ", ", name);
            Value& made = inputs_[name];
            if (!made) made = add_input(term.result, added.inputs[k], name);
            inputs.push_back(made);
        }
        Provenance provenance;
        provenance.scope = "loss";
        builder_.set_provenance(provenance);
        for (std::size_t k = 0; k < inputs.size(); ++k)
            inputs[k] = builder_.reshape(inputs[k], added.inputs[k].type(type).dims);
        const std::string times = term.factor == 1 ? "" : fmt::format(", times {}", term.factor);
        report_.done("loss", term.name, added.said(type, against, term.added.numbers) + times);
        return added.build(builder_, logits, inputs, term.added.numbers);
    }

    Value add_input(std::size_t result, const LossInput& input, const std::string& name) {
        const Type& type = main_.type(main_.results[result]);
        const Type wanted = input.type(type);
        ArgInfo info;
        info.kind = ArgInfo::Kind::input;
        info.names = {name};
        info.added = true;
        info.batched = input.batched && batch_rows(main_) > 0;
        if (is_integer(wanted.dtype) && has_tokens() && next_tokens_.contains(result)) info.source = "next_tokens";
        if (is_float(wanted.dtype)) info.note = input.holds;  // of integers their range is told
        if (input.ids != nullptr) {
            info.entries = input.ids(type).entries;
            info.ignore_index = input.ids(type).ignore_index;
        }
        const Dims dims = input.batched ? dims_of_input(result, name, wanted) : wanted.dims;
        return add_argument(Type::tensor(wanted.dtype, dims), std::move(info));
    }

    // Each as the mean that it is, times its factor; the sum is taken apart again, so that each keeps its weight.
    void append_sum(const std::vector<ChosenTerm>& terms) {
        Provenance provenance;
        provenance.scope = "loss";
        Value sum;
        for (const ChosenTerm& term : terms) {
            Value value = main_.results[term.result];
            if (term.added.loss != nullptr) {
                const std::vector<Value> made = append(term);
                value = made.size() == 1 ? made.front() : builder_.div(made[0], made[1]);
            } else {
                builder_.set_provenance(provenance);
                value = builder_.cast(builder_.reshape(value, {}), DType::f32);
                report_.done(
                    "loss", term.name,
                    fmt::format("the model's own{}", term.factor == 1 ? "" : fmt::format(", times {}", term.factor)));
            }
            if (term.factor != 1) value = builder_.mul(value, term.factor);
            sum = sum ? builder_.add(sum, value) : value;
        }
        const SplitLoss split = split_loss(main_, sum, provenance, true);
        const std::string what = terms.size() > 1 ? "sum" : terms.front().name;
        if (split.averaged && several_ranks_)
            report_.warning("loss", what, split.text);
        else
            report_.done("loss", what, split.text);
        finish(split);
    }

    Module module_;
    Function& main_;
    Builder builder_;
    const LossChooser chooser_;
    std::map<std::string, Value> inputs_;  // that were added, by name
    std::set<std::size_t> next_tokens_;    // results whose labels are the tokens behind the inputs'
    Report& report_;
    bool several_ranks_;
    Uses uses_;
};

// Behind the loss and its weights, as before behind what the model gives: what its buffers will be.
Module with_moved_buffers(Module module, const std::function<Module(Module)>& add) {
    const Function& main = module.main();
    const auto outputs = static_cast<std::ptrdiff_t>(main.results.size() - moved_buffers(main, main.results.size()));
    const std::vector<Value> moved(main.results.begin() + outputs, main.results.end());
    std::vector<std::string> names;
    if (!moved.empty()) names.assign(main.result_names.begin() + outputs, main.result_names.end());
    Module out = add(outputs_alone(std::move(module)));
    out.main().results.insert(out.main().results.end(), moved.begin(), moved.end());
    out.main().result_names.insert(out.main().result_names.end(), names.begin(), names.end());
    return out;
}

}  // namespace

Module add_loss(Module module, const std::string& loss, Report& report, bool several_ranks) {
    return with_moved_buffers(std::move(module), [&](Module graph) {
        return LossAdder(std::move(graph), loss, report, several_ranks).run();
    });
}

Module append_loss(Module module, const ChosenLoss& chosen, Report& report) {
    return with_moved_buffers(std::move(module),
                              [&](Module graph) { return LossAdder(std::move(graph), "auto", report).run(chosen); });
}

}  // namespace thunderc
