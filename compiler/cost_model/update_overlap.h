// SPDX-License-Identifier: Apache-2.0
// What an update beside the next step's forward pass gains on a GPU of one rank: planned/update_parts.h says what waits
// for what, this how long it takes.
//
// While both run, products have the multiprocessors that the update does not have (runtime-lib/optim/update_share.h),
// and the update a share of the memory's rate that all others lack. Where the forward pass stands and waits for a part,
// the update has the whole device. Assumed, since nobody has measured it: a multiprocessor that has nothing else to do
// gets twice its even share of the memory's rate.
#pragma once

#include "compiler/cost_model/machines.h"
#include "compiler/ir/module.h"

namespace thunderc {

struct UpdateOverlap {
    double behind = 0;  // seconds of forward pass and update, one behind the other; 0: there is nothing to overlap
    double beside = 0;  // with the update beside the forward pass

    double gained() const { return behind - beside; }
};
// Of a training program's step.
UpdateOverlap update_overlap(const Module& planned, const Machine& machine, const Reach& reach);

}  // namespace thunderc
