// The ranks of a training run, as far as the trainer talks to them. Collectives of a step are issued by the generated
// program on its streams; these here are for the few numbers between steps.
#pragma once

#include <cstddef>
#include <memory>
#include <span>

namespace thunder {

class Communicator {
  public:
    virtual ~Communicator() = default;

    virtual int world() const = 0;
    virtual int rank() const = 0;
    virtual int ranks_on_this_host() const = 0;

    // Sums over the ranks in rank order, into all of them; host memory.
    virtual void all_reduce_sum(std::span<float> values) = 0;
    // What rank `root` has, everywhere; host memory.
    virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
    virtual void barrier() = 0;
};

// The communicator that this program was linked with.
std::unique_ptr<Communicator> make_communicator();

}  // namespace thunder
