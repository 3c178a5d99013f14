// SPDX-License-Identifier: Apache-2.0
// Inputs that --bind makes constants of the program.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/frontend/aten/importer.h"
#include "compiler/support/error.h"

namespace thunderc::aten {

void Importer::require_bound_names(const std::vector<std::string>& inputs) const {
    for (const auto& [name, given] : options_.bound) {
        if (std::find(inputs.begin(), inputs.end(), name) != inputs.end()) continue;
        Diagnostic d;
        d.message = fmt::format("--bind {}: the model has no such input", name);
        d.help = inputs.empty() ? "it has none" : fmt::format("its inputs are {}", fmt::join(inputs, ", "));
        throw UsageError(std::move(d));
    }
}

Value Importer::bound_constant(const std::string& name, const CompileOptions::BoundInput& given, const Type& type) {
    const auto refuse = [&](std::string what, std::string expected, std::string actual) {
        Diagnostic d;
        d.message = fmt::format("--bind {}: {}", name, what);
        d.expected = std::move(expected);
        d.actual = std::move(actual);
        d.help = "give a tensor of the input's shape and type: --bind FILE";
        throw UsageError(std::move(d));
    };
    Tensor out(type);
    const Dims& has = given.values.type.dims;
    if (given.shaped ? has != type.dims : given.values.size() != out.size())
        refuse("the input has another shape", fmt::format("[{}]", thunderc::to_string(type.dims)),
               given.shaped ? fmt::format("[{}]", thunderc::to_string(has))
                            : fmt::format("{} numbers", given.values.size()));
    for (std::int64_t k = 0; k < out.size(); ++k) {
        const double value = given.values.at(k);
        if (!out.floating() && std::floor(value) != value)
            refuse(fmt::format("{} is no whole number", value), std::string(thunderc::name_of(type.dtype)), "");
        if (!out.floating() && !given.values.floating())
            out.i[static_cast<std::size_t>(k)] = given.values.i[static_cast<std::size_t>(k)];
        else
            out.set(k, value);
    }
    return builder_.constant(ConstExpr::dense(std::move(out)));
}

}  // namespace thunderc::aten
