// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/added_tokens.h"

#include <algorithm>
#include <utility>

#include "tokenizers/unicode.h"

namespace thunderc {

namespace {

// The code point that ends before `end`, which is not 0.
std::size_t last_begin(std::string_view text, std::size_t end) {
    std::size_t at = end - 1;
    while (at > 0 && continues_code_point(text[at])) --at;
    return at;
}

}  // namespace

AddedTokenFinder::AddedTokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
    std::erase_if(tokens_, [](const AddedToken& token) { return token.text.empty(); });
    nodes_.emplace_back();
    for (const AddedToken& token : tokens_) {
        std::size_t node = 0;
        for (const char c : token.text) {
            const auto [child, is_new] =
                nodes_[node].children.try_emplace(static_cast<unsigned char>(c), nodes_.size());
            const std::size_t to = child->second;
            if (is_new) nodes_.emplace_back();
            node = to;
        }
        nodes_[node].token = &token;
        begins_[static_cast<unsigned char>(token.text[0])] = true;
    }
    if (std::count(begins_.begin(), begins_.end(), true) == 1)
        only_first_ = static_cast<int>(std::find(begins_.begin(), begins_.end(), true) - begins_.begin());
}

AddedTokenFinder::Found AddedTokenFinder::next(std::string_view text, std::size_t from) const {
    for (std::size_t begin = from; begin < text.size(); ++begin) {
        if (only_first_ >= 0) {
            begin = text.find(static_cast<char>(static_cast<unsigned char>(only_first_)), begin);
            if (begin == std::string_view::npos) break;
        } else if (!begins_[static_cast<unsigned char>(text[begin])]) {
            continue;
        }
        const AddedToken* longest = nullptr;
        std::size_t node = 0;
        for (std::size_t at = begin; at < text.size(); ++at) {
            const auto& children = nodes_[node].children;
            const auto child = children.find(static_cast<unsigned char>(text[at]));
            if (child == children.end()) break;
            node = child->second;
            if (nodes_[node].token != nullptr) longest = nodes_[node].token;
        }
        if (longest != nullptr) return {longest, begin};
    }
    return {};
}

bool AddedTokenFinder::widen(std::string_view text, const AddedToken& token, std::size_t least, std::size_t& begin,
                             std::size_t& end) {
    if (token.single_word) {
        if (begin > 0 && is_word(code_point_at(text, last_begin(text, begin)).value)) return false;
        if (end < text.size() && is_word(code_point_at(text, end).value)) return false;
    }
    if (token.lstrip) {
        while (begin > 0 && is_whitespace(code_point_at(text, last_begin(text, begin)).value))
            begin = last_begin(text, begin);
        begin = std::max(begin, least);
    }
    while (token.rstrip && end < text.size() && is_whitespace(code_point_at(text, end).value))
        end += code_point_at(text, end).bytes;
    return true;
}

}  // namespace thunderc
