// SPDX-License-Identifier: Apache-2.0
// Calls by position as calls of ATen's operators: which overload is meant, and what its arguments are called.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "compiler/frontend/aten/call.h"
#include "compiler/frontend/aten/schemas.h"
#include "compiler/frontend/torchscript/interpreter.h"

namespace thunderc::torchscript {

// What an operator is given, and where conversions are made: a number where a tensor is asked for becomes one, a tensor
// of one number where a number is asked for is known, or it is not.
struct Conversions {
    std::function<std::string(const Item& number)> as_tensor;
    std::function<std::optional<Item>(const Item& tensor, bool whole)> as_number;
};

// nullopt: no overload takes this.
struct MatchedCall {
    const aten::Schema* schema = nullptr;
    std::vector<aten::NamedArgument> arguments;
};
std::optional<MatchedCall> matched(const OperatorCall& call, const Conversions& conversions);

// PyTorch's numbers of types, as code has them ("dtype=6"), are other ones than torch.export's.
std::optional<aten::ScalarType> scalar_type_of(std::int64_t number);
std::int64_t number_of(aten::ScalarType type);
std::int64_t number_of(DType dtype);

}  // namespace thunderc::torchscript
