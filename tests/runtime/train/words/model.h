// SPDX-License-Identifier: Apache-2.0
// A program like those that thunderc writes, by hand and in plain loops: the smallest model with ids, a weighted loss,
// a tied name, a frozen parameter, one that an exporter folded, and a constant table. It drives the trainer in tests.
#pragma once

#include "device/api.h"
#include "train/arenas.h"
#include "train/program.h"

extern const thunder::ProgramSpec PROGRAM;

// logits[v] = sum over d of (embed[id] * (scale * frozen) + table)[d] * head[v][d] + bias[v]; cross entropy with
// labels.
class Model {
  public:
    Model(const thunder::TrainingArenas& arenas, thunder::Stream& stream) : arenas_(arenas), stream_(stream) {}
    void loss_weight();
    void evaluate() { forward_backward(thunder::WriteMode::overwrite); }  // the next step overwrites the gradients
    void forward_backward(thunder::WriteMode mode);
    void clip();
    void update(const thunder::UpdatePart& part, thunder::Stream& stream);

  private:
    thunder::TrainingArenas arenas_;
    thunder::Stream& stream_;
};
