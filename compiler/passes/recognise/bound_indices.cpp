// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/bound_indices.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/value_ranges.h"
#include "compiler/analysis/views.h"
#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/rewrite.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr std::int64_t most_entries = std::int64_t{1} << 31;
constexpr ArgInfo::Ids nothing = {1, 0};  // 0 alone

// One use of numbers as indices: `index` names one of `entries` rows.
struct Access {
    std::size_t op = 0;       // of the function
    std::size_t operand = 0;  // of the op, in which `index` is held
    Value index;
    std::int64_t entries = 0;
    std::optional<std::int64_t> ignored;  // of labels
    bool from_the_end = true;             // -1 is the last one
    std::int64_t column = -1;             // of the index's last dimension; -1: all of it
};

// What of an input is known: [0, entries), or anything of its type, and one more number (0: none); of all of it, or of
// runs of positions along an axis.
struct Input {
    std::size_t argument = 0;
    ArgInfo::Ids ids;
    std::int64_t axis = 0;
    std::vector<ArgInfo::Column> columns;
};

class IndexBounder {
  public:
    IndexBounder(Module& module, Report& report)
        : f_(module.main()), report_(report), definition_(f_.values.size(), -1) {
        for (std::size_t k = 0; k < f_.ops.size(); ++k)
            for (Value v : f_.ops[k].results) definition_[v.index] = static_cast<std::int32_t>(k);
        for (std::size_t k = 0; k < f_.ops.size(); ++k) find_accesses(k);
    }

    void run() {
        if (accesses_.empty()) return;
        std::vector<std::size_t> all(accesses_.size());
        std::iota(all.begin(), all.end(), std::size_t{0});
        ranges_ = ranges_of(all);
        for (std::size_t k : ranges_->arguments()) {
            const ArgInfo& info = f_.argument_info.at(k);
            if (info.kind == ArgInfo::Kind::input && is_integer(f_.type(f_.arguments[k]).dtype))
                inputs_.push_back({k, {info.entries, info.ignore_index}, 0, {}});
        }
        bound_inputs();
        for (Input& input : inputs_) {
            if (input.columns.empty()) admit_one_more(input.ids);
            for (ArgInfo::Column& column : input.columns) admit_one_more(column.ids);
        }
        for (const Input& input : inputs_) {
            ArgInfo& info = f_.argument_info[input.argument];
            info.entries = input.ids.entries;
            info.ignore_index = input.ids.ignore_index;
            info.column_axis = input.axis;
            info.columns = input.columns;
        }
        compute();
        for (const Access& access : accesses_)
            if (!natural(access)) from_the_end_.push_back(access);
        find_conversions();
        if (!from_the_end_.empty() || !conversions_.empty()) rewrite();
    }

  private:
    static constexpr double infinity = std::numeric_limits<double>::infinity();

    const Op* definition(Value v) const {
        const std::int32_t at = v ? definition_[v.index] : -1;
        return at < 0 ? nullptr : &f_.ops[static_cast<std::size_t>(at)];
    }

    // ---- where indices are used
    // ------------------------------------------------------------------------------------------

    void find_accesses(std::size_t k) {
        const Op& op = f_.ops[k];
        const std::optional<Lookup> lookup = lookup_of(op);
        if (!lookup) return;
        const Dims& table = f_.type(op.operands[lookup->table]).dims;
        const Value index = op.operands[lookup->index];
        const bool several = lookup->kind == Lookup::Kind::coordinates;
        for (std::int64_t w = 0; w < lookup->coordinates; ++w) {
            Access& access = accesses_.emplace_back(
                Access{k, lookup->index, index, table[lookup->axis + static_cast<std::size_t>(w)], lookup->ignored,
                       lookup->may_count_from_the_end(), several ? w : -1});
            if (several) find_coordinate(access);
        }
    }

    std::optional<Lookup> lookup_of(const Op& op) const {
        const LookupRule& rule = op_def(op.name).lookup;
        if (!rule) return std::nullopt;
        return rule(op.attributes, f_.type(op.operands[0]).dims, f_.type(op.operands[1]).dims);
    }

    // The value that holds the column of the last dimension, where they were put side by side.
    void find_coordinate(Access& access) const {
        const Op* op = definition(access.index);
        if (op == nullptr || op->name != "concat") return;
        const std::int64_t rank = f_.type(access.index).rank();
        if (*normalize_axis(op->attributes.integer("axis"), rank) != rank - 1) return;
        for (Value part : op->operands) {
            const std::int64_t width = f_.type(part).dims.back();
            if (access.column < width) {
                access.index = part;
                return find_coordinate(access);
            }
            access.column -= width;
        }
    }

    // ---- what inputs may hold
    // --------------------------------------------------------------------------------------------

    static ValueSet set_of(const ArgInfo::Ids& ids, DType dtype) {
        if (ids.entries < 0) return ValueSet::any(dtype);
        ValueSet set = ValueSet::between(0, static_cast<double>(ids.entries - 1));
        const auto beside = static_cast<double>(ids.ignore_index);
        if (ids.ignore_index != 0) set.add(ValueSet::between(beside, beside));
        return set;
    }

    // Of these accesses' indices.
    ValueRanges ranges_of(std::span<const std::size_t> which) const {
        std::vector<Value> wanted;
        for (std::size_t k : which) wanted.push_back(accesses_[k].index);
        return ValueRanges(f_, wanted);
    }

    void compute() {
        std::vector<ValueSet> sets(f_.arguments.size());
        for (std::size_t k : ranges_->arguments()) sets[k] = ValueSet::any(f_.type(f_.arguments[k]).dtype);
        std::map<std::size_t, ValueColumns> columns;
        for (const Input& input : inputs_) {
            const DType dtype = f_.type(f_.arguments[input.argument]).dtype;
            sets[input.argument] = set_of(input.ids, dtype);
            if (input.columns.empty()) continue;
            ValueColumns& runs = columns[input.argument] = {input.axis, {}};
            for (const ArgInfo::Column& column : input.columns) runs.append(column.end, set_of(column.ids, dtype));
            sets[input.argument] = runs.all();
            if (runs.runs.size() == 1) columns.erase(input.argument);
        }
        ranges_->compute(sets, columns);
    }

    ValueSet numbers_of(const Access& a) const {
        const ValueColumns* columns = a.column < 0 ? nullptr : ranges_->columns_of(a.index);
        return columns != nullptr && columns->axis == f_.type(a.index).rank() - 1
                   ? columns->between(a.column, a.column + 1)
                   : ranges_->of(a.index);
    }

    bool holds(const Access& a) const {
        if (f_.type(a.index).elements() == 0) return true;
        ValueSet set = numbers_of(a);
        if (a.ignored) set.remove(static_cast<double>(*a.ignored), static_cast<double>(*a.ignored));
        const auto entries = static_cast<double>(a.entries);
        return set.inside(a.from_the_end ? -entries : 0, entries - 1);
    }

    bool natural(const Access& a) const { return a.ignored || numbers_of(a).inside(0, infinity); }

    std::vector<std::size_t> failing() {
        compute();
        std::vector<std::size_t> out;
        for (std::size_t k = 0; k < accesses_.size(); ++k)
            if (!holds(accesses_[k])) out.push_back(k);
        return out;
    }

    bool hold(std::span<const std::size_t> which) {
        compute();
        return std::all_of(which.begin(), which.end(), [this](std::size_t k) { return holds(accesses_[k]); });
    }

    // Each input for itself, while the others are 0: an index that needs two inputs to be small is then found not to
    // hold, as no range of the one is right without one of the other.
    void bound_inputs() {
        const std::vector<Input> given = inputs_;
        if (failing().empty()) return;
        std::vector<Input> bound = given;
        for (std::size_t i = 0; i < inputs_.size(); ++i) {
            for (Input& other : inputs_) other = {other.argument, nothing, 0, {}};
            largest(inputs_[i].ids, bound[i].ids);
        }
        for (std::size_t i = 0; i < inputs_.size(); ++i) bound_columns(given[i], bound[i]);
        inputs_ = bound;
        for (std::size_t k : failing()) refuse(accesses_[k]);
    }

    // Gives `ids`, which inputs_ has, the largest range within `bound` that keeps all indices inside that depend on it.
    // Their table's name, "" where `bound` is that range already.
    std::string largest(ArgInfo::Ids& ids, ArgInfo::Ids& bound) {
        const auto restore = ids;
        ids = bound;
        std::vector<std::size_t> mended = failing();
        ids = nothing;
        compute();
        std::erase_if(mended, [this](std::size_t k) { return !holds(accesses_[k]); });
        std::string table;
        if (!mended.empty()) {
            // The others need not be computed again and again.
            ValueRanges all = std::exchange(*ranges_, ranges_of(mended));
            std::int64_t good = 1, bad = (bound.entries < 0 ? most_entries : bound.entries) + 1;
            while (bad - good > 1) {
                ids.entries = good + (bad - good) / 2;
                (hold(mended) ? good : bad) = ids.entries;
            }
            ids.entries = bad;
            compute();
            for (auto k = mended.rbegin(); k != mended.rend(); ++k)
                if (!holds(accesses_[*k])) table = table_of(accesses_[*k]);
            bound = {good, 0};
            *ranges_ = std::move(all);
        }
        ids = restore;
        return table;
    }

    // Columns of an input that are looked up in tables of different sizes: runs along one axis, each for itself, where
    // they come to different ranges. The batch's rows are alike.
    void bound_columns(const Input& given, Input& bound) {
        const Type& type = f_.type(f_.arguments[given.argument]);
        const ArgInfo& info = f_.argument_info[given.argument];
        const auto at =
            std::find_if(inputs_.begin(), inputs_.end(), [&](const Input& i) { return i.argument == given.argument; });
        for (std::int64_t axis = type.rank(); axis-- > (info.batched ? 1 : 0);) {
            const std::vector<std::int64_t> ends = cuts(type.dims[static_cast<std::size_t>(axis)]);
            if (ends.size() < 2) continue;
            for (Input& other : inputs_) other = {other.argument, nothing, 0, {}};
            at->axis = axis;
            std::vector<ArgInfo::Column> columns;
            for (std::size_t c = 0; c < ends.size(); ++c) {
                ArgInfo::Column column{ends[c], given.ids, ""};
                at->columns.clear();  // it, and what is in front of it and behind it
                if (c > 0) at->columns.push_back({ends[c - 1], nothing, ""});
                const std::size_t own = at->columns.size();
                at->columns.push_back({ends[c], nothing, ""});
                if (c + 1 < ends.size()) at->columns.push_back({ends.back(), nothing, ""});
                column.table = largest(at->columns[own].ids, column.ids);
                if (!columns.empty() && columns.back().ids == column.ids && columns.back().table == column.table)
                    columns.back().end = column.end;
                else
                    columns.push_back(std::move(column));
            }
            // What nothing reads may be anything, and is said with the others; and of packed tokens all are ids.
            const ArgInfo::Ids* first = nullptr;
            bool alike = true;
            std::int64_t begin = 0;
            for (const ArgInfo::Column& c : columns) {
                const bool counts = c.ids != given.ids ||
                                    (info.source.empty() && reads(f_.arguments[given.argument], axis, begin, c.end));
                begin = c.end;
                if (!counts) continue;
                if (first == nullptr) first = &c.ids;
                alike = alike && c.ids == *first;
            }
            if (alike) continue;
            at->columns = columns;
            if (!failing().empty()) continue;
            bound = {given.argument, {}, axis, std::move(columns)};
            return;
        }
    }

    // Runs of positions that an op takes out of its operand, along one axis.
    struct Taken {
        std::int64_t axis = 0;
        std::vector<std::pair<std::int64_t, std::int64_t>> runs;  // from, and behind the last one
    };
    std::optional<Taken> taken_by(const Op& op) const {
        if (const std::optional<ViewIndex> view = view_index(f_, op)) return cut_by(op, *view);
        const std::optional<Lookup> lookup = lookup_of(op);
        if (!lookup || lookup->kind != Lookup::Kind::rows) return std::nullopt;
        const Dims& dims = f_.type(op.operands[0]).dims;
        const std::size_t axis = lookup->axis;
        Taken out{static_cast<std::int64_t>(axis), {}};
        const Op* index = definition(op.operands[1]);
        if (index == nullptr || !is_constant_op(*index)) return std::nullopt;
        for (const std::int64_t row : materialize(*index->attributes.constant("value")).i) {
            const std::int64_t from = row < 0 ? row + dims[axis] : row;
            out.runs.emplace_back(from, from + 1);
        }
        return out;
    }

    std::optional<Taken> cut_by(const Op& op, const ViewIndex& view) const {
        if (view.kind != ViewIndex::Kind::cut) return std::nullopt;
        const Dims& to = f_.type(op.results[0]).dims;
        const auto& [axis, begin, step] = view.axes[view.cut_axis];
        const std::int64_t count = to[axis];
        Taken out{static_cast<std::int64_t>(view.cut_axis), {}};
        if (step == 1) out.runs.emplace_back(begin, begin + count);
        for (std::int64_t k = 0; step != 1 && k < count; ++k)
            out.runs.emplace_back(begin + k * step, begin + k * step + 1);
        return out;
    }

    // Whether anything reads these positions of the argument.
    bool reads(Value argument, std::int64_t axis, std::int64_t begin, std::int64_t end) const {
        if (std::find(f_.results.begin(), f_.results.end(), argument) != f_.results.end()) return true;
        return std::any_of(f_.ops.begin(), f_.ops.end(), [&](const Op& op) {
            if (std::find(op.operands.begin(), op.operands.end(), argument) == op.operands.end()) return false;
            const std::optional<Taken> taken = taken_by(op);
            if (!taken || taken->axis != axis || op.operands[0] != argument) return true;
            return std::any_of(taken->runs.begin(), taken->runs.end(),
                               [&](const auto& run) { return run.first < end && run.second > begin; });
        });
    }

    // Where positions along an axis of n may begin to be read in another way: the ends of runs. A number for each
    // position may be added to them.
    std::vector<std::int64_t> cuts(std::int64_t n) {
        std::set<std::int64_t> ends = {n};
        const auto cut = [&](std::int64_t end) {
            if (end > 0 && end < n) ends.insert(end);
        };
        for (const Op& op : f_.ops) {
            if (op.operands.empty() || !is_integer(f_.type(op.results[0]).dtype)) continue;
            if (const std::optional<Taken> taken = taken_by(op))
                if (f_.type(op.operands[0]).dims[static_cast<std::size_t>(taken->axis)] == n)
                    for (const auto& [begin, end] : taken->runs) cut(begin), cut(end);
            if (!op_def(op.name).acts_by_element()) continue;
            for (Value v : op.operands) {
                const Op* constant = definition(v);
                if (constant == nullptr || !is_constant_op(*constant)) continue;
                const Dims& dims = f_.type(v).dims;
                for (std::size_t axis = 0; axis < dims.size(); ++axis)
                    if (dims[axis] == n)
                        for (const auto& run : ranges_->constant_columns(v, static_cast<std::int64_t>(axis)).runs)
                            cut(run.end);
            }
        }
        for (const Access& a : accesses_)
            if (a.column >= 0 && f_.type(a.index).dims.back() == n) cut(a.column), cut(a.column + 1);
        return {ends.begin(), ends.end()};
    }

    // The parameter whose rows an index names; "" for what is computed, and for the classes of a loss.
    std::string table_of(const Access& a) const {
        const std::string stored = a.ignored ? "" : stored_tensor(f_.ops[a.op].operands[0]);
        return stored.substr(0, stored.find(' '));
    }

    // Labels may be what the loss ignores, and ids what the model compares them with and replaces.
    void admit_one_more(ArgInfo::Ids& ids) {
        if (ids.entries < 0 || ids.ignore_index != 0) return;
        std::vector<std::int64_t> candidates;
        for (const Access& a : accesses_)
            if (a.ignored) candidates.push_back(*a.ignored);
        for (const Op& op : f_.ops) {
            const std::optional<Comparison> comparison = op_def(op.name).comparison;
            if (!comparison || !is_equality(*comparison)) continue;
            for (Value v : op.operands) {
                const Op* known = definition(v);
                if (known == nullptr || !is_constant_op(*known) || !is_integer(f_.type(v).dtype)) continue;
                const ConstPtr value = known->attributes.constant("value");
                if (value->kind == ConstExpr::Kind::splat)
                    candidates.push_back(static_cast<std::int64_t>(value->value));
                else if (value->type.elements() == 1)
                    candidates.push_back(materialize(*value).i[0]);
            }
        }
        if (candidates.empty()) return;
        compute();
        std::vector<bool>
            counts_down;  // an index that may be negative without it; else -100 were the 100th from the end
        for (const Access& a : accesses_) counts_down.push_back(!natural(a));
        for (std::int64_t candidate : candidates) {
            if (candidate >= 0 && candidate < ids.entries) continue;
            ids.ignore_index = candidate;
            compute();
            bool fine = true;
            for (std::size_t k = 0; fine && k < accesses_.size(); ++k)
                fine = holds(accesses_[k]) && (counts_down[k] || natural(accesses_[k]));
            if (fine) return;
            ids.ignore_index = 0;
        }
    }

    [[noreturn]] void refuse(const Access& a) {
        const Op& op = f_.ops[a.op];
        const bool known = definition(a.index) != nullptr && is_constant_op(*definition(a.index));
        const std::string what =
            a.ignored ? "a label of the cross entropy" : fmt::format("an index of {}", operator_of(op));
        const std::string table = a.ignored ? "" : stored_tensor(op.operands[0]);
        const std::string inside = a.ignored       ? "its classes"
                                   : table.empty() ? "its table"
                                                   : fmt::format("its table {}", table);
        Diagnostic d;
        d.message = known ? fmt::format("{} lies outside of {}", what, inside)
                          : fmt::format("{} cannot be shown to lie inside {}", what, inside);
        if (!op.provenance.nodes.empty()) d.node = op.provenance.nodes.front();
        if (!op.provenance.node_ops.empty()) d.op = op.provenance.node_ops.front();
        d.module = op.provenance.scope;
        d.expected = fmt::format("0 to {}", a.entries - 1);
        d.actual = to_string(numbers_of(a));
        if (known) {
            d.help = a.ignored ? "it is a constant of the graph: export the model again with these shapes"
                               : fmt::format(
                                     "where this is a table of {0} positions, --seq can be {0} at most without "
                                     "a longer table; else export the model again with these shapes",
                                     a.entries);
        } else if (a.ignored) {  // clamped labels would be another loss: what is ignored would be a class
            d.help = fmt::format(
                "shift or mask labels where the batches are made, and let the loss take an input of the graph as it is "
                "(0 to {}, or {}), which is checked while batches are loaded",
                a.entries - 1, *a.ignored);
        } else {
            d.help = fmt::format(
                "limit it in the model (index.clamp(0, {})), or let it be an input of the graph, "
                "which is checked while batches are loaded",
                a.entries - 1);
        }
        throw UserError(std::move(d));
    }

    // The stored tensor that the value is, or is a view of: "wpe.weight f32[1024,768]"; "" for what is computed.
    std::string stored_tensor(Value v) const {
        constexpr std::string_view views[] = {"reshape", "transpose", "cast", "slice", "broadcast_to"};
        for (const Op* op = definition(v); op != nullptr; op = definition(v)) {
            if (std::find(std::begin(views), std::end(views), op->name) == std::end(views)) return {};
            v = op->operands.front();
        }
        const auto at = std::find(f_.arguments.begin(), f_.arguments.end(), v);
        if (at == f_.arguments.end()) return {};
        const ArgInfo& info = f_.argument_info[static_cast<std::size_t>(at - f_.arguments.begin())];
        return info.kind == ArgInfo::Kind::input ? std::string()
                                                 : fmt::format("{} {}", info.names.front(), to_string(f_.type(v)));
    }

    static std::string operator_of(const Op& op) {
        return op.provenance.node_ops.empty() ? op.name : op.provenance.node_ops.front();
    }

    // ---- what changes
    // ------------------------------------------------------------------------------------------------------

    // Floats that become integers on the way to an index, with the range that was found. What is computed in between is
    // rounded as the program's types have it, which is decided later: the integers are held to the range.
    void find_conversions() {
        std::set<std::uint32_t> seen;
        std::vector<Value> open;
        for (const Access& a : accesses_) open.push_back(a.index);
        while (!open.empty()) {
            const Value v = open.back();
            open.pop_back();
            const Op* op = definition(v);
            if (op == nullptr || !seen.insert(v.index).second) continue;
            const bool converts = op->name == "cast" && is_float(f_.type(op->operands[0]).dtype);
            if (converts && is_integer(f_.type(v).dtype) && !ranges_->of(v).beyond(exact_integer))
                conversions_[v.index] = ranges_->of(v).hull();
            if (converts) continue;
            for (Value operand : op->operands)
                if (operand && is_integer(f_.type(operand).dtype)) open.push_back(operand);
        }
    }

    void rewrite() {
        Rewriter rewriter(f_);
        Builder& b = rewriter.builder();
        for (std::size_t k = 0; k < rewriter.old_ops().size(); ++k) {
            const Op& op = rewriter.old_ops()[k];
            const auto first =
                std::find_if(from_the_end_.begin(), from_the_end_.end(), [k](const Access& a) { return a.op == k; });
            if (first == from_the_end_.end()) {
                const auto found = conversions_.find(op.results[0].index);
                found == conversions_.end() ? rewriter.keep(op) : hold_to(found->second, op, rewriter);
                continue;
            }
            b.set_provenance(op.provenance);
            std::vector<Value> operands = rewriter.now(op.operands);
            Value& index = operands[first->operand];
            const Type type = b.type(index);
            Value entries = b.scalar(type.dtype, static_cast<double>(first->entries));
            const Lookup lookup = *lookup_of(op);
            if (lookup.kind == Lookup::Kind::coordinates) {  // one size for each
                Tensor sizes(Type::tensor(type.dtype, {type.dims.back()}));
                const Dims& dims = f_.type(op.operands[lookup.table]).dims;
                for (std::size_t w = 0; w < sizes.i.size(); ++w) sizes.i[w] = dims[lookup.axis + w];
                entries = b.constant(ConstExpr::dense(std::move(sizes)));
            }
            const Value negative = b.op("lt", {index, b.scalar(type.dtype, 0)});
            index = b.op("select", {negative, b.add(index, entries), index}, {}, "index");
            const std::string name = f_.info(op.results[0]).name;
            rewriter.replace(op, b.emit(op.name, operands, op.attributes, name));
            report_.done("index", op.provenance.scope, fmt::format("of {} may count from the end", operator_of(op)));
        }
        rewriter.finish();
    }

    void hold_to(ValueSet::Piece range, const Op& op, Rewriter& rewriter) {
        Builder& b = rewriter.builder();
        b.set_provenance(op.provenance);
        const DType dtype = f_.type(op.results[0]).dtype;
        const Value v = b.cast(rewriter.now(op.operands[0]), dtype);
        rewriter.replace(op, std::vector{b.op("clip", {v, b.scalar(dtype, range.low), b.scalar(dtype, range.high)}, {},
                                              f_.info(op.results[0]).name)});
    }

    Function& f_;
    Report& report_;
    std::vector<std::int32_t> definition_;  // by value, into the ops
    std::vector<Access> accesses_, from_the_end_;
    std::vector<Input> inputs_;
    std::map<std::uint32_t, ValueSet::Piece> conversions_;  // by value
    std::optional<ValueRanges> ranges_;
};

}  // namespace

Module bound_indices(Module module, Report& report) {
    IndexBounder(module, report).run();
    return module;
}

}  // namespace thunderc
