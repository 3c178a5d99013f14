// SPDX-License-Identifier: Apache-2.0
// PyTorch's schemas of the operators that have importers (schemas.def): what arguments by position are called.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thunderc::aten {

struct Schema {
    struct Parameter {
        std::string type;  // as schemas have them: "Tensor?[]", "int[2]", "Scalar"
        std::string name;
        bool keyword = false;  // given by its name alone
        bool optional = false;
    };
    std::string name;  // with its overload: "add.Tensor"
    std::vector<Parameter> parameters;
    std::vector<std::string> results;  // their types
};

// Of all overloads of an operator, in the order in which PyTorch tries them; none where it is not known.
const std::vector<Schema>& schemas_of(std::string_view op);

}  // namespace thunderc::aten
