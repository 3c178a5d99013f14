// SPDX-License-Identifier: Apache-2.0
// Documents through a tokenizer into files of packed tokens, by many threads, in one order.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "packing/documents.h"
#include "tokenizers/tokenizer.h"

namespace thunderc {

struct PackOptions {
    std::vector<InputFile> files;
    std::string out;  // a file; with shard_tokens a folder
    ReadOptions read;
    const Tokenizer* tokenizer = nullptr;  // null: bytes, or ids of files of tokens
    std::uint64_t vocabulary = 256;
    std::string tokenizer_name = "bytes";
    std::string command;               // that packs it, for the list
    std::optional<std::uint32_t> end;  // a token behind each document that has it not
    bool add_special = false;          // the tokenizer's tokens around each document
    bool keep_documents = true;        // where they end
    std::uint64_t shard_tokens = 0;    // a new file from so many on; 0: one file
    int threads = 1;
    std::size_t batch_bytes = 1 << 20;  // of documents, that a thread encodes at once
};

struct PackProgress {
    std::uint64_t bytes = 0, all_bytes = 0;  // of the files, as they lie on the disk; all: 0 where there is a pipe
    std::uint64_t tokens = 0, documents = 0, shards = 0;
};

struct PackResult {
    std::uint64_t tokens = 0, documents = 0, dropped = 0, trained = 0;
    std::uint64_t shards = 0, shards_found = 0;  // the latter were there from a pack that was not ended
};

// What is written is the same for any number of threads. A folder of shards has `packing.json` until the last one is
// written: the same call again goes on behind the last whole shard. `progress` is called often, by the calling thread;
// what it throws ends the pack.
PackResult pack_documents(const PackOptions& options, const std::function<void(const PackProgress&)>& progress = {});

// The ids of a document, and for each whether it is trained on (empty: all are).
struct EncodedDocument {
    std::vector<std::uint32_t> ids;
    std::vector<std::uint8_t> trained;
};
// `encoder` is null where there is no tokenizer: the document's bytes, or its ids.
EncodedDocument encode_document(const Document& document, const PackOptions& options, Encoder* encoder);

}  // namespace thunderc
