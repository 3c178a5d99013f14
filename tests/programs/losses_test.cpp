// SPDX-License-Identifier: Apache-2.0
// Losses of all kinds in compiled programs, beside PyTorch: value, gradient norm and parameters of five steps.
// tests/planned/losses_test.cpp has every loss on every cut in process; here a few programs cover what is compiled of
// them: each way to add up a loss (its mean with a weight, one weight for each term, the mean over parts), each cut and
// both types. -DTHUNDERC_FULL=ON builds all of them, some hundreds of programs; --gtest_filter
// takes a part.
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <map>

#include "checkpoint/safetensors.h"
#include "tests/programs/generated_program.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace losses_test {
namespace fs = std::filesystem;

const char* const fixtures = FIXTURES "/losses/";

const nlohmann::json& reference() {
    static const nlohmann::json read = [] {
        std::ifstream file(std::string(fixtures) + "reference.json");
        return nlohmann::json::parse(file);
    }();
    return read;
}

// As in tests/planned/losses_test.cpp: the twelve rows of a step go to `ranks` ranks in `grad_accum` micro-steps.
struct Cut {
    const char *name, *option;
    int ranks, grad_accum;

    int parts() const { return ranks * grad_accum; }
};

const Cut cuts[] = {{"alone", "", 1, 1},         {"accum3", "", 1, 3},
                    {"dp2", "--dp 2", 2, 1},     {"dp2_accum3", "--dp 2", 2, 3},
                    {"fsdp2", "--fsdp 2", 2, 1}, {"fsdp2_accum3", "--fsdp 2", 2, 3}};

struct Case {
    nlohmann::json row;
    Cut cut;
    std::string dtype;

    std::string name() const { return row.at("name").get<std::string>() + "_" + cut.name + "_" + dtype; }
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name();
}

// What is built where nobody asks for all.
struct Chosen {
    const char *loss, *cut, *dtype;
};

const Chosen chosen[] = {
    {"added_cross_entropy", "accum3", "f32"},        // a mean with a weight; micro-batches weigh differently
    {"added_mse", "fsdp2", "bf16"},                  // in products' type, cut
    {"added_all_options", "dp2_accum3", "f32"},      // weights of classes, on ranks and micro-steps
    {"added_nll_weighted", "accum3", "bf16"},        // labels that no op of the runtime reads
    {"added_sum_with_own", "fsdp2_accum3", "bf16"},  // one added, one the model's own
    {"twenty_means", "fsdp2_accum3", "f32"},         // more of them than any fixed number, summed over ranks
    {"ce_sum", "dp2", "f32"},                        // the mean over ranks
    {"mean_and_sum", "accum3", "bf16"},              // one of each, averaged over micro-steps
    {"penalty_on_layers", "fsdp2_accum3", "bf16"},   // weights that are gathered in f32 for both of their readers
};

std::vector<Case> cases() {
    std::vector<Case> out;
    for (const nlohmann::json& row : reference().at("losses"))
        for (const Cut& cut : cuts)
            for (const char* dtype : {"f32", "bf16"}) {
                bool wanted = full_form;
                for (const Chosen& c : chosen)
                    wanted = wanted || (row.at("name") == c.loss && cut.name == std::string(c.cut) &&
                                        dtype == std::string(c.dtype));
                if (wanted) out.push_back({row, cut, dtype});
            }
    return out;
}

// The recorded batches under the names of the graph's inputs.
void write_feed(const fs::path& path, const nlohmann::json& row) {
    const thunder::SafetensorsFile file(std::string(fixtures) + "batches.safetensors");
    std::vector<thunder::TensorToWrite> tensors;
    std::vector<const thunder::StoredTensor*> stored;
    for (int step = 0; step < reference().at("steps").get<int>(); ++step)
        for (const auto& [input, name] : row.at("inputs").items()) {
            stored.push_back(file.find(name.get<std::string>() + "_" + std::to_string(step)));
            if (stored.back() == nullptr) throw std::runtime_error("the fixture lacks " + name.get<std::string>());
            const thunder::DType dtype = stored.back()->dtype == "I64" ? thunder::DType::i64 : thunder::DType::f32;
            tensors.push_back({input + "_" + std::to_string(step), dtype, stored.back()->shape});
        }
    thunder::SafetensorsWriter writer(path.string(), tensors);
    for (const thunder::StoredTensor* tensor : stored) writer.append(tensor->bytes.data(), tensor->bytes.size());
    writer.commit();
}

std::vector<float> values_of(const thunder::SafetensorsFile& file, const std::string& name) {
    const thunder::StoredTensor* stored = file.find(name);
    if (stored == nullptr) throw std::runtime_error("there is no " + name);
    std::vector<float> out(stored->elements());
    EXPECT_TRUE(thunder::read_elements(*stored, thunder::DType::f32, 0, out.size(), out.data()));
    return out;
}

// How far parameters are from PyTorch's, of the way that they went: in the L2 norm over all that `names` has.
double distance(const thunder::SafetensorsFile& names, const thunder::SafetensorsFile& after, const std::string& prefix,
                const std::string& want_prefix) {
    const thunder::SafetensorsFile wanted(std::string(fixtures) + "after.safetensors"),
        begun(std::string(fixtures) + "params.safetensors");
    double difference = 0, way = 0;
    for (const thunder::StoredTensor& tensor : names.tensors()) {
        const std::vector<float> got = values_of(after, prefix + tensor.name),
                                 want = values_of(wanted, want_prefix + tensor.name),
                                 begin = values_of(begun, tensor.name);
        for (std::size_t k = 0; k < got.size(); ++k) {
            difference += std::pow(static_cast<double>(got[k]) - static_cast<double>(want[k]), 2);
            way += std::pow(static_cast<double>(want[k]) - static_cast<double>(begin[k]), 2);
        }
    }
    return std::sqrt(difference / way);
}

struct Errors {
    double loss = 0, norm = 0, after = 0;
};

// The furthest that PyTorch's autocast is from fp64, of all losses and steps; parameters are the loss's own.
Errors furthest_of_autocast() {
    Errors out;
    for (const nlohmann::json& row : reference().at("losses")) {
        const nlohmann::json &there = row.at("autocast"), &exact = row.at("parts").at("1");
        for (std::size_t s = 0; s < there.at("loss").size(); ++s) {
            const auto off = [&](const char* key) {
                return std::abs(there.at(key).at(s).get<double>() / exact.at(key).at(s).get<double>() - 1);
            };
            out.loss = std::max(out.loss, off("loss"));
            out.norm = std::max(out.norm, off("grad_norm"));
        }
    }
    return out;
}

class CompiledLosses : public testing::TestWithParam<Case> {};

TEST_P(CompiledLosses, TrainAsPyTorchDoes) {
    const Case& c = GetParam();
    const auto loss = c.row.at("name").get<std::string>(), option = c.row.at("option").get<std::string>();
    const int rows = reference().at("rows").get<int>() / c.cut.parts();
    const GeneratedProgram program("losses_" + c.name(), "losses", loss,
                                   "--batch " + std::to_string(rows) + " --dtype " + c.dtype + " " + c.cut.option +
                                       (option.empty() ? "" : " --loss " + option),
                                   "train", c.cut.ranks);
    ASSERT_TRUE(program.built()) << program.failure();
    write_feed(program.file("feed.safetensors"), c.row);
    fs::remove(program.file("run.jsonl"));
    const Outcome outcome = program.train(program.recipe() + " --log run.jsonl --save after.safetensors --grad-accum " +
                                          std::to_string(c.cut.grad_accum));
    ASSERT_EQ(outcome.status, 0) << outcome.err;

    const std::string parts = c.row.at("whole").get<bool>() ? "1" : std::to_string(c.cut.parts());
    const nlohmann::json& want = c.row.at("parts").at(parts);
    const std::vector<nlohmann::json> log = read_log(program.file("run.jsonl"));
    ASSERT_EQ(log.size(), want.at("loss").size());
    Errors got;
    for (std::size_t s = 0; s < log.size(); ++s) {
        const auto off = [&](const char* key) {
            return std::abs(log[s].at(key).get<double>() / want.at(key).at(s).get<double>() - 1);
        };
        got.loss = std::max(got.loss, off("loss"));
        got.norm = std::max(got.norm, off("grad_norm"));
    }
    const thunder::SafetensorsFile after(program.file("after.safetensors").string());
    got.after = distance(after, after, "", loss + "/" + parts + "/");
    Errors most = {1e-5, 1e-4, 1e-3};  // with its reasons in tests/planned/losses_test.cpp
    if (c.dtype == "bf16") {
        // Nothing twice as far from fp64 as autocast's furthest: a wrong weight is.
        const thunder::SafetensorsFile recorded(std::string(fixtures) + "after.safetensors");
        const Errors there = furthest_of_autocast();
        most = {2 * there.loss, 2 * there.norm, 2 * distance(after, recorded, loss + "/autocast/", loss + "/1/")};
        EXPECT_GT(got.loss, 1e-6) << "that is f32";
    }
    EXPECT_LE(got.loss, most.loss);
    EXPECT_LE(got.norm, most.norm);
    EXPECT_LE(got.after, most.after);
}

INSTANTIATE_TEST_SUITE_P(Programs, CompiledLosses, testing::ValuesIn(cases()),
                         [](const auto& info) { return info.param.name(); });

}  // namespace losses_test
}  // namespace thunderc::tests
