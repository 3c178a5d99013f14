// SPDX-License-Identifier: Apache-2.0
#include "tests/programs/pytorch_numbers.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "checkpoint/safetensors.h"

namespace thunderc::tests {
namespace fs = std::filesystem;
namespace {

struct Tensor {
    std::vector<std::int64_t> shape;
    std::vector<float> values;
};
using Tensors = std::map<std::string, Tensor>;

Tensors read(const fs::path& path) {
    const thunder::SafetensorsFile file(path.string());
    Tensors tensors;
    for (const thunder::StoredTensor& stored : file.tensors()) {
        Tensor& t = tensors[stored.name];
        t.shape = stored.shape;
        t.values.resize(stored.elements());
        EXPECT_TRUE(thunder::read_elements(stored, thunder::DType::f32, 0, t.values.size(), t.values.data()));
    }
    return tensors;
}

// A program names parameters as the exported wrapper did; the fixture's names are those of the model inside it. Those
// of `absent` are not among them.
Tensors unwrapped(const Tensors& tensors, const nlohmann::json& reference, const nlohmann::json& absent = {}) {
    const std::string prefix = reference.at("prefix");
    const nlohmann::json &parameters = reference.at("parameters"), &tied = reference.at("tied");
    Tensors out;
    for (const auto& [name, tensor] : tensors) {
        std::string own = name;
        if (!parameters.contains(own) && !tied.contains(own) && own.starts_with(prefix))
            own = own.substr(prefix.size());
        if (tied.contains(own)) own = tied.at(own);
        EXPECT_TRUE(parameters.contains(own)) << name << " is no parameter of the fixture";
        EXPECT_FALSE(out.contains(own)) << own << " was written twice";
        out[own] = tensor;
    }
    for (const auto& [name, shape] : parameters.items())
        EXPECT_EQ(out.contains(name), std::find(absent.begin(), absent.end(), name) == absent.end()) << name;
    return out;
}

// |got - want| and |want - base| in the L2 norm, summed in double.
std::pair<double, double> distances(const Tensor& got, const Tensor& want, const Tensor* base) {
    double difference = 0, size = 0;
    for (std::size_t i = 0; i < want.values.size(); ++i) {
        const double w = want.values[i], d = got.values[i] - w, s = w - (base == nullptr ? 0 : base->values[i]);
        difference += d * d;
        size += s * s;
    }
    return {std::sqrt(difference), std::sqrt(size)};
}

// By the names of parameters; none where the fixture has no such entry.
std::map<std::string, double> numbers(const nlohmann::json& reference, const char* entry) {
    return reference.contains(entry) ? reference.at(entry).get<std::map<std::string, double>>()
                                     : std::map<std::string, double>();
}

// Of a tensor of `noise` the distance there is allowed.
void expect_close(const Tensors& got, const Tensors& want, const Tensors* base, double floor, double tolerance,
                  const std::map<std::string, double>& noise = {}) {
    for (const auto& [name, w] : want) {
        const auto at = got.find(name);
        if (at == got.end()) continue;  // reported before
        EXPECT_EQ(at->second.shape, w.shape) << name;
        if (at->second.shape != w.shape) continue;
        const auto [difference, size] = distances(at->second, w, base == nullptr ? nullptr : &base->at(name));
        const double allowed = noise.contains(name) ? noise.at(name) : tolerance * std::max(size, floor);
        EXPECT_LE(difference, allowed) << name << ", whose norm is " << size;
    }
}

}  // namespace

void expect_pytorchs_numbers(const GeneratedProgram& program, const std::string& flags) {
    ASSERT_TRUE(program.built()) << program.failure();
    fs::copy_file(program.fixture("params.safetensors"), program.file("params.safetensors"),
                  fs::copy_options::overwrite_existing);
    const Outcome outcome =
        program.train(program.recipe() + " " + flags +
                      " --log run.jsonl --dump-gradients gradients.safetensors --save after.safetensors");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.err, "");
    expect_pytorchs_log(program, program.file("run.jsonl"));
    expect_pytorchs_gradients(program, program.file("gradients.safetensors"));
    expect_pytorchs_updates(program, program.file("after.safetensors"));
}

void expect_pytorchs_log(const GeneratedProgram& program, const fs::path& log) {
    const nlohmann::json& reference = program.reference();
    const std::vector<nlohmann::json> lines = read_log(log);
    const std::size_t steps = reference.at("loss").size();
    ASSERT_EQ(lines.size(), steps);
    for (std::size_t step = 0; step < steps; ++step) {
        EXPECT_EQ(lines[step].at("step").get<std::size_t>(), step);
        const double growth = std::pow(10.0, static_cast<double>(step) / static_cast<double>(steps - 1));
        for (const auto& [key, tolerance] : {std::pair{"loss", loss_tolerance}, {"grad_norm", norm_tolerance}}) {
            const double want = reference.at(key).at(step);
            EXPECT_NEAR(lines[step].at(key).get<double>(), want, tolerance * growth * std::abs(want))
                << key << " of step " << step;
        }
    }
}

void expect_pytorchs_gradients(const GeneratedProgram& program, const fs::path& gradients) {
    const nlohmann::json& reference = program.reference();
    // A tensor whose gradient is nothing but rounding is judged by the size of all gradients.
    const double norm = reference.at("grad_norm").at(0).get<double>();
    // What the model moves itself has none, nor has what is frozen.
    nlohmann::json without = reference.value("buffers_updated", nlohmann::json::array());
    for (const auto& name : reference.value("frozen", nlohmann::json::array())) without.push_back(name);
    std::map<std::string, double> noise = numbers(reference, "noise_tensors");
    for (auto& [name, off] : noise) off = noise_tolerance * norm;
    expect_close(unwrapped(read(gradients), reference, without), read(program.fixture("grads.safetensors")), nullptr,
                 1e-6 * norm, gradient_tolerance, noise);
}

void expect_pytorchs_updates(const GeneratedProgram& program, const fs::path& after, const std::string& buffers) {
    const Tensors before = read(program.fixture("params.safetensors"));
    Tensors want = read(program.fixture("params_after.safetensors"));
    if (!buffers.empty())
        for (auto& [name, tensor] : read(program.fixture(buffers))) want[name] = tensor;
    std::map<std::string, double> noise = numbers(program.reference(), "update_spread");
    for (auto& [name, off] : noise) off *= spread_tolerance;
    expect_close(unwrapped(read(after), program.reference()), want, &before, 0, update_tolerance, noise);
}

double expect_some_of_pytorchs_gradients(const GeneratedProgram& program, const fs::path& gradients) {
    const Tensors got = read(gradients);
    Tensors want;
    double squares = 0;
    for (const auto& [name, tensor] : read(program.fixture("grads.safetensors"))) {
        if (!got.contains(name)) continue;
        want[name] = tensor;
        for (float x : tensor.values) squares += static_cast<double>(x) * static_cast<double>(x);
    }
    EXPECT_EQ(got.size(), want.size()) << "gradients that are none of the fixture's";
    expect_close(got, want, nullptr, 1e-6 * std::sqrt(squares), gradient_tolerance);
    return std::sqrt(squares);
}

std::vector<std::string> untouched(const GeneratedProgram& program, const fs::path& after) {
    const Tensors before = read(program.fixture("params.safetensors"));
    std::vector<std::string> out;
    for (const auto& [name, tensor] : read(after))
        if (before.contains(name) && before.at(name).values == tensor.values) out.push_back(name);
    return out;
}

void expect_equal_tensors(const fs::path& a, const std::vector<std::string>& a_names, const fs::path& b,
                          const std::vector<std::string>& b_names) {
    const Tensors x = read(a), y = read(b);
    EXPECT_EQ(x.size(), a_names.size());
    EXPECT_EQ(y.size(), b_names.size());
    for (std::size_t k = 0; k < a_names.size(); ++k) {
        ASSERT_TRUE(x.contains(a_names[k])) << a_names[k];
        ASSERT_TRUE(y.contains(b_names[k])) << b_names[k];
        EXPECT_EQ(x.at(a_names[k]).shape, y.at(b_names[k]).shape) << a_names[k];
        EXPECT_EQ(x.at(a_names[k]).values, y.at(b_names[k]).values) << a_names[k] << " " << b_names[k];
    }
}

}  // namespace thunderc::tests
