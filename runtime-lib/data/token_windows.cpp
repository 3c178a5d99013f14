// SPDX-License-Identifier: Apache-2.0
// Windows of packed token files, in a seeded random order that is new in each epoch.
#include <algorithm>
#include <cstring>
#include <vector>

#include "data/batch_source.h"
#include "data/corpus.h"
#include "data/permutation.h"
#include "data/token_file.h"
#include "program/inputs.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

enum class Role : std::uint8_t { tokens, next_tokens, ones, positions };

std::string role_of(const InputSpec& input, const Options& options) {
    for (const auto& [name, role] : options.map) {
        if (name == input.name) return role;
    }
    return std::string(input.source);
}

// What the numbers 0, 1, 2, ... become in the input's type.
void store(std::byte* to, DType dtype, std::size_t i, std::int64_t value) {
    switch (dtype) {
        case DType::i64: reinterpret_cast<std::int64_t*>(to)[i] = value; break;
        case DType::i32: reinterpret_cast<std::int32_t*>(to)[i] = static_cast<std::int32_t>(value); break;
        case DType::f32: reinterpret_cast<float*>(to)[i] = static_cast<float>(value); break;
        case DType::boolean: reinterpret_cast<std::uint8_t*>(to)[i] = value != 0; break;
        default: break;  // refused at start
    }
}

class TokenWindows : public BatchSource {
  public:
    TokenWindows(const ProgramSpec& program, const Options& options, const BatchCut& cut)
        : program_(program), path_(options.data), seed_(options.seed), cut_(cut) {
        choose_roles(options);
        open_files();
        for (const TokenFile& file : files_) {
            first_window_.push_back(windows_);
            // Windows stand side by side; each needs the token behind its last one, which the last position predicts.
            windows_ += file.count() > 0 ? (file.count() - 1) / length_ : 0;
        }
        if (windows_ == 0) {
            fail(cat(path_, " holds ", count_text(tokens(), "token"), ", and one window takes ", length_ + 1),
                 "pack more text, or write the program with a smaller --seq");
        }
    }

    void load(std::int64_t /*step*/, std::int64_t position, std::int64_t micro_step,
              std::span<std::byte> batch) override {
        std::vector<std::int64_t> window(length_ + 1);
        for (std::int64_t row = 0; row < cut_.batch; ++row) {
            const auto sample = static_cast<std::uint64_t>(position + cut_.first_row(micro_step) + row);
            const std::uint64_t epoch = sample / windows_;
            const std::uint64_t index = Permutation(windows_, seed_, epoch)(sample % windows_);
            const auto file = static_cast<std::size_t>(
                std::upper_bound(first_window_.begin(), first_window_.end(), index) - first_window_.begin() - 1);
            const std::uint64_t first = (index - first_window_[file]) * length_;
            files_[file].read(first, window);
            for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
                if (program_.inputs[i].batched)
                    fill_row(program_.inputs[i], roles_[i], row, window, batch, files_[file], first);
            }
        }
        for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
            const InputSpec& input = program_.inputs[i];
            if (input.batched) continue;
            const std::size_t count = input.bytes / size_of(input.dtype);
            for (std::size_t e = 0; e < count; ++e)
                store(batch.data() + input.offset, input.dtype, e,
                      roles_[i] == Role::ones ? 1 : static_cast<std::int64_t>(e % length_));
        }
    }

    std::int64_t steps() const override { return static_cast<std::int64_t>(windows_) / cut_.global_rows(); }

    std::string describe() const override {
        return cat(count_text(tokens(), "token"), " from ", path_,
                   files_.size() > 1 ? cat(" (", files_.size(), " files)") : "", ", ", count_text(windows_, "window"),
                   " of ", length_);
    }

  private:
    std::uint64_t tokens() const {
        std::uint64_t count = 0;
        for (const TokenFile& file : files_) count += file.count();
        return count;
    }

    static bool fits(const InputSpec& input, Role role) {
        const bool integers = input.dtype == DType::i64 || input.dtype == DType::i32;
        if (role == Role::ones) return !is_narrow(input.dtype);
        if (role == Role::positions) return integers && !input.shape.empty();
        return integers && input.batched && input.shape.size() == 2;
    }
    // "tokens|next_tokens|ones|positions": those that can feed it.
    static std::string roles_for(const InputSpec& input) {
        const std::pair<Role, const char*> roles[] = {{Role::tokens, "tokens"},
                                                      {Role::next_tokens, "next_tokens"},
                                                      {Role::ones, "ones"},
                                                      {Role::positions, "positions"}};
        std::string text;
        for (const auto& [role, name] : roles)
            if (fits(input, role)) text += cat(text.empty() ? "" : "|", name);
        return text.empty() ? "..." : text;
    }

    void choose_roles(const Options& options) {
        if (std::none_of(program_.inputs.begin(), program_.inputs.end(),
                         [](const InputSpec& input) { return fits(input, Role::tokens); }))
            fail(cat("none of the inputs of ", program_.name,
                     " takes the tokens of --data, which are whole numbers "
                     "[batch, positions]"),
                 "--feed FILE has batches of any numbers");
        std::string inputs, example;  // all that nothing is said of
        for (const InputSpec& input : program_.inputs) {
            if (!role_of(input, options).empty()) continue;
            inputs += cat(inputs.empty() ? "" : ", ", input.name, " ", shape_text(input.shape));
            example += cat(example.empty() ? "--map " : ",", input.name, "=", roles_for(input));
        }
        if (!inputs.empty()) fail(cat("--data does not say what is fed to ", inputs), cat(example, "; or --feed FILE"));
        for (const InputSpec& input : program_.inputs) {
            const std::string role = role_of(input, options);
            example = cat("--map ", input.name, "=", roles_for(input), "; or --feed FILE");
            roles_.push_back(role == "tokens"        ? Role::tokens
                             : role == "next_tokens" ? Role::next_tokens
                             : role == "ones"        ? Role::ones
                                                     : Role::positions);
            if (!fits(input, roles_.back())) {
                fail(cat("the input ", input.name, " is ", shape_text(input.shape), " of type ", to_text(input.dtype),
                         ": ", role, " cannot feed it"),
                     example);
            }
            if (roles_.back() == Role::ones) continue;
            const auto length = static_cast<std::uint64_t>(input.shape.back());
            if (length_ != 0 && length != length_) {
                fail(cat("the input ", input.name, " ", shape_text(input.shape), " does not have the ", length_,
                         " positions of the inputs before it"),
                     example);
            }
            length_ = length;
        }
        if (length_ == 0) fail("none of the inputs takes tokens", "--map INPUT=tokens, or --feed FILE");
        for (std::size_t i = 0; i < roles_.size(); ++i) check_range(program_.inputs[i], roles_[i]);
    }

    // Of what is the same in every window; tokens are looked at as they are read.
    void check_range(const InputSpec& input, Role role) const {
        const bool ones = role == Role::ones;
        if (!ones && role != Role::positions) return;
        const auto count = static_cast<std::int64_t>(input.bytes / size_of(input.dtype));
        for (std::int64_t i = 0; i < count; ++i) {
            const IdRange ids = ids_at(input, i);
            if (ids.holds(ones ? 1 : i % static_cast<std::int64_t>(length_))) continue;
            fail(cat("the input ", input.name, " takes ",
                     ones ? "ones" : cat("positions up to ", static_cast<std::int64_t>(length_) - 1),
                     ", and its numbers go from 0 to ", ids.entries - 1),
                 ones ? "--feed FILE, with numbers in that range"
                      : "write the program with a smaller --seq, or --feed FILE with numbers in that range");
        }
    }

    static std::string to_text(DType dtype) { return dtype == DType::boolean ? "boolean" : name_of(dtype); }

    void open_files() {
        for (const std::string& path : token_files_of(path_)) {
            files_.emplace_back(path);
            for (std::size_t i = 0; i < program_.inputs.size(); ++i) {
                const InputSpec& input = program_.inputs[i];
                if (roles_[i] != Role::tokens && roles_[i] != Role::next_tokens) continue;
                if (input.entries >= 0 && files_.back().vocabulary() > static_cast<std::uint64_t>(input.entries)) {
                    fail(cat(path, " has a vocabulary of ", files_.back().vocabulary(), ", and ids of ", input.name,
                             " go from 0 to ", input.entries - 1),
                         "the tokens were packed for another model");
                }
            }
        }
    }

    void fill_row(const InputSpec& input, Role role, std::int64_t row, std::span<const std::int64_t> window,
                  std::span<std::byte> batch, const TokenFile& file, std::uint64_t first) const {
        const std::size_t count = input.bytes / size_of(input.dtype) / static_cast<std::size_t>(cut_.batch);
        std::byte* to = batch.data() + input.offset + static_cast<std::size_t>(row) * count * size_of(input.dtype);
        const std::size_t shift = role == Role::next_tokens ? 1 : 0;
        for (std::size_t i = 0; i < count; ++i) {
            std::int64_t value = 1;
            if (role == Role::positions) value = static_cast<std::int64_t>(i % length_);
            if (role == Role::tokens || role == Role::next_tokens) {
                value = window[i + shift];
                if (const IdRange ids =
                        ids_at(input, static_cast<std::int64_t>(static_cast<std::size_t>(row) * count + i));
                    !ids.holds(value)) {
                    fail(cat(file.path(), ": token ", first + i + shift, " is ", value, ", and ids of ", input.name,
                             " go from 0 to ", ids.entries - 1),
                         "the file is damaged: thunderc data inspect checks it");
                }
            }
            store(to, input.dtype, i, value);
        }
    }

    const ProgramSpec& program_;
    std::string path_;
    std::uint64_t seed_;
    BatchCut cut_;
    std::vector<Role> roles_;   // of each input
    std::uint64_t length_ = 0;  // positions in a window
    std::vector<TokenFile> files_;
    std::vector<std::uint64_t> first_window_;  // of each file
    std::uint64_t windows_ = 0;
};

}  // namespace

std::unique_ptr<BatchSource> make_token_windows(const ProgramSpec& program, const Options& options,
                                                const BatchCut& cut) {
    return std::make_unique<TokenWindows>(program, options, cut);
}

}  // namespace thunder
