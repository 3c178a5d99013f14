// SPDX-License-Identifier: Apache-2.0
// One rank alone.
#include "comm/communicator.h"

#include <algorithm>
#include <limits>

#include "device/stream.h"
#include "support/environment.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

class Self : public Communicator {
  public:
    int world() const override { return 1; }
    int rank() const override { return 0; }
    int ranks_on_these_cores() const override { return 1; }
    void all_reduce_sum(std::span<float> /*values*/, const char* /*what*/) override {}
    void broadcast(std::span<std::byte> /*bytes*/, int /*root*/, const char* /*what*/) override {}
    void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* /*what*/) override {
        std::copy(mine.begin(), mine.end(), all.begin());
    }
    void barrier(const char* /*what*/) override {}
    void send(std::span<const std::byte> /*bytes*/, int /*to*/, const char* /*what*/) override {}
    void receive(std::span<std::byte> /*bytes*/, int /*from*/, const char* /*what*/) override {}

    std::vector<std::unique_ptr<Stream>> make_streams(Device& device, const Mesh& /*mesh*/,
                                                      std::span<const std::string_view> names) override {
        std::vector<std::unique_ptr<Stream>> streams;
        while (streams.size() < names.size()) streams.push_back(std::make_unique<Stream>(device));
        return streams;
    }

    void check_config(const ProgramSpec& /*program*/, const Options& /*options*/,
                      const std::string& /*checkpoint*/) override {}
    void watch(const WatchdogOptions& /*options*/) override {}
    void note_progress(std::int64_t /*step*/) override {}
    void finish() override {}
};

}  // namespace

std::unique_ptr<Communicator> make_communicator() {
    // Each of several would train alone, and write over what the others write.
    for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "WORLD_SIZE"}) {
        const auto size = number_of_environment(variable, 0, std::numeric_limits<int>::max(),
                                                "launchers of ranks set it; unset it where there is one rank");
        if (size.value_or(1) > 1)
            fail(cat(variable, " says that there are ", *size, " ranks, and this program was built for one alone"),
                 "start it by itself; thunderc train --dp N or --fsdp N makes programs for several ranks, which are "
                 "built with -DCOMM=mpi");
    }
    return std::make_unique<Self>();
}

}  // namespace thunder
