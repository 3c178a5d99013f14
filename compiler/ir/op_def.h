// SPDX-License-Identifier: Apache-2.0
// The definition of an op: everything that is known of it, in one place.
#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"
#include "compiler/ir/traits.h"
#include "compiler/ir/value_set.h"

namespace thunderc {

enum class OpLevel : std::uint8_t {
    structural,  // constant, call, repeat, family, member, fused, ...
    imported,    // as frontends write it; normalised or decomposed away
    composite,   // named patterns that executors claim; always have a decomposition
    primitive,   // the small closed set that fusion and the kernel printers understand
};

// How much recomputing an op in the backward pass costs against saving its result.
enum class Recompute : std::uint8_t {
    view,       // no work at all: reshape, transpose, slice
    cheap,      // pointwise or a reduction that reads each input once
    expensive,  // a matrix product or more: saved unless the whole block is recomputed
};

// What lower_precision makes of an op where products are of a narrow type.
struct Precision {
    enum class Kind : std::uint8_t {
        follows,  // narrow where an operand is: what it computes is computed in f32 and rounded where it is stored
        product,  // reads and writes the narrow type, adds up in f32
        island,   // f32, whatever it reads
    };
    Kind kind = Kind::follows;
    std::string why = {};  // of an island: what it would lose in bf16
    // Operands that a product reads narrow (empty: all of floating point), or that an island takes narrow and in f32
    // alike, with a rule that rounds its results itself (empty: it reads and gives f32).
    std::vector<std::size_t> low_operands = {};
    bool stays = false;     // of an island: the result is left in f32, as a sum is
    bool gradient = false;  // of a product: gives gradients of parameters, in the type that the attribute `dtype` names
    // Whether it makes numbers of another size of those that it reads (null: no): what follows it is not stored in a
    // type of less range than f32. torch.autocast has such ops in f32, too.
    std::function<bool(const Op&)> leaves_range = nullptr;
};

// What torch.autocast makes of an op of PyTorch that is this one: compiler/check/autocast.h compares programs with it.
enum class Autocast : std::uint8_t {
    promotes,  // on none of its lists: of the widest type that it reads
    low,       // reads and gives the narrow type
    wide,      // reads and gives f32
};

// Which rows of a batch a result's rows are made of, for whoever cuts a batch or asks whether rows see one another.
// What has .elementwise acts by element, and need not say so.
struct Rows {
    enum class Kind : std::uint8_t {
        together,    // nothing is promised: a row may have seen the others
        by_element,  // element i of each result is made of element i of each operand, broadcast as numpy does
        but_axis,    // along each axis but the attribute `axis`, row by row
        but_last,    // along each axis but the last of a result
        first,       // along the first axis
        summed,      // along the first axis, that of operand 0; the first result is the sum over them
    };
    Kind kind = Kind::together;
    std::vector<std::size_t> operands = {};  // those that may have rows, the others being parameters; empty: all
};

// ---- what a shape rule sees -----------------------------------------------------------------------------------------

struct InferInput {
    std::span<const std::optional<Type>> operands;  // nullopt: absent
    const Attributes& attributes;

    const Type& operand(std::size_t i) const;  // throws ShapeError where absent
    bool has(std::size_t i) const { return i < operands.size() && operands[i].has_value(); }
};

// Operands or attributes do not fit. Becomes a UserError with node and module where a frontend asked.
class ShapeError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

// ---- what a VJP rule sees -------------------------------------------------------------------------------------------

struct VjpInput {
    Builder& b;                         // appends the backward ops to the function that holds the forward op
    const Op& op;                       // operands and results are values of that function
    std::span<const Value> cotangents;  // for each result; none: it does not reach the loss
    std::span<const bool> wanted;       // for each operand: whether its cotangent is asked for

    Value operand(std::size_t i) const { return op.operands[i]; }
    Value result(std::size_t i = 0) const { return op.results[i]; }
    Value cotangent(std::size_t i = 0) const { return cotangents[i]; }
    bool wants(std::size_t i) const { return i < wanted.size() && wanted[i]; }
    Type type(Value v) const { return b.type(v); }
};
// A cotangent for each operand, of the operand's type; none for zero or not wanted.
using VjpResult = std::vector<Value>;

// ---- how an elementwise op reads in generated code ------------------------------------------------------------------

struct Elementwise {
    double (*evaluate)(const double* operands);  // fp64
    std::string_view
        code;  // C++ and CUDA on f32 scalars: "{0} + {1}", "vec_math::exp({0})"; {t}: the result's C++ type
    std::string_view formula;  // for comments: "exp({0})"
    int precedence = 0;        // of `code` and `formula`: 3 product, 2 sum, 1 comparison, 0 conditional; 4 atom or call
    // What an element costs, in operations of the processor: `plain`, or `costly` where it has no operator for it and a
    // polynomial of some ten steps is evaluated. `costly` functions are not computed twice.
    int operations = plain;
    std::string_view integer_code = {};  // a call, instead of `code` where the result is an integer or boolean
    // A call, instead of `code`, which computes all operands, where the first differs from element to element: a branch
    // that each element takes anew keeps loops from being vectorised.
    std::string_view branchless_code = {};

    static constexpr int plain = 1, costly = 12;
    bool is_costly() const { return operations >= costly; }
};

// ---- how a claimed composite becomes a call of the runtime API ------------------------------------------------------

// A field of the runtime API's call struct: ".x = <operand 0>", ".rows = 512".
struct CallField {
    std::string name;
    enum class Kind : std::uint8_t {
        operand,
        result,
        literal,
        // Calls that work on whole arenas, in which parameters, gradients and states lie at the same places:
        arena,     // elements of `arena`, behind as many as parameters have for each that `index` counts
        elements,  // how many elements the parameter arena has
        segments,  // where each parameter lies in it
        scalars,   // the StepScalars
        // Of tensors that lie behind one another, from result `index` on: where that is, in its arena.
        from_result,
    } kind = Kind::literal;
    std::size_t index = 0;  // of the operand or result; of the state: 0 for the first, 1 for the second
    std::string literal;    // C++ text: "512", "true", "0.125F", "WriteMode::add"
    std::string
        stride_field;  // for operand and result: the field that takes the row stride where the placement is not dense
    std::size_t row_dims = 1;  // … how many leading dims are folded into rows by that stride
    Placement::Arena arena = Placement::Arena::unplaced;
    // For operand and result: its dimensions by the names that the call has for sizes, "... in"; "..." stands for those
    // that the call sees as `rows`, "width..." for all that are left, which it sees as `width`. Generated text names
    // sizes by these.
    std::string shape = {};
    DType dtype = DType::f32;  // of an arena's elements

    CallField shaped(std::string text) && {
        shape = std::move(text);
        return std::move(*this);
    }
};

struct RuntimeCall {
    std::string function;  // "linear_forward"
    std::vector<CallField> fields;
    std::string comment;  // what it computes, for the generated comment: "y = x Wᵀ + bias"
    // Where the function is declared, if not in device/api.h, and what a program says of that file.
    std::string header = {}, header_comment = {};
};

// ---- samples: what every generic test runs on -----------------------------------------------------------------------

struct SampleOperand {
    Type type;
    double low = -1, high = 1;   // uniform values
    bool differentiable = true;  // float operands only
    std::vector<double> values;  // instead of random ones, where not empty
    bool absent = false;
};

struct Sample {
    std::string name;
    std::vector<SampleOperand> operands;
    Attributes attributes = {};
    double tolerance = 1e-6;  // of gradients against central differences in fp64, relative
    std::string tolerance_reason =
        "central differences with step 1e-5: truncation 1e-10, cancellation 1e-11 of the function's size";
};

struct ShapeErrorSample {
    std::vector<std::optional<Type>> operands;
    Attributes attributes;
    std::string message;  // the whole text of the ShapeError
};

// ---- the definition -------------------------------------------------------------------------------------------------

// How the operands of an optimizer are ordered: groups of equal length (parameters, gradients, a group for each state),
// then scalars. Its results are the parameters and the states, and with the attribute `narrow_copies` the parameters
// once more in bf16.
struct OptimizerGroups {
    std::size_t groups = 0, scalars = 0;

    // In each group, of this many operands.
    std::size_t tensors(std::size_t operands) const { return (operands - scalars) / groups; }
};

// What the ranks of a group give each other: the sum of tensors, all shards of one, or a shard of the sum of one.
enum class Collective : std::uint8_t { all_reduce, all_gather, reduce_scatter };

struct OpDef {
    std::string name;
    OpLevel level = OpLevel::primitive;
    std::string summary;  // one sentence, shapes included
    std::string formula;  // forward; and the gradient
    std::string source;   // of the maths: a paper, the ONNX operator, torch's documentation

    std::function<std::vector<Type>(const InferInput&)> infer;
    // Absent only for structural ops.
    std::function<std::vector<Tensor>(const Op&, std::span<const Tensor> operands, std::span<const Type> results)>
        reference;
    std::function<VjpResult(const VjpInput&)> vjp;  // or:
    std::string not_differentiable;                 // … the reason why there is none
    // Composites and imported ops: the same in ops of lower level. Returns a value for each result.
    std::function<std::vector<Value>(Builder&, const Op&)> decompose;
    std::optional<Elementwise> elementwise;
    std::function<RuntimeCall(const Op&, const Function&)> call;  // composites that the runtime API knows
    // FLOPs of matrix products; 0 where there are none.
    std::function<double(const Op&, const Function&)> flops;
    int reads = 1;  // how many times its call goes over what it reads
    // Of a call that makes others in turn: bytes that these move beside each operand and result once, and how many they
    // are (null: none, and one).
    std::function<double(const Op&, const Function&)> moves_again;
    std::function<std::int64_t(const Op&, const Function&)> inner_calls;
    Recompute recompute = Recompute::cheap;
    // Result r may be written over operand o (element i of the one is read before element i of the other is written,
    // and no other).
    std::vector<std::pair<std::size_t, std::size_t>> in_place;
    // Of what has any number of results: result r, whichever it is, may be written over operand `in_place_from` + r.
    std::optional<std::size_t> in_place_from;
    // Elements depend on others of the operand that they are written over: the call reads these before.
    bool in_place_as_whole = false;
    // Of what steps parameters alone: each result but a narrow copy may be written over its operand.
    std::function<OptimizerGroups(const Attributes&)> optimizer;
    // Of what ranks give each other: the kind, and whether this is the op that begins one (before plan), which an
    // `await` ends, or the whole of it on a stream (after plan).
    std::optional<Collective> collective;
    bool starts_collective = false;
    bool commutative = false;
    // What it gives is drawn: two that read alike are not one, and nothing is known of it when compiling.
    bool draws = false;
    // Suffixes: {"y", "rstd"}; empty: one result. Those behind the last one have none: ops of many tensors.
    std::vector<std::string> result_names;
    // Of composites: what the operands are called in kernels, {"x", "weight"}; values are named after them.
    std::vector<std::string> operand_names;
    // How many of the last results are statistics that only the op's own VJP reads: they never have a cotangent.
    std::size_t statistics = 0;

    std::vector<Sample> samples;
    std::vector<ShapeErrorSample> errors;

    // Of what has a gradient: where its value or its derivative has a pole, a kink or a jump ("x = 0"), so that the
    // gradient is a convention. It is torch's: for each place scripts/record_kinks.py records what torch gives there.
    std::vector<std::string> kinks;
    std::string smooth;  // or why there are none

    Precision precision;
    Autocast autocast = Autocast::promotes;
    Rows rows;

    // ---- traits: what analyses and passes ask for (traits.h)

    std::optional<Comparison> comparison;  // of the two operands
    std::optional<Logic> logic;
    std::optional<Reduction> reduction;  // along the attribute `axes`
    std::optional<Reduction> combines;   // it puts two parts of such a reduction together, element by element
    ViewRule view;                       // where the result's elements are in operand 0
    std::optional<Moves> moves;
    LookupRule lookup;
    std::optional<double> neutral;  // the second operand that leaves the first as it is; where it is commutative, too,
                                    // the first that leaves the second
    bool involution = false;        // twice, it gives the operand back
    Combination combination;        // the result is this one of the operands
    // Operands of floating point in which the first result is linear, each by itself, the others being what they are;
    // where the op has no epilogue.
    std::vector<std::size_t> linear_in;
    std::optional<Addend> addend;
    std::optional<Epilogue> epilogue;
    // Of gradients of a product's weights: with the attribute `bias` the sums of operand 0 over all axes but this one
    // are results behind them. -1: the last.
    std::optional<std::int64_t> bias_axis;
    SumRule sums;
    // Of what a product can apply to its sums: what it is called there.
    std::function<std::string(const Attributes&)> activation;
    std::vector<ParameterRole> parameter_roles;  // by operand; those behind are for something else
    // What the first result can be. Nothing is said of booleans, and need not be of `moves`, which give what they take,
    // or of the largest and the smallest of many. `range_of_types`: the rule asks for no operand's set.
    RangeRule range;
    bool range_of_types = false;

    bool acts_by_element() const { return elementwise.has_value() || rows.kind == Rows::Kind::by_element; }
};

// The results that may be written over operands, by OpDef::in_place and in_place_from; of those alone that the op has.
std::vector<std::pair<std::size_t, std::size_t>> in_place_of(const Op& op);
// Whether result r may be written over operand o, by in_place_of or as an optimizer.
bool may_write_over(const Op& op, std::size_t r, std::size_t o);

// Whether the op goes on with its sums: has a bias, an activation or a residual (OpDef::epilogue).
bool has_epilogue(const Op& op);

// nullptr where there is none of that name.
const OpDef* find_op(std::string_view name);
const OpDef& op_def(std::string_view name);  // throws InternalError
std::vector<const OpDef*> all_ops();         // in the order of names

// ---- helpers for definitions ----------------------------------------------------------------------------------------

// Throws ShapeError with the message where the condition does not hold.
void require(bool condition, std::string_view message);
Tensor broadcast_tensor(const Tensor& t, const Dims& dims);  // numpy's rule, dense

}  // namespace thunderc
