// SPDX-License-Identifier: Apache-2.0
// Whole programs in a folder of their own, and what they read and write.
#pragma once

#include <nlohmann/json.hpp>
#include <random>

#include "checkpoint/manifest.h"
#include "helpers.h"
#include "support/checksum.h"

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

// "c/step-00000008" of the folder c, and the file in it that a run of one rank writes.
inline std::string step_in(const std::string& folder, int step) {
    return cat(folder, "/step-", std::string(8 - std::to_string(step).size(), '0'), step);
}
inline std::string file_of_step(const std::string& folder, int step) {
    return step_in(folder, step) + "/rank-00000.safetensors";
}

// Gives a checkpoint of one rank the checksums of what its file holds now, as if it had been written so.
inline void seal(const std::string& checkpoint, Manifest manifest) {
    const std::string path = checkpoint + "/rank-00000.safetensors";
    std::string bytes = read_file(path);
    const std::string key = "\"checksum\":\"";
    const std::size_t digits = bytes.find(key) + key.size();
    bytes.replace(digits, no_checksum.size(), no_checksum);
    Checksum checksum;
    checksum.add(bytes.data() + 8, bytes.size() - 8);
    manifest.files.at(0) = {"rank-00000.safetensors", bytes.size(), checksum_text(checksum.value())};
    bytes.replace(digits, no_checksum.size(), manifest.files[0].checksum);
    write_file(path, bytes);
    write_file(checkpoint + "/manifest.json", manifest_text(manifest));
}
inline void seal(const std::string& checkpoint) {
    seal(checkpoint, read_manifest(checkpoint));
}

// Replaces a text, wherever it stands in the manifest and in the header of the file.
inline void rewrite(const std::string& checkpoint, const std::string& from, const std::string& to) {
    const auto replaced = [&](std::string text) {
        for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
            text.replace(at, from.size(), to);
        return text;
    };
    const std::string file = checkpoint + "/rank-00000.safetensors", before = manifest_text(read_manifest(checkpoint));
    std::string after = replaced(before);
    EXPECT_TRUE(from == to || after != before) << from;
    write_file(file, replaced(read_file(file)));
    // What stands in the manifest's head is its checksum.
    Checksum checksum;
    const std::string key = "\"checksum\":\"";
    after.replace(after.find(key) + key.size(), no_checksum.size(), no_checksum);
    checksum.add(after.data(), after.size());
    after.replace(after.find(key) + key.size(), no_checksum.size(), checksum_text(checksum.value()));
    write_file(checkpoint + "/manifest.json", after);
    seal(checkpoint);
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

    void restore(const std::string& from, const std::string& to) const {
        std::filesystem::remove_all(path(to));
        std::filesystem::copy(path(from), path(to), std::filesystem::copy_options::recursive);
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
