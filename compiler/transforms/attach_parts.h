// The steps of attach_epilogues, each on one function or on the module, and what they share.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/transforms/pass_manager.h"

namespace thunderc::attach {

// ---- shared
// -----------------------------------------------------------------------------------------------------------

// A function whose ops are replaced one by one. An erased op stays in the list, empty, until `finish`.
class Editor {
  public:
    explicit Editor(Function& function) : f(function), uses(function) {}

    Function& f;
    Uses uses;

    void refresh() { uses = Uses(f); }
    // The index of the op that defines `v` where it has that name and `v` is its first result; -1 else.
    std::int32_t defined_by(Value v, std::string_view name) const;
    // Whether `v` comes before the op at `index`: always for arguments.
    bool defined_before(Value v, std::int32_t index) const;
    void erase(std::int32_t index) { f.ops[static_cast<std::size_t>(index)] = Op{}; }
    Op& op(std::int32_t index) { return f.ops[static_cast<std::size_t>(index)]; }
    const Op& op(std::int32_t index) const { return f.ops[static_cast<std::size_t>(index)]; }
    // Drops erased and dead ops and brings the others into an order in which definitions come before uses.
    void finish();
};

std::string where(const Function& f, const Op& op);  // for notes: the scope, else the function
void set_operand(Op& op, std::size_t index, Value v);

// ---- siblings
// ---------------------------------------------------------------------------------------------------------

// Weights by the entry function's arguments, seen through calls and loops, and which of them lie side by side.
class Groups {
  public:
    using Key = std::int64_t;

    explicit Groups(const Module& module);
    std::optional<Key> key(const Function& f, Value v) const;  // of an argument
    // Whether weights in this order may be neighbours, given what was accepted before; then they are.
    bool accept(const std::vector<Key>& keys);
    // Those of `keys` that are neighbours of each other: groups of two or more, each in order, as indices into `keys`.
    std::vector<std::vector<std::size_t>> neighbours(const std::vector<std::optional<Key>>& keys) const;

  private:
    void visit(const Module& module, const Function& f, const std::vector<std::optional<Key>>& keys);

    std::map<std::string, std::vector<std::optional<Key>>> arguments_;  // by function
    std::vector<std::vector<Key>> groups_;
};

// The weight of the forward product whose dy a value is.
using WeightOfCotangent = std::map<Value, Groups::Key>;
WeightOfCotangent weights_of_cotangents(const Function& f, const Groups& groups);

void merge_forward(Function& f, Groups& groups, Report& report);
void merge_backward_weight(Function& f, const Groups& groups, const WeightOfCotangent& weights, Report& report);
// concat(dys) along the last dimension, an op that stands before `index`; an existing one where there is.
Value concatenated(Editor& e, std::int32_t index, const std::vector<Value>& dys, const Provenance& provenance);
// Merged results instead of all their slices, between functions.
void hand_on_merged(Module& module, Report& report);

// ---- sums
// -------------------------------------------------------------------------------------------------------------

// Sums with products among their terms; dx of siblings become one product.
void fold_sums(Function& f, const Groups& groups, Report& report);
void push_accumulation(Module& module, Report& report);
void fold_accumulation(Function& f, Report& report);

}  // namespace thunderc::attach
