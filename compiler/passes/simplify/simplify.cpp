// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/simplify/simplify.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/analysis/batch_share.h"
#include "compiler/analysis/slices.h"
#include "compiler/interpreter/constant_fold.h"
#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/pattern.h"

namespace thunderc {
namespace {

// ---- hashes of ops, for finding equal ones --------------------------------------------------------------------------

void mix(std::size_t& seed, std::size_t value) {
    seed ^= value + 0x9e3779b97f4a7c15ULL + (seed << 6) + (seed >> 2);
}

void mix(std::size_t& seed, const Type& type) {
    mix(seed, static_cast<std::size_t>(type.dtype));
    for (std::int64_t d : type.dims) mix(seed, static_cast<std::size_t>(d));
}

void mix(std::size_t& seed, const ConstExpr& e) {
    mix(seed, static_cast<std::size_t>(e.kind));
    mix(seed, e.type);
    mix(seed, std::hash<double>()(e.value));
    mix(seed, std::hash<double>()(e.base));
    mix(seed, std::hash<std::string>()(e.op_name));
    if (e.data)
        for (std::int64_t k = 0; k < std::min<std::int64_t>(e.data->size(), 16); ++k)
            mix(seed, std::hash<double>()(e.data->at(k)));
    for (const ConstPtr& operand : e.operands) mix(seed, *operand);
}

void mix(std::size_t& seed, const Attribute& attribute) {
    std::visit(
        [&](const auto& value) {
            using T = std::decay_t<decltype(value)>;
            if constexpr (std::is_same_v<T, ConstPtr>) {
                mix(seed, *value);
            } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
                for (std::int64_t v : value) mix(seed, static_cast<std::size_t>(v));
            } else if constexpr (std::is_same_v<T, std::vector<std::string>>) {
                for (const std::string& v : value) mix(seed, std::hash<std::string>()(v));
            } else if constexpr (std::is_same_v<T, DType>) {
                mix(seed, static_cast<std::size_t>(value));
            } else {
                mix(seed, std::hash<T>()(value));
            }
        },
        attribute);
}

std::size_t hash_of(const Op& op) {
    std::size_t seed = std::hash<std::string>()(op.name);
    for (Value v : op.operands) mix(seed, v.index);
    for (const auto& [name, value] : op.attributes.entries()) {
        mix(seed, std::hash<std::string>()(name));
        mix(seed, value);
    }
    return seed;
}

bool is_identity(const Dims& permutation) {
    for (std::size_t d = 0; d < permutation.size(); ++d)
        if (permutation[d] != static_cast<std::int64_t>(d)) return false;
    return true;
}

class Simplifier {
  public:
    // `rows`: what is known of a batch's rows stays known.
    Simplifier(Function& f, bool rows) : f_(f) {
        if (rows) rows_.emplace(f);
    }

    std::size_t run() {
        std::vector<Op> old = std::move(f_.ops);
        f_.ops.clear();
        definition_.assign(f_.values.size(), -1);
        now_.resize(f_.values.size());
        for (std::uint32_t k = 0; k < now_.size(); ++k) now_[k] = {k};
        const std::size_t before = old.size();
        for (Op& op : old) {
            for (Value& v : op.operands)
                if (v) v = now_[v.index];
            const std::vector<Value> results = op.results;
            std::vector<Value> by = add(std::move(op));
            for (std::size_t k = 0; k < results.size(); ++k) now_[results[k].index] = by[k];
        }
        for (Value& v : f_.results)
            if (v) v = now_[v.index];
        remove_dead_code(f_);
        return before > f_.ops.size() ? before - f_.ops.size() : 0;
    }

  private:
    const Op* definition(Value v) const {
        return v && definition_[v.index] >= 0 ? &f_.ops[static_cast<std::size_t>(definition_[v.index])] : nullptr;
    }
    const Op* definition(Value v, std::string_view name) const {
        const Op* op = definition(v);
        return op != nullptr && op->name == name ? op : nullptr;
    }
    const Type& type(Value v) const { return f_.type(v); }

    std::optional<double> splat(Value v) const {
        const Op* op = definition(v, "constant");
        return op != nullptr ? splat_value(*op->attributes.constant("value")) : std::nullopt;
    }

    // The op's results, or what they are equal to; appends the op only where that is new.
    std::vector<Value> add(Op op) {
        if (rows_) rows_->add(op);
        if (op.results.size() == 1)
            if (Value v = shorter(op); v && has_rows_of(v, op.results[0])) return {v};
        const bool structural = op_def(op.name).level == OpLevel::structural;
        if ((!structural || is_constant_op(op)) && !op_def(op.name).draws) {
            const std::size_t hash = hash_of(op);
            auto [begin, end] = seen_.equal_range(hash);
            for (auto at = begin; at != end; ++at) {
                const Op& other = f_.ops[at->second];
                if (other.name == op.name && other.operands == op.operands && other.attributes == op.attributes &&
                    other.results.size() == op.results.size())
                    return other.results;
            }
            seen_.emplace(hash, f_.ops.size());
        }
        for (Value v : op.results) definition_[v.index] = static_cast<std::int32_t>(f_.ops.size());
        std::vector<Value> results = op.results;
        f_.ops.push_back(std::move(op));
        return results;
    }

    Value add_view(const Op& like, std::string name, Value operand, Attributes attributes, Dims dims) {
        Value result = f_.add_value(Type::tensor(type(operand).dtype, std::move(dims)), f_.info(like.results[0]).name);
        definition_.push_back(-1);
        return add({std::move(name), {operand}, {result}, std::move(attributes), like.provenance})[0];
    }

    bool has_rows_of(Value v, Value other) const {
        if (!rows_) return true;
        const BatchShare &a = rows_->of(v), &b = rows_->of(other);
        return a.kind == b.kind && a.axis == b.axis && a.outer == b.outer;
    }

    // `v` where it can stand for the op's result.
    Value same_type(const Op& op, Value v) const { return type(v) == type(op.results[0]) ? v : Value(); }

    // A value equal to the op's result that needs less; none where there is nothing shorter.
    Value shorter(Op& op) {
        if (op.name == "reshape") return shorter_reshape(op);
        if (op.name == "transpose") return shorter_transpose(op);
        if (op.name == "broadcast_to") return shorter_broadcast(op);
        if (op.name == "slice") return shorter_slice(op);
        if (op.name == "concat") return shorter_concat(op);
        if (op_def(op.name).lookup) return shorter_gather(op);
        if (is_member_op(op) || is_family_op(op)) return shorter_family(op);
        if (is_stack(op) || is_unstack(op)) {  // each undoes the other
            const Op* inner = definition(op.operands[0]);
            return inner != nullptr && (is_stack(op) ? is_unstack(*inner) : is_stack(*inner)) ? inner->operands[0]
                                                                                              : Value();
        }
        if (op.name == "stop_gradient") {  // of what has no gradient, or has lost it already
            const Op* inner = definition(op.operands[0]);
            const bool nothing = inner != nullptr && (is_constant_op(*inner) || inner->name == "stop_gradient");
            return nothing ? op.operands[0] : Value();
        }
        if (op.name == "cast") {
            if (Value v = same_type(op, op.operands[0])) return v;
            const Op* inner = definition(op.operands[0], "cast");
            if (inner != nullptr && holds(type(inner->results[0]).dtype, type(inner->operands[0]).dtype))
                return same_type(op, inner->operands[0]);
            return {};
        }
        if (op_def(op.name).involution) {
            const Op* inner = definition(op.operands[0], op.name);
            return inner != nullptr ? inner->operands[0] : Value();
        }
        if (op.name == "select" && splat(op.operands[0]))
            return same_type(op, op.operands[*splat(op.operands[0]) != 0 ? 1 : 2]);
        drop_broadcasts(op);
        return neutral(op);
    }

    // A member of a family of values; the family of all members of one.
    Value shorter_family(const Op& op) const {
        if (is_member_op(op)) {
            const Op* family = definition(op.operands[0], "family");
            return family != nullptr ? family->operands[static_cast<std::size_t>(op.attributes.integer("index"))]
                                     : Value();
        }
        Value whole;
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            const Op* member = definition(op.operands[k], "member");
            if (member == nullptr || member->attributes.integer("index") != static_cast<std::int64_t>(k) ||
                (whole && member->operands[0] != whole))
                return {};
            whole = member->operands[0];
        }
        return same_type(op, whole);
    }

    // x + 0 and the like, where x has the result's type already.
    Value neutral(const Op& op) const {
        const OpDef& def = op_def(op.name);
        if (!def.neutral) return {};
        if (splat(op.operands[1]) == def.neutral)
            if (Value v = same_type(op, op.operands[0])) return v;
        if (def.commutative && splat(op.operands[0]) == def.neutral) return same_type(op, op.operands[1]);
        return {};
    }

    // Elementwise ops broadcast by themselves.
    void drop_broadcasts(Op& op) const {
        if (!op_def(op.name).elementwise || op.operands.size() < 2) return;
        for (std::size_t k = 0; k < op.operands.size(); ++k) {
            const Op* view = definition(op.operands[k], "broadcast_to");
            if (view == nullptr) continue;
            Dims dims;
            for (std::size_t o = 0; o < op.operands.size(); ++o)
                dims = *broadcast(dims, type(o == k ? view->operands[0] : op.operands[o]).dims);
            if (dims == type(op.results[0]).dims) op.operands[k] = view->operands[0];
        }
    }

    Value shorter_reshape(const Op& op) {
        if (Value v = same_type(op, op.operands[0])) return v;
        const Op* inner = definition(op.operands[0], "reshape");
        if (inner == nullptr) return {};
        if (Value v = same_type(op, inner->operands[0])) return v;
        Op shorter = op;
        shorter.operands = inner->operands;
        return add(std::move(shorter))[0];
    }

    Value shorter_transpose(const Op& op) {
        Dims permutation = op.attributes.integers("permutation");
        Value source = op.operands[0];
        if (is_identity(permutation)) return source;
        if (const Op* inner = definition(source, "transpose")) {
            const Dims first = inner->attributes.integers("permutation");
            for (std::int64_t& p : permutation) p = first[static_cast<std::size_t>(p)];
            return add_view(op, "transpose", inner->operands[0], {{"permutation", permutation}},
                            type(op.results[0]).dims);
        }
        Dims moved;  // dimensions of more than one element, in their new order
        for (std::int64_t p : permutation)
            if (type(source).dims[static_cast<std::size_t>(p)] != 1) moved.push_back(p);
        if (!std::is_sorted(moved.begin(), moved.end())) return {};
        return add_view(op, "reshape", source, {{"dims", type(op.results[0]).dims}}, type(op.results[0]).dims);
    }

    Value shorter_broadcast(const Op& op) {
        Value source = op.operands[0];
        if (Value v = same_type(op, source)) return v;
        const Dims& dims = type(op.results[0]).dims;
        if (type(source).elements() == type(op.results[0]).elements())
            return add_view(op, "reshape", source, {{"dims", dims}}, dims);
        if (const Op* inner = definition(source, "broadcast_to"))
            return add_view(op, "broadcast_to", inner->operands[0], {{"dims", dims}}, dims);
        return {};
    }

    Value shorter_slice(const Op& op) {
        Value source = op.operands[0];
        const SliceRange s = *slice_range(f_, op);
        if (s.step == 1)
            if (Value v = same_type(op, source)) return v;
        if (const Op* inner = definition(source, "slice"); inner != nullptr && s.step > 0) {
            const SliceRange t = *slice_range(f_, *inner);
            if (t.axis == s.axis && t.step == 1)
                return add_view(op, "slice", inner->operands[0],
                                {{"axis", static_cast<std::int64_t>(s.axis)},
                                 {"begin", t.begin + s.begin},
                                 {"end", t.begin + s.end},
                                 {"step", s.step}},
                                type(op.results[0]).dims);
        }
        const Op* parts = definition(source, "concat");
        if (parts == nullptr || s.step != 1 || axis_of(*parts, type(source)) != s.axis) return {};
        // What is kept for the backward pass is there as a whole, and its parts need not be written beside it.
        if (is_kept(source)) return {};
        std::int64_t begin = 0;
        for (Value part : parts->operands) {
            std::int64_t end = begin + type(part).dims[s.axis];
            if (s.begin == begin && s.end == end) return part;
            begin = end;
        }
        return {};
    }

    // Whether a function that is called gives the value to its caller.
    bool is_kept(Value v) const {
        return f_.argument_info.empty() &&
               std::any_of(f_.results.begin(), f_.results.end(), [&](Value r) { return r && now_[r.index] == v; });
    }

    Value shorter_concat(const Op& op) const {
        if (op.operands.size() == 1) return op.operands[0];
        const std::size_t axis = axis_of(op, type(op.results[0]));
        Value whole;
        std::int64_t next = 0;
        for (Value part : op.operands) {
            const Op* slice = definition(part, "slice");
            if (slice == nullptr) return {};
            const SliceRange s = *slice_range(f_, *slice);
            if (s.axis != axis || s.step != 1 || s.begin != next || (whole && slice->operands[0] != whole)) return {};
            whole = slice->operands[0];
            next = s.end;
        }
        return same_type(op, whole);
    }

    // Taking consecutive rows by known indices is a slice, taking the same row each time that row, broadcast; not where
    // one of them is to have no gradient.
    Value shorter_gather(const Op& op) {
        const Lookup lookup =
            op_def(op.name).lookup(op.attributes, type(op.operands[0]).dims, type(op.operands[1]).dims);
        const bool nd = lookup.kind == Lookup::Kind::coordinates;
        if ((!nd && lookup.kind != Lookup::Kind::rows) || (nd && lookup.axis != 0)) return {};
        const Op* known = definition(op.operands[lookup.index], "constant");
        Value data = op.operands[lookup.table];
        const Dims from = type(data).dims, result = type(op.results[0]).dims;
        if (known == nullptr || element_count(result) == 0) return {};
        const ConstPtr indices = known->attributes.constant("value");
        if (indices->type.elements() > largest_dense_constant) return {};
        // Coordinates of one row: the last dimension of the indices for gather_nd.
        const std::size_t axis = lookup.axis;
        const std::int64_t coordinates = lookup.coordinates;
        const std::int64_t rows = indices->type.elements() / coordinates;
        const Tensor values = materialize(*indices);
        for (std::int64_t k = 0; k < values.size(); ++k) {  // what is outside of the data is not for this pass to say
            const std::int64_t size = from[axis + static_cast<std::size_t>(k % coordinates)];
            const std::int64_t index = values.i[static_cast<std::size_t>(k)];
            if (index < -size || index >= size) return {};
        }
        auto row = [&](std::int64_t k) {
            std::int64_t linear = 0;
            for (std::int64_t c = 0; c < coordinates; ++c) {
                const std::int64_t size = from[axis + static_cast<std::size_t>(c)];
                const std::int64_t index = values.i[static_cast<std::size_t>(k * coordinates + c)];
                linear = linear * size + (index < 0 ? index + size : index);
            }
            return linear;
        };
        const std::int64_t first = row(0);
        const bool same = !nd && rows > 1 && row(1) == first;
        for (std::int64_t k = 1; k < rows; ++k)
            if (row(k) != first + (same ? 0 : k)) return {};
        const std::int64_t taken = same ? 1 : rows;
        const std::int64_t padding = op.attributes.integer("padding_idx", -1);
        if (padding >= first && padding < first + taken) return {};
        Dims flat(from.begin(), from.begin() + static_cast<std::ptrdiff_t>(axis));
        std::int64_t size = 1;
        for (std::int64_t c = 0; c < coordinates; ++c) size *= from[axis + static_cast<std::size_t>(c)];
        flat.push_back(size);
        flat.insert(flat.end(), from.begin() + static_cast<std::ptrdiff_t>(axis) + coordinates, from.end());
        Value v = flat == from ? data : add_view(op, "reshape", data, {{"dims", flat}}, flat);
        if (taken != size) {
            flat[axis] = taken;
            v = add_view(op, "slice", v,
                         {{"axis", static_cast<std::int64_t>(axis)},
                          {"begin", first},
                          {"end", first + taken},
                          {"step", std::int64_t{1}}},
                         flat);
        }
        if (same) {
            Dims once = result;
            std::fill_n(once.begin() + static_cast<std::ptrdiff_t>(axis), indices->type.rank(), 1);
            if (flat != once) v = add_view(op, "reshape", v, {{"dims", once}}, once);
            return add_view(op, "broadcast_to", v, {{"dims", result}}, result);
        }
        return flat == result ? v : add_view(op, "reshape", v, {{"dims", result}}, result);
    }

    Function& f_;
    std::vector<Value> now_;                                  // by old value
    std::vector<std::int32_t> definition_;                    // by value, into the new ops
    std::unordered_multimap<std::size_t, std::size_t> seen_;  // by hash
    std::optional<BatchShares> rows_;
};

// Names of functions that an op refers to.
std::vector<std::string> callees(const Op& op) {
    std::vector<std::string> out;
    for (const char* attribute : {"callee", "body", "kernel"})
        if (op.attributes.has(attribute)) out.push_back(op.attributes.string(attribute));
    return out;
}

// Entry functions are the first and those whose arguments are described; what they do not reach goes.
std::size_t drop_uncalled(Module& module) {
    std::set<std::string> reached;
    std::vector<const Function*> work;
    for (const Function& f : module.functions)
        if (&f == &module.functions.front() || !f.argument_info.empty()) work.push_back(&f);
    for (const Function* f : work) reached.insert(f->name);
    while (!work.empty()) {
        const Function* f = work.back();
        work.pop_back();
        for (const Op& op : f->ops)
            for (const std::string& name : callees(op))
                if (const Function* callee = module.find(name); callee != nullptr && reached.insert(name).second)
                    work.push_back(callee);
    }
    return std::erase_if(module.functions, [&](const Function& f) { return !reached.contains(f.name); });
}

bool has_batch_of_one(const Function& f) {
    for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
        const Type& type = f.type(f.arguments[k]);
        if (f.argument_info[k].batched && type.rank() > 0 && type.dims[0] == 1) return true;
    }
    return false;
}

Module simplified(Module module, Report& report, bool keep_rows) {
    for (Function& f : module.functions)
        if (std::size_t count = Simplifier(f, keep_rows && has_batch_of_one(f)).run(); count > 0)
            report.done("ops", f.name, std::to_string(count) + " fewer");
    if (std::size_t count = drop_uncalled(module); count > 0)
        report.done("functions", module.name, std::to_string(count) + " that nothing calls");
    return module;
}

}  // namespace

Module simplify(Module module, Report& report) {
    return simplified(std::move(module), report, false);
}

Module simplify_model(Module module, Report& report) {
    return simplified(std::move(module), report, true);
}

}  // namespace thunderc
