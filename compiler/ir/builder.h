// SPDX-License-Identifier: Apache-2.0
// Appends ops to a function, with types inferred by each op's own rule.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

class Builder {
  public:
    explicit Builder(Function& function) : function_(&function) {}

    // Provenance of the ops that follow.
    void set_provenance(Provenance provenance) { provenance_ = std::move(provenance); }
    const Provenance& provenance() const { return provenance_; }

    // Appends an op; its results are named after `name`, or after the op. Throws UserError where types do not fit.
    std::vector<Value> emit(std::string_view op, std::vector<Value> operands, Attributes attributes = {},
                            std::string_view name = {});
    // The same for ops of one result.
    Value op(std::string_view op, std::vector<Value> operands, Attributes attributes = {}, std::string_view name = {});

    // Appends an op whose result types follow from the function that it names: call, fused, repeat.
    std::vector<Value> emit_typed(std::string_view op, std::vector<Value> operands, Attributes attributes,
                                  std::vector<Type> result_types, std::vector<std::string> names);

    // Appends a copy of `op` with other operands, keeping its attributes and provenance; results are new values.
    std::vector<Value> clone(const Op& op, std::vector<Value> operands, const Function& from);

    // ---- short forms of the primitives that rules are written in ----
    Value constant(ConstPtr expr, std::string_view name = {});
    Value splat(const Type& type, double value);  // of `type`'s dtype and dims
    Value scalar(DType dtype, double value) { return splat(Type::tensor(dtype, {}), value); }
    Value add(Value a, Value b) { return op("add", {a, b}); }
    Value sub(Value a, Value b) { return op("sub", {a, b}); }
    Value mul(Value a, Value b) { return op("mul", {a, b}); }
    Value div(Value a, Value b) { return op("div", {a, b}); }
    Value neg(Value a) { return op("neg", {a}); }
    Value mul(Value a, double b);  // by a scalar of a's dtype
    Value add(Value a, double b);
    Value reshape(Value a, Dims dims);           // a itself where the dims are the same
    Value transpose(Value a, Dims permutation);  // a itself for the identity
    Value broadcast_to(Value a, Dims dims);      // numpy's rule
    Value slice(Value a, std::int64_t axis, std::int64_t begin, std::int64_t end, std::int64_t step = 1);
    Value reduce_sum(Value a, Dims axes, bool keep_dims = false);
    Value sum_to(Value a, const Dims& dims);  // sums what broadcasting from `dims` repeated
    Value cast(Value a, DType dtype);         // a itself where it is of that type

    // By value: emitting moves the function's own.
    Type type(Value v) const { return function_->type(v); }
    Function& function() { return *function_; }

  private:
    Function* function_;
    Provenance provenance_;
};

}  // namespace thunderc
