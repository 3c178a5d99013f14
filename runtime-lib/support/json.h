// SPDX-License-Identifier: Apache-2.0
// JSON as far as headers, indices and defaults need it, behind plain types: one file alone compiles the library.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace thunder {

struct Json {
    enum class Kind : std::uint8_t { null, boolean, integer, real, string, array, object } kind = Kind::null;
    bool boolean = false;
    std::int64_t integer = 0;
    double real = 0;  // of integers too
    std::string string;
    std::vector<Json> array;
    struct Member;
    std::vector<Member> object;  // in the order of the text, whose keys are all different

    bool is(Kind k) const { return kind == k; }
    // The member of an object, or null where there is none.
    const Json* find(std::string_view key) const;
};

struct Json::Member {
    std::string name;
    Json value;
};

// Fails with "<what> is not valid JSON at byte 12: …". Numbers that no int64 holds are reals.
Json parse_json(std::string_view text, const std::string& what,
                const std::string& help = "the file is damaged: write or copy it again");

// The text with quotes around it and escapes in it; bytes that are no UTF-8 become U+FFFD.
std::string json_quote(std::string_view text);

}  // namespace thunder
