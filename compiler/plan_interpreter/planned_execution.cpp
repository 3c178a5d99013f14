// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan_interpreter/planned_execution.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>
#include <span>
#include <utility>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/user_ops.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

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

// Calls `each` with a function that stores element k of a tensor at an address.
template <typename Each>
void for_storing(DType dtype, const Tensor& t, const Each& each) {
    switch (dtype) {
        case DType::f64: return each([&](std::byte* at, std::size_t k) { put(at, t.f[k]); });
        case DType::f32: return each([&](std::byte* at, std::size_t k) { put(at, static_cast<float>(t.f[k])); });
        case DType::i64: return each([&](std::byte* at, std::size_t k) { put(at, t.i[k]); });
        case DType::i32: return each([&](std::byte* at, std::size_t k) { put(at, static_cast<std::int32_t>(t.i[k])); });
        case DType::u8: return each([&](std::byte* at, std::size_t k) { put(at, static_cast<std::uint8_t>(t.i[k])); });
        case DType::boolean:
            return each([&](std::byte* at, std::size_t k) { put(at, static_cast<std::uint8_t>(t.i[k] != 0)); });
        case DType::f16:
        case DType::bf16: return each([&](std::byte* at, std::size_t k) { put(at, half_bits(dtype, t.f[k])); });
        case DType::e4m3:
        case DType::e5m2:
        case DType::e8m0: return each([&](std::byte* at, std::size_t k) { put(at, code_bits(dtype, t.f[k])); });
    }
    throw InternalError(fmt::format("no planned program holds {}", name_of(dtype)));
}

// The same the other way.
template <typename Each>
void for_loading(DType dtype, Tensor& t, const Each& each) {
    switch (dtype) {
        case DType::f64: return each([&](const std::byte* at, std::size_t k) { t.f[k] = take<double>(at); });
        case DType::f32: return each([&](const std::byte* at, std::size_t k) { t.f[k] = take<float>(at); });
        case DType::i64: return each([&](const std::byte* at, std::size_t k) { t.i[k] = take<std::int64_t>(at); });
        case DType::i32: return each([&](const std::byte* at, std::size_t k) { t.i[k] = take<std::int32_t>(at); });
        case DType::u8: return each([&](const std::byte* at, std::size_t k) { t.i[k] = take<std::uint8_t>(at); });
        case DType::boolean:
            return each([&](const std::byte* at, std::size_t k) { t.i[k] = take<std::uint8_t>(at) == 1 ? 1 : 0; });
        case DType::f16:
        case DType::bf16:
            return each(
                [&](const std::byte* at, std::size_t k) { t.f[k] = half_value(dtype, take<std::uint16_t>(at)); });
        case DType::e4m3:
        case DType::e5m2:
        case DType::e8m0:
            return each(
                [&](const std::byte* at, std::size_t k) { t.f[k] = code_value(dtype, take<std::uint8_t>(at)); });
    }
    throw InternalError(fmt::format("no planned program holds {}", name_of(dtype)));
}

// Bytes from the begin of a tensor's first element to the end of its last one, as it lies.
std::int64_t span_of(const Type& type, const Dims& strides) {
    if (strides.empty()) return static_cast<std::int64_t>(type.bytes());
    std::int64_t last = 0;
    for (std::size_t d = 0; d < strides.size(); ++d) last += (type.dims[d] - 1) * strides[d];
    return (last + 1) * static_cast<std::int64_t>(size_of(type.dtype));
}

// Calls `visit` with the address of each element, in row-major order.
template <typename Byte, typename Visit>
void for_each_element(Byte* base, const Type& type, const Dims& strides, const Visit& visit) {
    const std::size_t size = size_of(type.dtype);
    const auto n = static_cast<std::size_t>(type.elements());
    if (strides.empty()) {
        for (std::size_t k = 0; k < n; ++k) visit(base + k * size, k);
        return;
    }
    Dims index(type.dims.size(), 0);
    for (std::size_t k = 0; k < n; ++k) {
        std::int64_t at = 0;
        for (std::size_t d = 0; d < index.size(); ++d) at += index[d] * strides[d];
        visit(base + at * static_cast<std::int64_t>(size), k);
        for (std::size_t d = index.size(); d-- > 0;) {
            if (++index[d] < type.dims[d]) break;
            index[d] = 0;
        }
    }
}

std::vector<std::size_t> listed(const ExpandedPlan& plan) {
    std::vector<std::size_t> order(plan.actions.size());
    for (std::size_t k = 0; k < order.size(); ++k) order[k] = k;
    return order;
}

}  // namespace

ExecutablePlan::ExecutablePlan(const Module& module, const Function& f) : plan(expand_plan(module, f)) {
    uses.assign(plan.tensors.size(), 0);
    for (const PlannedAction& a : plan.actions) {
        std::vector<std::size_t>& here = touched.emplace_back();
        for (const auto& read : a.reads) {
            if (!read) continue;
            here.push_back(read->tensor);
            const std::vector<std::size_t>& parts = plan.tensors[read->tensor].parts;
            here.insert(here.end(), parts.begin(), parts.end());
        }
        for (const PlannedAccess& write : a.writes) here.push_back(write.tensor);
        std::sort(here.begin(), here.end());
        here.erase(std::unique(here.begin(), here.end()), here.end());
        for (std::size_t t : here) ++uses[t];
    }
}

// In the order of the list, or in one of the others that streams and events permit.
void PlannedExecution::run(const ExecutablePlan& plan, std::optional<std::uint64_t> seed) {
    begin(plan);
    for (std::size_t k : seed ? permuted(plan.plan, *seed) : listed(plan.plan)) step(k);
}

Tensor PlannedExecution::load(Arena arena, std::int64_t offset, const Type& type, const Dims& strides) {
    Tensor t(type.member());
    if (arena == Arena::scalars) {
        Tensor field(Type::tensor(step_scalar_dtype(offset), {}));
        load_elements(arena, offset, {}, field);
        t.set(0, field.at(0));
        return t;
    }
    load_elements(arena, offset, strides, t);
    return t;
}

void PlannedExecution::load_elements(Arena arena, std::int64_t offset, const Dims& strides, Tensor& t) {
    if (t.size() == 0) return;
    const std::byte* base = bytes(arena, offset, span_of(t.type, strides));
    for_loading(t.type.dtype, t, [&](const auto& one) { for_each_element(base, t.type, strides, one); });
}

void PlannedExecution::store(Arena arena, std::int64_t offset, const Type& type, const Dims& strides, const Tensor& t) {
    if (arena == Arena::scalars) {
        Tensor field(Type::tensor(step_scalar_dtype(offset), {}));
        field.set(0, t.at(0));
        store_elements(arena, offset, field.type, {}, field);
        return;
    }
    store_elements(arena, offset, type, strides, t);
}

void PlannedExecution::store_elements(Arena arena, std::int64_t offset, const Type& type, const Dims& strides,
                                      const Tensor& t) {
    if (type.elements() == 0) return;
    std::byte* base = bytes(arena, offset, span_of(type, strides));
    for_storing(type.dtype, t, [&](const auto& one) { for_each_element(base, type, strides, one); });
}

std::byte* PlannedExecution::bytes(Arena arena, std::int64_t offset, std::int64_t count) {
    auto found = p_.arenas_.find(arena);
    check(found != p_.arenas_.end(), [&] { return fmt::format("there is no arena {}", name_of(arena)); });
    check(offset >= 0 && offset + count <= static_cast<std::int64_t>(found->second.size()), [&] {
        return fmt::format("bytes {} to {} are outside the arena {}, which has {}", offset, offset + count,
                           name_of(arena), found->second.size());
    });
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

void PlannedExecution::begin(const ExecutablePlan& plan) {
    plan_ = &plan;
    uses_ = plan.uses;
}

std::vector<Tensor> PlannedExecution::operands(std::size_t k) {
    std::vector<Tensor> out;
    for (const auto& read : plan_->plan.actions[k].reads)
        out.push_back(read ? load(read->arena, read->offset, read->type, read->strides) : Tensor());
    return out;
}

void PlannedExecution::step(std::size_t k) {
    const PlannedAction& a = plan_->plan.actions[k];
    const Op& op = *a.op;
    if (a.reads.empty() && a.writes.empty()) return;  // a record, a wait
    std::vector<Tensor> results;
    if (is_copy(op) || is_family_op(op)) {
        results = operands(k);
    } else if (is_stack(op)) {
        const std::vector<Tensor> members = operands(k);
        std::vector<const Tensor*> parts;
        for (const Tensor& member : members) parts.push_back(&member);
        results = {stacked(parts)};
    } else if (is_kernel_call(op)) {
        const Function* kernel = module_.find(called_kernel(op));
        check(kernel != nullptr, "a kernel that is not there");
        const std::vector<Tensor> given = operands(k);
        // what a kernel stores in a narrow type it reads in that type
        const bool rounds = std::any_of(kernel->values.begin(), kernel->values.end(),
                                        [](const ValueInfo& info) { return is_narrow(info.type.dtype); });
        results = evaluate(module_, *kernel, std::span<const Tensor>(given), {.round_to_dtype = rounds, .observe = {}});
    } else {
        std::vector<Type> types;
        for (const PlannedAccess& write : a.writes) types.push_back(write.type);
        const OpDef& def = op_def(op.name);
        if (!def.reference && is_user_op(op.name)) refuse_to_evaluate(op.name);
        check(static_cast<bool>(def.reference), [&] { return op.name + " cannot be executed"; });
        results = def.reference(op, operands(k), types);
    }
    finish(k, results);
}

void PlannedExecution::skip(std::size_t k) {
    for (std::size_t t : plan_->touched[k])
        if (--uses_[t] == 0) poison(plan_->plan.tensors[t]);
}

void PlannedExecution::finish(std::size_t k, const std::vector<Tensor>& results) {
    const PlannedAction& a = plan_->plan.actions[k];
    const Op& op = *a.op;
    check(results.size() == a.writes.size(),
          [&] { return fmt::format("{} gives {} tensors, {} expected", op.name, results.size(), a.writes.size()); });
    const auto has_nan = [](const Tensor& t) {
        return std::any_of(t.f.begin(), t.f.end(), [](double x) { return std::isnan(x); });
    };
    if (p_.first_nan_.empty() && std::any_of(results.begin(), results.end(), has_nan)) {
        const std::vector<Tensor> given = operands(k);
        p_.nan_of_numbers_ = std::none_of(given.begin(), given.end(), has_nan);
    }
    // What was read for the last time is gone before the results are written; an op that writes over its operand
    // finds only its own result there.
    std::vector<std::size_t> unread;
    for (std::size_t t : plan_->touched[k]) {
        if (--uses_[t] > 0) continue;
        const bool result = std::any_of(a.writes.begin(), a.writes.end(),
                                        [t](const PlannedAccess& write) { return write.tensor == t; });
        result ? unread.push_back(t) : poison(plan_->plan.tensors[t]);
    }
    for (std::size_t r = 0; r < results.size(); ++r) {
        note_nan(*a.function, op, results[r]);
        const PlannedAccess& write = a.writes[r];
        store(write.arena, write.offset, write.type, write.strides, results[r]);
    }
    for (std::size_t t : unread) poison(plan_->plan.tensors[t]);
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
            p_.first_nan_ =
                fmt::format("@{}, {}{}{}", f.name, op.name, is_kernel_call(op) ? " @" + called_kernel(op) : "",
                            op.results.empty() ? "" : " %" + f.info(op.results[0]).name);
            return;
        }
}

}  // namespace thunderc
