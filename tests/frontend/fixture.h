// SPDX-License-Identifier: Apache-2.0
// Fixtures as scripts/make_fixtures.py writes them: exported graphs, tensors in safetensors files, PyTorch's numbers.
#pragma once

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "compiler/frontend/frontend.h"
#include "compiler/ir/tensor.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"

namespace thunderc {

inline std::filesystem::path fixture(const std::string& name) {
    return std::filesystem::path(FIXTURES) / name;
}

inline nlohmann::json reference(const std::string& model) {
    std::ifstream in(fixture(model + "/reference.json"));
    return nlohmann::json::parse(in);
}

// A safetensors file: 8 bytes of length, a JSON header, data. f32 and i64 are all that the fixtures hold.
inline std::map<std::string, Tensor> tensors(const std::string& file) {
    std::ifstream in(fixture(file), std::ios::binary);
    std::uint64_t length = 0;
    in.read(reinterpret_cast<char*>(&length), 8);
    std::string header(length, ' ');
    in.read(header.data(), static_cast<std::streamsize>(length));
    const std::string data{std::istreambuf_iterator<char>(in), {}};
    std::map<std::string, Tensor> out;
    const nlohmann::json entries = nlohmann::json::parse(header);
    for (const auto& [name, entry] : entries.items()) {
        if (name == "__metadata__") continue;
        const bool floats = entry.at("dtype") == "F32";
        Tensor t(Type::tensor(floats ? DType::f32 : DType::i64, entry.at("shape").get<Dims>()));
        const char* at = data.data() + entry.at("data_offsets").at(0).get<std::size_t>();
        for (std::int64_t k = 0; k < t.size(); ++k) {
            if (floats) {
                float v = 0;
                std::memcpy(&v, at + 4 * k, 4);
                t.f[static_cast<std::size_t>(k)] = static_cast<double>(v);
            } else {
                std::memcpy(&t.i[static_cast<std::size_t>(k)], at + 8 * k, 8);
            }
        }
        out.emplace(name, std::move(t));
    }
    return out;
}

// How the symbols of the fixtures with dynamic axes are bound to the shapes of the reference.
inline CompileOptions options_for(const std::string& file) {
    CompileOptions options;
    // a classifier of numbers: that it is one has to be said
    if (file.starts_with("mlp") && file.ends_with(".logits.onnx")) options.loss = "cross-entropy";
    if (file.find("dyn.") == std::string::npos) return options;
    options.batch = file.starts_with("mlp") ? 4 : 2;
    if (!file.starts_with("mlp")) options.seq = 8;
    return options;
}

inline Module imported(const std::string& file) {
    Module module = import_model(fixture(file), options_for(file));
    verify(module);
    return module;
}

// The whole text of the error, with the fixtures' folder left out.
template <typename Function>
std::string error_of(Function function) {
    try {
        function();
    } catch (const UserError& error) {
        std::string text = error.diagnostic().text();
        for (const std::string& folder : {fixture("").string(), std::filesystem::temp_directory_path().string() + "/"})
            for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
                text.erase(at, folder.size());
        return text;
    }
    return "no error";
}

inline std::string import_error(const std::string& file, const CompileOptions& options = {}) {
    return error_of([&] { import_model(fixture(file), options); });
}

}  // namespace thunderc
