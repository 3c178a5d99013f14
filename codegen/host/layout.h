// SPDX-License-Identifier: Apache-2.0
// What a planned module's program consists of: structs of per-layer tensors, names, offsets. Read off the module once,
// then printed by the files beside this one.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "codegen/host/communication.h"
#include "codegen/symbols.h"
#include "codegen/text.h"
#include "compiler/ir/module.h"
#include "compiler/ir/structure.h"
#include "compiler/planned/parameter_arenas.h"
#include "compiler/planned/step_form.h"

namespace thunderc {

// A tensor of a struct of pointers that stands for one layer: weights, gradients or saved activations.
struct LayerField {
    std::string name;         // "q_proj"
    Type type;                // of one layer's tensor
    std::string shape;        // "(C,C)"
    std::int64_t offset = 0;  // bytes into the arena, of layer 0
    std::int64_t stride = 0;  // bytes from layer to layer
    std::string what;         // for comments: framework name pattern or provenance
    Placement::Arena arena = Placement::Arena::parameters;
    std::int64_t slots = 0;  // layer i lies where i modulo that many is; 0: each has a place of its own
};

struct LayerStruct {
    std::string name;      // "DecoderLayerWeights"
    std::string function;  // "decoder_layer_weights"
    std::string variable;  // "w", "g", "saved"
    Placement::Arena arena = Placement::Arena::parameters;
    std::int64_t layers = 0;
    std::string scope;  // "model.layers.{0..31}"
    std::vector<LayerField> fields;

    const LayerField* find(const Placement& place) const;
};

// One row of the table that model.h and `thunderc plan` print.
struct LayoutRow {
    std::string name;  // "embed_tokens", "decoder_layer_saved.qkv"
    std::string arena;
    Type type;
    std::string shape;       // "(B,T,C)"
    std::int64_t count = 1;  // layers
    std::int64_t offset = 0, stride = 0;
    std::string lifetime;  // "always", "forward to backward", "forward_backward, calls 3 to 17" of its text
    std::string
        shares;  // tensors in the same bytes at other times, "lm_head, dy_slot and 3 more"; "-" where there are none
};

class ProgramLayout {
  public:
    explicit ProgramLayout(const Module& module);

    const Module& module() const { return *module_; }
    const CallSites& calls() const { return calls_; }
    const Symbols& symbols() const { return symbols_; }
    const Communication& communication() const { return communication_; }
    // Whether it is a training program; else a function library.
    bool trains() const { return is_step(*module_); }
    // Whether parameters, gradients and states are of more than one type, or none of f32.
    bool mixed_precision() const { return is_narrow(compute_dtype()); }
    // What products read and give: f32, or the narrow type of the others.
    DType compute_dtype() const;
    DType gradient_dtype() const;
    const std::vector<LayerStruct>& structs() const { return structs_; }
    // How gradients, states and narrow copies lie beside the parameters.
    const ParameterArenas& parameter_arenas() const { return arenas_; }
    // The constant of model.h that says how much of the parameters' arena trains: in elements where precision is mixed,
    // else in bytes.
    std::string trained_constant() const;
    // The struct that holds a family at this place; nullptr where none does.
    const LayerStruct* struct_of(const Placement& place) const;
    // C++ names of a function's values, unique in it.
    const std::vector<std::string>& names(const Function& function) const;
    // "decoder_layer" for a body of class LlamaDecoderLayer; the name of a body's function.
    std::string layer_name(const Function& body) const;

    // Found once.
    const std::vector<LayoutRow>& rows() const;

  private:
    void find_structs();
    void add_struct(const Function& caller, const Op& loop);
    // What stands for something in every function: sizes, functions and what they call, structs.
    const UsedNames& names_around() const;
    // The arguments of a function that lie there.
    const std::vector<std::size_t>& arguments_at(const Function& f, const Placement& place) const;

    const Module* module_;
    CallSites calls_;
    Symbols symbols_;
    Communication communication_;
    ParameterArenas arenas_;
    using Beginning = std::pair<Placement::Arena, std::int64_t>;
    std::vector<LayerStruct> structs_;
    std::map<Beginning, std::vector<std::size_t>> structs_at_;  // those that have a field that begins there
    mutable std::map<std::string, std::map<Beginning, std::vector<std::size_t>>> arguments_at_;  // by function
    mutable std::optional<UsedNames> names_around_;
    mutable std::map<std::string, std::vector<std::string>> names_;
    mutable std::optional<std::vector<LayoutRow>> rows_;
};

std::string_view cpp_type(DType dtype);            // "float", "std::int64_t"
std::string snake_case(const std::string& camel);  // "LlamaDecoderLayer" -> "llama_decoder_layer"
std::string camel_case(const std::string& snake);

}  // namespace thunderc
