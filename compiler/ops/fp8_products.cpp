// SPDX-License-Identifier: Apache-2.0
// Products of codes (fp8.cpp), multiplied by what brings both factors back: one scale each, or one for each block. Each
// is one call of the runtime API.
#include <fmt/format.h>

#include "compiler/ops/composite.h"
#include "compiler/ops/fp8_rules.h"

namespace thunderc {
namespace {

const Type& require_codes(const InferInput& in, std::size_t index, const char* what) {
    const Type& type = in.operand(index);
    require(type.is_tensor() && is_quantised(type.dtype) && type.rank() >= 1,
            fmt::format("{} is {}, e4m3 or e5m2 expected", what, to_string(type)));
    return type;
}

// ---- products -------------------------------------------------------------------------------------------------------

// Of a factor, in `blocks_a` and `blocks_b`; "": it has one scale.
std::string blocks_of(const Attributes& attributes, bool b) {
    return attributes.string(b ? "blocks_b" : "blocks_a", "");
}

void require_scales(const InferInput& in, std::size_t factor) {
    const std::string blocks = blocks_of(in.attributes, factor == 1);
    const char* name = factor == 1 ? "b" : "a";
    if (blocks.empty())
        return require_scale(in, 2 + factor, factor == 1 ? "the inverse scale of b" : "the inverse scale of a");
    const Type expected = scales_of(in.operand(factor), blocks);
    require(in.operand(2 + factor) == expected, fmt::format("scales of {} are {}, {} expected", name,
                                                            to_string(in.operand(2 + factor)), to_string(expected)));
    require(in.operand(factor).dtype == DType::e4m3, fmt::format("{} is in blocks and no e4m3", name));
}

// Both factors, (…, k) and (n, k), and their scales. GPUs have no product of two e5m2.
std::pair<const Type*, const Type*> fp8_factors(const InferInput& in) {
    const Type& a = require_codes(in, 0, "a");
    const Type& b = require_codes(in, 1, "b");
    require(
        b.rank() == 2 && b.dims[1] == a.dims.back(),
        fmt::format("a is {}, b is {}: what is summed over is the last dimension of both", to_string(a), to_string(b)));
    require(a.dtype == DType::e4m3 || b.dtype == DType::e4m3, "both factors are e5m2");
    require_scales(in, 0);
    require_scales(in, 1);
    require(blocks_of(in.attributes, false).empty() == blocks_of(in.attributes, true).empty(),
            "one factor is in blocks and the other is not");
    return {&a, &b};
}

DType product_dtype(const InferInput& in) {
    const DType dtype = in.attributes.dtype("dtype");
    require(is_float(dtype), fmt::format("no product is {}", name_of(dtype)));
    return dtype;
}

// The sum over k of what the codes of a's row i and b's row j mean.
double sum_of_products(const Op& op, std::span<const Tensor> operands, std::int64_t i, std::int64_t j) {
    const Tensor &a = operands[0], &b = operands[1];
    const std::int64_t inner = last_dim(b.type.dims);
    double sum = 0;
    const std::string blocks_a = blocks_of(op.attributes, false), blocks_b = blocks_of(op.attributes, true);
    if (blocks_a.empty()) {
        for (std::int64_t k = 0; k < inner; ++k) sum += a.at(i * inner + k) * b.at(j * inner + k);
        return sum * (static_cast<float>(operands[2].at(0)) * static_cast<float>(operands[3].at(0)));
    }
    const BlockShape of_a = BlockShape::of(blocks_a), of_b = BlockShape::of(blocks_b);
    for (std::int64_t k = 0; k < inner; ++k)
        sum += a.at(i * inner + k) * operands[2].at(i / of_a.rows * of_a.along(inner) + k / of_a.columns) *
               b.at(j * inner + k) * operands[3].at(j / of_b.rows * of_b.along(inner) + k / of_b.columns);
    return sum;
}

// The factors and their scales; `sign`: = or +=.
RuntimeCall product_call(const Op& op, CallField result, const std::string& sign) {
    const std::string blocks = blocks_of(op.attributes, false);
    const bool in_blocks = !blocks.empty();
    RuntimeCall call{
        in_blocks ? "fp8_block_product" : "fp8_product",
        {std::move(result).shaped("... n"), operand_field("a", 0).shaped("... k"), operand_field("b", 1).shaped("n k"),
         operand_field(in_blocks ? "scales_a" : "inverse_a", 2),
         operand_field(in_blocks ? "scales_b" : "inverse_b", 3)},
        fmt::format("c {} a bᵀ{}", sign, in_blocks ? ", each block times its scale" : " * inverse_a * inverse_b")};
    if (in_blocks) {
        call.fields.push_back(literal_field("blocks_a", "Fp8Blocks::" + blocks));
        call.fields.push_back(literal_field("blocks_b", "Fp8Blocks::" + blocks_of(op.attributes, true)));
    }
    return call;
}

double fp8_flops(const Op& op, const Function& f) {
    const Type &a = f.type(op.operands[0]), &b = f.type(op.operands[1]);
    return 2.0 * static_cast<double>(a.elements()) * static_cast<double>(b.dims[0]);
}

// Powers of two, as scales of blocks are.
SampleOperand scale_sample(DType dtype, Dims dims) {
    SampleOperand out;
    out.type = Type::tensor(dtype, std::move(dims));
    out.differentiable = false;
    for (std::int64_t e = 0; e < out.type.elements(); ++e) out.values.push_back(e % 3 == 0 ? 0.5 : e % 3 == 1 ? 4 : 1);
    return out;
}

Attributes in_blocks(const char* a, const char* b) {
    return {{"dtype", DType::f32}, {"blocks_a", std::string(a)}, {"blocks_b", std::string(b)}};
}
Type code_type(Dims dims, DType dtype = DType::e4m3) {
    return Type::tensor(dtype, std::move(dims));
}

OpDef fp8_linear_def() {
    OpDef def;
    def.name = "fp8_linear";
    def.summary =
        "Codes a (..., k) times the transpose of codes b (n, k), times the inverse scales f32[] of both, or each block "
        "of them (`blocks_a`, `blocks_b`) times its scale; biases, side by side, and a residual on the way; of the "
        "element type `dtype`.";
    def.formula = "y = (a bᵀ) * (inverse_a * inverse_b) + bias + residual";
    def.source = "Transformer Engine's general_gemm, as cuBLASLt multiplies FP8";
    def.infer = [](const InferInput& in) {
        require(in.operands.size() >= fp8_residual, "two factors and their inverse scales expected");
        const auto [a, b] = fp8_factors(in);
        const Type y = Type::tensor(product_dtype(in), with_last(a->dims, b->dims[0]));
        if (in.has(fp8_residual))
            require(in.operand(fp8_residual) == y, fmt::format("the residual is {}, the product is {}",
                                                               to_string(in.operand(fp8_residual)), to_string(y)));
        std::int64_t biases = 0;
        for (std::size_t k = fp8_bias; k < in.operands.size(); ++k) biases += in.operand(k).elements();
        require(biases == 0 || biases == b->dims[0],
                fmt::format("there are {} biases, the product has {} columns", biases, b->dims[0]));
        return std::vector<Type>{y};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
        Tensor y(results[0]);
        const std::int64_t rows = row_count(y.type.dims), out = last_dim(y.type.dims);
        std::vector<double> bias;
        for (std::size_t k = fp8_bias; k < op.operands.size(); ++k)
            bias.insert(bias.end(), operands[k].f.begin(), operands[k].f.end());
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < out; ++j) {
                double sum = sum_of_products(op, operands, i, j);
                if (!bias.empty()) sum += bias[static_cast<std::size_t>(j)];
                if (has_operand(op, fp8_residual)) sum += operands[fp8_residual].at(i * out + j);
                y.set(i * out + j, sum);
            }
        return std::vector<Tensor>{y};
    };
    def.not_differentiable = not_quantised_again;
    def.call = [](const Op& op, const Function& f) {
        const Type& y = f.type(op.results[0]);
        RuntimeCall call = product_call(op, result_field("c", 0), "=");
        if (has_operand(op, fp8_bias)) {
            call.fields.push_back(operand_field("bias", fp8_bias).shaped("n"));
            call.comment += " + bias";
        }
        if (has_operand(op, fp8_residual)) {
            call.fields.push_back(operand_field("residual", fp8_residual).shaped("... n"));
            call.comment += " + residual";
        }
        call.fields.push_back(literal_field("m", row_count(y.dims)));
        call.fields.push_back(literal_field("n", last_dim(y.dims)));
        call.fields.push_back(literal_field("k", last_dim(f.type(op.operands[0]).dims)));
        return call;
    };
    def.flops = fp8_flops;
    def.recompute = Recompute::expensive;
    def.rows = {.kind = Rows::Kind::but_last, .operands = {0, fp8_residual}};
    def.in_place = {{0, fp8_residual}};
    def.addend = {.operand = fp8_residual};
    const Attributes f32_result{{"dtype", DType::f32}};
    def.samples = {
        {"plain", {code_sample({2, 3, 4}), code_sample({5, 4}), f32_of({}, {0.5}), f32_of({}, {2})}, f32_result},
        {"residual",
         {code_sample({3, 4}, DType::e5m2), code_sample({5, 4}), f32_of({}, {0.5}), f32_of({}, {3}), f32({3, 5})},
         f32_result},
        {"two biases",
         {code_sample({3, 4}), code_sample({5, 4}), f32_of({}, {1}), f32_of({}, {1}), absent(), f32({2}), f32({3})},
         f32_result},
        {"a weight in squares",
         {code_sample({2, 3, 130}), code_sample({150, 130}), scale_sample(DType::f32, {6, 2}),
          scale_sample(DType::f32, {2, 2})},
         in_blocks("rows_of_128", "squares_of_128")},
        {"both of MX",
         {code_sample({3, 40}), code_sample({5, 40}), scale_sample(DType::e8m0, {3, 2}),
          scale_sample(DType::e8m0, {5, 2}), f32({3, 5})},
         in_blocks("rows_of_32", "rows_of_32")},
    };
    def.errors = {
        {{f32_type({3, 4}), code_type({5, 4}), scale_type, scale_type},
         f32_result,
         "a is f32[3,4], e4m3 or e5m2 expected"},
        {{code_type({3, 4}, DType::e5m2), code_type({5, 4}, DType::e5m2), scale_type, scale_type},
         f32_result,
         "both factors are e5m2"},
        {{code_type({3, 4}), code_type({5, 3}), scale_type, scale_type},
         f32_result,
         "a is e4m3[3,4], b is e4m3[5,3]: what is summed over is the last dimension of both"},
        {{code_type({3, 40}), code_type({5, 40}), f32_type({3, 2}), f32_type({5, 1})},
         in_blocks("rows_of_128", "rows_of_128"),
         "scales of a are f32[3,2], f32[3,1] expected"},
        {{code_type({3, 40}), code_type({5, 40}), scale_type, f32_type({5, 1})},
         {{"dtype", DType::f32}, {"blocks_b", std::string("rows_of_128")}},
         "one factor is in blocks and the other is not"},
    };
    return def;
}

OpDef fp8_backward_weight_def() {
    OpDef def;
    def.name = "fp8_linear_backward_weight";
    def.summary =
        "The cotangents of weights, (out, in) each, of `outs` rows: transposed codes of dy (outs, rows) times the "
        "transpose of those of x (in, rows), times their scales as in fp8_linear; overwritten or added to; of the "
        "element "
        "type `dtype`.";
    def.formula = "dW = before + (a bᵀ) * (inverse_a * inverse_b); nothing is before where `first` holds";
    def.source = "Transformer Engine's general_gemm, as cuBLASLt multiplies FP8";
    def.infer = [](const InferInput& in) {
        require(in.operands.size() >= fp8_before, "two factors and their inverse scales expected");
        const auto [a, b] = fp8_factors(in);
        require(a->rank() == 2, fmt::format("a is {}", to_string(*a)));
        const Dims outs = in.attributes.has("outs") ? in.attributes.integers("outs") : Dims{a->dims[0]};
        std::vector<Type> results;
        std::int64_t sum = 0;
        for (const std::int64_t out : outs) {
            results.push_back(Type::tensor(product_dtype(in), {out, b->dims[0]}));
            sum += out;
        }
        require(sum == a->dims[0], fmt::format("a has {} rows, the weights have {}", a->dims[0], sum));
        const std::size_t before = in.operands.size() - fp8_before;
        require(before == 0 || before == results.size() || before == results.size() + 1,
                fmt::format("{} gradients and a flag at most are to be added to, {} operands given", results.size(),
                            before));
        for (std::size_t r = 0; before > 0 && r < results.size(); ++r)
            require(in.operand(fp8_before + r) == results[r],
                    fmt::format("the gradient before is {}, the product is {}", to_string(in.operand(fp8_before + r)),
                                to_string(results[r])));
        if (before > results.size())
            require(in.operand(fp8_before + results.size()) == bool_type({}), "first is to be bool[]");
        return results;
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
        const bool adds = operands.size() > fp8_before;
        const bool first = operands.size() > fp8_before + results.size() && operands.back().at(0) != 0;
        std::vector<Tensor> out;
        std::int64_t row = 0;
        for (std::size_t r = 0; r < results.size(); ++r) {
            Tensor& dw = out.emplace_back(results[r]);
            const std::int64_t in = last_dim(dw.type.dims);
            for (std::int64_t o = 0; o < dw.type.dims[0]; ++o, ++row)
                for (std::int64_t i = 0; i < in; ++i)
                    dw.set(o * in + i, sum_of_products(op, operands, row, i) +
                                           (adds && !first ? operands[fp8_before + r].at(o * in + i) : 0));
        }
        return out;
    };
    def.not_differentiable = not_quantised_again;
    def.call = [](const Op& op, const Function& f) {
        const Type &a = f.type(op.operands[0]), &b = f.type(op.operands[1]);
        const bool adds = op.operands.size() > fp8_before;
        RuntimeCall call = product_call(op, result_field("c", 0), adds ? "+=" : "=");
        call.comment += ", the gradient of weights";
        gradient_field(call, op, fp8_before, op.results.size());
        call.fields.push_back(literal_field("m", a.dims[0]));
        call.fields.push_back(literal_field("n", b.dims[0]));
        call.fields.push_back(literal_field("k", a.dims[1]));
        return call;
    };
    def.flops = fp8_flops;
    def.recompute = Recompute::expensive;
    def.result_names = {"dw"};
    def.rows = {.kind = Rows::Kind::first, .operands = {0, fp8_before}};
    def.in_place_from = fp8_before;
    def.addend = {.operand = fp8_before, .over_steps = true};
    const Attributes f32_result{{"dtype", DType::f32}};
    const std::vector<SampleOperand> product = {code_sample({5, 3}, DType::e5m2), code_sample({4, 3}),
                                                f32_of({}, {0.5}), f32_of({}, {4})};
    const auto with = [&product](std::vector<SampleOperand> more) {
        more.insert(more.begin(), product.begin(), product.end());
        return more;
    };
    def.samples = {
        {"plain", product, f32_result},
        {"two weights, added to",
         with({f32({2, 4}), f32({3, 4})}),
         {{"dtype", DType::f32}, {"outs", Dims{2, 3}}, {"adjacent_weights", true}}},
        {"added to, first micro-step", with({f32({5, 4}), bool_of({}, {1})}), f32_result},
        {"added to, later micro-step", with({f32({5, 4}), bool_of({}, {0})}), f32_result},
        {"in blocks",
         {code_sample({5, 40}), code_sample({4, 40}), scale_sample(DType::e8m0, {5, 2}),
          scale_sample(DType::e8m0, {4, 2})},
         in_blocks("rows_of_32", "rows_of_32")},
    };
    def.errors = {{{code_type({5, 3}), code_type({4, 3}), scale_type, scale_type},
                   {{"dtype", DType::f32}, {"outs", Dims{2, 2}}},
                   "a has 5 rows, the weights have 4"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_fp8_products() {
    return {fp8_linear_def(), fp8_backward_weight_def()};
}

}  // namespace thunderc
