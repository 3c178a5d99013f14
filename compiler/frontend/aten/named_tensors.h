// SPDX-License-Identifier: Apache-2.0
// The tensors that a model holds, by their names in it.
#pragma once

#include <string>

#include "compiler/frontend/aten/stored_tensor.h"

namespace thunderc::aten {

struct NamedTensor {
    enum class Kind : std::uint8_t { parameter, buffer, constant } kind = Kind::constant;
    std::string name;     // the module's: "model.norm.weight"
    std::string binding;  // what calls know it by; "": it is another name only, which checkpoints have
    StoredTensor stored;
    bool requires_grad = true;
};

}  // namespace thunderc::aten
