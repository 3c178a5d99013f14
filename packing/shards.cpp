// SPDX-License-Identifier: Apache-2.0
#include "packing/shards.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "data/fingerprint.h"
#include "support/error.h"
#include "support/json.h"
#include "support/text.h"

namespace thunderc {

using thunder::cat;
using thunder::fail;
using thunder::Json;

namespace {

const std::string anew = "name another folder, or begin anew with --restart";

std::string shard_name(std::uint64_t index) {
    char name[32];
    std::snprintf(name, sizeof name, "shard-%05llu.bin", static_cast<unsigned long long>(index));
    return name;
}

std::uint64_t number_of(const Json& json, std::string_view name) {
    const Json* found = json.find(name);
    return found != nullptr && found->integer > 0 ? static_cast<std::uint64_t>(found->integer) : 0;
}

}  // namespace

ShardWriter::ShardWriter(const PackOptions& options, const std::string& inputs) : options_(options), inputs_(inputs) {
    corpus_.vocabulary = options.vocabulary;
    corpus_.tokenizer = options.tokenizer_name;
    corpus_.made_by = options.command;
    if (in_folder()) {
        open_folder(inputs);
    } else {
        thunder::check_writable(options.out);
    }
}

void ShardWriter::open_folder(const std::string& inputs) {
    const std::string& folder = options_.out;
    if (thunder::is_file(folder)) fail(cat(folder, " is a file, and shards go into a folder"), "name a folder with -o");
    lock_.emplace(folder);
    if (thunder::is_file(thunder::join_path(folder, thunder::corpus_list)))
        fail(cat("the folder ", folder, " holds a packed corpus, and nothing is written over it"), anew);
    const std::string list = thunder::join_path(folder, thunder::unfinished_corpus_list);
    if (!thunder::is_file(list)) {
        for (const std::string& name : thunder::names_in(folder))
            if (name.ends_with(".bin"))
                fail(cat("the folder ", folder, " holds ", name, ", which would be taken for a part of the corpus"),
                     "name another folder with -o");
    } else {
        const thunder::MappedFile file(list);
        const Json json =
            thunder::parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, list, anew);
        const Json* packing = json.find("packing");
        const Json* same = packing != nullptr ? packing->find("inputs") : nullptr;
        if (same == nullptr || same->string != inputs)
            fail(cat("the folder ", folder,
                     " holds a part of another corpus: its files, its tokenizer or its options differ"),
                 anew);
        corpus_ = thunder::read_corpus(list);
        found_ = {number_of(*packing, "records"), number_of(*packing, "skip")};
        done_ = found_;
        done_.skip = 0;
        shards_found_ = corpus_.shards.size();
        for (const thunder::CorpusShard& shard : corpus_.shards) {
            const std::string path = thunder::join_path(folder, shard.file);
            if (thunder::hex(thunder::TokenFile(path).fingerprint()) != shard.fingerprint)
                fail(cat(path, " is not the file that was packed"), anew);
        }
    }
    if (!thunder::is_file(list)) write_unfinished();  // before the first shard: it is none that a program may read
    // What a pack that was killed left behind.
    for (const std::string& name : thunder::names_in(folder)) {
        const bool ours =
            name.starts_with("shard-") || name.starts_with("packing.json.") || name.starts_with("corpus.json.");
        if (ours && name.ends_with(".tmp")) unlink(thunder::join_path(folder, name).c_str());
    }
}

std::uint64_t ShardWriter::tokens() const {
    return corpus_.tokens() + (writer_ != nullptr ? writer_->count() : 0);
}

void ShardWriter::begin_shard() {
    path_ = in_folder() ? thunder::join_path(options_.out, shard_name(corpus_.shards.size())) : options_.out;
    writer_ = std::make_unique<thunder::TokenFileWriter>(path_, options_.vocabulary);
    trained_ = 0;
}

void ShardWriter::write(std::span<const std::uint32_t> ids, std::span<const std::uint8_t> trained) {
    if (ids.empty()) return;
    if (writer_ == nullptr) begin_shard();
    if (trained.empty()) {
        writer_->append(ids);
        trained_ += ids.size();
    } else {
        writer_->append(ids, trained);
        trained_ +=
            static_cast<std::uint64_t>(std::count_if(trained.begin(), trained.end(), [](auto t) { return t != 0; }));
    }
}

void ShardWriter::add(const EncodedDocument& encoded, bool ends) {
    std::span<const std::uint32_t> ids = encoded.ids;
    std::span<const std::uint8_t> trained = encoded.trained;
    const auto drop_front = [&](std::size_t count) {
        ids = ids.subspan(count);
        if (!trained.empty()) trained = trained.subspan(count);
    };
    drop_front(std::min<std::size_t>(found_.skip, ids.size()));
    done_.skip = std::exchange(found_.skip, 0);

    // Documents that are kept stay whole.
    while (in_folder() && !options_.keep_documents && !ids.empty()) {
        const std::uint64_t held = writer_ != nullptr ? writer_->count() : 0;
        const std::size_t room = static_cast<std::size_t>(options_.shard_tokens - held);
        if (ids.size() < room) break;
        write(ids.first(room), trained.empty() ? trained : trained.first(room));
        done_.skip += room;
        drop_front(room);
        end_shard();
    }
    write(ids, trained);
    ++done_.records;
    done_.skip = 0;
    if (options_.keep_documents && ends && writer_ != nullptr) {
        writer_->end_document();
        if (in_folder() && writer_->count() >= options_.shard_tokens) end_shard();
    }
}

void ShardWriter::end_shard() {
    writer_->commit();
    writer_.reset();
    const thunder::TokenFile file(path_);
    corpus_.shards.push_back({path_.substr(path_.rfind('/') + 1), file.count(), file.documents(), trained_,
                              thunder::hex(file.fingerprint())});
    if (in_folder()) write_unfinished();
}

void ShardWriter::write_unfinished() const {
    std::string text = thunder::corpus_text(corpus_);
    text.insert(1, cat("\n \"packing\": {\"inputs\": ", thunder::json_quote(inputs_), ", \"records\": ", done_.records,
                       ", \"skip\": ", done_.skip, "},"));
    write_list(thunder::unfinished_corpus_list, text);
}

void ShardWriter::finish() {
    if (writer_ != nullptr && writer_->count() > 0) end_shard();
    if (corpus_.tokens() == 0) fail("there is nothing to pack: the files are empty", "name files that hold text");
    if (!in_folder()) return;
    write_list(thunder::corpus_list, thunder::corpus_text(corpus_));
    unlink(thunder::join_path(options_.out, thunder::unfinished_corpus_list).c_str());
}

void ShardWriter::write_list(std::string_view name, const std::string& text) const {
    thunder::AtomicFile file(thunder::join_path(options_.out, name));
    file.write(text.data(), text.size());
    file.commit();
}

}  // namespace thunderc
