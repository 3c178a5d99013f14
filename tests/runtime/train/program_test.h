// SPDX-License-Identifier: Apache-2.0
// Whole programs in a folder of their own, and what they read and write.
#pragma once

#include <nlohmann/json.hpp>
#include <random>

#include "helpers.h"

namespace thunder {

// of words/model.cpp
inline constexpr std::int64_t T = 6, V = 11, D = 8;

struct WordsBatch {
    std::vector<std::int64_t> ids, labels;
};

// The fields of a log that do not depend on time.
inline std::string without_times(const std::string& log) {
    std::string kept;
    std::istringstream text(log);
    for (std::string line; std::getline(text, line);) kept += line.substr(0, line.find(",\"step_ms\"")) + "\n";
    return kept;
}

class ProgramTest : public InFolder {
  protected:
    ProgramTest() {
        std::vector<float> table(D);
        for (std::size_t d = 0; d < D; ++d) table[d] = 0.05F * static_cast<float>(d);
        write_tensors(path("constants.safetensors"), {floats("table", {D}, table)});
    }

    // Batches of `rows` rows; some labels are ignored.
    std::vector<WordsBatch> write_feed(const std::string& name, std::size_t steps, std::int64_t rows) {
        std::mt19937 random(1);
        std::vector<WordsBatch> batches(steps);
        std::vector<TestTensor> tensors;
        for (std::size_t step = 0; step < steps; ++step) {
            for (std::int64_t i = 0; i < rows * T; ++i) {
                batches[step].ids.push_back(random() % V);
                batches[step].labels.push_back(random() % 5 == 0 ? -100 : static_cast<std::int64_t>(random() % V));
            }
            tensors.push_back(longs(cat("input_ids_", step), {rows, T}, batches[step].ids));
            tensors.push_back(longs(cat("labels_", step), {rows, T}, batches[step].labels));
        }
        write_tensors(path(name), tensors);
        return batches;
    }

    std::vector<nlohmann::json> read_log(const std::string& name) const {
        std::vector<nlohmann::json> lines;
        std::istringstream text(read_file(path(name)));
        for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
        return lines;
    }

    void expect_success(const Outcome& outcome) const {
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        EXPECT_EQ(outcome.err, "");
    }
};

}  // namespace thunder
