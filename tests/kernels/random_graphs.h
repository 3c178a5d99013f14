// SPDX-License-Identifier: Apache-2.0
// Graphs of random shape, of what becomes kernels: elementwise ops, reductions over any axes, broadcasts of every rank,
// views, and arguments that are read several times, under names that generated text may want for itself.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/module.h"

namespace thunderc::testing {

class RandomGraph {
  public:
    // `products`: linear layers among the values, which are no kernels.
    explicit RandomGraph(std::uint64_t seed, bool products = false) : random_(seed), builder_(f_) {
        f_.name = "main";
        dims_ = base();
        // What is read most, of all dimensions; then what is spread over some of them.
        argument(dims_, ArgInfo::Kind::input);
        if (below(2) == 0) argument(part_of(dims_), ArgInfo::Kind::input);
        for (int k = 0, count = 1 + below(4); k < count; ++k)
            argument(below(4) == 0 ? dims_ : part_of(dims_), ArgInfo::Kind::parameter);
        pool_ = arguments_;
        if (products && dims_.size() > 1)
            for (int k = 0, count = below(3); k < count; ++k) pool_.push_back(linear());
        for (int k = 0, count = 2 + below(8); k < count; ++k) pool_.push_back(step());
    }

    // A loss of the last values, with penalties on arguments themselves.
    Module loss() {
        Value sum;
        auto add = [&](Value v) { sum = sum ? builder_.add(sum, v) : v; };
        for (int k = 0, terms = 1 + below(3); k < terms; ++k) {
            const Value v = k == 0 ? pool_.back() : pick();
            add(whole_sum(below(3) == 0 ? unary("abs", v) : builder_.mul(v, v), below(2) == 0));
        }
        // No parameter is left out: what nothing reads is frozen, with a warning.
        for (std::size_t k = 0; k < arguments_.size(); ++k) {
            if (kinds_[k] != ArgInfo::Kind::parameter && below(3) != 0) continue;
            const Value p = arguments_[k];
            Value term = whole_sum(below(2) == 0 ? unary("abs", p) : builder_.mul(p, p), false);
            if (below(2) == 0) term = builder_.mul(term, whole_sum(arguments_[0], true));
            add(term);
        }
        f_.results = {sum};
        f_.result_names = {"loss"};
        return module();
    }

    // Some of the values, of whatever shapes.
    Module values() {
        f_.results = {pool_.back()};
        for (int k = 0, more = below(4); k < more; ++k) {
            const Value v = pick();
            const bool given = std::find(f_.results.begin(), f_.results.end(), v) != f_.results.end();
            const bool made = std::find(arguments_.begin(), arguments_.end(), v) == arguments_.end();
            if (made && !given) f_.results.push_back(v);
        }
        f_.argument_info.clear();
        return module();
    }

  private:
    int below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
    Value pick() {
        // Late ones more often, so that graphs get deep; arguments again and again.
        if (below(3) == 0) return arguments_[static_cast<std::size_t>(below(static_cast<int>(arguments_.size())))];
        const int count = static_cast<int>(pool_.size());
        return pool_[static_cast<std::size_t>(std::max(below(count), below(count)))];
    }

    Dims base() {
        // One element, less than a vector, a vector, a warp, and a bit more; blocks of a column's sum.
        static constexpr std::int64_t extents[] = {1, 1, 2, 3, 4, 5, 7, 8, 16, 17, 32, 33, 64, 130};
        for (;;) {
            Dims dims;
            for (int d = 0, rank = 1 + below(4); d < rank; ++d)
                dims.push_back(extents[below(static_cast<int>(std::size(extents)))]);
            if (element_count(dims) <= 4500) return dims;
        }
    }
    // Leading dimensions are left out, others are 1: it spreads over the whole.
    Dims part_of(const Dims& dims) {
        Dims part(dims.begin() + below(static_cast<int>(dims.size()) + 1), dims.end());
        for (std::int64_t& d : part)
            if (below(3) == 0) d = 1;
        return part;
    }

    void argument(Dims dims, ArgInfo::Kind kind) {
        static constexpr const char* names[] = {
            "x",       "weight", "bias",  "scale", "c",     "row",     "rows",     "width",   "sum",      "max",
            "i",       "n",      "begin", "end",   "first", "last",    "tile",     "partial", "block",    "line",
            "e",       "w",      "p",     "b",     "std",   "math",    "float",    "int",     "register", "errno",
            "NULL",    "exp",    "tanh",  "abs",   "i0",    "c0",      "c1",       "x_row",   "sum_2",    "stream",
            "timed",   "total",  "part",  "load",  "store", "lane",    "partials", "shared",  "chunk",    "bias_v",
            "x_value", "Vec",    "add",   "mul",   "Timed", "thunder", "offset",   "layout",  "Range",    "copy",
            "at",      "dloss",  "loss",  "grad",  "out",   "out_row"};
        std::string name = names[below(static_cast<int>(std::size(names)))];
        while (!taken_.insert(name).second) name += "_" + std::to_string(below(9));
        arguments_.push_back(f_.add_argument(Type::tensor(DType::f32, std::move(dims)), name));
        kinds_.push_back(kind);
        f_.argument_info.resize(f_.arguments.size());
        ArgInfo& info = f_.argument_info.back();
        info.kind = kind;
        info.names = {kind == ArgInfo::Kind::parameter ? "net." + name : name};
        info.trainable = kind == ArgInfo::Kind::parameter;
    }

    // As wide as what it reads; its bias is read elsewhere as well.
    Value linear() {
        const std::int64_t width = dims_.back();
        argument({width, width}, ArgInfo::Kind::parameter);
        const Value weight = arguments_.back();
        arguments_.pop_back();  // elementwise ops have no use for it
        kinds_.pop_back();
        std::vector<Value> operands = {arguments_[0], weight};
        if (below(3) != 0) {
            argument({width}, ArgInfo::Kind::parameter);
            operands.push_back(arguments_.back());
        }
        return bounded(builder_.op("linear", operands));
    }

    Value unary(std::string_view op, Value v) { return builder_.op(op, {v}); }
    Value bounded(Value v) { return below(2) == 0 ? unary("tanh", v) : v; }
    Dims some_axes(std::int64_t rank) {
        Dims axes;
        while (axes.empty())
            for (std::int64_t d = 0; d < rank; ++d)
                if (below(2) == 0) axes.push_back(d);
        return axes;
    }
    Value whole_sum(Value v, bool mean) {
        const Dims dims = builder_.type(v).dims;
        Dims all;
        for (std::size_t d = 0; d < dims.size(); ++d) all.push_back(static_cast<std::int64_t>(d));
        const Value sum = all.empty() ? v : builder_.reduce_sum(v, all);
        return mean ? builder_.mul(sum, 1.0 / static_cast<double>(element_count(dims))) : sum;
    }
    Value reduced(Value v) {
        const Dims dims = builder_.type(v).dims;
        if (dims.empty()) return unary("neg", v);
        const Dims axes = some_axes(static_cast<std::int64_t>(dims.size()));
        Dims kept = dims;
        std::int64_t count = 1;
        for (std::int64_t d : axes) count *= std::exchange(kept[static_cast<std::size_t>(d)], 1);
        const bool keep = below(2) == 0;
        const bool max = below(4) == 0;
        Value y = builder_.op(max ? "reduce_max" : "reduce_sum", {v}, {{"axes", axes}, {"keep_dims", keep}});
        y = builder_.reshape(y, kept);
        return max ? y : below(2) == 0 ? builder_.mul(y, 1.0 / static_cast<double>(count)) : bounded(y);
    }
    // Any value of v's shape.
    Value another(Value v) {
        const Dims dims = builder_.type(v).dims;
        std::vector<Value> fit = {v};
        for (Value v : pool_)
            if (builder_.type(v).dims == dims) fit.push_back(v);
        return fit[static_cast<std::size_t>(below(static_cast<int>(fit.size())))];
    }
    // The same elements elsewhere, of the same shape.
    Value moved(Value v) {
        const Dims dims = builder_.type(v).dims;
        const auto rank = static_cast<std::int64_t>(dims.size());
        if (rank == 0) return unary("neg", v);
        const std::int64_t axis = below(static_cast<int>(rank)), extent = dims[static_cast<std::size_t>(axis)];
        if (extent > 1 && below(2) == 0) {  // halves change places
            const std::int64_t at = 1 + below(static_cast<int>(extent) - 1);
            return builder_.op("concat", {builder_.slice(v, axis, at, extent), builder_.slice(v, axis, 0, at)},
                               {{"axis", axis}});
        }
        if (below(4) == 0) {  // a window into three of them side by side, of which it may miss one or two
            const std::int64_t at = below(static_cast<int>(2 * extent) + 1);
            const Value beside = builder_.op("concat", {v, unary("neg", v), another(v)}, {{"axis", axis}});
            return builder_.slice(beside, axis, at, at + extent);
        }
        if (rank > 1 && below(2) == 0) {  // something is done on the way across
            Dims order;
            for (std::int64_t d = 0; d < rank; ++d) order.push_back((d + 1) % rank);
            Dims back;
            for (std::int64_t d = 0; d < rank; ++d) back.push_back((d + rank - 1) % rank);
            return builder_.transpose(unary("sin", builder_.transpose(v, order)), back);
        }
        return builder_.reshape(unary("cos", builder_.reshape(v, {element_count(dims)})), dims);
    }

    Value step() {
        const Value v = pick();
        switch (below(12)) {
            case 0: return unary("tanh", v);
            case 1: {
                static constexpr const char* ops[] = {"sigmoid", "abs", "neg", "relu", "sin", "cos", "erf"};
                return unary(ops[below(static_cast<int>(std::size(ops)))], v);
            }
            case 2: return bounded(builder_.add(v, pick()));
            case 3: return builder_.sub(v, pick());
            case 4: return bounded(builder_.mul(v, pick()));
            case 5: return builder_.op(below(2) == 0 ? "max" : "min", {v, pick()});
            case 6: {
                static constexpr const char* ops[] = {"sqrt", "rsqrt", "log", "reciprocal"};
                return unary(ops[below(4)], builder_.add(builder_.mul(v, v), 1.5));
            }
            case 7: return builder_.div(v, builder_.add(unary("abs", pick()), 1.25));
            case 8: {  // by arguments alone: f32 and f64 agree which way
                const Value a = arguments_[static_cast<std::size_t>(below(static_cast<int>(arguments_.size())))];
                const Value over = builder_.op("gt", {a, builder_.scalar(DType::f32, 0.25)});
                return below(3) == 0 ? builder_.mul(builder_.cast(over, DType::f32), v)
                                     : builder_.op("select", {over, v, pick()});
            }
            case 9: return moved(v);
            default: return reduced(v);
        }
    }

    Module module() {
        Module m;
        m.name = "random";
        m.functions.push_back(f_);
        remove_dead_code(m.functions[0]);
        return m;
    }

    std::mt19937_64 random_;
    Function f_;
    Builder builder_;
    Dims dims_;
    std::set<std::string> taken_;
    std::vector<Value> arguments_, pool_;
    std::vector<ArgInfo::Kind> kinds_;  // of arguments_
};

}  // namespace thunderc::testing
