// SPDX-License-Identifier: Apache-2.0
// Regular expressions as tokenizers write them.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace thunderc {

// An expression in Oniguruma's syntax, which the `tokenizers` package matches with, given to PCRE2 with what the two
// understand differently spelled out: \s is White_Space, \w is Unicode's, names of scripts are the scripts alone,
// ^ and $ are of lines. What cannot be said so is refused by name.
class Regex {
  public:
    // Of a pattern, or of a text that is to be found as it is.
    explicit Regex(const std::string& pattern);
    static Regex literal(std::string_view text);

    struct Match {
        std::size_t begin = 0, end = 0;
    };

    // Matches in a text of valid UTF-8, from the left, as a program asks for them one by one. An empty match that
    // touches the one before is none. One of these is used by one thread.
    class Finder {
      public:
        explicit Finder(const Regex& regex);
        Finder(Finder&&) noexcept;
        Finder(const Finder&) = delete;
        Finder& operator=(const Finder&) = delete;
        Finder& operator=(Finder&&) = delete;
        ~Finder();

        void start(std::string_view text);
        bool next(Match& match);

      private:
        bool search(std::size_t from, Match& match);

        const Regex* regex_;
        struct Room;
        std::unique_ptr<Room> room_;  // none of a literal
        std::string_view text_;
        std::size_t at_ = 0, last_end_ = static_cast<std::size_t>(-1);
    };

  private:
    struct Code;
    Regex() = default;

    std::string literal_;  // of a literal, which is looked for without PCRE2
    std::shared_ptr<const Code> code_;
};

// The pattern as PCRE2 takes it.
std::string pcre2_pattern(const std::string& oniguruma_pattern);

}  // namespace thunderc
