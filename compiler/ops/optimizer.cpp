// What ends a training step: the norm of all gradients, clipping by it, and the optimizers.
//
// The ops take all tensors at once, in groups of equal length: parameters, gradients, states; then scalars of
// StepScalars. Weight decay applies to tensors of two or more dimensions ("matrices"), or to all where `decay_all` says
// so.
#include <fmt/format.h>

#include <cmath>

#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/multi_tensor.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

constexpr OptimizerGroups adamw_groups = {4, 9};
OptimizerGroups sgd_groups(const Attributes& attributes) {
    return attributes.boolean("momentum") ? OptimizerGroups{3, 5} : OptimizerGroups{2, 4};
}

// Tensors of a group have the shapes of the parameters; each group has its own type of floating point. The results are
// parameters and states, in this order, and with `shadows` the parameters once more in bf16.
std::vector<Type> infer_update(const InferInput& in, const OptimizerGroups& g,
                               const std::vector<std::string>& group_names,
                               const std::vector<std::string>& scalar_names) {
    const std::size_t operands = in.operands.size();
    require(operands > g.scalars && (operands - g.scalars) % g.groups == 0,
            fmt::format("{} operands given: groups of equal length and {} scalars expected", operands, g.scalars));
    const std::size_t count = g.tensors(operands);
    std::vector<Type> results;
    for (std::size_t group = 0; group < g.groups; ++group)
        for (std::size_t t = 0; t < count; ++t) {
            const Type& parameter = in.operand(t);
            const Type& type = in.operand(group * count + t);
            Type expected = parameter;
            expected.dtype = is_float(type.dtype) ? type.dtype : parameter.dtype;
            require(type == expected, fmt::format("{} {} is {}, the parameter is {}", group_names[group], t,
                                                  to_string(type), to_string(parameter)));
            if (group != 1) results.push_back(type);
        }
    for (std::size_t t = 0; t < count && in.attributes.boolean("shadows", false); ++t) {
        results.push_back(in.operand(t));
        results.back().dtype = DType::bf16;
    }
    for (std::size_t k = 0; k + 1 < g.scalars; ++k) require_scalar(in, operands - g.scalars + k, scalar_names[k]);
    require_flag(in, operands - 1, "decay_all");
    return results;
}

CallField named(std::string name, CallField::Kind kind) {
    CallField field;
    field.name = std::move(name);
    field.kind = kind;
    return field;
}

// The runtime's loops work on whole arenas. `state`: which of the states, each as large as all parameters.
CallField whole_arena(std::string name, Placement::Arena arena, DType dtype, std::size_t state = 0) {
    CallField field;
    field.name = std::move(name);
    field.kind = CallField::Kind::arena;
    field.arena = arena;
    field.dtype = dtype;
    field.index = state;
    return field;
}

// The call's fields for the groups of an optimizer; `names`: of the states.
std::vector<CallField> arena_fields(const Op& op, const Function& f, std::size_t count,
                                    const std::vector<std::string>& names) {
    auto dtype = [&](std::size_t group) { return f.type(op.operands[group * count]).dtype; };
    std::vector<CallField> fields = {whole_arena("parameters", Placement::Arena::parameters, dtype(0)),
                                     whole_arena("gradients", Placement::Arena::gradients, dtype(1))};
    for (std::size_t k = 0; k < names.size(); ++k)
        fields.push_back(whole_arena(names[k], Placement::Arena::optimizer, dtype(2 + k), k));
    if (op.attributes.boolean("shadows", false))
        fields.push_back(whole_arena("shadows", Placement::Arena::shadows, DType::bf16));
    fields.push_back(named("segments", CallField::Kind::segments));
    fields.push_back(named("scalars", CallField::Kind::scalars));
    return fields;
}

// What `updated` computes in f32, in the types of the results; with `shadows` the parameter in bf16 as well.
std::vector<Value> in_result_types(Builder& b, const Op& op, std::size_t groups, std::vector<Value> updated,
                                   const std::vector<DType>& dtypes) {
    if (op.attributes.boolean("shadows", false)) updated.push_back(b.cast(updated[0], DType::bf16));
    for (std::size_t r = 0; r + 1 < groups; ++r) updated[r] = b.cast(updated[r], dtypes[r]);
    return updated;
}

// The elements of a parameter as the shadow has them.
Tensor shadow_of(const Tensor& parameter) {
    Type type = parameter.type;
    type.dtype = DType::bf16;
    Tensor shadow(type);
    for (std::int64_t k = 0; k < shadow.size(); ++k) shadow.set(k, convert(parameter.at(k), DType::bf16));
    return shadow;
}

// Weight decay takes matrices. What is flat does not show whether it holds matrices: `matrices` says it, for each
// tensor.
bool decays(const Op& op, std::size_t tensor, const Type& parameter, bool all) {
    if (op.attributes.has("matrices")) return all || op.attributes.integers("matrices").at(tensor) != 0;
    return all || parameter.rank() >= 2;
}

// ---- AdamW
// -----------------------------------------------------------------------------------------------------------------

OpDef adamw() {
    OpDef def;
    def.name = "adamw";
    def.level = OpLevel::composite;
    def.summary =
        "AdamW on all parameters at once: (parameters, gradients, first moments, second moments, learning_rate, beta1, "
        "beta2, eps, weight_decay, bias_correction1, bias_correction2_sqrt, clip_factor, decay_all) -> (parameters, "
        "first moments, second moments).";
    def.formula =
        "g = clip_factor gradient; p (1 - learning_rate weight_decay) where it decays; m = m + (1 - beta1) (g - m); "
        "v = beta2 v + (1 - beta2) g g; p - learning_rate / bias_correction1 m / (sqrt(v) / bias_correction2_sqrt + "
        "eps)";
    def.source = "torch.optim.AdamW; Loshchilov and Hutter, Decoupled Weight Decay Regularization, 2019";
    def.optimizer = [](const Attributes&) { return adamw_groups; };
    def.infer = [](const InferInput& in) {
        return infer_update(in, adamw_groups, {"parameter", "gradient", "first moment", "second moment"},
                            {"learning_rate", "beta1", "beta2", "eps", "weight_decay", "bias_correction1",
                             "bias_correction2_sqrt", "clip_factor"});
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type>) {
        const std::size_t count = adamw_groups.tensors(operands.size());
        const std::span<const Tensor> s = operands.subspan(4 * count);
        const double lr = s[0].at(0), beta1 = s[1].at(0), beta2 = s[2].at(0), eps = s[3].at(0), decay = s[4].at(0),
                     correction1 = s[5].at(0), correction2_sqrt = s[6].at(0), clip = s[7].at(0);
        std::vector<Tensor> out(3 * count);
        for (std::size_t t = 0; t < count; ++t) {
            Tensor p = operands[t], m = operands[2 * count + t], v = operands[3 * count + t];
            const bool decayed = decays(op, t, p.type, s[8].at(0) != 0);
            for (std::int64_t k = 0; k < p.size(); ++k) {
                const double g = clip * operands[count + t].at(k);
                if (decayed) p.set(k, p.at(k) * (1 - lr * decay));
                m.set(k, m.at(k) + (1 - beta1) * (g - m.at(k)));
                v.set(k, beta2 * v.at(k) + (1 - beta2) * g * g);
                p.set(k, p.at(k) - lr / correction1 * m.at(k) / (std::sqrt(v.at(k)) / correction2_sqrt + eps));
            }
            out[t] = std::move(p);
            out[count + t] = std::move(m);
            out[2 * count + t] = std::move(v);
        }
        for (std::size_t t = 0; t < count && op.attributes.boolean("shadows", false); ++t)
            out.push_back(shadow_of(out[t]));
        return out;
    };
    def.result_names = {"parameter", "first_moment", "second_moment"};
    def.not_differentiable = "the update of a step is not differentiated";
    def.decompose = [](Builder& b, const Op& op) {
        const std::size_t count = adamw_groups.tensors(op.operands.size());
        const std::span<const Value> s(op.operands.data() + 4 * count, adamw_groups.scalars);
        Value one = b.scalar(DType::f32, 1);
        Value kept = b.sub(one, b.mul(s[0], s[4]));
        Value step_size = b.div(s[0], s[5]);
        const std::size_t groups = op.attributes.boolean("shadows", false) ? 4 : 3;
        std::vector<Value> out(groups * count);
        for (std::size_t t = 0; t < count; ++t) {
            const Type type = b.type(op.operands[t]);
            std::vector<Value> operands;
            for (std::size_t group = 0; group < 4; ++group) operands.push_back(op.operands[group * count + t]);
            const std::vector<DType> dtypes = {type.dtype, b.type(operands[2]).dtype, b.type(operands[3]).dtype};
            std::vector<Value> updated = for_each_member(b, operands, groups, [&](const std::vector<Value>& stored) {
                std::vector<Value> x;
                for (Value v : stored) x.push_back(b.cast(v, DType::f32));
                Value g = b.mul(x[1], s[7]);
                Value p = b.mul(x[0], type.rank() >= 2 ? kept : b.op("select", {s[8], kept, one}));
                Value m = b.add(x[2], b.mul(b.sub(g, x[2]), b.sub(one, s[1])));
                Value v = b.add(b.mul(x[3], s[2]), b.mul(b.mul(g, g), b.sub(one, s[2])));
                Value divisor = b.add(b.div(b.op("sqrt", {v}), s[6]), s[3]);
                return in_result_types(b, op, 4, {b.sub(p, b.div(b.mul(m, step_size), divisor)), m, v}, dtypes);
            });
            for (std::size_t r = 0; r < groups; ++r) out[r * count + t] = updated[r];
        }
        return out;
    };
    def.call = [](const Op& op, const Function& f) {
        const std::size_t count = adamw_groups.tensors(op.operands.size());
        const bool shadows = op.attributes.boolean("shadows", false);
        return MenuCall{
            "adamw", arena_fields(op, f, count, {"first_moments", "second_moments"}),
            fmt::format("AdamW on all parameters{}, in one pass over memory", shadows ? " and their bf16 shadows" : ""),
            "optim/adamw.h", "one pass over all parameters"};
    };
    auto scalars = [](double decay_all) {
        return std::vector<SampleOperand>{f32_of({}, {0.01}),  f32_of({}, {0.9}), f32_of({}, {0.999}),
                                          f32_of({}, {1e-8}),  f32_of({}, {0.1}), f32_of({}, {0.19}),
                                          f32_of({}, {0.045}), f32_of({}, {0.5}), bool_of({}, {decay_all})};
    };
    Sample one{"one matrix", {f32({2, 3}), f32({2, 3}), f32({2, 3}), f32({2, 3}, 0, 1)}, {}};
    for (SampleOperand& s : scalars(0)) one.operands.push_back(s);
    Sample two{"a vector that decays, and a matrix",
               {f32({3}), f32({2, 2}), f32({3}), f32({2, 2}), f32({3}), f32({2, 2}), f32({3}, 0, 1), f32({2, 2}, 0, 1)},
               {}};
    for (SampleOperand& s : scalars(1)) two.operands.push_back(s);
    def.samples = {one, two};
    const std::optional<Type> scalar = f32_type({});
    def.errors = {{{f32_type({2}), f32_type({3}), f32_type({2}), f32_type({2}), scalar, scalar, scalar, scalar, scalar,
                    scalar, scalar, scalar, bool_type({})},
                   {},
                   "gradient 0 is f32[3], the parameter is f32[2]"},
                  {{f32_type({2}), scalar}, {}, "2 operands given: groups of equal length and 9 scalars expected"}};
    return def;
}

// ---- SGD
// -------------------------------------------------------------------------------------------------------------------

OpDef sgd() {
    OpDef def;
    def.name = "sgd";
    def.level = OpLevel::composite;
    def.summary =
        "SGD on all parameters at once: (parameters, gradients, momentum buffers, learning_rate, momentum, "
        "weight_decay, "
        "clip_factor, decay_all) -> (parameters, momentum buffers); without buffers and momentum where the attribute "
        "`momentum` is false.";
    def.formula =
        "g = clip_factor gradient + weight_decay p where it decays; b = momentum b + g, b = 0 at the start; p - "
        "learning_rate b (g where there is no momentum)";
    def.source = "torch.optim.SGD without dampening and without Nesterov's variant";
    def.optimizer = sgd_groups;
    def.infer = [](const InferInput& in) {
        if (in.attributes.boolean("momentum"))
            return infer_update(in, sgd_groups(in.attributes), {"parameter", "gradient", "momentum buffer"},
                                {"learning_rate", "momentum", "weight_decay", "clip_factor"});
        return infer_update(in, sgd_groups(in.attributes), {"parameter", "gradient"},
                            {"learning_rate", "weight_decay", "clip_factor"});
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type>) {
        const bool momentum = op.attributes.boolean("momentum");
        const OptimizerGroups groups = sgd_groups(op.attributes);
        const std::size_t count = groups.tensors(operands.size());
        const std::span<const Tensor> s = operands.subspan(groups.groups * count);
        const double lr = s[0].at(0), factor = momentum ? s[1].at(0) : 0;
        const std::span<const Tensor> rest = s.subspan(momentum ? 2 : 1);
        const double decay = rest[0].at(0), clip = rest[1].at(0);
        std::vector<Tensor> out((groups.groups - 1) * count);
        for (std::size_t t = 0; t < count; ++t) {
            Tensor p = operands[t];
            Tensor buffer = momentum ? operands[2 * count + t] : Tensor(p.type);
            const bool decayed = decays(op, t, p.type, rest[2].at(0) != 0);
            for (std::int64_t k = 0; k < p.size(); ++k) {
                const double g = clip * operands[count + t].at(k) + (decayed ? decay * p.at(k) : 0);
                buffer.set(k, factor * buffer.at(k) + g);
                p.set(k, p.at(k) - lr * buffer.at(k));
            }
            out[t] = std::move(p);
            if (momentum) out[count + t] = std::move(buffer);
        }
        for (std::size_t t = 0; t < count && op.attributes.boolean("shadows", false); ++t)
            out.push_back(shadow_of(out[t]));
        return out;
    };
    def.result_names = {"parameter", "momentum"};
    def.not_differentiable = "the update of a step is not differentiated";
    def.decompose = [](Builder& b, const Op& op) {
        const bool momentum = op.attributes.boolean("momentum");
        const OptimizerGroups groups = sgd_groups(op.attributes);
        const std::size_t count = groups.tensors(op.operands.size());
        const std::span<const Value> s(op.operands.data() + groups.groups * count, groups.scalars);
        const std::span<const Value> rest = s.subspan(momentum ? 2 : 1);
        Value zero = b.scalar(DType::f32, 0);
        const std::size_t made = groups.groups - 1 + (op.attributes.boolean("shadows", false) ? 1 : 0);
        std::vector<Value> out(made * count);
        for (std::size_t t = 0; t < count; ++t) {
            const Type type = b.type(op.operands[t]);
            std::vector<Value> operands;
            for (std::size_t group = 0; group < groups.groups; ++group)
                operands.push_back(op.operands[group * count + t]);
            std::vector<DType> dtypes = {type.dtype};
            if (momentum) dtypes.push_back(b.type(operands[2]).dtype);
            std::vector<Value> updated = for_each_member(b, operands, made, [&](const std::vector<Value>& stored) {
                std::vector<Value> x;
                for (Value v : stored) x.push_back(b.cast(v, DType::f32));
                Value decay = type.rank() >= 2 ? rest[0] : b.op("select", {rest[2], rest[0], zero});
                Value g = b.add(b.mul(x[1], rest[1]), b.mul(x[0], decay));
                if (momentum) g = b.add(b.mul(x[2], s[1]), g);
                std::vector<Value> result = {b.sub(x[0], b.mul(g, s[0]))};
                if (momentum) result.push_back(g);
                return in_result_types(b, op, groups.groups, result, dtypes);
            });
            for (std::size_t r = 0; r < updated.size(); ++r) out[r * count + t] = updated[r];
        }
        return out;
    };
    def.call = [](const Op& op, const Function& f) {
        const OptimizerGroups groups = sgd_groups(op.attributes);
        const std::size_t count = groups.tensors(op.operands.size());
        std::vector<CallField> fields =
            arena_fields(op, f, count, std::vector<std::string>(groups.groups - 2, "momentum_buffers"));
        const bool shadows = op.attributes.boolean("shadows", false);
        return MenuCall{
            "sgd", fields,
            fmt::format("SGD on all parameters{}, in one pass over memory", shadows ? " and their bf16 shadows" : ""),
            "optim/sgd.h", "one pass over all parameters"};
    };
    def.samples = {
        {"plain",
         {f32({2, 3}), f32({2, 3}), f32_of({}, {0.1}), f32_of({}, {0.01}), f32_of({}, {0.5}), bool_of({}, {0})},
         {{"momentum", false}}},
        {"momentum",
         {f32({4}), f32({4}), f32({4}), f32_of({}, {0.1}), f32_of({}, {0.9}), f32_of({}, {0.01}), f32_of({}, {1}),
          bool_of({}, {1})},
         {{"momentum", true}}}};
    def.errors = {{{f32_type({2}), f32_type({2}), f32_type({}), f32_type({}), f32_type({}), f32_type({})},
                   {{"momentum", false}},
                   "decay_all is f32[], bool[] expected"}};
    return def;
}

// ---- the norm of all gradients
// -----------------------------------------------------------------------------------------------

Value squares_of(Builder& b, const Op& op) {
    Value sum;
    for (Value v : op.operands) {
        const Type type = b.type(v);
        for (std::int64_t k = 0; k < (type.is_family() ? type.count : 1); ++k) {
            Value x = type.is_family() ? b.op("member", {v}, {{"index", k}}) : v;
            x = b.cast(x, DType::f32);
            Dims axes;
            for (std::int64_t d = 0; d < type.rank(); ++d) axes.push_back(d);
            Value squares = b.reduce_sum(b.mul(x, x), axes);
            sum = sum ? b.add(sum, squares) : squares;
        }
    }
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
        double sum = 0;
        for (const Tensor& t : operands)
            for (double x : t.f) sum += x * x;
        return std::vector<Tensor>{Tensor::scalar(DType::f32, std::sqrt(sum))};
    };
    def.not_differentiable = "gradients are not differentiated again";
    def.decompose = [](Builder& b, const Op& op) { return std::vector<Value>{b.op("sqrt", {squares_of(b, op)})}; };
    def.call = [](const Op& op, const Function& f) {
        return MenuCall{"global_norm",
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
    def.reference = [norm = def.reference](const Op& op, std::span<const Tensor> operands,
                                           std::span<const Type> types) {
        const double y = norm(op, operands, types)[0].at(0);
        return std::vector<Tensor>{Tensor::scalar(DType::f32, y * y)};
    };
    def.decompose = [](Builder& b, const Op& op) { return std::vector<Value>{squares_of(b, op)}; };
    def.call = [](const Op& op, const Function& f) {
        return MenuCall{"sum_of_squares",
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
    def.summary = "The norm f32[] from the sum of squares f32[] of all ranks.";
    def.formula = "y = sqrt(x)";
    def.source = "torch.nn.utils.clip_grad_norm_ with norm_type = 2";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        require_scalar(in, 0, "sum");
        return std::vector<Type>{in.operand(0)};
    };
    def.reference = [](const Op&, std::span<const Tensor> operands, std::span<const Type>) {
        return std::vector<Tensor>{Tensor::scalar(DType::f32, std::sqrt(operands[0].at(0)))};
    };
    def.not_differentiable = "gradients are not differentiated again";
    def.decompose = [](Builder& b, const Op& op) { return std::vector<Value>{b.op("sqrt", {op.operands[0]})}; };
    def.call = [](const Op&, const Function&) {
        return MenuCall{"norm_of_squares",
                        {named("scalars", CallField::Kind::scalars), operand_field("sum", 0)},
                        "the norm of all gradients, and the factor that clips them",
                        "optim/global_norm.h",
                        "the norm of all gradients"};
    };
    def.samples = {{"above", {f32_of({}, {9})}, {}}, {"zero", {f32_of({}, {0})}, {}}};
    def.errors = {{{f32_type({2})}, {}, "sum is f32[2], f32[] expected"}};
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
    def.call = [](const Op&, const Function&) { return MenuCall{"", {}, "global_norm has set it"}; };
    def.samples = {{"above", {f32_of({}, {3}), f32_of({}, {1})}, {}},
                   {"below", {f32_of({}, {0.5}), f32_of({}, {1})}, {}},
                   {"off", {f32_of({}, {3}), f32_of({}, {0})}, {}}};
    def.errors = {{{f32_type({2}), f32_type({})}, {}, "norm is f32[2], f32[] expected"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_optimizer() {
    return {adamw(), sgd(), global_norm(), sum_of_squares(), norm_of_squares(), clip_factor()};
}

}  // namespace thunderc
