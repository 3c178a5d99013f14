// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/pass_manager.h"

#include <fmt/format.h>

#include <chrono>
#include <new>
#include <utility>

#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"

namespace thunderc {

Module run_passes(Module module, const std::vector<Pass>& passes, std::vector<PassRun>& runs,
                  const PassOptions& options) {
    for (const Pass& pass : passes) {
        PassRun run;
        run.name = pass.name;
        const auto begin = std::chrono::steady_clock::now();
        try {
            check(options.failing != pass.name, "a failure that --fail-in asks for");
            if (!options.disabled.contains(pass.name)) module = pass.run(std::move(module), run.report);
        } catch (const UserError&) {
            throw;
        } catch (const std::bad_alloc&) {
            throw;
        } catch (const std::exception& error) {
            throw PassFailure(pass.name, fmt::format("in the pass {}: {}", pass.name, error.what()));
        }
        run.milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin).count();
        try {
            verify(module);
        } catch (const InternalError& error) {
            throw PassFailure(pass.name, fmt::format("after the pass {}: {}", pass.name, error.what()));
        }
        runs.push_back(std::move(run));
        if (options.after) options.after(module, runs.back());
    }
    return module;
}

}  // namespace thunderc
