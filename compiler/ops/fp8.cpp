// SPDX-License-Identifier: Apache-2.0
// Products of eight bits: tensors are quantised by a scale, products read codes and are multiplied by both inverse
// scales, and scales follow from amaxes of before. quantise_products puts them in the place of linear layers behind
// lower_precision; no rule differentiates them. Each is one call of the runtime API.
#include "compiler/ops/fp8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "compiler/ops/composite.h"
#include "compiler/ops/rules.h"

namespace thunderc {

std::size_t fp8_first_of_x(const Op& quantise) {
    return quantise.name == "fp8_quantise" ? quantised_from : requantised_from;
}

namespace {

const std::string not_again = "what is quantised was differentiated before";
const Type scale_type = Type::tensor(DType::f32, {});

void require_scale(const InferInput& in, std::size_t index, const char* what) {
    require(in.operand(index) == scale_type,
            fmt::format("{} is {}, {} expected", what, to_string(in.operand(index)), to_string(scale_type)));
}

const Type& require_codes(const InferInput& in, std::size_t index, const char* what) {
    const Type& type = in.operand(index);
    require(type.is_tensor() && is_code(type.dtype) && type.rank() >= 1,
            fmt::format("{} is {}, e4m3 or e5m2 expected", what, to_string(type)));
    return type;
}

// ---- quantising -----------------------------------------------------------------------------------------------------

bool has_copy(const Attributes& attributes, const char* which) {
    const std::string copies = attributes.string("copies", "both");
    return copies == "both" || copies == which;
}

// Several x are matrices of one width, one above the other.
Type put_together(std::span<const std::optional<Type>> x) {
    Type out = *x[0];
    for (std::size_t k = 1; k < x.size(); ++k) {
        require(x[k].has_value() && out.rank() == 2 && x[k]->rank() == 2 && x[k]->dims[1] == out.dims[1] &&
                    x[k]->dtype == out.dtype,
                fmt::format("x {} is not to be put below {}", k, to_string(out)));
        out.dims[0] += x[k]->dims[0];
    }
    return out;
}

std::vector<Type> infer_copies(const InferInput& in, std::size_t from) {
    require(in.operands.size() > from, "there is nothing to quantise");
    require_scale(in, 0, "the scale");
    for (std::size_t k = from; k < in.operands.size(); ++k)
        require(in.operand(k).is_tensor() && is_float(in.operand(k).dtype) && in.operand(k).rank() >= 1,
                fmt::format("x is {}", to_string(in.operand(k))));
    Type x = put_together(in.operands.subspan(from));
    x.dtype = in.attributes.dtype("dtype");
    require(is_code(x.dtype), fmt::format("nothing is quantised to {}", name_of(x.dtype)));
    require(has_copy(in.attributes, "plain") || has_copy(in.attributes, "transposed"),
            fmt::format("there are no copies {}", in.attributes.string("copies", "both")));
    std::vector<Type> out = {scale_type};
    if (has_copy(in.attributes, "plain")) out.push_back(x);
    if (has_copy(in.attributes, "transposed"))
        out.push_back(Type::tensor(x.dtype, {last_dim(x.dims), row_count(x.dims)}));
    return out;
}

// In f32, as the runtime: x * scale is rounded once, and once more to the code.
std::vector<Tensor> copies_of(std::span<const Tensor> x, float scale, std::span<const Type> results,
                              const Attributes& attributes) {
    std::vector<Tensor> out(results.begin(), results.end());
    const std::int64_t width = last_dim(x[0].type.dims);
    std::int64_t rows = 0, all = 0;
    for (const Tensor& t : x) all += row_count(t.type.dims);
    for (const Tensor& t : x)
        for (std::int64_t r = 0; r < row_count(t.type.dims); ++r, ++rows)
            for (std::int64_t c = 0; c < width; ++c) {
                const float scaled = static_cast<float>(t.at(r * width + c)) * scale;
                const DType dtype = results[0].dtype;
                const double code = code_value(dtype, code_bits(dtype, scaled));
                std::size_t copy = 0;
                if (has_copy(attributes, "plain")) out[copy++].set(rows * width + c, code);
                if (has_copy(attributes, "transposed")) out[copy].set(c * all + rows, code);
            }
    return out;
}

// A NaN counts for nothing.
float larger_amax(float amax, double other) {
    return other > amax ? static_cast<float>(other) : amax;
}

Tensor inverse_of(float scale) {
    return Tensor::scalar(DType::f32, 1.F / scale);
}

RuntimeCall call_quantise(const Op& op, const Function& f) {
    const std::size_t from = fp8_first_of_x(op);
    const bool notes = from == quantised_from;
    std::size_t copy = notes ? 2 : 1;
    const DType dtype = op.attributes.dtype("dtype");
    const Type& x = f.type(op.operands[from]);
    std::int64_t rows = 0;
    for (std::size_t k = from; k < op.operands.size(); ++k) rows += row_count(f.type(op.operands[k]).dims);
    RuntimeCall call{"fp8_quantise", {}, fmt::format("q = {}(x * scale)", name_of(dtype))};
    if (has_copy(op.attributes, "plain")) call.fields.push_back(result_field("q", copy++).shaped("... width"));
    if (has_copy(op.attributes, "transposed")) {
        call.fields.push_back(result_field("q_transposed", copy).shaped("width ..."));
        call.comment += has_copy(op.attributes, "plain") ? ", and transposed" : ", transposed";
    }
    if (notes) {
        call.fields.push_back(result_field("amax", 0));
        call.comment += "; amax = max |x|, for the scale of the next time";
    } else {
        call.comment += "; by the scale that it had in the forward pass";
    }
    call.fields.push_back(result_field("inverse", notes ? 1 : 0));
    call.fields.push_back(operand_field("x", from, "ld_x", static_cast<std::size_t>(x.rank() - 1)).shaped("... width"));
    call.fields.push_back(operand_field("scale", 0));
    call.fields.push_back(literal_field("rows", rows));
    call.fields.push_back(literal_field("width", last_dim(x.dims)));
    return call;
}

OpDef requantise_def() {
    OpDef def;
    def.name = "fp8_requantise";
    def.summary =
        "x (..., width) times a scale f32[], rounded to e4m3 or e5m2, and the same transposed (width, rows); before "
        "them 1 / scale, by which a product is to be multiplied.";
    def.formula = "q = e4m3(x * scale), what is too large as the largest number";
    def.source = "Transformer Engine's casts (docs/numerics.md)";
    def.infer = [](const InferInput& in) { return infer_copies(in, requantised_from); };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
        const auto scale = static_cast<float>(operands[0].at(0));
        std::vector<Tensor> out =
            copies_of(operands.subspan(requantised_from), scale, results.subspan(1), op.attributes);
        out.insert(out.begin(), inverse_of(scale));
        return out;
    };
    def.not_differentiable = not_again;
    def.call = call_quantise;
    def.result_names = {"inverse", "q", "transposed"};
    const Attributes forward{{"dtype", DType::e4m3}}, backward{{"dtype", DType::e5m2}};
    def.samples = {{"both copies", {f32_of({}, {2}), f32({2, 3, 4})}, forward},
                   {"too large", {f32_of({}, {1000}), f32({3, 5})}, forward},
                   {"of bf16, transposed",
                    {f32_of({}, {64}), bf16({3, 5})},
                    {{"dtype", DType::e5m2}, {"copies", std::string("transposed")}}},
                   {"two weights", {f32_of({}, {8}), f32({2, 4}), f32({3, 4})}, backward}};
    def.errors = {{{f32_type({})}, forward, "there is nothing to quantise"},
                  {{f32_type({1}), f32_type({2, 2})}, forward, "the scale is f32[1], f32[] expected"},
                  {{f32_type({}), f32_type({2, 2})}, {{"dtype", DType::bf16}}, "nothing is quantised to bf16"}};
    return def;
}

OpDef quantise_def() {
    OpDef def = requantise_def();
    def.name = "fp8_quantise";
    def.summary =
        "As fp8_requantise; and before all else the amax f32[], which becomes the largest |x| where that is larger.";
    def.infer = [](const InferInput& in) {
        require(in.operands.size() > quantised_from, "there is nothing to quantise");
        require_scale(in, 1, "the amax");
        std::vector<Type> out = infer_copies(in, quantised_from);
        out.insert(out.begin(), scale_type);
        return out;
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
        const auto scale = static_cast<float>(operands[0].at(0));
        float amax = static_cast<float>(operands[1].at(0));
        for (const Tensor& x : operands.subspan(quantised_from))
            for (const double v : x.f) amax = larger_amax(amax, std::abs(v));
        std::vector<Tensor> out = copies_of(operands.subspan(quantised_from), scale, results.subspan(2), op.attributes);
        out.insert(out.begin(), inverse_of(scale));
        out.insert(out.begin(), Tensor::scalar(DType::f32, amax));
        return out;
    };
    def.in_place = {{0, 1}};
    def.result_names = {"amax", "inverse", "q", "transposed"};
    for (Sample& sample : def.samples) sample.operands.insert(sample.operands.begin() + 1, f32_of({}, {0.25}));
    def.errors = {{{f32_type({}), f32_type({})}, {{"dtype", DType::e4m3}}, "there is nothing to quantise"},
                  {{f32_type({}), f32_type({1}), f32_type({2, 2})},
                   {{"dtype", DType::e4m3}},
                   "the amax is f32[1], f32[] expected"}};
    return def;
}

// ---- products -------------------------------------------------------------------------------------------------------

// Both factors, (…, k) and (n, k), and their inverse scales. GPUs have no product of two e5m2.
std::pair<const Type*, const Type*> fp8_factors(const InferInput& in) {
    const Type& a = require_codes(in, 0, "a");
    const Type& b = require_codes(in, 1, "b");
    require(
        b.rank() == 2 && b.dims[1] == a.dims.back(),
        fmt::format("a is {}, b is {}: what is summed over is the last dimension of both", to_string(a), to_string(b)));
    require(a.dtype == DType::e4m3 || b.dtype == DType::e4m3, "both factors are e5m2");
    require_scale(in, 2, "the inverse scale of a");
    require_scale(in, 3, "the inverse scale of b");
    return {&a, &b};
}

DType product_dtype(const InferInput& in) {
    const DType dtype = in.attributes.dtype("dtype");
    require(is_float(dtype), fmt::format("no product is {}", name_of(dtype)));
    return dtype;
}

double inverse_of_both(std::span<const Tensor> operands) {
    return static_cast<float>(operands[2].at(0)) * static_cast<float>(operands[3].at(0));
}

// Sum over k of a and b, at row i and column j.
double sum_of_code_sample(const Tensor& a, const Tensor& b, std::int64_t i, std::int64_t j) {
    const std::int64_t inner = last_dim(b.type.dims);
    double sum = 0;
    for (std::int64_t k = 0; k < inner; ++k) sum += a.at(i * inner + k) * b.at(j * inner + k);
    return sum;
}

std::vector<CallField> factor_fields(CallField result) {
    return {std::move(result).shaped("... n"), operand_field("a", 0).shaped("... k"),
            operand_field("b", 1).shaped("n k"), operand_field("inverse_a", 2), operand_field("inverse_b", 3)};
}

double fp8_flops(const Op& op, const Function& f) {
    const Type &a = f.type(op.operands[0]), &b = f.type(op.operands[1]);
    return 2.0 * static_cast<double>(a.elements()) * static_cast<double>(b.dims[0]);
}

SampleOperand code_sample(Dims dims, DType dtype = DType::e4m3) {
    SampleOperand out;
    out.type = Type::tensor(dtype, std::move(dims));
    out.differentiable = false;
    std::int64_t k = 0;
    for (std::int64_t e = 0; e < out.type.elements(); ++e) {
        k = (k * 7 + 3) % 23;
        out.values.push_back(static_cast<double>(k - 11) / 8);  // numbers of both types
        out.values.back() = code_value(dtype, code_bits(dtype, out.values.back()));
    }
    return out;
}
Type code_type(Dims dims, DType dtype = DType::e4m3) {
    return Type::tensor(dtype, std::move(dims));
}

OpDef fp8_linear_def() {
    OpDef def;
    def.name = "fp8_linear";
    def.summary =
        "Codes a (..., k) times the transpose of codes b (n, k), times the inverse scales f32[] of both; biases, side "
        "by "
        "side, and a residual on the way; of the element type `dtype`.";
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
        const double inverse = inverse_of_both(operands);
        for (std::int64_t i = 0; i < rows; ++i)
            for (std::int64_t j = 0; j < out; ++j) {
                double sum = sum_of_code_sample(operands[0], operands[1], i, j) * inverse;
                if (!bias.empty()) sum += bias[static_cast<std::size_t>(j)];
                if (has_operand(op, fp8_residual)) sum += operands[fp8_residual].at(i * out + j);
                y.set(i * out + j, sum);
            }
        return std::vector<Tensor>{y};
    };
    def.not_differentiable = not_again;
    def.call = [](const Op& op, const Function& f) {
        const Type& y = f.type(op.results[0]);
        RuntimeCall call{"fp8_product", factor_fields(result_field("c", 0)), "c = a bᵀ * inverse_a * inverse_b"};
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
    };
    return def;
}

OpDef fp8_backward_weight_def() {
    OpDef def;
    def.name = "fp8_linear_backward_weight";
    def.summary =
        "The cotangents of weights, (out, in) each, of `outs` rows: transposed codes of dy (outs, rows) times the "
        "transpose of those of x (in, rows), times the inverse scales f32[] of both; overwritten or added to; of the "
        "element type `dtype`.";
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
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> results) {
        const bool adds = operands.size() > fp8_before;
        const bool first = operands.size() > fp8_before + results.size() && operands.back().at(0) != 0;
        const double inverse = inverse_of_both(operands);
        std::vector<Tensor> out;
        std::int64_t row = 0;
        for (std::size_t r = 0; r < results.size(); ++r) {
            Tensor& dw = out.emplace_back(results[r]);
            const std::int64_t in = last_dim(dw.type.dims);
            for (std::int64_t o = 0; o < dw.type.dims[0]; ++o, ++row)
                for (std::int64_t i = 0; i < in; ++i)
                    dw.set(o * in + i, sum_of_code_sample(operands[0], operands[1], row, i) * inverse +
                                           (adds && !first ? operands[fp8_before + r].at(o * in + i) : 0));
        }
        return out;
    };
    def.not_differentiable = not_again;
    def.call = [](const Op& op, const Function& f) {
        const Type &a = f.type(op.operands[0]), &b = f.type(op.operands[1]);
        const bool adds = op.operands.size() > fp8_before;
        RuntimeCall call{"fp8_product", factor_fields(result_field("c", 0)),
                         fmt::format("c {} a bᵀ * inverse_a * inverse_b, the gradient of weights", adds ? "+=" : "=")};
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
    };
    def.errors = {{{code_type({5, 3}), code_type({4, 3}), scale_type, scale_type},
                   {{"dtype", DType::f32}, {"outs", Dims{2, 2}}},
                   "a has 5 rows, the weights have 4"}};
    return def;
}

// ---- scales ---------------------------------------------------------------------------------------------------------

// The scale that takes an amax to `largest`; one that is no positive number says nothing, and the scale stays.
float delayed_scale(float amax, float before, float largest) {
    constexpr float most = std::numeric_limits<float>::max();
    return std::min(amax > 0 && amax <= most ? largest / amax : before, most);
}

// What lies behind one another from the first tensor on: plan puts it so.
CallField from_first(std::string name, std::size_t result) {
    CallField field;
    field.name = std::move(name);
    field.kind = CallField::Kind::from_result;
    field.index = result;
    return field;
}

// Of operands or of results, families counted by their members.
std::int64_t member_count(const Function& f, std::span<const Value> values) {
    std::int64_t out = 0;
    for (const Value v : values) out += f.type(v).is_family() ? f.type(v).count : 1;
    return out;
}

OpDef reduce_amaxes() {
    OpDef def;
    def.name = "fp8_reduce_amaxes";
    def.summary =
        "Amaxes, of which each becomes the largest that a rank has of it; on one rank they stay. None is below 0.";
    def.formula = "y = max(0, x of all ranks)";
    def.source = "Transformer Engine's reduce_and_update_fp8_tensors";
    def.infer = [](const InferInput& in) {
        std::vector<Type> out;
        for (std::size_t k = 0; k < in.operands.size(); ++k) {
            require(in.operand(k).dtype == DType::f32 && in.operand(k).rank() == 0,
                    fmt::format("amax {} is {}", k, to_string(in.operand(k))));
            out.push_back(in.operand(k));
        }
        require(!out.empty(), "there are no amaxes");
        return out;
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type>) {
        std::vector<Tensor> out(operands.begin(), operands.end());
        for (Tensor& amax : out) amax.set(0, larger_amax(0, amax.at(0)));
        return out;
    };
    def.not_differentiable = not_again;
    def.call = [](const Op& op, const Function& f) {
        CallField group = literal_field("group", std::string("Group::world"));
        return RuntimeCall{"all_reduce_max",
                           {from_first("buffer", 0), literal_field("elements", member_count(f, op.results)), group},
                           "the largest amax of all ranks, from which all have the same scales",
                           "comm/collectives.h",
                           "what ranks say to each other"};
    };
    def.in_place_from = 0;
    def.result_names = {"amax"};
    def.samples = {{"two", {f32_of({}, {0.5}), f32_of({}, {3})}, {}}};
    def.errors = {{{}, {}, "there are no amaxes"}, {{f32_type({2})}, {}, "amax 0 is f32[2]"}};
    return def;
}

OpDef update_scales() {
    OpDef def;
    def.name = "fp8_update_scales";
    def.summary =
        "Delayed scaling at the end of a micro-step: scales f32[], amaxes f32[] since the last update and histories "
        "f32[length] of as many tensors; the amaxes are 0 behind it.";
    def.formula = "history moves on by the amax; scale = largest / max of history, where that is a positive number";
    def.source = "Transformer Engine's DelayedScaling (docs/numerics.md)";
    def.infer = [](const InferInput& in) {
        const std::size_t n = in.operands.size() / 3;
        require(n > 0 && in.operands.size() == 3 * n, fmt::format("{} operands given: groups of scales, amaxes and "
                                                                  "histories expected",
                                                                  in.operands.size()));
        std::vector<Type> out;
        for (std::size_t k = 0; k < in.operands.size(); ++k) {
            const Type& type = in.operand(k);
            Type expected = in.operand(k % n);
            expected.dtype = DType::f32;
            expected.dims = k < 2 * n ? Dims{} : Dims{in.operand(2 * n).elements()};
            require(type == expected,
                    fmt::format("operand {} is {}, {} expected", k, to_string(type), to_string(expected)));
            out.push_back(type);
        }
        return out;
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type>) {
        std::vector<Tensor> out(operands.begin(), operands.end());  // families come as their members
        const std::size_t n = out.size() / 3;
        const auto largest = static_cast<float>(op.attributes.number("largest"));
        for (std::size_t t = 0; t < n; ++t) {
            Tensor& history = out[2 * n + t];
            const auto amax = static_cast<float>(out[n + t].at(0));
            float most = 0;
            if (amax != 0) {
                history.f.push_back(amax);
                history.f.erase(history.f.begin());
                for (const double v : history.f) most = larger_amax(most, v);
                history.f[0] = 0;
            }
            const float of = op.attributes.boolean("latest", false) ? amax : most;
            out[t].set(0, delayed_scale(of, static_cast<float>(out[t].at(0)), largest));
            out[n + t].set(0, 0);
        }
        return out;
    };
    def.not_differentiable = not_again;
    def.call = [](const Op& op, const Function& f) {
        const std::size_t n = op.results.size() / 3;
        const std::span<const Value> scales = std::span(op.results).first(n);
        RuntimeCall call{
            "fp8_update_scales",
            {from_first("scale", 0), from_first("history", 2 * n), from_first("amax", n)},
            op.attributes.string("of", "") + ": their scales for the next time, by the largest amaxes so far"};
        if (op.attributes.boolean("latest", false)) call.fields.push_back(literal_field("latest", std::string("true")));
        call.fields.push_back(literal_field("largest", float_literal(op.attributes.number("largest"))));
        call.fields.push_back(literal_field("tensors", member_count(f, scales)));
        call.fields.push_back(literal_field("length", f.type(op.results[2 * n]).elements()));
        return call;
    };
    def.in_place_from = 0;
    def.in_place_as_whole = true;  // a history moves by one place
    def.result_names = {"scale"};
    const Attributes e4m3{{"largest", 448.0}, {"of", std::string("inputs")}};
    def.samples = {{"one", {f32_of({}, {1}), f32_of({}, {2}), f32_of({4}, {0, 8, 0, 1})}, e4m3},
                   {"nothing was quantised", {f32_of({}, {3}), f32_of({}, {0}), f32_of({4}, {0, 8, 0, 1})}, e4m3},
                   {"the latest of two",
                    {f32_of({}, {1}), f32_of({}, {1}), f32_of({}, {2}), f32_of({}, {1e-38}), f32_of({2}, {0, 8}),
                     f32_of({2}, {0, 1})},
                    {{"largest", 57344.0}, {"latest", true}, {"of", std::string("gradients")}}}};
    def.errors = {
        {{f32_type({}), f32_type({})}, e4m3, "2 operands given: groups of scales, amaxes and histories expected"},
        {{f32_type({}), f32_type({2}), f32_type({4})}, e4m3, "operand 1 is f32[2], f32[] expected"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_fp8() {
    return {requantise_def(),          quantise_def(),  fp8_linear_def(),
            fp8_backward_weight_def(), reduce_amaxes(), update_scales()};
}

}  // namespace thunderc
