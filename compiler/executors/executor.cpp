// SPDX-License-Identifier: Apache-2.0
#include "compiler/executors/executor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <ranges>

#include "compiler/ops/plain_call.h"
#include "compiler/support/error.h"

namespace thunderc {

const std::vector<Executor>& all_executors() {
    static const std::vector<Executor> all = {products_executor(),      convolutions_executor(), attention_executor(),
                                              cross_entropy_executor(), embedding_executor(),    optimizer_executor(),
                                              fused_executor(),         reference_executor()};
    return all;
}

std::vector<std::string> default_executors() {
    std::vector<std::string> names;
    for (const Executor& e : all_executors())
        if (e.name != reference_name) names.push_back(e.name);
    return names;
}

bool gives_naive_program(const std::vector<std::string>& names) {
    return !names.empty() && names.front() == reference_name;
}

const Executor& executor(const std::string& name) {
    std::string names;
    for (const Executor& e : all_executors()) {
        if (e.name == name) return e;
        names += (names.empty() ? "" : ", ") + e.name;
    }
    Diagnostic d;
    d.message = fmt::format("there is no executor {}", name);
    d.help = fmt::format("executors are {}", names);
    throw UsageError(std::move(d));
}

std::optional<std::string> not_of_the_api(const Op& op, const Function& function) {
    for (const std::vector<Value>* values : {&op.operands, &op.results})
        for (Value v : *values) {
            if (!v) continue;
            const DType dtype = function.type(v).dtype;
            if (is_float(dtype) && !row_of(dtype).of_products)
                return fmt::format(
                    "{} operands: the runtime API's calls are of {}", name_of(dtype),
                    fmt::join(product_dtypes() | std::views::transform([](DType of) { return name_of(of); }), ", "));
        }
    return std::nullopt;
}

}  // namespace thunderc
