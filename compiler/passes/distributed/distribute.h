// SPDX-License-Identifier: Apache-2.0
// Puts collectives into a training step, so that several ranks train one model.
//
// Requires: the functions of compose_step, fused (nothing behind this pass looks into layers or kernels, so these are
// the same whatever the mesh). Guarantees: every result of a collective is read behind its await. A mesh of one rank
// changes nothing.
//
// DDP (`replicas` = N, `shards` = 1): gradients are summed in buckets, in the order in which backward has them ready:
// what stands before the loop of the layers, the layers, `layers` of them together, what stands behind. A bucket is
// full with `bucket_bytes`, the first one with 1 MiB at most, so that the ranks begin to talk early. Only the last
// micro-step of a step sends: `forward_backward` gets the scalar `last_micro_step`, which the host knows.
//
//     %dx, %g = repeat(%dy, %w, %grad_w, %first) {body = "layer_backward", ...}
//
// becomes
//
//     %dx, %g, %t = repeat(%dy, %w, %grad_w, %first, %last) {body = "layer_backward_loop", ...}
//     %g_1 = await(%g, %t)
//
//     func @layer_backward_loop(%dy, %w, %grad_w, %first, %last) -> (%dx, %sum, %t) kind "loop" {
//       %dx, %g = call(%dy, %w, %grad_w, %first) {callee = "layer_backward"}
//       %sum, %t = all_reduce_start(%g, %last) {group = "world", layers = 4, name = "bucket_1", ...}
//     }
//
// FSDP and HSDP (`shards` > 1): see docs/sharding.md. Parameters, gradients and states become shards of
// units; units are gathered in front of what reads them, and their gradients summed behind what makes them, layer by
// layer in the bodies of loops.
//
// Does not move anything: that is schedule_collectives' part.
#pragma once

#include "compiler/ir/module.h"
#include "compiler/passes/pass_manager.h"

namespace thunderc {

struct DistributeOptions {
    Mesh mesh;
    std::int64_t bucket_bytes = 25 << 20;
    // With shards: whether layers are there in the backward pass, all of them (never), the last two (forward) or none
    // (always); else they are gathered again.
    std::string reshard = "forward";
};

Module distribute(Module module, const DistributeOptions& options, Report& report);

}  // namespace thunderc
