// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/join_pieces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "compiler/analysis/slices.h"
#include "compiler/ir/op_def.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

constexpr std::size_t least_pieces = 4;  // fewer are as well written out
constexpr std::size_t deepest = 16;      // ops one behind the other; what is computed of a row is short

// One computation for all of `values`, which are alike: their op, pieces of a tensor, or one value.
struct Joined {
    std::vector<Value> values;
    std::optional<Pieces> pieces;
    const Op* op = nullptr;                               // of the first
    std::vector<std::shared_ptr<const Joined>> operands;  // of the op; what it reads twice is one
    bool one = false;                                     // the same for all
};
using JoinedPtr = std::shared_ptr<const Joined>;  // none: the values are not alike

class PieceJoiner {
  public:
    explicit PieceJoiner(const Function& f) : f_(f), uses_(f) {}

    // None where the values are not alike, or an op is in the way.
    JoinedPtr joined(const std::vector<Value>& values, std::size_t depth = 0) {
        const auto [at, fresh] = known_.try_emplace(values);
        if (!fresh) return at->second;
        std::optional<Joined> out = look(values, depth);
        JoinedPtr made = out ? std::make_shared<const Joined>(std::move(*out)) : nullptr;
        return known_[values] = std::move(made);
    }

  private:
    std::optional<Joined> look(const std::vector<Value>& values, std::size_t depth) {
        Joined out{.values = values, .pieces = {}, .op = nullptr, .operands = {}, .one = false};
        out.one = std::all_of(values.begin(), values.end(), [&](Value v) { return v == values[0]; });
        if (out.one) return out;
        if (std::any_of(values.begin(), values.end(), [](Value v) { return !v; })) return std::nullopt;
        out.pieces = pieces_of(f_, uses_, values);
        if (out.pieces) return out.pieces->backwards ? std::nullopt : std::optional(std::move(out));
        out.op = definition(values[0]);
        if (out.op == nullptr || depth == deepest || !can_be_joined(*out.op)) return std::nullopt;
        for (Value v : values) {
            const Op* op = definition(v);
            if (op == nullptr || op->name != out.op->name || op->attributes != out.op->attributes ||
                op->operands.size() != out.op->operands.size() || f_.type(v) != f_.type(values[0]))
                return std::nullopt;
        }
        for (std::size_t o = 0; o < out.op->operands.size(); ++o) {
            std::vector<Value> of_all;
            for (Value v : values) of_all.push_back(definition(v)->operands[o]);
            JoinedPtr operand = joined(of_all, depth + 1);
            if (!operand || !fits(*out.op, o, *operand)) return std::nullopt;
            out.operands.push_back(std::move(operand));
        }
        return out;
    }

    const Op* definition(Value v) const { return v ? definition_of(f_, uses_, v) : nullptr; }

    bool can_be_joined(const Op& op) const {
        const OpDef& def = op_def(op.name);
        return op.results.size() == 1 && !def.draws &&
               (def.acts_by_element() || def.reduction || op.name == "reshape" || lookup(op).has_value());
    }

    // Rows of a table's first axis; the index may have any dimensions.
    std::optional<Lookup> lookup(const Op& op) const {
        const OpDef& def = op_def(op.name);
        if (!def.lookup || op.operands.size() != 2) return std::nullopt;
        const Lookup out = def.lookup(op.attributes, f_.type(op.operands[0]).dims, f_.type(op.operands[1]).dims);
        return out.kind == Lookup::Kind::rows && out.axis == 0 ? std::optional(out) : std::nullopt;
    }

    bool fits(const Op& op, std::size_t o, const Joined& operand) const {
        const std::optional<Lookup> rows = lookup(op);
        return !rows || operand.one == (o == rows->table);
    }

    const Function& f_;
    Uses uses_;
    std::map<std::vector<Value>, JoinedPtr> known_;
};

// A value with an axis 0 for which piece it is, and the dimensions of one behind it; what is the same for all has none.
class PieceBuilder {
  public:
    PieceBuilder(const Function& f, Rewriter& rewriter) : f_(f), rewriter_(rewriter), b_(rewriter.builder()) {}

    Value build(const Joined& joined) {
        const auto at = built_.find(&joined);
        return at != built_.end() ? at->second : built_[&joined] = made(joined);
    }

  private:
    Value made(const Joined& joined) {
        if (joined.one) return rewriter_.now(joined.values[0]);
        if (joined.pieces) {
            Pieces pieces = *joined.pieces;
            pieces.whole = rewriter_.now(pieces.whole);
            return stacked_pieces(b_, pieces);
        }
        const Op& op = *joined.op;
        const auto n = static_cast<std::int64_t>(joined.values.size());
        std::vector<Value> operands;
        for (const JoinedPtr& operand : joined.operands) operands.push_back(build(*operand));
        b_.set_provenance(op.provenance);
        Attributes attributes = op.attributes;
        const OpDef& def = op_def(op.name);
        if (def.reduction) {
            Dims axes = attributes.integers("axes");
            const std::int64_t rank = f_.type(op.operands[0]).rank();
            for (std::int64_t& axis : axes) axis = *normalize_axis(axis, rank) + 1;
            attributes.set("axes", axes);
        } else if (op.name == "reshape") {
            Dims dims = attributes.integers("dims");
            dims.insert(dims.begin(), n);
            attributes.set("dims", dims);
        } else if (def.acts_by_element()) {
            widen(joined, operands, f_.type(op.results[0]).rank());
        }
        return b_.op(op.name, operands, attributes, f_.info(op.results[0]).name);
    }

    // Operands of fewer dimensions are broadcast behind the axis of pieces.
    void widen(const Joined& joined, std::vector<Value>& operands, std::int64_t rank) {
        for (std::size_t o = 0; o < operands.size(); ++o) {
            if (!operands[o] || joined.operands[o]->one) continue;
            Dims dims = b_.type(operands[o]).dims;
            dims.insert(dims.begin() + 1, static_cast<std::size_t>(rank + 1) - dims.size(), 1);
            operands[o] = b_.reshape(operands[o], dims);
        }
    }

    const Function& f_;
    Rewriter& rewriter_;
    Builder& b_;
    std::map<const Joined*, Value> built_;
};

struct Run {
    std::size_t begin = 0, end = 0;  // operands of the concatenation
    JoinedPtr joined;
};

// All operands, or all but the first or the last.
std::optional<Run> find_run(PieceJoiner& joiner, const Op& op) {
    const std::size_t n = op.operands.size();
    for (const auto& [begin, end] : {std::pair<std::size_t, std::size_t>{0, n}, {0, n - 1}, {1, n}}) {
        if (end - begin < least_pieces) continue;
        JoinedPtr joined = joiner.joined({op.operands.begin() + static_cast<std::ptrdiff_t>(begin),
                                          op.operands.begin() + static_cast<std::ptrdiff_t>(end)});
        // Pieces alone, or one value again and again, are none of this pass's.
        if (joined && joined->op != nullptr) return Run{begin, end, std::move(joined)};
    }
    return std::nullopt;
}

bool joins_many(const Op& op) {
    return op.name == "concat" && op.operands.size() >= least_pieces;
}

std::size_t join(Function& f) {
    if (std::none_of(f.ops.begin(), f.ops.end(), joins_many)) return 0;
    const Function before = f;  // what is read while the ops are written anew
    PieceJoiner joiner(before);
    std::size_t found = 0;
    std::vector<std::optional<Run>> runs;
    for (const Op& op : before.ops) {
        runs.push_back(joins_many(op) ? find_run(joiner, op) : std::nullopt);
        found += runs.back() ? 1 : 0;
    }
    if (found == 0) return 0;
    Rewriter rewriter(f);
    Builder& b = rewriter.builder();
    PieceBuilder pieces(before, rewriter);
    for (std::size_t k = 0; k < runs.size(); ++k) {
        const Op& op = rewriter.old_ops()[k];
        if (!runs[k]) {
            rewriter.keep(op);
            continue;
        }
        const Run& run = *runs[k];
        const Type& result = f.type(op.results[0]);
        const std::size_t axis =
            static_cast<std::size_t>(*normalize_axis(op.attributes.integer("axis"), result.rank()));
        b.set_provenance(op.provenance);
        Value all = pieces.build(*run.joined);
        b.set_provenance(op.provenance);
        all = b.transpose(all, moved_axis(b.type(all).dims.size(), 0, axis));
        Dims dims = f.type(run.joined->values[0]).dims;
        dims[axis] *= static_cast<std::int64_t>(run.joined->values.size());
        all = b.reshape(all, dims);
        std::vector<Value> parts;
        for (std::size_t o = 0; o < run.begin; ++o) parts.push_back(rewriter.now(op.operands[o]));
        parts.push_back(all);
        for (std::size_t o = run.end; o < op.operands.size(); ++o) parts.push_back(rewriter.now(op.operands[o]));
        if (parts.size() > 1) all = b.op("concat", parts, op.attributes);
        f.info(all).name = f.info(op.results[0]).name;
        rewriter.replace(op, std::vector<Value>{all});
    }
    rewriter.finish();
    return found;
}

}  // namespace

Module join_pieces(Module module, Report& report) {
    for (Function& f : module.functions) {
        const std::size_t found = join(f);
        if (found > 0) report.done("join_pieces", "@" + f.name, fmt::format("{} rows of pieces", found));
    }
    return module;
}

}  // namespace thunderc
