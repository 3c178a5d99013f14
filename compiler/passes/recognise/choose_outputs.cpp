// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/choose_outputs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "compiler/ir/function_tools.h"
#include "compiler/support/error.h"

namespace thunderc {

Module choose_outputs(Module module, const std::vector<std::string>& names) {
    if (names.empty()) return module;
    Function& main = module.main();
    const auto outputs = static_cast<std::ptrdiff_t>(main.results.size() - moved_buffers(main, main.results.size()));
    const std::vector<Value> moved(main.results.begin() + outputs, main.results.end());
    const std::vector<std::string> buffers(main.result_names.begin() + outputs, main.result_names.end());
    main.result_names.resize(static_cast<std::size_t>(outputs));
    std::vector<Value> results;
    for (const std::string& name : names) {
        const auto at = std::find(main.result_names.begin(), main.result_names.end(), name);
        if (at == main.result_names.end()) {
            Diagnostic d;
            d.message = fmt::format("--output {}: the model has no output of that name", name);
            d.help = fmt::format("its outputs are {}", fmt::join(main.result_names, ", "));
            throw UsageError(std::move(d));
        }
        if (std::find(names.begin(), names.end(), name) !=
            names.begin() + static_cast<std::ptrdiff_t>(results.size())) {
            Diagnostic d;
            d.message = fmt::format("--output {} is given twice", name);
            d.help = "leave one of the two out";
            throw UsageError(std::move(d));
        }
        results.push_back(main.results[static_cast<std::size_t>(at - main.result_names.begin())]);
    }
    main.results = std::move(results);
    main.result_names = names;
    main.results.insert(main.results.end(), moved.begin(), moved.end());
    main.result_names.insert(main.result_names.end(), buffers.begin(), buffers.end());
    remove_dead_ops(main);
    return module;
}

}  // namespace thunderc
