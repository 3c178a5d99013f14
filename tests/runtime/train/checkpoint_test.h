// SPDX-License-Identifier: Apache-2.0
// What tests of checkpoints share.
#pragma once

#include "program_test.h"

namespace thunder {
namespace checkpoint_test {

inline const std::string flags = "--feed feed.safetensors --steps 8 --lr 0.1 --warmup 3 --seed 4 --quiet";

class CheckpointTest : public ProgramTest {
  protected:
    CheckpointTest() { write_feed("feed.safetensors", 3, 4); }

    void expect_failure(const Outcome& outcome, const std::string& error, int status = 1) const {
        EXPECT_EQ(outcome.status, status);
        EXPECT_EQ(outcome.err, error + "\n");
    }
};

}  // namespace checkpoint_test
}  // namespace thunder
