// SPDX-License-Identifier: Apache-2.0
// What a program takes: inputs with their dimensions, parameters, buffers and constants.
#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "compiler/frontend/pt2/guards.h"
#include "compiler/frontend/pt2/importer.h"
#include "compiler/frontend/pt2/shape_expression.h"
#include "compiler/frontend/shared/inputs.h"
#include "compiler/support/error.h"

namespace thunderc::pt2_frontend {
namespace {

// Above what any tensor has.
constexpr std::int64_t largest_size = std::int64_t{1} << 40;

constexpr const char* range_help =
    "choose another value for --batch, --seq or --dim, or export the model with a wider range";

std::optional<aten::NamedTensor::Kind> kind_of(InputSpec::Kind kind) {
    switch (kind) {
        case InputSpec::Kind::parameter: return aten::NamedTensor::Kind::parameter;
        case InputSpec::Kind::buffer: return aten::NamedTensor::Kind::buffer;
        case InputSpec::Kind::constant: return aten::NamedTensor::Kind::constant;
        default: return std::nullopt;
    }
}

const Payload& payload_of(const Program& program, const std::string& name) {
    const auto at = program.payloads.find(name);
    if (at == program.payloads.end())
        fail(fmt::format("the archive has no tensor {}", name), "the archive is damaged: save the model again");
    if (at->second.pickled || !at->second.meta)
        fail(fmt::format("the tensor {} is of a class of its own, which the archive keeps as a pickle", name),
             "export a model of plain tensors: pickles are not read, since they run what is in them");
    return at->second;
}

aten::StoredTensor stored(const std::string& name, const Payload& payload) {
    const auto fixed = [&](const Size& size) {
        if (!size.expression.empty() || size.value < 0)
            fail(fmt::format("the shape of the weight {} is not fixed", name), "save the model again");
        return size.value;
    };
    aten::StoredTensor out;
    out.name = name;
    out.entry = payload.entry;
    out.type = payload.meta->type;
    for (const Size& size : payload.meta->sizes) out.dims.push_back(fixed(size));
    for (const Size& stride : payload.meta->strides) out.strides.push_back(fixed(stride));
    out.offset = fixed(payload.meta->offset);
    return out;
}

}  // namespace

void Importer::import_inputs() {
    std::vector<std::string> names;
    for (const InputSpec& spec : program_->inputs)
        if (spec.kind == InputSpec::Kind::input) names.push_back(spec.name);
    require_bound_names(names);

    std::vector<DeclaredInput> declared;
    std::vector<const TensorMeta*> metas;
    std::vector<std::tuple<std::size_t, std::size_t, std::string>> derived;  // input, dimension, expression
    std::set<std::string> symbols;                                           // that are dimensions of inputs
    for (const InputSpec& spec : program_->inputs)
        if (const TensorMeta* of = spec.kind == InputSpec::Kind::input ? meta(spec.name) : nullptr)
            for (const Size& size : of->sizes)
                if (const std::optional<std::string> symbol = symbol_of(size.expression)) symbols.insert(*symbol);
    // Of what is no dimension itself, the first that follows from it says what it is: 2*s77, bound as such.
    std::map<std::string, Linear> follows;  // by symbol
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
            std::optional<std::string> symbol = symbol_of(size.expression);
            const std::optional<Linear> linear = symbol ? std::nullopt : linear_form(size.expression);
            if (linear && !symbols.contains(linear->symbol) &&
                follows.try_emplace(linear->symbol, *linear).first->second.text() == linear->text())
                symbol = linear->text();
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
    for (const auto& [symbol, linear] : follows) {
        const std::int64_t is = symbols_.at(linear.text());
        const std::optional<std::int64_t> value = linear.solve(is);
        if (!value) {
            Diagnostic d;
            d.message = fmt::format("{} is {}, and the model was exported for others", place_of(linear.text()), is);
            d.expected = fmt::format("{}, for whole numbers {}", linear.text(), symbol);
            d.actual = std::to_string(is);
            d.help = range_help;
            throw UsageError(std::move(d));
        }
        symbols_[symbol] = *value;
    }
    for (const auto& [input, dimension, expression] : derived) {
        const std::optional<std::int64_t> value = evaluate(expression, symbols_);
        if (!value)
            fail(fmt::format("dimension {} of the input {} is {}, which nothing binds", dimension, declared[input].name,
                             expression.substr(0, 200)),
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

// The file has no names of dimensions: they are told by the inputs that have them.
std::string Importer::place_of(const std::string& symbol) const {
    for (const InputSpec& spec : program_->inputs) {
        const TensorMeta* of = spec.kind == InputSpec::Kind::input ? meta(spec.name) : nullptr;
        for (std::size_t d = 0; of != nullptr && d < of->sizes.size(); ++d) {
            const std::optional<Linear> linear = linear_form(of->sizes[d].expression);
            if (linear && linear->text() == symbol) return fmt::format("dimension {} of the input {}", d, spec.name);
        }
    }
    return fmt::format("the dimension {}", symbol);
}

// Which sizes the model was exported for, by the author or by what the code asks.
void Importer::check_ranges(std::span<const ShapedInput> inputs) const {
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
        d.help = range_help;
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
        d.help = range_help;
        throw UsageError(std::move(d));
    }
}

// Parameters, buffers and constants, by the signature.
void Importer::import_tensors() {
    std::vector<aten::NamedTensor> tensors;
    std::set<std::string> named;
    for (const InputSpec& spec : program_->inputs) {
        const std::optional<aten::NamedTensor::Kind> kind = kind_of(spec.kind);
        if (!kind) continue;
        const bool parameter = spec.kind == InputSpec::Kind::parameter;
        const TensorMeta* of = meta(spec.name);
        aten::NamedTensor& made = tensors.emplace_back();
        made.kind = *kind;
        made.name = spec.target;
        made.binding = spec.name;
        made.stored = stored(spec.target, payload_of(*program_, spec.target));
        made.requires_grad = parameter && (of == nullptr || of->requires_grad);
        named.insert(spec.target);
        if (spec.kind == InputSpec::Kind::buffer) buffers_[spec.name] = spec.target;
    }
    // Of tied parameters the signature may have one name, and the list of weights has all.
    for (const auto& [name, payload] : program_->payloads) {
        if (!payload.meta || payload.pickled || named.contains(name)) continue;
        aten::NamedTensor& made = tensors.emplace_back();
        made.kind = aten::NamedTensor::Kind::parameter;
        made.name = name;
        made.stored = stored(name, payload);
        made.requires_grad = false;
    }
    aten::Importer::import_tensors(archive_, tensors);
}

}  // namespace thunderc::pt2_frontend
