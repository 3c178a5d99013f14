// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "compiler/ir/op_def.h"
#include "compiler/ops/user_ops.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {

#define THUNDERC_OPS(file) std::vector<OpDef> define_##file();
#include "compiler/ops/list.def"
#undef THUNDERC_OPS

namespace {

const std::map<std::string, OpDef, std::less<>>& registry() {
    static const std::map<std::string, OpDef, std::less<>> ops = [] {
        std::map<std::string, OpDef, std::less<>> all;
        auto add = [&all](std::vector<OpDef> defs) {
            for (OpDef& def : defs) {
                std::string name = def.name;
                check(all.emplace(name, std::move(def)).second, "two ops are called " + name);
            }
        };
#define THUNDERC_OPS(file) add(define_##file());
#include "compiler/ops/list.def"
#undef THUNDERC_OPS
        return all;
    }();
    return ops;
}

// Set before anything is compiled, and by tests.
std::map<std::string, OpDef, std::less<>>& user_ops() {
    static std::map<std::string, OpDef, std::less<>> ops;
    return ops;
}

}  // namespace

void set_user_ops(std::vector<OpDef> ops) {
    user_ops().clear();
    for (OpDef& def : ops) {
        check(is_user_op(def.name), def.name + " is no name of an op that users bring");
        std::string name = def.name;
        check(user_ops().emplace(name, std::move(def)).second, "two ops are called " + name);
    }
}

void refuse_to_evaluate(std::string_view user_op) {
    fail(fmt::format("{} cannot be evaluated: a function that a user brings is known to its program alone", user_op),
         "build and run the program; where a \"pattern\" says what the function computes, --executors reference has "
         "that "
         "in its place");
}

const OpDef* find_op(std::string_view name) {
    if (is_user_op(name)) {
        auto at = user_ops().find(name);
        return at == user_ops().end() ? nullptr : &at->second;
    }
    static const std::unordered_map<std::string_view, const OpDef*> by_name = [] {
        std::unordered_map<std::string_view, const OpDef*> all;
        for (const auto& [own, def] : registry()) all.emplace(own, &def);
        return all;
    }();
    const auto at = by_name.find(name);
    return at == by_name.end() ? nullptr : at->second;
}

const OpDef& op_def(std::string_view name) {
    const OpDef* def = find_op(name);
    check(def != nullptr, [&] { return fmt::format("there is no op {}", name); });
    return *def;
}

std::vector<const OpDef*> all_ops() {
    std::vector<const OpDef*> out;
    for (const auto& [name, def] : registry()) out.push_back(&def);
    return out;
}

const Type& InferInput::operand(std::size_t i) const {
    if (!has(i)) require(false, fmt::format("operand {} is missing", i));
    return *operands[i];
}

std::vector<std::pair<std::size_t, std::size_t>> in_place_of(const Op& op) {
    const OpDef& def = op_def(op.name);
    std::vector<std::pair<std::size_t, std::size_t>> out;
    auto add = [&](std::size_t r, std::size_t o) {
        if (r < op.results.size() && o < op.operands.size() && op.operands[o]) out.emplace_back(r, o);
    };
    for (const auto& [r, o] : def.in_place) add(r, o);
    for (std::size_t r = 0; def.in_place_from && r < op.results.size(); ++r) add(r, *def.in_place_from + r);
    return out;
}

bool may_write_over(const Op& op, std::size_t r, std::size_t o) {
    const OpDef& def = op_def(op.name);
    if (!def.optimizer) {
        if (def.in_place_from && o == *def.in_place_from + r) return true;
        return std::find(def.in_place.begin(), def.in_place.end(), std::pair(r, o)) != def.in_place.end();
    }
    const OptimizerGroups groups = def.optimizer(op.attributes);
    const std::size_t count = groups.tensors(op.operands.size());
    const std::size_t over = r < count ? r : r + count;  // gradients stand between parameters and states
    return over < groups.groups * count && o == over;
}

bool has_epilogue(const Op& op) {
    const OpDef& def = op_def(op.name);
    const auto there = [&](std::size_t k) { return k < op.operands.size() && op.operands[k]; };
    return def.epilogue && (there(def.epilogue->bias) || (def.addend && there(def.addend->operand)) ||
                            op.attributes.string("activation", "none") != "none");
}

void require(bool condition, std::string_view message) {
    if (!condition) throw ShapeError(std::string(message));
}

Tensor broadcast_tensor(const Tensor& t, const Dims& dims) {
    if (t.type.dims == dims) return t;
    Tensor out(Type::tensor(t.type.dtype, dims));
    const std::size_t extra = dims.size() - t.type.dims.size();
    Dims strides = dense_strides(t.type.dims);
    for (std::size_t d = 0; d < strides.size(); ++d)
        if (t.type.dims[d] == 1) strides[d] = 0;
    Dims index(dims.size(), 0);
    std::int64_t from = 0;
    for (std::int64_t k = 0; k < out.size(); ++k) {
        auto to = static_cast<std::size_t>(k);
        auto source = static_cast<std::size_t>(from);
        if (out.floating())
            out.f[to] = t.f[source];
        else
            out.i[to] = t.i[source];
        for (std::size_t d = dims.size(); d-- > 0;) {  // an odometer: the source offset follows the index
            std::int64_t step = d >= extra ? strides[d - extra] : 0;
            from += step;
            if (++index[d] < dims[d]) break;
            from -= step * dims[d];
            index[d] = 0;
        }
    }
    return out;
}

}  // namespace thunderc
