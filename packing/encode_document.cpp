// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "packing/packer.h"

namespace thunderc {

namespace {

std::size_t common_beginning(const std::vector<std::uint32_t>& a, const std::vector<std::uint32_t>& b) {
    return static_cast<std::size_t>(std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin());
}

// The parts are one text, as tokenizers see them: what a part's tokens are depends on what stands before. Where a part
// begins is told by the tokens of all before it. A token across the border of a part that is trained on belongs to it,
// as the masks of `transformers` have it.
EncodedDocument encode_parts(const std::vector<ChatPart>& parts, Encoder& encoder) {
    EncodedDocument encoded;
    std::string text;
    for (const ChatPart& part : parts) text += part.text;
    encoder.encode(text, encoded.ids);
    if (std::all_of(parts.begin(), parts.end(), [](const ChatPart& part) { return part.trained; })) return encoded;

    encoded.trained.assign(encoded.ids.size(), 0);
    std::vector<std::uint32_t> before;
    const auto border = [&](std::size_t end, bool& clean) {
        if (end == text.size()) {
            clean = true;
            return encoded.ids.size();
        }
        before.clear();
        encoder.encode(std::string_view(text).substr(0, end), before);
        const std::size_t same = common_beginning(before, encoded.ids);
        clean = same == before.size();
        return same;
    };
    std::size_t at = 0;
    for (const ChatPart& part : parts) {
        const std::size_t begin = at;
        at += part.text.size();
        if (!part.trained || part.text.empty()) continue;
        bool clean = true;
        const std::size_t first = border(begin, clean);
        const std::size_t last = border(at, clean);
        const std::size_t end = std::min(encoded.ids.size(), last + (clean ? 0 : 1));
        std::fill(encoded.trained.begin() + static_cast<std::ptrdiff_t>(first),
                  encoded.trained.begin() + static_cast<std::ptrdiff_t>(std::max(first, end)), 1);
    }
    return encoded;
}

// Whether the document ends with that token. A conversation does as well where its template has spaces behind the last
// turn (ChatML's end of line): that is all that it writes, and what comes next is another document.
bool ends_with(const EncodedDocument& encoded, std::uint32_t end, const Document& document, Encoder* encoder) {
    if (encoded.ids.back() == end) return true;
    if (document.parts.empty() || document.parts.back().trained || encoder == nullptr) return false;
    const std::string& text = document.parts.back().text;
    std::vector<std::uint32_t> spaces;
    encoder->encode(std::string_view(text).substr(text.find_last_not_of(" \t\r\n") + 1), spaces);
    return spaces.size() < encoded.ids.size() &&
           encoded.ids.rbegin()[static_cast<std::ptrdiff_t>(spaces.size())] == end;
}

}  // namespace

EncodedDocument encode_document(const Document& document, const PackOptions& options, Encoder* encoder) {
    EncodedDocument encoded;
    if (document.has_ids) {
        encoded.ids = document.ids;
    } else if (encoder == nullptr) {
        for (const ChatPart& part : document.parts) {
            for (const char c : part.text) encoded.ids.push_back(static_cast<unsigned char>(c));
            if (!part.trained && encoded.trained.empty())
                encoded.trained.assign(encoded.ids.size() - part.text.size(), 1);
            if (!part.trained || !encoded.trained.empty())
                encoded.trained.resize(encoded.ids.size(), part.trained ? 1 : 0);
        }
    } else {
        encoded = encode_parts(document.parts, *encoder);
    }
    if (encoded.ids.empty()) return encoded;
    const auto insert = [&](bool front, std::span<const std::uint32_t> ids, bool trained) {
        encoded.ids.insert(front ? encoded.ids.begin() : encoded.ids.end(), ids.begin(), ids.end());
        if (!encoded.trained.empty())
            encoded.trained.insert(front ? encoded.trained.begin() : encoded.trained.end(), ids.size(),
                                   trained ? 1 : 0);
    };
    if (options.add_special && encoder != nullptr) {  // where a template has not put them
        const auto before = options.tokenizer->before(), behind = options.tokenizer->behind();
        const bool begins =
            std::equal(before.begin(), before.end(), encoded.ids.begin(),
                       encoded.ids.begin() + static_cast<std::ptrdiff_t>(std::min(before.size(), encoded.ids.size())));
        const bool ends =
            std::equal(behind.rbegin(), behind.rend(), encoded.ids.rbegin(),
                       encoded.ids.rbegin() + static_cast<std::ptrdiff_t>(std::min(behind.size(), encoded.ids.size())));
        if (document.begins && !begins) insert(true, before, false);
        if (document.ends && !ends) insert(false, behind, true);
    }
    // In a conversation the turns end by themselves: that the document ends is nothing to learn there.
    if (options.end && document.ends && !ends_with(encoded, *options.end, document, encoder))
        insert(false, std::span(&*options.end, 1), encoded.trained.empty());
    return encoded;
}

}  // namespace thunderc
