// SPDX-License-Identifier: Apache-2.0
// Trains the model: one step is the weight of its loss, forward and backward for each micro-batch, and an update.
#include "device/check_cpu.h"  // tells a CPU that lacks what this was built for
#include "device/stream.h"     // Graph: a part of a step that is the same each time
#include "model.h"          // Model: forward, backward, clip, update of this graph; PROGRAM: its parameters and inputs
#include "support/error.h"  // what was thrown becomes one message
#include "train/options.h"  // the command line
#include "train/trainer.h"  // memory, batches, schedule, log, checkpoints

int main(int argc, char** argv) try {
    thunder::check_cpu();
    const auto options = thunder::parse_options(argc, argv, PROGRAM, THUNDERC_PROGRAM_DIR);
    if (!options) return 0;  // --help
    thunder::Trainer trainer(PROGRAM, *options);
    Model model(trainer.arenas(), trainer.streams());
    // On a GPU each part of the step is captured once and replayed.
    thunder::Stream& stream = trainer.stream();
    thunder::Graph weigh, evaluation, forward_backward[thunder::MicroStep::kinds], clip;
    thunder::Updates& updates = trainer.updates();
    updates.set_step([&](const thunder::UpdatePart& part, thunder::Stream& of_part) { model.update(part, of_part); });

    // A mean over a step's tokens needs their number before its first backward pass.
    const auto weigh_loss = [&] {
        const bool weighted = PROGRAM.loss != thunder::Loss::average;
        for (std::int64_t micro = 0; weighted && micro < trainer.micro_steps(); ++micro) {
            trainer.load_batch(micro);
            weigh.run(stream, [&] { model.loss_weight(); });
        }
        trainer.set_loss_gradient();
    };
    // The loss of batches that are not trained on.
    const auto evaluate = [&] {
        weigh_loss();
        for (std::int64_t micro = 0; micro < trainer.micro_steps(); ++micro) {
            trainer.load_batch(micro);
            evaluation.run(stream, [&] {
                model.evaluate();
                trainer.join_streams();
            });
        }
        trainer.end_evaluation();
    };

    if (trainer.begin_evaluation()) evaluate();
    while (trainer.begin_step()) {
        weigh_loss();
        for (std::int64_t micro = 0; micro < trainer.micro_steps(); ++micro) {
            trainer.load_batch(micro);
            // The first overwrites gradients, later ones add to them; after the last they are complete on all ranks.
            const thunder::MicroStep step = trainer.micro_step(micro);
            forward_backward[step.kind()].run(stream, [&] {
                updates.run(step);  // of the step before, where they run beside this forward pass
                model.forward_backward(step);
            });
        }
        trainer.gradients_are_ready();
        clip.run(stream, [&] { model.clip(); });
        updates.update();  // now, or beside the next forward pass
        trainer.end_step();
        if (trainer.begin_evaluation()) evaluate();
    }
    return trainer.finish();
} catch (...) {
    return thunder::report_error();
}
