// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <functional>
#include <random>

#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"
#include "compiler/passes/fusion/fuse.h"

namespace thunderc::testing {
namespace {

using Values = std::vector<Value>;
using Body = std::function<Values(Builder&, const Values&)>;

Tensor random_tensor(const Type& type, std::uint64_t seed, double low = -1.5, double high = 1.5) {
    std::mt19937_64 engine(seed);
    std::uniform_real_distribution<double> uniform(low, high);
    Tensor t(type);
    for (std::int64_t k = 0; k < t.size(); ++k) {
        const double value = uniform(engine);
        t.set(k, type.dtype == DType::boolean ? (value > (low + high) / 2 ? 1 : 0)
                 : is_float(type.dtype)       ? static_cast<double>(static_cast<float>(value))
                                              : std::floor(value * 4));
    }
    return t;
}

KernelCase make_case(std::string name, const std::vector<std::pair<std::string, Type>>& arguments, const Body& body,
                     double tolerance = 2e-6) {
    KernelCase c;
    c.name = std::move(name);
    c.tolerance = tolerance;
    c.module.name = c.name;
    Function f;
    f.name = "main";
    Values values;
    for (std::size_t k = 0; k < arguments.size(); ++k) {
        values.push_back(f.add_argument(arguments[k].second, arguments[k].first));
        c.arguments.push_back(random_tensor(arguments[k].second, 1000 + k));
    }
    f.argument_info.clear();
    Builder b(f);
    f.results = body(b, values);
    c.module.functions.push_back(std::move(f));
    return c;
}

Type f32(Dims dims) {
    return Type::tensor(DType::f32, std::move(dims));
}

// ---- patterns -------------------------------------------------------------------------------------------------------

Value mean_last(Builder& b, Value x) {
    const Dims dims = b.type(x).dims;
    const std::int64_t axis = static_cast<std::int64_t>(dims.size()) - 1;
    return b.mul(b.reduce_sum(x, {axis}, true), 1.0 / static_cast<double>(dims.back()));
}

Value without_last(Builder& b, Value x) {
    Dims dims = b.type(x).dims;
    dims.pop_back();
    return b.reshape(x, dims);
}

Value with_one(Builder& b, Value x) {
    Dims dims = b.type(x).dims;
    dims.push_back(1);
    return b.reshape(x, dims);
}

Value over_rows(Builder& b, Value x) {
    return b.sum_to(x, {b.type(x).dims.back()});
}

Values rms_norm_forward(Builder& b, const Values& v) {
    Value rstd = b.op("rsqrt", {b.add(mean_last(b, b.mul(v[0], v[0])), 1e-5)});
    return {b.mul(b.mul(v[0], rstd), v[1]), without_last(b, rstd)};
}

Values rms_norm_backward(Builder& b, const Values& v) {  // dy, x, weight, rstd
    Value rstd = with_one(b, v[3]);
    Value xn = b.mul(v[1], rstd), g = b.mul(v[0], v[2]);
    Value dx = b.mul(rstd, b.sub(g, b.mul(xn, mean_last(b, b.mul(g, xn)))));
    return {dx, over_rows(b, b.mul(v[0], xn))};
}

Values layer_norm_forward(Builder& b, const Values& v) {  // x, weight, bias
    Value mean = mean_last(b, v[0]);
    Value centred = b.sub(v[0], mean);
    Value rstd = b.op("rsqrt", {b.add(mean_last(b, b.mul(centred, centred)), 1e-5)});
    return {b.add(b.mul(b.mul(centred, rstd), v[1]), v[2]), without_last(b, mean), without_last(b, rstd)};
}

Values layer_norm_backward(Builder& b, const Values& v) {  // dy, x, weight, mean, rstd
    Value rstd = with_one(b, v[4]);
    Value xn = b.mul(b.sub(v[1], with_one(b, v[3])), rstd), g = b.mul(v[0], v[2]);
    Value dx = b.mul(rstd, b.sub(b.sub(g, mean_last(b, g)), b.mul(xn, mean_last(b, b.mul(g, xn)))));
    return {dx, over_rows(b, b.mul(v[0], xn)), over_rows(b, v[0])};
}

Values softmax(Builder& b, const Values& v) {
    const std::int64_t axis = b.type(v[0]).rank() - 1;
    Value most = b.op("reduce_max", {v[0]}, {{"axes", Dims{axis}}, {"keep_dims", true}});
    Value e = b.op("exp", {b.sub(v[0], most)});
    return {b.div(e, b.reduce_sum(e, {axis}, true))};
}

// gate and up side by side in one product
Values swiglu_forward(Builder& b, const Values& v) {
    const std::int64_t h = b.type(v[0]).dims.back() / 2;
    Value gate = b.slice(v[0], 1, 0, h), up = b.slice(v[0], 1, h, 2 * h);
    return {b.mul(b.mul(gate, b.op("sigmoid", {gate})), up)};
}

Values swiglu_backward(Builder& b, const Values& v) {  // gate_up, dy
    const std::int64_t h = b.type(v[1]).dims.back();
    Value gate = b.slice(v[0], 1, 0, h), up = b.slice(v[0], 1, h, 2 * h);
    Value s = b.op("sigmoid", {gate});
    Value silu = b.mul(gate, s);
    Value dgate = b.mul(b.mul(v[1], up), b.add(s, b.sub(silu, b.mul(silu, s))));
    return {b.op("concat", {dgate, b.mul(v[1], silu)}, {{"axis", std::int64_t{1}}})};
}

// x (B, T, NH, HS), tables (T, HS): x cos + (-x2, x1) sin
Value rotate(Builder& b, Value x, Value cos, Value sin) {
    const Dims dims = b.type(x).dims;
    const std::int64_t half = dims[3] / 2;
    Value turned =
        b.op("concat", {b.neg(b.slice(x, 3, half, 2 * half)), b.slice(x, 3, 0, half)}, {{"axis", std::int64_t{3}}});
    auto table = [&](Value t) { return b.reshape(t, {1, dims[1], 1, dims[3]}); };
    return b.add(b.mul(x, table(cos)), b.mul(turned, table(sin)));
}

Values gelu(Builder& b, const Values& v) {
    Value t = b.op("erf", {b.mul(v[0], 0.70710678118654752)});
    return {b.mul(b.mul(v[0], 0.5), b.add(t, 1.0))};
}

std::vector<KernelCase> pattern_cases() {
    std::vector<KernelCase> cases;
    // Widths below, at and past the 32 lanes of a row's sum, and rows below and past the 16 of a block of partial sums.
    for (const auto& [rows, width] :
         std::vector<std::pair<std::int64_t, std::int64_t>>{{1, 1}, {3, 17}, {65, 65}, {17, 64}, {130, 3}}) {
        const std::string size = fmt::format("{}_{}", rows, width);
        const Type x = f32({rows, width}), w = f32({width}), s = f32({rows});
        cases.push_back(make_case("rms_norm_forward_" + size, {{"x", x}, {"weight", w}}, rms_norm_forward));
        cases.push_back(make_case("rms_norm_backward_" + size, {{"dy", x}, {"x", x}, {"weight", w}, {"rstd", s}},
                                  rms_norm_backward));
        cases.push_back(
            make_case("layer_norm_forward_" + size, {{"x", x}, {"weight", w}, {"bias", w}}, layer_norm_forward));
        cases.push_back(make_case("layer_norm_backward_" + size,
                                  {{"dy", x}, {"x", x}, {"weight", w}, {"mean", s}, {"rstd", s}}, layer_norm_backward));
        cases.push_back(make_case("softmax_" + size, {{"x", x}}, softmax));
        cases.push_back(make_case("bias_sum_" + size, {{"dy", x}},
                                  [](Builder& b, const Values& v) { return Values{over_rows(b, v[0])}; }));
        cases.push_back(make_case("swiglu_forward_" + size, {{"gate_up", f32({rows, 2 * width})}}, swiglu_forward));
        cases.push_back(
            make_case("swiglu_backward_" + size, {{"gate_up", f32({rows, 2 * width})}, {"dy", x}}, swiglu_backward));
        cases.push_back(make_case("gelu_" + size, {{"x", x}}, gelu));
        cases.push_back(make_case("transpose_" + size, {{"x", x}}, [](Builder& b, const Values& v) {
            return Values{b.transpose(v[0], {1, 0})};
        }));
        cases.push_back(make_case("sum_" + size, {{"x", x}}, [](Builder& b, const Values& v) {
            return Values{b.reduce_sum(b.mul(v[0], v[0]), {0, 1})};
        }));
        cases.push_back(make_case("max_of_columns_" + size, {{"x", x}}, [](Builder& b, const Values& v) {
            return Values{b.op("reduce_max", {v[0]}, {{"axes", Dims{0}}, {"keep_dims", false}})};
        }));
    }
    // Rows past a warp of a GPU, and past what a block's registers hold.
    for (const std::int64_t width : {std::int64_t{1300}, std::int64_t{14000}}) {
        const Type x = f32({3, width}), w = f32({width}), s = f32({3});
        cases.push_back(make_case(fmt::format("rms_norm_backward_wide_{}", width),
                                  {{"dy", x}, {"x", x}, {"weight", w}, {"rstd", s}}, rms_norm_backward));
        cases.push_back(make_case(fmt::format("layer_norm_forward_wide_{}", width),
                                  {{"x", x}, {"weight", w}, {"bias", w}}, layer_norm_forward));
        cases.push_back(make_case(fmt::format("softmax_wide_{}", width), {{"x", x}}, softmax));
    }
    cases.push_back(
        make_case("rms_norm_three_dims", {{"x", f32({2, 9, 12})}, {"weight", f32({12})}}, rms_norm_forward));
    cases.push_back(make_case("rotary_heads", {{"x", f32({2, 5, 18})}, {"cos", f32({5, 6})}, {"sin", f32({5, 6})}},
                              [](Builder& b, const Values& v) {
                                  Value heads = b.reshape(v[0], {2, 5, 3, 6});
                                  return Values{b.reshape(rotate(b, heads, v[1], v[2]), {2, 5, 18})};
                              }));
    // queries and keys of one merged product, other numbers of heads, and the order attention wants
    cases.push_back(make_case("rotary_merged", {{"qkv", f32({2, 7, 48})}, {"cos", f32({7, 8})}, {"sin", f32({7, 8})}},
                              [](Builder& b, const Values& v) {
                                  Value q = b.reshape(b.slice(v[0], 2, 0, 32), {2, 7, 4, 8});
                                  Value k = b.reshape(b.slice(v[0], 2, 32, 48), {2, 7, 2, 8});
                                  return Values{b.transpose(rotate(b, q, v[1], v[2]), {0, 2, 1, 3}),
                                                b.transpose(rotate(b, k, v[1], v[2]), {0, 2, 1, 3})};
                              }));
    cases.push_back(make_case("heads_apart", {{"x", f32({2, 40, 3, 65})}}, [](Builder& b, const Values& v) {
        return Values{b.transpose(v[0], {0, 2, 3, 1})};
    }));
    cases.push_back(make_case("pad_and_cut", {{"x", f32({3, 10})}}, [](Builder& b, const Values& v) {
        Value padded = b.op("pad", {v[0]}, {{"low", Dims{0, 2}}, {"high", Dims{1, 0}}, {"value", -100.0}});
        return Values{b.mul(padded, 2.0), b.op("exp", {b.slice(v[0], 1, 1, 10, 3)})};
    }));
    // On GPUs, cut into rows of 1000, of 661, which has no vectors, and not at all. Of terms of one sign: nothing
    // cancels.
    for (const std::int64_t n : {40000, 33050, 33025}) {
        cases.push_back(make_case(
            "long_sum_" + std::to_string(n), {{"x", f32({n})}, {"scale", f32({})}},
            [](Builder& b, const Values& v) { return Values{b.mul(b.reduce_sum(b.mul(v[0], v[0]), {0}), v[1])}; }));
    }
    cases.push_back(make_case("middle_sum", {{"x", f32({3, 20, 5})}}, [](Builder& b, const Values& v) {
        return Values{b.op("exp", {b.reduce_sum(v[0], {1})})};
    }));
    cases.push_back(make_case("outer_and_inner_sum", {{"x", f32({6, 20, 7})}}, [](Builder& b, const Values& v) {
        return Values{b.reduce_sum(v[0], {0, 2})};
    }));
    cases.push_back(make_case("groups_sum", {{"x", f32({3, 2, 4, 5})}}, [](Builder& b, const Values& v) {
        return Values{b.mul(b.reduce_sum(v[0], {1}), 0.5),
                      b.op("reduce_max", {v[0]}, {{"axes", Dims{2}}, {"keep_dims", true}})};
    }));
    cases.push_back(make_case("causal_scores", {{"scores", f32({2, 9, 9})}}, [](Builder& b, const Values& v) {
        const Type index = Type::tensor(DType::i64, {9, 9});
        ConstPtr later =
            ConstExpr::elementwise(Type::tensor(DType::boolean, {9, 9}), "gt",
                                   {ConstExpr::affine(index, 0, {0, 1}), ConstExpr::affine(index, 0, {1, 0})});
        Value mask = b.constant(
            ConstExpr::select(later, ConstExpr::splat(f32({9, 9}), -INFINITY), ConstExpr::splat(f32({9, 9}), 0)));
        return softmax(b, {b.add(v[0], mask)});
    }));
    // a gradient that is added to what was there, unless it is the first
    cases.push_back(make_case("accumulate_bias",
                              {{"dy", f32({50, 6})}, {"before", f32({6})}, {"first", Type::tensor(DType::boolean, {})}},
                              [](Builder& b, const Values& v) {
                                  Value sum = over_rows(b, v[0]);
                                  return Values{b.op("select", {v[2], sum, b.add(v[1], sum)})};
                              }));
    // the gradient of a table of which the first half was read: both halves are boxes of one loop
    cases.push_back(
        make_case("accumulate_half",
                  {{"dy", f32({3, 8, 5})}, {"before", f32({16, 5})}, {"first", Type::tensor(DType::boolean, {})}},
                  [](Builder& b, const Values& v) {
                      Value sum = b.reduce_sum(v[0], {0});
                      Value padded = b.op("pad", {sum}, {{"low", Dims{0, 0}}, {"high", Dims{8, 0}}, {"value", 0.0}});
                      return Values{b.op("select", {v[2], padded, b.add(v[1], padded)})};
                  }));
    // halves that change places
    cases.push_back(make_case("swapped_halves", {{"x", f32({6, 10})}}, [](Builder& b, const Values& v) {
        Value swapped = b.op("concat", {b.slice(v[0], 1, 5, 10), b.slice(v[0], 1, 0, 5)}, {{"axis", std::int64_t{1}}});
        return Values{b.op("exp", {swapped})};
    }));
    // a loss: a masked sum and its weight, in one kernel
    cases.push_back(make_case(
        "masked_loss", {{"x", f32({300, 70})}, {"y", f32({300, 70})}, {"labels", Type::tensor(DType::i64, {300})}},
        [](Builder& b, const Values& v) {
            Value error = b.sub(v[0], v[1]);
            Value row = b.reduce_sum(b.mul(error, error), {1});
            Value valid = b.op("ge", {v[2], b.scalar(DType::i64, 0)});
            Value loss = b.reduce_sum(b.op("select", {valid, row, b.scalar(DType::f32, 0)}), {0});
            return Values{b.mul(loss, 0.5), b.reduce_sum(b.cast(valid, DType::f32), {0}), row};
        }));
    cases.push_back(
        make_case("integer_sum", {{"labels", Type::tensor(DType::i64, {5, 40})}}, [](Builder& b, const Values& v) {
            return Values{b.reduce_sum(v[0], {0, 1}), b.reduce_sum(v[0], {0})};
        }));
    // Sums of something repeated, over and beside the dimensions in which it is.
    cases.push_back(make_case("sum_of_repeated", {{"x", f32({1, 17, 1})}, {"y", f32({64})}, {"c", f32({})}},
                              [](Builder& b, const Values& v) {
                                  Value wide = b.op("broadcast_to", {v[0]}, {{"dims", Dims{1, 17, 64}}});
                                  Value sum = b.reduce_sum(wide, {0, 1});
                                  return Values{b.add(b.mul(v[2], v[1]), sum), b.reduce_sum(wide, {0, 1, 2})};
                              }));
    // Some of what is joined is in no window, and a name of a function is a tensor's too.
    cases.push_back(make_case("window", {{"abs", f32({6, 40})}, {"exp", f32({6, 40})}, {"math", f32({6, 40})}},
                              [](Builder& b, const Values& v) {
                                  Value e = b.op("exp", {v[1]});
                                  Value all = b.op("concat", {b.op("abs", {v[0]}), e, v[2]}, {{"axis", 1}});
                                  return Values{b.slice(all, 1, 13, 70), b.slice(all, 1, 3, 5)};
                              }));
    // Literals are ints, whatever the tensor holds; integers that no double holds are read from a table.
    cases.push_back(
        make_case("integer_constants", {{"ids", Type::tensor(DType::i64, {4, 7})}}, [](Builder& b, const Values& v) {
            Value two = b.scalar(DType::i64, 2), least = b.scalar(DType::i64, -0x1p63);
            Tensor large = Tensor::ints({9007199254740993});
            large.type.dims = {};
            Value sum = b.add(v[0], b.constant(ConstExpr::dense(large)));
            Value limited = b.op("max", {b.op("min", {v[0], two}), least});
            return Values{sum, b.add(limited, b.op("pow", {b.div(v[0], two), two}))};
        }));
    // Integers wrap around, which sums of signed ones in C++ must not: a hash of indices, and both ends of each range.
    for (DType dtype : {DType::i64, DType::i32}) {
        const Type type = Type::tensor(dtype, {4, 7});
        cases.push_back(
            make_case("wrapping_" + std::string(name_of(dtype)), {{"ids", type}}, [dtype](Builder& b, const Values& v) {
                auto number = [&](std::int64_t large, std::int64_t small) {
                    Tensor t(Type::tensor(dtype, {}));
                    t.i = {dtype == DType::i64 ? large : small};
                    return b.constant(ConstExpr::dense(std::move(t)));
                };
                const Value hash = number(-7046029254386353131, -1640531527);
                const Value most = number(INT64_MAX, INT32_MAX), least = number(INT64_MIN, INT32_MIN);
                const Value odd = b.mul(b.add(v[0], most), hash);
                return Values{odd, b.sub(b.sub(v[0], most), hash), b.neg(b.op("min", {v[0], least})),
                              b.op("abs", {b.op("min", {odd, least})}), b.op("pow", {odd, b.scalar(dtype, 5)})};
            }));
    }
    // Sums and products of the same, in every order that kernels have: along rows, down columns, of all, over two
    // dimensions with one between, running ones; the least and the greatest; remainders and quotients of what has none.
    for (DType dtype : {DType::i64, DType::i32}) {
        const Type type = Type::tensor(dtype, {5, 40, 9});
        cases.push_back(make_case(
            "wrapping_sums_" + std::string(name_of(dtype)), {{"ids", type}}, [dtype](Builder& b, const Values& v) {
                auto number = [&](std::int64_t large, std::int64_t small) {
                    Tensor t(Type::tensor(dtype, {}));
                    t.i = {dtype == DType::i64 ? large : small};
                    return b.constant(ConstExpr::dense(std::move(t)));
                };
                const Value far = b.add(v[0], number(INT64_MAX - 3, INT32_MAX - 3));
                const Value least = b.op("min", {far, number(INT64_MIN, INT32_MIN)});
                Values out;
                for (const Dims& axes : {Dims{0}, Dims{1}, Dims{2}, Dims{0, 2}, Dims{1, 2}, Dims{0, 1, 2}}) {
                    const Attributes over{{"axes", axes}, {"keep_dims", false}};
                    out.push_back(b.op("reduce_sum", {far}, over));
                    out.push_back(b.op("reduce_max", {far}, over));
                }
                const Value few = b.slice(least, 1, 0, 3);
                Op op;
                for (const char* name : {"reduce_min", "reduce_prod", "cumsum", "mod"}) {
                    op = {};
                    op.name = name;
                    op.operands = {far};
                    if (op.name == "cumsum") {
                        op.attributes = {{"axis", std::int64_t{1}}, {"exclusive", false}, {"reverse", true}};
                    } else if (op.name == "mod") {
                        op.operands.push_back(b.sub(v[0], v[0]));
                    } else {
                        op.attributes = {{"axes", Dims{1}}, {"keep_dims", true}};
                    }
                    out.push_back(op_def(name).decompose(b, op)[0]);
                }
                out.push_back(b.div(least, number(-1, -1)));
                out.push_back(b.div(few, b.sub(few, few)));
                out.push_back(b.op("abs", {least}));
                return out;
            }));
    }
    cases.push_back(make_case("far_casts", {{"x", f32({3, 50})}}, [](Builder& b, const Values& v) {
        const Value far = b.mul(v[0], 1e30), none = b.op("log", {v[0]});
        return Values{b.cast(far, DType::i64), b.cast(far, DType::i32), b.cast(none, DType::i64),
                      b.cast(b.div(v[0], b.sub(v[0], v[0])), DType::i32)};
    }));
    // A reshape that no index space makes affine stays outside of kernels; what it reads becomes memory.
    cases.push_back(
        make_case("uneven_reshape", {{"x", f32({4, 6})}, {"z", f32({3, 8})}}, [](Builder& b, const Values& v) {
            Value turned = b.reshape(b.transpose(v[0], {1, 0}), {8, 3});
            return Values{b.op("exp", {turned}), b.add(b.reshape(v[0], {3, 8}), v[1]), turned};
        }));
    // Of the same extents in rows and columns: which is meant follows from what is computed.
    cases.push_back(make_case("square_backward",
                              {{"dy", f32({20, 20})}, {"x", f32({20, 20})}, {"weight", f32({20})}, {"rstd", f32({20})}},
                              rms_norm_backward));
    cases.push_back(make_case("residual_norm", {{"x", f32({9, 40})}, {"attn", f32({9, 40})}, {"weight", f32({40})}},
                              [](Builder& b, const Values& v) {
                                  Value h = b.add(v[0], v[1]);
                                  Values out = rms_norm_forward(b, {h, v[2]});
                                  out.push_back(h);
                                  return out;
                              }));
    // Sums of columns and of all, finished by one kernel; each may lie over what it alone is added to.
    cases.push_back(make_case(
        "sums_over_operands", {{"x", f32({130, 17})}, {"columns", f32({17})}, {"all", f32({})}, {"both", f32({})}},
        [](Builder& b, const Values& v) {
            const Value square = b.mul(v[0], v[0]);
            const Value columns = b.reduce_sum(v[0], {0}), all = b.reduce_sum(square, {0, 1});
            return Values{b.add(v[2], b.mul(all, v[3])), b.add(v[1], b.mul(columns, v[3])), b.div(v[0], v[3])};
        }));
    // What no row has a part in, beside a sum over the rows that reads the same.
    cases.push_back(make_case("scalar_beside_a_sum",
                              {{"x", f32({130, 1})}, {"w", f32({1})}, {"before", f32({1})}, {"y", f32({130, 1})}},
                              [](Builder& b, const Values& v) {
                                  const Value c = b.op("cos", {v[1]}), larger = b.op("max", {v[0], v[3]});
                                  return Values{b.add(b.op("abs", {c}), b.reduce_sum(larger, {0})),
                                                b.add(v[2], b.mul(c, v[1])), b.op("eq", {v[0], larger})};
                              }));
    // Of what is joined a part is read, which is none of the sums.
    cases.push_back(
        make_case("beside_unread_sums", {{"x", f32({7, 8})}, {"y", f32({7, 1})}}, [](Builder& b, const Values& v) {
            const Value sum = b.reduce_sum(v[0], {1}, true);
            const Value joined = b.op("concat", {sum, b.neg(sum), v[1]}, {{"axis", std::int64_t{1}}});
            return Values{b.slice(joined, 1, 2, 3)};
        }));
    for (KernelCase& c : cases) c.strided = c.name.find("_65_65") == std::string::npos;
    return cases;
}

// ---- every sample of every op ---------------------------------------------------------------------------------------

// Appends the op, or what it decomposes into, until only primitives are left.
Values lower(Builder& b, const Op& op) {
    const OpDef& def = op_def(op.name);
    if (def.level == OpLevel::primitive || def.level == OpLevel::structural || !def.decompose)
        return b.clone(op, op.operands, b.function());
    Function trial = b.function();
    Builder inner(trial);
    const std::size_t before = trial.ops.size(), values = trial.values.size();
    const Values results = def.decompose(inner, op);
    std::map<Value, Value> moved;
    auto mapped = [&](Value v) { return v && v.index >= values ? moved.at(v) : v; };
    for (std::size_t k = before; k < trial.ops.size(); ++k) {
        Op one = trial.ops[k];
        for (Value& v : one.operands) v = mapped(v);
        const Values old = one.results;
        Values fresh;
        if (op_def(one.name).level == OpLevel::primitive || op_def(one.name).level == OpLevel::structural ||
            !op_def(one.name).decompose) {
            fresh = b.clone(one, one.operands, trial);
        } else {
            // Its result types are needed while it is decomposed: it stands in the function, and is dead when that is
            // done.
            Op copy = one;
            copy.results = b.clone(one, one.operands, trial);
            fresh = lower(b, copy);
            std::erase_if(b.function().ops, [&](const Op& o) { return o.results == copy.results; });
        }
        for (std::size_t r = 0; r < old.size(); ++r) moved[old[r]] = fresh[r];
    }
    Values out;
    for (Value v : results) out.push_back(mapped(v));
    return out;
}

std::string identifier_of(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](unsigned char c) { return !std::isalnum(c); }, '_');
    return text;
}

bool runs_on_cpu(const Type& type) {
    return type.is_tensor() && type.elements() > 0 && type.dtype != DType::f64 && !is_narrow(type.dtype);
}

std::optional<KernelCase> sample_case(const OpDef& def, const Sample& sample) {
    KernelCase c;
    c.name = identifier_of(def.name + "_sample_" + sample.name);
    c.module.name = c.name;
    c.fuse = def.level != OpLevel::primitive;
    // Ops are written for the f32 of training; some samples put infinities and cancellation in.
    c.tolerance = 1e-5;
    Function f;
    f.name = "main";
    Op op;
    op.name = def.name;
    op.attributes = sample.attributes;
    std::vector<std::optional<Type>> types;
    for (std::size_t k = 0; k < sample.operands.size(); ++k) {
        const SampleOperand& operand = sample.operands[k];
        if (operand.absent) {
            op.operands.push_back({});
            types.push_back(std::nullopt);
            continue;
        }
        if (!runs_on_cpu(operand.type)) return std::nullopt;
        op.operands.push_back(f.add_argument(operand.type, fmt::format("x{}", k)));
        types.push_back(operand.type);
        Tensor t = random_tensor(operand.type, 77 + k, operand.low, operand.high);
        for (std::size_t i = 0; i < operand.values.size(); ++i) {
            t.set(static_cast<std::int64_t>(i), is_float(operand.type.dtype)
                                                    ? static_cast<double>(static_cast<float>(operand.values[i]))
                                                    : operand.values[i]);
        }
        c.arguments.push_back(std::move(t));
    }
    f.argument_info.clear();
    for (const Type& type : def.infer({types, op.attributes})) {
        if (!runs_on_cpu(type)) return std::nullopt;
        op.results.push_back(f.add_value(type, "y"));
    }
    Builder b(f);
    f.results = lower(b, op);
    for (const Op& o : f.ops) {
        for (Value v : o.results) {
            if (!runs_on_cpu(f.type(v))) return std::nullopt;
        }
    }
    c.module.functions.push_back(std::move(f));
    return c;
}

}  // namespace

std::vector<KernelCase> kernel_cases() {
    std::vector<KernelCase> cases = pattern_cases();
    for (KernelCase& c : cast_cases()) cases.push_back(std::move(c));
    for (const OpDef* def : all_ops()) {
        // Numbers of eight bits are what calls give and take: no kernel is made of them.
        if (def->level == OpLevel::structural || def->name.starts_with("fp8_")) continue;
        for (const Sample& sample : def->samples) {
            if (auto c = sample_case(*def, sample)) cases.push_back(std::move(*c));
        }
    }
    return cases;
}

Dims padded_strides(const Dims& dims) {
    Dims padded = dims;
    if (dims.size() > 1) padded.back() += 5;
    return dense_strides(padded);
}

Module fused(const KernelCase& c) {
    Report report;
    return c.module.functions.size() > 1 ? c.module : fuse(c.module, {.fuse = c.fuse}, report);
}

}  // namespace thunderc::testing
