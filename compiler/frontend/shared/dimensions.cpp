// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/dimensions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string_view>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

struct Symbol {
    std::int64_t value = 0;  // 0: not bound
    std::string flag;        // which bound it, or which would
    std::string where;       // "dimension 0 of input_ids"
    int axis = 0;            // where it is seen first
};

bool is_static(const DeclaredInput& input, std::size_t d) {
    return input.shape[d].symbol.empty();
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
    Binder(const std::vector<DeclaredInput>& inputs, const CompileOptions& options)
        : options_(options), inputs_(inputs) {}

    BoundInputs run() {
        for (const DeclaredInput& input : inputs_) collect(input);
        bind_axis(0, options_.batch, "--batch");
        bind_axis(1, options_.seq, "--seq");
        for (const auto& [name, value] : options_.dims) bind_name(name, value);
        require_bound();
        BoundInputs out;
        for (const DeclaredInput& input : inputs_) out.inputs.push_back(bound(input));
        for (const auto& [name, symbol] : symbols_) out.symbols.emplace(name, symbol.value);
        return out;
    }

  private:
    void collect(const DeclaredInput& input) {
        for (std::size_t d = 0; d < input.shape.size(); ++d) {
            if (is_static(input, d)) continue;
            const std::string& name = input.shape[d].symbol;
            Symbol symbol;
            symbol.axis = static_cast<int>(d);
            symbol.where = fmt::format("dimension {} of the input {}", d, input.name);
            const bool usual = d == 0 ? !names_positions(name) : !names_batch(name);
            symbol.flag = d > 1 || !usual ? fmt::format("--dim {}=N", name) : (d == 0 ? "--batch N" : "--seq N");
            symbols_.emplace(name, std::move(symbol));
        }
    }

    void bind_axis(std::size_t axis, std::int64_t value, const std::string& flag) {
        if (value == 0) return;
        bool symbolic = false;
        for (const DeclaredInput& input : inputs_) {
            if (axis >= input.shape.size() || is_static(input, axis)) continue;
            const std::string& name = input.shape[axis].symbol;
            if (symbols_.at(name).axis != static_cast<int>(axis)) continue;
            refuse_other_axis(input, axis, value, flag);
            bind(name, value, fmt::format("{} {}", flag, value));
            if (axis == 0) batch_.insert(name);
            symbolic = true;
        }
        if (symbolic) return;
        // A static graph: the first input that has such a dimension says what it is.
        for (const DeclaredInput& input : inputs_) {
            if (axis >= input.shape.size()) continue;
            const std::int64_t is = input.shape[axis].value;
            if (is == value) return;
            Diagnostic d;
            d.message =
                fmt::format("{} {} does not match the model, which was exported with a static shape", flag, value);
            d.expected = fmt::format("{} in dimension {} of the input {}", is, axis, input.name);
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
    void refuse_other_axis(const DeclaredInput& input, std::size_t axis, std::int64_t value,
                           const std::string& flag) const {
        const std::string& name = input.shape[axis].symbol;
        if (!(axis == 0 ? names_positions(name) : names_batch(name))) return;
        std::vector<std::string> flags;
        for (const auto& [known, symbol] : symbols_) flags.push_back(fmt::format("--dim {}=N", known));
        Diagnostic d;
        d.message = fmt::format("{} {} would bind the dimension {} of the input {}", flag, value, name, input.name);
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

    ShapedInput bound(const DeclaredInput& input) const {
        ShapedInput out;
        out.name = input.name;
        for (const DeclaredInput::Extent& extent : input.shape)
            out.dims.push_back(extent.symbol.empty() ? extent.value : symbols_.at(extent.symbol).value);
        if (input.shape.empty()) return out;
        const DeclaredInput& first = inputs_.front();
        out.batch_last = !is_static(input, 0) && names_positions(input.shape[0].symbol) && input.shape.size() > 1 &&
                         !is_static(input, 1) && names_batch(input.shape[1].symbol);
        // Batched is what --batch binds, under however many names the exporter has for it; where it binds nothing, what
        // shares dimension 0 with the first input, by symbol or by size.
        if (!batch_.empty()) {
            out.batched = batch_.contains(input.shape[0].symbol);
            return out;
        }
        out.batched = !first.shape.empty() && first.shape[0].symbol == input.shape[0].symbol &&
                      (!is_static(input, 0) || first.shape[0].value == input.shape[0].value);
        return out;
    }

    const CompileOptions& options_;
    const std::vector<DeclaredInput>& inputs_;
    std::map<std::string, Symbol> symbols_;
    std::set<std::string> batch_;  // that --batch bound
};

}  // namespace

BoundInputs bind_inputs(const std::vector<DeclaredInput>& inputs, const CompileOptions& options) {
    return Binder(inputs, options).run();
}

}  // namespace thunderc
