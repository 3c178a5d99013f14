// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/named_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "compiler/frontend/aten/complex.h"
#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/shared/inputs.h"
#include "compiler/support/error.h"

namespace thunderc::aten {
namespace {

const char* word_of(NamedTensor::Kind kind) {
    return kind == NamedTensor::Kind::parameter ? "parameter"
           : kind == NamedTensor::Kind::buffer  ? "buffer"
                                                : "constant";
}

// A tensor with what the archive has for it.
struct Found {
    const NamedTensor* of;
    StoredTensor stored;  // complex numbers as pairs
    std::string place;    // "" where the archive has no numbers

    bool is_parameter() const { return of->kind == NamedTensor::Kind::parameter; }
    bool is_complex() const { return part_of_complex(of->stored.type) != ScalarType::unknown; }
    // A number of the code, which torch has in double: it is no tensor that is computed in f32.
    bool is_number() const { return of->kind == NamedTensor::Kind::constant && of->stored.dims.empty(); }
    std::string what() const { return fmt::format("the {} {}", word_of(of->kind), of->name); }
};

// Names of the same numbers in the same shape are one tensor.
struct Place {
    std::optional<Value> argument;   // of main, once there is one
    bool trainable = false;          // by one of its names
    std::vector<std::string> names;  // that checkpoints have it by
};

struct FoundPlaces {
    std::map<std::string, Place> places;
    std::map<std::string, std::vector<const Found*>> parameters;  // by their entry of the archive

    explicit FoundPlaces(std::span<const Found> all) {
        for (const Found& one : all) {
            if (one.place.empty()) continue;
            Place& place = places[one.place];
            if (one.of->kind != NamedTensor::Kind::constant) place.names.push_back(one.of->name);
            if (!one.is_parameter()) continue;
            place.trainable = place.trainable || one.of->requires_grad;
            parameters[one.stored.entry].push_back(&one);
        }
    }
    // A parameter that has some of the same numbers, and is another tensor; nullptr: none has.
    const Found* beside(const Found& one, bool trainable) const {
        const auto at = one.place.empty() ? parameters.end() : parameters.find(one.stored.entry);
        if (at == parameters.end()) return nullptr;
        for (const Found* other : at->second)
            if (other->place != one.place && (!trainable || places.at(other->place).trainable) &&
                overlap(one.stored, other->stored))
                return other;
        return nullptr;
    }
};

std::vector<Found> found_in(const ZipArchive& archive, std::span<const NamedTensor> tensors) {
    std::vector<Found> out;
    for (const NamedTensor& tensor : tensors) {
        Found& one = out.emplace_back(Found{&tensor, with_pairs(tensor.stored), ""});
        one.place = place_of(archive, one.stored);
    }
    // Numbers that a parameter has as well are the parameter's.
    std::stable_sort(out.begin(), out.end(), [](const Found& a, const Found& b) { return a.of->kind < b.of->kind; });
    return out;
}

}  // namespace

// Two names of one tensor are one parameter, which is trained where one of its names is; by the others it is read as it
// is at each step, and has no gradient through them.
void Importer::import_tensors(const std::shared_ptr<const ZipArchive>& archive, std::span<const NamedTensor> tensors) {
    const std::vector<Found> all = found_in(*archive, tensors);
    FoundPlaces found(all);
    for (const Found& one : all) {
        const NamedTensor& tensor = *one.of;
        if (tensor.binding.empty()) continue;
        const bool parameter = one.is_parameter();
        Place* place = one.place.empty() ? nullptr : &found.places.at(one.place);
        if (parameter && one.is_complex())
            fail(fmt::format("{} is of complex numbers", one.what()),
                 "keep its real and imaginary parts as two parameters");
        const Type type = type_of(one.stored);
        const auto bound = [&](Value v) {
            Binding out = one.is_complex() ? complex_of_pairs(builder_, v) : Binding::of(v);
            (parameter                                  ? out.parameter
             : tensor.kind == NamedTensor::Kind::buffer ? out.buffer
                                                        : out.constant) = tensor.name;
            bind(tensor.binding, std::move(out));
        };
        const auto bound_argument = [&](Value v) {
            // An attribute that has a gradient is the parameter itself, as in the list of a GRU's weights.
            const bool kept = place != nullptr && place->trainable && !tensor.requires_grad;
            bound(kept ? builder_.op("stop_gradient", {v}) : v);
        };
        if (place != nullptr && place->argument) {
            bound_argument(*place->argument);
            continue;
        }
        if (const Found* other = parameter ? nullptr : found.beside(one, true); other != nullptr)
            fail(fmt::format("{} has numbers in common with the parameter {}, and is another tensor: it would change "
                             "as that is trained, which a program does not do",
                             one.what(), other->of->name),
                 "make it of the parameter in forward(), or give it numbers of its own: clone() it in __init__");
        if (!is_float(type.dtype) || type.elements() == 0 || one.is_number()) {  // nothing that is trained
            bound(builder_.constant(ConstExpr::dense(numbers_of(archive, one.stored))));
            continue;
        }
        dtype(one.stored.type, one.what());
        ArgInfo info;
        info.kind = parameter ? ArgInfo::Kind::parameter : ArgInfo::Kind::constant;
        info.names = {plain(tensor.name)};
        info.sources = {source_of(archive, one.stored)};
        if (parameter) {
            info.trainable = place != nullptr ? place->trainable : tensor.requires_grad;
            std::vector<std::string> others;
            if (place != nullptr)
                for (const std::string& name : place->names)
                    if (name != tensor.name) others.push_back(plain(name));
            if (!others.empty())
                report_.done("tied", tensor.name, fmt::format("also {}: one tensor", fmt::join(others, ", ")));
            if (const Found* other = found.beside(one, false); other != nullptr)
                report_.warning("shared storage", tensor.name,
                                fmt::format("has numbers in common with {}, and is another tensor: the two are trained "
                                            "apart, where the model trains them as one",
                                            other->of->name));
            info.aliases = {std::move(others)};
        }
        const Value v = module_.main().add_argument(type, value_name(tensor.name), std::move(info));
        if (place != nullptr) place->argument = v;
        bound_argument(v);
    }
}

void Importer::require_numbers_of_constants() const {
    const Function& main = module_.main();
    for (const ArgInfo& info : main.argument_info)
        if (info.kind == ArgInfo::Kind::constant && !info.sources.empty() && !info.sources.front()->read)
            fail(fmt::format("the numbers of the constant {} are not in the archive", info.names.front()),
                 "constants are compiled into the program: export the model with them; those of parameters may be "
                 "absent");
}

void Importer::note_statistic(Value of, bool variance, bool moves) {
    ArgInfo* info = argument_info(module_.main(), of);
    if (info == nullptr || info->kind == ArgInfo::Kind::input ||
        (info->kind == ArgInfo::Kind::parameter && info->trainable))
        return;
    if (moves && options_.transform == Transform::train)
        info->kind = ArgInfo::Kind::buffer;
    else if (info->kind == ArgInfo::Kind::constant)
        info->kind = ArgInfo::Kind::parameter;  // checkpoints have it, and --init gives another
    info->trainable = false;
    info->init = variance ? ArgInfo::Init::ones : ArgInfo::Init::zeros;
}

}  // namespace thunderc::aten
