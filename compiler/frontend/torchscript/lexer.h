// SPDX-License-Identifier: Apache-2.0
// TorchScript's code as words, with lines and blocks made explicit as Python has them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace thunderc::torchscript {

struct Token {
    enum class Kind : std::uint8_t { name, integer, number, text, sign, line_end, block_begin, block_end, end };
    Kind kind = Kind::end;
    std::string text;  // of a text what it says
    int line = 0;
};

// Throws UserError that names the file and the line.
std::vector<Token> tokens_of(const std::string& path, const std::string& code);

[[noreturn]] void fail_in_code(const std::string& path, int line, const std::string& what);

}  // namespace thunderc::torchscript
