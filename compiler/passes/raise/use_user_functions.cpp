// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/use_user_functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"
#include "compiler/user_functions/user_functions.h"
#include "compiler/user_functions/user_op.h"

namespace thunderc {
namespace {

// Where values of a pattern are in the function.
struct FormMatch {
    std::map<Value, Value> values;
    std::map<const Op*, const Op*> ops;  // of the function, and what they are in the pattern
};

class FormMatcher {
  public:
    // `exact`: types, attributes and constants as well as structure.
    FormMatcher(const Function& pattern, const Definitions& definitions, bool exact)
        : pattern_(pattern), pattern_definitions_(pattern, pattern.ops), d_(definitions), exact_(exact) {}

    std::optional<FormMatch> at(const Op& root) {
        FormMatch match;
        if (!all({{pattern_.results[0], root.results[0]}}, match)) return std::nullopt;
        return match;
    }
    // What stands against it where most of the pattern is there.
    const std::string& why() const { return why_; }

  private:
    using Pair = std::pair<Value, Value>;  // of the pattern, and here

    // Orders of operands of commutative ops that are tried at one place: all of them for patterns of a dozen such ops.
    static constexpr int most_orders = 4096;

    bool no(const FormMatch& match, const std::string& why) {
        if (why_.empty() || match.ops.size() > far_) why_ = why;
        far_ = std::max(far_, match.ops.size());
        return false;
    }

    // Whether the values stand for each other, those of `todo` from the last to the first, and all that they are made
    // of. An order of operands is right where all that comes behind it matches as well.
    bool all(std::vector<Pair> todo, FormMatch& match) {
        while (!todo.empty()) {
            const auto [wanted, given] = todo.back();
            todo.pop_back();
            if (!wanted || !given) {
                if (wanted || given) return no(match, "an operand is left out in one of the two");
                continue;
            }
            const std::string& name = pattern_.info(wanted).name;
            if (const auto known = match.values.find(wanted); known != match.values.end()) {
                if (known->second == given) continue;
                return no(match, fmt::format("two operands are %{} in the pattern, and differ here", name));
            }
            if (exact_ && pattern_.type(wanted) != d_.type(given))
                return no(match, fmt::format("{} is {} here, and {} in the pattern", name, to_string(d_.type(given)),
                                             to_string(pattern_.type(wanted))));
            match.values[wanted] = given;
            const Op* form = pattern_definitions_.op(wanted);
            if (form == nullptr) continue;
            const Op* op = d_.op(given);
            if (op == nullptr || op->name != form->name || op->results.size() != form->results.size() ||
                op->operands.size() != form->operands.size())
                return no(match, fmt::format("%{} is {} in the pattern", name, form->name));
            for (std::size_t r = 0; r < form->results.size(); ++r)
                if (form->results[r] == wanted && op->results[r] != given)
                    return no(match, "another result of an op is read");
            const auto [known, fresh] = match.ops.emplace(op, form);
            if (!fresh && known->second != form) return no(match, "two ops of the pattern are one here");
            if (!fresh) continue;  // another result of it
            if (exact_ && !same_attributes(*form, *op, match)) return false;
            auto add = [&](std::vector<Pair>& to, bool swapped) {
                for (std::size_t k = form->operands.size(); k-- > 0;)
                    to.emplace_back(form->operands[k], op->operands[swapped ? 1 - k : k]);
            };
            if (op_def(op->name).commutative && form->operands.size() == 2 && op->operands[0] != op->operands[1] &&
                form->operands[0] != form->operands[1]) {
                std::vector<Pair> swapped = todo;
                add(swapped, true);
                FormMatch other = match;
                add(todo, false);
                if (all(std::move(todo), match)) return true;
                if (++orders_ > most_orders) return no(match, "operands may stand in too many orders");
                todo = std::move(swapped);
                match = std::move(other);
                continue;
            }
            add(todo, false);
        }
        return true;
    }

    bool same_attributes(const Op& form, const Op& op, const FormMatch& match) {
        for (const auto& [name, value] : form.attributes.entries()) {
            const Attribute* here = op.attributes.find(name);
            if (here == nullptr || !same_in_f32(*here, value))
                return no(match,
                          is_constant_op(form)
                              ? fmt::format("the constant %{} is another one here", pattern_.info(form.results[0]).name)
                              : fmt::format("the attribute {} of {} is another one here", name, form.name));
        }
        for (const auto& [name, value] : op.attributes.entries())
            if (!form.attributes.has(name))
                return no(match, fmt::format("{} has an attribute {} here", form.name, name));
        return true;
    }

    const Function& pattern_;
    Definitions pattern_definitions_;
    const Definitions& d_;
    bool exact_;
    int orders_ = 0;
    std::size_t far_ = 0;  // ops that had their places where why_ was seen
    std::string why_;
};

// What one function finds in main.
class PlaceFinder {
  public:
    PlaceFinder(const UserFunction& f, const Definitions& d, const Uses& uses, const std::vector<Op>& ops)
        : f_(f), shape_(pattern_at(f, sizes_for_check(f))), d_(d), uses_(uses), ops_(ops) {}

    struct Found {
        std::vector<Value> operands;
        Matched matched;
        std::vector<const Op*> ops;
    };

    // `why` is set where the place has the pattern's structure and is not taken all the same.
    std::optional<Found> at(const Op& root, std::string& why) const {
        if (root.results.empty()) return std::nullopt;
        const std::optional<FormMatch> likely = FormMatcher(shape_.main(), d_, false).at(root);
        if (!likely) return std::nullopt;
        std::vector<Type> types;
        for (Value argument : shape_.main().arguments) {
            const auto given = likely->values.find(argument);
            if (given == likely->values.end()) return std::nullopt;
            types.push_back(d_.type(given->second));
        }
        const std::optional<Sizes> sizes = sizes_of(f_, types);
        if (!sizes) {
            why = "its arguments are";
            for (const Type& type : types)
                why += fmt::format("{} {}", why.ends_with("are") ? "" : ",", to_string(type));
            why += ", and the file has";
            for (const UserTensor& t : f_.inputs)
                why += fmt::format("{} {}", why.ends_with("has") ? "" : ",", to_string(t.type));
            return std::nullopt;
        }
        const Module exact = pattern_at(f_, *sizes);
        FormMatcher matcher(exact.main(), d_, true);
        const std::optional<FormMatch> match = matcher.at(root);
        if (!match) {
            why = matcher.why();
            return std::nullopt;
        }
        Found found;
        for (Value argument : exact.main().arguments) found.operands.push_back(match->values.at(argument));
        for (const auto& [op, form] : match->ops) {
            found.matched.add(op);
            if (!is_constant_op(*op)) found.ops.push_back(op);
        }
        for (const Op* op : found.ops) {
            if (op == &root) continue;
            for (Value v : op->results)
                if (read_elsewhere(v, match->ops)) {
                    why = fmt::format("%{} is read by others as well", d_.function().info(v).name);
                    return std::nullopt;
                }
        }
        return found;
    }

  private:
    bool read_elsewhere(Value v, const std::map<const Op*, const Op*>& inside) const {
        if (uses_.is_result[v.index]) return true;
        for (const std::int32_t user : uses_.users[v.index])
            if (!inside.contains(&ops_[static_cast<std::size_t>(user)])) return true;
        return false;
    }

    const UserFunction& f_;
    Module shape_;
    const Definitions& d_;
    const Uses& uses_;
    const std::vector<Op>& ops_;
};

void use_in(Function& main, const UserFunction& f, Report& report) {
    const Uses uses(main);
    Rewriter rewriter(main);
    const std::vector<Op>& ops = rewriter.old_ops();
    const Definitions d(main, ops);
    const PlaceFinder finder(f, d, uses, ops);
    std::set<const Op*> taken;
    std::size_t places = 0, missed = 0;
    std::string first_missed;
    for (const Op& op : ops) {
        std::string why;
        std::optional<PlaceFinder::Found> found = finder.at(op, why);
        if (found)
            for (const Op* part : found->ops)
                if (taken.contains(part)) {
                    why = "it shares an op with the place before";
                    found.reset();
                    break;
                }
        if (found && !report.may(f.name, where(found->matched.provenance()), f.forward)) found.reset();
        if (!found) {
            if (!why.empty()) {
                report.declined(f.name, where(op.provenance), why);
                if (missed++ == 0)
                    first_missed = (where(op.provenance).empty() ? "" : where(op.provenance) + ": ") + why;
            }
            rewriter.keep(op);
            continue;
        }
        Builder& b = rewriter.builder();
        const Provenance provenance = found->matched.provenance();
        b.set_provenance(provenance);
        Attributes attributes;
        for (const auto& [name, value] : f.attributes) attributes.set(name, value);
        const std::vector<Value> results = b.emit(f.op(), rewriter.now(found->operands), attributes, f.name);
        rewriter.replace(op, std::vector<Value>{results[0]});
        taken.insert(found->ops.begin(), found->ops.end());
        const std::string from = replaced_text(provenance);
        report.done(f.name, where(provenance),
                    fmt::format("{} of {}{}{}", f.forward, f.file, from.empty() ? "" : ", ", from));
        ++places;
    }
    rewriter.finish();
    if (places == 0 && missed > 0)
        report.warning(f.name, f.file,
                       fmt::format("it is called nowhere: of {} that {} its pattern's structure none is the pattern; "
                                   "thunderc inspect says why of each. The first, {}",
                                   missed == 1 ? "one place" : fmt::format("{} places", missed),
                                   missed == 1 ? "has" : "have", first_missed));
    if (places + missed == 0) {
        const Module shape = pattern_at(f, sizes_for_check(f));
        report.warning(f.name, f.file,
                       fmt::format("its pattern is nowhere in the model: no {} with what comes before it there; "
                                   "thunderc trace MODEL --after simplify_raised shows what there is",
                                   shape.main().ops.back().name));
    }
}

}  // namespace

Module use_user_functions(Module module, Report& report) {
    for (const UserFunction& f : user_functions()) {
        // Where an operator of the model is it, the pattern is its definition, and may be nowhere else.
        bool called = false;
        for (const Op& op : module.main().ops) called = called || user_function_of(op) == &f;
        if (f.pattern.empty() || f.outputs.size() > 1) {
            if (!called)
                report.warning(
                    f.name, f.file,
                    fmt::format("nothing that the model computes is made by an operator {}::{}", f.domain, f.op_type));
            continue;
        }
        Report found;
        found.decisions = report.decisions;
        use_in(module.main(), f, found);
        for (Note& note : found.notes)
            if (!called || note.kind != Note::Kind::warning) report.notes.push_back(std::move(note));
    }
    return module;
}

Module expand_user_functions(Module module, Report& report) {
    for (Function& function : module.functions) {
        bool any = false;
        for (const Op& op : function.ops) any = any || user_function_of(op) != nullptr;
        if (!any) continue;
        Rewriter rewriter(function);
        for (const Op& op : rewriter.old_ops()) {
            const UserFunction* f = user_function_of(op);
            if (f == nullptr || op.name != f->op() || !pattern_says(*f, op)) {
                if (f != nullptr && !f->pattern.empty())
                    report.declined(
                        f->name, where(op.provenance),
                        fmt::format("its pattern is for the attributes of {}, and these are others", f->file));
                rewriter.keep(op);
                continue;
            }
            std::vector<Type> types;
            for (Value v : op.operands) types.push_back(function.type(v));
            const Module pattern = pattern_at(*f, sizes_of(*f, types).value());
            const Function& body = pattern.main();
            Builder& b = rewriter.builder();
            b.set_provenance(op.provenance);
            std::map<Value, Value> now;
            const std::vector<Value> operands = rewriter.now(op.operands);
            for (std::size_t k = 0; k < operands.size(); ++k) now[body.arguments[k]] = operands[k];
            for (const Op& inner : body.ops) {
                std::vector<Value> given;
                for (Value v : inner.operands) given.push_back(v ? now.at(v) : Value{});
                Op placed = inner;
                placed.provenance = op.provenance;
                const std::vector<Value> results = b.clone(placed, std::move(given), body);
                for (std::size_t r = 0; r < results.size(); ++r) now[inner.results[r]] = results[r];
            }
            std::vector<Value> results(op.results.size());
            for (std::size_t r = 0; r < body.results.size(); ++r) results[r] = now.at(body.results[r]);
            rewriter.replace(op, results);
            report.done(f->name, where(op.provenance), fmt::format("as the pattern of {} says it", f->file));
        }
        rewriter.finish();
    }
    return module;
}

}  // namespace thunderc
