// SPDX-License-Identifier: Apache-2.0
// Members of JSON objects, with messages that say of which file and which part of it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "support/json.h"

namespace thunderc {

class JsonReader {
  public:
    // Ids are less: what a larger vocabulary would take is no tokenizer's.
    static constexpr std::int64_t most_ids = 1 << 22;

    explicit JsonReader(std::string path) : path_(std::move(path)) {}
    const std::string& path() const { return path_; }

    // `what` names the object for messages.
    const thunder::Json& member(const thunder::Json& of, std::string_view name, const std::string& what) const;
    const std::string& text(const thunder::Json& of, std::string_view name, const std::string& what) const;
    const std::vector<thunder::Json>& list(const thunder::Json& of, std::string_view name,
                                           const std::string& what) const;
    std::uint32_t number(const thunder::Json& of, std::string_view name, const std::string& what) const;
    std::string base64(const thunder::Json& of, std::string_view name, const std::string& what) const;
    // Where the member is absent or null, `otherwise`.
    std::string text_or(const thunder::Json& of, std::string_view name, const std::string& otherwise,
                        const std::string& what) const;
    bool flag_or(const thunder::Json& of, std::string_view name, bool otherwise, const std::string& what) const;

    [[noreturn]] void refuse(const std::string& what) const;   // it is not known here
    [[noreturn]] void damaged(const std::string& what) const;  // it is not as it should be

  private:
    std::string path_;
};

// Fails with "<what> …" where a sign is none of base64's.
std::string decode_base64(std::string_view text, const std::string& what);

}  // namespace thunderc
