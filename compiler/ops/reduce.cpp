// SPDX-License-Identifier: Apache-2.0
// Reductions along axes. `axes` are not empty in anything a frontend writes; empty axes reduce nothing. Reduced
// dimensions stay as 1 where `keep_dims`.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

Type reduced(const Type& x, const std::vector<bool>& meant, bool keep_dims) {
    Type y = Type::tensor(x.dtype, {});
    for (std::size_t d = 0; d < x.dims.size(); ++d)
        if (!meant[d])
            y.dims.push_back(x.dims[d]);
        else if (keep_dims)
            y.dims.push_back(1);
    return y;
}

std::vector<bool> reduced_axes(const Op& op, const Type& x) {
    return require_axes(op.attributes.integers("axes"), x);
}

// `y` with its reduced dimensions as 1, so that it broadcasts to x.
Value with_ones(Builder& b, Value y, const Type& x, const std::vector<bool>& meant) {
    return b.reshape(y, reduced(x, meant, true).dims);
}

std::int64_t reduced_count(const Type& x, const std::vector<bool>& meant) {
    std::int64_t count = 1;
    for (std::size_t d = 0; d < x.dims.size(); ++d)
        if (meant[d]) count *= x.dims[d];
    return count;
}

// y = combine(y, x) over the reduced dimensions, in row-major order of x.
template <typename Combine>
Tensor reduce(const Tensor& x, const std::vector<bool>& meant, const Type& result, double start,
              const Combine& combine) {
    Tensor out(result);
    for (std::int64_t k = 0; k < out.size(); ++k)
        if (out.floating())
            out.f[static_cast<std::size_t>(k)] = start;
        else
            out.i[static_cast<std::size_t>(k)] = std::isfinite(start) ? static_cast<std::int64_t>(start)
                                                 : start < 0          ? std::numeric_limits<std::int64_t>::min()
                                                                      : std::numeric_limits<std::int64_t>::max();
    Dims strides = dense_strides(reduced(x.type, meant, true).dims);
    for (std::size_t d = 0; d < strides.size(); ++d)
        if (meant[d]) strides[d] = 0;
    for_each_run<2>(x.type.dims, {dense_strides(x.type.dims), strides}, {},
                    [&](auto at, const auto& step, std::int64_t count) {
                        for (std::int64_t i = 0; i < count; ++i, at[0] += step[0], at[1] += step[1]) {
                            auto from = static_cast<std::size_t>(at[0]), to = static_cast<std::size_t>(at[1]);
                            if (out.floating())
                                out.f[to] = combine(out.f[to], x.f[from]);
                            else
                                out.i[to] = combine(out.i[to], x.i[from]);
                        }
                    });
    wrap_integers(out);
    return out;
}

Attributes over(Dims axes, bool keep_dims) {
    return {{"axes", std::move(axes)}, {"keep_dims", keep_dims}};
}

OpDef reduction(Reduction kind, std::string name, OpLevel level, std::string summary, std::string formula,
                std::string source) {
    OpDef def;
    def.name = std::move(name);
    def.level = level;
    def.summary = std::move(summary);
    def.formula = std::move(formula);
    def.source = std::move(source);
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = number_operand(in, 0);
        return std::vector<Type>{
            reduced(x, require_axes(in.attributes.integers("axes"), x), in.attributes.boolean("keep_dims"))};
    };
    def.reduction = kind;
    if (kind == Reduction::sum || kind == Reduction::product) def.autocast = Autocast::wide;
    def.precision = {.kind = Precision::Kind::island, .why = "a reduction of many terms", .stays = true};
    def.samples = {{"rows", {f32({3, 5})}, over({-1}, true)},
                   {"middle", {f32({2, 3, 4})}, over({1}, false)},
                   {"outer", {f32({3, 1, 2})}, over({0, 2}, true)},
                   {"all", {f32({2, 3})}, over({0, 1}, false)},
                   {"integers", {i64_of({2, 2}, {-1, 7, 9007199254740992, 1})}, over({1}, false)}};
    def.errors = {{{f32_type({2, 3})}, over({2}, false), "f32[2,3] has no axis 2"},
                  {{f32_type({2, 3})}, over({1, -1}, false), "axis -1 is named twice"},
                  {{bool_type({2, 3})}, over({1}, false), "operand 0 is to hold numbers, bool[2,3] given"}};
    return def;
}

// Of exactly so many numbers, or of one to so many.
ValueSet sum_of_up_to(const RangeInput& in, std::int64_t most, bool all) {
    const ValueSet& x = in.operand(0);
    if (x.pieces.empty() || !x.whole || x.beyond(exact_integer)) return ValueSet::any(in.dtype());
    const auto [low, high] = x.hull();
    const auto count = static_cast<double>(most);
    if (all) return rounded(ValueSet::between(low * count, high * count), in.dtype());
    return rounded(ValueSet::between(std::min(low, low * count), std::max(high, high * count)), in.dtype());
}

OpDef reduce_sum() {
    OpDef def = reduction(Reduction::sum, "reduce_sum", OpLevel::primitive, "Sum over `axes`.",
                          "y = Σ x; dx = dy, repeated", "ONNX ReduceSum");
    def.smooth = "linear";
    def.result_names = {"total"};
    def.linear_in = {0};
    def.range = [](const RangeInput& in) {
        return sum_of_up_to(in, in.types[0].elements() / in.type.elements(), true);
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{reduce(x[0], reduced_axes(op, x[0].type), y[0], 0,
                                          [](auto sum, auto value) { return wrapping_sum(sum, value); })};
    };
    def.vjp = [](const VjpInput& in) {
        const Type x = in.type(in.operand(0));
        return VjpResult{in.b.broadcast_to(with_ones(in.b, in.cotangent(), x, reduced_axes(in.op, x)), x.dims)};
    };
    return def;
}

// Not a number wins, as in torch.
template <typename T>
T larger(T a, T b) {
    return a < b || b != b ? b : a;
}

// dy at the first of the greatest elements.
VjpResult first_of_maxima(const VjpInput& in, const Type& x, const std::vector<bool>& meant) {
    Builder& b = in.b;
    const auto d = static_cast<std::size_t>(std::find(meant.begin(), meant.end(), true) - meant.begin());
    Dims line(x.dims.size(), 1);
    line[d] = x.dims[d];
    std::vector<double> step(line.size(), 0);
    step[d] = 1;
    Value index = b.constant(ConstExpr::affine(i64_type(line), 0, step), "index");
    Value first = b.op("argmax", {in.operand(0)}, {{"axis", static_cast<std::int64_t>(d)}, {"keep_dims", true}});
    Value dy = with_ones(b, in.cotangent(), x, meant);
    return {b.op("select", {b.op("eq", {index, first}), dy, b.scalar(x.dtype, 0)})};
}

OpDef reduce_max() {
    OpDef def = reduction(Reduction::maximum, "reduce_max", OpLevel::primitive, "Maximum over `axes`.",
                          "y = max x; dx = dy / n where x = y, of which there are n, else 0; with `first`, over one "
                          "axis: dx = dy at the first of them, else 0",
                          "ONNX ReduceMax; torch.amax's gradient at ties; with `first` that of torch.max(x, dim)");
    def.result_names = {"largest"};
    def.precision = {};  // one of the elements, in whichever type they are
    def.kinks = {"ties", "ties, first"};
    def.infer = [infer = def.infer](const InferInput& in) {
        std::vector<Type> types = infer(in);
        require(!in.attributes.boolean("first", false) || in.attributes.integers("axes").size() == 1,
                "the first maximum is that of one axis");
        return types;
    };
    def.samples.push_back({"first", {f32({3, 5})}, {{"axes", Dims{1}}, {"keep_dims", false}, {"first", true}}});
    def.errors.push_back({{f32_type({2, 3})},
                          {{"axes", Dims{0, 1}}, {"keep_dims", false}, {"first", true}},
                          "the first maximum is that of one axis"});
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{reduce(x[0], reduced_axes(op, x[0].type), y[0], -INFINITY,
                                          [](auto best, auto value) { return larger(best, value); })};
    };
    def.vjp = [](const VjpInput& in) {
        Builder& b = in.b;
        const Type x = in.type(in.operand(0));
        std::vector<bool> meant = reduced_axes(in.op, x);
        if (in.op.attributes.boolean("first", false)) return first_of_maxima(in, x, meant);
        // The maximum anew, of the elements that it is compared with: those of the backward pass may be computed again,
        // and with a rounding more or less none of them would be the maximum of the forward pass.
        const Value most = b.op("reduce_max", {in.operand(0)}, over(in.op.attributes.integers("axes"), true));
        Value at_most = b.op("eq", {in.operand(0), most});
        Value hits = b.cast(at_most, x.dtype);
        Value ties = b.op("reduce_sum", {hits}, over(in.op.attributes.integers("axes"), true));
        Value share = b.div(with_ones(b, in.cotangent(), x, meant), ties);
        return VjpResult{b.mul(hits, share)};
    };
    def.samples.push_back(
        {"infinite", {f32_of({2, 3}, {-INFINITY, -INFINITY, -INFINITY, 0, INFINITY, NAN}, false)}, over({1}, false)});
    def.samples.push_back(
        {"infinite_apart",
         {f32_of({2, 3, 2},
                 {-INFINITY, -INFINITY, 0, -INFINITY, -INFINITY, NAN, -INFINITY, -INFINITY, 1, 2, -INFINITY, 3},
                 false)},
         over({0, 2}, false)});
    return def;
}

OpDef reduce_min() {
    OpDef def = reduction(Reduction::minimum, "reduce_min", OpLevel::imported, "Minimum over `axes`.",
                          "y = min x; dx = dy / n where x = y, of which there are n, else 0; with `first`, over one "
                          "axis: dx = dy at the first of them, else 0",
                          "ONNX ReduceMin; torch.amin's gradient at ties; with `first` that of torch.min(x, dim)");
    def.samples.push_back({"first", {f32({3, 5})}, {{"axes", Dims{1}}, {"keep_dims", false}, {"first", true}}});
    def.samples.push_back({"least", {i64_of({2, 2}, {-0x1p63, 5, 7, -3})}, over({1}, false)});
    def.precision = {};
    def.kinks = {"ties", "ties, first"};
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{reduce(x[0], reduced_axes(op, x[0].type), y[0], INFINITY, [](auto best, auto value) {
            return value < best || value != value ? value : best;
        })};
    };
    def.decompose = [](Builder& b, const Op& op) {
        // Of integers -1 - x, as the least of them has no negative.
        auto turned = [&](Value v) {
            const DType dtype = b.type(v).dtype;
            return is_float(dtype) ? b.neg(v) : b.sub(b.scalar(dtype, -1), v);
        };
        return std::vector<Value>{turned(b.op("reduce_max", {turned(op.operands[0])}, op.attributes))};
    };
    return def;
}

OpDef reduce_mean() {
    OpDef def =
        reduction(Reduction::mean, "reduce_mean", OpLevel::imported, "Mean over `axes`, of floating point values.",
                  "y = Σ x / n; dx = dy / n, repeated", "ONNX ReduceMean");
    def.smooth = "linear";
    def.infer = [infer = def.infer](const InferInput& in) {
        require_operands(in, 1);
        float_operand(in, 0);
        return infer(in);
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        std::vector<bool> meant = reduced_axes(op, x[0].type);
        Tensor out = reduce(x[0], meant, y[0], 0, [](auto sum, auto value) { return wrapping_sum(sum, value); });
        for (double& value : out.f) value /= static_cast<double>(reduced_count(x[0].type, meant));
        return std::vector<Tensor>{std::move(out)};
    };
    def.linear_in = {0};
    def.decompose = [](Builder& b, const Op& op) {
        Value x = op.operands[0];
        double count = static_cast<double>(reduced_count(b.type(x), reduced_axes(op, b.type(x))));
        return std::vector<Value>{b.mul(b.op("reduce_sum", {x}, op.attributes), 1 / count)};
    };
    def.samples.pop_back();
    def.errors.back() = {{i64_type({2, 3})}, over({1}, false), "operand 0 is to be floating point, i64[2,3] given"};
    return def;
}

// Decomposed into products of halves: log2(n) of them, exact for every sign and for zeros, and differentiable.
OpDef reduce_prod() {
    OpDef def = reduction(Reduction::product, "reduce_prod", OpLevel::imported, "Product over `axes`.",
                          "y = Π x; dxᵢ = dy Π of the others", "ONNX ReduceProd");
    def.kinks = {"factors of 0"};  // poles of y / x, which is not how it is computed
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{reduce(x[0], reduced_axes(op, x[0].type), y[0], 1,
                                          [](auto product, auto value) { return wrapping_product(product, value); })};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value x = op.operands[0];
        const Type type = b.type(x);
        std::vector<bool> meant = reduced_axes(op, type);
        for (std::size_t d = 0; d < meant.size(); ++d) {
            auto axis = static_cast<std::int64_t>(d);
            if (meant[d] && type.dims[d] == 0) {
                Dims dims = b.type(x).dims;
                dims[d] = 1;
                x = b.splat(Type::tensor(type.dtype, dims), 1);
            }
            for (std::int64_t n = type.dims[d]; meant[d] && n > 1; n = (n + 1) / 2) {
                Value product = b.mul(b.slice(x, axis, 0, n / 2), b.slice(x, axis, n / 2, n / 2 * 2));
                x = n % 2 == 0 ? product : b.op("concat", {product, b.slice(x, axis, n - 1, n)}, {{"axis", axis}});
            }
        }
        return std::vector<Value>{b.reshape(x, reduced(type, meant, op.attributes.boolean("keep_dims")).dims)};
    };
    def.samples[4] = {"integers", {i64_of({2, 3}, {-3, 7, 1000003, 0, 5, 1})}, over({1}, false)};
    return def;
}

OpDef argmax() {
    OpDef def;
    def.name = "argmax";
    def.range = [](const RangeInput& in) {
        const Dims& dims = in.types[0].dims;
        return ValueSet::between(
            0, static_cast<double>(dims[require_axis(in.attributes.integer("axis"), in.types[0])] - 1));
    };
    def.range_of_types = true;
    def.level = OpLevel::imported;
    def.rows = {.kind = Rows::Kind::but_axis};
    def.summary =
        "Index of the first maximum along `axis`, as i64, what is not a number before all others; the dimension stays "
        "as 1 where `keep_dims`.";
    def.formula = "y = min { i : x[i] = max x }";
    def.source = "ONNX ArgMax (select_last_index = 0); numpy's argmax of what is not a number";
    def.not_differentiable = "its result is integer";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = number_operand(in, 0);
        std::vector<bool> meant = require_axes({in.attributes.integer("axis")}, x);
        require(x.dims[require_axis(in.attributes.integer("axis"), x)] > 0,
                fmt::format("{} has no maximum: its axis {} is empty", to_string(x), in.attributes.integer("axis")));
        return std::vector<Type>{i64_type(reduced(x, meant, in.attributes.boolean("keep_dims")).dims)};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        const Type& type = x[0].type;
        std::size_t axis = require_axis(op.attributes.integer("axis"), type);
        std::int64_t n = type.dims[axis], inner = dense_strides(type.dims)[axis];
        Tensor out(y[0]);
        for (std::int64_t k = 0; k < out.size(); ++k) {
            std::int64_t base = k / inner * inner * n + k % inner, best = 0;
            auto above = [](auto a, auto b) { return a > b || (a != a && b == b); };
            for (std::int64_t i = 1; i < n; ++i) {
                const auto at = static_cast<std::size_t>(base + i * inner),
                           now = static_cast<std::size_t>(base + best * inner);
                if (x[0].floating() ? above(x[0].f[at], x[0].f[now]) : above(x[0].i[at], x[0].i[now])) best = i;
            }
            out.i[static_cast<std::size_t>(k)] = best;
        }
        return std::vector<Tensor>{std::move(out)};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value x = op.operands[0];
        const Type type = b.type(x);
        auto axis = static_cast<std::int64_t>(require_axis(op.attributes.integer("axis"), type));
        Dims line(type.dims.size(), 1);
        line[static_cast<std::size_t>(axis)] = type.dims[static_cast<std::size_t>(axis)];
        // The least index is the greatest of the negated ones, for which every other element gets -n.
        std::vector<double> step(line.size(), 0);
        step[static_cast<std::size_t>(axis)] = -1;
        Value negated = b.constant(ConstExpr::affine(i64_type(line), 0, step), "negated_index");
        // Where one is not a number the maximum is none either, and equal to nothing.
        Value hit = b.op("eq", {x, b.op("reduce_max", {x}, over({axis}, true))});
        if (is_float(type.dtype)) hit = b.op("or", {hit, b.op("is_nan", {x})});
        Value far = b.scalar(DType::i64, -static_cast<double>(line[static_cast<std::size_t>(axis)]));
        Value found =
            b.op("reduce_max", {b.op("select", {hit, negated, far})}, over({axis}, op.attributes.boolean("keep_dims")));
        return std::vector<Value>{b.neg(found)};
    };
    auto along = [](std::int64_t axis, bool keep) { return Attributes{{"axis", axis}, {"keep_dims", keep}}; };
    def.samples = {
        {"rows", {f32({3, 5})}, along(-1, false)},
        {"columns", {f32({2, 3, 2})}, along(1, true)},
        {"ties", {f32_of({2, 3}, {1, 1, 0, -2, -1, -1}, false)}, along(1, false)},
        {"special",
         {f32_of({4, 3}, {1, NAN, 2, NAN, INFINITY, NAN, -INFINITY, -INFINITY, -INFINITY, 0, INFINITY, 1}, false)},
         along(1, false)},
        {"integers", {i64_of({2, 3}, {1, 7, 7, -3, -5, -2})}, along(1, true)},
        {"one", {f32({3, 1})}, along(1, false)}};
    def.errors = {{{f32_type({2, 3})}, along(2, false), "f32[2,3] has no axis 2"},
                  {{f32_type({2, 0})}, along(1, false), "f32[2,0] has no maximum: its axis 1 is empty"}};
    return def;
}

// Shifted copies of doubling distance are added: log2(n) additions, for every element type.
OpDef cumsum() {
    OpDef def;
    def.name = "cumsum";
    def.autocast = Autocast::wide;
    def.linear_in = {0};
    def.range = [](const RangeInput& in) {
        ValueSet out = sum_of_up_to(in, in.type.dims[require_axis(in.attributes.integer("axis"), in.type)], false);
        if (in.attributes.boolean("exclusive")) out.add(ValueSet::number(0));
        return out;
    };
    def.precision = {.kind = Precision::Kind::island, .why = "a sum of many terms", .stays = true};
    def.level = OpLevel::imported;
    def.rows = {.kind = Rows::Kind::but_axis};
    def.summary =
        "Running sum along `axis`; without the element itself where `exclusive`, from the end where `reverse`.";
    def.formula = "y[i] = Σ x[j], j <= i; dx = the same of dy from the other end";
    def.source = "ONNX CumSum";
    def.smooth = "linear";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = number_operand(in, 0);
        require_axis(in.attributes.integer("axis"), x);
        in.attributes.boolean("exclusive");
        in.attributes.boolean("reverse");
        return std::vector<Type>{x};
    };
    def.reference = [](const Op& op, std::span<const Tensor> x, std::span<const Type> y) {
        std::size_t axis = require_axis(op.attributes.integer("axis"), y[0]);
        bool exclusive = op.attributes.boolean("exclusive"), reverse = op.attributes.boolean("reverse");
        std::int64_t n = y[0].dims[axis], inner = dense_strides(y[0].dims)[axis];
        Tensor out(y[0]);
        auto scan = [&](const auto& from, auto& to) {
            for (std::int64_t line = 0; n > 0 && line < out.size() / n; ++line) {
                std::int64_t base = line / inner * inner * n + line % inner;
                std::remove_cvref_t<decltype(from[0])> sum = 0;
                for (std::int64_t k = 0; k < n; ++k) {
                    auto at = static_cast<std::size_t>(base + (reverse ? n - 1 - k : k) * inner);
                    if (exclusive) to[at] = sum;
                    sum = wrapping_sum(sum, from[at]);
                    if (!exclusive) to[at] = sum;
                }
            }
        };
        if (out.floating())
            scan(x[0].f, out.f);
        else
            scan(x[0].i, out.i);
        wrap_integers(out);
        return std::vector<Tensor>{std::move(out)};
    };
    def.vjp = [](const VjpInput& in) {
        Attributes attributes = in.op.attributes;
        attributes.set("reverse", !attributes.boolean("reverse"));
        return VjpResult{in.b.op("cumsum", {in.cotangent()}, attributes)};
    };
    def.decompose = [](Builder& b, const Op& op) {
        Value y = op.operands[0];
        const Type type = b.type(y);
        std::size_t d = require_axis(op.attributes.integer("axis"), type);
        auto axis = static_cast<std::int64_t>(d);
        bool reverse = op.attributes.boolean("reverse");
        std::int64_t n = type.dims[d];
        auto shifted = [&](Value v, std::int64_t by) {
            Dims before(type.dims.size(), 0), behind = before;
            (reverse ? behind : before)[d] = by;
            Value kept = reverse ? b.slice(v, axis, by, n) : b.slice(v, axis, 0, n - by);
            return b.op("pad", {kept}, {{"low", before}, {"high", behind}, {"value", 0.0}});
        };
        if (op.attributes.boolean("exclusive") && n > 0) y = shifted(y, 1);
        for (std::int64_t by = 1; by < n; by *= 2) y = b.add(y, shifted(y, by));
        return std::vector<Value>{y};
    };
    auto along = [](std::int64_t axis, bool exclusive, bool reverse) {
        return Attributes{{"axis", axis}, {"exclusive", exclusive}, {"reverse", reverse}};
    };
    def.samples = {{"plain", {f32({3, 7})}, along(-1, false, false)},
                   {"exclusive", {f32({5, 2})}, along(0, true, false)},
                   {"reverse", {f32({2, 3, 2})}, along(1, false, true)},
                   {"exclusive_reverse", {f32({6})}, along(0, true, true)},
                   {"integers", {i64_of({2, 3}, {1, 1, 0, 1, 1, 1})}, along(1, false, false)}};
    def.errors = {{{f32_type({2, 3})}, along(2, false, false), "f32[2,3] has no axis 2"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_reduce() {
    return {reduce_sum(), reduce_max(), reduce_min(), reduce_mean(), reduce_prod(), argmax(), cumsum()};
}

}  // namespace thunderc
