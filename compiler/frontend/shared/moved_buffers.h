// SPDX-License-Identifier: Apache-2.0
// Buffers that a model moves as it is trained: running statistics of batch norms.
#pragma once

#include <map>
#include <set>
#include <string>

#include "compiler/ir/builder.h"
#include "compiler/ir/module.h"

namespace thunderc {

class MovedBuffers {
  public:
    explicit MovedBuffers(Builder& builder) : builder_(&builder) {}

    // (1 - share) of + share towards; of a buffer that was moved before, of what it was moved to.
    Value average(Value of, Value towards, double share);
    // That is what a buffer becomes in each micro-step.
    void move(Value buffer, Value now) { now_[buffer] = now; }
    bool moves(Value buffer) const { return now_.contains(buffer); }
    // What buffers will be is what main gives last. Throws UserError where the model reads one that moves.
    void end();

  private:
    Builder* builder_;
    std::map<Value, Value> now_;  // by buffer
    std::set<Value> moving_ops_;  // results of ops that read a buffer in order to move it
};

// Of an argument of the function; nullptr: it is none.
ArgInfo* argument_info(Function& function, Value v);

}  // namespace thunderc
