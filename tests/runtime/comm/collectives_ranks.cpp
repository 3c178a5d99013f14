// SPDX-License-Identifier: Apache-2.0
// Collectives against a naive reference: every rank knows what all ranks put in, and adds it up by itself, in rank
// order.
//   mpirun -np N collectives_ranks
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "comm/collectives.h"
#include "comm/communicator.h"
#include "comm/mpi/ranks.h"
#include "device/stream.h"
#include "optim/step_scalars.h"
#include "runtime/kernels/fp8_recipes.h"
#include "support/error.h"

namespace thunder {
namespace {

Communicator* world = nullptr;
Device* device = nullptr;
Mesh mesh;
std::vector<std::unique_ptr<Stream>> streams;  // two of communication

// What rank `rank` has at element i of tensor `tensor`: of very different sizes, so that the order of a sum is seen in
// its bits.
float value(int rank, std::int64_t i, int tensor = 0) {
    std::uint64_t z = static_cast<std::uint64_t>(i) * 0x9e3779b97f4a7c15U + static_cast<std::uint64_t>(rank) * 77 +
                      static_cast<std::uint64_t>(tensor) * 1234567;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z ^= z >> 27U;
    const double unit = static_cast<double>(z >> 11U) * 0x1p-53 - 0.5;
    return static_cast<float>(std::ldexp(unit, static_cast<int>(z % 24) - 12));
}

// bf16 as IEEE has it, by a way of its own: the nearest of the two neighbours, the even one of two as near.
std::uint16_t nearest_bf16(float x) {
    const auto below = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16U);
    const auto above = static_cast<std::uint16_t>(below + 1);
    const auto as_double = [](std::uint16_t bits) {
        return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U));
    };
    const double down = std::abs(static_cast<double>(x) - as_double(below)),
                 up = std::abs(as_double(above) - static_cast<double>(x));
    if (down != up) return down < up ? below : above;
    return below % 2 == 0 ? below : above;
}
float widened(std::uint16_t bits) {
    return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16U);
}

std::vector<int> ranks_of(Group group) {
    std::vector<int> ranks;
    const int me = world->rank();
    for (int r = 0; r < world->world(); ++r) {
        const bool in = group == Group::world || (group == Group::shard && mesh.replica_of(r) == mesh.replica_of(me)) ||
                        (group == Group::replica && mesh.shard_of(r) == mesh.shard_of(me));
        if (in) ranks.push_back(r);
    }
    return ranks;
}
int place_in(Group group) {
    const std::vector<int> ranks = ranks_of(group);
    return static_cast<int>(std::find(ranks.begin(), ranks.end(), world->rank()) - ranks.begin());
}

constexpr Group groups[] = {Group::world, Group::shard, Group::replica};
// Fewer than ranks, whole cache lines and not, several exchanges (of 4096 elements here).
constexpr std::int64_t sizes[] = {1, 2, 3, 17, 64, 1023, 1024, 1025, 4095, 4096, 4097, 10001};

TEST(Collectives, AllReduceAddsInRankOrder) {
    for (const Group group : groups) {
        for (const std::int64_t n : sizes) {
            std::vector<float> buffer(static_cast<std::size_t>(n)), expected(buffer.size());
            for (std::int64_t i = 0; i < n; ++i) {
                const auto k = static_cast<std::size_t>(i);
                buffer[k] = value(world->rank(), i);
                const std::vector<int> ranks = ranks_of(group);
                expected[k] = value(ranks[0], i);
                for (std::size_t r = 1; r < ranks.size(); ++r) expected[k] += value(ranks[r], i);
            }
            all_reduce({.buffer = buffer.data(), .elements = n, .group = group, .what = "a buffer"}, *streams[0]);
            streams[0]->synchronize();
            ASSERT_EQ(std::memcmp(buffer.data(), expected.data(), buffer.size() * sizeof(float)), 0)
                << name_of(group) << " of " << n;
        }
    }
}

TEST(Collectives, AllReduceOfBf16AddsInF32AndRoundsOnce) {
    for (const std::int64_t n : sizes) {
        std::vector<std::uint16_t> buffer(static_cast<std::size_t>(n)), expected(buffer.size());
        for (std::int64_t i = 0; i < n; ++i) {
            const auto k = static_cast<std::size_t>(i);
            buffer[k] = nearest_bf16(value(world->rank(), i));
            float sum = widened(nearest_bf16(value(0, i)));
            for (int r = 1; r < world->world(); ++r) sum += widened(nearest_bf16(value(r, i)));
            expected[k] = nearest_bf16(sum);
        }
        all_reduce({.buffer = reinterpret_cast<bf16*>(buffer.data()), .elements = n, .what = "a buffer"}, *streams[0]);
        streams[0]->synchronize();
        ASSERT_EQ(buffer, expected) << n;
    }
}

TEST(Collectives, AllReduceMaxTakesTheLargest) {
    for (const Group group : groups) {
        for (const std::int64_t n : sizes) {
            std::vector<float> buffer(static_cast<std::size_t>(n)), expected(buffer.size(), -INFINITY);
            for (std::int64_t i = 0; i < n; ++i) {
                const auto k = static_cast<std::size_t>(i);
                buffer[k] = value(world->rank(), i);
                for (const int r : ranks_of(group)) expected[k] = std::max(expected[k], value(r, i));
            }
            all_reduce_max({.buffer = buffer.data(), .elements = n, .group = group, .what = "amaxes"}, *streams[0]);
            streams[0]->synchronize();
            ASSERT_EQ(buffer, expected) << name_of(group) << " of " << n;
        }
    }
    bf16 narrow{};
    EXPECT_THROW(all_reduce_max({.buffer = &narrow, .elements = 1, .what = "amaxes"}, *streams[0]), Error);
}

// Each rank has quantised other numbers; all have the scales that follow from the largest amax of any, and the same
// history.
TEST(Collectives, DelayedScalesAreTheSameOnAllRanks) {
    const auto& recipes = testing::recorded_recipes();
    const auto recorded = std::find_if(recipes.begin(), recipes.end(), [](const auto& recipe) {
        return recipe.ranks > 1 && recipe.ranks == world->world();
    });
    if (recorded == recipes.end()) GTEST_SKIP() << "nothing is recorded of so many ranks";
    const std::vector<float> amaxes = testing::recorded_floats("amax");
    const std::int64_t tensors = testing::recorded_tensors, length = recorded->recipe.length;
    std::vector<float> scale(static_cast<std::size_t>(tensors), 1.F), largest(scale.size());
    std::vector<float> history(static_cast<std::size_t>(tensors * length)), scales;
    Stream compute(*device);
    for (std::int64_t step = 0; step < testing::recorded_steps; ++step) {
        for (std::int64_t t = 0; t < tensors; ++t) {
            const auto from = static_cast<std::size_t>(step * tensors + (t + world->rank()) % tensors);
            float& amax = history[static_cast<std::size_t>(t * length)];
            amax = larger_amax(amax, amaxes[from]);  // as quantising leaves it
            largest[static_cast<std::size_t>(t)] = amax;
        }
        Event reduced;
        all_reduce_max({.buffer = largest.data(), .elements = tensors, .what = "amaxes"}, *streams[0]);
        streams[0]->record(reduced);
        compute.wait(reduced);
        fp8_update_scales({.scale = scale.data(),
                           .history = history.data(),
                           .amax = largest.data(),
                           .largest = recorded->recipe.largest(recorded->of_gradients),
                           .tensors = tensors,
                           .length = length},
                          compute);
        if (step % testing::recorded_every == testing::recorded_every - 1)
            scales.insert(scales.end(), scale.begin(), scale.end());
    }
    const std::string name = recorded->name;
    testing::expect_bits(scales, testing::recorded_floats(name + "/scale"), "scales");
    testing::expect_bits(history, testing::recorded_floats(name + "/history"), "history");
}

TEST(Collectives, AllGatherPutsShardsSideBySide) {
    for (const Group group : groups) {
        for (const std::int64_t n : sizes) {
            const std::vector<int> ranks = ranks_of(group);
            std::vector<float> shard, unit(static_cast<std::size_t>(n) * ranks.size()), expected;
            for (std::int64_t i = 0; i < n; ++i) shard.push_back(value(world->rank(), i));
            for (const int r : ranks)
                for (std::int64_t i = 0; i < n; ++i) expected.push_back(value(r, i));
            const AllGather call{
                .unit = unit.data(), .shard = shard.data(), .elements = n, .group = group, .what = "a unit"};
            all_gather(call, *streams[0]);
            streams[0]->synchronize();
            ASSERT_EQ(unit, expected) << name_of(group) << " of " << n;

            // The shard lies in the unit.
            std::fill(unit.begin(), unit.end(), -1.0F);
            float* mine = unit.data() + place_in(group) * n;
            std::copy(shard.begin(), shard.end(), mine);
            all_gather({.unit = unit.data(), .shard = mine, .elements = n, .group = group, .what = "a unit"},
                       *streams[0]);
            streams[0]->synchronize();
            ASSERT_EQ(unit, expected) << "in place, " << name_of(group) << " of " << n;
        }
    }
}

TEST(Collectives, ReduceScatterOverwritesOrAdds) {
    for (const Group group : groups) {
        for (const std::int64_t n : sizes) {
            const std::vector<int> ranks = ranks_of(group);
            std::vector<float> unit, expected;
            for (std::int64_t i = 0; i < n * static_cast<std::int64_t>(ranks.size()); ++i)
                unit.push_back(value(world->rank(), i));
            for (std::int64_t i = 0; i < n; ++i) {
                const std::int64_t at = place_in(group) * n + i;
                expected.push_back(value(ranks[0], at));
                for (std::size_t r = 1; r < ranks.size(); ++r) expected.back() += value(ranks[r], at);
            }
            std::vector<float> shard(static_cast<std::size_t>(n), 7.0F);
            ReduceScatter call{
                .shard = shard.data(), .unit = unit.data(), .elements = n, .group = group, .what = "a unit"};
            reduce_scatter(call, *streams[0]);
            streams[0]->synchronize();
            ASSERT_EQ(shard, expected) << name_of(group) << " of " << n;
            call.mode = WriteMode::add;
            reduce_scatter(call, *streams[0]);
            streams[0]->synchronize();
            for (float& x : expected) x += x;  // exact
            ASSERT_EQ(shard, expected) << "added, " << name_of(group) << " of " << n;
        }
    }
}

TEST(Collectives, ReduceScatterOfBf16IntoF32RoundsNothing) {
    const std::int64_t n = 3000;
    std::vector<std::uint16_t> unit;
    std::vector<float> shard(n, 1.0F), expected;
    for (std::int64_t i = 0; i < n * world->world(); ++i) unit.push_back(nearest_bf16(value(world->rank(), i)));
    for (std::int64_t i = 0; i < n; ++i) {
        const std::int64_t at = world->rank() * n + i;
        float sum = widened(nearest_bf16(value(0, at)));
        for (int r = 1; r < world->world(); ++r) sum += widened(nearest_bf16(value(r, at)));
        expected.push_back(1.0F + sum);
    }
    reduce_scatter({.shard = shard.data(),
                    .unit = reinterpret_cast<bf16*>(unit.data()),
                    .elements = n,
                    .mode = WriteMode::add,
                    .group = Group::world,
                    .what = "a unit"},
                   *streams[0]);
    streams[0]->synchronize();
    EXPECT_EQ(shard, expected);
}

TEST(Collectives, TheNormIsThatOfAllParts) {
    StepScalars scalars;
    scalars.max_grad_norm = 0.5;
    const std::int64_t n = 5000;
    std::vector<float> mine;
    double squares = 0;
    for (std::int64_t i = 0; i < n; ++i) mine.push_back(value(world->rank(), i));
    for (int r = 0; r < world->world(); ++r)
        for (std::int64_t i = 0; i < n; ++i) squares += static_cast<double>(value(r, i)) * value(r, i);
    Stream compute(*device);
    sharded_norm({.scalars = &scalars, .gradients = mine.data(), .elements = n, .group = Group::world}, compute);
    // Sums in double of some ten thousand squares in two orders.
    EXPECT_NEAR(scalars.grad_norm, std::sqrt(squares), 1e-6 * std::sqrt(squares));
    EXPECT_NEAR(scalars.clip_factor, 0.5 / (std::sqrt(squares) + 1e-6), 1e-6);
    std::vector<float> all(static_cast<std::size_t>(world->world()));
    world->all_gather(std::as_bytes(std::span(&scalars.grad_norm, 1)), std::as_writable_bytes(std::span(all)), "norms");
    for (const float norm : all) EXPECT_EQ(norm, scalars.grad_norm);
}

// Two streams are busy at once, each with many collectives, and the host with a third: none takes what another's is.
TEST(Collectives, StreamsDoNotCross) {
    constexpr int rounds = 40;
    constexpr std::int64_t n = 700;
    std::vector<std::vector<float>> buffers(2 * rounds);
    for (int k = 0; k < 2 * rounds; ++k)
        for (std::int64_t i = 0; i < n; ++i) buffers[static_cast<std::size_t>(k)].push_back(value(world->rank(), i, k));
    for (int k = 0; k < 2 * rounds; ++k)
        all_reduce({.buffer = buffers[static_cast<std::size_t>(k)].data(), .elements = n, .what = "a buffer"},
                   *streams[static_cast<std::size_t>(k % 2)]);
    for (int k = 0; k < rounds; ++k) {
        float number = static_cast<float>(world->rank() + k);
        world->all_reduce_sum({&number, 1}, "a number");
        const int ranks = world->world();
        EXPECT_EQ(number, static_cast<float>(ranks * k + ranks * (ranks - 1) / 2));
    }
    for (const auto& stream : streams) stream->synchronize();
    for (int k = 0; k < 2 * rounds; ++k) {
        for (std::int64_t i = 0; i < n; ++i) {
            float expected = value(0, i, k);
            for (int r = 1; r < world->world(); ++r) expected += value(r, i, k);
            ASSERT_EQ(buffers[static_cast<std::size_t>(k)][static_cast<std::size_t>(i)], expected) << k;
        }
    }
}

// A buffer goes from stream to stream, and back to the one that computes: events alone say when.
TEST(Collectives, EventsOrderStreams) {
    Stream compute(*device);
    for (int round = 0; round < 30; ++round) {
        const std::int64_t n = 5000;
        std::vector<float> shard(n, static_cast<float>(world->rank() + round));
        std::vector<float> unit(static_cast<std::size_t>(n * world->world()), -1.0F);
        Event ready, gathered, reduced;
        for (float& x : shard) x += 1;
        compute.record(ready);
        streams[0]->wait(ready);
        all_gather({.unit = unit.data(), .shard = shard.data(), .elements = n, .group = Group::world, .what = "a unit"},
                   *streams[0]);
        streams[0]->record(gathered);
        streams[1]->wait(gathered);
        all_reduce({.buffer = unit.data(), .elements = n * world->world(), .what = "a buffer"}, *streams[1]);
        streams[1]->record(reduced);
        compute.wait(reduced);
        for (int r = 0; r < world->world(); ++r)
            ASSERT_EQ(unit[static_cast<std::size_t>(r * n)], static_cast<float>((r + round + 1) * world->world()));
    }
}

TEST(Collectives, HostsExchangeBytes) {
    const int ranks = world->world(), me = world->rank();
    std::vector<float> sum(3000);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = value(me, static_cast<std::int64_t>(i));
    world->all_reduce_sum(sum, "numbers");
    for (std::size_t i = 0; i < sum.size(); ++i) {
        float expected = value(0, static_cast<std::int64_t>(i));
        for (int r = 1; r < ranks; ++r) expected += value(r, static_cast<std::int64_t>(i));
        ASSERT_EQ(sum[i], expected);
    }
    for (int root = 0; root < ranks; ++root) {
        std::vector<std::byte> bytes(100000, static_cast<std::byte>(me + 1));
        world->broadcast(bytes, root, "bytes");
        for (const std::byte b : bytes) ASSERT_EQ(b, static_cast<std::byte>(root + 1));
    }
    std::vector<std::byte> letter(1 << 20, static_cast<std::byte>(me));
    if (me != 0) world->send(letter, 0, "a letter");
    for (int r = 1; me == 0 && r < ranks; ++r) {
        world->receive(letter, r, "a letter");
        ASSERT_EQ(letter.front(), static_cast<std::byte>(r));
        ASSERT_EQ(letter.back(), static_cast<std::byte>(r));
    }
    world->barrier("the end");
}

// Random sleeps in every stream change no bit.
TEST(Collectives, ChaosChangesNothing) {
    const std::int64_t n = 2000;
    std::vector<float> calm;
    for (std::uint64_t seed = 0; seed <= 3; ++seed) {
        if (seed > 0) event_log().set_chaos(seed);
        std::vector<float> shard(n), unit(static_cast<std::size_t>(n * world->world()));
        for (std::int64_t i = 0; i < n; ++i) shard[static_cast<std::size_t>(i)] = value(world->rank(), i);
        Stream compute(*device);
        Event gathered, reduced;
        for (int round = 0; round < 5; ++round) {
            streams[0]->wait(reduced);
            all_gather(
                {.unit = unit.data(), .shard = shard.data(), .elements = n, .group = Group::world, .what = "a unit"},
                *streams[0]);
            streams[0]->record(gathered);
            streams[1]->wait(gathered);
            reduce_scatter({.shard = shard.data(),
                            .unit = unit.data(),
                            .elements = n,
                            .mode = WriteMode::add,
                            .group = Group::world,
                            .what = "a unit"},
                           *streams[1]);
            streams[1]->record(reduced);
        }
        compute.wait(reduced);
        if (seed == 0) calm = shard;
        ASSERT_EQ(std::memcmp(shard.data(), calm.data(), shard.size() * sizeof(float)), 0) << seed;
    }
}

}  // namespace
}  // namespace thunder

int main(int argc, char** argv) {
    using namespace thunder;
    ::testing::InitGoogleTest(&argc, argv);
    const std::unique_ptr<Communicator> communicator = make_communicator();
    Device cpu(1);
    world = communicator.get();
    device = &cpu;
    // Of four ranks two by two: each group has its own members. Of others one copy, in as many shards.
    mesh = world->world() == 4 ? Mesh{2, 2} : Mesh{1, world->world()};
    const std::string_view names[] = {"gather", "reduce"};
    streams = communicator->make_streams(cpu, mesh, names);
    exchange_elements = 4096;
    auto& listeners = ::testing::UnitTest::GetInstance()->listeners();
    if (world->rank() != 0) delete listeners.Release(listeners.default_result_printer());
    const int result = RUN_ALL_TESTS();
    if (result != 0 && world->rank() != 0) std::fprintf(stderr, "rank %d: a test fails\n", world->rank());
    streams.clear();
    return result;
}
