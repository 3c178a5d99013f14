// SPDX-License-Identifier: Apache-2.0
#include "compiler/user_functions/user_op.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ops/composite.h"
#include "compiler/support/error.h"
#include "compiler/user_functions/call_struct.h"

namespace thunderc {
namespace {

// A tensor that the backward function reads or gives, by its name.
UserTensor tensor_named(const UserFunction& f, const std::string& name) {
    for (const auto* tensors : {&f.inputs, &f.outputs, &f.saved})
        for (const UserTensor& t : *tensors)
            if (t.name == name || "d" + t.name == name) return {name, t.type};
    throw InternalError(fmt::format("{} has no {}", f.name, name));
}

std::vector<UserTensor> tensors_named(const UserFunction& f, const std::vector<std::string>& names) {
    std::vector<UserTensor> out;
    for (const std::string& name : names) out.push_back(tensor_named(f, name));
    return out;
}

std::vector<UserTensor> joined(std::vector<UserTensor> a, const std::vector<UserTensor>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
}

// In the order in which inputs, outputs and saved values name them.
std::vector<std::string> letters(const UserFunction& f) {
    std::vector<std::string> out;
    for (const auto* tensors : {&f.inputs, &f.outputs, &f.saved})
        for (const UserTensor& t : *tensors)
            for (const std::string& size : t.type.dims)
                for (const std::string& letter : letters_of(size, t.name))
                    if (std::find(out.begin(), out.end(), letter) == out.end()) out.push_back(letter);
    return out;
}

bool has_leading(const UserFunction& f) {
    return std::any_of(f.inputs.begin(), f.inputs.end(), [](const UserTensor& t) { return t.type.leading; });
}

// "... C": dimensions by the names that the call has for sizes; those that are made of letters have none.
std::string shape_of(const SizedType& type) {
    if (!std::all_of(type.dims.begin(), type.dims.end(), is_letter)) return {};
    std::string out = type.leading ? "..." : "";
    for (const std::string& size : type.dims) out += (out.empty() ? "" : " ") + size;
    return type.dims.empty() ? std::string{} : out;
}

std::string first_dimension(const SizedType& type) {
    return type.leading ? "..." : type.dims.empty() ? std::string{} : type.dims.front();
}

CallField shaped(CallField field, const SizedType& type) {
    return std::move(field).shaped(shape_of(type));
}

std::vector<CallField> fields_of(const UserFunction& f, const std::vector<UserTensor>& results,
                                 const std::vector<UserTensor>& operands) {
    std::vector<CallField> fields;
    for (std::size_t k = 0; k < results.size(); ++k)
        fields.push_back(shaped(result_field(results[k].name, k), results[k].type));
    for (std::size_t k = 0; k < operands.size(); ++k)
        fields.push_back(shaped(operand_field(operands[k].name, k), operands[k].type));
    if (has_leading(f)) fields.push_back(literal_field("rows", std::string{}));
    for (const std::string& letter : letters(f)) fields.push_back(literal_field(letter, std::string{}));
    for (const auto& [name, value] : f.attributes) fields.push_back(literal_field(name, std::string{}));
    return fields;
}

std::string cpp_text(const Attribute& value) {
    if (const auto* b = std::get_if<bool>(&value)) return *b ? "true" : "false";
    if (const auto* i = std::get_if<std::int64_t>(&value)) return std::to_string(*i);
    if (const auto* d = std::get_if<double>(&value)) return float_literal(*d);
    if (const auto* list = std::get_if<std::vector<std::int64_t>>(&value))
        return fmt::format("{{{}}}", fmt::join(*list, ", "));
    std::string out = "\"";
    for (const char c : std::get<std::string>(value)) {
        const auto byte = static_cast<unsigned char>(c);
        if (c == '"' || c == '\\')
            out += std::string{'\\', c};
        else if (byte < 0x20 || byte >= 0x7f)
            out += fmt::format("\\{:03o}", byte);  // three digits, so that it ends whatever comes behind it
        else
            out += c;
    }
    return out + "\"";
}

// What it is where an operator does not say.
std::string attribute_text(const UserFunction& f, const std::string& name) {
    for (const auto& [known, value] : f.attributes)
        if (known == name) return cpp_text(value);
    throw InternalError(fmt::format("{} has no attribute {}", f.name, name));
}

Sizes bound(const std::vector<UserTensor>& tensors, const InferInput& in) {
    Sizes sizes;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        const Type& actual = in.operand(k);
        require(
            actual.is_tensor() && actual.dtype == tensors[k].type.dtype && bind_sizes(tensors[k].type, actual, sizes),
            fmt::format("{} is {}, and {} is expected", tensors[k].name, to_string(actual),
                        to_string(tensors[k].type)));
    }
    return sizes;
}

std::vector<Type> types_of(const std::vector<UserTensor>& results, const Sizes& sizes) {
    std::vector<Type> out;
    for (const UserTensor& t : results) {
        const std::optional<Type> type = type_of(t.type, sizes);
        require(type.has_value(), fmt::format("{} cannot be {}: its sizes are no whole numbers of at least 0", t.name,
                                              to_string(t.type)));
        out.push_back(*type);
    }
    return out;
}

bool knows_letters(const SizedType& type, const Sizes& sizes) {
    if (type.leading && !sizes.leading) return false;
    for (const std::string& size : type.dims)
        for (const std::string& letter : letters_of(size, size))
            if (!sizes.letters.contains(letter)) return false;
    return true;
}

// Operands are of the types that the file says, and results follow from them.
std::vector<Type> infer(const std::vector<UserTensor>& operands, const std::vector<UserTensor>& results,
                        const InferInput& in) {
    require(in.operands.size() == operands.size(),
            fmt::format("{} operands are given, and {} are expected: {}", in.operands.size(), operands.size(),
                        fmt::join(names_of(operands), ", ")));
    const Sizes sizes = bound(operands, in);
    for (std::size_t k = 0; k < operands.size(); ++k) {
        const std::optional<Type> expected = type_of(operands[k].type, sizes);
        // What a backward function reads may leave letters unknown that it is not given.
        require(
            expected ? *expected == in.operand(k) : !knows_letters(operands[k].type, sizes),
            fmt::format("{} is {}, and {} is expected, which is {} here", operands[k].name, to_string(in.operand(k)),
                        to_string(operands[k].type), expected ? to_string(*expected) : "no whole number"));
    }
    return types_of(results, sizes);
}

RuntimeCall call_of(const UserFunction& f, const std::string& function, const std::vector<UserTensor>& operands,
                    const std::vector<UserTensor>& results, const Op& op, const Function& in) {
    RuntimeCall call;
    call.function = function;
    call.header = f.header_path();
    call.header_comment = fmt::format("{}, of {}", f.name, f.file);
    call.comment = f.summary.empty() ? fmt::format("{} of {}", function, f.file) : f.summary;
    Sizes sizes;
    for (std::size_t k = 0; k < operands.size(); ++k) bind_sizes(operands[k].type, in.type(op.operands[k]), sizes);
    for (std::size_t k = 0; k < results.size(); ++k) bind_sizes(results[k].type, in.type(op.results[k]), sizes);
    const std::vector<std::string> members =
        struct_members(struct_body(f.header.text, struct_of_call(f.header.text, function)));
    for (CallField& field : fields_of(f, results, operands)) {
        if (std::find(members.begin(), members.end(), field.name) == members.end()) continue;  // a size
        if (field.kind == CallField::Kind::literal) {
            if (field.name == "rows")
                field.literal = std::to_string(sizes.rows());
            else if (const auto size = sizes.letters.find(field.name); size != sizes.letters.end())
                field.literal = std::to_string(size->second);
            else if (const Attribute* value = op.attributes.find(field.name))
                field.literal = cpp_text(*value);
            else
                field.literal = attribute_text(f, field.name);
        }
        call.fields.push_back(std::move(field));
    }
    return call;
}

}  // namespace

std::vector<std::string> names_of(const std::vector<UserTensor>& tensors) {
    std::vector<std::string> out;
    for (const UserTensor& t : tensors) out.push_back(t.name);
    return out;
}

std::vector<std::string> readable_names(const UserFunction& f) {
    std::vector<std::string> out;
    for (const UserTensor& t : f.outputs)
        if (is_float(t.type.dtype)) out.push_back("d" + t.name);
    for (const auto* tensors : {&f.inputs, &f.outputs, &f.saved})
        for (const UserTensor& t : *tensors) out.push_back(t.name);
    return out;
}

std::vector<CallField> forward_fields(const UserFunction& f) {
    return fields_of(f, joined(f.outputs, f.saved), f.inputs);
}

std::vector<CallField> backward_fields(const UserFunction& f) {
    return fields_of(f, tensors_named(f, f.backward->gives), tensors_named(f, f.backward->reads));
}

bool may_be_left_out(const UserFunction& f, std::string_view member) {
    const std::vector<std::string> sizes = letters(f);
    return member == "rows" || std::find(sizes.begin(), sizes.end(), member) != sizes.end();
}

Sizes sizes_for_check(const UserFunction& f) {
    Sizes sizes;
    std::int64_t next = 8;  // even, so that halves are whole
    for (const std::string& letter : letters(f)) {
        const auto given = f.sizes.find(letter);
        sizes.letters[letter] = given == f.sizes.end() ? next : given->second;
        if (given == f.sizes.end()) next += 4;
    }
    if (has_leading(f)) sizes.leading = Dims{2, 3};
    return sizes;
}

OpDef forward_op(const UserFunction& f) {
    OpDef def;
    def.name = f.op();
    def.level = OpLevel::composite;
    def.summary = f.summary.empty() ? fmt::format("{}, a function of {}.", f.name, f.file) : f.summary;
    def.formula = def.summary;
    def.source = f.file;
    const std::vector<UserTensor> results = joined(f.outputs, f.saved);
    def.infer = [f, results](const InferInput& in) { return infer(f.inputs, results, in); };
    def.recompute = Recompute::expensive;
    def.result_names = names_of(results);
    def.operand_names = names_of(f.inputs);
    def.statistics = f.saved.size();
    def.rows = {.kind = f.rows, .operands = {}};
    // Those whose first dimension is that of the outputs; the others are parameters.
    for (std::size_t k = 0; k < f.inputs.size(); ++k)
        if (first_dimension(f.inputs[k].type) == first_dimension(f.outputs[0].type)) def.rows.operands.push_back(k);
    def.precision = {.kind = Precision::Kind::island, .why = "a function that a user brings takes and gives f32"};
    def.call = [f, results](const Op& op, const Function& in) {
        return call_of(f, f.forward, f.inputs, results, op, in);
    };
    def.smooth = "whoever brings it knows";
    def.vjp = [f](const VjpInput& in) {
        auto refuse = [&](const std::string& message, const std::string& help) {
            Diagnostic d;
            d.message = fmt::format("{}, {}: {}", f.file, f.name, message);
            d.module = in.op.provenance.scope;
            if (!in.op.provenance.nodes.empty()) d.node = in.op.provenance.nodes.front();
            d.help = help;
            throw UserError(std::move(d));
        };
        VjpResult out(in.op.operands.size());
        bool wanted = false;
        for (std::size_t k = 0; k < f.inputs.size(); ++k)
            wanted = wanted || (in.wants(k) && std::find(f.no_gradient.begin(), f.no_gradient.end(),
                                                         f.inputs[k].name) == f.no_gradient.end());
        if (!wanted) return out;
        if (!f.backward)
            refuse("there is no backward function, and a gradient passes through it",
                   "give \"backward\", or freeze what comes before it (--freeze)");
        std::vector<Value> operands;
        for (const std::string& name : f.backward->reads) {
            Value v;
            for (std::size_t k = 0; k < f.outputs.size(); ++k) {
                if (name == f.outputs[k].name) v = in.result(k);
                if (name != "d" + f.outputs[k].name) continue;
                v = in.cotangents[k] ? in.cotangents[k] : in.b.splat(in.type(in.result(k)), 0);
            }
            for (std::size_t k = 0; k < f.saved.size(); ++k)
                if (name == f.saved[k].name) v = in.result(f.outputs.size() + k);
            for (std::size_t k = 0; k < f.inputs.size(); ++k)
                if (name == f.inputs[k].name) v = in.operand(k);
            operands.push_back(v);
        }
        const std::vector<Value> given = in.b.emit(f.backward_op(), operands, in.op.attributes, f.name + "_backward");
        for (std::size_t g = 0; g < given.size(); ++g)
            for (std::size_t k = 0; k < f.inputs.size(); ++k)
                if (f.backward->gives[g] == "d" + f.inputs[k].name) out[k] = given[g];
        return out;
    };
    // What is saved is known to the function alone: no number, for who reads it all the same.
    if (!f.pattern.empty())
        def.reference = [f](const Op& op, std::span<const Tensor> operands, std::span<const Type> results) {
            if (!pattern_says(f, op))
                fail(fmt::format("{} cannot be evaluated: its pattern holds for the attributes of {}, and these are "
                                 "others",
                                 op.name, f.file),
                     "the program's own test (-DTESTS=ON) holds its gradients against differences");
            std::vector<Type> types;
            for (const Tensor& t : operands) types.push_back(t.type);
            const std::optional<Sizes> sizes = sizes_of(f, types);
            check(sizes.has_value(), f.name + ": operands of other types than its shape rule takes");
            const Module pattern = pattern_at(f, *sizes);
            std::vector<Tensor> out = evaluate(pattern, pattern.main(), operands);
            for (std::size_t k = out.size(); k < results.size(); ++k) {
                out.emplace_back(results[k]);
                std::fill(out.back().f.begin(), out.back().f.end(), std::nan(""));
            }
            return out;
        };
    return def;
}

OpDef backward_op(const UserFunction& f) {
    OpDef def;
    def.name = f.backward_op();
    def.level = OpLevel::composite;
    def.summary = fmt::format("The cotangents of {}'s {}.", f.name, fmt::join(f.backward->gives, ", "));
    def.formula = def.summary;
    def.source = f.file;
    const std::vector<UserTensor> operands = tensors_named(f, f.backward->reads),
                                  results = tensors_named(f, f.backward->gives);
    def.infer = [operands, results](const InferInput& in) { return infer(operands, results, in); };
    def.not_differentiable = "a gradient of first order only";
    def.recompute = Recompute::expensive;
    def.result_names = names_of(results);
    def.operand_names = names_of(operands);
    def.precision = {.kind = Precision::Kind::island, .why = "a function that a user brings takes and gives f32"};
    def.call = [f, operands, results](const Op& op, const Function& in) {
        RuntimeCall call = call_of(f, f.backward->function, operands, results, op, in);
        call.comment = fmt::format("{}: {} from {}", f.name, fmt::join(f.backward->gives, ", "),
                                   fmt::join(f.backward->reads, ", "));
        return call;
    };
    return def;
}

}  // namespace thunderc
