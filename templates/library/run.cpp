// SPDX-License-Identifier: Apache-2.0
// Calls the function once: inputs, parameters and cotangents from a file, outputs and gradients to another.
#include "device/check_cpu.h"  // tells a CPU that lacks what this was built for
#include "model.h"             // Model: the function; FUNCTION: its parameters, inputs and results
#include "run/options.h"       // the command line
#include "run/runner.h"        // files and memory
#include "support/error.h"     // what was thrown becomes one message

int main(int argc, char** argv) try {
    thunder::check_cpu();
    const auto options = thunder::parse_run_options(argc, argv, FUNCTION, THUNDERC_PROGRAM_DIR);
    if (!options) return 0;  // --help
    thunder::Runner runner(FUNCTION, *options);
    Model model(runner.arenas(), runner.stream());
    model.call();
    runner.save();
    return 0;
} catch (...) {
    return thunder::report_error();
}
