// SPDX-License-Identifier: Apache-2.0
#include "train/global_batch.h"

#include <charconv>

#include "checkpoint/checkpoint.h"
#include "support/error.h"
#include "support/text.h"
#include "watch/console.h"

namespace thunder {

void keep_global_batch(Options& options, BatchCut& cut, const ProgramSpec& program,
                       const std::vector<std::string>& checkpoints, Console& console) {
    if (!options.resume || checkpoints.empty() || options.change_batch || options.eval_only) return;
    const std::string& checkpoint = checkpoints.back();
    const auto made_by = made_by_of(checkpoint, program);
    const auto entry = made_by.find(rows_a_step);
    if (entry == made_by.end()) return;
    std::int64_t before = 0;
    const std::string& text = entry->second;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), before);
    if (error != std::errc() || end != text.data() + text.size() || before < 1) return;

    const std::int64_t micro_batch = program.batch * cut.world;  // rows of one micro-step of all ranks
    if (micro_batch * options.grad_accum == before) return;
    const std::string ranks = cut.world == 1 ? "" : cat(" on ", cut.world, " ranks");
    const std::string allowed = "--change-batch goes on with another number of rows";
    if (options.grad_accum_given)
        fail(cat("a step took ", before, " rows in ", checkpoint, ", and --grad-accum ", options.grad_accum, " takes ",
                 micro_batch * options.grad_accum, ranks),
             cat("leave --grad-accum away; or ", allowed));
    if (before % micro_batch != 0)
        fail(cat("a step took ", before, " rows in ", checkpoint, ", and micro-steps of ", micro_batch, " rows", ranks,
                 " do not add up to that"),
             cat("start another number of ranks, or write the program with another --batch; or ", allowed));
    options.grad_accum = cut.micro_steps = before / micro_batch;
    console.line(cat("--grad-accum ", options.grad_accum, ranks, ": a step takes ", before, " rows, as it did before"));
}

}  // namespace thunder
