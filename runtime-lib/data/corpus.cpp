// SPDX-License-Identifier: Apache-2.0
#include "data/corpus.h"

#include "data/fingerprint.h"
#include "data/token_file.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::string_view format_name = "thunderc corpus";
constexpr std::int64_t format_version = 1;

// What a list has to have; all else in it is passed over.
class ListReader {
  public:
    explicit ListReader(const std::string& list) : list_(list) {}

    const Json& member(const Json& of, std::string_view name, Json::Kind kind) const {
        const Json* found = of.find(name);
        if (found == nullptr || !found->is(kind)) fail_member(name);
        return *found;
    }
    std::uint64_t number(const Json& of, std::string_view name) const {
        const Json& found = member(of, name, Json::Kind::integer);
        if (found.integer < 0) fail_member(name);
        return static_cast<std::uint64_t>(found.integer);
    }
    const std::string& text(const Json& of, std::string_view name) const {
        return member(of, name, Json::Kind::string).string;
    }

  private:
    [[noreturn]] void fail_member(std::string_view name) const {
        fail(cat(list_, " is no list of packed files: ", json_quote(name), " is absent or no such value"),
             "pack it again");
    }

    const std::string& list_;
};

}  // namespace

std::uint64_t Corpus::tokens() const {
    std::uint64_t sum = 0;
    for (const CorpusShard& shard : shards) sum += shard.tokens;
    return sum;
}

std::uint64_t Corpus::documents() const {
    std::uint64_t sum = 0;
    for (const CorpusShard& shard : shards) sum += shard.documents;
    return sum;
}

Corpus read_corpus(const std::string& list) {
    const MappedFile file(list);
    const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, list);
    const ListReader reader(list);
    if (const Json* format = json.find("format"); format == nullptr || format->string != format_name)
        fail(cat(list, " is no list of packed files: its \"format\" is not \"", format_name, "\""), "pack it again");
    if (const std::uint64_t version = reader.number(json, "version"); version != format_version)
        fail(cat(list, " has version ", version, " of the list of packed files, and this program reads version ",
                 format_version),
             "pack it again");
    Corpus corpus;
    corpus.vocabulary = reader.number(json, "vocabulary");
    corpus.tokenizer = reader.text(json, "tokenizer");
    corpus.made_by = reader.text(json, "made_by");
    for (const Json& entry : reader.member(json, "shards", Json::Kind::array).array) {
        CorpusShard shard;
        shard.file = reader.text(entry, "file");
        if (shard.file.empty() || shard.file.find('/') != std::string::npos || shard.file == "..")
            fail(cat(list, " names the file ", json_quote(shard.file), ", which is not beside it"), "pack it again");
        shard.tokens = reader.number(entry, "tokens");
        shard.documents = reader.number(entry, "documents");
        shard.trained = reader.number(entry, "trained");
        shard.fingerprint = reader.text(entry, "fingerprint");
        corpus.shards.push_back(std::move(shard));
    }
    return corpus;
}

std::string corpus_text(const Corpus& corpus) {
    std::string text =
        cat("{\n \"format\": \"", format_name, "\",\n \"version\": ", format_version,
            ",\n \"vocabulary\": ", corpus.vocabulary, ",\n \"tokenizer\": ", json_quote(corpus.tokenizer),
            ",\n \"made_by\": ", json_quote(corpus.made_by), ",\n \"shards\": [");
    const char* between = "\n";
    for (const CorpusShard& shard : corpus.shards) {
        text += cat(between, "  {\"file\": ", json_quote(shard.file), ", \"tokens\": ", shard.tokens,
                    ", \"documents\": ", shard.documents, ", \"trained\": ", shard.trained,
                    ", \"fingerprint\": ", json_quote(shard.fingerprint), "}");
        between = ",\n";
    }
    return text + "\n ]\n}\n";
}

std::vector<std::string> token_files_of(const std::string& path) {
    std::vector<std::string> files;
    for (ListedFile& file : listed_files_of(path)) files.push_back(std::move(file.path));
    return files;
}

void check_listed(const TokenFile& file, const CorpusShard& listed) {
    if (file.count() == listed.tokens && file.documents() == listed.documents &&
        hex(file.fingerprint()) == listed.fingerprint)
        return;
    fail(cat(file.path(), " is not the file that ", corpus_list, " beside it lists: it holds ",
             count_text(file.count(), "token"), " in ", count_text(file.documents(), "document"),
             file.count() == listed.tokens && file.documents() == listed.documents
                 ? ", as listed, and they are others"
                 : cat(", and ", listed.tokens, " in ", listed.documents, " are listed")),
         "copy the folder again, or pack it again");
}

std::vector<ListedFile> listed_files_of(const std::string& path) {
    if (!is_folder(path)) return {{path}};
    std::vector<ListedFile> files;
    if (const std::string list = join_path(path, corpus_list); is_file(list)) {
        for (const CorpusShard& shard : read_corpus(list).shards) {
            files.push_back({join_path(path, shard.file), shard});
            if (!is_file(files.back().path))
                fail(cat(list, " lists ", shard.file, ", and there is no such file"), "copy or pack it again");
        }
    } else if (is_file(join_path(path, unfinished_corpus_list))) {
        fail(cat("the folder ", path, " is not packed to its end"),
             "the command that packs it, given once more, goes on where it was");
    } else {
        for (const std::string& name : names_in(path))
            if (name.ends_with(".bin")) files.push_back({join_path(path, name)});
    }
    if (files.empty())
        fail(cat("the folder ", path, " has no .bin file"), "thunderc data pack FILE... -o corpus.bin makes one");
    return files;
}

}  // namespace thunder
