// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/dimensions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

struct Symbol {
    std::int64_t value = 0;  // 0: not bound
    std::string flag;        // which bound it, or which would
    std::string where;       // "dimension 0 of input_ids"
    int axis = 0;            // where it is seen first
};

// One name for each dimension that is not static: its own, or its place where the exporter gave it none.
std::string symbol_name(const onnx::ValueInfoProto& input, int d) {
    const auto& dim = input.type().tensor_type().shape().dim(d);
    return dim.dim_param().empty() ? fmt::format("{}.{}", input.name(), d) : dim.dim_param();
}

bool has(std::string name, std::string_view word) {
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return name.find(word) != std::string::npos;
}
// What people call an axis by: "seq_len", "batch_size".
bool names_batch(const std::string& name) {
    return has(name, "batch");
}
bool names_positions(const std::string& name) {
    return !names_batch(name) && (has(name, "seq") || has(name, "time"));
}

// The command line is at fault: it lacks a dimension, or gives one that the model has not.
[[noreturn]] void fail_usage(Diagnostic d) {
    throw UsageError(std::move(d));
}

class Binder {
  public:
    Binder(const onnx::GraphProto& graph, const CompileOptions& options) : options_(options) {
        std::set<std::string> initializers;
        for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
        for (const auto& input : graph.input())
            if (!initializers.contains(input.name())) inputs_.push_back(&input);
    }

    std::vector<GraphInput> run() {
        for (const auto* input : inputs_) collect(*input);
        bind_axis(0, options_.batch, "--batch");
        bind_axis(1, options_.seq, "--seq");
        for (const auto& [name, value] : options_.dims) bind_name(name, value);
        require_bound();
        std::vector<GraphInput> out;
        for (const auto* input : inputs_) out.push_back(bound(*input));
        return out;
    }

  private:
    void collect(const onnx::ValueInfoProto& input) {
        if (!input.type().has_tensor_type() || !input.type().tensor_type().has_shape()) {
            Diagnostic d;
            d.message = fmt::format("the input {} has no shape", input.name());
            d.help = "export the model again with shapes for all its inputs";
            throw UserError(std::move(d));
        }
        const auto& shape = input.type().tensor_type().shape();
        for (int d = 0; d < shape.dim_size(); ++d) {
            if (shape.dim(d).has_dim_value()) continue;
            Symbol symbol;
            symbol.axis = d;
            symbol.where = fmt::format("dimension {} of the input {}", d, input.name());
            const bool usual = d == 0 ? !names_positions(symbol_name(input, 0)) : !names_batch(symbol_name(input, d));
            symbol.flag =
                d > 1 || !usual ? fmt::format("--dim {}=N", symbol_name(input, d)) : (d == 0 ? "--batch N" : "--seq N");
            symbols_.emplace(symbol_name(input, d), std::move(symbol));
        }
    }

    void bind_axis(int axis, std::int64_t value, const std::string& flag) {
        if (value == 0) return;
        bool symbolic = false;
        for (const auto* input : inputs_) {
            const auto& shape = input->type().tensor_type().shape();
            if (axis >= shape.dim_size() || shape.dim(axis).has_dim_value()) continue;
            if (symbols_.at(symbol_name(*input, axis)).axis != axis) continue;
            refuse_other_axis(*input, axis, value, flag);
            bind(symbol_name(*input, axis), value, fmt::format("{} {}", flag, value));
            symbolic = true;
        }
        if (symbolic) return;
        // A static graph: the first input that has such a dimension says what it is.
        for (const auto* input : inputs_) {
            const auto& shape = input->type().tensor_type().shape();
            if (axis >= shape.dim_size()) continue;
            const std::int64_t is = shape.dim(axis).dim_value();
            if (is == value) return;
            Diagnostic d;
            d.message =
                fmt::format("{} {} does not match the model, which was exported with a static shape", flag, value);
            d.expected = fmt::format("{} in dimension {} of the input {}", is, axis, input->name());
            d.actual = std::to_string(value);
            d.help = fmt::format("leave {} out, or export with dynamic axes (dynamic_shapes={{...}})", flag);
            fail_usage(std::move(d));
        }
        Diagnostic d;
        d.message = fmt::format("{} is given, but no input has a dimension {}", flag, axis);
        d.help = fmt::format("leave {} out", flag);
        fail_usage(std::move(d));
    }

    // A program takes dimension 0 for the batch, and windows of tokens along dimension 1: of a model whose own names
    // say the other way about, --batch would be the length.
    void refuse_other_axis(const onnx::ValueInfoProto& input, int axis, std::int64_t value,
                           const std::string& flag) const {
        const std::string name = symbol_name(input, axis);
        if (!(axis == 0 ? names_positions(name) : names_batch(name))) return;
        std::vector<std::string> flags;
        for (const auto& [known, symbol] : symbols_) flags.push_back(fmt::format("--dim {}=N", known));
        Diagnostic d;
        d.message = fmt::format("{} {} would bind the dimension {} of the input {}", flag, value, name, input.name());
        d.expected = axis == 0 ? "the batch in dimension 0" : "positions in dimension 1";
        d.actual = fmt::format("{} in dimension {}", name, axis);
        d.help = fmt::format(
            "export a model whose inputs have the batch first (forward(self, x): return self.model(x.T)); if the "
            "names mean nothing, bind the dimensions by them: {}",
            fmt::join(flags, " "));
        fail_usage(std::move(d));
    }

    void bind_name(const std::string& name, std::int64_t value) {
        if (!symbols_.contains(name)) {
            std::vector<std::string> names;
            for (const auto& [known, symbol] : symbols_) names.push_back(known);
            Diagnostic d;
            d.message = fmt::format("--dim {}={}: the model has no dynamic dimension of that name", name, value);
            d.help = names.empty() ? "all dimensions of this model are static: leave --dim out"
                                   : fmt::format("its dynamic dimensions are: {}", fmt::join(names, ", "));
            fail_usage(std::move(d));
        }
        bind(name, value, fmt::format("--dim {}={}", name, value));
    }

    void bind(const std::string& name, std::int64_t value, const std::string& flag) {
        Symbol& symbol = symbols_.at(name);
        if (symbol.value != 0 && symbol.value != value) {
            Diagnostic d;
            d.message = fmt::format("the dimension {} is bound twice: {} and {}", name, symbol.flag, flag);
            d.help = "leave one of the two out";
            fail_usage(std::move(d));
        }
        symbol.value = value;
        symbol.flag = flag;
    }

    // Names all that are not at once, those of the first axis first.
    void require_bound() const {
        std::vector<std::pair<std::string, Symbol>> open;
        for (const auto& [name, symbol] : symbols_)
            if (symbol.value == 0) open.emplace_back(name, symbol);
        if (open.empty()) return;
        std::stable_sort(open.begin(), open.end(),
                         [](const auto& a, const auto& b) { return a.second.axis < b.second.axis; });
        std::vector<std::string> dimensions, flags;
        for (const auto& [name, symbol] : open) {
            dimensions.push_back(fmt::format("{} ({})", name, symbol.where));
            if (std::find(flags.begin(), flags.end(), symbol.flag) == flags.end()) flags.push_back(symbol.flag);
        }
        Diagnostic d;
        d.message = open.size() == 1 ? fmt::format("the dynamic dimension {} is not bound", dimensions.front())
                                     : fmt::format("dynamic dimensions are not bound: {}", fmt::join(dimensions, ", "));
        d.help = fmt::format("add {}", fmt::join(flags, " "));
        fail_usage(std::move(d));
    }

    GraphInput bound(const onnx::ValueInfoProto& input) const {
        GraphInput out;
        out.name = input.name();
        out.data_type = input.type().tensor_type().elem_type();
        const auto& shape = input.type().tensor_type().shape();
        for (int d = 0; d < shape.dim_size(); ++d)
            out.dims.push_back(shape.dim(d).has_dim_value() ? shape.dim(d).dim_value()
                                                            : symbols_.at(symbol_name(input, d)).value);
        // Batched is what shares dimension 0 with the first input, by symbol or by size.
        if (shape.dim_size() > 0) {
            const auto& first = inputs_.front()->type().tensor_type().shape();
            out.batch_last = !shape.dim(0).has_dim_value() && names_positions(symbol_name(input, 0)) &&
                             shape.dim_size() > 1 && !shape.dim(1).has_dim_value() &&
                             names_batch(symbol_name(input, 1));
            out.batched = first.dim_size() > 0 && first.dim(0).has_dim_value() == shape.dim(0).has_dim_value() &&
                          (shape.dim(0).has_dim_value() ? first.dim(0).dim_value() == shape.dim(0).dim_value()
                                                        : symbol_name(*inputs_.front(), 0) == symbol_name(input, 0));
        }
        return out;
    }

    const CompileOptions& options_;
    std::vector<const onnx::ValueInfoProto*> inputs_;
    std::map<std::string, Symbol> symbols_;
};

}  // namespace

std::vector<GraphInput> bind_inputs(const onnx::GraphProto& graph, const CompileOptions& options) {
    return Binder(graph, options).run();
}

}  // namespace thunderc::onnx_frontend
