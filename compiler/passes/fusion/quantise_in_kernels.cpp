// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/quantise_in_kernels.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/kernels/evaluation.h"
#include "compiler/ops/composite.h"
#include "compiler/ops/fp8.h"

namespace thunderc {
namespace {

class Rewriter {
  public:
    Rewriter(Function& f, Report& report) : f_(f), before_(f), uses_(before_), report_(report), b_(f) {}

    void run() {
        f_.ops.clear();
        for (const Op& op : before_.ops) {
            b_.set_provenance(op.provenance);
            const bool notes = op.name == "fp8_quantise";
            if (!notes && op.name != "fp8_requantise") {
                f_.ops.push_back(op);
                continue;
            }
            const std::size_t from = notes ? quantised_from : requantised_from;
            const std::vector<Value> pieces =
                op.operands.size() == from + 1 ? pieces_of(op.operands[from]) : std::vector<Value>();
            if (pieces.empty()) {
                report_.declined("quantise_in_kernels", op.provenance.scope,
                                 fmt::format("no kernel makes {}", f_.info(op.operands[from]).name));
                f_.ops.push_back(op);
                continue;
            }
            if (!report_.may("quantise_in_kernels", op.provenance.scope,
                             fmt::format("the codes of {} in @{}", f_.info(op.operands[from]).name, f_.name))) {
                f_.ops.push_back(op);
                continue;
            }
            replace(op, op.operands[from], pieces, notes);
            report_.done("quantise_in_kernels", op.provenance.scope,
                         fmt::format("{} by the kernel that makes it", f_.info(op.operands[from]).name));
        }
        substitute(f_, replaced_);
    }

  private:
    const Op* definition(Value v) const {
        const std::int32_t k = uses_.definition[v.index];
        return k < 0 ? nullptr : &before_.ops[static_cast<std::size_t>(k)];
    }

    // Whether kernels compute it, with something to compute.
    bool is_computed(Value v) const {
        const Op* op = definition(v);
        if (op == nullptr || is_constant_op(*op)) return false;
        const OpDef& def = op_def(op->name);
        if (is_view(*op) || op->name == "cast") return is_computed(op->operands[0]);
        return def.level == OpLevel::primitive && (def.elementwise || !reduction_of(def).empty());
    }

    // What lies side by side in each row of x, equally wide: x itself as a rule. Empty where it is not made by kernels.
    std::vector<Value> pieces_of(Value x) const {
        if (f_.type(x).rank() == 0) return {};
        if (is_computed(x)) return {x};
        const Op* op = definition(x);
        if (op == nullptr || op->name != "concat") return {};
        if (*normalize_axis(op->attributes.integer("axis"), f_.type(x).rank()) != f_.type(x).rank() - 1) return {};
        const bool all = std::all_of(op->operands.begin(), op->operands.end(), [&](Value piece) {
            return is_computed(piece) && f_.type(piece) == f_.type(op->operands[0]);
        });
        return all ? op->operands : std::vector<Value>();
    }

    Value codes_of(const std::vector<Value>& pieces, Value scale, DType dtype) {
        std::vector<Value> codes;
        for (const Value piece : pieces) {
            codes.push_back(b_.emit("fp8_code", {piece, scale}, {{"dtype", dtype}}).front());
            if (pieces.size() > 1)
                f_.info(codes.back()).name =
                    unique_value_name(f_, fmt::format("{}_{}", f_.info(piece).name, name_of(dtype)));
        }
        if (codes.size() == 1) return codes.front();
        return b_.emit("concat", codes, {{"axis", f_.type(codes.front()).rank() - 1}}).front();
    }

    Value maxima_of(const std::vector<Value>& pieces, const std::string& name) {
        std::optional<Value> all;
        for (const Value piece : pieces) {
            const Value size = b_.op("fp8_magnitude", {piece});
            const Value rows =
                b_.emit("reduce_max", {size}, {{"axes", Dims{f_.type(piece).rank() - 1}}, {"keep_dims", false}})
                    .front();
            all = all ? b_.op("max", {*all, rows}) : rows;
        }
        f_.info(*all).name = unique_value_name(f_, name + "_maxima");
        return *all;
    }

    // Results are amax after and the inverse of fp8_quantise, the inverse of fp8_requantise, then the copies.
    void replace(const Op& op, Value x, const std::vector<Value>& pieces, bool notes) {
        const std::string copies = op.attributes.string("copies", "both");
        const bool plain = copies != "transposed", turned = copies != "plain";
        const std::size_t inverse = notes ? 1 : 0;
        const std::string name = f_.info(x).name;
        const Value scale = op.operands[0];
        const Value codes = codes_of(pieces, scale, op.attributes.dtype("dtype"));
        if (plain) {
            f_.info(codes).name = f_.info(op.results[inverse + 1]).name;
            replaced_[op.results[inverse + 1]] = codes;
        } else {
            f_.info(codes).name =
                unique_value_name(f_, fmt::format("{}_{}", name, name_of(op.attributes.dtype("dtype"))));
        }
        std::vector<Value> made, as(op.results.begin(), op.results.begin() + static_cast<std::ptrdiff_t>(inverse) + 1);
        if (turned) as.push_back(op.results.back());
        if (notes) {
            std::vector<Value> operands = {scale, op.operands[1], maxima_of(pieces, name)};
            if (turned) operands.push_back(codes);
            made = b_.emit("fp8_finish", operands);
        } else if (turned) {
            made = b_.emit("fp8_transpose", {scale, codes});
        } else {
            made = {b_.op("reciprocal", {scale})};
        }
        for (std::size_t r = 0; r < made.size(); ++r) {
            f_.info(made[r]).name = f_.info(as[r]).name;
            replaced_[as[r]] = made[r];
        }
    }

    Function& f_;
    const Function before_;
    const Uses uses_;
    Report& report_;
    Builder b_;
    std::map<Value, Value> replaced_;
};

}  // namespace

Module quantise_in_kernels(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) Rewriter(f, report).run();
    return module;
}

}  // namespace thunderc
