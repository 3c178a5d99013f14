// SPDX-License-Identifier: Apache-2.0
// The other kind of program: a straight line through points, its loss a plain mean without a weight, SGD with momentum;
// inputs of other types, one of them without a batch dimension.
#pragma once

#include "device/api.h"
#include "train/arenas.h"
#include "train/program.h"

extern const thunder::ProgramSpec PROGRAM;

// loss = mean over rows of (use ? (weight . (x + offset) + bias - target)^2 : 0)
// With LINE_TERMS it is the sum over the rows that are used, divided by their number: loss_weights[1]; loss_weights[0]
// is that of a term that is 0.
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
