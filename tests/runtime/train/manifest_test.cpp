// SPDX-License-Identifier: Apache-2.0
// What a checkpoint's manifest may say, and who writes what of a checkpoint.
#include "checkpoint/manifest.h"

#include <map>

#include "checkpoint/shares.h"
#include "checkpoint/stored.h"
#include "comm/communicator.h"
#include "device/stream.h"
#include "helpers.h"
#include "support/checksum.h"

namespace thunder {
namespace manifest_test {

Manifest example() {
    return {{{"format", "thunder-checkpoint"}, {"step", "3"}, {"odd \"key\"", "a\nb"}},
            {{"rank-00000.safetensors", 120, "0123456789abcdef"}, {"rank-00001.safetensors", 88, "00000000000000ff"}},
            {{"a", "F32", {2, 3}, {{0, 0, 4}, {1, 4, 2}}}, {"b", "BF16", {}, {{1, 0, 1}}}, {"c", "F32", {0, 4}, {}}}};
}

TEST(Manifest, IsReadAsItWasWritten) {
    const std::string text = manifest_text(example());
    const Manifest read = parse_manifest(text, "m");
    EXPECT_EQ(manifest_text(read), text);
    EXPECT_EQ(read.metadata.at("odd \"key\""), "a\nb");
    EXPECT_EQ(read.tensors[0].parts[1].first, 4);
    EXPECT_EQ(read.files[1].bytes, 88U);
}

TEST(Manifest, AnyOtherByteIsFound) {
    const std::string text = manifest_text(example());
    for (std::size_t at = 0; at < text.size(); ++at) {
        std::string other = text;
        other[at] = static_cast<char>(other[at] ^ (1 << at % 8));
        EXPECT_THROW(parse_manifest(other, "m"), DamagedFile) << at;
        EXPECT_THROW(parse_manifest(text.substr(0, at), "m"), DamagedFile) << at;
    }
}

// With a checksum that is right: what the text says does not hold together.
TEST(Manifest, PartsFollowOneAnother) {
    const auto error = [](auto&& change) {
        Manifest manifest = example();
        change(manifest);
        return error_of([&] { parse_manifest(manifest_text(manifest), "m"); });
    };
    const std::string help = "\nhelp: copy the checkpoint again, or take an earlier one";
    EXPECT_EQ(error([](Manifest&) {}), "");
    EXPECT_EQ(error([](Manifest& m) { m.tensors[0].parts[1].first = 5; }),
              "error: m: the parts of a do not follow one another at element 4" + help);
    EXPECT_EQ(error([](Manifest& m) { m.tensors[0].parts[1].count = 3; }),
              "error: m: the parts of a do not follow one another at element 4" + help);
    EXPECT_EQ(error([](Manifest& m) { m.tensors[0].parts.pop_back(); }),
              "error: m: the parts of a end at element 4 of 6" + help);
    EXPECT_EQ(error([](Manifest& m) { m.tensors[1].parts.clear(); }),
              "error: m: the parts of b end at element 0 of 1" + help);
    EXPECT_EQ(error([](Manifest& m) { m.tensors[1].parts[0].file = 2; }),
              "error: m: a part of b is in file 2, and there are 2" + help);
    EXPECT_EQ(error([](Manifest& m) { m.files[0].name = "../a"; }), "error: m: \"../a\" is not a file's name" + help);
    EXPECT_EQ(error([](Manifest& m) { m.tensors[0].shape[0] = -2; }),
              "error: m: the manifest has a size that is none" + help);
    EXPECT_EQ(error([](Manifest& m) {
                  m.tensors[0].shape = {1LL << 40, 1LL << 40};
              }),
              "error: m: the shape of a is too large" + help);
}

// ---- who writes what

// Of a world that is not there: a rank and a size are all that shares ask for.
struct Nobody : Communicator {
    Nobody(int world, int rank) : world_(world), rank_(rank) {}
    int world() const override { return world_; }
    int rank() const override { return rank_; }
    int ranks_on_these_cores() const override { return world_; }
    void all_reduce_sum(std::span<float>, const char*) override {}
    void broadcast(std::span<std::byte>, int, const char*) override {}
    void all_gather(std::span<const std::byte>, std::span<std::byte>, const char*) override {}
    void barrier(const char*) override {}
    void send(std::span<const std::byte>, int, const char*) override {}
    void receive(std::span<std::byte>, int, const char*) override {}
    std::vector<std::unique_ptr<Stream>> make_streams(Device&, const Mesh&, std::span<const std::string_view>) override;
    void check_config(const ProgramSpec&, const Options&, const std::string&) override {}
    void watch(const WatchdogOptions&) override {}
    void note_progress(std::int64_t) override {}
    void finish() override {}
    int world_, rank_;
};
std::vector<std::unique_ptr<Stream>> Nobody::make_streams(Device&, const Mesh&, std::span<const std::string_view>) {
    return {};
}

// Units of parameters that end within shards, a parameter that no rank shares and a buffer that each moves.
TEST(Shares, EveryElementIsOneRanksThatHoldsIt) {
    for (const auto& [replicas, shards] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 2}, {1, 4}, {2, 2}, {3, 5}, {4, 2}}) {
        SCOPED_TRACE(cat(replicas, "x", shards));
        const std::int64_t shapes[][2] = {{7, 13}, {1, 3}, {50, 40}, {6, 6}, {9, 1}};
        std::int64_t in_unit = 0;
        std::vector<ParameterSpec> parameters;
        for (const auto& shape : shapes) {
            ParameterSpec p{};
            p.name = "p";
            p.shape = shape;
            p.dtype = DType::f32;
            p.bytes = static_cast<std::size_t>(shape[0] * shape[1]) * 4;
            p.trainable = true;
            const bool alone = parameters.size() >= 3;
            p.unit = alone || shards == 1 ? -1 : 0;
            p.offset = static_cast<std::size_t>(in_unit) * 4;
            p.moves = parameters.size() == 4;
            if (p.unit == 0) in_unit += shape[0] * shape[1];
            parameters.push_back(p);
        }
        const UnitSpec units[] = {{"u", (in_unit + shards - 1) / shards, 0, DType::f32}};
        ProgramSpec program{};
        program.mesh = {replicas, shards};
        program.parameters = parameters;
        program.units = units;
        std::vector<HeldTensor> tensors;
        std::size_t all = 0;
        for (const ParameterSpec& p : parameters) {
            tensors.push_back({{"p", DType::f32, {p.shape.begin(), p.shape.end()}}, &p, nullptr});
            all += p.bytes;
        }
        Nobody nobody(replicas * shards, 0);
        const World world(program, nobody);
        const std::vector<Share> shares = share_out(program, world, tensors);
        std::vector<std::int64_t> ends(tensors.size());
        std::size_t most = 0, together = 0;
        for (const Share& share : shares) {
            EXPECT_EQ(share.first, ends[share.tensor]);  // in order, without holes
            ends[share.tensor] += share.count;
            const Piece held = world.part_of(tensors[share.tensor], share.rank);
            EXPECT_GE(share.first, held.first);
            EXPECT_LE(share.first + share.count, held.first + held.count);
            if (tensors[share.tensor].parameter->moves) {
                EXPECT_EQ(share.rank, 0);
            }
        }
        for (std::size_t t = 0; t < tensors.size(); ++t)
            EXPECT_EQ(ends[t] * 4, static_cast<std::int64_t>(parameters[t].bytes));
        for (int rank = 0; rank < replicas * shards; ++rank) {
            most = std::max(most, bytes_of(shares, tensors, rank));
            together += bytes_of(shares, tensors, rank);
        }
        EXPECT_EQ(together, all);
        // No rank writes much more than its part, but for tensors that are not cut.
        EXPECT_LE(most, all / static_cast<std::size_t>(replicas * shards) + std::size_t{50 * 40 * 4});
    }
}

}  // namespace manifest_test
}  // namespace thunder
