// SPDX-License-Identifier: Apache-2.0
// The calls of a naive program: `--executors reference`, and tests/reference of every training program. They take what
// the calls of the runtime API take that are named so, and share nothing with those: no library, no blocking, no kernel
// of the runtime's. What judges must not share what it judges.
//
// Each element of a product is one sum in double over k in order, rounded once; so is each element of a scattered sum,
// over the rows in order. The same bits on any number of threads and on every processor.
#pragma once

#include "device/api.h"

namespace thunder {

void reference_matmul(const Matmul& call, Stream& stream);
void reference_gather(const Gather& call, Stream& stream);
void reference_scatter_add(const ScatterAdd& call, Stream& stream);
void reference_random_uniform(const RandomUniform& call, Stream& stream);
void reference_random_bernoulli(const RandomBernoulli& call, Stream& stream);

}  // namespace thunder
