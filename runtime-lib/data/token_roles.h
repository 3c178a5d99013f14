// SPDX-License-Identifier: Apache-2.0
// What windows of tokens feed each input with (--map).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "train/options.h"
#include "train/program.h"

namespace thunder {

// `documents`: to which document of its row each position belongs, 0, 1, 2 and so on; of an input of booleans
// [batch, ..., positions, positions] whether the one position may look at the other, which is one of the same document
// and not behind it; of such an input of f32 what is added to scores for that: 0, or the lowest number.
enum class TokenRole : std::uint8_t { tokens, next_tokens, ones, positions, documents };

struct TokenRoles {
    std::vector<TokenRole> of;  // each input
    std::uint64_t length = 0;   // positions in a window
};

// "tokens", "next_tokens", ..., in the order of TokenRole.
std::span<const std::string_view> token_role_names();

// Whether an input of ids is of labels: a value says that there is none.
bool takes_no_label(const InputSpec& input);

// By --map, or as the program says. Fails where an input is left over, or where its type or shape does not fit.
TokenRoles choose_token_roles(const ProgramSpec& program, const Options& options);

}  // namespace thunder
