// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/freeze_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <regex>
#include <vector>

#include "compiler/analysis/parameter_names.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

[[noreturn]] void fail_usage(std::string message, std::string help) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    throw UsageError(std::move(d));
}

constexpr std::size_t shown_kinds = 8;

// An expression of the command line, and what it matches.
class Matching {
  public:
    Matching(std::string flag, const std::string& pattern) : flag_(std::move(flag)), pattern_(pattern) {
        if (pattern.empty()) return;
        try {
            expression_.emplace(pattern);
        } catch (const std::regex_error&) {
            fail_usage(fmt::format("{} \"{}\" is not a regular expression", flag_, pattern),
                       fmt::format("for example: {} 'model\\.layers\\.[0-9]+\\..*'", flag_));
        }
    }

    bool given() const { return expression_.has_value(); }
    const std::string& flag() const { return flag_; }

    // By any of its names. `others`: those that the expression does not match.
    bool matches(const std::vector<std::string>& names, std::vector<std::string>& others) const {
        if (!given()) return false;
        for (const std::string& name : names)
            if (!std::regex_search(name, *expression_)) others.push_back(name);
        return others.size() < names.size();
    }

    void expect_some(std::size_t matches, const std::vector<std::string>& all) const {
        if (!given() || matches > 0) return;
        fail_usage(fmt::format("{} {} matches no parameter", flag_, pattern_),
                   fmt::format("the parameters are {}", list_of_names(all, shown_kinds)));
    }

  private:
    std::string flag_, pattern_;
    std::optional<std::regex> expression_;
};

}  // namespace

Module freeze_parameters(Module module, const FreezeOptions& options, Report& report) {
    const Matching freeze("--freeze", options.freeze), train_only("--train-only", options.train_only);
    if (!freeze.given() && !train_only.given()) return module;
    std::size_t frozen = 0, trained = 0;  // that an expression matches
    std::vector<std::string> all, both;
    for (ArgInfo& info : module.main().argument_info) {
        if (info.kind != ArgInfo::Kind::parameter) continue;
        check(info.names.size() == 1, "parameters are frozen before layers are rolled");
        std::vector<std::string> names = info.names;
        if (!info.aliases.empty()) names.insert(names.end(), info.aliases[0].begin(), info.aliases[0].end());
        all.push_back(info.names[0]);
        bool is_matched[2] = {};
        for (const Matching* one : {&freeze, &train_only}) {
            std::vector<std::string> others;
            const bool matched = is_matched[one == &train_only ? 1 : 0] = one->matches(names, others);
            if (!matched || others.empty()) continue;
            const auto named = std::find_if(names.begin(), names.end(), [&](const std::string& name) {
                return std::find(others.begin(), others.end(), name) == others.end();
            });
            report.warning("tied parameter", "",
                           fmt::format("{} is {} by {}, and so {} {}: they are one tensor", *named,
                                       one == &freeze ? "frozen" : "trained", one->flag(),
                                       others.size() == 1 ? "is" : "are", fmt::join(others, ", ")));
        }
        frozen += is_matched[0] ? 1 : 0;
        trained += is_matched[1] ? 1 : 0;
        if (is_matched[0] && is_matched[1]) both.push_back(info.names[0]);
        if (!is_matched[0] && (!train_only.given() || is_matched[1])) continue;
        info.trainable = false;
        report.done("freeze_parameters", info.names[0]);
    }
    freeze.expect_some(frozen, all);
    train_only.expect_some(trained, all);
    if (!both.empty())
        fail_usage(fmt::format("--freeze and --train-only both match {}", list_of_names(both, shown_kinds)),
                   "--train-only alone freezes all others; make one of the two expressions narrower");
    return module;
}

}  // namespace thunderc
