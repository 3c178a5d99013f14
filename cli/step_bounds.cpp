// SPDX-License-Identifier: Apache-2.0
#include "cli/step_bounds.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace thunderc {
namespace {

std::optional<std::string> off(const char* what, double is, double reference, double allowed) {
    if (std::isnan(reference)) return std::nullopt;  // as the norm that a log does not have
    if (std::abs(is - reference) <= allowed) return std::nullopt;
    if (!std::isfinite(is)) return fmt::format("{} is no number, the reference's is {:.7g}", what, reference);
    // As many digits as tell the two apart; 9 tell any two numbers of f32.
    const int digits = fmt::format("{:.7g}", is) == fmt::format("{:.7g}", reference) ? 9 : 7;
    return fmt::format("{} {:.{}g}, the reference's {:.{}g}: off by {:.1e} where {:.1e} is allowed", what, is, digits,
                       reference, digits, std::abs(is - reference), allowed);
}

}  // namespace

StepBounds::StepBounds(Steps reference, std::optional<double> tolerance)
    : reference_(std::move(reference)), tolerance_(tolerance), moves_(reference_.size()) {}

void StepBounds::add_moved(const Steps& moved) {
    StepNumbers most;
    for (std::size_t s = 0; s < std::min(moved.size(), moves_.size()); ++s) {
        most.loss = std::max(most.loss, std::abs(moved[s].loss - reference_[s].loss));
        most.norm = std::max(most.norm, std::abs(moved[s].norm - reference_[s].norm));
        moves_[s].loss = std::max(moves_[s].loss, most.loss);
        moves_[s].norm = std::max(moves_[s].norm, most.norm);
    }
}

std::optional<Departure> StepBounds::departure(const Steps& steps) const {
    for (std::size_t s = 0; s < reference_.size(); ++s) {
        if (s >= steps.size()) return Departure{s, "the program ends before it"};
        const auto allowed = [&](double reference, double least, double moves) {
            const double size = std::abs(reference), grown = least * static_cast<double>(s + 1);  // each step's own
            return tolerance_ ? *tolerance_ * size : std::max(grown * size, moves_allowed * moves);
        };
        const StepNumbers &is = steps[s], &reference = reference_[s];
        if (auto what = off("loss", is.loss, reference.loss, allowed(reference.loss, least_loss, moves_[s].loss)))
            return Departure{s, std::move(*what)};
        if (auto what =
                off("gradient norm", is.norm, reference.norm, allowed(reference.norm, least_norm, moves_[s].norm)))
            return Departure{s, std::move(*what)};
    }
    return std::nullopt;
}

}  // namespace thunderc
