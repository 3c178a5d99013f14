// SPDX-License-Identifier: Apache-2.0
// One call of a generated function, with tensors from files. The program's run.cpp is what stands around it.
#pragma once

#include <memory>

#include "device/stream.h"
#include "program/arenas.h"
#include "run/function.h"
#include "run/options.h"

namespace thunder {

class Runner {
  public:
    // Looks through the files, takes the memory, and loads parameters, tables and inputs. What is missing, superfluous
    // or of another shape fails with a message before memory is taken.
    Runner(const FunctionSpec& function, const RunOptions& options);
    Runner(const Runner&) = delete;
    Runner& operator=(const Runner&) = delete;
    ~Runner();

    const Arenas& arenas() const;
    Stream& stream();

    // Writes outputs and gradients, atomically, and says so in one line.
    void save();

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace thunder
