// SPDX-License-Identifier: Apache-2.0
// What the tests of lift_parameters share.
#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/type.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/support/error.h"

namespace thunderc {

// What stands in for an exporter's file.
inline std::shared_ptr<const WeightSource> source_of(Type type, std::vector<float> values) {
    auto source = std::make_shared<WeightSource>();
    source->type = std::move(type);
    source->read = [values = std::move(values)] {
        std::vector<std::byte> bytes(values.size() * 4);
        std::memcpy(bytes.data(), values.data(), bytes.size());
        return bytes;
    };
    return source;
}

// The text of the error, whole.
inline std::string message_of(Module module, const LiftOptions& options = {}) {
    Report report;
    try {
        lift_parameters(std::move(module), options, report);
    } catch (const UserError& error) {
        return error.diagnostic().text();
    }
    return "no error";
}

}  // namespace thunderc
