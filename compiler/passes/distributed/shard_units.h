// SPDX-License-Identifier: Apache-2.0
// Which parameters are gathered as one, and where each lies in the flat tensor. A part of `distribute`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/passes/distributed/distribute.h"

namespace thunderc::distributing {

struct UnitParameter {
    Value value;     // the argument of forward_backward that is read: the parameter, or its narrow copy
    Value gradient;  // the state's argument; none of a frozen parameter
    Value result;    // the gradient afterwards
    ArgInfo info;
    Type type;
    std::int64_t offset = 0, stride = 0;  // elements in the flat tensor
};

struct Unit {
    std::string name;
    std::string what;      // for messages: "the layers", "lm_head"
    bool layered = false;  // a flat tensor for each layer of a loop
    bool trained = true;
    bool matrices = true;  // else vectors, which weight decay leaves alone
    std::int64_t count = 1, elements = 0;
    bool with_narrow_copy = false;  // what is gathered is the narrow copy that the optimizer writes
    DType dtype = DType::f32, gradient_dtype = DType::f32, master_dtype = DType::f32;  // of what is gathered, ...
    std::vector<UnitParameter> parameters;
    Value shard, gradient_shard;  // arguments of forward_backward once it is cut

    ShardUnit described() const;
    ArgInfo info() const;
    Type shard_type(DType of, const Mesh& mesh) const;
};

// The matrices of a loop's layers are units of layers, all vectors of the model are one unit, and every other matrix is
// its own, with those that have to lie beside it. What is frozen has units of its own.
std::vector<Unit> shard_units(const Module& module, std::int64_t shards);

// The same units with what the function `evaluate` has of them, where there is one: its arguments, and no gradients.
std::vector<Unit> units_of_evaluation(const Module& module, std::vector<Unit> units);

// The function `update` on shards: each rank steps its own, and the norm of all gradients is a sum over ranks.
void update_shards(Module& module, const std::vector<Unit>& units, const Mesh& mesh);

}  // namespace thunderc::distributing
