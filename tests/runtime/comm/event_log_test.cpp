// SPDX-License-Identifier: Apache-2.0
// What a rank says of where it stands, and that it gets on.
#include "comm/ranks/event_log.h"

#include <array>
#include <nlohmann/json.hpp>

#include "comm/ranks/watchdog.h"
#include "device/stream.h"
#include "helpers.h"
#include "train/init.h"
#include "train/world.h"

namespace thunder {
namespace event_log_test {

// A tensor's name lives as long as it is sent; the watchdog asks at any time.
TEST(EventLog, KeepsTheNameOfTheLastCollective) {
    EventLog event_log;
    std::string name = "optimizer.m.model.layers.0.self_attn.q_proj.weight";
    event_log.run(event_log.main(), {"receive", name.c_str(), -1, 4}, [] {});
    name.assign(name.size(), 'x');
    EXPECT_EQ(where_it_stands(event_log).find("in no collective, the last was receive of "
                                              "optimizer.m.model.layers.0.self_attn.q_proj.weight, number 1 of stream "
                                              "compute, "),
              0U)
        << where_it_stands(event_log);
}

TEST(EventLog, ATimelineHasAnEndAndIsJson) {
    EventLog event_log;
    event_log.set_timeline(true);
    for (std::size_t i = 0; i < Lane::most_spans + 100; ++i)
        event_log.run(event_log.main(), {"send", "\"quoted\\name\"", -1, 4}, [] {});
    EXPECT_EQ(event_log.main().spans().size(), Lane::most_spans);
    const auto trace = nlohmann::json::parse(cat("[", event_log.trace_events(3, 0), "]"));
    // Two names, the spans, and what says that they are not all.
    ASSERT_EQ(trace.size(), Lane::most_spans + 3);
    EXPECT_EQ(trace[2]["name"], "send of \"quoted\\name\"");
    EXPECT_EQ(trace.back()["ph"], "i");
}

class StartTest : public InFolder {};

// Others that are done wait for a rank that reads or draws: it gets on with each parameter.
TEST_F(StartTest, NotesProgressWithEachParameter) {
    struct Counting : Communicator {
        int world() const override { return 2; }
        int rank() const override { return 0; }
        int ranks_on_these_cores() const override { return 1; }
        void all_reduce_sum(std::span<float>, const char*) override {}
        void broadcast(std::span<std::byte>, int, const char*) override {}
        void all_gather(std::span<const std::byte>, std::span<std::byte>, const char*) override {}
        void barrier(const char*) override {}
        void send(std::span<const std::byte>, int, const char*) override {}
        void receive(std::span<std::byte>, int, const char*) override {}
        std::vector<std::unique_ptr<Stream>> make_streams(Device&, const Mesh&,
                                                          std::span<const std::string_view>) override {
            return {};
        }
        void check_config(const ProgramSpec&, const Options&, const std::string&) override {}
        void watch(const WatchdogOptions&) override {}
        void note_progress(std::int64_t step) override {
            EXPECT_EQ(step, -1);
            ++noted;
        }
        void finish() override {}
        int noted = 0;
    } communicator;

    const std::int64_t shape[] = {4};
    const ParameterSpec parameters[] = {
        {"a.weight", DType::f32, shape, 0, 16, true, ParameterSpec::Init::normal, {}, ""},
        {"b.weight", DType::f32, shape, 64, 16, true, ParameterSpec::Init::normal, {}, ""}};
    ProgramSpec program{};
    program.parameters = parameters;
    const World world(program, communicator);
    Device device(1);
    Stream stream(device);
    std::array<float, 32> arena{};
    auto* bytes = reinterpret_cast<std::byte*>(arena.data());
    Options options;
    options.init = path("a.safetensors");
    options.init_missing = {{}};
    write_tensors(options.init, {floats("a.weight", {4}, {1, 2, 3, 4})});
    initialise_parameters(program, options, world, bytes, stream);
    EXPECT_EQ(arena[3], 4);
    EXPECT_NE(arena[16], 0);
    EXPECT_EQ(communicator.noted, 2);
}

}  // namespace event_log_test
}  // namespace thunder
