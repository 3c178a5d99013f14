// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/join_pads.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <set>

namespace thunderc {
namespace {

struct Piece {
    Value value;  // what was padded
    std::int64_t begin = 0, end = 0;
};

class Joiner {
  public:
    Joiner(Function& function, Report& report) : f_(function), uses_(function), report_(report) {}

    std::size_t run() {
        std::size_t joined = 0;
        for (std::size_t k = f_.ops.size(); k-- > 0;) {  // the root of a sum before its terms
            if (f_.ops[k].name != "add" || inner_.contains(k)) continue;
            std::vector<std::size_t> pads;
            if (!collect(k, pads) || pads.size() < 2) continue;
            if (join(k, pads)) ++joined;
        }
        return joined;
    }

  private:
    const Op* op_of(Value v, std::size_t& index) const {
        const std::int32_t d = uses_.definition[v.index];
        if (d < 0) return nullptr;
        index = static_cast<std::size_t>(d);
        return &f_.ops[index];
    }

    // The pads that the sum at `k` adds; false where it adds anything else.
    bool collect(std::size_t k, std::vector<std::size_t>& pads) {
        for (Value v : f_.ops[k].operands) {
            std::size_t index = 0;
            const Op* op = op_of(v, index);
            if (op == nullptr || !uses_.single_user(v)) return false;
            if (op->name == "pad")
                pads.push_back(index);
            else if (op->name != "add" || !collect(index, pads))
                return false;
            else
                inner_.insert(index);
        }
        return true;
    }

    bool join(std::size_t root, const std::vector<std::size_t>& pads) {
        std::optional<std::size_t> axis;
        std::vector<Piece> pieces;
        const Dims& dims = f_.type(f_.ops[root].results[0]).dims;
        for (std::size_t p : pads) {
            const Op& op = f_.ops[p];
            if (op.attributes.number("value", 0.0) != 0 || f_.type(op.results[0]).dims != dims) return false;
            const Dims low = op.attributes.integers("low"), high = op.attributes.integers("high");
            for (std::size_t d = 0; d < dims.size(); ++d) {
                if (low[d] == 0 && high[d] == 0) continue;
                if (axis && *axis != d) return false;
                axis = d;
            }
            if (!axis) return false;
            pieces.push_back({op.operands[0], low[*axis], dims[*axis] - high[*axis]});
        }
        std::sort(pieces.begin(), pieces.end(), [](const Piece& a, const Piece& b) { return a.begin < b.begin; });
        std::int64_t at = 0;
        for (const Piece& piece : pieces) {
            if (piece.begin != at) return false;
            at = piece.end;
        }
        if (at != dims[*axis]) return false;
        if (!report_.may("join_pads", "@" + f_.name, f_.info(f_.ops[root].results[0]).name)) return false;
        Op& op = f_.ops[root];
        op.name = "concat";
        op.operands.clear();
        for (const Piece& piece : pieces) op.operands.push_back(piece.value);
        op.attributes = {{"axis", static_cast<std::int64_t>(*axis)}};
        return true;
    }

    Function& f_;
    Uses uses_;
    Report& report_;
    std::set<std::size_t> inner_;
};

}  // namespace

Module join_pads(Module module, Report& report) {
    for (Function& f : module.functions) {
        const std::size_t joined = Joiner(f, report).run();
        if (joined > 0) report.done("join_pads", "@" + f.name, fmt::format("{} sums of slices' gradients", joined));
    }
    return module;
}

}  // namespace thunderc
