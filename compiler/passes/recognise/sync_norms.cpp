// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/sync_norms.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ops/batch_norm.h"
#include "compiler/passes/pattern.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// The variance of a sample of n numbers is n / (n - 1) of the batch's.
double of_sample(double n) {
    return n / (n - 1);
}

// A norm's variance that becomes the one of a sample, by a product with a constant.
struct OfSample {
    std::size_t op, operand;  // the constant's
    double factor;            // of all ranks' numbers
};

std::vector<OfSample> samples_of(const Function& main, const Definitions& d, const Op& norm, std::int64_t ranks) {
    std::vector<OfSample> out;
    const Type& x = main.type(norm.operands[0]);
    const double n = static_cast<double>(x.elements()) / static_cast<double>(x.dims[1]);
    for (std::size_t k = 0; k < main.ops.size(); ++k) {
        const Op& op = main.ops[k];
        if (op.name != "mul") continue;
        for (const std::size_t constant : {std::size_t{0}, std::size_t{1}}) {
            const std::optional<double> factor = d.splat(op.operands[constant]);
            if (op.operands[1 - constant] != norm.results[2] || !factor) continue;
            // In f32 the constant has seven digits.
            if (std::abs(*factor - of_sample(n)) < 1e-6)
                out.push_back({k, constant, of_sample(n * static_cast<double>(ranks))});
        }
    }
    return out;
}

}  // namespace

Module sync_norms(Module module, const SyncOptions& options, Report& report) {
    if (options.ranks <= 1) return module;
    Function& main = module.main();
    const Definitions d(main, main.ops);
    std::vector<OfSample> samples;
    std::vector<std::size_t> norms;
    for (std::size_t k = 0; k < main.ops.size(); ++k) {
        const Op& op = main.ops[k];
        if (op.name != batch_norm_name || !(options.all || op.provenance.module_class == "SyncBatchNorm")) continue;
        norms.push_back(k);
        const std::vector<OfSample> own = samples_of(main, d, op, options.ranks);
        samples.insert(samples.end(), own.begin(), own.end());
    }
    if (norms.empty()) {
        if (!options.all) return module;
        Diagnostic diagnostic;
        diagnostic.message = "--sync-batch-norm: the model has no batch norm by the batch's statistics";
        diagnostic.help =
            "export it in train() mode; one in eval() mode goes by its running statistics, which are the same on all "
            "ranks";
        throw UserError(std::move(diagnostic));
    }
    for (const std::size_t k : norms) main.ops[k].attributes.set(batch_norm_ranks, options.ranks);
    // From the last one on, so that the places of the others stay.
    std::sort(samples.begin(), samples.end(), [](const OfSample& a, const OfSample& b) { return a.op > b.op; });
    for (const OfSample& sample : samples) {
        const DType dtype = main.type(main.ops[sample.op].results[0]).dtype;
        const std::size_t before = main.ops.size();
        const Value factor = Builder(main).scalar(dtype, sample.factor);
        check(main.ops.size() == before + 1, "a scalar is one op");
        main.ops[sample.op].operands[sample.operand] = factor;
        const auto at = main.ops.begin() + static_cast<std::ptrdiff_t>(sample.op);
        std::rotate(at, main.ops.end() - 1, main.ops.end());
    }
    report.done("sync_norms", "@main",
                fmt::format("{} batch norm{} the rows of {} ranks", norms.size(),
                            norms.size() == 1 ? " takes" : "s take", options.ranks));
    return module;
}

}  // namespace thunderc
