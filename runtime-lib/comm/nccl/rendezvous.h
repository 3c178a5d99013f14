// SPDX-License-Identifier: Apache-2.0
// Sockets between rank 0 and all others: how ranks find one another, and the few numbers between steps. What a step
// communicates goes by NCCL.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "comm/ranks/start_timeout.h"

namespace thunder {

// How this process was started: by mpirun, by srun, or with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT.
struct Launch {
    int rank = 0, world = 1;
    // Its place among the ranks of its host, and how many these are; -1 and 0: the launcher does not say
    // (local_rank.h).
    int local_rank = -1, local_world = 0;
    std::string address = "127.0.0.1";  // of rank 0's host
    int port = 29500;
    int patience = default_start_timeout;  // seconds in which all ranks have to come
};
// Fails where the variables contradict themselves, or do not say where rank 0 is.
Launch launched();

class Rendezvous {
  public:
    // All ranks; `kind` tells the stars of one run apart, which are made in the order of their kinds. Fails where not
    // all of them come in time, with those that are missing.
    Rendezvous(const Launch& launch, int kind);
    Rendezvous(const Rendezvous&) = delete;
    Rendezvous& operator=(const Rendezvous&) = delete;
    ~Rendezvous();

    // One of the two is rank 0. They wait; a rank that is gone is an error.
    void send(std::span<const std::byte> bytes, int to);
    void receive(std::span<std::byte> bytes, int from);

    // Without waiting: as many bytes as go, or come; -1 where the other side is gone.
    long send_some(std::span<const std::byte> bytes, int to);
    long receive_some(std::span<std::byte> bytes, int from);

  private:
    void listen_for(const Launch& launch, int kind);
    void connect_to(const Launch& launch, int kind);

    int rank_;
    std::vector<int> sockets_;  // by rank; of others than rank 0: the one to it
};

}  // namespace thunder
