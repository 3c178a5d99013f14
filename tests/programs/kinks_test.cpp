// SPDX-License-Identifier: Apache-2.0
// Poles, kinks and jumps in compiled kernels: tests/kinks holds the compiler's rules to what PyTorch gives there, this
// one what is printed of them.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "checkpoint/safetensors.h"
#include "tests/programs/generated_program.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace kinks_test {

std::map<std::string, std::vector<float>> read(const std::filesystem::path& path) {
    const thunder::SafetensorsFile file(path.string());
    std::map<std::string, std::vector<float>> out;
    for (const thunder::StoredTensor& t : file.tensors()) {
        std::vector<float>& values = out[t.name];
        values.resize(t.bytes.size() / sizeof(float));
        std::memcpy(values.data(), t.bytes.data(), t.bytes.size());
    }
    return out;
}

// As in tests/kinks: PyTorch's number, or where that is none any; where it is infinite, too, or what the case says.
bool agrees(double ours, double theirs, bool gradient, bool milder) {
    if (std::isnan(theirs)) return gradient ? !std::isinf(ours) : std::isnan(ours);
    if (std::isinf(theirs)) return ours == theirs || (milder && std::isfinite(ours));
    if (gradient && theirs == 0) return std::abs(ours) <= 1e-12;
    return std::abs(ours - theirs) <= 1e-5 * std::max(1.0, std::abs(theirs));  // some roundings of f32
}

class CompiledKinks : public testing::TestWithParam<const char*> {};

TEST_P(CompiledKinks, GiveWhatPyTorchGives) {
    const std::string graph = GetParam();
    const GeneratedProgram library("kinks_" + graph, "kinks", graph, "--transform vjp --constant '.*'", "emit");
    ASSERT_TRUE(library.built()) << library.failure();
    const Outcome outcome =
        library.run(fmt::format("--in '{}' --out out.safetensors", library.fixture("in.safetensors").string()));
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const auto ours = read(library.file("out.safetensors")), theirs = read(library.fixture("out.safetensors"));
    std::size_t held = 0;
    for (const nlohmann::json& c : library.reference().at("cases")) {
        const std::string name = c.at("name");
        for (const std::string& what : {name, "d" + name + "_x", "d" + name + "_y", "d" + name + "_z"}) {
            if (!theirs.contains(what)) continue;
            ASSERT_TRUE(ours.contains(what)) << what;
            const std::vector<float>&a = ours.at(what), &b = theirs.at(what);
            ASSERT_EQ(a.size(), b.size()) << what;
            for (std::size_t k = 0; k < a.size(); ++k, ++held)
                EXPECT_TRUE(
                    agrees(static_cast<double>(a[k]), static_cast<double>(b[k]), what != name, c.contains("gives")))
                    << c.at("torch") << ": " << what << "[" << k << "] is " << a[k] << ", PyTorch gives " << b[k];
        }
    }
    EXPECT_GT(held, 900U);  // all that was recorded
}

INSTANTIATE_TEST_SUITE_P(Export, CompiledKinks,
                         testing::ValuesIn(full_form ? std::vector{"dynamo", "noopt"} : std::vector{"noopt"}),
                         [](const auto& info) { return std::string(info.param); });

}  // namespace kinks_test
}  // namespace thunderc::tests
