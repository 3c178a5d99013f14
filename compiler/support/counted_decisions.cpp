// SPDX-License-Identifier: Apache-2.0
#include "compiler/support/counted_decisions.h"

#include <utility>

namespace thunderc {

std::string to_string(const CountedDecision& decision) {
    std::string text = decision.pass;
    if (decision.what != decision.pass) text += ": " + decision.what;
    if (!decision.where.empty()) text += " in " + decision.where;
    return decision.text.empty() ? text : text + ": " + decision.text;
}

bool CountedDecisions::take(std::string what, std::string where, std::string text) {
    const auto [at, fresh] = known_.try_emplace({pass_, what, where, text}, asked_.size());
    if (fresh) asked_.push_back({pass_, std::move(what), std::move(where), std::move(text)});
    return (!limit_ || at->second < *limit_) && (!without_ || at->second + 1 != *without_);
}

}  // namespace thunderc
