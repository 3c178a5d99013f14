// SPDX-License-Identifier: Apache-2.0
#include "train/world.h"

#include "comm/communicator.h"
#include "device/api.h"
#include "device/cpu/narrow.h"
#include "device/stream.h"
#include "helpers.h"

namespace thunder {
namespace world_test {

using WorldTest = InFolder;

// What a type has of numbers that are multiplied, it may not have of these numbers: a file gets them in f32.
TEST_F(WorldTest, WritesWhatItDividesInF32) {
    Device device(1);
    Stream stream(device);
    const auto communicator = make_communicator();
    constexpr std::int64_t shape[] = {3};
    constexpr float scale = 0x1p16F;
    std::vector<f16> stored;
    for (const float x : {0x1.4p-3F, -65504.0F, 0x1p-24F}) stored.push_back(to_f16(x));
    ParameterSpec parameter{};
    parameter.name = "w";
    parameter.dtype = DType::f16;
    parameter.shape = shape;
    parameter.bytes = stored.size() * sizeof(f16);
    ProgramSpec program{};
    program.parameters = {&parameter, 1};
    World(program, *communicator)
        .save(path("x.safetensors"),
              {{{"w", DType::f16, {3}}, &parameter, reinterpret_cast<std::byte*>(stored.data()), scale}}, {}, stream);
    const SafetensorsFile file(path("x.safetensors"));
    EXPECT_EQ(file.find("w")->dtype, "F32");
    EXPECT_EQ(read_floats(path("x.safetensors"), "w"), (std::vector<float>{0x1.4p-19F, -65504.0F / scale, 0x1p-40F}));
}

}  // namespace world_test
}  // namespace thunder
