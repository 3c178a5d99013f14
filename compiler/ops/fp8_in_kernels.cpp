// SPDX-License-Identifier: Apache-2.0
// A tensor is quantised by the kernel that makes it: its codes and the largest |x| of each row are made element by
// element, as all else that kernels compute, and one call has what is left. quantise_in_kernels puts these ops in the
// place of fp8_quantise and fp8_requantise (fp8.cpp); no rule differentiates them.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/fp8_rules.h"

namespace thunderc {
namespace {

// Names of operands and where they stand: (scale, amax, maxima, q?) and (scale, q).
constexpr std::size_t finish_q = 3, transpose_q = 1;

float as_float(double x) {
    return static_cast<float>(x);
}

OpDef code() {
    OpDef def;
    def.name = "fp8_code";
    def.summary = "Numbers times a scale f32[], as codes of `dtype`, element by element.";
    def.formula = "q = e4m3(x * scale), what is too large as the largest number";
    def.source = "Transformer Engine's casts (docs/numerics.md)";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        Type x = tensor_operand(in, 0);
        require(is_float(x.dtype), fmt::format("x is {}", to_string(x)));
        require_scale(in, 1, "the scale");
        x.dtype = in.attributes.dtype("dtype");
        require(is_quantised(x.dtype), fmt::format("nothing is quantised to {}", name_of(x.dtype)));
        return std::vector<Type>{x};
    };
    // In f32, as programs: x * scale is rounded once, and once more to the code.
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> results) {
        Tensor out(results[0]);
        const float scale = as_float(operands[1].at(0));
        for (std::int64_t k = 0; k < out.size(); ++k)
            out.set(k, code_value(out.type.dtype, code_bits(out.type.dtype, as_float(operands[0].at(k)) * scale)));
        return std::vector<Tensor>{out};
    };
    def.elementwise =
        Elementwise{[](const double* x) { return x[0] * x[1]; }, "quantised<{t}>({0} * {1})", "{t}({0} * {1})", 4};
    def.not_differentiable = not_quantised_again;
    def.result_names = {"code"};
    const Attributes e4m3{{"dtype", DType::e4m3}}, e5m2{{"dtype", DType::e5m2}};
    def.samples = {{"e4m3", {f32({2, 3, 4}), f32_of({}, {2})}, e4m3},
                   {"e5m2", {f32({3, 5}), f32_of({}, {64})}, e5m2},
                   {"of bf16", {bf16({3, 5}), f32_of({}, {0.3})}, e4m3},
                   {"too large", {f32_of({5}, {1e9, -1e9, INFINITY, -INFINITY, 0}, false), f32_of({}, {1})}, e4m3}};
    def.errors = {{{f32_type({2})}, e4m3, "2 operands expected, 1 given"},
                  {{i64_type({2}), f32_type({})}, e4m3, "x is i64[2]"},
                  {{f32_type({2}), f32_type({1})}, e4m3, "the scale is f32[1], f32[] expected"},
                  {{f32_type({2}), f32_type({})}, {{"dtype", DType::bf16}}, "nothing is quantised to bf16"}};
    return def;
}

// Of what amaxes are made of: |x|, in f32.
OpDef magnitude() {
    OpDef def;
    def.name = "fp8_magnitude";
    def.summary = "|x| in f32, element by element; what is no number counts for nothing.";
    def.formula = "y = |x|, 0 where x is no number";
    def.source = "what Transformer Engine's casts take the largest of (docs/numerics.md)";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        Type x = tensor_operand(in, 0);
        require(is_float(x.dtype), fmt::format("x is {}", to_string(x)));
        x.dtype = DType::f32;
        return std::vector<Type>{x};
    };
    const Elementwise rule{[](const double* x) { return std::abs(x[0]) >= 0 ? std::abs(x[0]) : 0.0; },
                           "fp8_magnitude({0})", "abs({0})", 4};
    def.elementwise = rule;
    def.reference = [rule](const Op&, std::span<const Tensor> x, std::span<const Type> y) {
        return std::vector<Tensor>{apply_elementwise(rule, nullptr, x, y[0])};
    };
    def.not_differentiable = not_quantised_again;
    def.range = [](const RangeInput& in) {
        if (in.operand(0).nan || in.operand(0).beyond(exact_integer)) return ValueSet::any(in.dtype());
        return each_piece(in.operand(0), [](ValueSet::Piece p) {
            const double a = std::abs(p.low), b = std::abs(p.high);
            return ValueSet::Piece{p.low <= 0 && p.high >= 0 ? 0 : std::min(a, b), std::max(a, b)};
        });
    };
    def.result_names = {"magnitude"};
    def.samples = {{"f32", {f32({2, 3})}, {}},
                   {"bf16", {bf16({4})}, {}},
                   {"no numbers", {f32_of({4}, {NAN, -INFINITY, -0.0, 3}, false)}, {}}};
    def.errors = {{{f32_type({2}), f32_type({})}, {}, "1 operand expected, 2 given"},
                  {{i64_type({2})}, {}, "x is i64[2]"}};
    return def;
}

Tensor transposed(const Tensor& q, const Type& type) {
    Tensor out(type);
    const std::int64_t width = type.dims[0], rows = type.dims[1];
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t c = 0; c < width; ++c) out.set(c * rows + r, q.at(r * width + c));
    return out;
}

Type codes_operand(const InferInput& in, std::size_t index) {
    const Type& q = tensor_operand(in, index);
    require(is_quantised(q.dtype) && q.rank() >= 1, fmt::format("q is {}", to_string(q)));
    return q;
}

// The fields behind those of results; of codes that are transposed with their width.
void add_sizes(RuntimeCall& call, std::int64_t rows, std::int64_t width) {
    call.fields.push_back(operand_field("scale", 0));
    call.fields.push_back(literal_field("rows", rows));
    if (width > 0) call.fields.push_back(literal_field("width", width));
}

OpDef transpose() {
    OpDef def;
    def.name = "fp8_transpose";
    def.summary =
        "Codes (..., width) of a scale f32[]: 1 / scale, by which a product is to be multiplied, and the codes "
        "transposed (width, rows).";
    def.formula = "qᵀ";
    def.source = "Transformer Engine's casts (docs/numerics.md)";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        require_scale(in, 0, "the scale");
        return std::vector<Type>{scale_type, transposed(codes_operand(in, transpose_q))};
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> results) {
        return std::vector<Tensor>{Tensor::scalar(DType::f32, 1.F / as_float(operands[0].at(0))),
                                   transposed(operands[transpose_q], results[1])};
    };
    def.not_differentiable = not_quantised_again;
    def.call = [](const Op& op, const Function& f) {
        const Type& q = f.type(op.operands[transpose_q]);
        RuntimeCall call{"fp8_finish", {}, "the codes transposed"};
        call.fields.push_back(result_field("q_transposed", 1).shaped("width ..."));
        call.fields.push_back(result_field("inverse", 0));
        call.fields.push_back(operand_field("q", transpose_q).shaped("... width"));
        add_sizes(call, row_count(q.dims), last_dim(q.dims));
        return call;
    };
    def.result_names = {"inverse", "transposed"};
    def.samples = {{"e4m3", {f32_of({}, {2}), code_sample({2, 3, 4}, DType::e4m3)}, {}},
                   {"e5m2", {f32_of({}, {0.5}), code_sample({3, 5}, DType::e5m2)}, {}}};
    def.errors = {{{f32_type({}), f32_type({2, 2})}, {}, "q is f32[2,2]"},
                  {{f32_type({1}), Type::tensor(DType::e4m3, {2})}, {}, "the scale is f32[1], f32[] expected"}};
    return def;
}

OpDef finish() {
    OpDef def;
    def.name = "fp8_finish";
    def.summary =
        "What is left of quantising a tensor of which a kernel has made codes and f32 maxima, the largest |x| of each "
        "row: the amax f32[], which becomes the largest of them where that is larger, 1 / scale, and where codes are "
        "given these transposed (width, rows).";
    def.formula = "amax = max(amax, max of maxima); qᵀ";
    def.source = "Transformer Engine's casts (docs/numerics.md)";
    def.infer = [](const InferInput& in) {
        require_operands(in, finish_q, finish_q + 1);
        require_scale(in, 0, "the scale");
        require_scale(in, 1, "the amax");
        const Type& maxima = tensor_operand(in, 2);
        require(maxima.dtype == DType::f32, fmt::format("the maxima are {}", to_string(maxima)));
        std::vector<Type> out = {scale_type, scale_type};
        if (!in.has(finish_q)) return out;
        const Type q = codes_operand(in, finish_q);
        require(row_count(q.dims) == maxima.elements(),
                fmt::format("{} maxima of {}", maxima.elements(), to_string(q)));
        out.push_back(transposed(q));
        return out;
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> results) {
        float amax = as_float(operands[1].at(0));
        for (const double v : operands[2].f) amax = larger_amax(amax, v);
        std::vector<Tensor> out = {Tensor::scalar(DType::f32, amax),
                                   Tensor::scalar(DType::f32, 1.F / as_float(operands[0].at(0)))};
        if (results.size() > 2) out.push_back(transposed(operands[finish_q], results[2]));
        return out;
    };
    def.not_differentiable = not_quantised_again;
    def.call = [](const Op& op, const Function& f) {
        RuntimeCall call{"fp8_finish", {}, "amax = max |x|, for the scale of the next time"};
        const bool turns = op.results.size() > 2;
        if (turns) {
            call.fields.push_back(result_field("q_transposed", 2).shaped("width ..."));
            call.comment = "the codes transposed; " + call.comment;
        }
        call.fields.push_back(result_field("amax", 0));
        call.fields.push_back(result_field("inverse", 1));
        if (turns) call.fields.push_back(operand_field("q", finish_q).shaped("... width"));
        call.fields.push_back(operand_field("maxima", 2).shaped("..."));
        add_sizes(call, f.type(op.operands[2]).elements(), turns ? last_dim(f.type(op.operands[finish_q]).dims) : 0);
        return call;
    };
    def.in_place = {{0, 1}};
    def.result_names = {"amax", "inverse", "transposed"};
    def.samples = {{"no copy", {f32_of({}, {2}), f32_of({}, {0.25}), f32({2, 3})}, {}},
                   {"larger before", {f32_of({}, {2}), f32_of({}, {9}), f32({4})}, {}},
                   {"transposed", {f32_of({}, {2}), f32_of({}, {0}), f32({3}), code_sample({3, 5}, DType::e5m2)}, {}}};
    def.errors = {
        {{f32_type({}), f32_type({})}, {}, "3 to 4 operands expected, 2 given"},
        {{f32_type({}), f32_type({}), f32_type({3}), Type::tensor(DType::e4m3, {2, 2})}, {}, "3 maxima of e4m3[2,2]"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_fp8_in_kernels() {
    return {code(), magnitude(), transpose(), finish()};
}

}  // namespace thunderc
