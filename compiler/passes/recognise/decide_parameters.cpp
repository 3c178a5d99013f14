// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/decide_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <set>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/analysis/weight_numbers.h"
#include "compiler/passes/recognise/read_structure.h"
#include "compiler/passes/recognise/restore_names.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

std::regex expression(const std::string& text, const char* flag) {
    try {
        return std::regex(text);
    } catch (const std::regex_error&) {
        Diagnostic d;
        d.message = fmt::format("{} \"{}\" is not a regular expression", flag, text);
        d.help = fmt::format("for example: {} 'model\\.layers\\.[0-9]+\\..*'", flag);
        throw UsageError(std::move(d));
    }
}

// An option's expressions, and how many tensors each has found.
class Expressions {
  public:
    Expressions(const char* flag, const std::vector<std::string>& texts) : flag_(flag) {
        for (const std::string& text : texts)
            if (!text.empty()) all_.push_back({text, expression(text, flag), 0});
    }

    bool find(const std::string& name) const {
        return std::any_of(all_.begin(), all_.end(), [&](const One& e) { return std::regex_search(name, e.regex); });
    }
    // By either name; all that find it are counted.
    bool count(const std::string& name, const std::string& other) {
        bool found = false;
        for (One& e : all_) {
            if (!std::regex_search(name, e.regex) && !std::regex_search(other, e.regex)) continue;
            ++e.matches;
            found = true;
        }
        return found;
    }
    void expect_matches() const {
        for (const One& e : all_) {
            if (e.matches > 0) continue;
            Diagnostic d;
            d.message = fmt::format("{} {} matches no tensor of the graph", flag_, e.text);
            d.help = "thunderc inspect lists parameters, and constants with the reason why they are";
            throw UserError(std::move(d));
        }
    }

  private:
    struct One {
        std::string text;
        std::regex regex;
        std::size_t matches;
    };
    const char* flag_;
    std::vector<One> all_;
};

std::string in_scope(const Site& site) {
    return site.scope.empty() ? "" : " in " + site.scope;
}

class Decider {
  public:
    Decider(Module& module, const LiftOptions& options, Report& report)
        : module_(module),
          main_(module.main()),
          report_(report),
          trainable_("--trainable", options.trainable),
          constant_("--constant", options.constant) {}

    Decisions run() {
        Decisions out;
        out.exporters_scopes =
            std::any_of(main_.ops.begin(), main_.ops.end(), [](const Op& op) { return !op.provenance.scope.empty(); });
        if (!out.exporters_scopes) take_modules_from_structure();
        const Uses uses(main_);
        const RestoredNames names(main_, out.exporters_scopes, module_.keeps_names);
        out.arguments.resize(main_.arguments.size());
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            if (info(k).kind == ArgInfo::Kind::input) continue;
            check(!info(k).names.empty(), "an initializer has a name");
            Decision& decision = out.arguments[k];
            decision.sites = find_sites(main_, uses, main_.arguments[k]);
            const std::vector<Site>& sites = decision.sites;
            if (sites.empty() && !uses.is_result[main_.arguments[k].index]) {
                decision.verdict = Decision::Verdict::unused;
                report_.done("unused", name(k), "nothing reads it: left out");
                continue;
            }
            const std::string restored =
                sites.empty() || module_.names_are_given ? name(k) : names.target(k, sites.front(), true);
            decide(k, restored, out.exporters_scopes, decision);
            if (evaluated_of_parameters(k, decision, names)) evaluated_.push_back(k);
            if (decision.verdict == Decision::Verdict::constant) report_.done("constant", name(k), decision.why);
        }
        constant_.expect_matches();
        trainable_.expect_matches();
        if (!open_.empty()) ask();
        warn_of_taken_by_name();
        warn_of_evaluated(out);
        if (!out.exporters_scopes && std::any_of(out.arguments.begin(), out.arguments.end(), [](const Decision& d) {
                return d.verdict == Decision::Verdict::parameter;
            }))
            report_.done("modules", main_.name,
                         structure_->layers == 0
                             ? std::string("the graph names none: they are called after what they compute")
                             : fmt::format("the graph names none: {} layers found by structure", structure_->layers));
        return out;
    }

  private:
    const ArgInfo& info(std::size_t k) const { return main_.argument_info[k]; }
    const std::string& name(std::size_t k) const { return info(k).names.front(); }
    const Type& type(std::size_t k) const { return main_.type(main_.arguments[k]); }

    void decide(std::size_t k, const std::string& restored, bool exporters_scopes, Decision& decision) {
        if (info(k).kind == ArgInfo::Kind::buffer) {
            decision.verdict = Decision::Verdict::parameter;
            decision.why = "a buffer that the model moves";
            return;
        }
        const bool wanted_constant = constant_.count(name(k), restored),
                   wanted_trainable = trainable_.count(name(k), restored);
        if (wanted_constant && wanted_trainable) {
            Diagnostic d;
            d.message = fmt::format("both --constant and --trainable match {}", exporters_scopes ? restored : name(k));
            d.help = "make one of the two expressions narrower";
            throw UserError(std::move(d));
        }
        auto decided = [&](Decision::Verdict verdict, std::string why = {}) {
            decision.verdict = verdict;
            decision.why = std::move(why);
        };
        if (wanted_constant || wanted_trainable) flagged_.insert(k);
        if (wanted_constant) return decided(Decision::Verdict::constant, "by --constant");
        if (wanted_trainable) return decided(Decision::Verdict::parameter);
        if (info(k).kind == ArgInfo::Kind::parameter) return decided(Decision::Verdict::parameter);
        if (info(k).kind == ArgInfo::Kind::constant)
            return decided(Decision::Verdict::constant,
                           info(k).note.empty() ? std::string("a buffer, as the exporter says")
                                                : fmt::format("evaluated by the exporter ({})", info(k).note));
        if (is_dotted(name(k))) {
            if (buffer_name(name(k))) return decided(Decision::Verdict::constant, "a buffer, by its name");
            if (!torchs_parameter_name(name(k))) by_name_.push_back(name(k));
            return decided(Decision::Verdict::parameter);
        }
        if (decision.sites.empty())
            return decided(Decision::Verdict::constant, "an output of the graph that nothing computes");
        if (exporters_scopes) decide_by_scope(k, decision);
        if (decision.verdict == Decision::Verdict::none) decide_by_structure(k, decision);
    }

    // What the exporter says it computed, and neither numbers nor its module show to be made of constants. (The lifter
    // itself warns of a norm's folded scale.)
    bool evaluated_of_parameters(std::size_t k, const Decision& decision, const RestoredNames& names) const {
        if (info(k).note.empty() || decision.verdict == Decision::Verdict::none || decision.sites.empty() ||
            flagged_.contains(k))
            return false;
        const WeightSource* source = info(k).sources.empty() ? nullptr : info(k).sources.front().get();
        if (source != nullptr && what_numbers_say(*source).verdict == NumbersSay::Verdict::constant) return false;
        const std::vector<Site>& sites = decision.sites;
        if (std::all_of(sites.begin(), sites.end(), [](const Site& site) { return in_rotary(site); })) return false;
        return decision.verdict != Decision::Verdict::parameter ||
               std::none_of(sites.begin(), sites.end(), [&](const Site& site) { return names.folded(k, site); });
    }

    // Of parameters by hand; torch's own modules have none of these names.
    void warn_of_taken_by_name() {
        if (by_name_.empty()) return;
        const bool one = by_name_.size() == 1;
        report_.warning("parameter", list_of_names(by_name_),
                        one ? fmt::format("taken for a parameter by its name; if it is a buffer, add --constant '^{}$'",
                                          by_name_.front())
                            : std::string("taken for parameters by their names; if there is a buffer among them, add "
                                          "--constant REGEX"));
    }

    void warn_of_evaluated(const Decisions& decisions) {
        std::vector<std::string> frozen, trained;
        for (const std::size_t k : evaluated_) {
            const Decision& decision = decisions.arguments[k];
            (decision.verdict == Decision::Verdict::constant ? frozen : trained)
                .push_back(name(k) + in_scope(decision.sites.front()));
        }
        const auto warn = [&](const std::vector<std::string>& which, const char* what) {
            if (which.empty()) return;
            report_.warning(
                "evaluated", fmt::format("{}", fmt::join(which, ", ")),
                fmt::format("the exporter's optimizer computed {0}: {1}; parameters that {2} computed from "
                            "get no gradient through {0}. Export with optimize=False to keep what {2} "
                            "computed by.",
                            which.size() == 1 ? "it" : "them", what, which.size() == 1 ? "it was" : "they were"));
        };
        warn(frozen, "a constant here");
        warn(trained, "trained as if it were the model's parameter");
    }

    static bool in_rotary(const Site& site) {
        return mentions(site.scope, "rotary") || mentions(site.module_class, "rotary");
    }

    void decide_by_scope(std::size_t k, Decision& decision) const {
        bool rotary = true, scoped = true, classed = true, product = false;
        for (const Site& site : decision.sites) {
            rotary = rotary && in_rotary(site);
            scoped = scoped && !site.scope.empty();
            classed = classed && !site.module_class.empty();
            product = product || (site.role == Role::product && type(k).rank() == 2);
        }
        const Site& first = decision.sites.front();
        if (rotary) {
            decision.verdict = Decision::Verdict::constant;
            decision.why = fmt::format("used in {}", first.scope);
            return;
        }
        const bool parameter = std::any_of(decision.sites.begin(), decision.sites.end(),
                                           [&](const Site& site) { return parameter_of_module(k, site, scoped); });
        if (parameter) {
            decision.verdict = Decision::Verdict::parameter;
        } else if (scoped && classed && !product) {
            decision.verdict = Decision::Verdict::constant;
            decision.why = fmt::format("used in {} ({}), which is no layer with parameters of its own", first.scope,
                                       first.module_class);
        }
    }

    // Whether the module of this use has parameters of this kind.
    bool parameter_of_module(std::size_t k, const Site& site, bool scoped) const {
        const std::string& c = site.module_class;
        const std::int64_t rank = type(k).rank();
        const bool layer = c.empty() ? !site.scope.empty() : mentions(c, "linear") || mentions(c, "conv1d");
        const bool norm = mentions(c, "norm") || (c.empty() && mentions(leaf(site.scope), "norm")) ||
                          mentions(site.consumer->name, "norm");
        switch (site.role) {
            case Role::product: return rank == 2 && layer;
            case Role::table: return rank == 2 && (c.empty() ? scoped : mentions(c, "embedding"));
            case Role::scale: return rank == 1 && norm;
            case Role::shift:
                return (rank == 1 && ((!c.empty() && layer) || norm)) || folded_op(name(k)) == "embedding";
            case Role::other: return false;
        }
        return false;
    }

    // ---- structure
    // -----------------------------------------------------------------------------------------------------

    const Structure& structure() {
        if (structure_) return *structure_;
        std::vector<GivenArgument> given(main_.arguments.size());
        numbers_.resize(main_.arguments.size());
        for (std::size_t k = 0; k < given.size(); ++k) {
            if (info(k).kind == ArgInfo::Kind::input) continue;
            if (info(k).kind == ArgInfo::Kind::buffer) {
                given[k].kind = GivenArgument::Kind::constant;
                continue;
            }
            const WeightSource* source = info(k).sources.empty() ? nullptr : info(k).sources.front().get();
            const bool named = is_dotted(name(k));
            if (trainable_.find(name(k)) || info(k).kind == ArgInfo::Kind::parameter ||
                (named && !buffer_name(name(k))))
                given[k].kind = GivenArgument::Kind::parameter;
            else if (constant_.find(name(k)) || info(k).kind == ArgInfo::Kind::constant || named)
                given[k].kind = GivenArgument::Kind::constant;
            else if (source != nullptr) {
                numbers_[k] = what_numbers_say(*source);
                given[k].numbers_read = static_cast<bool>(source->read);
                if (numbers_[k].verdict == NumbersSay::Verdict::constant) given[k].kind = GivenArgument::Kind::constant;
            }
            if (given[k].kind == GivenArgument::Kind::constant && source != nullptr && source->read)
                given[k].value = ConstExpr::dense(read_tensor(*source, name(k)));
        }
        structure_ = read_structure(module_, given);
        return *structure_;
    }

    void take_modules_from_structure() {
        const Structure& s = structure();
        for (std::size_t k = 0; k < main_.ops.size(); ++k) {
            main_.ops[k].provenance.scope = s.modules[k].scope;
            main_.ops[k].provenance.module_class = s.modules[k].module_class;
        }
    }

    void decide_by_structure(std::size_t k, Decision& decision) {
        const StructureSays& says = structure().arguments[k];
        const NumbersSay& numbers = numbers_[k];
        if (numbers.verdict == NumbersSay::Verdict::constant) {
            decision.verdict = Decision::Verdict::constant;
            decision.why = numbers.why + ", by its numbers";
        } else if (says.verdict == StructureSays::Verdict::constant) {
            decision.verdict = Decision::Verdict::constant;
            decision.why = says.what + ", by structure";
        } else if (says.verdict == StructureSays::Verdict::parameter &&
                   numbers.verdict == NumbersSay::Verdict::nothing) {
            decision.verdict = Decision::Verdict::parameter;
            decision.why = says.what + ", by structure";
        } else {
            std::string what = says.what.empty() ? decision.sites.front().consumer->name : says.what;
            if (!numbers.why.empty()) what += ", which " + numbers.why;
            const Site& first = decision.sites.front();
            const std::vector<std::string>& nodes = first.consumer->provenance.nodes;
            open_.push_back({name(k), fmt::format("{} [{}], {}{}{}", name(k), to_string(type(k).dims), what,
                                                  in_scope(first), nodes.empty() ? "" : ", node " + nodes.front())});
        }
    }

    [[noreturn]] void ask() const {
        constexpr std::size_t most = 8;
        std::vector<std::string> names, texts;
        for (std::size_t k = 0; k < std::min(open_.size(), most); ++k) {
            names.push_back(open_[k].name);
            texts.push_back(open_[k].text);
        }
        if (open_.size() > most) texts.push_back(fmt::format("and {} more", open_.size() - most));
        const bool one = open_.size() == 1;
        const std::string pattern =
            one ? fmt::format("'^{}$'", names[0]) : fmt::format("'^({})$'", fmt::join(names, "|"));
        Diagnostic d;
        d.message = one ? fmt::format("nothing says whether {} is a parameter or a constant", names[0])
                        : fmt::format("nothing says whether {} tensors are parameters or constants", open_.size());
        d.actual = fmt::format("{}", fmt::join(texts, "; "));
        // Where the exporter keeps calls with their parameters, its optimizer is what took the names.
        const bool traced =
            std::any_of(main_.ops.begin(), main_.ops.end(), [](const Op& op) { return !op.provenance.reads.empty(); });
        // What TorchScript's exporter folds is called "onnx::Mul_7", after what reads it, or by a number alone.
        const bool folded = std::any_of(open_.begin(), open_.end(), [](const Open& open) {
            return open.name.starts_with("onnx::") || open.name.find_first_not_of("0123456789") == std::string::npos;
        });
        const char* keeps = traced ? "optimize=False" : folded ? "do_constant_folding=False" : nullptr;
        d.help = fmt::format(
            "--trainable {0} if {1} to be trained, --constant {0} if not{2}", pattern, one ? "it is" : "they are",
            keeps == nullptr ? "" : fmt::format("; or export with {}, which keeps what the model has", keeps));
        throw UserError(std::move(d));
    }

    struct Open {
        std::string name, text;
    };

    const Module& module_;
    Function& main_;
    Report& report_;
    Expressions trainable_, constant_;
    std::optional<Structure> structure_;
    std::vector<NumbersSay> numbers_;   // by argument
    std::vector<Open> open_;            // what nothing decides
    std::vector<std::string> by_name_;  // what nothing but its name says to be a parameter
    std::vector<std::size_t> evaluated_;
    std::set<std::size_t> flagged_;  // decided by the user
};

}  // namespace

Decisions decide_parameters(Module& module, const LiftOptions& options, Report& report) {
    return Decider(module, options, report).run();
}

}  // namespace thunderc
