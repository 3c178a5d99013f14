// SPDX-License-Identifier: Apache-2.0
// What the importer of one call sees of it.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/frontend/aten/importer.h"
#include "compiler/support/error.h"

namespace thunderc::aten {

void Node::fail(std::string message, std::string help, std::string expected, std::string actual) const {
    thunderc::fail(std::move(message), std::move(help), std::move(expected), std::move(actual));
}

std::string Node::op() const {
    std::string out = call_.target;
    if (const std::size_t space = out.find('.'); space != std::string::npos) out.erase(0, space + 1);
    if (const std::size_t overload = out.find('.'); overload != std::string::npos) out.resize(overload);
    if (writes_in_place(call_.target)) out.pop_back();
    return out;
}

// ---- arguments ------------------------------------------------------------------------------------------------------

const Argument* Node::argument(std::string_view name) const {
    for (const NamedArgument& argument : call_.arguments)
        if (argument.name == name) return argument.value.kind == Argument::Kind::none ? nullptr : &argument.value;
    return nullptr;
}

const Argument* Node::at(std::size_t k) const {
    return k < call_.arguments.size() ? &call_.arguments[k].value : nullptr;
}

bool Node::is_tensor(std::string_view name) const {
    const Argument* found = argument(name);
    return found != nullptr && found->kind == Argument::Kind::name &&
           importer_.find(found->text).kind == Binding::Kind::tensor;
}

Value Node::tensor(std::string_view name) {
    const Argument* found = argument(name);
    if (found == nullptr || !is_tensor(name))
        fail(fmt::format("{} has no tensor \"{}\"", call_.target, name), "the program is damaged: save it again");
    return importer_.find(found->text).value;
}

Dims Node::shape(std::string_view name, std::size_t least, std::size_t most) {
    const Type of = type(name);
    if (of.dims.size() < least || of.dims.size() > most)
        fail(fmt::format("\"{}\" of {} has {} dimensions", name, call_.target, of.dims.size()), {},
             least == most ? fmt::format("{}", least) : fmt::format("{} to {}", least, most), to_string(of));
    return of.dims;
}

void Node::check_groups(std::int64_t groups, std::int64_t channels) {
    if (groups < 1 || groups > std::max<std::int64_t>(channels, 1) || channels % groups != 0)
        fail(fmt::format("{} channels are not {} groups", channels, groups));
}

Value Node::fractions(std::string_view name) {
    const Value v = tensor(name);
    if (!is_float(importer_.type(v).dtype))
        fail(fmt::format("\"{}\" of {} is no tensor of floating point", name, call_.target),
             "convert it in the model: x.float()", {}, to_string(importer_.type(v)));
    return v;
}

Value Node::operand(std::string_view name, DType dtype) {
    if (is_tensor(name)) return tensor(name, dtype);
    const Argument* found = argument(name);
    const Binding value = found == nullptr ? Binding{} : importer_.resolve(*found);
    const bool number = value.kind == Binding::Kind::integer || value.kind == Binding::Kind::number;
    if (dtype == DType::boolean && number) return b().scalar(dtype, value.number != 0 ? 1 : 0);
    switch (value.kind) {
        case Binding::Kind::integer:
        case Binding::Kind::boolean:
            if (!is_exact(value.integer) && is_integer(dtype)) {
                Tensor exact(Type::tensor(dtype, {}));
                exact.i[0] = value.integer;
                return b().constant(ConstExpr::dense(std::move(exact)));
            }
            return b().scalar(dtype, static_cast<double>(value.integer));
        case Binding::Kind::number: return b().scalar(dtype, value.number);
        default:
            fail(fmt::format("{} has neither a tensor nor a number \"{}\"", call_.target, name),
                 "the program is damaged: save it again");
    }
}

std::vector<Value> Node::tensors(std::string_view name) {
    std::vector<Value> out;
    for (const std::optional<Value>& v : optional_tensors(name)) {
        if (!v) fail(fmt::format("an item of \"{}\" of {} is no tensor", name, call_.target));
        out.push_back(*v);
    }
    return out;
}

std::vector<std::optional<Value>> Node::optional_tensors(std::string_view name) {
    const Argument* found = argument(name);
    const Binding value = found == nullptr ? Binding{} : importer_.resolve(*found);
    if (value.kind != Binding::Kind::list)
        fail(fmt::format("\"{}\" of {} is no list of tensors", name, call_.target),
             "the program is damaged: save it again");
    std::vector<std::optional<Value>> out;
    for (const Binding& item : value.items) {
        if (item.kind != Binding::Kind::tensor && item.kind != Binding::Kind::nothing)
            fail(fmt::format("an item of \"{}\" of {} is no tensor", name, call_.target));
        out.push_back(item.kind == Binding::Kind::tensor ? std::optional(item.value) : std::nullopt);
    }
    return out;
}

std::int64_t Node::integer(std::string_view name, std::optional<std::int64_t> otherwise) const {
    const Argument* found = argument(name);
    if (found == nullptr && otherwise) return *otherwise;
    const Binding value = found == nullptr ? Binding{} : importer_.resolve(*found);
    if (value.kind == Binding::Kind::integer || value.kind == Binding::Kind::boolean) return value.integer;
    // A tensor of one whole number, as where the model computes with sizes.
    if (value.kind == Binding::Kind::tensor)
        if (const Tensor* known = importer_.known(value.value);
            known != nullptr && known->size() == 1 && !known->floating())
            return known->i[0];
    fail(fmt::format("\"{}\" of {} is no whole number that is known when compiling", name, call_.target),
         "shapes are fixed when compiling: make it follow from the shapes of the inputs alone");
}

double Node::number(std::string_view name, std::optional<double> otherwise) const {
    const Argument* found = argument(name);
    if (found == nullptr && otherwise) return *otherwise;
    const Binding value = found == nullptr ? Binding{} : importer_.resolve(*found);
    switch (value.kind) {
        case Binding::Kind::number: return value.number;
        case Binding::Kind::integer:
        case Binding::Kind::boolean: return static_cast<double>(value.integer);
        case Binding::Kind::tensor:
            if (const Tensor* known = importer_.known(value.value); known != nullptr && known->size() == 1)
                return known->at(0);
            break;
        default: break;
    }
    fail(fmt::format("\"{}\" of {} is no number that is known when compiling", name, call_.target),
         "make it a number in the model");
}

bool Node::boolean(std::string_view name, bool otherwise) const {
    return has(name) ? integer(name) != 0 : otherwise;
}

std::string Node::text(std::string_view name, const std::string& otherwise) const {
    const Argument* found = argument(name);
    return found != nullptr && found->kind == Argument::Kind::text ? found->text : otherwise;
}

std::optional<Dims> Node::integers(std::string_view name) const {
    const Argument* found = argument(name);
    if (found == nullptr) return std::nullopt;
    const Binding value = importer_.resolve(*found);
    if (value.kind == Binding::Kind::integer) return Dims{value.integer};
    Dims out;
    for (const Binding& item : value.items) {
        if (item.kind != Binding::Kind::integer)
            fail(fmt::format("\"{}\" of {} has an item that is no whole number", name, call_.target),
                 "shapes are fixed when compiling: make them follow from the shapes of the inputs alone");
        out.push_back(item.integer);
    }
    if (value.kind != Binding::Kind::list) fail(fmt::format("\"{}\" of {} is no list of numbers", name, call_.target));
    return out;
}

std::optional<std::vector<double>> Node::numbers(std::string_view name) const {
    const Argument* found = argument(name);
    if (found == nullptr) return std::nullopt;
    std::vector<double> out;
    for (const Binding& item : importer_.resolve(*found).items) {
        if (item.kind != Binding::Kind::number && item.kind != Binding::Kind::integer)
            fail(fmt::format("\"{}\" of {} has an item that is no number", name, call_.target));
        out.push_back(item.number);
    }
    return out;
}

bool Node::is_list(std::string_view name) const {
    const Argument* found = argument(name);
    return found != nullptr && importer_.resolve(*found).kind == Binding::Kind::list;
}

bool Node::is_whole(std::string_view name) const {
    const Argument* found = argument(name);
    if (found == nullptr) return true;
    const Binding value = importer_.resolve(*found);
    if (value.kind == Binding::Kind::tensor) return !is_float(importer_.type(value.value).dtype);
    return value.kind == Binding::Kind::integer || value.kind == Binding::Kind::boolean;
}

std::optional<ScalarType> Node::scalar_type(std::string_view name) const {
    const Argument* found = argument(name);
    if (found == nullptr || found->kind != Argument::Kind::scalar_type) return std::nullopt;
    return static_cast<ScalarType>(found->integer);
}

std::int64_t Node::axis(std::int64_t axis, std::int64_t rank) const {
    if (rank == 0 && (axis == 0 || axis == -1)) return 0;  // as torch has it for scalars
    const std::optional<std::int64_t> normal = normalize_axis(axis, rank);
    if (!normal)
        fail(fmt::format("the dimension {} of {} is out of range", axis, call_.target), {},
             fmt::format("{} to {}", -rank, rank - 1), std::to_string(axis));
    return *normal;
}

std::int64_t Node::axis(std::string_view name, std::int64_t rank, std::optional<std::int64_t> otherwise) {
    return axis(integer(name, otherwise), rank);
}

std::int64_t Node::dimension(std::int64_t axis, std::int64_t rank) const {
    if (rank == 0) fail(fmt::format("{} of a scalar", call_.target), "give it a dimension: x.reshape(1)");
    return this->axis(axis, rank);
}

std::int64_t Node::dimension(std::string_view name, std::int64_t rank, std::optional<std::int64_t> otherwise) {
    return dimension(integer(name, otherwise), rank);
}

const Tensor* Node::known(std::string_view name) {
    return is_tensor(name) ? importer_.known(tensor(name)) : nullptr;
}

// ---- results --------------------------------------------------------------------------------------------------------

std::size_t Node::results() const {
    std::size_t count = 0;
    for (const Argument& result : call_.results) count += result.kind == Argument::Kind::list ? result.items.size() : 1;
    return count;
}

std::optional<std::string> Node::result(std::size_t k) const {
    for (const Argument& result : call_.results) {
        const bool list = result.kind == Argument::Kind::list;
        if (list && is_open(result)) return item_of(result, k);
        const std::size_t count = list ? result.items.size() : 1;
        if (k < count) {
            const Argument& one = list ? result.items[k] : result;
            return one.kind == Argument::Kind::name ? std::optional(one.text) : std::nullopt;
        }
        k -= count;
    }
    return std::nullopt;
}

bool Node::wants(std::size_t k) const {
    return result(k).has_value();
}

void Node::give(Value v, std::size_t k) {
    give(Binding::of(v), k);
}

void Node::give_view(Value v, std::function<Value(Value, Value)> back, std::size_t k) {
    Binding binding = Binding::of(v);
    const std::string name = op();
    const bool copies = name.ends_with("_copy") || name.starts_with("unsafe_");
    if (const Argument* of = at(0); !copies && of != nullptr && of->kind == Argument::Kind::name) {
        const Binding& base = importer_.find(of->text);
        binding.base = of->text;
        binding.back = std::move(back);
        binding.writes = base.writes;
        binding.seen = base.seen;
    }
    give(std::move(binding), k);
}

void Node::give_perhaps_shared(Value v) {
    Binding binding = Binding::of(v);
    if (const Argument* of = at(0); of != nullptr && of->kind == Argument::Kind::name) {
        const Binding& base = importer_.find(of->text);
        binding.writes = base.writes;
        binding.seen = base.seen;
    }
    give(std::move(binding));
}

std::optional<bool> Node::is_dense() const {
    const Argument* of = at(0);
    const TensorMeta* meta = of != nullptr && of->kind == Argument::Kind::name ? importer_.meta(of->text) : nullptr;
    const std::optional<Dims> dims = meta == nullptr ? std::nullopt : importer_.dims(*meta);
    if (!dims || dims->size() != meta->strides.size()) return std::nullopt;
    const Dims dense = dense_strides(*dims);
    for (std::size_t d = 0; d < dims->size(); ++d) {
        const std::optional<std::int64_t> stride = importer_.size(meta->strides[d]);
        if (!stride) return std::nullopt;
        if ((*dims)[d] != 1 && *stride != dense[d]) return false;
    }
    return true;
}

void Node::give(Binding binding, std::size_t k) {
    if (const std::optional<std::string> name = result(k)) importer_.bind(*name, std::move(binding));
}

}  // namespace thunderc::aten
