// SPDX-License-Identifier: Apache-2.0
// A corpus in a folder: files of packed tokens (token_file.h), and `corpus.json`, which lists them. It is written last:
// until then the folder has `packing.json`, which says how far `thunderc data pack` came.
//
//     {"format": "thunderc corpus", "version": 1, "vocabulary": 32000, "tokenizer": "tokenizer.json 0123456789abcdef",
//      "made_by": "thunderc data pack docs --tokenizer tokenizer.json -o corpus",
//      "shards": [{"file": "shard-00000.bin", "tokens": 100, "documents": 3, "trained": 100,
//                  "fingerprint": "0123456789abcdef"}]}
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace thunder {

class TokenFile;

struct CorpusShard {
    std::string file;  // beside the list
    std::uint64_t tokens = 0, documents = 0;
    std::uint64_t trained = 0;  // tokens that are trained on: all where there is no mask
    std::string fingerprint;    // TokenFile::fingerprint(), in hexadecimal figures
};

struct Corpus {
    std::uint64_t vocabulary = 0;
    std::string tokenizer;  // its file's name and a hash of what it holds; "bytes"
    std::string made_by;    // a command
    std::vector<CorpusShard> shards;

    std::uint64_t tokens() const;
    std::uint64_t documents() const;
};

constexpr std::string_view corpus_list = "corpus.json", unfinished_corpus_list = "packing.json";

// Of a list in a folder; fails where it is damaged, or of another version.
Corpus read_corpus(const std::string& list);
std::string corpus_text(const Corpus& corpus);

// The files of packed tokens that a path stands for: a file itself; of a folder those that its list names, or each
// `.bin` where it has none. Fails where the folder was not packed to its end, or a file of its list is absent.
std::vector<std::string> token_files_of(const std::string& path);

// The same, with what the list says of each.
struct ListedFile {
    std::string path;
    std::optional<CorpusShard> listed{};  // nothing where there is no list
};
std::vector<ListedFile> listed_files_of(const std::string& path);

// Fails where the file is not the one that was listed.
void check_listed(const TokenFile& file, const CorpusShard& listed);

}  // namespace thunder
