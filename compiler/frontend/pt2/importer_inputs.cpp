// SPDX-License-Identifier: Apache-2.0
// What a program takes: inputs with their dimensions, parameters, buffers and constants.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

#include "compiler/frontend/aten/complex.h"
#include "compiler/frontend/pt2/guards.h"
#include "compiler/frontend/pt2/importer.h"
#include "compiler/frontend/pt2/shape_expression.h"
#include "compiler/frontend/shared/inputs.h"
#include "compiler/support/error.h"

namespace thunderc::pt2_frontend {
namespace {

// Above what any tensor has.
constexpr std::int64_t largest_size = std::int64_t{1} << 40;

}  // namespace

void Importer::import_inputs() {
    std::vector<std::string> names;
    for (const InputSpec& spec : program_->inputs)
        if (spec.kind == InputSpec::Kind::input) names.push_back(spec.name);
    require_bound_names(names);

    std::vector<DeclaredInput> declared;
    std::vector<const TensorMeta*> metas;
    std::vector<std::tuple<std::size_t, std::size_t, std::string>> derived;  // input, dimension, expression
    for (const InputSpec& spec : program_->inputs) {
        if (spec.kind == InputSpec::Kind::other)
            fail(fmt::format("an input of the model is {}, which is not supported", spec.target),
                 "export a model of tensors");
        if (spec.kind != InputSpec::Kind::input) continue;
        const TensorMeta* of = meta(spec.name);
        if (of == nullptr)
            fail(fmt::format("the input {} is a number, which is not supported", spec.name),
                 "make it a constant of the model, or a tensor");
        if (const auto given = options_.bound.find(spec.name); given != options_.bound.end()) {
            const std::optional<Dims> wanted = dims(*of);
            if (!wanted) {
                Diagnostic d;
                d.message = fmt::format("--bind {}: the input's shape is not fixed", spec.name);
                d.help = "export the model with a fixed shape of it";
                throw UsageError(std::move(d));
            }
            const Type type = Type::tensor(dtype(of->type, "the input " + spec.name), *wanted);
            bind(spec.name, aten::Binding::of(bound_constant(spec.name, given->second, type)));
            continue;
        }
        DeclaredInput& one = declared.emplace_back(DeclaredInput{spec.name, {}});
        metas.push_back(of);
        for (const Size& size : of->sizes) {
            const std::optional<std::string> symbol = symbol_of(size.expression);
            if (!size.expression.empty() && !symbol) {
                derived.emplace_back(declared.size() - 1, one.shape.size(), size.expression);
                one.shape.push_back({0, ""});
            } else {
                one.shape.push_back({size.value, symbol.value_or("")});
            }
        }
    }
    BoundInputs bound = bind_inputs(declared, options_);
    symbols_ = bound.symbols;
    for (const auto& [input, dimension, expression] : derived) {
        const std::optional<std::int64_t> value = evaluate(expression, symbols_);
        if (!value)
            fail(fmt::format("dimension {} of the input {} is {}, which nothing binds", dimension, declared[input].name,
                             expression),
                 "export the model with a dimension of its own for it");
        bound.inputs[input].dims[dimension] = *value;
    }
    check_ranges(bound.inputs);
    for (std::size_t k = 0; k < metas.size(); ++k) {
        const ShapedInput& input = bound.inputs[k];
        ArgInfo info = input_info(input, options_, report_);
        const Type type = Type::tensor(dtype(metas[k]->type, "the input " + input.name), input.dims);
        if (type.elements() == 0) {  // nobody has to be asked for its numbers
            bind(input.name, aten::Binding::of(builder_.splat(type, 0)));
            report_.done("input", input.name,
                         fmt::format("is a constant without elements, [{}]", to_string(type.dims)));
            continue;
        }
        bind(input.name, aten::Binding::of(module_.main().add_argument(type, value_name(input.name), std::move(info))));
    }
}

// Which sizes the model was exported for, by the author or by what the code asks. The file has no names of dimensions:
// they are told by the inputs that have them.
void Importer::check_ranges(std::span<const ShapedInput> inputs) const {
    const auto place_of = [&](const std::string& symbol) {
        for (const InputSpec& spec : program_->inputs) {
            const TensorMeta* of = spec.kind == InputSpec::Kind::input ? meta(spec.name) : nullptr;
            for (std::size_t d = 0; of != nullptr && d < of->sizes.size(); ++d)
                if (symbol_of(of->sizes[d].expression) == symbol)
                    return fmt::format("dimension {} of the input {}", d, spec.name);
        }
        return fmt::format("the dimension {}", symbol);
    };
    const std::string help = "choose another value for --batch, --seq or --dim, or export the model with a wider range";
    for (const auto& [symbol, value] : symbols_) {
        const auto range = program_->ranges.find(symbol);
        if (range == program_->ranges.end()) continue;
        const auto& [least, most] = range->second;
        if ((!least || value >= *least) && (!most || value <= *most)) continue;
        Diagnostic d;
        d.message = fmt::format("{} is {}, and the model was exported for others", place_of(symbol), value);
        d.expected = !most || *most >= largest_size ? fmt::format("{} or more", least.value_or(0))
                                                    : fmt::format("{} to {}", least.value_or(0), *most);
        d.actual = std::to_string(value);
        d.help = help;
        throw UsageError(std::move(d));
    }
    for (const std::string& code : program_->guards) {
        const Guard guard = read_guard(code, [&](std::string_view input, std::size_t dimension) {
            for (const ShapedInput& one : inputs)
                if (one.name == input && dimension < one.dims.size()) return std::optional(one.dims[dimension]);
            return std::optional<std::int64_t>();
        });
        if (!guard.holds) report_.declined("guard", aten::plain(guard.text), "is of a form that is not looked at");
        if (guard.holds.value_or(true)) continue;
        Diagnostic d;
        d.message = "the model was exported under a condition that does not hold for these sizes";
        d.expected = aten::plain(guard.text);
        for (const ShapedInput& one : inputs)
            d.actual += fmt::format("{}{} [{}]", d.actual.empty() ? "" : ", ", one.name, to_string(one.dims));
        d.help = help;
        throw UsageError(std::move(d));
    }
}

// Running statistics of batch norms: checkpoints have them, and --init gives others.
void Importer::find_statistics(const Graph& graph) {
    for (const Call& call : graph.calls) {
        bool moves = call.target.find("batch_norm_with_update") != std::string::npos;
        std::vector<std::string> names;
        for (const NamedArgument& argument : call.arguments) {
            if (argument.name == "training") moves = argument.value.integer != 0;
            if ((argument.name == "running_mean" || argument.name == "running_var") &&
                argument.value.kind == Argument::Kind::name)
                names.push_back(argument.value.text);
            if (argument.value.graph) find_statistics(*argument.value.graph);
        }
        if (call.target.find("batch_norm") == std::string::npos) continue;
        for (const std::string& name : names) statistics_[name] = statistics_[name] || moves;
    }
}

// Parameters, buffers and constants, by the signature. Two names of one tensor are one parameter, which is trained
// where one of its names is; by the others it is read as it is at each step, and has no gradient through them.
void Importer::import_tensors() {
    std::map<std::string, std::size_t> first;  // argument of main, by where the tensor lies
    std::map<std::string, std::vector<std::string>> names;
    for (const auto& [name, payload] : program_->payloads)
        if (payload.meta && !payload.pickled) names[weights_.place(name)].push_back(name);
    const auto requires_grad = [&](const InputSpec& spec) {
        const TensorMeta* of = spec.kind == InputSpec::Kind::parameter ? meta(spec.name) : nullptr;
        return spec.kind == InputSpec::Kind::parameter && (of == nullptr || of->requires_grad);
    };
    std::set<std::string> trainable;  // places
    for (const InputSpec& spec : program_->inputs)
        if (requires_grad(spec)) trainable.insert(weights_.place(spec.target));
    Function& main = module_.main();
    for (const InputSpec& spec : program_->inputs) {
        const bool parameter = spec.kind == InputSpec::Kind::parameter;
        if (!parameter && spec.kind != InputSpec::Kind::buffer && spec.kind != InputSpec::Kind::constant) continue;
        const std::string what = fmt::format("the {} {}",
                                             parameter                              ? "parameter"
                                             : spec.kind == InputSpec::Kind::buffer ? "buffer"
                                                                                    : "constant",
                                             spec.target);
        if (spec.kind == InputSpec::Kind::buffer) buffers_[spec.name] = spec.target;
        const Type type = weights_.type(spec.target);
        if (!is_float(type.dtype) || type.elements() == 0) {  // nothing that is trained
            aten::Binding fixed = aten::Binding::of(builder_.constant(ConstExpr::dense(weights_.tensor(spec.target))));
            (spec.kind == InputSpec::Kind::buffer ? fixed.buffer : fixed.parameter) = spec.target;
            bind(spec.name, std::move(fixed));
            continue;
        }
        const std::string place = weights_.place(spec.target);
        const bool moves_with_another = !place.empty() && trainable.contains(place) && !requires_grad(spec);
        const auto bound = [&](Value v) {
            aten::Binding same = aten::Binding::of(moves_with_another ? builder_.op("stop_gradient", {v}) : v);
            (parameter ? same.parameter : same.buffer) = spec.target;
            bind(spec.name, std::move(same));
        };
        if (!place.empty() && (parameter || moves_with_another)) {
            if (const auto at = first.find(place); at != first.end()) {
                bound(main.arguments[at->second]);
                continue;
            }
        }
        if (!parameter && !weights_.shares_storage(spec.target).empty())
            for (const InputSpec& other : program_->inputs)
                if (requires_grad(other) && weights_.overlap(spec.target, other.target))
                    fail(fmt::format("{} has numbers in common with the parameter {}, and is another tensor: it would "
                                     "change as that is trained, which a program does not do",
                                     what, other.target),
                         "make it of the parameter in forward(), or give it numbers of its own: clone() it in "
                         "__init__");
        const Payload& payload = program_->payloads.at(spec.target);
        const ScalarType part = aten::part_of_complex(payload.meta->type);
        const bool pairs = part != ScalarType::unknown && !parameter;
        dtype(pairs ? part : payload.meta->type, what);
        ArgInfo info;
        info.kind = parameter ? ArgInfo::Kind::parameter : ArgInfo::Kind::constant;
        if (const auto statistic = statistics_.find(spec.name); statistic != statistics_.end() && !parameter) {
            const bool moves = statistic->second && options_.transform == Transform::train;
            info.kind = moves ? ArgInfo::Kind::buffer : ArgInfo::Kind::parameter;
            info.trainable = false;
            info.init = spec.target.ends_with("var") ? ArgInfo::Init::ones : ArgInfo::Init::zeros;
        }
        info.names = {aten::plain(spec.target)};
        info.sources = {weights_.source(spec.target)};
        if (info.kind == ArgInfo::Kind::constant && !info.sources.front()->read)
            fail(fmt::format("the numbers of {} are not in the archive", what),
                 "constants are compiled into the program: export the model with them; those of parameters may be "
                 "absent");
        if (parameter) {
            info.trainable = requires_grad(spec) || moves_with_another;
            std::vector<std::string> others;
            if (!place.empty())
                for (const std::string& name : names[place])
                    if (name != spec.target) others.push_back(aten::plain(name));
            if (const std::string beside = weights_.shares_storage(spec.target); !beside.empty())
                report_.warning("shared storage", spec.target,
                                fmt::format("has numbers in common with {}, and is another tensor: the two are trained "
                                            "apart, where the model trains them as one",
                                            beside));
            if (!others.empty())
                report_.done("tied", spec.target, fmt::format("also {}: one tensor", fmt::join(others, ", ")));
            info.aliases = {std::move(others)};
            first.emplace(place, main.arguments.size());
        }
        const Value v = main.add_argument(type, value_name(spec.target), std::move(info));
        if (moves_with_another) {
            bound(v);
            continue;
        }
        aten::Binding binding = pairs ? aten::complex_of_pairs(builder_, v) : aten::Binding::of(v);
        (parameter ? binding.parameter : binding.buffer) = spec.target;
        bind(spec.name, std::move(binding));
    }
}

}  // namespace thunderc::pt2_frontend
