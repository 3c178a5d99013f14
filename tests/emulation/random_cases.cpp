// SPDX-License-Identifier: Apache-2.0
#include "random_cases.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <random>
#include <sstream>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/pipeline.h"
#include "golden_cases.h"
#include "tests/kernels/random_graphs.h"

namespace thunderc::testing {
namespace {

// How far f32 is from f64 where both do the same in the same order; of kernels that sum in another order, and whose
// polynomials are off by 2 to 3 ulp, some times that.
double own_error(const KernelCase& c) {
    const std::vector<Tensor> exact = evaluate(c.module, c.module.main(), c.arguments);
    const std::vector<Tensor> rounded =
        evaluate(c.module, c.module.main(), c.arguments, {.round_to_dtype = true, .observe = {}});
    double worst = 0;
    for (std::size_t r = 0; r < exact.size(); ++r) {
        double scale = 1;
        for (std::int64_t k = 0; k < exact[r].size(); ++k)
            if (std::isfinite(exact[r].at(k))) scale = std::max(scale, std::abs(exact[r].at(k)));
        for (std::int64_t k = 0; k < exact[r].size(); ++k) {
            const double error = std::abs(exact[r].at(k) - rounded[r].at(k)) / scale;
            if (std::isfinite(error)) worst = std::max(worst, error);
        }
    }
    return worst;
}

// Where f32 itself is off by a thousandth, a comparison or a pole has amplified its rounding: no numbers to judge by.
void add(std::vector<KernelCase>& cases, KernelCase c) {
    const double error = own_error(c);
    if (error > 1e-3) return;
    c.tolerance = 4e-6 + 8 * error;
    cases.push_back(std::move(c));
}

Module trained(const Module& graph, std::uint64_t seed) {
    CompileOptions options;
    options.recompute = seed % 3 == 0 ? "none" : "selective";
    std::vector<Pass> passes = pipeline(options);
    const auto at = [&](std::string_view name) {
        return std::find_if(passes.begin(), passes.end(), [&](const Pass& pass) { return pass.name == name; });
    };
    passes.erase(at("plan"), passes.end());
    passes.erase(passes.begin(), at("freeze_parameters"));
    std::vector<PassRun> runs;
    return run_passes(graph, passes, runs);
}

void read_seeds(std::uint64_t& first, std::uint64_t& count) {
    if (const char* given = std::getenv("THUNDERC_RANDOM_KERNELS")) std::istringstream(given) >> first >> count;
}

}  // namespace

std::string random_graphs(std::uint64_t first, std::uint64_t count) {
    read_seeds(first, count);
    std::string text;
    for (std::uint64_t seed = first; seed < first + count; ++seed)
        text += fmt::format("values_{0}:\n{1}\nstep_{0}:\n{2}\n", seed, to_string(RandomGraph(seed).values()),
                            to_string(RandomGraph(seed, true).loss()));
    return text;
}

std::vector<KernelCase> random_cases(std::uint64_t first, std::uint64_t count) {
    read_seeds(first, count);
    std::vector<KernelCase> cases;
    for (std::uint64_t seed = first; seed < first + count; ++seed) {
        KernelCase c;
        c.name = fmt::format("values_{}", seed);
        c.module = RandomGraph(seed).values();
        verify(c.module);
        c.strided = seed % 4 == 1;
        std::mt19937_64 engine(seed + 1);
        for (Value v : c.module.main().arguments)
            c.arguments.push_back(kernel_numbers(c.module.main().type(v), engine, -1.5));
        add(cases, std::move(c));

        const Module step = trained(RandomGraph(seed, true).loss(), seed);
        for (KernelCase& kernel : kernels_of_program(fmt::format("step_{}", seed), step)) add(cases, std::move(kernel));
    }
    return cases;
}

}  // namespace thunderc::testing
