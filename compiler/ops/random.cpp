// SPDX-License-Identifier: Apache-2.0
// Numbers that are drawn. Each follows from the run's seed, from the number of the draw (of the dropout, say) and from
// where it stands: the number of its row and its place in the row, by Philox4x32-10 (runtime-lib/support/philox.h). So
// a draw depends on no device, rank, thread or micro-step, and the backward pass draws again what the forward pass
// drew: nothing is kept of it.
//
// Element j of the row that is called n takes word j % 4 of philox({j / 4, n}, {draw, seed}), of numbers of 64 bits in
// the counter and 32 in the key; its upper 24 bits are a multiple of 2^-24 in [0, 1), which f32 holds exactly.
#include "compiler/ops/random.h"

#include <fmt/format.h>

#include "compiler/ops/composite.h"
#include "compiler/ops/plain_call.h"
#include "runtime-lib/support/philox.h"

namespace thunderc {

double drawn_number(std::int64_t seed, std::int64_t draw, std::int64_t row, std::int64_t place) {
    const auto word = [](std::int64_t value, int half) {
        return static_cast<std::uint32_t>(static_cast<std::uint64_t>(value) >> (32 * half));
    };
    const thunder::PhiloxCounter words = thunder::philox(
        {word(place / 4, 0), word(place / 4, 1), word(row, 0), word(row, 1)}, {word(draw, 0), word(seed, 0)});
    return static_cast<double>(words[static_cast<std::size_t>(place % 4)] >> 8) * 0x1p-24;
}

void require_numbers(const InferInput& in, std::size_t first) {
    for (const auto& [k, what] :
         {std::pair<std::size_t, const char*>{first, "seed"}, {first + 1, "number of the draw"}})
        require(integer_operand(in, k).rank() == 0,
                fmt::format("the {} is {}: one integer expected", what, to_string(in.operand(k))));
    require(integer_operand(in, first + 2).rank() == 1,
            fmt::format("the rows are {}: one number for each expected", to_string(in.operand(first + 2))));
}

namespace {

constexpr const char* source = "Salmon, Moraes, Dror and Shaw, Parallel random numbers: as easy as 1, 2, 3 (SC 2011)";
constexpr const char* no_slope = "its operands are a seed and numbers of draws and rows";

// (rows, dims...), as (rows, width).
struct Drawn {
    std::int64_t rows, width;
};
Drawn drawn_of(const Type& result) {
    const std::int64_t rows = result.dims[0];
    return {rows, rows == 0 ? 0 : result.elements() / rows};
}

Dims drawn_dims(const InferInput& in) {
    require_operands(in, 3);
    require_numbers(in, 0);
    Dims dims = in.operand(2).dims;
    const Dims& row = in.attributes.integers("dims");
    dims.insert(dims.end(), row.begin(), row.end());
    return dims;
}

template <typename Number>
std::vector<Tensor> draw_all(std::span<const Tensor> operands, const Type& type, const Number& number) {
    Tensor y(type);
    const auto [rows, width] = drawn_of(type);
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t j = 0; j < width; ++j)
            y.set(r * width + j, number(drawn_number(operands[0].i[0], operands[1].i[0],
                                                     operands[2].i[static_cast<std::size_t>(r)], j)));
    return {std::move(y)};
}

RuntimeCall drawing_call(std::string function, std::string comment, const Op& op, const Function& f) {
    const auto [rows, width] = drawn_of(f.type(op.results[0]));
    RuntimeCall call{std::move(function), {}, std::move(comment)};
    call.fields = {
        result_field("y", 0).shaped("rows width..."), operand_field("seed", 0),    operand_field("draw", 1),
        operand_field("numbers", 2).shaped("rows"),   literal_field("rows", rows), literal_field("width", width)};
    return call;
}

SampleOperand one(double number) {
    return i64_of({}, {number});
}

OpDef uniform() {
    OpDef def;
    def.name = "uniform";
    def.level = OpLevel::primitive;
    def.summary =
        "Numbers drawn from [0, 1), by a seed, the number of the draw and those of the rows (R): (R, `dims`).";
    def.formula = "y[r, j] = philox(seed, draw; rows[r], j)";
    def.source = source;
    def.not_differentiable = no_slope;
    def.infer = [](const InferInput& in) { return std::vector<Type>{Type::tensor(DType::f32, drawn_dims(in))}; };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type> types) {
        return draw_all(operands, types[0], [](double u) { return u; });
    };
    def.call = [](const Op& op, const Function& f) {
        return by_executor(
            drawing_call("random_uniform", "y = numbers in [0, 1), drawn by the number of the row", op, f), op);
    };
    def.precision = {.kind = Precision::Kind::island, .why = "the numbers that it draws are f32's", .stays = true};
    def.rows = {.kind = Rows::Kind::first, .operands = {2}};
    def.range = [](const RangeInput&) { return ValueSet{{{0, 1}}, false, false}; };
    def.range_of_types = true;
    def.result_names = {"drawn"};
    def.samples = {{"matrix", {one(5), one(3), i64_of({3}, {7, 8, 4294967296})}, {{"dims", Dims{5}}}},
                   {"sequences", {one(1), one(0), i64_of({2}, {0, 1})}, {{"dims", Dims{3, 4}}}},
                   {"one for each row", {one(-1), one(2), i64_of({4}, {3, 2, 1, 0})}, {{"dims", Dims{}}}}};
    def.errors = {
        {{i64_type({1}), i64_type({}), i64_type({2})}, {{"dims", Dims{3}}}, "the seed is i64[1]: one integer expected"},
        {{i64_type({}), i64_type({2}), i64_type({2})},
         {{"dims", Dims{3}}},
         "the number of the draw is i64[2]: one integer expected"},
        {{i64_type({}), i64_type({}), i64_type({})},
         {{"dims", Dims{3}}},
         "the rows are i64[]: one number for each expected"}};
    return def;
}

OpDef bernoulli() {
    OpDef def = uniform();
    def.name = "bernoulli";
    def.summary =
        "Whether numbers drawn from [0, 1), by a seed, the number of the draw and those of the rows (R), are below "
        "`p`: (R, `dims`).";
    def.formula = "y[r, j] = (philox(seed, draw; rows[r], j) < p)";
    def.infer = [](const InferInput& in) {
        const double p = in.attributes.number("p");
        require(p >= 0 && p <= 1, fmt::format("p is {}: a number from 0 to 1 expected", p));
        return std::vector<Type>{bool_type(drawn_dims(in))};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        const double p = op.attributes.number("p");
        return draw_all(operands, types[0], [&](double u) { return u < p ? 1.0 : 0.0; });
    };
    def.call = [](const Op& op, const Function& f) {
        RuntimeCall call =
            drawing_call("random_bernoulli", "y = whether what is drawn for the element is below p", op, f);
        call.fields.push_back(literal_field("p", fmt::format("{}", op.attributes.number("p"))));
        return by_executor(std::move(call), op);
    };
    def.precision = {};
    def.range = {};
    def.range_of_types = false;
    for (Sample& s : def.samples) s.attributes.set("p", 0.4);
    def.errors = {{{i64_type({}), i64_type({}), i64_type({2})},
                   {{"dims", Dims{3}}, {"p", 1.5}},
                   "p is 1.5: a number from 0 to 1 expected"}};
    return def;
}

// As frontends write it.
OpDef unplaced_uniform() {
    OpDef def;
    def.name = "unplaced_uniform";
    def.level = OpLevel::imported;
    def.draws = true;
    def.summary =
        "Numbers drawn from [0, 1), one for each element of the operand, of which it is not said yet how: 1/2, which "
        "they are on average; becomes uniform.";
    def.formula = "y = 1/2";
    def.source = "ONNX RandomUniformLike";
    def.not_differentiable = "what it draws does not depend on its operand";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        return std::vector<Type>{Type::tensor(DType::f32, tensor_operand(in, 0).dims)};
    };
    def.reference = [](const Op&, std::span<const Tensor>, std::span<const Type> types) {
        Tensor y(types[0]);
        for (std::int64_t k = 0; k < y.size(); ++k) y.set(k, 0.5);
        return std::vector<Tensor>{std::move(y)};
    };
    def.decompose = [](Builder& b, const Op& op) {
        return std::vector<Value>{b.splat(Type::tensor(DType::f32, b.type(op.operands[0]).dims), 0.5)};
    };
    def.precision = uniform().precision;
    def.rows = {.kind = Rows::Kind::by_element};
    def.range = uniform().range;
    def.range_of_types = true;
    def.result_names = {"drawn"};
    def.samples = {{"rows", {f32({3, 5})}, {}}, {"of integers", {i64_of({2}, {4, 5})}, {}}, {"scalar", {f32({})}, {}}};
    def.errors = {{{f32_type({2}), f32_type({2})}, {}, "1 operand expected, 2 given"}};
    return def;
}

// As frontends write it: which elements go is not said before the batch's rows have numbers (place_random).
OpDef unplaced_dropout() {
    OpDef def;
    def.name = "unplaced_dropout";
    def.level = OpLevel::imported;
    def.draws = true;
    def.summary =
        "A dropout of which it is not said yet what is drawn for it: its operand, which is what it gives on average; "
        "becomes a dropout.";
    def.formula = "y = x; dx = dy";
    def.source = "torch.nn.Dropout; ONNX Dropout";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const double rate = in.attributes.number("rate");
        require(rate >= 0 && rate < 1, fmt::format("rate is {}: a number from 0 to below 1 expected", rate));
        return std::vector<Type>{float_operand(in, 0)};
    };
    def.reference = [](const Op&, std::span<const Tensor> x, std::span<const Type>) {
        return std::vector<Tensor>{x[0]};
    };
    def.vjp = [](const VjpInput& in) { return VjpResult{in.cotangent()}; };
    def.decompose = [](Builder&, const Op& op) { return std::vector<Value>{op.operands[0]}; };
    def.rows = {.kind = Rows::Kind::by_element};
    def.in_place = {{0, 0}};
    def.moves = {.operands = {0}};
    def.linear_in = {0};
    def.result_names = {"dropout"};
    def.smooth = "linear";
    def.samples = {{"rows", {f32({3, 5})}, {{"rate", 0.25}}}, {"scalar", {f32({})}, {{"rate", 0.0}}}};
    def.errors = {{{i64_type({2})}, {{"rate", 0.5}}, "operand 0 is to be floating point, i64[2] given"},
                  {{f32_type({2})}, {{"rate", 1.0}}, "rate is 1: a number from 0 to below 1 expected"}};
    return def;
}

OpDef dropout() {
    OpDef def;
    def.name = "dropout";
    def.level = OpLevel::composite;
    def.summary =
        "x (R, ...), of which each element is 0 with the probability `rate`, and else is divided by 1 - rate; drawn by "
        "a "
        "seed, the number of the draw and those of the rows (R).";
    def.formula =
        "y[r, j] = x[r, j] / (1 - rate) where philox(seed, draw; rows[r], j) < 1 - rate, else 0; dx = dropout of dy";
    def.source = "torch.nn.Dropout; Srivastava et al., Dropout (JMLR 2014)";
    def.infer = [](const InferInput& in) {
        require_operands(in, 4);
        const Type& x = float_operand(in, 0);
        require_numbers(in, 1);
        const double rate = in.attributes.number("rate");
        require(rate >= 0 && rate < 1, fmt::format("rate is {}: a number from 0 to below 1 expected", rate));
        require(x.rank() > 0 && x.dims[0] == in.operand(3).dims[0],
                fmt::format("{} does not have {} rows", to_string(x), in.operand(3).dims[0]));
        return std::vector<Type>{x};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        const double kept = 1 - op.attributes.number("rate");
        Tensor y = draw_all(operands.subspan(1), types[0], [&](double u) { return u < kept ? 1.0 : 0.0; })[0];
        for (std::int64_t k = 0; k < y.size(); ++k)
            if (y.at(k) != 0) y.set(k, operands[0].at(k) / kept);
        return std::vector<Tensor>{std::move(y)};
    };
    def.vjp = [](const VjpInput& in) {
        return VjpResult{in.b.op("dropout", {in.cotangent(), in.operand(1), in.operand(2), in.operand(3)},
                                 {{"rate", in.op.attributes.number("rate")}}),
                         Value{}, Value{}, Value{}};
    };
    def.decompose = [](Builder& b, const Op& op) {
        const Type x = b.type(op.operands[0]);
        const double kept = 1 - op.attributes.number("rate");
        const Value keep = named(b,
                                 b.op("bernoulli", {op.operands[1], op.operands[2], op.operands[3]},
                                      {{"dims", Dims(x.dims.begin() + 1, x.dims.end())}, {"p", kept}}),
                                 "keep");
        return std::vector<Value>{b.op("select", {keep, b.mul(op.operands[0], 1 / kept), b.scalar(x.dtype, 0)})};
    };
    def.rows = {.kind = Rows::Kind::first, .operands = {0, 3}};
    def.linear_in = {0};
    def.result_names = {"dropout"};
    def.operand_names = {"x", "seed", "draw", "rows"};
    def.smooth = "linear";
    const auto rate = [](double value) { return Attributes{{"rate", value}}; };
    def.samples = {{"matrix", {f32({3, 5}), one(5), one(3), i64_of({3}, {7, 8, 9})}, rate(0.25)},
                   {"sequences", {f32({2, 3, 4}), one(1), one(0), i64_of({2}, {0, 1})}, rate(0.5)},
                   {"nothing is dropped", {f32({2, 2}), one(0), one(0), i64_of({2}, {0, 1})}, rate(0)}};
    def.errors = {
        {{f32_type({2, 2}), i64_type({}), i64_type({}), i64_type({3})}, rate(0.5), "f32[2,2] does not have 3 rows"},
        {{f32_type({2}), i64_type({}), i64_type({}), i64_type({2})},
         rate(1),
         "rate is 1: a number from 0 to below 1 expected"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_random() {
    return {uniform(), bernoulli(), unplaced_uniform(), unplaced_dropout(), dropout()};
}

}  // namespace thunderc
