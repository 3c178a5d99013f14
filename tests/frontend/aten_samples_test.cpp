// SPDX-License-Identifier: Apache-2.0
// Operators of ATen by PyTorch's own samples of them (scripts/make_aten_fixtures.py): what each gives, and its
// gradients. PyTorch computed in fp64 from inputs in f32; so does the evaluator. Those that fail are the ones that
// docs/aten.md lists, with their reasons.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <set>

#include "compiler/interpreter/evaluate.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "tests/frontend/pt2_archive.h"

namespace thunderc {
namespace aten_samples_test {

constexpr int parts = 8;  // of the samples, each a test

class AtenSamples : public testing::TestWithParam<int> {};

// Sample -> why it fails, as the page has it.
std::map<std::string, std::string> listed() {
    std::ifstream page(std::filesystem::path(FIXTURES) / "../../docs/aten.md");
    std::map<std::string, std::string> out;
    bool begun = false;
    for (std::string line; std::getline(page, line);) {
        begun = begun || line.starts_with("Samples that fail");
        const std::size_t bar = line.find(" | ", 2);
        if (!begun || !line.starts_with("| ") || bar == std::string::npos || line.starts_with("| sample |")) continue;
        out[line.substr(2, bar - 2)] = line.substr(bar + 3, line.size() - bar - 5);
    }
    return out;
}

// The sample's archive with what all have; gives its numbers.
std::map<std::string, Tensor> unpack(const Entries& all, const std::string& name, const TemporaryFile& model,
                                     const TemporaryFile& numbers) {
    Entries entries = {{"model/archive_format", "pt2"},
                       {"model/archive_version", "0"},
                       {"model/byteorder", "little"},
                       {"model/data/weights/model_weights_config.json", R"({"config": {}})"},
                       {"model/data/constants/model_constants_config.json", R"({"config": {}})"}};
    const std::string folder = name + "/";
    for (auto at = all.lower_bound(folder); at != all.end() && at->first.starts_with(folder); ++at)
        entries["model/" + at->first.substr(folder.size())] = at->second;
    std::ofstream(numbers.path(), std::ios::binary) << entries.at("model/numbers.safetensors");
    entries.erase("model/numbers.safetensors");
    write_zip(model.path(), entries, false);
    return tensors(numbers.path());
}

// "" where they are the same: of the largest number 5e-6, since what a sample asks for in f32 is rounded on the way.
std::string difference(const Tensor& is, const Tensor& wanted, const std::string& what) {
    if (is.type.dims != wanted.type.dims) return what + " is of another shape";
    double size = 1;
    for (std::int64_t k = 0; k < wanted.size(); ++k)
        size = std::max(size, std::isfinite(wanted.at(k)) ? std::abs(wanted.at(k)) : 0);
    for (std::int64_t k = 0; k < is.size(); ++k) {
        const double a = is.at(k), b = wanted.at(k);
        // Where a gradient is a quotient of zeros with PyTorch, any number will do.
        const bool same = a == b || (std::isnan(b) && what.starts_with("grad.")) || (std::isnan(a) && std::isnan(b)) ||
                          std::abs(a - b) <= 5e-6 * size;
        if (!same)
            return what + "[" + std::to_string(k) + "] is " + std::to_string(a) + ", and " + std::to_string(b) +
                   " with PyTorch";
    }
    return "";
}

std::string compared_gradients(const Module& module, const std::map<std::string, Tensor>& numbers) {
    const bool any = std::any_of(numbers.begin(), numbers.end(),
                                 [](const auto& number) { return number.first.starts_with("grad."); });
    if (!any) return "";
    Report report;
    DifferentiateOptions options;
    options.cotangent_for_each_result = true;
    options.wanted = [&](const ArgInfo& info) { return numbers.contains("grad." + info.names.front()); };
    const Module backward = differentiate(module, options, report);
    const Function& main = backward.main();
    std::vector<Tensor> arguments;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const std::string& name = main.argument_info[k].names.front();
        if (const auto at = numbers.find("in." + name); at != numbers.end()) {
            Tensor given = at->second;
            given.type = main.type(main.arguments[k]);
            arguments.push_back(std::move(given));
            continue;
        }
        if (main.argument_info[k].kind != ArgInfo::Kind::input) {
            arguments.push_back(stored_numbers(main.argument_info[k], main.type(main.arguments[k])));
            continue;
        }
        Tensor cotangent(main.type(main.arguments[k]));
        for (std::size_t i = 0; i < cotangent.f.size(); ++i) cotangent.f[i] = std::cos(static_cast<double>(i));
        arguments.push_back(std::move(cotangent));
    }
    const std::vector<Tensor> results = evaluate(backward, main, std::span<const Tensor>(arguments));
    for (const auto& [name, wanted] : numbers) {
        if (!name.starts_with("grad.")) continue;
        const auto at = std::find(main.result_names.begin(), main.result_names.end(), "d" + name.substr(5));
        if (at == main.result_names.end()) return name + " is not there";
        const std::string found =
            difference(results[static_cast<std::size_t>(at - main.result_names.begin())], wanted, name);
        if (!found.empty()) return found;
    }
    return "";
}

// "" where all is as PyTorch has it.
std::string tried(const std::string& name, const std::filesystem::path& model,
                  const std::map<std::string, Tensor>& numbers) try {
    CompileOptions options;
    if (name.ends_with(".size")) options.seq = 4;
    const Module module = import_model(model, options);
    verify(module);
    const Function& main = module.main();
    std::vector<Tensor> arguments;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        const Type& type = main.type(main.arguments[k]);
        const auto at = numbers.find("in." + info.names.front());
        arguments.push_back(at == numbers.end() ? stored_numbers(info, type) : at->second);
        arguments.back().type = type;
    }
    const std::vector<Tensor> results = evaluate(module, main, std::span<const Tensor>(arguments));
    for (std::size_t k = 0; k < results.size(); ++k) {
        const std::string found =
            difference(results[k], numbers.at("out." + main.result_names[k]), main.result_names[k]);
        if (!found.empty()) return found;
    }
    return compared_gradients(module, numbers);
} catch (const UserError& error) {
    return error.diagnostic().message;
}

TEST_P(AtenSamples, AreWhatPyTorchHas) {
    const Entries all = entries_of(fixture("aten/samples.zip"));
    const std::map<std::string, std::string> failing = listed();
    std::set<std::string> names;
    for (const auto& [entry, bytes] : all)
        if (const std::size_t slash = entry.find('/'); slash != std::string::npos) names.insert(entry.substr(0, slash));
    EXPECT_GT(names.size(), 400U);
    EXPECT_LT(static_cast<double>(failing.size()), 0.05 * static_cast<double>(names.size()));
    const TemporaryFile model("sample_" + std::to_string(GetParam()) + ".pt2"),
        file("sample_" + std::to_string(GetParam()) + ".safetensors");
    int k = 0;
    for (const std::string& name : names) {
        if (k++ % parts != GetParam()) continue;
        const std::map<std::string, Tensor> numbers = unpack(all, name, model, file);
        const auto reason = failing.find(name);
        EXPECT_EQ(tried(name, model.path(), numbers), reason == failing.end() ? "" : reason->second) << name;
    }
}

INSTANTIATE_TEST_SUITE_P(Parts, AtenSamples, testing::Range(0, parts));

}  // namespace aten_samples_test
}  // namespace thunderc
