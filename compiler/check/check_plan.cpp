// SPDX-License-Identifier: Apache-2.0
#include "compiler/check/check_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <string_view>
#include <utility>

#include "compiler/analysis/views.h"
#include "compiler/check/check_plan_parts.h"
#include "compiler/kernels/in_place.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace checking {

bool overlap(const Region& a, const Region& b) {
    if (a.arena != b.arena || a.bytes == 0 || b.bytes == 0) return false;
    if (a.begin() >= b.end() || b.begin() >= a.end()) return false;
    if (a.count == 1 && b.count == 1 && apart({a.offset, a.end(), a.row, a.every}, {b.offset, b.end(), b.row, b.every}))
        return false;
    for (std::int64_t i = 0; i < a.count; ++i)
        for (std::int64_t j = 0; j < b.count; ++j) {
            const std::int64_t x = a.offset + i * a.stride, y = b.offset + j * b.stride;
            if (x < y + b.bytes && y < x + a.bytes) return true;
        }
    return false;
}

std::string text(const Region& r) {
    std::string out = fmt::format("@{}+{}, {} bytes", name_of(r.arena), r.offset, r.bytes);
    return r.count == 1 ? out : out + fmt::format(" x {} every {}", r.count, r.stride);
}

std::vector<std::string> PlanChecker::run() {
    for (const Function& f : module_.functions)
        if (f.kind.empty() && !f.argument_info.empty()) {
            check_function(*this, f, {});
            named_places(f);
            // Where the plan lacks a place, nothing can be written out.
            if (!module_.streams.empty() && violations_.empty()) check_streams(*this, f);
        }
    if (is_step(module_) && violations_.empty()) check_updates(*this, update_parts(module_));
    compare_named();
    compare_constants();
    compare_with_parameters();
    report_unaligned();
    return std::move(violations_);
}

void PlanChecker::violation(std::string what) {
    if (seen_.insert(what).second) violations_.push_back(std::move(what));
}

const Pairs& PlanChecker::kernel_pairs(const std::string& kernel) {
    auto [at, fresh] = kernel_pairs_.try_emplace(kernel);
    if (fresh) at->second = in_place_pairs(this->kernel(kernel));
    return at->second;
}

const KernelDescription& PlanChecker::kernel(const std::string& name) {
    auto at = kernels_.find(name);
    if (at == kernels_.end()) at = kernels_.emplace(name, describe_kernel(*module_.find(name))).first;
    return at->second;
}

std::int64_t PlanChecker::arena_bytes(Arena arena) const {
    auto found = module_.arena_bytes.find(std::string(name_of(arena)));
    return found == module_.arena_bytes.end() ? -1 : found->second;
}

void PlanChecker::named_places(const Function& f) {
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const Placement& p = f.info(f.arguments[k]).placement;
        const Type& type = f.type(f.arguments[k]);
        if (p.arena == Arena::scalars || f.argument_info[k].names.empty()) continue;
        named_.push_back({{p.arena, p.offset, static_cast<std::int64_t>(type.bytes()), p.layer_stride,
                           type.is_family() ? type.count : 1},
                          static_cast<std::int64_t>(size_of(type.dtype)),
                          f.argument_info[k].names.front(),
                          f.name});
    }
}

// One name is one place, in all functions, and two names are two places.
void PlanChecker::compare_named() {
    std::vector<std::size_t> order(named_.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    const auto begin_of = [&](std::size_t k) { return std::pair(named_[k].region.arena, named_[k].region.begin()); };
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return begin_of(a) < begin_of(b); });
    for (std::size_t a = 0; a < order.size(); ++a)
        for (std::size_t b = a + 1; b < order.size(); ++b) {
            const Named &one = named_[std::min(order[a], order[b])], &other = named_[std::max(order[a], order[b])];
            if (begin_of(order[b]) >= std::pair(named_[order[a]].region.arena, named_[order[a]].region.end())) break;
            if (one.name != other.name && overlap(one.region, other.region))
                violation(fmt::format("{} ({}) and {} ({}) share bytes", one.name, text(one.region), other.name,
                                      text(other.region)));
        }
    std::map<std::string_view, std::size_t> first;
    for (std::size_t b = 0; b < named_.size(); ++b) {
        const std::size_t a = first.try_emplace(named_[b].name, b).first->second;
        if (!(named_[a].region == named_[b].region))
            violation(fmt::format("{} lies at {} in @{} and at {} in @{}", named_[a].name, text(named_[a].region),
                                  named_[a].function, text(named_[b].region), named_[b].function));
    }
}

// What belongs to a parameter, as "grad.<name>", lies at the parameter's element of its arena: loops of the optimizer
// go over all arenas at once.
void PlanChecker::compare_with_parameters() {
    std::map<std::string_view, const Named*> parameters;
    for (const Named& n : named_)
        if (n.region.arena == Arena::parameters) parameters.try_emplace(n.name, &n);
    for (const Named& state : named_) {
        const Arena arena = state.region.arena;
        if (arena != Arena::gradients && arena != Arena::optimizer && arena != Arena::narrow_copies) continue;
        if (arena == Arena::optimizer && !states_as_parameters_) continue;
        const std::string parameter = state.name.substr(state.name.find('.') + 1);
        const auto at = parameters.find(parameter);
        if (at == parameters.end()) continue;
        const Named* of = at->second;
        const std::int64_t before = arena == Arena::optimizer ? state_bytes() * index_of_state(state.name) : 0;
        if ((state.region.offset - before) * of->size != of->region.offset * state.size ||
            state.region.stride * of->size != of->region.stride * state.size)
            violation(fmt::format("{} ({}) does not lie at the element of {} ({})", state.name, text(state.region),
                                  parameter, text(of->region)));
    }
}

// Equal ones in one place, of which there may be thousands, are compared with others as one.
void PlanChecker::compare_constants() {
    std::map<std::pair<Arena, std::int64_t>, std::vector<std::vector<std::size_t>>> equals;  // by where they begin
    std::int64_t longest = 0;
    for (std::size_t b = 0; b < constants.size(); ++b) {
        const auto& [region_b, expr_b, where_b] = constants[b];
        std::vector<std::size_t>* own = nullptr;
        const auto end = equals.lower_bound({region_b.arena, region_b.end()});
        for (auto at = equals.upper_bound({region_b.arena, region_b.begin() - longest}); at != end; ++at)
            for (std::vector<std::size_t>& others : at->second) {
                const auto& [region_a, expr_a, where_a] = constants[others.front()];
                if (region_a == region_b && equal(*expr_a, *expr_b)) {
                    own = &others;
                    continue;
                }
                if (!overlap(region_a, region_b)) continue;
                for (std::size_t a : others)
                    violation(fmt::format("the constants {} ({}) and {} ({}) share bytes and differ",
                                          std::get<2>(constants[a]), text(region_a), where_b, text(region_b)));
            }
        if (own == nullptr) own = &equals[{region_b.arena, region_b.begin()}].emplace_back();
        own->push_back(b);
        longest = std::max(longest, region_b.end() - region_b.begin());
    }
}

bool PlanChecker::lies_as_its_parameter(const Region& state, std::int64_t size) const {
    const auto named = std::find_if(named_.begin(), named_.end(), [&](const Named& n) { return n.region == state; });
    if (named == named_.end()) return false;
    const std::string parameter = named->name.substr(named->name.find('.') + 1);
    const auto of = std::find_if(named_.begin(), named_.end(), [&](const Named& n) {
        return n.region.arena == Arena::parameters && n.name == parameter;
    });
    if (of == named_.end()) return false;
    const std::int64_t further = state.offset / size - of->region.offset / of->size,
                       with_each = state.count > 1 ? state.stride / size - of->region.stride / of->size : 0;
    return further % 4 == 0 && with_each % 4 == 0;
}

void PlanChecker::report_unaligned() {
    // Gradients, narrow copies and optimizer state lie like the parameters that they belong to: at the same element of
    // their arenas, of which the optimizer's has as many as it has states, one behind the other.
    const auto beside = [this](std::int64_t element, Arena arena) {
        for (const std::int64_t size : {2, 4})
            if (const auto at = followers.find({arena, element * size}); at != followers.end() && at->second == size)
                return true;
        return false;
    };
    for (const auto& [region, size, where] : unaligned) {
        bool follows = followers.contains({region.arena, region.offset});
        const bool of_parameter = region.arena == Arena::gradients || region.arena == Arena::optimizer ||
                                  region.arena == Arena::parameters || region.arena == Arena::narrow_copies;
        std::vector<std::int64_t> elements;
        if (of_parameter && region.offset % size == 0) elements.push_back(region.offset / size);
        const std::int64_t behind = region.offset - (state_bytes() > 0 ? region.offset % state_bytes() : 0);
        if (region.arena == Arena::optimizer && behind > 0 && (region.offset - behind) % size == 0)
            elements.push_back((region.offset - behind) / size);
        // States of shapes of their own: vectors of four may be read of them.
        if (region.arena == Arena::optimizer && !states_as_parameters_)
            follows = region.offset % (4 * size) == 0 || lies_as_its_parameter(region, size);
        for (const std::int64_t element : elements)
            for (const Arena of : {Arena::parameters, Arena::narrow_copies}) follows = follows || beside(element, of);
        if (!follows) violation(fmt::format("{} ({}) is not aligned to {} bytes", where, text(region), alignment));
    }
}

}  // namespace checking

std::vector<std::string> plan_violations(const Module& planned) {
    check(planned.phase == Module::Phase::planned, "there is no plan to check");
    return checking::PlanChecker(planned).run();
}

std::vector<std::string> update_violations(const Module& planned, const UpdateParts& parts) {
    checking::PlanChecker checker(planned);
    checking::check_updates(checker, parts);
    return checker.take();
}

Module check_plan(Module module, Report& report) {
    const std::vector<std::string> violations = plan_violations(module);
    if (violations.empty()) {
        report.done("plan", "", "every value has its bytes for itself as long as it is needed");
        return module;
    }
    constexpr std::size_t shown = 8;
    std::string text =
        fmt::format("the plan is wrong in {} place{}", violations.size(), violations.size() == 1 ? "" : "s");
    for (std::size_t k = 0; k < std::min(shown, violations.size()); ++k) text += "\n  " + violations[k];
    throw InternalError(text);
}

}  // namespace thunderc
