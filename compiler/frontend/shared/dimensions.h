// SPDX-License-Identifier: Apache-2.0
// Symbolic dimensions: what --batch, --seq and --dim bind.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "compiler/ir/type.h"
#include "compiler/options.h"

namespace thunderc {

// An input as the model declares it.
struct DeclaredInput {
    struct Extent {
        std::int64_t value = 0;
        std::string symbol;  // "": the value
    };
    std::string name;
    std::vector<Extent> shape;
};

struct ShapedInput {
    std::string name;
    Dims dims;                // all known
    bool batched = false;     // dimension 0 is the batch
    bool batch_last = false;  // its own names say that dimension 1 is, and dimension 0 the positions
};

struct BoundInputs {
    std::vector<ShapedInput> inputs;
    std::map<std::string, std::int64_t> symbols;
};

// The inputs with every dimension bound. Throws UsageError: a dimension left unbound (naming it and the flag that binds
// it), --batch or --seq on a static graph of another shape, --dim for a symbol that there is not, --batch or --seq for
// a dimension whose own name says that it is the other.
BoundInputs bind_inputs(const std::vector<DeclaredInput>& inputs, const CompileOptions& options);

}  // namespace thunderc
