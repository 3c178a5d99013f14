// SPDX-License-Identifier: Apache-2.0
// Every loss of the table is what it is by definition, over micro-batches of different weights, and a loss that is not
// is found: what is planted here is what a mistake in the table or in a pass behind it would be.
#include "compiler/check/loss_check.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>

#include "compiler/frontend/frontend.h"
#include "compiler/losses/losses.h"
#include "compiler/pipeline.h"

namespace thunderc {
namespace {

using Build = std::vector<Value> (*)(Builder&, Value, std::span<const Value>, const LossNumbers&);

Module imported_and_simplified(const std::string& model, const CompileOptions& options) {
    std::vector<Pass> passes = pipeline(options);
    while (passes.back().name != "simplify") passes.pop_back();
    std::vector<PassRun> runs;
    return run_passes(import_model(FIXTURES "/losses/" + model + ".onnx", options), passes, runs, {});
}

// A model of tests/fixtures/losses, with what is in the table or, where `build` is given, with that in its place; or
// with what `change` makes of the model's own loss.
LossCheck checked(const std::string& model, const std::string& loss, Build build = nullptr, std::uint64_t seed = 1,
                  const std::function<void(Function&)>& change = {}) {
    CompileOptions options;
    options.batch = 2;
    if (!loss.empty()) options.loss = loss;
    AddedLoss planted;
    GivenLoss given;
    if (build != nullptr) {
        given = parse_loss(loss);
        planted = *given.loss;
        planted.build = build;
        given.loss = &planted;
    }
    Module graph;
    ChosenLoss chosen;
    std::vector<Pass> passes = pipeline(options);
    for (Pass& pass : passes)
        if (pass.name == "add_loss" && build != nullptr)
            pass.run = [&](Module m, Report& r) { return append_loss(std::move(m), chosen.result, given, r); };
    for (Pass& pass : passes)
        if (pass.name == "add_loss" && change)
            pass.run = [&change, options](Module m, Report& r) {
                m = add_loss(std::move(m), options.loss, r);
                change(m.main());
                return m;
            };
    while (passes.back().name != "compose_step") passes.pop_back();
    PassOptions keep;
    keep.after = [&](const Module& m, const PassRun& pass) {
        if (pass.name == "simplify") graph = m;
        if (pass.name == "raise_poles") chosen = choose_loss(m, options.loss);
    };
    std::vector<PassRun> runs;
    const Module composed =
        run_passes(import_model(FIXTURES "/losses/" + model + ".onnx", options), passes, runs, keep);
    CompileOptions larger = options;
    larger.batch *= checked_micro_batches;
    const Module joined = imported_and_simplified(model, larger);
    return check_loss(graph, &joined, chosen, composed, seed);
}

// A model whose result the loss takes.
std::string model_for(std::string_view loss) {
    std::string name = "added_" + std::string(loss.substr(0, loss.find(':')));
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

// Both in fp64: a few dozen terms.
constexpr double tolerance = 1e-12;

TEST(LossCheck, EachLossOfTheTableIsItsDefinition) {
    for (const AddedLoss& loss : added_losses())
        for (const std::uint64_t seed : {1, 2, 3}) {
            const LossCheck got = checked(model_for(loss.name), loss.name, nullptr, seed);
            EXPECT_LE(got.error, tolerance) << loss.name;
            EXPECT_EQ(got.micro_batches, 3U);
            EXPECT_GT(std::abs(got.expected), 1e-3) << loss.name;
        }
}

TEST(LossCheck, AModelsOwnLossIsWhatItsGraphGives) {
    for (const auto& [model, micro_batches] : {std::pair{"ce_mean", 3U},
                                               {"ce_masked", 3U},
                                               {"ce_class_weights", 3U},
                                               {"label_smoothing", 3U},
                                               {"two_means", 3U},
                                               {"bce", 3U},
                                               {"ce_sum", 1U},
                                               {"mse_sum", 1U},
                                               {"mean_and_sum", 1U}})
        for (const std::uint64_t seed : {1, 2, 3}) {
            const LossCheck got = checked(model, "", nullptr, seed);
            EXPECT_LE(got.error, 1e-7) << model;  // its factors are f32
            EXPECT_EQ(got.micro_batches, micro_batches) << model;
        }
    for (const char* model : {"product", "penalty"}) EXPECT_LE(checked(model, "").error, 1e-7) << model;
}

// Each micro-batch's own mean, averaged: of one micro-batch it is the same.
TEST(LossCheck, FindsAWrongSplitOfTheModelsOwnLoss) {
    for (const char* model : {"ce_mean", "ce_masked", "ce_class_weights"}) {
        double largest = 0;  // labels may happen to count the same
        for (const std::uint64_t seed : {1, 2, 3}) {
            const LossCheck got = checked(model, "", nullptr, seed, [](Function& main) {
                ASSERT_EQ(main.results.size(), 2U);
                Builder b(main);
                main.results = {b.op("div", {main.results[0], main.results[1]}, {}, "loss")};
                main.result_names = {"loss"};
            });
            EXPECT_EQ(got.micro_batches, 3U) << model;
            largest = std::max(largest, got.error);
        }
        EXPECT_GE(largest, 1e-4) << model;
    }
}

Value over_all(Builder& b, const char* reduction, Value v) {
    Dims axes(b.type(v).dims.size());
    std::iota(axes.begin(), axes.end(), 0);
    return b.op(reduction, {v}, {{"axes", axes}, {"keep_dims", false}}, "loss");
}

struct Planted {
    const char *what, *loss;
    Build build;
};

constexpr std::int64_t ignored = -100;

std::vector<Value> rows_and_labels(Builder& b, Value result, Value labels) {
    const Type type = b.type(result);
    const std::int64_t rows = type.elements() / type.dims.back();
    return {b.reshape(result, {rows, type.dims.back()}), b.reshape(labels, {rows})};
}

const Planted planted[] = {
    {"a sum for a mean", "mse",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const Value difference = b.sub(result, inputs[0]);
         return {over_all(b, "reduce_sum", b.mul(difference, difference))};
     }},
    {"a mean over rows alone", "mse",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const Value difference = b.sub(result, inputs[0]);
         const std::int64_t last = b.type(result).rank() - 1;
         const Value rows =
             b.op("reduce_sum", {b.mul(difference, difference)}, {{"axes", Dims{last}}, {"keep_dims", false}}, "rows");
         return {over_all(b, "reduce_mean", rows)};
     }},
    {"the distance, not its square", "mse",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {over_all(b, "reduce_mean", b.op("abs", {b.sub(result, inputs[0])}, {}, "distance"))};
     }},
    {"a sum without its weight", "cross-entropy",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {b.emit("cross_entropy", rows_and_labels(b, result, inputs[0]), {{"ignore_index", ignored}}, "loss")
                     .front()};
     }},
    {"ignored rows in the weight", "cross-entropy",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const std::vector<Value> rows = rows_and_labels(b, result, inputs[0]);
         return {b.emit("cross_entropy", rows, {{"ignore_index", ignored}}, "loss").front(),
                 b.op("cross_entropy_weight", {rows[1]}, {{"ignore_index", ignored - 1}}, "weight")};
     }},
    {"each micro-batch's own mean", "cross-entropy",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const std::vector<Value> rows = rows_and_labels(b, result, inputs[0]);
         const Value sum = b.emit("cross_entropy", rows, {{"ignore_index", ignored}}, "loss").front();
         const Value weight = b.op("cross_entropy_weight", {rows[1]}, {{"ignore_index", ignored}}, "weight");
         return {b.op("div", {sum, weight}, {}, "loss")};
     }},
};

TEST(LossCheck, FindsALossThatIsAnother) {
    for (const Planted& wrong : planted) {
        SCOPED_TRACE(wrong.what);
        double largest = 0;  // each micro-batch's own mean is right where labels happen to count the same
        for (const std::uint64_t seed : {1, 2, 3})
            largest = std::max(largest, checked(model_for(wrong.loss), wrong.loss, wrong.build, seed).error);
        EXPECT_GE(largest, 1e-4);
    }
}

// What is looked for is the difference alone: the planting itself changes nothing.
TEST(LossCheck, AcceptsThePlantedRightOne) {
    const LossCheck got =
        checked("added_mse", "mse",
                [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
                    const Value difference = b.sub(result, inputs[0]);
                    return {over_all(b, "reduce_mean", b.mul(difference, difference))};
                });
    EXPECT_LE(got.error, tolerance);
}

}  // namespace
}  // namespace thunderc
