// SPDX-License-Identifier: Apache-2.0
// Which ranks share a host, and which GPU of it is whose.
#pragma once

#include "comm/nccl/rendezvous.h"

namespace thunder {

// Where the launcher did not say what place a rank has among those of its host: from the names of the hosts, which all
// ranks tell one another. On all ranks.
void find_neighbours(Launch& launch, Rendezvous& rendezvous);

// A process sees its own GPU alone, the first that it finds then. Before CUDA is asked for anything.
void choose_gpu(const Launch& launch);

}  // namespace thunder
