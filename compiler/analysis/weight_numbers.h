// SPDX-License-Identifier: Apache-2.0
// What the numbers of an initializer say: whether two are the same matrix, and whether they are a table that nobody
// learned (a mask, sines of positions, positions, frequencies).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

// The elements of a source. Throws UserError, naming `name`, where they are not there.
Tensor read_tensor(const WeightSource& source, const std::string& name);

// Whether all elements are equal: then two parameters can be equal by initialisation. nullopt: the data is not there.
std::optional<bool> uniform(const WeightSource* source);

// A matrix as it is used: of two dimensions, its source perhaps stored transposed.
struct StoredMatrix {
    const WeightSource* source = nullptr;
    Type type;
    bool transposed = false;
};

// Whether two sources hold the same matrix. One that is one number throughout could be equal by initialisation, so it
// is none.
bool same_matrix(const StoredMatrix& a, const StoredMatrix& b);

struct NumbersSay {
    enum class Verdict : std::uint8_t {
        nothing,   // they could be learned, or there are none to be read
        constant,  // nothing that is learned looks like this
        doubtful,  // half of them are zero, say: a triangle, or a choice of rows
    };
    Verdict verdict = Verdict::nothing;
    std::string why;  // "holds -inf, as masks do"
};

// Tensors of more than largest_dense_constant elements are not read: they could not be constants of a program.
NumbersSay what_numbers_say(const WeightSource& source);
NumbersSay what_numbers_say(const Tensor& numbers);

}  // namespace thunderc
