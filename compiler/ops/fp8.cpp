// SPDX-License-Identifier: Apache-2.0
// Tensors are quantised: by a scale that follows from amaxes of before, by one of their own, or by one for each block.
// quantise_products puts these ops before products that read codes (fp8_products.cpp), behind lower_precision; no rule
// differentiates them. Each is one call of the runtime API.
#include "compiler/ops/fp8.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "compiler/ops/composite.h"
#include "compiler/ops/fp8_once.h"
#include "compiler/ops/fp8_rules.h"

namespace thunderc {

namespace {

std::size_t first_of_x(const Op& quantise) {
    return quantise.name == "fp8_quantise"     ? quantised_from
           : quantise.name == "fp8_requantise" ? requantised_from
                                               : current_from;
}

}  // namespace

std::pair<std::size_t, std::size_t> fp8_range_of_x(const Op& quantise) {
    if (!is_once_a_step(quantise)) return {first_of_x(quantise), quantise.operands.size()};
    return {operand_of_once(quantise, first_of_x(each_time(quantise))), quantise.operands.size() - 1};
}

std::vector<std::vector<Tensor>> fp8_in_double(const Op& quantise, std::span<const std::vector<Tensor>> operands,
                                               std::span<const std::vector<Tensor>> results) {
    std::vector<double> x;
    std::int64_t width = 1;
    const auto [begin, end] = fp8_range_of_x(quantise);
    for (std::size_t k = begin; k < end; ++k) {
        const Tensor& part = operands[k].at(0);
        width = last_dim(part.type.dims);
        x.insert(x.end(), part.f.begin(), part.f.end());
    }
    const std::int64_t rows = static_cast<std::int64_t>(x.size()) / width;
    const std::string blocks = quantise.attributes.string("blocks", "");
    bool turned = quantise.attributes.string("copies", "both") == "transposed";  // else the codes as x lies come first
    std::vector<std::vector<Tensor>> out(results.begin(), results.end());
    const Tensor* inverse = nullptr;  // the result before the codes
    for (std::size_t r = 0; r < results.size(); ++r) {
        if (!is_quantised(results[r].at(0).type.dtype)) {
            inverse = &results[r].at(0);
            continue;
        }
        const std::int64_t columns = turned ? rows : width;
        for (std::int64_t i = 0; i < (turned ? width : rows); ++i)
            for (std::int64_t j = 0; j < columns; ++j) {
                std::int64_t scale = 0;
                if (!blocks.empty()) {
                    const BlockShape shape = BlockShape::of(blocks);
                    scale = i / shape.rows * shape.along(columns) + j / shape.columns;
                }
                const auto from = static_cast<std::size_t>(turned ? j * width + i : i * width + j);
                out[r].at(0).set(i * columns + j, x[from] / inverse->at(scale));
            }
        turned = true;
    }
    return out;
}

namespace {

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

// The codes that become of x.
Type infer_codes(const InferInput& in, std::size_t from) {
    require(in.operands.size() > from, "there is nothing to quantise");
    for (std::size_t k = from; k < in.operands.size(); ++k)
        require(in.operand(k).is_tensor() && is_float(in.operand(k).dtype) && in.operand(k).rank() >= 1,
                fmt::format("x is {}", to_string(in.operand(k))));
    Type x = put_together(in.operands.subspan(from));
    x.dtype = in.attributes.dtype("dtype");
    require(is_quantised(x.dtype), fmt::format("nothing is quantised to {}", name_of(x.dtype)));
    require(has_copy(in.attributes, "plain") || has_copy(in.attributes, "transposed"),
            fmt::format("there are no copies {}", in.attributes.string("copies", "both")));
    return x;
}

// 1 / scale, and the copies.
std::vector<Type> infer_copies(const InferInput& in, std::size_t from) {
    const Type codes = infer_codes(in, from);
    std::vector<Type> out = {scale_type};
    if (has_copy(in.attributes, "plain")) out.push_back(codes);
    if (has_copy(in.attributes, "transposed")) out.push_back(transposed(codes));
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

Tensor inverse_of(float scale) {
    return Tensor::scalar(DType::f32, 1.F / scale);
}

// x, by what it is quantised, and how large it is, of several put together.
void add_x(RuntimeCall& call, const Op& op, const Function& f, std::size_t from, const std::optional<CallField>& by) {
    const Type& x = f.type(op.operands[from]);
    std::int64_t rows = 0;
    for (std::size_t k = from; k < op.operands.size(); ++k) rows += row_count(f.type(op.operands[k]).dims);
    call.fields.push_back(operand_field("x", from, "ld_x", static_cast<std::size_t>(x.rank() - 1)).shaped("... width"));
    if (by) call.fields.push_back(*by);
    call.fields.push_back(literal_field("rows", rows));
    call.fields.push_back(literal_field("width", last_dim(x.dims)));
}

RuntimeCall call_quantise(const Op& op, const Function& f) {
    const std::size_t from = first_of_x(op);
    const bool notes = op.name == "fp8_quantise", own = op.name == "fp8_quantise_current";
    std::size_t copy = notes || own ? 2 : 1;
    const DType dtype = op.attributes.dtype("dtype");
    RuntimeCall call{"fp8_quantise", {}, fmt::format("q = {}(x * scale)", name_of(dtype))};
    if (has_copy(op.attributes, "plain")) call.fields.push_back(result_field("q", copy++).shaped("... width"));
    if (has_copy(op.attributes, "transposed")) {
        call.fields.push_back(result_field("q_transposed", copy).shaped("width ..."));
        call.comment += has_copy(op.attributes, "plain") ? ", and transposed" : ", transposed";
    }
    if (notes) {
        call.fields.push_back(result_field("amax", 0));
        call.comment += "; amax = max |x|, for the scale of the next time";
    } else if (own) {
        call.comment += fmt::format("; scale = {} / max |x|", row_of(dtype).largest);
    } else {
        call.comment += "; by the scale that it had in the forward pass";
    }
    call.fields.push_back(result_field("inverse", notes || own ? 1 : 0));
    if (own) call.fields.push_back(result_field("own_scale", 0));
    add_x(call, op, f, from, own ? std::nullopt : std::optional(operand_field("scale", 0)));
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
    def.infer = [](const InferInput& in) {
        require(in.operands.size() > requantised_from, "there is nothing to quantise");
        require_scale(in, 0, "the scale");
        return infer_copies(in, requantised_from);
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
        const auto scale = static_cast<float>(operands[0].at(0));
        std::vector<Tensor> out =
            copies_of(operands.subspan(requantised_from), scale, results.subspan(1), op.attributes);
        out.insert(out.begin(), inverse_of(scale));
        return out;
    };
    def.not_differentiable = not_quantised_again;
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
        require_scale(in, 0, "the scale");
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

// ---- by amaxes of their own
// ------------------------------------------------------------------------------------------

// What an amax is multiplied by to be the largest number; one that is no positive number says nothing, and is left.
float own_scale(float amax, double largest, double most) {
    constexpr double most_of_f32 = std::numeric_limits<float>::max();
    const float scale = amax > 0 && amax <= most_of_f32 ? static_cast<float>(largest) / amax : 1.F;
    return scale > most_of_f32 ? static_cast<float>(most) : scale;
}

OpDef quantise_current_def() {
    OpDef def = requantise_def();
    def.name = "fp8_quantise_current";
    def.summary =
        "x (..., width) times a scale of its own, its largest |x| becoming the largest number, rounded to e4m3 or "
        "e5m2, "
        "and the same transposed (width, rows); before them the scale and 1 / scale, f32[].";
    def.formula = "scale = largest / max |x|, 1 where that says nothing; q = e4m3(x * scale)";
    def.reads = 2;
    def.source = "Transformer Engine's Float8CurrentScaling (docs/numerics.md)";
    def.infer = [](const InferInput& in) {
        std::vector<Type> out = infer_copies(in, current_from);
        out.insert(out.begin(), scale_type);
        return out;
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
        float amax = 0;
        for (const Tensor& x : operands)
            for (const double v : x.f) amax = larger_amax(amax, std::abs(v));
        const double largest = row_of(op.attributes.dtype("dtype")).largest;
        const float scale = own_scale(amax, largest, std::numeric_limits<float>::max());
        std::vector<Tensor> out = copies_of(operands, scale, results.subspan(2), op.attributes);
        out.insert(out.begin(), {Tensor::scalar(DType::f32, scale), inverse_of(scale)});
        return out;
    };
    def.result_names = {"scale", "inverse", "q", "transposed"};
    for (Sample& sample : def.samples) sample.operands.erase(sample.operands.begin());
    const Attributes forward{{"dtype", DType::e4m3}};
    def.samples.push_back({"zeros", {f32_of({2}, {0, 0})}, forward});
    def.errors = {{{}, forward, "there is nothing to quantise"},
                  {{f32_type({2, 2})}, {{"dtype", DType::bf16}}, "nothing is quantised to bf16"}};
    return def;
}

// ---- in blocks
// -------------------------------------------------------------------------------------------------------

// By what a block is multiplied, and its codes afterwards.
struct ScaleOfBlock {
    double factor, scale;
};
ScaleOfBlock scale_of_block(float amax, const std::string& blocks, DType of_x) {
    const double largest = row_of(DType::e4m3).largest;
    int exponent = 0;
    if (blocks == "rows_of_32") {
        // The least power of two that is not below the quotient, as far as e8m0 has it.
        const float quotient = amax * (1.F / static_cast<float>(largest));
        const double half = std::frexp(static_cast<double>(quotient), &exponent);
        if (half == 0.5) --exponent;
        if (quotient == 0 || exponent < -127) exponent = -127;
        if (std::isinf(quotient) || exponent > 127) exponent = 127;
        return {std::ldexp(1, -exponent), std::ldexp(1, exponent)};
    }
    // The largest power of two that is not above the scale.
    std::frexp(static_cast<double>(own_scale(amax, largest, row_of(of_x).largest)), &exponent);
    const float factor = std::ldexp(1.F, exponent - 1);
    return {factor, 1.F / factor};
}

// x of rows and columns; `turned`: the copy's are columns and rows of x.
void quantise_in_blocks(const std::vector<double>& x, std::int64_t rows, std::int64_t width, const std::string& blocks,
                        DType of_x, bool turned, Tensor& scales, Tensor& codes) {
    const BlockShape shape = BlockShape::of(blocks);
    const std::int64_t height = turned ? width : rows, across = turned ? rows : width;
    const auto at = [&](std::int64_t i, std::int64_t j) {
        return x[static_cast<std::size_t>(turned ? j * width + i : i * width + j)];
    };
    for (std::int64_t row = 0; row < shape.down(height); ++row)
        for (std::int64_t column = 0; column < shape.along(across); ++column) {
            const std::int64_t i0 = row * shape.rows, i1 = std::min(height, i0 + shape.rows);
            const std::int64_t j0 = column * shape.columns, j1 = std::min(across, j0 + shape.columns);
            float amax = 0;
            for (std::int64_t i = i0; i < i1; ++i)
                for (std::int64_t j = j0; j < j1; ++j) amax = larger_amax(amax, std::abs(at(i, j)));
            const ScaleOfBlock scale = scale_of_block(amax, blocks, of_x);
            scales.set(row * shape.along(across) + column, scale.scale);
            for (std::int64_t i = i0; i < i1; ++i)
                for (std::int64_t j = j0; j < j1; ++j) {
                    const float scaled = static_cast<float>(at(i, j)) * static_cast<float>(scale.factor);
                    codes.set(i * across + j, code_value(DType::e4m3, code_bits(DType::e4m3, scaled)));
                }
        }
}

OpDef quantise_blocks_def() {
    OpDef def;
    def.name = "fp8_quantise_blocks";
    def.summary =
        "x (..., width) in e4m3, by a scale for each block of `blocks`, and x transposed (width, rows) in blocks of "
        "its "
        "own; before each copy the scales by which its codes are multiplied, f32, of rows_of_32 e8m0.";
    def.formula = "scale = a power of two with max |x of the block| / scale <= 448; q = e4m3(x / scale)";
    def.source = "Transformer Engine's Float8BlockScaling and MXFP8BlockScaling (docs/numerics.md)";
    def.infer = [](const InferInput& in) {
        const Type codes = infer_codes(in, current_from);
        require(codes.dtype == DType::e4m3, fmt::format("no blocks are of {}", name_of(codes.dtype)));
        const std::string blocks = in.attributes.string("blocks");
        std::vector<Type> out;
        const auto add = [&](const Type& copy) {
            out.push_back(scales_of(copy, blocks));
            out.push_back(copy);
        };
        if (has_copy(in.attributes, "plain")) add(codes);
        if (has_copy(in.attributes, "transposed")) add(transposed(codes));
        return out;
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
        std::vector<double> x;
        for (const Tensor& t : operands) x.insert(x.end(), t.f.begin(), t.f.end());
        const std::int64_t width = last_dim(operands[0].type.dims), rows = static_cast<std::int64_t>(x.size()) / width;
        const std::string blocks = op.attributes.string("blocks");
        std::vector<Tensor> out(results.begin(), results.end());
        std::size_t copy = 0;
        for (const bool turned : {false, true})
            if (has_copy(op.attributes, turned ? "transposed" : "plain")) {
                quantise_in_blocks(x, rows, width, blocks, operands[0].type.dtype, turned, out[copy], out[copy + 1]);
                copy += 2;
            }
        return out;
    };
    def.not_differentiable = not_quantised_again;
    def.call = [](const Op& op, const Function& f) {
        RuntimeCall call{"fp8_quantise_blocks", {}, "q = e4m3(x / scale of its block)"};
        std::size_t copy = 0;
        if (has_copy(op.attributes, "plain")) {
            call.fields.push_back(result_field("q", 1).shaped("... width"));
            call.fields.push_back(result_field("scales", 0));
            copy = 2;
        }
        if (has_copy(op.attributes, "transposed")) {
            call.fields.push_back(result_field("q_transposed", copy + 1).shaped("width ..."));
            call.fields.push_back(result_field("scales_transposed", copy));
            call.comment += copy > 0 ? ", and x transposed, in blocks of its own" : ", of x transposed";
        }
        add_x(call, op, f, current_from, literal_field("blocks", "Fp8Blocks::" + op.attributes.string("blocks")));
        return call;
    };
    def.result_names = {"scales", "q", "scales_transposed", "transposed"};
    const auto of = [](const char* blocks) {
        return Attributes{{"dtype", DType::e4m3}, {"blocks", std::string(blocks)}};
    };
    Attributes alone = of("rows_of_128");
    alone.set("copies", std::string("transposed"));
    def.samples = {{"rows", {f32({3, 2, 130})}, of("rows_of_128")},
                   {"of bf16", {bf16({5, 40})}, of("rows_of_32")},
                   {"zeros", {f32_of({2}, {0, 0})}, of("rows_of_32")},
                   {"squares", {f32({130, 9})}, of("squares_of_128")},
                   {"two weights", {f32({2, 9}), f32({3, 9})}, alone}};
    def.errors = {
        {{f32_type({2, 2})}, {{"dtype", DType::e5m2}, {"blocks", std::string("rows_of_32")}}, "no blocks are of e5m2"},
        {{f32_type({2, 2})}, of("columns"), "there are no blocks columns"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_fp8() {
    const OpDef delayed = quantise_def(), current = quantise_current_def(), blocks = quantise_blocks_def();
    return {requantise_def(),   delayed, current, blocks, once_a_step(delayed), once_a_step(current),
            once_a_step(blocks)};
}

}  // namespace thunderc
