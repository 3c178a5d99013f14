// SPDX-License-Identifier: Apache-2.0
#include "compiler/check/autocast_fp8.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ops/fp8.h"
#include "compiler/ops/linear.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// What stands between two braces: "0..3", "0..4:2" or "q,k,v".
std::vector<std::string> alternatives(const std::string& text) {
    std::vector<std::string> out;
    if (const std::size_t dots = text.find(".."); dots != std::string::npos) {
        std::int64_t first = 0, last = -1;
        std::from_chars(text.data(), text.data() + dots, first);
        const char* const end = text.data() + text.size();
        const char* const behind = std::from_chars(text.data() + dots + 2, end, last).ptr;
        std::int64_t step = 1;
        if (behind != end) std::from_chars(behind + 1, end, step);
        for (std::int64_t k = first; k <= last; k += std::max<std::int64_t>(step, 1)) out.push_back(std::to_string(k));
        return out;
    }
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t end = std::min(text.find(',', begin), text.size());
        out.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return out;
}

class Quantiser {
  public:
    Quantiser(Function& function, std::set<std::string> modules, bool weight_gradients)
        : f_(function), b_(function), modules_(std::move(modules)), weight_gradients_(weight_gradients) {}

    void run() {
        for (const Op& op : std::exchange(f_.ops, {})) place(op);
        for (Value& v : f_.results) v = now(v);
        remove_dead_ops(f_);
        compact_values(f_);
    }

  private:
    struct Codes {
        Value codes, inverse;
    };

    Value now(Value v) const {
        const auto at = now_.find(v);
        return at == now_.end() ? v : at->second;
    }

    Codes quantised(Value x, DType dtype, bool transposed) {
        const std::vector<Value> results =
            b_.emit("fp8_quantise_current", {x},
                    {{"dtype", dtype}, {"copies", std::string(transposed ? "transposed" : "plain")}});
        return {results.at(2), results.at(1)};
    }

    Value product(const char* op, const Codes& a, const Codes& b, DType dtype, Value bias = {}) {
        std::vector<Value> operands = {a.codes, b.codes, a.inverse, b.inverse};
        if (bias) operands.insert(operands.end(), {Value{}, bias});
        return b_.emit(op, operands, {{"dtype", dtype}}).at(0);
    }

    void place(const Op& op) {
        b_.set_provenance(op.provenance);
        std::vector<Value> operands;
        for (Value v : op.operands) operands.push_back(v ? now(v) : v);
        const std::vector<Value> results = b_.emit(op.name, operands, op.attributes);
        for (std::size_t r = 0; r < results.size(); ++r) now_[op.results[r]] = results[r];
        if (!modules_.contains(op.provenance.scope)) return;
        const DType dtype = f_.type(op.results[0]).dtype;
        Value& first = now_[op.results[0]];
        if (op.name == "linear") {
            check(linear_products(op.operands.size()) == 1 && !op.attributes.has("activation"),
                  "a linear layer that is more than PyTorch's");
            const Codes x = quantised(operands[0], DType::e4m3, false), w = quantised(operands[1], DType::e4m3, false);
            first = product("fp8_linear", x, w, dtype,
                            operands.size() > linear_bias(0) ? operands[linear_bias(0)] : Value{});
        } else if (op.name == "linear_backward_input") {
            const Codes dy = quantised(operands[0], DType::e5m2, false), w = quantised(operands[1], DType::e4m3, true);
            first = product("fp8_linear", dy, w, dtype);
        } else if (op.name == "linear_backward_weight" && weight_gradients_) {
            const Codes dy = quantised(operands[0], DType::e5m2, true), x = quantised(operands[1], DType::e4m3, true);
            first = product("fp8_linear_backward_weight", dy, x, dtype);
        }
    }

    Function& f_;
    Builder b_;
    const std::set<std::string> modules_;
    const bool weight_gradients_;
    std::map<Value, Value> now_;  // by old value
};

}  // namespace

std::vector<std::string> expand_names(const std::string& pattern) {
    const std::size_t open = pattern.find('{'), close = pattern.find('}', open);
    if (open == std::string::npos || close == std::string::npos) return {pattern};
    std::vector<std::string> out;
    for (const std::string& one : alternatives(pattern.substr(open + 1, close - open - 1)))
        for (const std::string& rest : expand_names(pattern.substr(close + 1)))
            out.push_back(pattern.substr(0, open) + one + rest);
    return out;
}

std::vector<std::string> fp8_modules(const Module& program) {
    std::set<std::string> out;
    for (const Function& f : program.functions)
        for (const Op& op : f.ops)
            if (op.name == "fp8_linear")
                for (std::string& name : expand_names(op.provenance.scope)) out.insert(std::move(name));
    return {out.begin(), out.end()};
}

Module quantise_like_pytorch(Module step, const std::vector<std::string>& modules, bool weight_gradients) {
    for (Function& f : step.functions)
        if (f.name == forward_backward_function) Quantiser(f, {modules.begin(), modules.end()}, weight_gradients).run();
    return step;
}

}  // namespace thunderc
