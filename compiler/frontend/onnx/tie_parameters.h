// SPDX-License-Identifier: Apache-2.0
// Puts together what the exporter's optimizer took apart: it folds what rearranges a parameter into a tensor of its
// own, once for each use, where the model has one parameter.
//
//     in:   MatMul(x, val_0), MatMul(h, val_2)       traced: both aten.linear(…, %p_fc_weight)
//     out:  MatMul(x, val_0), MatMul(h, val_0)
//
//     in:   Gather(e.weight, ids), MatMul(h, t)      the numbers of t are those of e.weight, transposed
//     out:  Gather(e.weight, ids), MatMul(h, Transpose(e.weight))
//
// What a call names is one parameter without its numbers too; where they are there they have to be the same. What no
// call names is looked for among the numbers of the parameters: it is one of them, or a part, in another order or
// shape. And the other way about: what a call made of nothing (the ones of a normalisation without weights), or of a
// buffer that begins as a parameter does, is a constant; and what is one tensor, since a parameter equals its
// transpose, is two for the gradient. A number of the code that a parameter of one number begins equal to is no use of
// that parameter.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstddef>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "compiler/frontend/onnx/traced_program.h"

namespace thunderc::onnx_frontend {

struct TiedParameters {
    struct Tie {
        std::string parameter, copy;
    };
    std::vector<Tie> tied;
    // Copies of one parameter, by the calls that read them, whose numbers differ: they stay apart.
    std::vector<Tie> different;
    // Copies of what may be one of several parameters of equal numbers: they stay apart.
    std::vector<Tie> ambiguous;
    // What may be a parameter in another order, whose numbers are all the same, as are its own: they stay apart.
    std::vector<Tie> alike;
    // What may be a parameter in another order, by its name and shape, while the numbers of one are not there.
    std::vector<Tie> unread;
    // What was held against the numbers of every parameter, and is none of them.
    std::set<std::string> unmatched;
    // Copies of what may be a parameter, or a buffer of the same numbers that the graph has no more: they stay apart.
    struct Doubt {
        std::string parameter, copy, constant;
    };
    std::vector<Doubt> doubtful;
    // What was tied by its numbers alone, while a parameter (`constant`) of the model has gone from the graph that may
    // have begun with the same ones: what was made of it would be no copy.
    std::vector<Doubt> guessed;
    // Parameters that equal their transpose (the identity): a node read one where its call reads the other.
    std::vector<Tie> turned;
    // The same of what cannot be put back: calls that read something else, whose numbers were the parameter's.
    std::vector<Tie> replaced;
    std::set<std::string> constants;  // initializers that calls made of nothing, or of buffers
};

// The elements of an initializer, one behind the other; nullopt: they are not there.
using ReadBytes = std::function<std::optional<std::vector<std::byte>>(const onnx::TensorProto&)>;

// Changes the nodes that read copies, puts nodes that rearrange parameters before all others, and removes copies that
// nothing reads any more.
TiedParameters tie_parameters(onnx::GraphProto& graph, const TracedProgram& traced, const ReadBytes& read);

}  // namespace thunderc::onnx_frontend
