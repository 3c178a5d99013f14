// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/label_positions.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "compiler/analysis/batch_share.h"
#include "compiler/analysis/views.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

class LabelReader {
  public:
    explicit LabelReader(Function& main)
        : main_(main), uses_(main), shares_(batch_shares(main)), batch_(batch_rows(main)) {}

    void run() {
        std::map<std::size_t, bool> shifted;  // by argument
        for (const Op& op : main_.ops) {
            const LookupRule& rule = op_def(op.name).lookup;
            if (!rule) continue;
            const Lookup lookup = rule(op.attributes, main_.type(op.operands[0]).dims, main_.type(op.operands[1]).dims);
            if (lookup.kind != Lookup::Kind::classes) continue;
            Value labels = op.operands[lookup.index];
            const Positions positions = follow_labels(labels);
            const auto at = std::find(main_.arguments.begin(), main_.arguments.end(), labels);
            if (!labels || at == main_.arguments.end()) continue;
            const auto k = static_cast<std::size_t>(at - main_.arguments.begin());
            const ArgInfo& info = main_.argument_info[k];
            if (info.kind != ArgInfo::Kind::input || info.source == "tokens") continue;
            const bool shift = positions.begin > begin_of_logits(op.operands[lookup.table], positions.extents);
            if (shifted.try_emplace(k, shift).first->second != shift) refuse(info.names.front());
        }
        for (const auto& [k, shift] : shifted) main_.argument_info[k].source = shift ? "tokens" : "next_tokens";
    }

  private:
    [[noreturn]] static void refuse(const std::string& labels) {
        Diagnostic d;
        d.message = fmt::format("one cross entropy shifts {} against its logits, and another one does not", labels);
        d.help =
            "give the model an input for each of the two: what it shifts by itself are the tokens, and the labels of a "
            "loss that does not are the tokens behind them";
        throw UserError(std::move(d));
    }

    const Op* definition(Value v) const {
        const std::int32_t at = v ? uses_.definition[v.index] : -1;
        return at < 0 ? nullptr : &main_.ops[static_cast<std::size_t>(at)];
    }

    // Of what is chosen or joined, the one operand that is no constant; none where there are several.
    Value only_computed(const Op& op) const {
        Value found;
        for (std::size_t k = op_def(op.name).moves->chosen ? 1 : 0; k < op.operands.size(); ++k) {
            const Op* known = definition(op.operands[k]);
            if (known != nullptr && is_constant_op(*known)) continue;
            if (found) return {};
            found = op.operands[k];
        }
        return found;
    }

    // Along the positions of sequences: how far from their beginning values were taken, and how long the axes were
    // there.
    struct Positions {
        std::int64_t begin = 0;
        std::set<std::int64_t> extents;
    };

    std::size_t axis_of(const Op& op) const {
        const std::int64_t axis = op.attributes.integer("axis"), rank = main_.type(op.results[0]).rank();
        return static_cast<std::size_t>(axis < 0 ? axis + rank : axis);
    }

    // One row of the batch an element: no positions lie along this dimension.
    bool is_batch(Value v, std::size_t axis) const {
        const BatchShare& share = shares_[v.index];
        return share.kind == BatchShare::Kind::rows && share.axis == axis && main_.type(v).dims[axis] == batch_;
    }

    // Labels, followed back through what cuts, joins and masks them; what they come from is left in `labels`.
    Positions follow_labels(Value& labels) const {
        Positions out;
        const auto move = [&](Value from, std::size_t axis, std::int64_t by) {
            if (by == 0 || is_batch(from, axis)) return;
            out.begin += by;
            out.extents.insert(main_.type(from).dims[axis]);
        };
        for (const Op* op = definition(labels); op != nullptr; op = definition(labels)) {
            Value next;
            const std::optional<ViewIndex> view = view_index(main_, *op);
            if (view && view->kind != ViewIndex::Kind::repeated) {
                next = op->operands[0];
                for (std::size_t d = 0; d < view->axes.size(); ++d) move(next, d, view->axes[d].begin);
            } else if (op->name == "pad") {
                next = op->operands[0];
                const Dims low = op->attributes.integers("low");
                for (std::size_t d = 0; d < low.size(); ++d) move(next, d, -low[d]);
            } else if (op->name == "concat") {
                next = only_computed(*op);
                std::int64_t before = 0;
                for (Value part : op->operands) {
                    if (part == next) break;
                    before += main_.type(part).dims[axis_of(*op)];
                }
                if (next) move(next, axis_of(*op), -before);
            } else if (op_def(op->name).moves && op_def(op->name).moves->chosen) {
                next = only_computed(*op);
            } else if (op->name == "cast") {
                next = op->operands[0];
            }
            labels = next;
        }
        for (std::int64_t d : labels ? main_.type(labels).dims : Dims{}) out.extents.insert(d);
        return out;
    }

    // Where logits begin among the positions that there are labels for: of slices of logits, or of what they are
    // directly computed from, along axes as long as the labels'. What a model puts in front of its sequences and takes
    // away again is none of these.
    std::int64_t begin_of_logits(Value v, const std::set<std::int64_t>& extents) const {
        std::int64_t begin = 0;
        auto classes = static_cast<std::size_t>(main_.type(v).rank() - 1);
        for (const Op* op = definition(v); op != nullptr; op = definition(v)) {
            const Dims& to = main_.type(v).dims;
            Value next = op->operands.empty() ? Value() : op->operands[0];
            if (!next || op->results.size() != 1) break;
            const Dims& from = main_.type(next).dims;
            const std::optional<ViewIndex> view = view_index(main_, *op);
            if (view && view->kind == ViewIndex::Kind::cut) {
                for (std::size_t axis = 0; axis < from.size(); ++axis)
                    if (axis != classes && !is_batch(next, axis) && extents.contains(from[axis]))
                        begin += view->axes[axis].begin;
            } else if (view && view->kind == ViewIndex::Kind::permuted) {
                const auto at = std::find_if(view->axes.begin(), view->axes.end(),
                                             [&](const ViewIndex::Axis& a) { return a.axis == classes; });
                classes = static_cast<std::size_t>(at - view->axes.begin());
            } else if (view && view->kind == ViewIndex::Kind::regrouped) {
                if (classes + 1 != to.size() || from.empty() || from.back() != to.back()) break;
                classes = from.size() - 1;
            } else if (op->name == "linear" || op->name == "matmul") {
                if (classes + 1 != to.size() || from.empty()) break;
                classes = from.size() - 1;
            } else {  // by element, of one value that is computed
                for (Value other : op->operands)
                    if (other && shares_[other.index].kind != BatchShare::Kind::same && other != next)
                        next = shares_[next.index].kind == BatchShare::Kind::same ? other : Value();
                if (!next || main_.type(next).dims != to) break;
            }
            v = next;
        }
        return begin;
    }

    Function& main_;
    const Uses uses_;
    const std::vector<BatchShare> shares_;
    const std::int64_t batch_;  // rows of a micro-batch
};

}  // namespace

void describe_labels(Function& main) {
    LabelReader(main).run();
}

}  // namespace thunderc
