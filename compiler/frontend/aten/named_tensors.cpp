// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/named_tensors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <map>
#include <utility>

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

// A number of the code, which torch has in double: it is no tensor that is computed in f32.
bool is_number(const NamedTensor& tensor) {
    return tensor.kind == NamedTensor::Kind::constant && tensor.stored.dims.empty();
}

}  // namespace

// Two names of one tensor are one parameter, which is trained where one of its names is; by the others it is read as it
// is at each step, and has no gradient through them.
void Importer::import_tensors(const std::shared_ptr<const ZipArchive>& archive, std::span<const NamedTensor> tensors) {
    struct Place {
        std::optional<Value> first;  // argument of main
        bool trainable = false;
        std::vector<std::string> names;  // of parameters that lie there
    };
    std::map<std::string, Place> places;
    std::map<std::string, std::vector<const NamedTensor*>> of_storage;  // parameters, by where their bytes are
    for (const NamedTensor& tensor : tensors)
        if (const std::string place = place_of(*archive, tensor.stored);
            !place.empty() && tensor.kind == NamedTensor::Kind::parameter) {
            places[place].names.push_back(tensor.name);
            places[place].trainable = places[place].trainable || tensor.requires_grad;
            of_storage[tensor.stored.entry].push_back(&tensor);
        }
    Function& main = module_.main();
    for (const NamedTensor& tensor : tensors) {
        const bool parameter = tensor.kind == NamedTensor::Kind::parameter;
        const std::string what = fmt::format("the {} {}", word_of(tensor.kind), tensor.name);
        const std::string place = place_of(*archive, tensor.stored);
        Place* at = place.empty() ? nullptr : &places[place];
        const Type type = type_of(tensor.stored);
        const ScalarType part = part_of_complex(tensor.stored.type);
        const bool pairs = part != ScalarType::unknown && !parameter;
        const auto bound = [&](Value v) {
            Binding out = pairs ? complex_of_pairs(builder_, v) : Binding::of(v);
            (parameter                                  ? out.parameter
             : tensor.kind == NamedTensor::Kind::buffer ? out.buffer
                                                        : out.constant) = tensor.name;
            bind(tensor.binding, std::move(out));
        };
        const auto bound_argument = [&](Value v) {
            // An attribute that has a gradient is the parameter itself, as in the list of a GRU's weights.
            const bool kept = at != nullptr && at->trainable && !tensor.requires_grad;
            bound(kept ? builder_.op("stop_gradient", {v}) : v);
        };
        if (at != nullptr && at->first) {
            bound_argument(*at->first);
            continue;
        }
        if (!parameter && !place.empty())
            for (const NamedTensor* other : of_storage[tensor.stored.entry])
                if (places[place_of(*archive, other->stored)].trainable && overlap(tensor.stored, other->stored))
                    fail(fmt::format("{} has numbers in common with the parameter {}, and is another tensor: it would "
                                     "change as that is trained, which a program does not do",
                                     what, other->name),
                         "make it of the parameter in forward(), or give it numbers of its own: clone() it in "
                         "__init__");
        if (!is_float(type.dtype) || type.elements() == 0 || is_number(tensor)) {  // nothing that is trained
            bound(builder_.constant(ConstExpr::dense(numbers_of(archive, tensor.stored))));
            continue;
        }
        dtype(pairs ? part : tensor.stored.type, what);
        ArgInfo info;
        info.kind = parameter ? ArgInfo::Kind::parameter : ArgInfo::Kind::constant;
        info.names = {plain(tensor.name)};
        info.sources = {source_of(archive, tensor.stored)};
        if (parameter) {
            info.trainable = at != nullptr ? at->trainable : tensor.requires_grad;
            std::vector<std::string> others;
            if (at != nullptr)
                for (const std::string& name : at->names)
                    if (name != tensor.name) others.push_back(plain(name));
            if (!others.empty())
                report_.done("tied", tensor.name, fmt::format("also {}: one tensor", fmt::join(others, ", ")));
            for (const NamedTensor* other : of_storage[tensor.stored.entry])
                if (place_of(*archive, other->stored) != place && overlap(tensor.stored, other->stored)) {
                    report_.warning("shared storage", tensor.name,
                                    fmt::format("has numbers in common with {}, and is another tensor: the two are "
                                                "trained apart, where the model trains them as one",
                                                other->name));
                    break;
                }
            info.aliases = {std::move(others)};
        }
        const Value v = main.add_argument(type, value_name(tensor.name), std::move(info));
        if (at != nullptr) at->first = v;
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
