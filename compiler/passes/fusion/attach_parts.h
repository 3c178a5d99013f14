// SPDX-License-Identifier: Apache-2.0
// The steps of attach_epilogues, each on one function, and what they share.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc::attach {

// ---- shared ---------------------------------------------------------------------------------------------------------

// A function whose ops are replaced one by one, with what reads and defines its values. An erased op stays in the list,
// empty, until `finish`.
class Editor {
  public:
    explicit Editor(Function& function) : f(function), uses(function) {}

    Function& f;
    Uses uses;

    // The index of the op that defines `v` where it has that name and `v` is its first result; -1 else.
    std::int32_t defined_by(Value v, std::string_view name) const;
    // The same of a product with an epilogue (OpDef::epilogue), whatever its name.
    std::int32_t product_of(Value v) const;
    // Whether `v` comes before the op at `index`: always for arguments.
    bool defined_before(Value v, std::int32_t index) const;
    // Whether `v` is computed from a result of the op at `index`: then it cannot be added by that op.
    bool depends(Value v, std::int32_t index) const;
    const Op& op(std::int32_t index) const { return f.ops[static_cast<std::size_t>(index)]; }
    void erase(std::int32_t index) { replace(index, {}); }
    void replace(std::int32_t index, Op by);
    // Puts the ops before that at `index`.
    void insert(std::int32_t index, const std::vector<Op>& ops);
    // Drops erased and dead ops and brings the others into an order in which definitions come before uses.
    void finish();
};

std::string where(const Function& f, const Op& op);  // for notes: the scope, else the function
void set_operand(Op& op, std::size_t index, Value v);

// ---- sums -----------------------------------------------------------------------------------------------------------

// Sums with products among their terms become epilogues of these.
void fold_sums(Function& f, Report& report);
// accumulate_gradient becomes the product's own.
void fold_accumulation(Function& f, Report& report);

}  // namespace thunderc::attach
