// SPDX-License-Identifier: Apache-2.0
// What ends a training step: the norm of all gradients, clipping by it, and the optimizers.
//
// An optimizer's op is made of its rule, in runtime-lib/optim/rules. It takes all tensors at once, in groups of equal
// length: parameters, gradients, the rule's states; then the rule's numbers, clip_factor and decay_all. Weight decay
// applies to tensors of two or more dimensions ("matrices"), or to all where `decay_all` says so. A rule that steps
// matrices as wholes takes all of two dimensions so, but those that `by_element` excepts, keeps states of its own
// shapes of them, and gives as a last result what its call needs of memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/multi_tensor.h"
#include "compiler/ops/optimizer_tensors.h"
#include "compiler/ops/rules.h"
#include "compiler/ops/state_codes.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/matrix_scratch.h"
#include "runtime-lib/optim/state_layout.h"

namespace thunderc {
namespace {

namespace rules = thunder::rules;
using optimizing::Condition;
using optimizing::Dense;
using optimizing::Expression;
using rules::Stepped;
using thunder::RuleInfo;

// Whether states of some tensors are codes of 8 bits (state_codes.h): then the scales of each state are groups behind
// the states, of no elements where a tensor's states are numbers.
bool is_coded(const Attributes& attributes) {
    return attributes.has("coded");
}

// Parameters, gradients and states; the numbers, clip_factor and decay_all.
OptimizerGroups groups_of(const RuleInfo& rule, const Attributes& attributes) {
    return {2 + rule.states.size() * (is_coded(attributes) ? 2 : 1), rule.numbers.size() + 2};
}

// How a rule steps parameters; runs may except some of the matrices. `type_of(t)` is that of parameter t; the
// attribute has a flag for each member of a family.
template <typename TypeOf>
std::vector<Stepped> stepped_as(const RuleInfo& rule, const Attributes& attributes, std::size_t count,
                                const TypeOf& type_of) {
    const Dims by_element = attributes.has("by_element") ? attributes.integers("by_element") : Dims{};
    std::vector<Stepped> out;
    std::size_t member = 0;
    for (std::size_t t = 0; t < count; ++t) {
        const Type type = type_of(t);
        const bool excepted = !by_element.empty() && by_element.at(member) != 0;
        out.push_back(excepted ? Stepped::by_element : rule.stepped(type.dims.size()));
        member += static_cast<std::size_t>(type.is_family() ? type.count : 1);
    }
    return out;
}

// What the scales of a tensor's codes are like; of a tensor that has none, like nothing.
Type scales_type(const Type& state) {
    Type out = state;
    out.dtype = DType::f32;
    out.dims = {state.dtype == DType::u8 ? thunder::blocks_of_codes(state.elements()) : 0};
    return out;
}

// What a state of a parameter is like, whose elements are of the type `as`.
Type state_type(const RuleInfo& rule, std::size_t state, const Type& parameter, Stepped stepped, DType as) {
    Type out = parameter;
    out.dtype = as;
    out.dims = thunder::dims_of_state(rule.shape_of_state(state, stepped), parameter.dims);
    return out;
}

// What the call needs for the largest of the tensors that it may step as wholes.
template <typename TypeOf>
Type scratch_of(const RuleInfo& rule, std::size_t count, const TypeOf& type_of) {
    std::int64_t elements = 0;
    for (std::size_t t = 0; t < count; ++t) {
        const Type type = type_of(t);
        if (rule.steps_tensors)
            elements = std::max(elements, thunder::tensor_scratch(type.dims));
        else if (rule.stepped(type.dims.size()) == Stepped::matrix)
            elements = std::max(elements, thunder::matrix_scratch(type.dims[0], type.dims[1]));
    }
    return Type::tensor(DType::f32, {elements});
}

// Tensors of a group have the shapes of the parameters, or those that the rule gives to such a state of them; each
// group has its own type of floating point, or states of codes and scales behind them. The results are parameters and
// states, in this order, and with `narrow_copies` the parameters once more in bf16.
std::vector<Type> infer_update(const InferInput& in, const RuleInfo& rule) {
    const OptimizerGroups g = groups_of(rule, in.attributes);
    std::vector<std::string> names = {"parameter", "gradient"};
    names.insert(names.end(), rule.states.begin(), rule.states.end());
    for (std::size_t k = 0; names.size() < g.groups; ++k) names.push_back(thunder::scales_of(rule.states[k]));
    const std::size_t operands = in.operands.size();
    require(operands > g.scalars && (operands - g.scalars) % g.groups == 0,
            fmt::format("{} operands given: groups of equal length and {} scalars expected", operands, g.scalars));
    const std::size_t count = g.tensors(operands);
    std::vector<Type> results;
    const std::vector<Stepped> stepped =
        stepped_as(rule, in.attributes, count, [&](std::size_t t) -> const Type& { return in.operand(t); });
    for (std::size_t group = 0; group < g.groups; ++group)
        for (std::size_t t = 0; t < count; ++t) {
            const Type& parameter = in.operand(t);
            const Type& type = in.operand(group * count + t);
            const bool state = group > 1 && group - 2 < rule.states.size();
            const bool codes = state && is_coded(in.attributes) && type.dtype == DType::u8;
            const DType as = is_float(type.dtype) || codes ? type.dtype : parameter.dtype;
            Type expected = parameter;
            expected.dtype = as;
            if (group > 1 && !state) {
                expected = scales_type(in.operand((group - rule.states.size()) * count + t));
            } else if (group > 1)
                expected = state_type(rule, group - 2, parameter, stepped[t], as);
            require(type == expected,
                    fmt::format("{} {} is {}, {}the parameter is {}", names[group], t, to_string(type),
                                expected.dims == parameter.dims ? "" : to_string(expected) + " expected: ",
                                to_string(parameter)));
            if (group != 1) results.push_back(type);
        }
    if (rule.steps_wholes())
        results.push_back(scratch_of(rule, count, [&](std::size_t t) -> const Type& { return in.operand(t); }));
    for (std::size_t t = 0; t < count && in.attributes.has("narrow_copies"); ++t) {
        results.push_back(in.operand(t));
        results.back().dtype = in.attributes.dtype("narrow_copies");
    }
    std::vector<std::string> scalars = rule.numbers;
    scalars.emplace_back("clip_factor");
    for (std::size_t k = 0; k < scalars.size(); ++k) require_scalar(in, operands - g.scalars + k, scalars[k]);
    require_flag(in, operands - 1, "decay_all");
    return results;
}

CallField named(std::string name, CallField::Kind kind) {
    CallField field;
    field.name = std::move(name);
    field.kind = kind;
    return field;
}

// The runtime's loops work on whole arenas. `state`: which of the states, where each is as large as all parameters.
CallField whole_arena(std::string name, Placement::Arena arena, DType dtype, std::size_t state = 0) {
    CallField field;
    field.name = std::move(name);
    field.kind = CallField::Kind::arena;
    field.arena = arena;
    field.dtype = dtype;
    field.index = state;
    return field;
}

// The elements of a parameter as the narrow copy has them.
Tensor narrow_copy_of(const Tensor& parameter, DType dtype) {
    Type type = parameter.type;
    type.dtype = dtype;
    Tensor narrow_copy(type);
    for (std::int64_t k = 0; k < narrow_copy.size(); ++k) narrow_copy.set(k, convert(parameter.at(k), dtype));
    return narrow_copy;
}

// Weight decay takes matrices. What is flat does not show whether it holds matrices: `matrices` says it, for each
// tensor.
bool decays(const Op& op, std::size_t tensor, const Type& parameter, bool all) {
    if (op.attributes.has("matrices")) return all || op.attributes.integers("matrices").at(tensor) != 0;
    return all || parameter.rank() >= 2;
}

template <typename Rule>
std::vector<Tensor> update(const RuleInfo& rule, const Op& op, std::span<const Tensor> operands,
                           std::span<const Type> types) {
    const OptimizerGroups groups = groups_of(rule, op.attributes);
    const std::size_t count = groups.tensors(operands.size()), states = rule.states.size(), kept = groups.groups - 2;
    const std::span<const Tensor> scalars = operands.last(groups.scalars);
    std::vector<double> numbers;
    for (std::size_t k = 0; k < rule.numbers.size(); ++k) numbers.push_back(scalars[k].at(0));
    const double clip = scalars[rule.numbers.size()].at(0);
    const bool all = scalars.back().at(0) != 0;
    std::vector<Tensor> out(operands.begin(), operands.begin() + static_cast<std::ptrdiff_t>(count));
    for (std::size_t t = count; t < (1 + kept) * count; ++t) out.push_back(operands[t + count]);
    const std::vector<Stepped> stepped =
        stepped_as(rule, op.attributes, count, [&](std::size_t t) -> const Type& { return out[t].type; });
    for (std::size_t t = 0; t < count; ++t) {
        const bool decayed = decays(op, t, out[t].type, all);
        std::vector<double> state(states + 1);
        if constexpr (rules::steps_matrices<Rule> || rules::steps_tensors<Rule>) {
            if (stepped[t] != Stepped::by_element) {
                auto of_tensor = rules::fields_of<Rule::template Numbers, double>(numbers.data());
                Rule::decay_where(decayed, of_tensor);
                Dense p = optimizing::read(out[t]), kept[rules::most_states];
                const Dense g = clip * optimizing::read(operands[count + t]);
                for (std::size_t s = 0; s < states; ++s) kept[s] = optimizing::read(out[(1 + s) * count + t]);
                const auto fields = rules::fields_of<Rule::template States, Dense&>(kept);
                if constexpr (rules::steps_tensors<Rule>)
                    Rule::tensor(p, g, fields, of_tensor, stepped[t] == Stepped::matrix);
                else
                    Rule::matrix(p, g, fields, of_tensor, static_cast<double>(p.dims[0]),
                                 static_cast<double>(p.dims[1]));
                optimizing::write(out[t], p);
                for (std::size_t s = 0; s < states; ++s) optimizing::write(out[(1 + s) * count + t], kept[s]);
                continue;
            }
        }
        std::vector<std::vector<double>> decoded(states);  // of states that are codes
        for (std::size_t s = 0; s < states; ++s)
            if (const Tensor& stored = out[(1 + s) * count + t]; stored.type.dtype == DType::u8)
                decoded[s] = coding::decoded(stored, out[(1 + states + s) * count + t], rule.signs[s]);
        for (std::int64_t k = 0; k < out[t].size(); ++k) {
            const auto at = static_cast<std::size_t>(k);
            double p = out[t].at(k);
            for (std::size_t s = 0; s < states; ++s)
                state[s] = decoded[s].empty() ? out[(1 + s) * count + t].at(k) : decoded[s][at];
            rule.element(p, clip * operands[count + t].at(k), state.data(), numbers, decayed);
            out[t].set(k, p);
            for (std::size_t s = 0; s < states; ++s)
                decoded[s].empty() ? out[(1 + s) * count + t].set(k, state[s]) : void(decoded[s][at] = state[s]);
        }
        for (std::size_t s = 0; s < states; ++s)
            if (!decoded[s].empty())
                coding::encode(out[(1 + s) * count + t], out[(1 + states + s) * count + t], decoded[s], rule.signs[s]);
    }
    if (rule.steps_wholes()) out.emplace_back(types[(1 + kept) * count]);
    for (std::size_t t = 0; t < count && op.attributes.has("narrow_copies"); ++t)
        out.push_back(narrow_copy_of(out[t], op.attributes.dtype("narrow_copies")));
    return out;
}

// ---- a rule as ops: its element() of expressions --------------------------------------------------------------------

template <typename Rule>
std::vector<Value> update_as_ops(const RuleInfo& rule, Builder& b, const Op& op) {
    const OptimizerGroups groups = groups_of(rule, op.attributes);
    const std::size_t count = groups.tensors(op.operands.size()), states = rule.states.size(), kept = groups.groups - 2;
    const std::span<const Value> scalars = std::span(op.operands).last(groups.scalars);
    std::vector<Expression> numbers;
    for (std::size_t k = 0; k < rule.numbers.size(); ++k) numbers.emplace_back(b, scalars[k]);
    const Expression clip(b, scalars[rule.numbers.size()]), decay_all(b, scalars.back());
    const bool narrow_copies = op.attributes.has("narrow_copies");
    const std::size_t made = 1 + kept + (narrow_copies ? 1 : 0);
    std::vector<Value> out(made * count), scratch;
    if (rule.steps_wholes())  // nobody reads it
        scratch = {b.splat(scratch_of(rule, count, [&](std::size_t t) { return b.type(op.operands[t]); }), 0)};
    const std::vector<Stepped> stepped =
        stepped_as(rule, op.attributes, count, [&](std::size_t t) { return b.type(op.operands[t]); });
    for (std::size_t t = 0; t < count; ++t) {
        auto of_tensor = rules::fields_of<Rule::template Numbers, Expression>(numbers.data());
        Rule::decay_where(Condition{b.type(op.operands[t]).rank() >= 2, decay_all}, of_tensor);
        std::vector<Value> operands;
        for (std::size_t group = 0; group < groups.groups; ++group) operands.push_back(op.operands[group * count + t]);
        const std::vector<Value> updated = for_each_member(b, operands, made, [&](const std::vector<Value>& stored) {
            const auto is_codes = [&](std::size_t s) { return b.type(stored[2 + s]).dtype == DType::u8; };
            std::vector<Expression> x;
            for (std::size_t group = 0; group < 2 + states; ++group)
                x.emplace_back(b, group >= 2 && is_codes(group - 2)
                                      ? coding::decoded(b, stored[group], stored[group + states], rule.signs[group - 2])
                                      : b.cast(stored[group], DType::f32));
            Expression p = x[0];
            std::vector<Expression> state(x.begin() + 2, x.end());
            const auto fields = rules::fields_of<Rule::template States, Expression&>(state.data());
            if constexpr (rules::steps_matrices<Rule>) {
                const Dims& dims = b.type(stored[0]).dims;
                if (stepped[t] == Stepped::matrix)
                    Rule::matrix(p, clip * x[1], fields, of_tensor, static_cast<double>(dims[0]),
                                 static_cast<double>(dims[1]));
            }
            if constexpr (rules::steps_tensors<Rule>)
                Rule::tensor(p, clip * x[1], fields, of_tensor, stepped[t] == Stepped::matrix);
            else if (stepped[t] == Stepped::by_element)
                Rule::element(p, clip * x[1], fields, of_tensor);
            std::vector<Value> results = {b.cast(p.value, b.type(stored[0]).dtype)};
            std::vector<Value> scales;
            for (std::size_t s = 0; s < states; ++s) {
                if (is_codes(s)) {
                    const auto [codes, of_blocks] = coding::encoded(b, state[s].value, rule.signs[s]);
                    results.push_back(codes);
                    scales.push_back(of_blocks);
                    continue;
                }
                results.push_back(b.cast(state[s].value, b.type(stored[2 + s]).dtype));
                if (kept > states) scales.push_back(stored[2 + states + s]);
            }
            results.insert(results.end(), scales.begin(), scales.end());
            if (narrow_copies) results.push_back(b.cast(p.value, op.attributes.dtype("narrow_copies")));
            return results;
        });
        for (std::size_t r = 0; r < made; ++r) out[r * count + t] = updated[r];
    }
    out.insert(out.begin() + static_cast<std::ptrdiff_t>((1 + kept) * count), scratch.begin(), scratch.end());
    return out;
}

// ---- the op of a rule -----------------------------------------------------------------------------------------------

RuntimeCall update_call(const RuleInfo& rule, const Op& op, const Function& f) {
    const std::size_t count = groups_of(rule, op.attributes).tensors(op.operands.size());
    const bool coded = is_coded(op.attributes);
    auto dtype = [&](std::size_t group) { return f.type(op.operands[group * count]).dtype; };
    std::vector<CallField> fields = {whole_arena("parameters", Placement::Arena::parameters, dtype(0)),
                                     whole_arena("gradients", Placement::Arena::gradients, dtype(1))};
    for (std::size_t k = 0; k < rule.states.size(); ++k)
        fields.push_back(whole_arena(fmt::format("states[{}]", k), Placement::Arena::optimizer,
                                     coded ? DType::f32 : dtype(2 + k), rule.states_as_parameters() && !coded ? k : 0));
    const bool narrow_copies = op.attributes.has("narrow_copies");
    if (narrow_copies)
        fields.push_back(
            whole_arena("narrow_copies", Placement::Arena::narrow_copies, op.attributes.dtype("narrow_copies")));
    fields.push_back(named("segments", CallField::Kind::segments));
    fields.push_back(named("scalars", CallField::Kind::scalars));
    if (rule.steps_wholes()) fields.push_back(result_field("scratch", (1 + rule.states.size()) * count));
    std::string comment = fmt::format(
        "{} on the part's parameters{}, {}", rule.title,
        narrow_copies ? fmt::format(" and their {} copies", name_of(op.attributes.dtype("narrow_copies"))) : "",
        rule.steps_matrices() ? "hidden matrices by products, all else in one pass over memory"
        : rule.steps_tensors  ? "tensor by tensor"
                              : "in one pass over memory");
    if (!rule.states.empty()) comment += fmt::format("; states: {}", fmt::join(rule.states, ", "));
    if (coded) comment += fmt::format(", of matrices in 8 bits with a scale for each {}", rules::block_elements);
    return {rule.name, fields, comment, "optim/update.h", "one pass over all parameters"};
}

// The numbers of the second step, as programs have them that were told nothing.
std::vector<SampleOperand> sample_scalars(const RuleInfo& rule, double decay_all) {
    std::vector<SampleOperand> out;
    for (const double number : rule.step_numbers(usual_options(rule), {0.01, 0.1, 2}))
        out.push_back(f32_of({}, {number}));
    out.push_back(f32_of({}, {0.5}));
    out.push_back(bool_of({}, {decay_all}));
    return out;
}

template <typename Rule>
OpDef optimizer(const RuleInfo& rule) {
    std::vector<std::string> kept = rule.states, scalars = rule.numbers;
    kept.insert(kept.begin(), "parameters");
    scalars.insert(scalars.end(), {"clip_factor", "decay_all"});
    std::vector<std::string> taken = kept;
    taken.insert(taken.begin() + 1, "gradients");
    taken.insert(taken.end(), scalars.begin(), scalars.end());
    OpDef def;
    def.name = rule.name;
    def.level = OpLevel::composite;
    def.summary = fmt::format("{} on all parameters at once: ({}) -> ({}).", rule.title, fmt::join(taken, ", "),
                              fmt::join(kept, ", "));
    def.formula = rule.formula;
    def.source = rule.source;
    def.optimizer = [&rule](const Attributes& attributes) { return groups_of(rule, attributes); };
    def.infer = [&rule](const InferInput& in) { return infer_update(in, rule); };
    def.reference = [&rule](const Op& op, std::span<const Tensor> operands, std::span<const Type> types) {
        return update<Rule>(rule, op, operands, types);
    };
    def.result_names = {"parameter"};
    def.result_names.insert(def.result_names.end(), rule.states.begin(), rule.states.end());
    def.not_differentiable = "the update of a step is not differentiated";
    def.decompose = [&rule](Builder& b, const Op& op) { return update_as_ops<Rule>(rule, b, op); };
    def.call = [&rule](const Op& op, const Function& f) { return update_call(rule, op, f); };
    // States are squares, some of them.
    Sample one{"one matrix", {f32({2, 3}), f32({2, 3})}, {}};
    Sample two{"a vector that decays, and a matrix", {f32({3}), f32({2, 2}), f32({3}), f32({2, 2})}, {}};
    for (std::size_t s = 0; s < rule.states.size(); ++s) {
        const rules::StateShape of_matrix = rule.shape_of_state(s, rule.stepped(2)),
                                of_vector = rule.shape_of_state(s, rule.stepped(1));
        one.operands.push_back(f32(thunder::dims_of_state(of_matrix, Dims{2, 3}), 0, 1));
        two.operands.push_back(f32(thunder::dims_of_state(of_vector, Dims{3}), 0, 1));
        two.operands.push_back(f32(thunder::dims_of_state(of_matrix, Dims{2, 2}), 0, 1));
    }
    for (const SampleOperand& s : sample_scalars(rule, 0)) one.operands.push_back(s);
    for (const SampleOperand& s : sample_scalars(rule, 1)) two.operands.push_back(s);
    def.samples = {one, two};
    ShapeErrorSample gradient{{f32_type({2}), f32_type({3})}, {}, "gradient 0 is f32[3], the parameter is f32[2]"};
    for (std::size_t s = 0; s < rule.states.size(); ++s)
        gradient.operands.emplace_back(
            f32_type(thunder::dims_of_state(rule.shape_of_state(s, rule.stepped(1)), Dims{2})));
    for (std::size_t s = 0; s <= rule.numbers.size(); ++s) gradient.operands.emplace_back(f32_type({}));
    gradient.operands.emplace_back(bool_type({}));
    ShapeErrorSample flag = gradient;
    flag.operands[1] = f32_type({2});
    flag.operands.back() = f32_type({});
    flag.message = "decay_all is f32[], bool[] expected";
    def.errors = {
        gradient,
        flag,
        {{f32_type({2})},
         {},
         fmt::format("1 operands given: groups of equal length and {} scalars expected", groups_of(rule, {}).scalars)}};
    return def;
}

// ---- the norm of all gradients --------------------------------------------------------------------------------------

// In f64, as the runtime adds them: the square of a gradient above 1.8e19 is infinite in f32, that of one below 1e-23
// is 0, and the norm itself is neither.
Value squares_of(Builder& b, const Op& op) {
    Value sum;
    for (Value v : op.operands) {
        const Type type = b.type(v);
        for (std::int64_t k = 0; k < (type.is_family() ? type.count : 1); ++k) {
            Value x = type.is_family() ? b.op("member", {v}, {{"index", k}}) : v;
            x = b.cast(x, DType::f64);
            Dims axes;
            for (std::int64_t d = 0; d < type.rank(); ++d) axes.push_back(d);
            Value squares = b.reduce_sum(b.mul(x, x), axes);
            sum = sum ? b.add(sum, squares) : squares;
        }
    }
    return sum;
}

double sum_of_all_squares(std::span<const Tensor> operands) {
    double sum = 0;
    for (const Tensor& t : operands)
        for (double x : t.f) sum += x * x;
    return sum;
}

OpDef global_norm() {
    OpDef def;
    def.name = "global_norm";
    def.level = OpLevel::composite;
    def.summary = "The Euclidean norm of all operands taken as one vector.";
    def.formula = "y = sqrt(sum of x^2 over all elements of all operands)";
    def.source = "torch.nn.utils.clip_grad_norm_ with norm_type = 2";
    def.infer = [](const InferInput& in) {
        require(!in.operands.empty(), "there are no gradients");
        for (std::size_t k = 0; k < in.operands.size(); ++k)
            require(is_float(in.operand(k).dtype), fmt::format("operand {} is {}", k, to_string(in.operand(k))));
        return std::vector<Type>{Type::tensor(DType::f32, {})};
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type>) {
        return std::vector<Tensor>{Tensor::scalar(DType::f32, std::sqrt(sum_of_all_squares(operands)))};
    };
    def.not_differentiable = "gradients are not differentiated again";
    def.decompose = [](Builder& b, const Op& op) {
        return std::vector<Value>{b.cast(b.op("sqrt", {squares_of(b, op)}), DType::f32)};
    };
    def.call = [](const Op& op, const Function& f) {
        return RuntimeCall{"global_norm",
                           {named("scalars", CallField::Kind::scalars),
                            whole_arena("gradients", Placement::Arena::gradients, f.type(op.operands[0]).dtype),
                            named("elements", CallField::Kind::elements)},
                           "the norm of all gradients, and the factor that clips them",
                           "optim/global_norm.h",
                           "the norm of all gradients"};
    };
    def.samples = {{"matrix and vector", {f32({2, 3}), f32({4})}, {}}, {"one", {f32({5})}, {}}};
    def.errors = {{{}, {}, "there are no gradients"}, {{i64_type({2})}, {}, "operand 0 is i64[2]"}};
    return def;
}

OpDef sum_of_squares() {
    OpDef def = global_norm();
    def.name = "sum_of_squares";
    def.summary = "The sum of the squares of all elements of all operands: of shards, the part that this rank has.";
    def.formula = "y = sum of x^2 over all elements of all operands";
    def.infer = [norm = def.infer](const InferInput& in) {
        norm(in);
        return std::vector<Type>{Type::tensor(DType::f64, {})};
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type>) {
        return std::vector<Tensor>{Tensor::scalar(DType::f64, sum_of_all_squares(operands))};
    };
    def.decompose = [](Builder& b, const Op& op) { return std::vector<Value>{squares_of(b, op)}; };
    def.call = [](const Op& op, const Function& f) {
        return RuntimeCall{"sum_of_squares",
                           {result_field("sum", 0),
                            whole_arena("gradients", Placement::Arena::gradients, f.type(op.operands[0]).dtype),
                            named("elements", CallField::Kind::elements)},
                           "the squares of this rank's gradients",
                           "optim/global_norm.h",
                           "the norm of all gradients"};
    };
    return def;
}

OpDef norm_of_squares() {
    OpDef def;
    def.name = "norm_of_squares";
    def.level = OpLevel::composite;
    def.summary = "The norm f32[] from the sum of squares f64[] of all ranks.";
    def.formula = "y = sqrt(x)";
    def.source = "torch.nn.utils.clip_grad_norm_ with norm_type = 2";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type sum = Type::tensor(DType::f64, {});
        require(in.operand(0) == sum, fmt::format("sum is {}, {} expected", to_string(in.operand(0)), to_string(sum)));
        return std::vector<Type>{Type::tensor(DType::f32, {})};
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type>) {
        return std::vector<Tensor>{Tensor::scalar(DType::f32, std::sqrt(operands[0].at(0)))};
    };
    def.not_differentiable = "gradients are not differentiated again";
    def.decompose = [](Builder& b, const Op& op) {
        return std::vector<Value>{b.cast(b.op("sqrt", {op.operands[0]}), DType::f32)};
    };
    def.call = [](const Op&, const Function&) {
        return RuntimeCall{"norm_of_squares",
                           {named("scalars", CallField::Kind::scalars), operand_field("sum", 0)},
                           "the norm of all gradients, and the factor that clips them",
                           "optim/global_norm.h",
                           "the norm of all gradients"};
    };
    const auto sum = [](double x) {
        SampleOperand out = f32_of({}, {x});
        out.type.dtype = DType::f64;
        return out;
    };
    def.samples = {{"above", {sum(9)}, {}}, {"zero", {sum(0)}, {}}, {"above all of f32", {sum(1e50)}, {}}};
    def.errors = {{{f32_type({})}, {}, "sum is f32[], f64[] expected"}};
    return def;
}

OpDef clip_factor() {
    OpDef def;
    def.name = "clip_factor";
    def.level = OpLevel::composite;
    def.summary =
        "What gradients of norm f32[] are multiplied with so that it is at most max_norm; 1 where max_norm is 0.";
    def.formula = "y = min(1, max_norm / (norm + 1e-6)); 1 where max_norm = 0";
    def.source = "torch.nn.utils.clip_grad_norm_";
    def.infer = [](const InferInput& in) {
        require_operands(in, 2);
        require_scalar(in, 0, "norm");
        require_scalar(in, 1, "max_norm");
        return std::vector<Type>{in.operand(0)};
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type>) {
        const double norm = operands[0].at(0), most = operands[1].at(0);
        return std::vector<Tensor>{Tensor::scalar(DType::f32, most == 0 ? 1 : std::min(1.0, most / (norm + 1e-6)))};
    };
    def.not_differentiable = "gradients are not differentiated again";
    def.decompose = [](Builder& b, const Op& op) {
        Value one = b.scalar(DType::f32, 1), zero = b.scalar(DType::f32, 0);
        Value factor = b.op("min", {one, b.div(op.operands[1], b.add(op.operands[0], 1e-6))});
        return std::vector<Value>{b.op("select", {b.op("eq", {op.operands[1], zero}), one, factor})};
    };
    def.call = [](const Op&, const Function&) { return RuntimeCall{"", {}, "global_norm has set it"}; };
    def.samples = {{"above", {f32_of({}, {3}), f32_of({}, {1})}, {}},
                   {"below", {f32_of({}, {0.5}), f32_of({}, {1})}, {}},
                   {"off", {f32_of({}, {3}), f32_of({}, {0})}, {}}};
    def.errors = {{{f32_type({2}), f32_type({})}, {}, "norm is f32[2], f32[] expected"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_optimizer() {
    std::vector<OpDef> out = {global_norm(), sum_of_squares(), norm_of_squares(), clip_factor()};
#define THUNDERC_OPTIMIZER(name, Rule) out.push_back(optimizer<thunder::Rule>(*thunder::find_rule(#name)));
    THUNDER_RULES(THUNDERC_OPTIMIZER)
#undef THUNDERC_OPTIMIZER
    return out;
}

}  // namespace thunderc
