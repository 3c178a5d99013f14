// SPDX-License-Identifier: Apache-2.0
// The tensors that are quantised by scales which follow from their amaxes, and the states of these. A part of
// `quantise_products`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// Of each layer of a loop one, as a weight.
struct ScaledTensor {
    enum class Part : std::uint8_t { scale, amax, history };

    std::vector<std::string> weights;  // of the layer
    std::vector<std::string> modules;  // "model.layers.0.mlp.down_proj" and so on
    std::string role;                  // input, weight, gradient
    DType dtype = DType::e4m3;
    Value amax_after{};  // what the step makes of that
    // Of a weight that is quantised once a step: what it is quantised to, by what each part is called, as the forward
    // pass leaves it in the step's function; and the blocks of its codes.
    std::map<std::string, Value> kept{};

    std::string short_name() const;           // "down_proj_input"
    std::string short_name(Part part) const;  // "down_proj_input_scale"
};

// A linear layer, or one in each layer of a loop; several that one product computes are one.
struct ScaledLayer {
    std::vector<std::string> weights{};  // parameters of the first: what it is known by
    std::vector<std::string> modules{};  // what each of the loop is called: "layers.0.self_attn.qkv_proj"

    bool empty() const { return modules.empty(); }
};

// Of one product after the other the parameter that is its weight, layer by layer.
ScaledLayer layer_of_weights(const std::vector<std::vector<std::string>>& parameters);

class ScaledTensors {
  public:
    explicit ScaledTensors(std::int64_t history) : history_(history) {}

    // nullptr where there is none.
    ScaledTensor* find(const ScaledLayer& layer, const std::string& role);
    // Made where it is not there.
    ScaledTensor& get(const ScaledLayer& layer, const std::string& role, DType dtype);

    // What all functions of the step's forward pass read: a layer that is read twice has two inputs, and one scale.
    void note_read(const ScaledLayer& layer) { ++reads_[layer.weights]; }
    bool is_read_twice(const ScaledLayer& layer) const;
    // What products of the backward pass multiply dy with: the codes of these weights are read transposed as well.
    void note_read_backward(const ScaledLayer& layer) { backward_.insert(layer.weights); }
    bool is_read_backward(const std::vector<std::string>& weights) const { return backward_.contains(weights); }
    // Whether another layer's states have this one's name.
    bool is_called_as_another(const ScaledLayer& layer) const;

    // The state as an argument of the entry.
    Value argument(Function& entry, const ScaledTensor& tensor, ScaledTensor::Part part);
    // The same of what a tensor is quantised to and is kept: "e4m3", "e4m3_transposed", "inverse".
    Value argument(Function& entry, const ScaledTensor& tensor, const std::string& kept, const Type& type);

    // The step gives what it keeps. Behind all else of the step scales of inputs and gradients follow from their
    // amaxes, with ranks from those of all; scales of weights in the update.
    void update_scales(Function& step, Function& update, bool ranks);

    void note_declined(const std::string& where, const std::string& why) { declined_.emplace_back(where, why); }
    // Throws UserError where nothing is quantised.
    void require_any() const;

  private:
    Value argument(Function& entry, const ScaledTensor& tensor, const std::string& what, DType dtype, const Dims& dims);
    void emit_update(Function& f, const std::string& role, const std::vector<Value>& amaxes);
    std::vector<ScaledTensor*> of_role(const std::string& role);
    // The entry gives the state anew.
    static void give(Function& f, Value before, Value value);

    std::int64_t history_;
    std::deque<ScaledTensor> tensors_;                                // in the order in which they are quantised
    std::map<std::pair<std::string, std::string>, Value> arguments_;  // by entry and name
    std::map<std::vector<std::string>, int> reads_;                   // by weights
    std::set<std::vector<std::string>> backward_;                     // by weights
    std::vector<std::pair<std::string, std::string>> declined_;
};

}  // namespace thunderc
