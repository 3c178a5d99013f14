// SPDX-License-Identifier: Apache-2.0
// Programs of several ranks, beside those of one.
#pragma once

#include "program_test.h"

namespace thunder {

class RanksTest : public ProgramTest {
  protected:
    static constexpr const char* mpirun = MPIRUN " --oversubscribe --allow-run-as-root";

    static std::string started(int ranks, const std::string& program, const std::string& arguments) {
        return cat(mpirun, " -np ", ranks, " ", PROGRAMS, "/", program, " ", arguments);
    }
    Outcome run_ranks(int ranks, const std::string& program, const std::string& arguments) const {
        return shell(started(ranks, program, arguments));
    }
};

}  // namespace thunder
