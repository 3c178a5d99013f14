// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm/plan_file.h"

#include <charconv>
#include <string_view>

#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::string_view heading = "plans of products, found by --autotune on ";

std::string_view take_line(std::string_view& text) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    return line;
}

// "nvidia-h100-80gb-hbm3"
std::string file_name_of(std::string_view gpu) {
    std::string out;
    for (const char c : gpu) {
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
        if (letter || (c >= '0' && c <= '9'))
            out += letter ? static_cast<char>(c | 0x20) : c;
        else if (!out.empty() && out.back() != '-')
            out += '-';
    }
    return out;
}

// The words behind "KEY:"; nothing, where one of them is none.
std::optional<std::vector<std::uint64_t>> read_words(std::string_view text) {
    std::vector<std::uint64_t> words;
    while (!text.empty()) {
        if (text.front() == ' ') {
            text.remove_prefix(1);
            continue;
        }
        std::uint64_t word = 0;
        const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), word, 16);
        if (error != std::errc()) return std::nullopt;
        words.push_back(word);
        text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
    return words;
}

}  // namespace

PlanFile::PlanFile(const std::string& folder, const std::string& gpu, const std::string& library)
    : path_(join_path(folder, cat("cublaslt.", file_name_of(gpu), ".plans"))), machine_(cat(gpu, ", ", library)) {
    if (!is_file(path_)) return;
    const MappedFile file(path_);
    std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    if (take_line(text) != cat(heading, machine_)) return;
    while (!text.empty()) {
        const std::string_view line = take_line(text);
        const std::size_t colon = line.find(':');
        if (colon == std::string_view::npos) continue;
        if (auto words = read_words(line.substr(colon + 1))) plans_[std::string(line.substr(0, colon))] = *words;
    }
}

std::optional<std::vector<std::uint64_t>> PlanFile::find(const std::string& key) const {
    const auto found = plans_.find(key);
    if (found == plans_.end()) return std::nullopt;
    return found->second;
}

void PlanFile::add(const std::string& key, const std::vector<std::uint64_t>& words) {
    plans_[key] = words;
    std::string text = cat(heading, machine_, "\n");
    for (const auto& [name, values] : plans_) {
        text += name + ":";
        for (const std::uint64_t value : values) {
            char digits[16];
            const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), value, 16);
            text += " " + std::string(digits, end);
        }
        text += "\n";
    }
    AtomicFile file(path_);
    file.write(text.data(), text.size());
    file.commit();
}

}  // namespace thunder
