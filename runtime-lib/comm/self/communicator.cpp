// One rank alone.
#include "comm/communicator.h"

namespace thunder {

namespace {

class Self : public Communicator {
  public:
    int world() const override { return 1; }
    int rank() const override { return 0; }
    int ranks_on_this_host() const override { return 1; }
    void all_reduce_sum(std::span<float> /*values*/) override {}
    void broadcast(std::span<std::byte> /*bytes*/, int /*root*/) override {}
    void barrier() override {}
};

}  // namespace

std::unique_ptr<Communicator> make_communicator() {
    return std::make_unique<Self>();
}

}  // namespace thunder
