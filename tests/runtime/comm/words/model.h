// SPDX-License-Identifier: Apache-2.0
// The model `words` (tests/runtime/train/words) as a program of several ranks: WORDS_REPLICAS copies, each in
// WORDS_SHARDS shards, written by hand as thunderc writes them.
#pragma once

#include "comm/collectives.h"
#include "device/api.h"
#include "device/stream.h"
#include "train/arenas.h"
#include "train/program.h"

extern const thunder::ProgramSpec PROGRAM;

class Model {
  public:
    Model(const thunder::TrainingArenas& arenas, const thunder::Streams& streams)
        : arenas_(arenas),
          stream_(streams.compute),
          gather_(*streams.communication.front()),
          reduce_(*streams.communication.back()) {}
    void loss_weight();
    // The next step overwrites the gradients.
    void evaluate() { forward_backward({thunder::WriteMode::overwrite, true}); }
    void forward_backward(const thunder::MicroStep& step);
    void clip();
    void update(const thunder::UpdatePart& part, thunder::Stream& stream);

  private:
    thunder::TrainingArenas arenas_;
    thunder::Stream &stream_, &gather_, &reduce_;
    thunder::Event updated_, gathered_, computed_, reduced_;
};
