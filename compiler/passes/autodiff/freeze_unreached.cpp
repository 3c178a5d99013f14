// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/freeze_unreached.h"

#include <map>
#include <string>
#include <vector>

#include "compiler/analysis/parameter_names.h"
#include "compiler/passes/autodiff/differentiate.h"

namespace thunderc {

Module freeze_unreached(Module module, Report& report) {
    Report differentiated;  // said when it is done in earnest
    const Module gradients = differentiate(module, {}, differentiated);
    Function& main = module.main();
    std::map<std::string, std::vector<std::string>> unreached;  // one warning for all layers
    // Differentiation adds arguments behind those that there are.
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        ArgInfo& info = main.argument_info[k];
        if (info.trainable == gradients.main().argument_info[k].trainable) continue;
        info.trainable = false;
        for (const std::string& name : info.names) unreached[without_numbers(name)].push_back(name);
    }
    for (const auto& [kind, names] : unreached) report.warning("unreached", name_pattern(names), unreached_parameter);
    return module;
}

}  // namespace thunderc
