// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/pt2/weights.h"

#include <fmt/format.h>

#include "compiler/frontend/aten/stored_tensor.h"
#include "compiler/support/error.h"

namespace thunderc::pt2_frontend {
namespace {

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
    if (const auto part = aten::part_of_complex(out.type);
        part != aten::ScalarType::unknown) {  // pairs of real numbers
        out.type = part;
        out.dims.push_back(2);
        for (std::int64_t& stride : out.strides) stride *= 2;
        out.strides.push_back(1);
        out.offset *= 2;
    }
    return out;
}

}  // namespace

const Payload& Weights::payload(const std::string& name) const {
    const auto at = program_->payloads.find(name);
    if (at == program_->payloads.end())
        fail(fmt::format("the archive has no tensor {}", name), "the archive is damaged: save the model again");
    if (at->second.pickled || !at->second.meta)
        fail(fmt::format("the tensor {} is of a class of its own, which the archive keeps as a pickle", name),
             "export a model of plain tensors: pickles are not read, since they run what is in them");
    return at->second;
}

Type Weights::type(const std::string& name) const {
    return aten::type_of(stored(name, payload(name)));
}

std::shared_ptr<const WeightSource> Weights::source(const std::string& name) const {
    return aten::source_of(archive_, stored(name, payload(name)));
}

Tensor Weights::tensor(const std::string& name) const {
    return aten::numbers_of(archive_, stored(name, payload(name)));
}

std::string Weights::shares_storage(const std::string& name) const {
    const std::string own = place(name);
    if (own.empty()) return "";
    for (const auto& [other, from] : program_->payloads)
        if (other != name && from.entry == payload(name).entry && !from.pickled && from.meta && place(other) != own &&
            aten::overlap(stored(name, payload(name)), stored(other, from)))
            return other;
    return "";
}

bool Weights::overlap(const std::string& a, const std::string& b) const {
    const auto there = program_->payloads.find(b);
    if (there == program_->payloads.end() || there->second.pickled || !there->second.meta) return false;
    return place(a) != place(b) && aten::overlap(stored(a, payload(a)), stored(b, there->second));
}

std::string Weights::place(const std::string& name) const {
    return aten::place_of(*archive_, stored(name, payload(name)));
}

}  // namespace thunderc::pt2_frontend
