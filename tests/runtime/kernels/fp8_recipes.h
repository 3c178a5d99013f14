// SPDX-License-Identifier: Apache-2.0
// What delayed scaling makes of 2,000 recorded amaxes (scripts/make_fp8_scaling_table.py), for tests of both
// devices.
#pragma once

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "device/api.h"
#include "device/fp8_recipe.h"

namespace thunder::testing {

constexpr std::int64_t recorded_steps = 2000, recorded_tensors = 5, recorded_every = 10;

struct RecordedRecipe {
    const char* name;
    DelayedScaling recipe;
    bool of_gradients = false;
    int ranks = 1;  // of which the next one has the next tensor's amaxes
};

inline const std::vector<RecordedRecipe>& recorded_recipes() {
    static const std::vector<RecordedRecipe> recipes = {
        {"forward", {}},
        {"backward", {}, true},
        {"latest", {.latest = true, .margin = 1}},
        {"short", {.margin = 3, .length = 3}, true},
        {"one", {.format = Fp8Format::e4m3, .length = 1}, true},
        {"ranks", {.format = Fp8Format::e4m3, .margin = -2, .length = 16}, false, 2},
        {"four", {.length = 16}, true, 4},
    };
    return recipes;
}

// A tensor of the file, whose header says "NAME":{"dtype":"F32",...,"data_offsets":[BEGIN,END]}.
inline std::vector<float> recorded_floats(const std::string& name) {
    std::ifstream file(std::string(FIXTURES) + "/fp8/scaling.safetensors", std::ios::binary);
    const std::string all{std::istreambuf_iterator<char>(file), {}};
    std::uint64_t header = 0;
    std::memcpy(&header, all.data(), sizeof header);
    const std::string key = "\"data_offsets\":[";
    const std::size_t at = all.find(key, all.find("\"" + name + "\""));
    EXPECT_NE(at, std::string::npos) << name;
    std::size_t digits = 0;
    const std::size_t begin = std::stoul(all.substr(at + key.size(), 32), &digits);
    const std::size_t end = std::stoul(all.substr(at + key.size() + digits + 1, 32));
    std::vector<float> values((end - begin) / sizeof(float));
    std::memcpy(values.data(), all.data() + sizeof header + header + begin, end - begin);
    return values;
}

inline void expect_bits(const std::vector<float>& got, const std::vector<float>& expected, const std::string& what) {
    ASSERT_EQ(got.size(), expected.size()) << what;
    for (std::size_t i = 0; i < got.size(); ++i) {
        if (std::isnan(expected[i]) && std::isnan(got[i])) continue;
        ASSERT_EQ(std::bit_cast<std::uint32_t>(got[i]), std::bit_cast<std::uint32_t>(expected[i]))
            << what << " at " << i << ": " << got[i] << " instead of " << expected[i];
    }
}

// Makes the recorded updates, or the first `steps` of them; `Memory` is what a device has for memory.
template <template <typename> typename Memory>
void expect_recorded_states(const RecordedRecipe& recorded, Stream& stream, std::int64_t steps = recorded_steps) {
    SCOPED_TRACE(recorded.name);
    const std::string name = recorded.name;
    const std::vector<float> amaxes = recorded_floats("amax"), scales = recorded_floats(name + "/scale");
    const std::int64_t length = recorded.recipe.length;
    Memory<float> scale("scale", std::vector<float>(recorded_tensors, 1.F));
    Memory<float> history("history", std::vector<float>(static_cast<std::size_t>(recorded_tensors * length)));
    Memory<float> reduced("amax", std::vector<float>(recorded_tensors));
    for (std::int64_t step = 0; step < steps; ++step) {
        const auto row = amaxes.begin() + step * recorded_tensors;
        for (std::int64_t t = 0; t < recorded_tensors; ++t) {
            history.data()[t * length] = row[t];
            reduced.data()[t] = 0;
            for (int rank = 0; rank < recorded.ranks; ++rank)
                reduced.data()[t] = larger_amax(reduced.data()[t], row[(t + rank) % recorded_tensors]);
        }
        fp8_update_scales({.scale = scale.data(),
                           .history = history.data(),
                           .amax = recorded.ranks > 1 ? Output(reduced.data()) : Output(),
                           .latest = recorded.recipe.latest,
                           .largest = recorded.recipe.largest(recorded.of_gradients),
                           .tensors = recorded_tensors,
                           .length = length},
                          stream);
        if (recorded.ranks > 1)
            expect_bits({reduced.data(), reduced.data() + recorded_tensors}, std::vector<float>(recorded_tensors),
                        "amaxes behind an update");
        if (step % recorded_every != recorded_every - 1) continue;
        const auto expected = scales.begin() + step / recorded_every * recorded_tensors;
        expect_bits({scale.data(), scale.data() + recorded_tensors}, {expected, expected + recorded_tensors},
                    "scales after step " + std::to_string(step));
        if (::testing::Test::HasFatalFailure()) return;
    }
    if (steps < recorded_steps) return;
    expect_bits({history.data(), history.data() + recorded_tensors * length}, recorded_floats(name + "/history"),
                "history");
}

// The scales of current scaling that are recorded of amaxes of all sizes.
template <template <typename> typename Memory>
void expect_current_scales(Stream& stream) {
    struct Kind {
        const char* name;
        float largest;
        bool powers_of_two;
        float least_amax;
    };
    const std::vector<float> amaxes = recorded_floats("current/amax");
    for (const Kind& kind :
         {Kind{"e4m3", fp8_largest<e4m3>(), false, 0}, Kind{"e5m2", fp8_largest<e5m2>(), false, 0},
          Kind{"powers", fp8_largest<e4m3>(), true, 0}, Kind{"raised", fp8_largest<e5m2>(), true, 1e-4F}}) {
        Memory<float> amax("amax", amaxes), scale("scale", std::vector<float>(amaxes.size()));
        fp8_current_scales({.scale = scale.data(),
                            .amax = amax.data(),
                            .largest = kind.largest,
                            .powers_of_two = kind.powers_of_two,
                            .least_amax = kind.least_amax,
                            .tensors = static_cast<std::int64_t>(amaxes.size())},
                           stream);
        expect_bits({scale.data(), scale.data() + amaxes.size()}, recorded_floats(std::string("current/") + kind.name),
                    kind.name);
        expect_bits({amax.data(), amax.data() + amaxes.size()}, std::vector<float>(amaxes.size()), "amaxes");
    }
}

}  // namespace thunder::testing
