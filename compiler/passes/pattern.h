// SPDX-License-Identifier: Apache-2.0
// Small helpers for finding patterns: who defines a value, what it is a view of, what a product consists of.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/constant.h"
#include "compiler/ir/module.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/pass_manager.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {

// The ops that a match consists of, in the order of the graph: all of them lie in one list of ops, so that their
// addresses have its order.
class Matched {
  public:
    void add(const Op* op) {
        if (op != nullptr && !is_constant_op(*op)) ops_.insert(op);
    }
    void add(const Matched& other) { ops_.insert(other.ops_.begin(), other.ops_.end()); }
    Provenance provenance() const;

  private:
    std::set<const Op*> ops_;
};

// "from Pow, ReduceMean, Mul": the exporter's operators.
std::string replaced_text(const Provenance& provenance);
// Scope and class alone: of reshapes and transposes that a composite needs around it.
Provenance place(const Provenance& provenance);
// The double that is written shortest among those that are the same f32: 1e-05 for 9.999999747378752e-06.
double shortest(double value);
// Where a note is about: the scope, else the node.
std::string where(const Provenance& provenance);

// `x * by` where by is the same for all elements.
struct Scaled {
    Value x;
    double by = 1;
};

// One product, flattened: constant * factors[0] * factors[1] ...
struct Product {
    double constant = 1;
    std::vector<Value> factors;
    Matched matched;
};

// A function's definitions while it is rewritten: values and ops are the old ones.
class Definitions {
  public:
    Definitions(const Function& function, const std::vector<Op>& ops);

    const Function& function() const { return *function_; }
    const Type& type(Value v) const { return types_[v.index]; }
    const Op* op(Value v) const;                                // nullptr: an argument, or none
    const Op* op(Value v, std::string_view name) const;         // nullptr too where it is another op
    std::size_t uses(Value v) const { return uses_[v.index]; }  // operands and results of the function that it is
    bool single_use(Value v) const { return uses(v) == 1; }
    // The only op that reads it; nullptr where several do, or where it is a result.
    const Op* only_user(Value v) const;

    ConstPtr constant(Value v) const;  // nullptr where it is not one
    std::optional<double> splat(Value v) const;

    // `v` through casts between floating point types.
    Value uncast(Value v, Matched& matched) const;
    // mul or div by a constant that is the same everywhere, or neg; nullopt where v is none of them.
    std::optional<Scaled> scaled(Value v, Matched& matched) const;
    Product product(Value v) const;  // factors: at least one

    // A parameter: an argument of main that is one, any argument of another function, a family's member; perhaps cast.
    bool is_parameter(Value v) const;

  private:
    const Function* function_;
    std::vector<Type> types_;  // a copy: rewriting adds values
    std::vector<const Op*> definition_;
    std::vector<std::uint32_t> uses_;
    std::vector<const Op*> user_;
    std::vector<bool> parameter_;
};

// The axis attribute, counted from the front.
std::size_t axis_of(const Op& op, const Type& type);

// ---- views ----------------------------------------------------------------------------------------------------------

// A value seen as indices into another: each dimension is a row-major group of atoms, each atom a size and a stride
// into the dense base. Stride 0 repeats. Reshapes only regroup atoms, so any chain of reshape, transpose and
// broadcast_to keeps the form.
struct ViewAtom {
    std::int64_t size = 1;
    std::int64_t stride = 0;
    bool operator==(const ViewAtom&) const = default;
};

struct View {
    Value base;
    double scale = 1;                         // constants multiplied in on the way
    std::vector<std::vector<ViewAtom>> dims;  // atoms of size 1 are left out; neighbours that form one run are one atom
    Matched matched;
};

// `v` as a view of the first value on its way back that is no view.
View view_of(const Definitions& definitions, Value v);

std::int64_t size_of(const std::vector<ViewAtom>& atoms);

// A value with the elements of a view: the base (a value as it is now), reshaped to its atoms, permuted, reshaped to
// `dims`; `groups` are in the order of the result. None where the groups do not cover the base, each element once.
Value materialise(Builder& b, Value base, const std::vector<std::vector<ViewAtom>>& groups, const Dims& dims);

}  // namespace thunderc
