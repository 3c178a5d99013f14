// SPDX-License-Identifier: Apache-2.0
// The parameters of a planned program by the framework's names: arguments of its functions, or what lies in the units
// that ranks hold shards of.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

struct ModelParameter {
    const ArgInfo* info = nullptr;  // a name for each member
    Type type;                      // a family, where there is more than one
    // Bytes, of the first member and from one to the next: in the arena of parameters, or in the unit once it is
    // gathered.
    std::int64_t offset = 0, stride = 0;
    int unit = -1;           // of the first member; -1: it is not sharded
    bool unit_each = false;  // member m lies in unit + m
};
std::vector<ModelParameter> model_parameters(const Module& planned);

// What ranks hold shards of: one for each layer of a unit of layers.
struct ModelUnit {
    std::string name;
    std::int64_t shard_elements = 0, offset = 0;  // in bytes, of the shard in the arena of parameters
    DType dtype = DType::f32;
};
std::vector<ModelUnit> model_units(const Module& planned);

// The parameter that a value of a sharded program is, or whose gradient it is, where that lies in a unit: "" for
// others. "model.layers.{0..4}.mlp.up_proj.weight"
std::string parameter_of_unit(const Module& planned, const Function& function, Value v);
// Whether the value lies in a unit that was gathered from narrow copies: parameters in bf16.
bool gathered_from_narrow_copies(const Module& planned, const Function& function, Value v);

}  // namespace thunderc
