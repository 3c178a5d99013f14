// SPDX-License-Identifier: Apache-2.0
// Programs with --numerics: each tensor that their text names is told of once for each layer, with what can be known of
// it from elsewhere; and a run is what it is without.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include "tests/programs/generated_program.h"

namespace thunderc::tests {
namespace numerics_test {

using nlohmann::json;

std::vector<json> of_step(const std::vector<json>& lines, int step, const char* key) {
    std::vector<json> out;
    for (const json& line : lines)
        if (line.at("step") == step && line.contains(key)) out.push_back(line);
    return out;
}

// The line of a tensor that a function of the text writes.
json find(const std::vector<json>& lines, const std::string& function, const std::string& tensor) {
    for (const json& line : lines)
        if (line.at("function") == function && line.at("tensor") == tensor) return line;
    ADD_FAILURE() << "no " << tensor << " of " << function;
    return json::object();
}

// That of fp8_test.cpp: blocks whose products are of FP8, a head whose product is bf16.
TEST(Numerics, OfAProgramAreThoseOfItsTensors) {
    const GeneratedProgram program("fp8_delayed", "llama2", "noopt.logits", "--dtype bf16 --fp8 delayed", "train", 1,
                                   Cpu::native, Compiled::quickly);
    ASSERT_TRUE(program.built()) << program.failure();
    for (const char* name : {"plain.jsonl", "log.jsonl", "n.jsonl"}) std::filesystem::remove(program.file(name));
    const std::string flags = "--feed '" FIXTURES "/autocast/feed_0.safetensors' --init '" FIXTURES
                              "/autocast/seed_0.safetensors' --steps 4 --log ";
    ASSERT_EQ(program.train(flags + "plain.jsonl").status, 0);
    const Outcome outcome =
        program.train(flags + "log.jsonl --numerics n.jsonl --numerics-every 2 --numerics-tensors 'e4m3|e5m2|lm_head'");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::vector<json> plain = read_log(program.file("plain.jsonl")), log = read_log(program.file("log.jsonl")),
                            lines = read_log(program.file("n.jsonl"));
    ASSERT_EQ(log.size(), plain.size());
    for (std::size_t s = 0; s < log.size(); ++s)
        for (const char* key : {"loss", "grad_norm"}) EXPECT_EQ(log[s].at(key), plain[s].at(key)) << s << " " << key;

    EXPECT_TRUE(of_step(lines, 1, "step").empty());
    for (const int step : {0, 2}) {
        const std::vector<json> tensors = of_step(lines, step, "tensor");
        for (const json& line : tensors) {
            EXPECT_EQ(line.at("nan"), 0) << line;
            EXPECT_LE(line.at("least").is_null() ? 0 : line.at("least").get<double>(), line.at("amax").get<double>());
            EXPECT_LE(line.at("mean_square").get<double>(), std::pow(line.at("amax").get<double>(), 2) * (1 + 1e-8));
        }
        for (const std::string layer : {"model.layers.0.", "model.layers.1."}) {
            // What attention gives, as it was when it was quantised, though its memory is another tensor's by then.
            const json sdpa = find(tensors, "decoder_layer_forward", layer + "sdpa"),
                       codes = find(tensors, "decoder_layer_forward", layer + "sdpa_e4m3");
            EXPECT_EQ(sdpa.at("dtype"), "bf16");
            EXPECT_EQ(codes.at("dtype"), "e4m3");
            const double scale = codes.at("scale");
            const double scaled = std::min(448.0, sdpa.at("amax").get<double>() * scale);
            // To four digits in base 2.
            EXPECT_NEAR(codes.at("amax").get<double>(), scaled, scaled / 16) << codes;
            // A code is off by up to 2^-4 of a number, evenly: 2^-4 / sqrt(3) of it at most, 28.8 dB, and less where
            // digits are; where many are subnormal or saturated, more.
            EXPECT_GT(codes.at("snr_db").get<double>(), codes.at("overflow") == 0.0 ? 25 : 10) << codes;
            EXPECT_LT(codes.at("snr_db").get<double>(), 40) << codes;
            // A norm ends in codes: of those nothing is known but what they are.
            const json norm = find(tensors, "decoder_layer_forward", layer + "input_layernorm_e4m3");
            EXPECT_EQ(norm.at("dtype"), "e4m3");
            EXPECT_LE(norm.at("amax").get<double>(), 448);
            EXPECT_FALSE(norm.contains("snr_db")) << norm;
            find(tensors, "decoder_layer_forward", layer + "qkv_proj_rotated");
            find(tensors, "decoder_layer_forward", layer + "swiglu");
            find(tensors, "decoder_layer_backward", layer + "dswiglu");
            find(tensors, "decoder_layer_backward", layer + "dqkv_proj_e5m2_transposed");
            find(tensors, "decoder_layer_backward", layer + "dx");
            // What the backward pass computes again is what it was.
            const json again = find(tensors, "decoder_layer_backward", layer + "swiglu");
            EXPECT_EQ(again.at("amax"), find(tensors, "decoder_layer_forward", layer + "swiglu").at("amax"));
        }
        const json logits = find(tensors, "forward", "lm_head");
        // One rounding to 8 digits: off by 2^-9 of a number at most, evenly 2^-9 / sqrt(3); 54 dB at least 58.9 - 6
        // for where in its binade a number lies.
        EXPECT_GT(logits.at("snr_db").get<double>(), 48) << logits;
        EXPECT_LT(logits.at("snr_db").get<double>(), 66) << logits;
        // Layers are what they are called: the second one's input is what the first one gives.
        EXPECT_NE(find(tensors, "decoder_layer_forward", "model.layers.0.y").at("mean_square"),
                  find(tensors, "decoder_layer_forward", "model.layers.1.y").at("mean_square"));

        double squares = 0, of_layers = 0;
        std::map<std::string, double> by_layer;
        for (const json& line : of_step(lines, step, "gradient")) squares += std::pow(line.at("norm").get<double>(), 2);
        for (const json& line : of_step(lines, step, "layer")) {
            of_layers += std::pow(line.at("norm").get<double>(), 2);
            by_layer[line.at("layer")] = line.at("norm");
        }
        const double norm = log[static_cast<std::size_t>(step)].at("grad_norm");
        EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm);  // which is added up in f32
        EXPECT_NEAR(of_layers, squares, 1e-7 * squares);
        EXPECT_TRUE(by_layer.contains("model.layers.0") && by_layer.contains("model.layers.1") &&
                    by_layer.contains("lm_head"));
    }
}

// Ranks that share parameters: what is said of a gradient is of all of it, as its norm is.
TEST(Numerics, OfRanksHaveWholeGradients) {
    // That of fp8_test.cpp.
    const GeneratedProgram ranks("fp8_fsdp2", "llama2", "dyn.logits",
                                 "--dtype bf16 --fp8 delayed --batch 2 --seq 8 --fsdp 2", "train", 2, Cpu::native,
                                 Compiled::quickly);
    ASSERT_TRUE(ranks.built()) << ranks.failure();
    ranks.write_large_feed("numerics.safetensors", 2);
    std::filesystem::remove(ranks.file("n.jsonl"));
    std::filesystem::remove(ranks.file("log.jsonl"));
    const Outcome outcome = ranks.train("--feed numerics.safetensors --init '" FIXTURES
                                        "/autocast/seed_0.safetensors' --steps 1 --log log.jsonl --numerics n.jsonl");
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    const std::vector<json> lines = read_log(ranks.file("n.jsonl"));
    double squares = 0;
    for (const json& line : of_step(lines, 0, "gradient")) squares += std::pow(line.at("norm").get<double>(), 2);
    const double norm = read_log(ranks.file("log.jsonl")).at(0).at("grad_norm");
    EXPECT_NEAR(std::sqrt(squares), norm, 1e-5 * norm);
    EXPECT_FALSE(of_step(lines, 0, "tensor").empty());
    find(of_step(lines, 0, "tensor"), "decoder_layer_backward", "model.layers.1.dx");
}

}  // namespace numerics_test
}  // namespace thunderc::tests
