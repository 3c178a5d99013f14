// SPDX-License-Identifier: Apache-2.0
// How tokens become text again.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "tokenizers/pre_tokenizer.h"
#include "tokenizers/regex.h"

namespace thunderc {

class Decoder {
  public:
    Decoder() = default;
    Decoder(const Decoder&) = delete;
    Decoder& operator=(const Decoder&) = delete;
    virtual ~Decoder() = default;

    virtual void apply(std::vector<std::string>& tokens) const = 0;
};
using Decoders = std::vector<std::unique_ptr<Decoder>>;

std::unique_ptr<Decoder> make_byte_level_decoder();
std::unique_ptr<Decoder> make_byte_fallback_decoder();
std::unique_ptr<Decoder> make_metaspace_decoder(std::string replacement, PrependScheme scheme);
std::unique_ptr<Decoder> make_wordpiece_decoder(std::string prefix, bool cleanup);
std::unique_ptr<Decoder> make_suffix_decoder(std::string suffix);
std::unique_ptr<Decoder> make_replace_decoder(Regex what, std::string by);
std::unique_ptr<Decoder> make_strip_decoder(std::string content, std::size_t start, std::size_t stop);
std::unique_ptr<Decoder> make_fuse_decoder();

}  // namespace thunderc
