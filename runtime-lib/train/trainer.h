// SPDX-License-Identifier: Apache-2.0
// Everything of a training run that does not depend on the model: memory, batches, schedule, logs, checkpoints. The
// program's train.cpp is the loop over it.
#pragma once

#include <cstdint>
#include <memory>

#include "device/api.h"
#include "device/stream.h"
#include "train/arenas.h"
#include "train/options.h"
#include "train/program.h"
#include "train/updates.h"

namespace thunder {

class Trainer {
  public:
    // Takes the memory, then reads or draws the parameters, or goes on from a checkpoint.
    Trainer(const ProgramSpec& program, const Options& options);
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;
    ~Trainer();

    const TrainingArenas& arenas() const;
    Stream& stream();  // the one that computes
    Streams streams();

    // False when all steps are done, or the run was interrupted. Otherwise sets the step's scalars.
    bool begin_step();
    std::int64_t micro_steps() const;
    // Asked once for each micro-step that is trained on.
    MicroStep micro_step(std::int64_t micro_step);
    // Puts a micro-batch of this step, this rank's rows of it, into the batch arena.
    void load_batch(std::int64_t micro_step);
    // The weight of the step's loss is known: seeds the backward pass with its inverse.
    void set_loss_gradient();
    // All gradients are there: writes them to a file in the first step, if asked.
    void gradients_are_ready();
    // When the optimizer steps the parameters.
    Updates& updates();
    // Logs the step; writes a checkpoint when it is time.
    void end_step();

    // Whether batches that are not trained on are to be evaluated now, once: behind a step, or instead of all steps.
    // From here to end_evaluation, which logs their loss, micro_steps() and load_batch() are about these.
    bool begin_evaluation();
    void end_evaluation();
    // What streams of communication were given so far is done before what the computing one is given next. Behind a
    // forward pass without its backward pass, which would wait for what that one gathers ahead; part of one graph with
    // it.
    void join_streams();

    // Writes what is written at the end. The program's exit status: 0, or 128 + the signal that interrupted it.
    int finish();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace thunder
