// SPDX-License-Identifier: Apache-2.0
// Every loss of the table is what it is by definition, over micro-batches of different weights, and a loss that is not
// is found: what is planted here is what a mistake in the table or in a pass behind it would be.
#include "compiler/check/loss_check.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "compiler/frontend/frontend.h"
#include "compiler/losses/parts.h"
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
                  const std::function<void(Function&)>& change = {}, const std::vector<LossInput>& more = {}) {
    CompileOptions options;
    options.batch = 2;
    if (!loss.empty()) options.loss = loss;
    AddedLoss planted;
    GivenLoss given;
    if (build != nullptr) {
        given = parse_losses(loss).front().loss;
        planted = *given.loss;
        planted.build = build;
        planted.inputs.insert(planted.inputs.end(), more.begin(), more.end());
        given.loss = &planted;
    }
    Module graph;
    ChosenLoss chosen;
    std::vector<Pass> passes = pipeline(options);
    for (Pass& pass : passes)
        if (pass.name == "add_loss" && build != nullptr)
            pass.run = [&](Module m, Report& r) { return append_loss(std::move(m), chosen, r); };
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
        if (pass.name == "raise_poles") {
            chosen = choose_loss(m, options.loss);
            if (build != nullptr) chosen.terms.front().added = given;
            for (const LossInput& input : more) chosen.terms.front().inputs.push_back(input.name);
        }
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

// With numbers that f32 has exactly, as constants of the program are.
const char* const with_options[] = {"huber:delta=0.5",
                                    "smooth-l1:beta=0.25",
                                    "nll:class_weights=0.5,1,2,1.5",
                                    "kl-div:log_target=1",
                                    "cosine-embedding:margin=0.25",
                                    "cross-entropy:label_smoothing=0.125",
                                    "cross-entropy:label_smoothing=1",
                                    "cross-entropy:z_loss=0.0625",
                                    "cross-entropy:class_weights=0.5,1,2,0",
                                    "cross-entropy:class_weights=0.5,1,2,1.5,label_smoothing=0.125,z_loss=0.0625"};

TEST(LossCheck, EachLossOfTheTableIsItsDefinition) {
    std::vector<std::string> losses(std::begin(with_options), std::end(with_options));
    for (const AddedLoss& loss : added_losses()) losses.push_back(loss.name);
    for (const std::string& loss : losses)
        for (const std::uint64_t seed : {1, 2, 3}) {
            const LossCheck got = checked(model_for(loss), loss, nullptr, seed);
            EXPECT_LE(got.error, tolerance) << loss;
            EXPECT_EQ(got.micro_batches, 3U);
            EXPECT_GT(std::abs(got.expected), 1e-3) << loss;
        }
}

// Each option that there is has been tried.
TEST(LossCheck, EachOptionIsTried) {
    for (const AddedLoss& loss : added_losses())
        for (const LossOption& option : loss.options)
            EXPECT_TRUE(std::any_of(std::begin(with_options), std::end(with_options),
                                    [&](const std::string& text) {
                                        return text.starts_with(loss.name + ":") &&
                                               text.find(option.name + "=") != std::string::npos;
                                    }))
                << loss.name << " " << option.name;
}

constexpr std::int64_t ignored = -100;

std::vector<Value> rows_and_labels(Builder& b, Value result, Value labels) {
    const Type type = b.type(result);
    const std::int64_t rows = type.elements() / type.dims.back();
    return {b.reshape(result, {rows, type.dims.back()}), b.reshape(labels, {rows})};
}

// Each two, of two results and of one: whatever weights they have, and whichever inputs they share.
TEST(LossCheck, SumsOfAnyTwoLossesAreTheSumOfTheirDefinitions) {
    for (const AddedLoss& one : added_losses())
        for (const AddedLoss& other : added_losses())
            for (const char* result : {"value", "logits"}) {
                const std::string loss = fmt::format("{}@logits+0.25*{}@{}", one.name, other.name, result);
                const LossCheck got = checked("added_sum_of_two_heads", loss);
                EXPECT_LE(got.error, 1e-7) << loss;  // weights are f32
                EXPECT_EQ(got.micro_batches, 3U);
                EXPECT_EQ(got.what, fmt::format("{} of logits + 0.25 * {} of {}", one.name, other.name, result));
            }
}

TEST(LossCheck, ASumWithTheModelsOwnIsTheSum) {
    for (const char* loss : {"cross-entropy@logits+0.5*own@aux", "own@aux+cross-entropy@logits:label_smoothing=0.125",
                             "-2*own@aux+2*cross-entropy@logits+mse@logits"}) {
        const LossCheck got = checked("added_sum_with_own", loss);
        EXPECT_LE(got.error, 1e-7) << loss;
        EXPECT_EQ(got.micro_batches, 3U) << loss;
    }
}

// A term with a wrong weight, and one whose factor is another.
TEST(LossCheck, FindsAWrongTermOfASum) {
    const std::string loss = "cross-entropy@logits+0.5*mse@value";
    const Build sum = [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) {
        return std::vector<Value>{
            b.emit("cross_entropy", rows_and_labels(b, result, inputs[0]), {{"ignore_index", ignored}}, "loss")[0]};
    };
    double largest = 0;
    for (const std::uint64_t seed : {1, 2, 3})
        largest = std::max(largest, checked("added_sum_of_two_heads", loss, sum, seed).error);
    EXPECT_GE(largest, 1e-2);
    largest = 0;
    for (const std::uint64_t seed : {1, 2, 3})
        largest = std::max(largest, checked("added_sum_of_two_heads", loss, nullptr, seed, [](Function& main) {
                                        Builder b(main);
                                        main.results[0] = b.mul(main.results[0], 1.001);
                                    }).error);
    EXPECT_GE(largest, 1e-4);
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
    {"a sum for a mean", "l1",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {sum_of_all(b, distance(b, result, inputs[0]), "loss")};
     }},
    {"squares for distances", "l1",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const Value d = distance(b, result, inputs[0]);
         return {mean_of_all(b, b.mul(d, d))};
     }},
    {"another delta", "huber:delta=0.5",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {mean_of_all(b, bent_squares(b, result, inputs[0], 1))};
     }},
    {"Huber's for the smooth one", "smooth-l1:beta=0.5",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {mean_of_all(b, bent_squares(b, result, inputs[0], 0.5))};
     }},
    {"logits for probabilities", "bce-with-logits",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {mean_of_all(b, b.sub(b.op("softplus", {result}), inputs[0]))};
     }},
    {"the other class's term alone", "bce-with-logits",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {mean_of_all(b, b.mul(inputs[0], b.op("softplus", {b.neg(result)})))};
     }},
    {"labels that count alike", "nll:class_weights=0.5,1,2,1.5",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const ClassRows rows = class_rows(b, result, inputs[0]);
         const Value taken = b.op("select", {is_label(b, rows), b.neg(rows.scores), b.scalar(DType::f32, 0)});
         return {sum_of_all(b, taken, "loss"), label_count(b, rows.labels)};
     }},
    {"class weights that are not in the weight", "nll:class_weights=0.5,1,2,1.5",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) -> std::vector<Value> {
         const Value weights = numbers_of_classes(b, numbers.numbers("class_weights"));
         const ClassRows rows = class_rows(b, result, inputs[0]);
         const Value taken =
             b.op("select", {is_label(b, rows), b.neg(b.mul(rows.scores, weights)), b.scalar(DType::f32, 0)});
         return {sum_of_all(b, taken, "loss"), label_count(b, rows.labels)};
     }},
    {"each micro-batch's own mean", "nll",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const ClassRows rows = class_rows(b, result, inputs[0]);
         const Value taken = b.op("select", {is_label(b, rows), b.neg(rows.scores), b.scalar(DType::f32, 0)});
         return {b.op("div", {sum_of_all(b, taken, "sum"), label_count(b, rows.labels)}, {}, "loss")};
     }},
    {"torch's other mean, over elements", "kl-div:log_target=1",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {mean_of_all(b, b.mul(b.op("exp", {inputs[0]}), b.sub(inputs[0], result)))};
     }},
    {"probabilities for logarithms", "kl-div:log_target=1",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const double rows = static_cast<double>(b.type(result).dims.front());
         return {b.mul(sum_of_all(b, b.mul(inputs[0], b.sub(inputs[0], result)), "sum"), 1 / rows)};
     }},
    {"the target's entropy left out", "kl-div",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const double rows = static_cast<double>(b.type(result).dims.front());
         return {b.mul(sum_of_all(b, b.neg(b.mul(inputs[0], result)), "sum"), 1 / rows)};
     }},
    {"no smoothing", "cross-entropy:label_smoothing=0.125",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const ClassRows rows = class_rows(b, result, inputs[0]);
         return {b.emit("cross_entropy", {rows.scores, rows.labels}, {{"ignore_index", ignored}}, "loss").front(),
                 label_count(b, rows.labels)};
     }},
    {"the square of log Z in ignored rows too", "cross-entropy:z_loss=0.0625",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         const ClassRows rows = class_rows(b, result, inputs[0]);
         const auto entropy = b.emit("cross_entropy", {rows.scores, rows.labels}, {{"ignore_index", ignored}}, "loss");
         const Value squares = sum_of_all(b, b.mul(entropy[1], entropy[1]), "squares");
         return {b.add(entropy[0], b.mul(squares, 0.0625)), label_count(b, rows.labels)};
     }},
    {"class weights that are not in the weight", "cross-entropy:class_weights=0.5,1,2,1.5",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) -> std::vector<Value> {
         const std::vector<Value> right = find_loss("cross-entropy")->build(b, result, inputs, numbers);
         return {right[0], label_count(b, inputs[0])};
     }},
    {"class weights by another order", "cross-entropy:class_weights=0.5,1,2,1.5",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) -> std::vector<Value> {
         std::vector<double> turned = numbers.numbers("class_weights");
         std::reverse(turned.begin(), turned.end());
         LossNumbers other = numbers;
         other.set("class_weights", turned);
         return find_loss("cross-entropy")->build(b, result, inputs, other);
     }},
    {"products for cosines", "cosine-embedding:margin=0.25",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) -> std::vector<Value> {
         const Value one = b.scalar(DType::f32, 1),
                     product = b.reduce_sum(b.mul(result, inputs[0]), {b.type(result).rank() - 1});
         const Value apart = b.op("relu", {b.add(product, -numbers.number("margin"))});
         const Value alike = b.op("gt", {inputs[1], b.scalar(DType::f32, 0)});
         return {mean_of_all(b, b.op("select", {alike, b.sub(one, product), apart}))};
     }},
    {"rates for their logarithms", "poisson-nll",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
         return {mean_of_all(b, b.sub(result, b.mul(inputs[0], b.op("log", {b.op("abs", {result})}))))};
     }},
    {"no margin", "cosine-embedding:margin=0.25",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) -> std::vector<Value> {
         LossNumbers other = numbers;
         other.set("margin", {0});
         return find_loss("cosine-embedding")->build(b, result, inputs, other);
     }},
    {"signs the other way round", "cosine-embedding:margin=0.25",
     [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers& numbers) -> std::vector<Value> {
         const std::vector<Value> turned = {inputs[0], b.neg(inputs[1])};
         return find_loss("cosine-embedding")->build(b, result, turned, numbers);
     }},
};

TEST(LossCheck, FindsALossThatIsAnother) {
    for (const AddedLoss& loss : added_losses())  // each loss has one that is not it
        EXPECT_TRUE(std::any_of(std::begin(planted), std::end(planted), [&](const Planted& wrong) {
            return wrong.loss == loss.name || std::string_view(wrong.loss).starts_with(loss.name + ":");
        })) << loss.name;
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

// An input that is the same for all rows is one, however many micro-batches there are.
TEST(LossCheck, AnInputMayBeNoRows) {
    const LossInput scale = {.name = "scale",
                             .shape = "one number",
                             .holds = "a factor",
                             .type = [](const Type&) { return Type::tensor(DType::f32, {}); },
                             .batched = false};
    const LossCheck got =
        checked("added_mse", "mse",
                [](Builder& b, Value result, std::span<const Value> inputs, const LossNumbers&) -> std::vector<Value> {
                    const Value difference = b.sub(result, inputs[0]), none = b.sub(inputs[1], inputs[1]);
                    return {mean_of_all(b, b.add(b.mul(difference, difference), none))};
                },
                1, {}, {scale});
    EXPECT_LE(got.error, tolerance);
    EXPECT_EQ(got.micro_batches, 3U);
}

}  // namespace
}  // namespace thunderc
