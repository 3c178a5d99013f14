// SPDX-License-Identifier: Apache-2.0
// The tensors that are quantised by scales which follow from their amaxes, and the states of these. A part of
// `quantise_products`.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// Of each layer of a loop one, as a weight.
struct ScaledTensor {
    enum class Part : std::uint8_t { scale, amax, history };

    std::vector<std::string> modules;  // "model.layers.0.mlp.down_proj" and so on
    std::string role;                  // input, weight, gradient
    DType dtype = DType::e4m3;
    std::string noted_in{};  // the function that notes its amax
    Value amax_after{};      // what the step makes of that

    std::string short_name() const;           // "down_proj_input"
    std::string short_name(Part part) const;  // "down_proj_input_scale"
};

// What the layers are called whose weights are these parameters, of several products those of each:
// "layers.0.self_attn.qkv_proj" of q_proj.weight, k_proj.weight and v_proj.weight.
std::vector<std::string> modules_of_weights(const std::vector<std::vector<std::string>>& parameters);

class ScaledTensors {
  public:
    explicit ScaledTensors(std::int64_t history) : history_(history) {}

    // By the first of its modules; nullptr where there is none.
    ScaledTensor* find(const std::string& module, const std::string& role);
    // Made where it is not there.
    ScaledTensor& get(const std::vector<std::string>& modules, const std::string& role, DType dtype);

    // The state as an argument of the entry.
    Value argument(Function& entry, const ScaledTensor& tensor, ScaledTensor::Part part);

    // Behind all else of the step scales of inputs and gradients follow from their amaxes, with ranks from those of
    // all; scales of weights in the update.
    void update_scales(Function& step, Function& update, bool ranks);

    void note_declined(const std::string& where, const std::string& why) { declined_.emplace_back(where, why); }
    // Throws UserError where nothing is quantised.
    void require_any() const;

  private:
    void emit_update(Function& f, const std::string& role, const std::vector<Value>& amaxes);
    std::vector<ScaledTensor*> of_role(const std::string& role);
    // The entry gives the state anew.
    void give(Function& f, const ScaledTensor& tensor, ScaledTensor::Part part, Value value);

    std::int64_t history_;
    std::deque<ScaledTensor> tensors_;                                // in the order in which they are quantised
    std::map<std::pair<std::string, std::string>, Value> arguments_;  // by entry and name
    std::vector<std::pair<std::string, std::string>> declined_;
};

}  // namespace thunderc
