// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/add_loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/analysis/batch_share.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/step/split_loss.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

[[noreturn]] void fail(std::string message, std::string help, std::string expected = {}, std::string actual = {}) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    d.expected = std::move(expected);
    d.actual = std::move(actual);
    throw UserError(std::move(d));
}

class LossAdder {
  public:
    LossAdder(Module module, const std::string& loss, Report& report, bool several_ranks = true)
        : module_(std::move(module)),
          main_(module_.main()),
          builder_(main_),
          loss_(loss),
          report_(report),
          several_ranks_(several_ranks),
          uses_(main_),
          shares_(batch_shares(main_)) {
        if (loss_ != "auto" && loss_ != "none") given_ = parse_loss(loss_);
    }

    ChosenLoss choose() const {
        const AddedLoss* added = given_.loss;
        if (const std::optional<std::size_t> own = own_loss()) {
            if (added != nullptr)
                fail(fmt::format("--loss {} is given, but the model ends in a loss of its own, {}", loss_,
                                 result_name(*own)),
                     "leave --loss out" + instead_of(*own, *added));
            return {*own, result_name(*own), {}};
        }
        if (loss_ == "none")
            fail("training needs a loss, and the model ends in none",
                 fmt::format("{}use --loss {}, or export a model that ends in its loss", offer_scalars("; if not, "),
                             loss_names()),
                 scalars().empty() ? "a scalar result" : "a scalar result that is the first or is called loss",
                 outputs());
        const std::size_t k = logits(added);
        return {k, result_name(k), added != nullptr ? given_ : guess(k)};
    }

    ChosenLoss choose_and_judge() {
        ChosenLoss out = choose();
        if (out.added.loss != nullptr) return out;
        const SplitLoss split = split_loss(main_, main_.results[out.result], {});
        out.whole = !split.averaged && !split.mixed;
        return out;
    }

    Module run() {
        const ChosenLoss chosen = choose();
        if (chosen.added.loss == nullptr) {
            say_which(chosen.result, chosen.name == "loss" ? "a scalar called loss" : "a scalar, and the first");
            split(chosen.result);
            return std::move(module_);
        }
        const std::string offer =
            given_.loss == nullptr ? offer_scalars("; if not, --loss cross-entropy says so") : std::string();
        say_which(chosen.result,
                  chosen.name == "logits"                               ? "called so"
                  : main_.type(main_.results[chosen.result]).rank() > 1 ? "the first of two dimensions or more"
                                                                        : "the first of one dimension",
                  offer.empty() ? std::string() : fmt::format("; a {} is added; {}", chosen.added.loss->name, offer));
        if (given_.loss == nullptr) note_tokens(chosen.result);
        append(chosen.result, chosen.added);
        return std::move(module_);
    }

    Module run(std::size_t result, const GivenLoss& added) {
        append(result, added);
        return std::move(module_);
    }

  private:
    std::string result_name(std::size_t k) const {
        return k < main_.result_names.size() ? main_.result_names[k] : std::to_string(k);
    }

    std::string outputs() const {
        std::string text;
        for (std::size_t k = 0; k < main_.results.size(); ++k)
            text += fmt::format("{}{} {}", k == 0 ? "" : ", ", result_name(k), to_string(main_.type(main_.results[k])));
        return text.empty() ? "no result" : text;
    }

    // `more`: what else there is to say of the others.
    void say_which(std::size_t taken, const std::string& why, const std::string& more = {}) {
        std::string others;
        for (std::size_t k = 0; k < main_.results.size(); ++k)
            if (k != taken) others += (others.empty() ? "" : ", ") + result_name(k);
        if (others.empty()) return;
        report_.warning("output", result_name(taken),
                        fmt::format("is what is trained on, being {}; {} not computed (--output NAME takes another){}",
                                    why, others + (main_.results.size() == 2 ? " is" : " are"), more));
    }

    // Which result is the model's own loss: a scalar that is called so, or that is the first result.
    std::optional<std::size_t> own_loss() const {
        for (std::size_t k = 0; k < main_.results.size(); ++k)
            if (is_scalar(k) && result_name(k) == "loss") return k;
        return !main_.results.empty() && is_scalar(0) ? std::optional<std::size_t>(0) : std::nullopt;
    }

    std::vector<std::string> scalars() const {
        std::vector<std::string> names;
        for (std::size_t k = 0; k < main_.results.size(); ++k)
            if (is_scalar(k)) names.push_back(result_name(k));
        return names;
    }

    // A scalar that is not taken may be the model's loss, under the name that an exporter gave it: how to take it, and
    // `if_not`. "" where there is none.
    std::string offer_scalars(const std::string& if_not) const {
        const std::vector<std::string> names = scalars();
        if (names.empty()) return "";
        const bool one = names.size() == 1;
        return fmt::format("if {}{} is the model's loss, --output {} trains on it{}", one ? "" : "one of ",
                           fmt::join(names, ", "), one ? names.front() : "NAME", if_not);
    }

    // Behind "leave --loss out", how to have it all the same.
    std::string instead_of(std::size_t own, const AddedLoss& added) const {
        for (std::size_t k = 0; k < main_.results.size(); ++k)
            if (const Type& type = main_.type(main_.results[k]);
                k != own && type.is_tensor() && is_float(type.dtype) && type.rank() >= added.least_rank)
                return fmt::format(", or add --output {} to train on that with it", result_name(k));
        return ", or export the model without its loss";
    }

    // One number, however large the batch is: a result for each row is none, though a batch may have one row.
    bool is_scalar(std::size_t k) const {
        const Type& type = main_.type(main_.results[k]);
        return type.is_tensor() && is_float(type.dtype) && type.elements() == 1 && type.rank() <= 1 &&
               shares_[main_.results[k].index].kind != BatchShare::Kind::rows;
    }

    // What the loss is made of: of the results with as many dimensions as it needs the one called logits, or the first.
    // `added`: null where it is still to be said which loss.
    std::size_t logits(const AddedLoss* added) const {
        std::int64_t rank = added != nullptr ? added->least_rank : std::numeric_limits<std::int64_t>::max();
        for (const AddedLoss& loss : added_losses())
            if (added == nullptr) rank = std::min(rank, loss.least_rank);
        std::vector<std::size_t> candidates;
        for (std::size_t k = 0; k < main_.results.size(); ++k) {
            const Type& type = main_.type(main_.results[k]);
            if (!type.is_tensor() || !is_float(type.dtype) || type.rank() < rank) continue;
            if (result_name(k) == "logits") return k;
            candidates.push_back(k);
        }
        if (candidates.empty() && added != nullptr)
            fail(fmt::format("--loss {} needs a result of {} dimension{} or more, and the model has none", loss_, rank,
                             rank == 1 ? "" : "s"),
                 "export a model that ends in one, or in its loss", added->what, outputs());
        if (candidates.empty())
            fail("training needs a loss, and the model ends neither in logits nor in a scalar",
                 offer_scalars("; if not, ") + "export a model that ends in what a loss can be made of, or in its loss",
                 "logits or a scalar loss", outputs());
        // A number for each row is what is trained on where there is nothing else.
        const auto wide = std::find_if(candidates.begin(), candidates.end(),
                                       [&](std::size_t k) { return main_.type(main_.results[k]).rank() > 1; });
        return wide != candidates.end() ? *wide : candidates.front();
    }

    const Op* definition(Value v) const {
        const std::int32_t at = v ? uses_.definition[v.index] : -1;
        return at < 0 ? nullptr : &main_.ops[static_cast<std::size_t>(at)];
    }

    void finish(Value loss, const std::vector<Value>& weights) {
        main_.results = {loss};
        main_.result_names = {"loss"};
        for (std::size_t k = 0; k < weights.size(); ++k) {
            main_.results.push_back(weights[k]);
            main_.result_names.push_back(weights.size() == 1 ? "weight" : fmt::format("weight_{}", k));
        }
    }

    // ---- the model's own loss
    // --------------------------------------------------------------------------------------------

    void split(std::size_t result) {
        if (has_tokens()) describe_labels();
        const std::string name = result_name(result);
        if (const Op* op = definition(main_.results[result])) builder_.set_provenance(op->provenance);
        const SplitLoss split = split_loss(main_, main_.results[result], builder_.provenance());
        if (split.averaged && several_ranks_)
            report_.warning("loss", name, split.text);
        else
            report_.done("loss", name, split.text);
        finish(split.loss, split.weights);
    }

    // Of what is chosen or joined, the one operand that is no constant; none where there are several.
    Value only_computed(const Op& op) const {
        Value found;
        for (std::size_t k = op.name == "select" ? 1 : 0; k < op.operands.size(); ++k) {
            const Op* known = definition(op.operands[k]);
            if (known != nullptr && is_constant_op(*known)) continue;
            if (found) return {};
            found = op.operands[k];
        }
        return found;
    }

    // Along the positions of sequences: how far from their beginning values were taken, and how long the axes were
    // there.
    struct Positions {
        std::int64_t begin = 0;
        std::set<std::int64_t> extents;
    };

    std::size_t axis_of(const Op& op) const {
        const std::int64_t axis = op.attributes.integer("axis"), rank = main_.type(op.results[0]).rank();
        return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    }

    // One row of the batch an element: no positions lie along this dimension.
    bool is_batch(Value v, std::size_t axis) const {
        const BatchShare& share = shares_[v.index];
        return share.kind == BatchShare::Kind::rows && share.axis == axis && main_.type(v).dims[axis] == batch();
    }

    // Labels, followed back through what cuts, joins and masks them; what they come from is left in `labels`.
    Positions follow_labels(Value& labels) const {
        Positions out;
        const auto move = [&](Value from, std::size_t axis, std::int64_t by) {
            if (by == 0 || is_batch(from, axis)) return;
            out.begin += by;
            out.extents.insert(main_.type(from).dims[axis]);
        };
        for (const Op* op = definition(labels); op != nullptr; op = definition(labels)) {
            Value next;
            if (op->name == "slice") {
                next = op->operands[0];
                move(next, axis_of(*op), op->attributes.integer("begin"));
            } else if (op->name == "pad") {
                next = op->operands[0];
                const Dims low = op->attributes.integers("low");
                for (std::size_t d = 0; d < low.size(); ++d) move(next, d, -low[d]);
            } else if (op->name == "concat") {
                next = only_computed(*op);
                std::int64_t before = 0;
                for (Value part : op->operands) {
                    if (part == next) break;
                    before += main_.type(part).dims[axis_of(*op)];
                }
                if (next) move(next, axis_of(*op), -before);
            } else if (op->name == "select") {
                next = only_computed(*op);
            } else if (op->name == "reshape" || op->name == "cast" || op->name == "transpose") {
                next = op->operands[0];
            }
            labels = next;
        }
        for (std::int64_t d : labels ? main_.type(labels).dims : Dims{}) out.extents.insert(d);
        return out;
    }

    // Where logits begin among the positions that there are labels for: of slices of logits, or of what they are
    // directly computed from, along axes as long as the labels'. What a model puts in front of its sequences and takes
    // away again is none of these.
    std::int64_t begin_of_logits(Value v, const std::set<std::int64_t>& extents) const {
        std::int64_t begin = 0;
        auto classes = static_cast<std::size_t>(main_.type(v).rank() - 1);
        for (const Op* op = definition(v); op != nullptr; op = definition(v)) {
            const Dims& to = main_.type(v).dims;
            Value next = op->operands.empty() ? Value() : op->operands[0];
            if (!next || op->results.size() != 1) break;
            const Dims& from = main_.type(next).dims;
            if (op->name == "slice") {
                const std::size_t axis = axis_of(*op);
                if (axis != classes && !is_batch(next, axis) && extents.contains(from[axis]))
                    begin += op->attributes.integer("begin");
            } else if (op->name == "transpose") {
                classes = static_cast<std::size_t>(op->attributes.integers("permutation")[classes]);
            } else if (op->name == "reshape") {
                if (classes + 1 != to.size() || from.empty() || from.back() != to.back()) break;
                classes = from.size() - 1;
            } else if (op->name == "linear" || op->name == "matmul") {
                if (classes + 1 != to.size() || from.empty()) break;
                classes = from.size() - 1;
            } else {  // by element, of one value that is computed
                for (Value other : op->operands)
                    if (other && shares_[other.index].kind != BatchShare::Kind::same && other != next)
                        next = shares_[next.index].kind == BatchShare::Kind::same ? other : Value();
                if (!next || main_.type(next).dims != to) break;
            }
            v = next;
        }
        return begin;
    }

    // Which labels a loss sees: those of its inputs, where the model shifts them against the logits by itself, be it by
    // one position or by more, are the tokens; else the tokens behind them.
    void describe_labels() {
        std::map<std::size_t, bool> shifted;  // by argument
        for (const Op& op : main_.ops) {
            if (op.name != "cross_entropy") continue;
            Value labels = op.operands[1];
            const Positions positions = follow_labels(labels);
            const auto at = std::find(main_.arguments.begin(), main_.arguments.end(), labels);
            if (!labels || at == main_.arguments.end()) continue;
            const auto k = static_cast<std::size_t>(at - main_.arguments.begin());
            const ArgInfo& info = main_.argument_info[k];
            if (info.kind != ArgInfo::Kind::input || info.source == "tokens") continue;
            const bool shift = positions.begin > begin_of_logits(op.operands[0], positions.extents);
            if (shifted.try_emplace(k, shift).first->second != shift)
                fail(fmt::format("one cross entropy shifts {} against its logits, and another one does not",
                                 info.names.front()),
                     "give the model an input for each of the two: what it shifts by itself are the tokens, and the "
                     "labels of a loss that does not are the tokens behind them");
        }
        for (const auto& [k, shift] : shifted) main_.argument_info[k].source = shift ? "tokens" : "next_tokens";
    }

    bool has_tokens() const {
        return std::any_of(main_.argument_info.begin(), main_.argument_info.end(),
                           [](const ArgInfo& info) { return info.source == "tokens"; });
    }

    // ---- a loss on logits
    // ------------------------------------------------------------------------------------------------

    // What the inputs of a loss are called: parameters may have these names.
    std::vector<std::string> input_names(const AddedLoss& added) const {
        std::set<std::string> taken;
        for (const ArgInfo& info : main_.argument_info) {
            if (info.kind == ArgInfo::Kind::input) continue;  // add_input refuses
            taken.insert(info.names.begin(), info.names.end());
            for (const std::vector<std::string>& aliases : info.aliases) taken.insert(aliases.begin(), aliases.end());
        }
        std::vector<std::string> out;
        for (const LossInput& input : added.inputs) {
            std::string name = input.name;
            for (int k = 1; taken.contains(name); ++k) name = k == 1 ? "targets" : fmt::format("targets_{}", k);
            taken.insert(name);
            out.push_back(name);
        }
        return out;
    }

    // An argument behind the inputs that there are.
    Value add_input(Type type, ArgInfo info) {
        std::size_t at = 0;
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            if (main_.argument_info[k].kind != ArgInfo::Kind::input) continue;
            at = k + 1;
            if (main_.argument_info[k].names.front() == info.names.front())
                fail(fmt::format(
                         "the model has an input {} and ends in {} all the same; the loss would need one of that name",
                         info.names.front(), outputs()),
                     offer_scalars("; if not, ") +
                         "export the model without that input, or with its own loss as its first result");
        }
        const Value v = main_.add_value(std::move(type), info.names.front());
        main_.arguments.insert(main_.arguments.begin() + static_cast<std::ptrdiff_t>(at), v);
        main_.argument_info.insert(main_.argument_info.begin() + static_cast<std::ptrdiff_t>(at), std::move(info));
        return v;
    }

    // Rows of a micro-batch; 0 where no input has any.
    std::int64_t batch() const {
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            const ArgInfo& info = main_.argument_info[k];
            const Type& type = main_.type(main_.arguments[k]);
            if (info.kind == ArgInfo::Kind::input && info.batched && type.rank() > 0) return type.dims[0];
        }
        return 0;
    }

    // Of an input `name` of that type: the rows of the batch are its first dimension, as of every other input. Those
    // that the result has folded with what stands behind them, [batch * positions, classes], get two dimensions.
    Dims dims_of_input(std::size_t result, const std::string& name, const Type& labels) const {
        const BatchShare& share = shares_[main_.results[result].index];
        const std::int64_t rows = batch();
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
                         result_name(result)),
             "let the model return [batch, …], as y.transpose(0, 1) does of [positions, batch, …]; or export it with "
             "its loss",
             fmt::format("a result with the {} row{} of the batch in dimension 0", rows, rows == 1 ? "" : "s"),
             fmt::format("{} {}, with {}", result_name(result), to_string(main_.type(main_.results[result])), where));
    }

    // The inputs of integers that a result [batch, positions, classes] may be scores of the next of: no mask, and no
    // positions.
    std::vector<std::size_t> ids_of(std::size_t result) const {
        const Type& type = main_.type(main_.results[result]);
        std::vector<std::size_t> ids;
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            const Type& input = main_.type(main_.arguments[k]);
            const ArgInfo& info = main_.argument_info[k];
            if (info.source == "ones" || info.source == "positions") continue;
            if (info.kind == ArgInfo::Kind::input && is_integer(input.dtype) && type.rank() == 3 && input.rank() == 2 &&
                std::equal(input.dims.begin(), input.dims.end(), type.dims.begin()))
                ids.push_back(k);
        }
        return ids;
    }

    // Who takes a result for scores of the next token takes what they are scores of for tokens, whatever it is called.
    void note_tokens(std::size_t result) {
        const std::vector<std::size_t> ids = ids_of(result);
        if (!has_tokens() && ids.size() == 1) main_.argument_info[ids[0]].source = "tokens";
    }

    // Scores of the next token, for each position of sequences of integers; not where an input of floats has the
    // result's shape, as of a model that takes away noise. What another result is for is not known.
    GivenLoss guess(std::size_t result) const {
        const Type& type = main_.type(main_.results[result]);
        bool alike = false;
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            const Type& input = main_.type(main_.arguments[k]);
            alike = alike || (main_.argument_info[k].kind == ArgInfo::Kind::input && is_float(input.dtype) &&
                              input.dims == type.dims);
        }
        if (!ids_of(result).empty() && !alike) return parse_loss("cross-entropy");
        std::string help = offer_scalars("; if not, ") + "say what " +
                           (scalars().empty() ? "it" : result_name(result)) + " is trained with: ";
        for (const AddedLoss& loss : added_losses()) {
            if (type.rank() < loss.least_rank) continue;
            const std::vector<std::string> names = input_names(loss);
            std::string inputs;
            for (std::size_t k = 0; k < names.size(); ++k)
                inputs += fmt::format("{}{} {}", k == 0 ? "" : ", ", names[k], to_string(loss.inputs[k].type(type)));
            help += fmt::format("--loss {} ({}), ", loss.name, inputs);
        }
        help += "as thunderc train --help describes them, or export the model with its loss";
        fail(fmt::format("the model ends in {}, which has no loss yet: it may be scores of classes, or numbers",
                         result_name(result)),
             help, "token ids and scores [batch, positions, classes], where a cross entropy is added, or --loss",
             fmt::format("{} {}", result_name(result), to_string(type)));
    }

    // Where the last dimension is so short that the loss is one number whatever the model gives, nothing is trained.
    void require_width(std::size_t result, const AddedLoss& added) const {
        const Type& type = main_.type(main_.results[result]);
        if (type.dims.back() >= added.least_width) return;
        fail(fmt::format("--loss {} does not change with {}, whose last dimension is {}", added.name,
                         result_name(result), type.dims.back()),
             "say with another --loss what it is: bce-with-logits for the score of one class, mse and the like for "
             "numbers",
             fmt::format("a last dimension of {} or more", added.least_width),
             fmt::format("{} {}", result_name(result), to_string(type)));
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
                             given, given == 1 ? "" : "s", result_name(result), classes),
                 "give one for each class, in their order, and 1 for those that count as they are",
                 fmt::format("{} numbers", classes), fmt::format("{} {}", result_name(result), to_string(type)));
        }
    }

    void append(std::size_t result, const GivenLoss& given) {
        const AddedLoss& added = *given.loss;
        require_width(result, added);
        require_numbers(result, given);
        const Value logits = main_.results[result];
        const Type type = main_.type(logits);
        const std::vector<std::string> names = input_names(added);
        std::vector<Value> inputs;
        std::string against = names.size() == 1 ? "against the new input " : "against the new inputs ";
        for (std::size_t k = 0; k < names.size(); ++k) {
            const LossInput& input = added.inputs[k];
            const Type wanted = input.type(type);
            ArgInfo info;
            info.kind = ArgInfo::Kind::input;
            info.names = {names[k]};
            info.batched = input.batched && batch() > 0;
            if (is_integer(wanted.dtype) && has_tokens()) info.source = "next_tokens";
            if (is_float(wanted.dtype)) info.note = input.holds;  // of integers their range is told
            if (input.ids != nullptr) {
                info.entries = input.ids(type).entries;
                info.ignore_index = input.ids(type).ignore_index;
            }
            const Dims dims = input.batched ? dims_of_input(result, names[k], wanted) : wanted.dims;
            inputs.push_back(add_input(Type::tensor(wanted.dtype, dims), std::move(info)));
            against += fmt::format("{}{}", k == 0 ? "" : k + 1 == names.size() ? " and " : ", ", names[k]);
        }
        Provenance provenance;
        provenance.scope = "loss";
        builder_.set_provenance(provenance);
        for (std::size_t k = 0; k < inputs.size(); ++k)
            inputs[k] = builder_.reshape(inputs[k], added.inputs[k].type(type).dims);
        const std::vector<Value> made = added.build(builder_, logits, inputs, given.numbers);
        report_.done("loss", result_name(result), added.said(type, against, given.numbers));
        finish(made.front(), {made.begin() + 1, made.end()});
    }

    Module module_;
    Function& main_;
    Builder builder_;
    std::string loss_;
    GivenLoss given_;  // of --loss; of no loss where it is auto or none
    Report& report_;
    bool several_ranks_;
    Uses uses_;
    std::vector<BatchShare> shares_;
};

}  // namespace

ChosenLoss choose_loss(const Module& module, const std::string& loss) {
    Report nothing_is_done;
    return LossAdder(module, loss, nothing_is_done).choose_and_judge();
}

Module add_loss(Module module, const std::string& loss, Report& report, bool several_ranks) {
    return LossAdder(std::move(module), loss, report, several_ranks).run();
}

Module append_loss(Module module, std::size_t result, const GivenLoss& added, Report& report) {
    return LossAdder(std::move(module), added.loss->name, report).run(result, added);
}

}  // namespace thunderc
