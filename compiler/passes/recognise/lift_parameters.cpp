// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/lift_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/analysis/weight_numbers.h"
#include "compiler/ir/builder.h"
#include "compiler/passes/recognise/decide_parameters.h"
#include "compiler/passes/recognise/restore_names.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// A parameter as it will be: one for each name.
struct Lifted {
    std::string name;
    std::vector<std::string> aliases;
    std::string note;
    Type type;
    bool transposed = false;
    std::shared_ptr<const WeightSource> source;
    std::set<std::int32_t> users;  // ops that take it
    std::int32_t first_use = 0;
    std::size_t argument = 0;  // which it comes from
    std::string traced;        // the parameter that its first use read when the model was traced, where known
    bool table = false, product = false;
};

class Lifter {
  public:
    Lifter(Module module, const LiftOptions& options, Report& report)
        : module_(std::move(module)),
          main_(module_.main()),
          report_(report),
          decisions_(decide_parameters(module_, options, report)),
          names_(main_, decisions_.exporters_scopes, module_.keeps_names),
          uses_(main_) {}

    Module run() {
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            if (decisions_.arguments[k].verdict == Decision::Verdict::constant) constants_.push_back(k);
            if (decisions_.arguments[k].verdict == Decision::Verdict::parameter) lift(k);
        }
        warn_of_folded();
        tie_head();
        tie_transposed();
        make_names_unique();
        warn_of_untold_ties();
        warn_of_made_up_names();
        rebuild();
        return std::move(module_);
    }

  private:
    // ---- names and ties
    // ------------------------------------------------------------------------------------------------

    void lift(std::size_t k) {
        const std::vector<Site>& sites = decisions_.arguments[k].sites;
        const ArgInfo& info = main_.argument_info[k];
        const std::string& name = info.names.front();
        const std::shared_ptr<const WeightSource> source = info.sources.empty() ? nullptr : info.sources.front();
        if (info.kind == ArgInfo::Kind::buffer || module_.names_are_given) {
            Lifted& lifted = add(k, name, sites, source);  // the module that moves it has named it, or the export
            if (!info.aliases.empty()) lifted.aliases = info.aliases.front();
            return;
        }
        // Names in the order of use. An op that takes the initializer speaks for one name.
        std::vector<std::string> targets;
        std::map<std::string, std::vector<Site>> groups;
        std::map<std::int32_t, std::string> spoken;
        for (const Site& site : sites) {
            const bool first = site.direct == sites.front().direct;
            const std::string wanted = spoken.emplace(site.direct, names_.target(k, site, first)).first->second;
            if (!groups.contains(wanted)) targets.push_back(wanted);
            groups[wanted].push_back(site);
        }
        if (targets.empty()) targets.push_back(name);
        if (targets.size() == 1) {
            // A table that is named after another module than the one that looks rows up in it is tied to that one's
            // weight, of which the exporter kept a copy, or none.
            const bool foreign = is_dotted(name) && targets.front() != name;
            const bool table =
                std::any_of(sites.begin(), sites.end(), [](const Site& s) { return s.role == Role::table; });
            Lifted& lifted = add(k, foreign && !table ? name : targets.front(), sites, source);
            if (foreign && table) lifted.aliases.push_back(name);
            return;
        }
        // The same numbers under several names: ties, each a list of names of one parameter.
        const std::vector<std::vector<std::string>> ties = ties_of(k, targets, groups);
        std::vector<std::string> firsts;
        for (const std::vector<std::string>& tie : ties) {
            std::vector<Site> all;
            for (const std::string& t : tie) all.insert(all.end(), groups[t].begin(), groups[t].end());
            const auto table =
                std::find_if(tie.begin(), tie.end(), [&](const std::string& t) { return looks_up(groups[t]); });
            const bool table_first = table != tie.end() && (decisions_.exporters_scopes || !is_dotted(name));
            const bool own = std::find(tie.begin(), tie.end(), name) != tie.end();
            const bool of_one =
                ties.size() == 1 && is_dotted(name) && (is_one_in_model(k) || are_calls_of_one(targets));
            const std::string first = table_first ? *table : own || of_one ? name : tie.front();
            firsts.push_back(first);
            Lifted& lifted = add(k, first, all, source);
            if (tie.size() == 1) continue;
            for (const std::string& other : tie)
                if (other != first) lifted.aliases.push_back(other);
            if (is_dotted(name) && !groups.contains(name)) lifted.aliases.push_back(name);
            const std::string text = fmt::format("also {}", fmt::join(lifted.aliases, ", "));
            // An embedding that is the head as well is one parameter on purpose.
            const bool told =
                table != tie.end() || is_one_in_model(k) ||
                std::any_of(all.begin(), all.end(), [&](const Site& site) { return !names_.traced(k, site).empty(); });
            report_.done("tied", first, text);
            if (!told) untold_ties_.push_back(fmt::format("{} {}", first, text));
        }
        if (ties.size() == 1) return;
        const std::string text = fmt::format("one initializer of equal numbers was {} parameters: {}", firsts.size(),
                                             fmt::join(firsts, ", "));
        // Equal by initialisation, or said to be apart.
        const bool sure =
            decisions_.exporters_scopes &&
            (uniform(source.get()).value_or(false) || std::any_of(sites.begin(), sites.end(), [&](const Site& site) {
                 return !names_.traced(k, site).empty();
             }));
        if (sure)
            report_.done("untied", name, text);
        else
            report_.warning("untied", name,
                            text +
                                ". The graph does not say so: exporters merge what is equal, and a model that ties "
                                "such parameters is not known");
    }

    static bool looks_up(const std::vector<Site>& sites) {
        return std::any_of(sites.begin(), sites.end(), [](const Site& s) { return s.role == Role::table; });
    }

    // Which of the names that read one initializer are names of one parameter. What the exporter says of the traced
    // nodes decides; who reads w.detach() names none, and goes with the parameter that the initializer is called after.
    // Where it says nothing: a table that is also a head is tied on purpose. What is one number throughout (norms of a
    // model as initialised) is equal by chance; so are layers that were copied from one another, of which the paths
    // differ only in numbers, unless the graph has the same numbers once more, or the paths are those of one module
    // that is called again. Other names of the same numbers are a tie.
    std::vector<std::vector<std::string>> ties_of(std::size_t k, const std::vector<std::string>& targets,
                                                  const std::map<std::string, std::vector<Site>>& groups) const {
        std::vector<std::string> order;
        std::map<std::string, std::vector<std::string>> by_traced;
        bool known = true;
        for (const std::string& t : targets) {
            std::string traced;
            for (const Site& site : groups.at(t))
                if (traced.empty()) traced = names_.traced(k, site);
            known = known && !traced.empty();
            if (by_traced[traced].empty()) order.push_back(traced);
            by_traced[traced].push_back(t);
        }
        std::vector<std::vector<std::string>> out;
        const ArgInfo& info = main_.argument_info[k];
        const std::vector<std::string> nameless = known ? std::vector<std::string>{} : by_traced.extract("").mapped();
        if (known || by_traced.size() > 1) {
            std::erase(order, "");
            const bool own = by_traced.contains(info.names.front());
            std::vector<std::string>& home = by_traced[own ? info.names.front() : order.front()];
            home.insert(home.end(), nameless.begin(), nameless.end());
            for (const std::string& traced : order) out.push_back(by_traced[traced]);
            return out;
        }
        const bool table = std::any_of(groups.begin(), groups.end(), [](const auto& g) { return looks_up(g.second); });
        const bool matrix = main_.type(main_.arguments[k]).rank() >= 2;
        const bool equal_by_chance =
            uniform(info.sources.empty() ? nullptr : info.sources.front().get()).value_or(!matrix);
        const bool copies =
            decisions_.exporters_scopes && std::all_of(targets.begin(), targets.end(), [&](const std::string& t) {
                return without_numbers(t) == without_numbers(targets.front());
            });
        if (table || !(equal_by_chance || copies) || is_one_in_model(k) || are_calls_of_one(targets)) return {targets};
        for (const std::string& t : targets) out.push_back({t});
        return out;
    }

    // Whoever left equal tensors apart has merged none for being equal: what is one initializer is one in the model.
    bool is_one_in_model(std::size_t k) const {
        return module_.merges_nothing || names_.is_models_own(k) || has_twin(k);
    }

    // Another initializer with a name of the model's, of equal shape and numbers.
    bool has_twin(std::size_t k) const {
        constexpr std::int64_t most = std::int64_t{1} << 16;  // elements that are compared
        const auto numbers = [&](std::size_t of) {
            const ArgInfo& info = main_.argument_info[of];
            const bool known = info.kind != ArgInfo::Kind::input && is_dotted(info.names.front()) &&
                               !info.sources.empty() && info.sources.front() && info.sources.front()->read;
            return known ? info.sources.front()->read() : std::vector<std::byte>{};
        };
        const Type& type = main_.type(main_.arguments[k]);
        if (type.elements() > most) return false;
        const std::vector<std::byte> own = numbers(k);
        for (std::size_t other = 0; other < main_.arguments.size() && !own.empty(); ++other)
            if (other != k && main_.type(main_.arguments[other]) == type && numbers(other) == own) return true;
        return false;
    }

    // "bn.weight", "bn_1.weight", "bn_2.weight": TorchScript's exporter numbers the calls of a module so.
    static bool are_calls_of_one(const std::vector<std::string>& targets) {
        const std::string& base = *std::min_element(targets.begin(), targets.end(),
                                                    [](const auto& a, const auto& b) { return a.size() < b.size(); });
        const auto is_again = [&](const std::string& name) {
            std::size_t at = 0;
            for (std::size_t k = 0; k <= base.size(); ++k) {  // a number may stand at the end of each module's name
                if (at < name.size() && (k == base.size() || base[k] == '.') && name[at] == '_') {
                    const std::size_t end = name.find_first_not_of("0123456789", at + 1);
                    if (end == at + 1) return false;
                    at = std::min(end, name.size());
                }
                if (k == base.size()) break;
                if (at == name.size() || name[at] != base[k]) return false;
                ++at;
            }
            return at == name.size();
        };
        return std::all_of(targets.begin(), targets.end(), is_again);
    }

    Lifted& add(std::size_t k, const std::string& name, const std::vector<Site>& sites,
                std::shared_ptr<const WeightSource> source) {
        const std::string& before = main_.argument_info[k].names.front();
        Lifted lifted;
        lifted.name = name;
        lifted.type = main_.type(main_.arguments[k]);
        lifted.source = std::move(source);
        lifted.argument = k;
        if (!sites.empty()) lifted.traced = names_.traced(k, sites.front());
        lifted.first_use = static_cast<std::int32_t>(main_.ops.size());
        for (const Site& site : sites) {
            lifted.users.insert(site.direct);
            lifted.first_use = std::min(lifted.first_use, site.direct);
            lifted.table = lifted.table || site.role == Role::table;
            lifted.product = lifted.product || site.role == Role::product;
            if (!names_.folded(k, site) || !lifted.note.empty()) continue;
            const std::string what = folded_op(before).empty() ? "something" : folded_op(before);
            lifted.note =
                fmt::format("the exporter evaluated {} over the parameter; this is not the checkpoint's tensor", what);
            folded_[{without_numbers(name), what}].push_back(name);
        }
        if (!module_.names_are_given && names_.was_transposed(k, sites)) {
            std::swap(lifted.type.dims[0], lifted.type.dims[1]);
            lifted.transposed = true;
        }
        std::string text = decisions_.arguments[k].why;
        if (name != before || lifted.transposed)
            text += fmt::format("{}from the initializer {}{}", text.empty() ? "" : "; ", before,
                                lifted.transposed ? ", transposed" : "");
        if (!text.empty()) report_.done("parameter", name, text);
        lifted_.push_back(std::move(lifted));
        return lifted_.back();
    }

    // One warning for the layers' tensors of one kind.
    void warn_of_folded() {
        for (const auto& [kind, names] : folded_)
            report_.warning(
                "folded", name_pattern(names),
                fmt::format("holds what the exporter evaluated ({}), not the parameter. Loading and saving it under "
                            "the checkpoint's name would be wrong. Export with optimize=False to keep the parameter.",
                            kind.second));
    }

    static StoredMatrix stored(const Lifted& lifted) { return {lifted.source.get(), lifted.type, lifted.transposed}; }

    // Two initializers of equal, varied content, of which one is an embedding and the other a product's weight: a tie
    // of which the exporter kept two copies, one of them transposed and without a name of its own. Equal numbers alone
    // may as well be those of a head that began as a copy, so the guess is said; two that each have a name of the
    // model's own are no copies of the exporter's.
    void tie_head() {
        if (module_.names_are_given) return;
        for (std::size_t t = 0; t < lifted_.size(); ++t) {
            if (!lifted_[t].table) continue;
            for (std::size_t h = 0; h < lifted_.size(); ++h) {
                Lifted& head = lifted_[h];
                if (h == t || head.table || !head.product || head.users.empty()) continue;
                // What the exporter says holds whether or not the numbers are there, and are equal by chance.
                const bool known = !head.traced.empty() && !lifted_[t].traced.empty();
                // That the two are one parameter; of a folded copy nothing but its numbers is left, and a parameter of
                // its own would be among those that the exporter names and no operator reads.
                const bool told = known ? head.traced == lifted_[t].traced : module_.lists_parameters;
                const bool traced = known && told && head.type == lifted_[t].type;
                if (known && head.traced != lifted_[t].traced) continue;
                if (!traced && !same_matrix(stored(lifted_[t]), stored(head))) {
                    // A head without a module of its own, `h @ table.weight.T`: nothing but the numbers says that it
                    // was transposed.
                    if (head.transposed || head.type.rank() != 2 || lifted_[t].type.rank() != 2) continue;
                    Lifted turned = head;
                    std::swap(turned.type.dims[0], turned.type.dims[1]);
                    turned.transposed = true;
                    if (!same_matrix(stored(lifted_[t]), stored(turned))) continue;
                    if (!are_alike(t, h)) head = std::move(turned);
                }
                if (!told && are_alike(t, h)) {
                    report_.warning(
                        "untied", head.name,
                        fmt::format("holds the numbers of {}, and is trained apart from it, since each has a "
                                    "name of its own: if the model ties the two, export it with "
                                    "dynamo=True and optimize=False, which says so",
                                    lifted_[t].name));
                    continue;
                }
                ties_[h] = t;
                std::vector<std::string>& aliases = lifted_[t].aliases;
                // The exporter's own name for it ("permute") is no name of the model's.
                const bool own = is_dotted(head.name) || main_.argument_info[head.argument].names.front() != head.name;
                if (own && std::find(aliases.begin(), aliases.end(), head.name) == aliases.end())
                    aliases.push_back(head.name);
                lifted_[t].first_use = std::min(lifted_[t].first_use, head.first_use);
                const std::string text = fmt::format("also {}: two initializers of {}", head.name,
                                                     traced ? "one traced parameter" : "equal content");
                if (told)
                    report_.done("tied", lifted_[t].name, text);
                else
                    report_.warning("tied", lifted_[t].name,
                                    text +
                                        ". The graph does not say that they are one parameter: where one only began "
                                        "as a copy of the other, export with dynamo=True and optimize=False, which "
                                        "tells them apart, or with other numbers in one of them");
            }
        }
    }

    // A weight that the exporter transposed for some calls and left as it is for others, as TorchScript's does where a
    // Linear takes matrices here and tensors of three dimensions there, and where a model multiplies with W and with
    // W.T. By its module's name it is the same; where it has none, equal, varied numbers say so, and the guess is said.
    void tie_transposed() {
        for (std::size_t h = 0; h < lifted_.size(); ++h) {
            const Lifted& copy = lifted_[h];
            if (ties_.contains(h) || copy.users.empty() || names_.is_models_own(copy.argument)) continue;
            const std::string& exporters = main_.argument_info[copy.argument].names.front();
            const bool nameless = (copy.name == exporters || !decisions_.exporters_scopes) && copy.traced.empty() &&
                                  !module_.names_are_given;
            for (std::size_t t = 0; t < lifted_.size(); ++t) {
                const Lifted& own = lifted_[t];
                if (t == h || ties_.contains(t) || !names_.is_models_own(own.argument)) continue;
                if (own.name != copy.name && !nameless) continue;
                const std::optional<Lifted> same = as_matrix_of(own, copy);
                if (!same) continue;
                const std::string text =
                    fmt::format("the exporter transposed it to {} for some of its calls", exporters);
                if (nameless)
                    report_.warning("tied", own.name,
                                    text +
                                        ", whose numbers are equal. Where that only began as a copy, export with "
                                        "dynamo=True and optimize=False, which tells them apart, or with other "
                                        "numbers in one of them");
                else
                    report_.done("tied", own.name, text);
                lifted_[h] = *same;
                ties_[h] = t;
                lifted_[t].first_use = std::min(own.first_use, copy.first_use);
                break;
            }
        }
    }

    // `copy`, as it is or turned, where it holds the numbers of `own`.
    static std::optional<Lifted> as_matrix_of(const Lifted& own, const Lifted& copy) {
        if (own.type.rank() != 2 || copy.type.rank() != 2) return std::nullopt;
        if (own.type == copy.type && same_matrix(stored(own), stored(copy))) return copy;
        Lifted turned = copy;
        std::swap(turned.type.dims[0], turned.type.dims[1]);
        turned.transposed = !copy.transposed;
        if (own.type == turned.type && same_matrix(stored(own), stored(turned))) return turned;
        return std::nullopt;
    }

    // Whether two initializers have names that the model gave them.
    bool are_alike(std::size_t t, std::size_t h) const {
        const auto named = [&](std::size_t k) {
            return is_dotted(main_.argument_info[lifted_[k].argument].names.front());
        };
        return named(t) && named(h);
    }

    void make_names_unique() {
        std::set<std::string> taken;
        for (std::size_t k = 0; k < lifted_.size(); ++k) {
            if (ties_.contains(k)) continue;
            Lifted& lifted = lifted_[k];
            const std::string wanted = lifted.name;
            for (int n = 1; !taken.insert(lifted.name).second; ++n) lifted.name = fmt::format("{}_{}", wanted, n);
            if (lifted.name == wanted || !decisions_.exporters_scopes) continue;
            report_.warning("parameter", lifted.name,
                            fmt::format("two parameters would be called {}: check the names of both", wanted));
            lifted.note = fmt::format("a second {} of its module", wanted);
        }
    }

    // Exporters merge what is equal, as a teacher that begins as a copy of its student.
    void warn_of_untold_ties() {
        if (untold_ties_.empty()) return;
        constexpr std::size_t most = 8;
        const std::size_t shown = std::min(most, untold_ties_.size());
        std::string list = fmt::format("{}", fmt::join(std::span(untold_ties_).first(shown), "; "));
        if (untold_ties_.size() > most) list += fmt::format("; and {} more", untold_ties_.size() - most);
        report_.warning("tied", fmt::format("{} parameter{}", untold_ties_.size(), untold_ties_.size() == 1 ? "" : "s"),
                        list +
                            ": one initializer each, trained as one parameter. The graph does not say that the model "
                            "has one: where one only began as a copy of the other, export with dynamo=True and "
                            "optimize=False, which tells them apart, or with other numbers in one of them");
    }

    void warn_of_made_up_names() {
        // Parameters of the model's root have names without a dot.
        const bool signed_names =
            std::any_of(main_.argument_info.begin(), main_.argument_info.end(),
                        [](const ArgInfo& info) { return info.kind == ArgInfo::Kind::parameter; });
        if (decisions_.exporters_scopes || names_.any_named() || signed_names || lifted_.empty()) return;
        report_.warning("names", module_.name,
                        "the graph names neither modules nor parameters: they are called after what they do, so no "
                        "checkpoint of the framework fits without renaming");
    }

    // ---- the new function
    // ----------------------------------------------------------------------------------------------

    void rebuild() {
        Function out;
        out.name = main_.name;
        out.result_names = main_.result_names;
        std::vector<Value> map(main_.values.size());
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            if (main_.argument_info[k].kind != ArgInfo::Kind::input) continue;
            const ValueInfo& info = main_.info(main_.arguments[k]);
            map[main_.arguments[k].index] = out.add_argument(info.type, info.name, main_.argument_info[k]);
        }
        std::vector<std::size_t> order;
        for (std::size_t k = 0; k < lifted_.size(); ++k)
            if (!ties_.contains(k)) order.push_back(k);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return lifted_[a].first_use < lifted_[b].first_use; });
        std::vector<Value> arguments(lifted_.size()), turned(lifted_.size());
        for (std::size_t k : order) {
            const Lifted& lifted = lifted_[k];
            ArgInfo info = main_.argument_info[lifted.argument];
            if (info.kind != ArgInfo::Kind::buffer) info.kind = ArgInfo::Kind::parameter;
            info.names = {lifted.name};
            info.aliases = {lifted.aliases};
            info.note = lifted.note;
            info.trainable = info.trainable && info.kind == ArgInfo::Kind::parameter;
            if (lifted.source) {
                auto source = std::make_shared<WeightSource>(*lifted.source);
                source->transposed = lifted.transposed;
                info.sources = {std::move(source)};
            }
            for (std::string& result : out.result_names)  // what a buffer will be
                if (info.kind == ArgInfo::Kind::buffer && result == main_.argument_info[lifted.argument].names.front())
                    result = lifted.name;
            arguments[k] = out.add_argument(lifted.type, lifted.name, std::move(info));
        }
        for (const auto& [head, table] : ties_) arguments[head] = arguments[table];
        Builder builder(out);
        for (std::size_t k : constants_) {
            const Value v = main_.arguments[k];
            Provenance provenance;
            if (!uses_.users[v.index].empty())
                provenance = main_.ops[static_cast<std::size_t>(uses_.users[v.index].front())].provenance;
            provenance.reads.clear();
            builder.set_provenance(std::move(provenance));
            const std::string& name = main_.argument_info[k].names.front();
            map[v.index] = builder.constant(
                ConstExpr::dense(read_tensor(*main_.argument_info[k].sources.front(), name)), main_.info(v).name);
        }
        for (std::size_t at = 0; at < main_.ops.size(); ++at) {
            const Op& op = main_.ops[at];
            Provenance provenance = op.provenance;
            provenance.reads.clear();  // the arguments say it from here on
            builder.set_provenance(std::move(provenance));
            std::vector<Value> operands;
            for (Value v : op.operands) {
                if (!v) {
                    operands.push_back(v);
                    continue;
                }
                Value now = map[v.index];
                for (std::size_t k = 0; k < lifted_.size() && !now; ++k) {
                    const Lifted& lifted = lifted_[k];
                    if (main_.arguments[lifted.argument] != v || !lifted.users.contains(static_cast<std::int32_t>(at)))
                        continue;
                    if (lifted.transposed && !turned[k]) turned[k] = builder.transpose(arguments[k], {1, 0});
                    now = lifted.transposed ? turned[k] : arguments[k];
                }
                check(static_cast<bool>(now),
                      fmt::format("the operand %{} of {} is lifted", main_.info(v).name, op.name));
                operands.push_back(now);
            }
            const std::vector<Value> results = builder.clone(op, std::move(operands), main_);
            for (std::size_t r = 0; r < results.size(); ++r) map[op.results[r].index] = results[r];
        }
        for (Value v : main_.results) {
            Value now = map[v.index];
            for (std::size_t k = 0; k < lifted_.size() && !now; ++k)
                if (main_.arguments[lifted_[k].argument] == v) now = arguments[k];
            check(static_cast<bool>(now), "a result is lifted");
            out.results.push_back(now);
        }
        main_ = std::move(out);
    }

    Module module_;
    Function& main_;
    // "a.weight also b.weight": the graph has one, and nothing says that the model has.
    std::vector<std::string> untold_ties_;
    Report& report_;
    Decisions decisions_;
    RestoredNames names_;
    Uses uses_;
    std::vector<std::size_t> constants_;  // arguments
    std::vector<Lifted> lifted_;
    std::map<std::size_t, std::size_t> ties_;                                         // a head -> the table that it is
    std::map<std::pair<std::string, std::string>, std::vector<std::string>> folded_;  // by kind and what was evaluated
};

}  // namespace

Module lift_parameters(Module module, const LiftOptions& options, Report& report) {
    return Lifter(std::move(module), options, report).run();
}

}  // namespace thunderc
