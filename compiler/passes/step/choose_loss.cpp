// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/choose_loss.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/passes/step/split_loss.h"
#include "compiler/support/error.h"

namespace thunderc {

namespace {

// What an input of losses is called: something else may have the name that is wanted.
std::string free_name(const std::string& wanted, std::set<std::string>& taken) {
    std::string name = wanted;
    for (int k = 1; taken.contains(name); ++k) name = k == 1 ? "targets" : fmt::format("targets_{}", k);
    taken.insert(name);
    return name;
}

}  // namespace

LossChooser::LossChooser(const Function& main, const std::string& loss)
    : main_(main), loss_(loss), shares_(batch_shares(main)) {
    if (loss_ != "auto" && loss_ != "none") given_ = parse_losses(loss_);
}

ChosenLoss LossChooser::choose() const {
    ChosenLoss out;
    for (const LossTerm& term : given_) out.terms.push_back(choose_term(term));
    if (given_.empty()) out.terms.push_back(choose_unnamed());
    name_inputs(out.terms);
    return out;
}

std::string LossChooser::result_name(std::size_t k) const {
    return k < main_.result_names.size() ? main_.result_names[k] : std::to_string(k);
}

std::string LossChooser::outputs() const {
    std::string text;
    for (std::size_t k = 0; k < main_.results.size(); ++k)
        text += fmt::format("{}{} {}", k == 0 ? "" : ", ", result_name(k), to_string(main_.type(main_.results[k])));
    return text.empty() ? "no result" : text;
}

// ---- which results ----------------------------------------------------------------------------------------------

// Of auto and none.
ChosenTerm LossChooser::choose_unnamed() const {
    ChosenTerm out;
    if (const std::optional<std::size_t> own = own_loss()) {
        out.result = *own;
    } else {
        if (loss_ == "none")
            fail("training needs a loss, and the model ends in none",
                 fmt::format("{}use --loss {}, or export a model that ends in its loss", offer_scalars("; if not, "),
                             loss_names()),
                 scalars().empty() ? "a scalar result" : "a scalar result that is the first or is called loss",
                 outputs());
        out.result = logits(nullptr);
        out.added = guess(out.result);
        for (const LossInput& input : out.added.loss->inputs) {
            const std::string offer = offer_scalars(
                fmt::format("; if not, --loss {} trains on {}", out.added.loss->name, result_name(out.result)));
            if (!is_input(input.name) || offer.empty()) continue;
            fail(fmt::format("the model has an input {}, but none of its results is called loss", input.name), offer,
                 "a scalar result that is the first or is called loss", outputs());
        }
    }
    out.name = result_name(out.result);
    return out;
}

ChosenTerm LossChooser::choose_term(const LossTerm& term) const {
    ChosenTerm out;
    out.factor = term.factor;
    out.added = term.loss;
    out.named = !term.result.empty();
    const AddedLoss* added = term.loss.loss;
    const std::optional<std::size_t> own = own_loss();
    if (out.named) {
        out.result = named_result(term);
    } else if (added == nullptr) {
        if (!own)
            fail("--loss own is given, and the model ends in no loss of its own",
                 scalars().empty() ? "leave it out, or export a model that ends in its loss"
                                   : "say which result it is, as in own@" + scalars().front(),
                 "a scalar result that is the first or is called loss", outputs());
        out.result = *own;
    } else {
        const bool asked = std::any_of(given_.begin(), given_.end(), [](const LossTerm& other) {
            return other.loss.loss == nullptr || !other.result.empty();
        });
        if (own && !asked)
            fail(fmt::format("--loss {} is given, but the model ends in a loss of its own, {}", loss_,
                             result_name(*own)),
                 "leave --loss out" + instead_of(*own, *added));
        out.result = logits(added);
    }
    out.name = result_name(out.result);
    return out;
}

std::size_t LossChooser::named_result(const LossTerm& term) const {
    const std::string what = term.loss.loss == nullptr ? "own" : term.loss.loss->name;
    for (std::size_t k = 0; k < main_.results.size(); ++k) {
        if (result_name(k) != term.result) continue;
        const Type& type = main_.type(main_.results[k]);
        const std::string expected = term.loss.loss == nullptr
                                         ? "one number for the whole batch"
                                         : fmt::format("a result of {} dimension{} or more", term.loss.loss->least_rank,
                                                       term.loss.loss->least_rank == 1 ? "" : "s");
        const bool fits = type.is_tensor() && is_float(type.dtype) &&
                          (term.loss.loss == nullptr ? is_scalar(k) : type.rank() >= term.loss.loss->least_rank);
        if (!fits)
            fail(fmt::format("--loss {}@{} can't be computed of that result", what, term.result),
                 term.loss.loss == nullptr ? "own@ takes what is a loss itself; say which loss this result gets"
                                           : "take another result, or another loss",
                 expected, fmt::format("{} {}", term.result, to_string(type)));
        return k;
    }
    fail(fmt::format("--loss {}@{} is given, and the model has no result of that name", what, term.result),
         "take one of those that there are; where --output is given, only what it takes is there",
         fmt::format("a result called {}", term.result), outputs());
}

// Which result is the model's own loss: a scalar that is called so, or that is the first result.
std::optional<std::size_t> LossChooser::own_loss() const {
    for (std::size_t k = 0; k < main_.results.size(); ++k)
        if (is_scalar(k) && result_name(k) == "loss") return k;
    return !main_.results.empty() && is_scalar(0) ? std::optional<std::size_t>(0) : std::nullopt;
}

std::vector<std::string> LossChooser::scalars() const {
    std::vector<std::string> names;
    for (std::size_t k = 0; k < main_.results.size(); ++k)
        if (is_scalar(k)) names.push_back(result_name(k));
    return names;
}

// A scalar that is not taken may be the model's loss, under the name that an exporter gave it: how to take it, and
// `if_not`. "" where there is none.
std::string LossChooser::offer_scalars(const std::string& if_not) const {
    const std::vector<std::string> names = scalars();
    if (names.empty()) return "";
    const bool one = names.size() == 1;
    return fmt::format("if {}{} is the model's loss, --output {} trains on it{}", one ? "" : "one of ",
                       fmt::join(names, ", "), one ? names.front() : "NAME", if_not);
}

// Behind "leave --loss out", how to have it all the same.
std::string LossChooser::instead_of(std::size_t own, const AddedLoss& added) const {
    for (std::size_t k = 0; k < main_.results.size(); ++k)
        if (const Type& type = main_.type(main_.results[k]);
            k != own && type.is_tensor() && is_float(type.dtype) && type.rank() >= added.least_rank)
            return fmt::format(", or add --output {} to train on that with it", result_name(k));
    return ", or export the model without its loss";
}

// One number, however large the batch is: a result for each row is none, though a batch may have one row.
bool LossChooser::is_scalar(std::size_t k) const {
    const Type& type = main_.type(main_.results[k]);
    return type.is_tensor() && is_float(type.dtype) && type.elements() == 1 && type.rank() <= 1 &&
           shares_[main_.results[k].index].kind != BatchShare::Kind::rows;
}

// What the loss is made of: of the results with as many dimensions as it needs the one called logits, or the first.
// `added`: null where it is still to be said which loss.
std::size_t LossChooser::logits(const AddedLoss* added) const {
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

bool LossChooser::is_input(const std::string& name) const {
    return std::any_of(main_.argument_info.begin(), main_.argument_info.end(), [&](const ArgInfo& info) {
        return info.kind == ArgInfo::Kind::input && info.names.front() == name;
    });
}

// Names that are taken already.
std::set<std::string> LossChooser::taken_names() const {
    std::set<std::string> taken;
    for (const ArgInfo& info : main_.argument_info) {
        taken.insert(info.names.begin(), info.names.end());
        for (const std::vector<std::string>& aliases : info.aliases) taken.insert(aliases.begin(), aliases.end());
    }
    return taken;
}

// Two terms share an input where it holds the same of the same result; what else would have one name, or that of an
// input of the graph (labels of its own loss are no other's), is called after the result, or after the loss where that
// is the same.
void LossChooser::name_inputs(std::vector<ChosenTerm>& terms) const {
    struct Wanted {
        const ChosenTerm* term;
        const LossInput* input;
        Type type;
        std::string name;
    };
    std::vector<Wanted> all;
    std::vector<std::vector<std::size_t>> read(terms.size());  // by term: which of `all`
    for (std::size_t t = 0; t < terms.size(); ++t) {
        if (terms[t].added.loss == nullptr) continue;
        for (const LossInput& input : terms[t].added.loss->inputs) {
            const Type type = input.type(main_.type(main_.results[terms[t].result]));
            const auto same = std::find_if(all.begin(), all.end(), [&](const Wanted& other) {
                return other.term->result == terms[t].result && other.input->name == input.name &&
                       other.input->holds == input.holds && other.type == type;
            });
            read[t].push_back(static_cast<std::size_t>(same - all.begin()));
            if (same == all.end()) all.push_back({&terms[t], &input, type, {}});
        }
    }
    std::set<std::string> taken = taken_names();
    for (Wanted& wanted : all) {
        bool alone = !is_input(wanted.input->name), of_results = true;
        for (const Wanted& other : all) {
            if (&other == &wanted || other.input->name != wanted.input->name) continue;
            alone = false;
            of_results = of_results && other.term->result != wanted.term->result;
        }
        std::string before = wanted.term->name;
        if (!of_results) {
            before = wanted.term->added.loss->name;
            std::replace(before.begin(), before.end(), '-', '_');
        }
        wanted.name = free_name(alone ? wanted.input->name : before + "_" + wanted.input->name, taken);
    }
    for (std::size_t t = 0; t < terms.size(); ++t)
        for (const std::size_t k : read[t]) terms[t].inputs.push_back(all[k].name);
}

// The inputs of integers that a result [batch, positions, classes] may be scores of the next of: no mask, no positions,
// and no labels.
std::vector<std::size_t> LossChooser::ids_of(std::size_t result) const {
    const std::string& labels = find_loss("cross-entropy")->inputs.front().name;
    const Type& type = main_.type(main_.results[result]);
    std::vector<std::size_t> ids;
    for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
        const Type& input = main_.type(main_.arguments[k]);
        const ArgInfo& info = main_.argument_info[k];
        if (info.source == "ones" || info.source == "positions" || info.names.front() == labels) continue;
        if (info.kind == ArgInfo::Kind::input && is_integer(input.dtype) && type.rank() == 3 && input.rank() == 2 &&
            std::equal(input.dims.begin(), input.dims.end(), type.dims.begin()))
            ids.push_back(k);
    }
    return ids;
}

// Scores of the next token, for each position of sequences of integers; not where an input of floats has the
// result's shape, as of a model that takes away noise. What another result is for is not known.
GivenLoss LossChooser::guess(std::size_t result) const {
    const Type& type = main_.type(main_.results[result]);
    bool alike = false;
    for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
        const Type& input = main_.type(main_.arguments[k]);
        alike = alike || (main_.argument_info[k].kind == ArgInfo::Kind::input && is_float(input.dtype) &&
                          input.dims == type.dims);
    }
    if (!ids_of(result).empty() && !alike) return parse_loss("cross-entropy");
    std::string help = offer_scalars("; if not, ") + "say what " + (scalars().empty() ? "it" : result_name(result)) +
                       " is trained with: ";
    for (const AddedLoss& loss : added_losses()) {
        if (type.rank() < loss.least_rank) continue;
        std::set<std::string> taken = taken_names();
        std::string inputs;
        for (const LossInput& input : loss.inputs)
            inputs += fmt::format(
                "{}{} {}", inputs.empty() ? "" : ", ",
                free_name(is_input(input.name) ? result_name(result) + "_" + input.name : input.name, taken),
                to_string(input.type(type)));
        help += fmt::format("--loss {} ({}), ", loss.name, inputs);
    }
    help += "as thunderc train --help describes them, or export the model with its loss";
    fail(fmt::format("the model ends in {}, which has no loss yet: it may be scores of classes, or numbers",
                     result_name(result)),
         help, "token ids and scores [batch, positions, classes], where a cross entropy is added, or --loss",
         fmt::format("{} {}", result_name(result), to_string(type)));
}

const BatchShare& LossChooser::share(std::size_t result) const {
    return shares_[main_.results[result].index];
}

ChosenLoss choose_loss(const Module& module, const std::string& loss) {
    ChosenLoss out = LossChooser(module.main(), loss).choose();
    for (const ChosenTerm& term : out.terms) {
        if (term.added.loss != nullptr) continue;
        Function main = module.main();
        const SplitLoss split = split_loss(main, main.results[term.result], {});
        out.whole = out.whole && !split.averaged && !split.mixed;
    }
    return out;
}

bool ChosenLoss::has_own() const {
    return std::any_of(terms.begin(), terms.end(), [](const ChosenTerm& t) { return t.added.loss == nullptr; });
}

std::string ChosenLoss::text() const {
    std::string out;
    for (const ChosenTerm& t : terms) {
        if (!out.empty()) out += " + ";
        if (t.factor != 1) out += fmt::format("{} * ", t.factor);
        out += t.added.loss != nullptr ? fmt::format("{} of {}", t.added.loss->name, t.name)
               : terms.size() == 1     ? fmt::format("{}, as the model has it", t.name)
                                       : t.name;
    }
    return out;
}

}  // namespace thunderc
