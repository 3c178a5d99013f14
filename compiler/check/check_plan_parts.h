// SPDX-License-Identifier: Apache-2.0
// What check_plan is made of: the findings of a whole module, and the check of one function with the places that its
// caller gives it (check_function.cpp).
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/kernels/description.h"
#include "compiler/planned/step_form.h"
#include "compiler/planned/update_parts.h"

namespace thunderc::checking {

using Arena = Placement::Arena;
using Pairs = std::vector<std::pair<std::size_t, std::size_t>>;  // result, operand

inline constexpr std::int64_t alignment = 64;

// The bytes of a value: `count` members, `stride` apart.
struct Region {
    Arena arena = Arena::unplaced;
    std::int64_t offset = 0, bytes = 0, stride = 0, count = 1;
    std::int64_t row = 0, every = 0;  // bytes of each of its rows, and from one to the next; 0: dense
    bool operator==(const Region&) const = default;

    Region member(std::int64_t i) const { return {arena, offset + i * stride, bytes, 0, 1}; }
    std::int64_t begin() const { return offset; }
    std::int64_t end() const { return offset + (count - 1) * stride + bytes; }
};

bool overlap(const Region& a, const Region& b);
std::string text(const Region& r);

// What a caller says of a body: where its arguments, its results and its scratch memory lie.
struct Binding {
    std::map<Value, Region> places;
    std::int64_t scratch = 0;
    std::int64_t layer = 0;  // of a loop's iteration
    bool entry = true;
};

class PlanChecker {
  public:
    explicit PlanChecker(const Module& module)
        : module_(module),
          states_(optimizer_states(module)),
          states_as_parameters_(!is_step(module) || states_as_parameters(module)) {}

    std::vector<std::string> run();
    std::vector<std::string> take() { return std::move(violations_); }

    // Each once, in the order in which they are found.
    void violation(std::string what);
    // Which results a kernel may write over which operands.
    const Pairs& kernel_pairs(const std::string& kernel);
    // The kernel as it stands, for who asks where an operand may lie within a result.
    const KernelDescription& kernel(const std::string& name);
    std::int64_t arena_bytes(Arena arena) const;  // -1: the module does not say
    // Of each of the optimizer's states; they lie one behind the other. 0: there is none.
    std::int64_t state_bytes() const {
        return states_.empty() ? 0 : arena_bytes(Arena::optimizer) / static_cast<std::int64_t>(states_.size());
    }
    // How many lie before that of a name "<state>.<parameter>".
    std::int64_t index_of_state(const std::string& name) const {
        return static_cast<std::int64_t>(state_of_name(states_, name).value_or(0));
    }
    const Module& module() const { return module_; }

    // Those that may lie at any multiple of their element, by arena and offset: the bytes of an element.
    std::map<std::pair<Arena, std::int64_t>, std::int64_t> followers;
    struct Unaligned {
        Region region;
        std::int64_t size;  // of an element
        std::string where;
    };
    std::vector<Unaligned> unaligned;
    std::vector<std::tuple<Region, ConstPtr, std::string>> constants;

  private:
    void named_places(const Function& f);
    void compare_named();
    void compare_constants();
    void compare_with_parameters();
    void report_unaligned();
    // Of a state in an arena where states have shapes of their own: whether each of its members begins as many elements
    // behind a vector of four as its parameter's, as these are read together.
    bool lies_as_its_parameter(const Region& state, std::int64_t size) const;

    struct Named {
        Region region;
        std::int64_t size;  // of an element
        std::string name, function;
    };
    const Module& module_;
    const std::vector<std::string> states_;  // of the optimizer
    const bool states_as_parameters_;
    std::vector<Named> named_;
    std::map<std::string, Pairs> kernel_pairs_;
    std::map<std::string, KernelDescription> kernels_;
    std::set<std::string> seen_;
    std::vector<std::string> violations_;
};

// One function with one binding, and what it calls, in the order of the list.
void check_function(PlanChecker& plan, const Function& f, Binding binding);
// Whether other orders, which a module of several streams permits, give the same.
void check_streams(PlanChecker& plan, const Function& entry);
// Whether the forward pass may run beside the update of the step before it: it waits for what it reads.
void check_updates(PlanChecker& plan, const UpdateParts& parts);

}  // namespace thunderc::checking
