#include "compiler/analysis/planned_execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <set>
#include <span>
#include <utility>

#include "compiler/analysis/evaluate.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/op.h"
#include "compiler/support/error.h"
#include "compiler/support/half.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

// What a field of StepScalars is stored as, whatever type the IR gives the scalar.
DType scalar_dtype(std::int64_t offset) {
    if (offset < 72) return DType::f64;
    if (offset < 88) return DType::i64;
    return offset < 108 ? DType::f32 : DType::boolean;
}

std::byte poison_of(DType dtype) {
    return is_float(dtype) ? std::byte{0xff} : std::byte{0x5a};  // all ones are a NaN in every float type
}

template <typename T>
void put(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

template <typename T>
T take(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

void store_element(std::byte* at, DType dtype, const Tensor& t, std::size_t k) {
    switch (dtype) {
        case DType::f64: return put(at, t.f[k]);
        case DType::f32: return put(at, static_cast<float>(t.f[k]));
        case DType::i64: return put(at, t.i[k]);
        case DType::i32: return put(at, static_cast<std::int32_t>(t.i[k]));
        case DType::boolean: return put(at, static_cast<std::uint8_t>(t.i[k] != 0));
        case DType::bf16: return put(at, bf16_bits(static_cast<float>(convert(t.f[k], DType::bf16))));
        case DType::f16: break;
    }
    throw InternalError(fmt::format("no planned program holds {}", name_of(dtype)));
}

void load_element(const std::byte* at, DType dtype, Tensor& t, std::size_t k) {
    switch (dtype) {
        case DType::f64: t.f[k] = take<double>(at); return;
        case DType::f32: t.f[k] = take<float>(at); return;
        case DType::i64: t.i[k] = take<std::int64_t>(at); return;
        case DType::i32: t.i[k] = take<std::int32_t>(at); return;
        case DType::boolean: t.i[k] = take<std::uint8_t>(at) == 1 ? 1 : 0; return;
        case DType::bf16: t.f[k] = static_cast<double>(bf16_value(take<std::uint16_t>(at))); return;
        case DType::f16: break;
    }
    throw InternalError(fmt::format("no planned program holds {}", name_of(dtype)));
}

// Calls `visit` with the byte offset of each element, in row-major order.
template <typename Visit>
void for_each_element(const Type& type, const Dims& given, Visit visit) {
    const Dims strides = given.empty() ? dense_strides(type.dims) : given;
    Dims index(type.dims.size(), 0);
    const auto size = static_cast<std::int64_t>(size_of(type.dtype));
    const std::int64_t n = type.elements();
    for (std::int64_t k = 0; k < n; ++k) {
        std::int64_t at = 0;
        for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
        visit(static_cast<std::size_t>(k), at * size);
        for (std::size_t d = index.size(); d-- > 0;) {
            if (++index[d] < type.dims[d]) break;
            index[d] = 0;
        }
    }
}

std::set<std::size_t> touched(const PlannedAction& a) {
    std::set<std::size_t> out;
    for (const auto& read : a.reads)
        if (read) out.insert(read->tensor);
    for (const PlannedAccess& write : a.writes) out.insert(write.tensor);
    return out;
}

std::vector<std::size_t> listed(const ExpandedPlan& plan) {
    std::vector<std::size_t> order(plan.actions.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    return order;
}

}  // namespace

// In the order of the list, or in one of the others that streams and events permit.
void PlannedExecution::run(const Function& f, std::optional<std::uint64_t> seed) {
    const ExpandedPlan plan = expand_plan(module_, f);
    begin(plan);
    for (std::size_t k : seed ? permuted(plan, *seed) : listed(plan)) step(plan, plan.actions[k]);
}

Tensor PlannedExecution::load(Arena arena, std::int64_t offset, const Type& type, const Dims& strides) {
    Tensor t(type.member());
    if (arena == Arena::scalars) {
        const DType stored = scalar_dtype(offset);
        Tensor field(Type::tensor(stored, {}));
        load_element(bytes(arena, offset, static_cast<std::int64_t>(size_of(stored))), stored, field, 0);
        t.set(0, field.at(0));
        return t;
    }
    const auto size = static_cast<std::int64_t>(size_of(type.dtype));
    for_each_element(type, strides, [&](std::size_t k, std::int64_t at) {
        load_element(bytes(arena, offset + at, size), type.dtype, t, k);
    });
    return t;
}

void PlannedExecution::store(Arena arena, std::int64_t offset, const Type& type, const Dims& strides, const Tensor& t) {
    if (arena == Arena::scalars) {
        const DType stored = scalar_dtype(offset);
        Tensor field(Type::tensor(stored, {}));
        field.set(0, t.at(0));
        store_element(bytes(arena, offset, static_cast<std::int64_t>(size_of(stored))), stored, field, 0);
        return;
    }
    const auto size = static_cast<std::int64_t>(size_of(type.dtype));
    for_each_element(type, strides, [&](std::size_t k, std::int64_t at) {
        store_element(bytes(arena, offset + at, size), type.dtype, t, k);
    });
}

std::byte* PlannedExecution::bytes(Arena arena, std::int64_t offset, std::int64_t count) {
    auto found = p_.arenas_.find(arena);
    check(found != p_.arenas_.end(), fmt::format("there is no arena {}", name_of(arena)));
    check(offset >= 0 && offset + count <= static_cast<std::int64_t>(found->second.size()),
          fmt::format("bytes {} to {} are outside the arena {}, which has {}", offset, offset + count, name_of(arena),
                      found->second.size()));
    return found->second.data() + offset;
}

// Each stream runs its actions in their order; which stream is next is drawn among those that need not wait.
std::vector<std::size_t> PlannedExecution::permuted(const ExpandedPlan& plan, std::uint64_t seed) const {
    std::vector<std::vector<std::size_t>> queues(module_.streams.size() + 1);
    for (std::size_t k = 0; k < plan.actions.size(); ++k) queues[plan.actions[k].stream].push_back(k);
    std::vector<std::size_t> next(queues.size(), 0), order;
    std::vector<bool> done(plan.actions.size(), false);
    std::mt19937_64 random(seed);
    while (order.size() < plan.actions.size()) {
        std::vector<std::size_t> ready;
        for (std::size_t s = 0; s < queues.size(); ++s) {
            if (next[s] == queues[s].size()) continue;
            const auto& awaits = plan.actions[queues[s][next[s]]].awaits;
            if (!awaits || done[*awaits]) ready.push_back(s);
        }
        check(!ready.empty(), "streams wait for each other");
        const std::size_t s = ready[random() % ready.size()];
        order.push_back(queues[s][next[s]++]);
        done[order.back()] = true;
    }
    return order;
}

void PlannedExecution::begin(const ExpandedPlan& plan) {
    uses_.assign(plan.tensors.size(), 0);
    for (const PlannedAction& a : plan.actions)
        for (std::size_t t : touched(a)) ++uses_[t];
}

std::vector<Tensor> PlannedExecution::operands(const PlannedAction& a) {
    std::vector<Tensor> out;
    for (const auto& read : a.reads)
        out.push_back(read ? load(read->arena, read->offset, read->type, read->strides) : Tensor());
    return out;
}

void PlannedExecution::step(const ExpandedPlan& plan, const PlannedAction& a) {
    const Op& op = *a.op;
    std::vector<Type> types;
    for (const PlannedAccess& write : a.writes) types.push_back(write.type);
    std::vector<Tensor> results;
    if (op.name == "copy" || op.name == "family") {
        results = operands(a);
    } else if (op.name == "fused") {
        const Function* kernel = module_.find(op.attributes.string("kernel"));
        check(kernel != nullptr, "a kernel that is not there");
        const std::vector<Tensor> given = operands(a);
        // what a kernel stores in bf16 it reads in bf16
        const bool rounds = std::any_of(kernel->values.begin(), kernel->values.end(),
                                        [](const ValueInfo& info) { return info.type.dtype == DType::bf16; });
        results = evaluate(module_, *kernel, std::span<const Tensor>(given), {.round_to_dtype = rounds, .observe = {}});
    } else if (op.name != "record" && op.name != "wait") {
        const OpDef& def = op_def(op.name);
        check(static_cast<bool>(def.reference), op.name + " cannot be executed");
        results = def.reference(op, operands(a), types);
    }
    finish(plan, a, results);
}

void PlannedExecution::skip(const ExpandedPlan& plan, const PlannedAction& a) {
    for (std::size_t t : touched(a))
        if (--uses_[t] == 0) poison(plan.tensors[t]);
}

void PlannedExecution::finish(const ExpandedPlan& plan, const PlannedAction& a, const std::vector<Tensor>& results) {
    const Op& op = *a.op;
    check(results.size() == a.writes.size(),
          fmt::format("{} gives {} tensors, {} expected", op.name, results.size(), a.writes.size()));
    // What was read for the last time is gone before the results are written; an op that writes over its operand
    // finds only its own result there.
    std::vector<std::size_t> unread;
    for (std::size_t t : touched(a)) {
        if (--uses_[t] > 0) continue;
        const bool result = std::any_of(a.writes.begin(), a.writes.end(),
                                        [t](const PlannedAccess& write) { return write.tensor == t; });
        result ? unread.push_back(t) : poison(plan.tensors[t]);
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
        note_nan(*a.function, op, results[r]);
        const PlannedAccess& write = a.writes[r];
        store(write.arena, write.offset, write.type, write.strides, results[r]);
    }
    for (std::size_t t : unread) poison(plan.tensors[t]);
}

void PlannedExecution::poison(const PlannedTensor& tensor) {
    if (!tensor.temporary || !tensor.place->strides.empty()) return;  // strided: its bytes are another's
    const PlannedAccess& at = *tensor.place;
    std::memset(bytes(at.arena, at.offset, at.bytes()), static_cast<int>(poison_of(at.type.dtype)),
                static_cast<std::size_t>(at.bytes()));
}

void PlannedExecution::note_nan(const Function& f, const Op& op, const Tensor& t) {
    if (!p_.first_nan_.empty()) return;
    for (double x : t.f)
        if (std::isnan(x)) {
            p_.first_nan_ = fmt::format("@{}, {}{}{}", f.name, op.name,
                                        op.name == "fused" ? " @" + op.attributes.string("kernel") : "",
                                        op.results.empty() ? "" : " %" + f.info(op.results[0]).name);
            return;
        }
}

}  // namespace thunderc
