#include "compiler/transforms/pass_manager.h"

#include <fmt/format.h>

#include <chrono>
#include <utility>

#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"

namespace thunderc {

Module run_passes(Module module, const std::vector<Pass>& passes, std::vector<PassRun>& runs,
                  const PassOptions& options) {
    for (const Pass& pass : passes) {
        if (options.disabled.contains(pass.name)) continue;
        PassRun run;
        run.name = pass.name;
        const auto begin = std::chrono::steady_clock::now();
        module = pass.run(std::move(module), run.report);
        run.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
        try {
            verify(module);
        } catch (const InternalError& error) {
            throw InternalError(fmt::format("after the pass {}: {}", pass.name, error.what()));
        }
        runs.push_back(std::move(run));
        if (options.after) options.after(module, runs.back());
    }
    return module;
}

}  // namespace thunderc
