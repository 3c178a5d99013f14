// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/choose_outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <optional>

#include "compiler/ir/function_tools.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// By its name, else by its place, from 0 on.
std::optional<std::size_t> position_of(const std::vector<std::string>& outputs, const std::string& name) {
    const auto at = std::find(outputs.begin(), outputs.end(), name);
    if (at != outputs.end()) return static_cast<std::size_t>(at - outputs.begin());
    std::size_t place = 0;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), place);
    const bool is_place = error == std::errc{} && end == name.data() + name.size() && place < outputs.size();
    return is_place ? std::optional(place) : std::nullopt;
}

}  // namespace

Module choose_outputs(Module module, const std::vector<std::string>& names) {
    if (names.empty()) return module;
    Function& main = module.main();
    const auto outputs = static_cast<std::ptrdiff_t>(main.results.size() - moved_buffers(main, main.results.size()));
    const std::vector<Value> moved(main.results.begin() + outputs, main.results.end());
    const std::vector<std::string> buffers(main.result_names.begin() + outputs, main.result_names.end());
    main.result_names.resize(static_cast<std::size_t>(outputs));
    std::vector<std::size_t> chosen;
    for (const std::string& name : names) {
        const std::optional<std::size_t> at = position_of(main.result_names, name);
        if (!at) {
            Diagnostic d;
            d.message = fmt::format("--output {}: the model has no output of that name", name);
            d.help = fmt::format("its outputs are {}", fmt::join(main.result_names, ", "));
            throw UsageError(std::move(d));
        }
        if (std::find(chosen.begin(), chosen.end(), *at) != chosen.end()) {
            Diagnostic d;
            d.message = fmt::format("--output {} is given twice", name);
            d.help = "leave one of the two out";
            throw UsageError(std::move(d));
        }
        chosen.push_back(*at);
    }
    std::vector<Value> results;
    std::vector<std::string> result_names;
    for (const std::size_t k : chosen) {
        results.push_back(main.results[k]);
        result_names.push_back(main.result_names[k]);
    }
    main.results = std::move(results);
    main.result_names = std::move(result_names);
    main.results.insert(main.results.end(), moved.begin(), moved.end());
    main.result_names.insert(main.result_names.end(), buffers.begin(), buffers.end());
    remove_dead_ops(main);
    return module;
}

}  // namespace thunderc
