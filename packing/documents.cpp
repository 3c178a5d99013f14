// SPDX-License-Identifier: Apache-2.0
#include "packing/documents.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "support/error.h"
#include "support/json.h"
#include "support/text.h"
#include "tokenizers/unicode.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;
using thunder::Json;

// Cuts a stream at a text, of which it holds what is not cut yet. What is longer than `longest` is not held.
class Cutter {
  public:
    Cutter(std::unique_ptr<ByteStream> stream, std::string separator, std::uint64_t longest)
        : stream_(std::move(stream)), separator_(std::move(separator)), longest_(longest) {}

    enum class Result : std::uint8_t { part, last, none, too_long };

    // Without a separator all of the stream is one part. `last`: no separator was behind it.
    Result next(std::string& part) {
        if (done_) return Result::none;
        part.clear();
        for (std::size_t looked = 0;;) {
            const std::size_t at = separator_.empty() ? std::string::npos : held_.find(separator_, begin_ + looked);
            if (at != std::string::npos) {
                part.assign(held_, begin_, at - begin_);
                begin_ = at + separator_.size();
                return Result::part;
            }
            const std::size_t size = held_.size() - begin_;
            if (size > longest_) return Result::too_long;
            looked = size < separator_.size() ? 0 : size - separator_.size() + 1;  // it may have begun
            if (more()) continue;
            done_ = true;
            part.assign(held_, begin_);
            held_.clear();
            return part.empty() ? Result::none : Result::last;
        }
    }

    // The next piece of at most `size` bytes, wherever that cuts. A byte more is read, since the last one is to be
    // told.
    Result slice(std::string& part, std::size_t size) {
        if (done_) return Result::none;
        part = std::exchange(held_, {});
        const std::size_t had = part.size();
        part.resize(size + 1);
        part.resize(had + stream_->read(part.data() + had, size + 1 - had));
        done_ = part.size() <= size;
        if (!done_) {
            held_ = part.back();
            part.pop_back();
        }
        return part.empty() ? Result::none : done_ ? Result::last : Result::part;
    }

    std::uint64_t bytes_taken() const { return stream_->bytes_taken(); }

  private:
    bool more() {
        constexpr std::size_t step = 1 << 20;
        held_.erase(0, std::exchange(begin_, 0));
        const std::size_t size = held_.size();
        held_.resize(size + step);
        held_.resize(size + stream_->read(held_.data() + size, step));
        return held_.size() > size;
    }

    std::unique_ptr<ByteStream> stream_;
    std::string separator_;
    std::uint64_t longest_;
    std::string held_;
    std::size_t begin_ = 0;
    bool done_ = false;
};

[[noreturn]] void fail_long(const std::string& where, std::uint64_t longest, const std::string& help) {
    fail(cat(where, " is a document of more than ", thunder::bytes_text(longest)), help);
}

// False where the text is to be left out.
bool make_valid(std::string& text, const ReadOptions& options, const std::string& where) {
    if (options.bytes) return true;
    const std::size_t valid = valid_utf8(text);
    if (valid == text.size()) return true;
    switch (options.invalid) {
        case InvalidText::drop: return false;
        case InvalidText::replace: text = replace_invalid_utf8(text); return true;
        case InvalidText::refuse: break;
    }
    const auto line = std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(valid), '\n') + 1;
    fail(cat(where, " is no UTF-8 at byte ", valid, line > 1 ? cat(", in line ", line) : "", " of its text"),
         "--invalid replace puts U+FFFD there, --invalid drop leaves the document out; iconv makes UTF-8 of other "
         "encodings");
}

class TextSource : public DocumentSource {
  public:
    TextSource(const InputFile& file, const ReadOptions& options)
        : path_(file.path()), options_(options), cutter_(file.open(), options.split_on, options.longest) {}

    bool next(Document& document) override {
        document = {};
        document.parts.resize(1);
        for (;;) {
            document.where = options_.split_on.empty() ? path_ : cat(path_, ", document ", ++count_);
            std::string& text = document.parts[0].text;
            const bool anywhere = options_.bytes && !options_.whole && options_.split_on.empty();
            constexpr std::size_t slice = 1 << 20;
            const Cutter::Result result = anywhere ? cutter_.slice(text, slice) : cutter_.next(text);
            if (result == Cutter::Result::none) return false;
            if (result == Cutter::Result::too_long)
                fail_long(document.where, options_.longest,
                          "--split-on TEXT cuts files into documents; --longest BYTES takes longer ones");
            document.begins = begins_;
            document.ends = !anywhere || result == Cutter::Result::last;
            begins_ = document.ends;
            if (make_valid(text, options_, document.where)) return true;
            ++dropped_;
        }
    }
    std::uint64_t bytes_taken() const override { return cutter_.bytes_taken(); }
    std::uint64_t dropped() const override { return dropped_; }

  private:
    std::string path_;
    ReadOptions options_;
    Cutter cutter_;
    bool begins_ = true;
    std::uint64_t count_ = 0, dropped_ = 0;
};

// Escapes of one half of a pair of surrogates stand for no character: they become that of U+FFFD.
std::string without_lone_surrogates(std::string_view line) {
    std::string mended;
    const auto half_at = [&](std::size_t at) {  // 'h' for the first of a pair, 'l' for the second, else 0
        if (at + 6 > line.size() || line[at] != '\\' || line[at + 1] != 'u') return '\0';
        const char a = line[at + 2], b = static_cast<char>(line[at + 3] | 0x20);
        if (a != 'd' && a != 'D') return '\0';
        if (b == '8' || b == '9' || b == 'a' || b == 'b') return 'h';
        return b >= 'c' && b <= 'f' ? 'l' : '\0';
    };
    for (std::size_t at = 0; at < line.size();) {
        const bool escape = line[at] == '\\' && at + 1 < line.size();
        std::size_t size = escape ? 2 : 1;
        const char half = half_at(at);
        if (half == 'h' && half_at(at + 6) == 'l') {
            size = 12;
        } else if (half != '\0') {
            mended += "\\ufffd";
            at += 6;
            continue;
        }
        mended += line.substr(at, size);
        at += size;
    }
    return mended;
}

class JsonLines : public DocumentSource {
  public:
    JsonLines(const InputFile& file, const ReadOptions& options)
        : path_(file.path()), options_(options), cutter_(file.open(), "\n", options.longest) {}

    bool next(Document& document) override {
        document = {};
        std::string line;
        for (;;) {
            const Cutter::Result result = cutter_.next(line);
            if (result == Cutter::Result::none) return false;
            ++line_;
            if (result != Cutter::Result::too_long && line.find_first_not_of(" \t\r") == std::string::npos) continue;
            document.where = cat(path_, ":", line_);
            if (result == Cutter::Result::too_long)
                fail_long(document.where, options_.longest, "--longest BYTES takes longer ones");
            if (take(line, document)) return true;
            ++dropped_;
            document.parts.clear();
        }
    }
    std::uint64_t bytes_taken() const override { return cutter_.bytes_taken(); }
    std::uint64_t dropped() const override { return dropped_; }

  private:
    // False where the line is to be left out.
    bool take(std::string& line, Document& document) const {
        if (!make_valid(line, options_, document.where)) return false;
        if (options_.invalid == InvalidText::replace && line.find("\\u") != std::string::npos)
            line = without_lone_surrogates(line);
        try {
            const Json json =
                thunder::parse_json(line, document.where, "mend the line, or leave out such lines: --invalid drop");
            if (options_.chat) {
                document.parts = options_.chat->render(messages_of(json, document.where), document.where);
            } else {
                document.parts = {{text_of(json, document.where), true}};
            }
        } catch (const thunder::Error&) {
            if (options_.invalid != InvalidText::drop) throw;
            return false;
        }
        return std::all_of(document.parts.begin(), document.parts.end(),
                           [&](ChatPart& part) { return make_valid(part.text, options_, document.where); });
    }

    [[noreturn]] void fail_absent(const Json& json, const std::string& where, const std::string& what,
                                  const std::string& option) const {
        std::vector<std::string> names;
        for (const auto& [name, value] : json.object) names.push_back(name);
        const std::string near = thunder::nearest(what, names);
        fail(cat(where, " has no text ", thunder::json_quote(what)),
             cat(near.empty() ? "" : cat("did you mean ", option, " ", near, "? "), "it has ",
                 names.empty() ? "nothing" : thunder::list_text(names), "; ", option, " NAME says where texts are"));
    }

    std::string text_of(const Json& json, const std::string& where) const {
        if (json.is(Json::Kind::string)) return json.string;
        const Json* found = json.find(options_.text_field);
        if (found == nullptr || !found->is(Json::Kind::string))
            fail_absent(json, where, options_.text_field, "--text-field");
        return found->string;
    }

    const Json& messages_of(const Json& json, const std::string& where) const {
        if (json.is(Json::Kind::array)) return json;
        for (const std::string& name : {options_.text_field, std::string("messages"), std::string("conversations")})
            if (const Json* found = json.find(name); found != nullptr && found->is(Json::Kind::array)) return *found;
        fail_absent(json, where, "messages", "--text-field");
    }

    std::string path_;
    ReadOptions options_;
    Cutter cutter_;
    std::uint64_t line_ = 0, dropped_ = 0;
};

// What is no text, and can be made readable by those who know it.
void refuse_tables(const std::string& path, std::string_view begin) {
    const bool parquet = begin.starts_with("PAR1"), arrow = begin.starts_with("ARROW1");
    if (!parquet && !arrow) return;
    fail(cat(path, " is a table of ", parquet ? "Parquet" : "Arrow", ", which is not read here"),
         cat("python -c \"import ",
             parquet ? "pandas; pandas.read_parquet('" : "datasets; datasets.Dataset.from_file('", path,
             parquet ? "').to_json('corpus.jsonl', orient='records', lines=True)\"" : "').to_json('corpus.jsonl')\"",
             " writes it as lines of JSON"));
}

}  // namespace

InputFormat format_of(const InputFile& file, const ReadOptions& options) {
    if (options.format != InputFormat::automatic) return options.format;
    const std::string text = file.beginning(8);
    refuse_tables(file.path(), text);
    if (text.starts_with("\x93NUMPY")) return InputFormat::npy;
    // The first words of llm.c's files of tokens, of 16 and of 32 bits.
    for (const std::uint32_t magic : {20240520U, 20240801U}) {
        std::string word;
        for (int i = 0; i < 4; ++i) word += static_cast<char>(static_cast<unsigned char>(magic >> 8 * i));
        if (text.starts_with(word)) return InputFormat::llmc;
    }
    std::string name = file.path();
    for (const char* end : {".gz", ".zst", ".zstd"})
        if (name.ends_with(end)) name.resize(name.size() - std::string_view(end).size());
    if (options.chat || name.ends_with(".jsonl") || name.ends_with(".ndjson")) return InputFormat::jsonl;
    return InputFormat::text;
}

std::unique_ptr<DocumentSource> open_documents(const InputFile& file, const ReadOptions& options) {
    const InputFormat format = format_of(file, options);
    if (format == InputFormat::text) return std::make_unique<TextSource>(file, options);
    if (format == InputFormat::jsonl) return std::make_unique<JsonLines>(file, options);
    return open_tokens(file, format);
}

}  // namespace thunderc
