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

void run_as_pass(const std::string& name, const std::string& failing, const std::function<void()>& what) {
    try {
        check(failing != name, "a failure that --fail-in asks for");
        what();
    } catch (const UserError&) {
        throw;
    } catch (const std::bad_alloc&) {
        throw;
    } catch (const std::exception& error) {
        throw PassFailure(name, fmt::format("in the pass {}: {}", name, error.what()));
    }
}

Module run_passes(Module module, const std::vector<Pass>& passes, std::vector<PassRun>& runs,
                  const PassOptions& options) {
    for (const Pass& pass : passes) {
        PassRun run;
        run.name = pass.name;
        const auto begin = std::chrono::steady_clock::now();
        run_as_pass(pass.name, options.failing, [&] {
            if (options.disabled.contains(pass.name)) return;
            run.report.decisions = options.decisions;
            if (options.decisions != nullptr) options.decisions->begin(pass.name);
            module = pass.run(std::move(module), run.report);
            run.report.decisions = nullptr;  // the report is kept for longer
            if (options.planted) options.planted(module, pass.name);
        });
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
