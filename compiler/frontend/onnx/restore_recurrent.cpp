// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/restore_recurrent.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/frontend/onnx/copied_numbers.h"
#include "compiler/frontend/onnx/scopes.h"

namespace thunderc::onnx_frontend {
namespace {

// torch's number of each of ONNX's gates: i, o, f, c of torch's i, f, g, o; z, r, h of torch's r, z, n.
std::vector<std::size_t> gates_of(const std::string& op) {
    if (op == "LSTM") return {0, 3, 1, 2};
    if (op == "GRU") return {1, 0, 2};
    return op == "RNN" ? std::vector<std::size_t>{0} : std::vector<std::size_t>{};
}

// "" where the numbers are in another file, or lists of other types.
std::string bytes_of(const onnx::TensorProto& tensor) {
    if (tensor.data_location() == onnx::TensorProto::EXTERNAL) return "";
    if (!tensor.raw_data().empty()) return tensor.raw_data();
    const auto& list = tensor.float_data();
    if (tensor.data_type() != onnx::TensorProto::FLOAT || list.empty()) return "";
    return {reinterpret_cast<const char*>(list.data()), static_cast<std::size_t>(list.size()) * sizeof(float)};
}

// What one layer reads: of each direction the weights of the input, those of the state, and the biases of both, which
// may be absent.
struct RecurrentLayer {
    const onnx::NodeProto* node = nullptr;
    std::string module;  // "rnn."
    std::int64_t number = 0;
    std::vector<std::size_t> gates;
    std::array<const onnx::TensorProto*, 3> operands = {};  // W, R, B
    std::array<std::string, 3> bytes;

    std::int64_t directions() const { return operands[0]->dims(0); }
    std::int64_t rows() const { return operands[0]->dims(1); }  // of all gates
    std::string suffix(std::int64_t direction) const {
        return fmt::format("_l{}{}", number, direction == 0 ? "" : "_reverse");
    }
};

class RecurrentRestorer {
  public:
    explicit RecurrentRestorer(onnx::GraphProto& graph) : graph_(graph) {}

    std::vector<std::string> run() {
        for (const auto& tensor : graph_.initializer()) initializers_[tensor.name()] = &tensor;
        for (const auto& node : graph_.node())
            for (const auto& name : node.input()) ++readers_[name];
        std::vector<RecurrentLayer> layers;
        std::map<std::string, std::int64_t> numbers;  // by module: recurrent layers before
        for (const auto& node : graph_.node()) {
            if (gates_of(node.op_type()).empty()) continue;
            const std::string module = provenance_of(node).scope;
            std::optional<RecurrentLayer> layer = layer_of(node, module.empty() ? "" : module + ".", numbers[module]++);
            if (layer) layers.push_back(std::move(*layer));
        }
        std::vector<std::string> names;
        std::set<std::string> gone;
        for (const RecurrentLayer& layer : layers) {
            const bool unlike = std::count_if(layers.begin(), layers.end(), [&](const RecurrentLayer& other) {
                                    return other.bytes[0] == layer.bytes[0] || other.bytes[1] == layer.bytes[1];
                                }) == 1;
            if (!unlike || initializers_.contains(layer.module + "weight_ih" + layer.suffix(0))) continue;
            names.push_back(layer.module + "weight_ih" + layer.suffix(0));
            restore(layer, gone);
        }
        finish(gone);
        return names;
    }

  private:
    // None where an operand is anything but what this exporter evaluated for this node alone.
    std::optional<RecurrentLayer> layer_of(const onnx::NodeProto& node, const std::string& module,
                                           std::int64_t number) const {
        RecurrentLayer layer{&node, module, number, gates_of(node.op_type()), {}, {}};
        for (int o = 1; o < std::min(node.input_size(), 4); ++o) {
            if (node.input(o).empty()) continue;
            const auto at = initializers_.find(node.input(o));
            if (at == initializers_.end() || !node.input(o).starts_with("onnx::") || readers_.at(node.input(o)) != 1)
                return std::nullopt;
            const auto k = static_cast<std::size_t>(o - 1);
            layer.operands[k] = at->second;
            layer.bytes[k] = bytes_of(*at->second);
            const auto size = static_cast<std::int64_t>(layer.bytes[k].size());
            for (std::int64_t dim : at->second->dims())
                if (dim < 1 || dim > size) return std::nullopt;
            if (size == 0 || size % elements_of(shape_of(*at->second)) != 0) return std::nullopt;
        }
        const auto [w, r, b] = layer.operands;
        const auto gates = static_cast<std::int64_t>(layer.gates.size());
        if (w == nullptr || r == nullptr || w->dims_size() != 3 || r->dims_size() != 3) return std::nullopt;
        if (w->dims(0) > 2 || w->dims(1) % gates != 0 || r->dims(0) != w->dims(0) || r->dims(1) != w->dims(1))
            return std::nullopt;
        if (b != nullptr && (b->dims_size() != 2 || b->dims(0) != w->dims(0) || b->dims(1) != 2 * w->dims(1)))
            return std::nullopt;
        return layer;
    }

    onnx::NodeProto& add(const RecurrentLayer& layer, const std::string& op, const std::vector<std::string>& inputs,
                         const std::vector<std::string>& outputs) {
        onnx::NodeProto& node = nodes_.emplace_back();
        node.set_op_type(op);
        node.set_name(fmt::format("{}_{}_{}", layer.node->name(), op, nodes_.size()));  // of the same module
        for (const std::string& name : inputs) node.add_input(name);
        for (const std::string& name : outputs) node.add_output(name);
        return node;
    }

    static onnx::AttributeProto& attribute(onnx::NodeProto& node, const std::string& name,
                                           onnx::AttributeProto::AttributeType type) {
        onnx::AttributeProto& out = *node.add_attribute();
        out.set_name(name);
        out.set_type(type);
        return out;
    }

    std::string integers(const RecurrentLayer& layer, const std::vector<std::int64_t>& values) {
        const std::string name = fmt::format("{}_Constant_{}_output", layer.node->name(), nodes_.size());
        onnx::AttributeProto& list =
            attribute(add(layer, "Constant", {}, {name}), "value_ints", onnx::AttributeProto::INTS);
        for (std::int64_t value : values) list.add_ints(value);
        return name;
    }

    std::string joined(const RecurrentLayer& layer, const std::vector<std::string>& parts, std::int64_t axis,
                       const std::string& name) {
        attribute(add(layer, "Concat", parts, {name}), "axis", onnx::AttributeProto::INT).set_i(axis);
        return name;
    }

    // A parameter with torch's gates of the rows of one operand, which begin there; what ONNX has of it.
    std::string restored(const RecurrentLayer& layer, std::size_t operand, std::int64_t first_row,
                         const std::string& leaf) {
        const onnx::TensorProto& from = *layer.operands[operand];
        const std::size_t rows = static_cast<std::size_t>(layer.rows()), hidden = rows / layer.gates.size();
        const std::size_t all_rows = static_cast<std::size_t>(from.dims(0) * from.dims(1));
        const std::size_t row = layer.bytes[operand].size() / all_rows;
        onnx::TensorProto& made = *graph_.add_initializer();
        made.set_name(layer.module + leaf);
        made.set_data_type(from.data_type());
        made.add_dims(layer.rows());
        if (from.dims_size() == 3) made.add_dims(from.dims(2));
        std::string data(rows * row, '\0');
        for (std::size_t gate = 0; gate < layer.gates.size(); ++gate)
            std::copy_n(layer.bytes[operand].data() + (static_cast<std::size_t>(first_row) + gate * hidden) * row,
                        hidden * row, data.data() + layer.gates[gate] * hidden * row);
        made.set_raw_data(std::move(data));
        if (layer.gates.size() == 1) return made.name();
        std::vector<std::string> gates, ordered;
        for (std::size_t gate = 0; gate < layer.gates.size(); ++gate)
            gates.push_back(fmt::format("{}_{}_{}", layer.node->name(), leaf, gate));
        for (std::size_t torchs : layer.gates) ordered.push_back(gates[torchs]);
        const std::string sizes =
            integers(layer, std::vector<std::int64_t>(gates.size(), static_cast<std::int64_t>(hidden)));
        attribute(add(layer, "Split", {made.name(), sizes}, gates), "axis", onnx::AttributeProto::INT).set_i(0);
        return joined(layer, ordered, 0, fmt::format("{}_{}", layer.node->name(), leaf));
    }

    void restore(const RecurrentLayer& layer, std::set<std::string>& gone) {
        const std::string front = integers(layer, {0});
        for (std::size_t operand = 0; operand < layer.operands.size(); ++operand) {
            if (layer.operands[operand] == nullptr) continue;
            gone.insert(layer.operands[operand]->name());
            std::vector<std::string> directions;
            for (std::int64_t d = 0; d < layer.directions(); ++d) {
                const std::int64_t first = d * layer.operands[operand]->dims(1);
                std::string one;
                if (operand == 2) {
                    const std::string ih = restored(layer, operand, first, "bias_ih" + layer.suffix(d));
                    const std::string hh = restored(layer, operand, first + layer.rows(), "bias_hh" + layer.suffix(d));
                    one = joined(layer, {ih, hh}, 0, fmt::format("{}_bias{}", layer.node->name(), layer.suffix(d)));
                } else {
                    one = restored(layer, operand, first, (operand == 0 ? "weight_ih" : "weight_hh") + layer.suffix(d));
                }
                directions.push_back(fmt::format("{}_{}_of_{}", layer.node->name(), operand, layer.suffix(d)));
                add(layer, "Unsqueeze", {one, front}, {directions.back()});
            }
            joined(layer, directions, 0, layer.operands[operand]->name());
        }
    }

    // What was evaluated goes, and the new nodes stand in front.
    void finish(const std::set<std::string>& gone) {
        auto& tensors = *graph_.mutable_initializer();
        tensors.erase(
            std::remove_if(tensors.begin(), tensors.end(), [&](const auto& t) { return gone.contains(t.name()); }),
            tensors.end());
        auto& nodes = *graph_.mutable_node();
        const int before = nodes.size();
        for (onnx::NodeProto& node : nodes_) *nodes.Add() = std::move(node);
        std::rotate(nodes.begin(), nodes.begin() + before, nodes.end());
    }

    onnx::GraphProto& graph_;
    std::map<std::string, const onnx::TensorProto*> initializers_;
    std::map<std::string, int> readers_;
    std::vector<onnx::NodeProto> nodes_;
};

}  // namespace

std::vector<std::string> restore_recurrent(onnx::GraphProto& graph) {
    return RecurrentRestorer(graph).run();
}

}  // namespace thunderc::onnx_frontend
