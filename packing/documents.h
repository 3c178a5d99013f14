// SPDX-License-Identifier: Apache-2.0
// Documents out of files, in their order.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "packing/byte_stream.h"
#include "packing/chat_template.h"

namespace thunderc {

struct Document {
    std::vector<ChatPart> parts;     // of text, which is one text to a tokenizer
    std::vector<std::uint32_t> ids;  // in the place of text, where a file holds tokens
    std::string where;               // "corpus.jsonl:12", for messages
    bool has_ids = false;
    // Long ones come in parts, of which the first begins it and the last ends it.
    bool begins = true, ends = true;
};

enum class InputFormat : std::uint8_t { automatic, text, jsonl, nanogpt, llmc, megatron, npy };

// What becomes of a text that is no UTF-8.
enum class InvalidText : std::uint8_t { refuse, replace, drop };

struct ReadOptions {
    InputFormat format = InputFormat::automatic;
    std::string text_field = "text";
    std::optional<ChatTemplate> chat;  // lines are conversations
    std::string split_on;              // a text that separates documents; "": a file is one
    InvalidText invalid = InvalidText::refuse;
    bool bytes = false;  // nobody asks what texts say: they may be no UTF-8, and are cut anywhere
    bool whole = false;  // not anywhere: each document is held whole, and `longest` is of it
    std::uint64_t longest = std::uint64_t{1} << 30;  // bytes of a document
};

class DocumentSource {
  public:
    DocumentSource() = default;
    DocumentSource(const DocumentSource&) = delete;
    DocumentSource& operator=(const DocumentSource&) = delete;
    virtual ~DocumentSource() = default;

    // False behind the last one. Fails with the file and the line.
    virtual bool next(Document& document) = 0;
    virtual std::uint64_t bytes_taken() const = 0;
    // Ids of files of tokens are below it; 0 where the file does not say.
    virtual std::uint64_t vocabulary() const { return 0; }
    // Documents that were left out, since they could not be read.
    virtual std::uint64_t dropped() const { return 0; }
};

std::unique_ptr<DocumentSource> open_documents(const InputFile& file, const ReadOptions& options);
// What open_documents takes the file for.
InputFormat format_of(const InputFile& file, const ReadOptions& options);

// Files of tokens (token_inputs.cpp), which are mapped: a pipe is refused.
std::unique_ptr<DocumentSource> open_tokens(const InputFile& file, InputFormat format);

}  // namespace thunderc
