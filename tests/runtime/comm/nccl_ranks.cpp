// SPDX-License-Identifier: Apache-2.0
// One rank that communicates by NCCL, of which a stub stands in, on memory of the host:
//   RANK=r WORLD_SIZE=n MASTER_PORT=p nccl_ranks WHAT
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "comm/collectives.h"
#include "comm/communicator.h"
#include "comm/nccl/kernels.h"
#include "device/cuda/driver/stream_of.h"
#include "device/cuda/gemm/epilogue.h"
#include "device/stream.h"
#include "optim/global_norm.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

// What of a GPU's runtime the collectives call, on the host.
namespace {
std::vector<Stream*> known;
std::string scenario;
bool is_second = false;  // rank
}  // namespace
cudaStream_t stream_of(Stream& stream) {
    for (std::size_t i = 0; i < known.size(); ++i)
        if (known[i] == &stream) return reinterpret_cast<cudaStream_t>(i + 1);
    if (known.empty() && is_second && scenario == "full") fail("the GPU has no room");
    while (known.empty() && is_second && scenario == "stuck") pause();
    known.push_back(&stream);
    return reinterpret_cast<cudaStream_t>(known.size());
}

// What a graph would do again: (word, which).
std::vector<std::pair<std::uint64_t*, std::uint16_t>> milestones;
void milestone(std::uint64_t* word, std::uint16_t which, Stream&) {
    *word = ((*word >> 16U) + 1) << 16U | which;
    milestones.emplace_back(word, which);
}

static float value(const Input& x, std::int64_t i) {
    if (x.dtype == DType::f32) return static_cast<const float*>(x.data)[i];
    return std::bit_cast<float>(std::uint32_t{bits_of(static_cast<const bf16*>(x.data)[i])} << 16U);
}

void take_columns(float* y, const Input& x, std::int64_t rows, std::int64_t columns, std::int64_t ld, Stream&) {
    for (std::int64_t r = 0; r < rows; ++r)
        for (std::int64_t j = 0; j < columns; ++j) y[r * columns + j] = value(x, r * ld + j);
}

void epilogue(const Epilogue& call, Stream&) {
    if (!call.accumulate || call.rows != 1 || call.bias || call.residual || call.activation != Activation::none)
        fail("an epilogue that is no addition");
    for (std::int64_t i = 0; i < call.columns; ++i)
        static_cast<float*>(call.y.data)[i] += static_cast<const float*>(call.source.data)[i];
}

void global_norm(StepScalars* scalars, const Input& gradients, std::int64_t elements, RankSums* ranks, Stream& stream) {
    double sum = 0;
    sum_of_squares(&sum, gradients, elements, stream);
    ranks->add(&sum, 1, stream);
    set_norm(scalars, sum);
}

namespace {

void expect(bool good, const char* what) {
    if (!good) fail(cat("not as expected: ", what));
}

// Units that are reduced part by part; each element is a number that bf16 holds.
void reduce_large(Stream& reduce, std::size_t shards, std::size_t rank) {
    const auto number = [](std::size_t i) { return static_cast<float>(i % 251); };
    const auto check = [&](const std::vector<float>& shard) {
        const std::size_t n = shard.size();
        for (std::size_t i = 0; i < n; ++i)
            expect(shard[i] == 1 + static_cast<float>(shards) * number(rank * n + i), "a shard of a large unit");
    };
    std::vector<float> shard(9 << 20, 1.0F);
    std::vector<bf16> narrow(shards * shard.size());
    for (std::size_t i = 0; i < narrow.size(); ++i)
        narrow[i] = bf16{static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(number(i)) >> 16U)};
    reduce_scatter({.shard = shard.data(),
                    .unit = narrow.data(),
                    .elements = static_cast<std::int64_t>(shard.size()),
                    .mode = WriteMode::add,
                    .what = "a large unit of bf16"},
                   reduce);
    check(shard);
    shard.assign(17 << 20, 1.0F);
    std::vector<float> unit(shards * shard.size());
    for (std::size_t i = 0; i < unit.size(); ++i) unit[i] = number(i);
    reduce_scatter({.shard = shard.data(),
                    .unit = unit.data(),
                    .elements = static_cast<std::int64_t>(shard.size()),
                    .mode = WriteMode::add,
                    .what = "a large unit"},
                   reduce);
    check(shard);
}

void run(const std::string& what) {
    scenario = what;
    const std::unique_ptr<Communicator> ranks = make_communicator();
    is_second = ranks->rank() == 1;
    if (what == "place") {
        const char* gpu = std::getenv("CUDA_VISIBLE_DEVICES");
        std::printf("GPU %s, one of %d ranks, NCCL_LAUNCH_ORDER_IMPLICIT=%s\n", gpu == nullptr ? "as it is" : gpu,
                    ranks->ranks_on_these_cores(), std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"));
        return ranks->finish();
    }
    Device device(1);
    Stream compute(device);
    const std::string_view names[] = {"gather", "reduce"};
    const int world = ranks->world();
    const Mesh mesh = world == 4 ? Mesh{2, 2} : Mesh{1, world};
    const auto streams = ranks->make_streams(device, mesh, names);
    ranks->watch({.hang_timeout = what == "replays" ? 2.0 : 5.0});
    float number = static_cast<float>(ranks->rank() + 1);
    ranks->all_reduce_sum({&number, 1}, "a number");
    expect(number == static_cast<float>(world * (world + 1) / 2), "the sum of numbers");
    std::vector<std::byte> bytes(1 << 18, static_cast<std::byte>(ranks->rank()));
    ranks->broadcast(bytes, world - 1, "bytes");
    expect(bytes.back() == static_cast<std::byte>(world - 1), "the last rank's bytes");

    Stream &gather = *streams[0], &reduce = *streams[1];
    const auto shards = static_cast<std::size_t>(mesh.shards);
    if (what == "large") {
        reduce_large(reduce, shards, static_cast<std::size_t>(ranks->rank()));
        return ranks->finish();
    }
    std::vector<float> shard(8, 1.5F), unit(8 * shards, 0.25F), gradient(8, 2.0F);
    std::vector<bf16> narrow(8 * shards, bf16{0x3f80}), narrow_shard(8, bf16{0x4000});  // 1, 2
    all_gather({.unit = unit.data(), .shard = shard.data(), .elements = 8, .what = "a unit"}, gather);
    for (const float x : unit) expect(x == 1.5F, "the gathered unit");
    const auto s = static_cast<float>(mesh.shards);
    reduce_scatter({.shard = gradient.data(), .unit = unit.data(), .elements = 8, .what = "overwritten"}, reduce);
    for (const float x : gradient) expect(x == 1.5F * s, "the reduced shard");
    reduce_scatter({.shard = gradient.data(),
                    .unit = unit.data(),
                    .elements = 8,
                    .mode = WriteMode::add,
                    .what = "added",
                    .layer = 3},
                   reduce);
    for (const float x : gradient) expect(x == 3.0F * s, "the shard, added to");
    reduce_scatter({.shard = gradient.data(), .unit = narrow.data(), .elements = 8, .what = "of bf16"}, reduce);
    for (const float x : gradient) expect(x == s, "the shard of a unit of bf16");
    reduce_scatter(
        {.shard = narrow_shard.data(), .unit = narrow.data(), .elements = 8, .mode = WriteMode::add, .what = "bf16"},
        reduce);
    for (const bf16 x : narrow_shard)
        expect(bits_of(x) == std::bit_cast<std::uint32_t>(2 + s) >> 16U, "the shard of bf16, added to");
    all_reduce({.buffer = gradient.data(), .elements = 8, .group = Group::replica, .what = "a buffer"}, reduce);
    for (const float x : gradient) expect(x == s * static_cast<float>(mesh.replicas), "the reduced buffer");
    all_reduce({.buffer = narrow.data(), .elements = 8, .what = "bf16"}, reduce);
    std::vector<float> amaxes(3, 7.0F);
    all_reduce_max({.buffer = amaxes.data(), .elements = 3, .what = "amaxes"}, reduce);
    for (const float x : amaxes) expect(x == 7.0F, "the largest of numbers that are the same on all ranks");
    StepScalars scalars;
    sharded_norm({.scalars = &scalars, .gradients = shard.data(), .elements = 8}, compute);
    expect(std::fabs(scalars.grad_norm - std::sqrt(18.0F * s)) < 1e-5F, "the norm");
    if (what == "replays") {  // the next step, without the host; the second rank's stream comes to its third collective
        ranks->note_progress(17);
        for (std::size_t i = 0, n = milestones.size(); i < (is_second ? 3 : n); ++i) {
            const auto [word, which] = milestones[i];
            milestone(word, which, gather);
        }
    }
    if (what == "dies" && is_second) _exit(3);
    if (what == "fails" && is_second) fail("it cannot go on");
    if (what == "dies" || what == "breaks" || what == "fails" || what == "replays") sleep(40);  // it is ended before
    ranks->finish();
}

}  // namespace
}  // namespace thunder

int main(int argc, char** argv) try {
    thunder::run(argc > 1 ? argv[1] : "");
    return 0;
} catch (...) {
    return thunder::report_error();
}
