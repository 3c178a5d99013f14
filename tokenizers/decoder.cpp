// SPDX-License-Identifier: Apache-2.0
#include "tokenizers/decoder.h"

#include <charconv>
#include <utility>

#include "tokenizers/normalizer.h"
#include "tokenizers/unicode.h"

namespace thunderc {

namespace {

void replace_all(std::string& text, std::string_view what, std::string_view by) {
    for (std::size_t at = text.find(what); at != std::string::npos && !what.empty();
         at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
}

class ByteLevelDecoder : public Decoder {
  public:
    void apply(std::vector<std::string>& tokens) const override {
        std::string bytes;
        for (const std::string& token : tokens) bytes += bytes_of_letters(token).value_or(token);
        tokens = {replace_invalid_utf8(bytes)};
    }
};

class ByteFallbackDecoder : public Decoder {
  public:
    void apply(std::vector<std::string>& tokens) const override {
        std::vector<std::string> decoded;
        std::string bytes;
        const auto flush = [&] {
            if (valid_utf8(bytes) == bytes.size()) {
                if (!bytes.empty()) decoded.push_back(bytes);
            } else {
                decoded.insert(decoded.end(), bytes.size(), "\xef\xbf\xbd");
            }
            bytes.clear();
        };
        for (std::string& token : tokens) {
            unsigned value = 0;
            const char* const end = token.data() + token.size() - (token.empty() ? 0 : 1);
            if (token.size() == 6 && token.starts_with("<0x") && token.ends_with('>') &&
                std::from_chars(token.data() + 3, end, value, 16).ptr == end) {
                bytes += static_cast<char>(static_cast<unsigned char>(value));
            } else {
                flush();
                decoded.push_back(std::move(token));
            }
        }
        flush();
        tokens = std::move(decoded);
    }
};

class MetaspaceDecoder : public Decoder {
  public:
    MetaspaceDecoder(std::string replacement, PrependScheme scheme)
        : replacement_(std::move(replacement)), scheme_(scheme) {}
    void apply(std::vector<std::string>& tokens) const override {
        for (std::size_t i = 0; i < tokens.size(); ++i)
            replace_all(tokens[i], replacement_, i == 0 && scheme_ != PrependScheme::never ? "" : " ");
    }

  private:
    std::string replacement_;
    PrependScheme scheme_;
};

class WordPieceDecoder : public Decoder {
  public:
    WordPieceDecoder(std::string prefix, bool cleanup) : prefix_(std::move(prefix)), cleanup_(cleanup) {}
    void apply(std::vector<std::string>& tokens) const override {
        for (std::size_t i = 0; i < tokens.size(); ++i) {
            std::string& token = tokens[i];
            if (i > 0) {
                if (token.starts_with(prefix_)) {
                    token.erase(0, prefix_.size());
                } else {
                    token.insert(0, " ");
                }
            }
            if (!cleanup_) continue;
            constexpr std::pair<std::string_view, std::string_view> joined[] = {
                {" .", "."},   {" ?", "?"},           {" !", "!"},   {" ,", ","},     {" ' ", "'"},   {" n't", "n't"},
                {" 'm", "'m"}, {" do not", " don't"}, {" 's", "'s"}, {" 've", "'ve"}, {" 're", "'re"}};
            for (const auto& [apart, together] : joined) replace_all(token, apart, together);
        }
    }

  private:
    std::string prefix_;
    bool cleanup_;
};

class SuffixDecoder : public Decoder {
  public:
    explicit SuffixDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
    void apply(std::vector<std::string>& tokens) const override {
        for (std::size_t i = 0; i < tokens.size(); ++i)
            replace_all(tokens[i], suffix_, i + 1 == tokens.size() ? "" : " ");
    }

  private:
    std::string suffix_;
};

class ReplaceDecoder : public Decoder {
  public:
    ReplaceDecoder(Regex what, std::string by) : replace_(make_replace(std::move(what), std::move(by))) {}
    void apply(std::vector<std::string>& tokens) const override {
        bool at_start = true;
        for (std::string& token : tokens) replace_->apply(token, at_start);
    }

  private:
    std::unique_ptr<Normalizer> replace_;
};

class StripDecoder : public Decoder {
  public:
    StripDecoder(std::string content, std::size_t start, std::size_t stop)
        : content_(std::move(content)), start_(start), stop_(stop) {}
    void apply(std::vector<std::string>& tokens) const override {
        for (std::string& token : tokens) {
            for (std::size_t i = 0; i < start_ && token.starts_with(content_); ++i) token.erase(0, content_.size());
            for (std::size_t i = 0; i < stop_ && token.ends_with(content_); ++i)
                token.resize(token.size() - content_.size());
        }
    }

  private:
    std::string content_;
    std::size_t start_, stop_;
};

class FuseDecoder : public Decoder {
  public:
    void apply(std::vector<std::string>& tokens) const override {
        std::string all;
        for (const std::string& token : tokens) all += token;
        tokens = {all};
    }
};

}  // namespace

std::unique_ptr<Decoder> make_byte_level_decoder() {
    return std::make_unique<ByteLevelDecoder>();
}
std::unique_ptr<Decoder> make_byte_fallback_decoder() {
    return std::make_unique<ByteFallbackDecoder>();
}
std::unique_ptr<Decoder> make_metaspace_decoder(std::string replacement, PrependScheme scheme) {
    return std::make_unique<MetaspaceDecoder>(std::move(replacement), scheme);
}
std::unique_ptr<Decoder> make_wordpiece_decoder(std::string prefix, bool cleanup) {
    return std::make_unique<WordPieceDecoder>(std::move(prefix), cleanup);
}
std::unique_ptr<Decoder> make_suffix_decoder(std::string suffix) {
    return std::make_unique<SuffixDecoder>(std::move(suffix));
}
std::unique_ptr<Decoder> make_replace_decoder(Regex what, std::string by) {
    return std::make_unique<ReplaceDecoder>(std::move(what), std::move(by));
}
std::unique_ptr<Decoder> make_strip_decoder(std::string content, std::size_t start, std::size_t stop) {
    return std::make_unique<StripDecoder>(std::move(content), start, stop);
}
std::unique_ptr<Decoder> make_fuse_decoder() {
    return std::make_unique<FuseDecoder>();
}

}  // namespace thunderc
