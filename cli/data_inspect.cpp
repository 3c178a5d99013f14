// SPDX-License-Identifier: Apache-2.0
// thunderc data inspect: whether packed files are as they were written, and what they hold.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "cli/data.h"
#include "compiler/frontend/shared/runtime_errors.h"
#include "compiler/support/error.h"
#include "data/corpus.h"
#include "data/fingerprint.h"
#include "data/token_file.h"
#include "support/file.h"
#include "tokenizers/tokenizer.h"

namespace thunderc {
namespace {

struct InspectOptions {
    std::filesystem::path file;
    std::int64_t first = 16, samples = 3;
    std::string tokenizer, pattern;
};

// What is counted over all files.
struct Counts {
    std::vector<std::uint64_t> seen;
    std::uint32_t least = UINT32_MAX, most = 0;
    std::uint64_t tokens = 0, outside = 0, trained = 0, documents = 0;
    std::uint64_t shortest = UINT64_MAX, longest = 0;
    bool masked = false;

    void add(const thunder::TokenFile& file) {
        seen.resize(std::max<std::size_t>(seen.size(), std::min<std::uint64_t>(file.vocabulary(), 1 << 24)));
        for (std::uint64_t k = 0; k < file.count(); ++k) {
            const std::uint32_t id = file[k];
            least = std::min(least, id);
            most = std::max(most, id);
            outside += id >= file.vocabulary() ? 1 : 0;
            if (id < seen.size()) ++seen[id];
        }
        tokens += file.count();
        masked = masked || file.has_mask();
        if (!file.has_mask()) trained += file.count();
        for (std::uint64_t k = 0; k < file.count() && file.has_mask(); ++k) trained += file.trained(k) ? 1 : 0;
        documents += file.documents();
        for (std::uint64_t d = 0, begin = 0; d < file.documents(); begin = file.document_end(d++)) {
            shortest = std::min(shortest, file.document_end(d) - begin);
            longest = std::max(longest, file.document_end(d) - begin);
        }
    }
};

// Text on one line, as a terminal may show it.
std::string shown(const std::string& text) {
    std::string line;
    for (const char c : text) {
        if (c == '\n') {
            line += "\\n";
        } else if (c == '\t') {
            line += "\\t";
        } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
            line += fmt::format("\\x{:02x}", static_cast<unsigned char>(c));
        } else {
            line += c;
        }
    }
    return line;
}

// Pieces of documents spread over the file: the beginning of each; without documents places at even distances.
void show_samples(const thunder::TokenFile& file, const Tokenizer& tokenizer, std::int64_t samples) {
    constexpr std::uint64_t most_ids = 48;
    const std::uint64_t places =
        file.documents() > 0 ? file.documents() : std::max<std::uint64_t>(1, file.count() / most_ids);
    const auto wanted = std::min<std::uint64_t>(static_cast<std::uint64_t>(samples), places);
    for (std::uint64_t s = 0; s < wanted; ++s) {
        const std::uint64_t place = places / wanted * s;
        std::uint64_t begin = place * most_ids, end = file.count();
        if (file.documents() > 0) {
            begin = place == 0 ? 0 : file.document_end(place - 1);
            end = file.document_end(place);
        }
        std::vector<std::uint32_t> ids;
        bool all_trained = true;
        for (std::uint64_t k = begin; k < std::min(end, begin + most_ids); ++k) {
            ids.push_back(file[k]);
            all_trained = all_trained && file.trained(k);
        }
        fmt::print("sample      {}{}\n", shown(tokenizer.decode(ids)), begin + most_ids < end ? " ..." : "");
        if (all_trained) continue;
        std::vector<std::uint32_t> trained;
        for (std::uint64_t k = begin; k < std::min(end, begin + most_ids); ++k)
            if (file.trained(k)) trained.push_back(file[k]);
        fmt::print("  trained   {}\n", shown(tokenizer.decode(trained)));
    }
}

void inspect(const InspectOptions& o) {
    const std::string path = o.file.string();
    const bool folder = thunder::is_folder(path);
    std::optional<thunder::Corpus> corpus;
    if (const std::string list = thunder::join_path(path, thunder::corpus_list); folder && thunder::is_file(list))
        corpus = thunder::read_corpus(list);
    std::optional<Tokenizer> tokenizer;
    if (!o.tokenizer.empty()) tokenizer.emplace(read_tokenizer(o.tokenizer, o.pattern));

    const std::vector<std::string> files = thunder::token_files_of(path);
    Counts counts;
    for (std::size_t i = 0; i < files.size(); ++i) {
        const thunder::TokenFile file(files[i]);
        file.verify();
        if (corpus && thunder::hex(file.fingerprint()) != corpus->shards[i].fingerprint)
            fail(fmt::format("{} is not the file that was packed", files[i]),
                 "copy the folder again, or pack it again");
        counts.add(file);
    }
    const thunder::TokenFile first(files.front());
    const auto distinct =
        counts.seen.size() - static_cast<std::size_t>(std::count(counts.seen.begin(), counts.seen.end(), 0U));
    fmt::print("{}{}\n", folder ? "folder      " : "file        ", path);
    if (folder) fmt::print("files       {}\n", files.size());
    fmt::print("tokens      {}\nvocabulary  {}\nwidth       {} byte{} a token\nchecksum    right\n", counts.tokens,
               first.vocabulary(), first.width(), first.width() == 1 ? "" : "s");
    if (corpus) fmt::print("tokenizer   {}\nmade by     {}\n", corpus->tokenizer, corpus->made_by);
    if (tokenizer && corpus && corpus->tokenizer != tokenizer->description())
        fmt::print(stderr, "warning: {} is {}, and the corpus was packed with {}\n", o.tokenizer,
                   tokenizer->description(), corpus->tokenizer);
    if (counts.documents > 0)
        fmt::print("documents   {}, of {} to {} tokens, {:.1f} on average\n", counts.documents, counts.shortest,
                   counts.longest, static_cast<double>(counts.tokens) / static_cast<double>(counts.documents));
    if (counts.masked)
        fmt::print("trained on  {} ({:.1f}%)\n", counts.trained,
                   100.0 * static_cast<double>(counts.trained) / static_cast<double>(counts.tokens));
    if (counts.tokens == 0) return;
    fmt::print("ids         {} to {}, {} different\nfirst      ", counts.least, counts.most, distinct);
    for (std::uint64_t k = 0; k < std::min<std::uint64_t>(first.count(), static_cast<std::uint64_t>(o.first)); ++k)
        fmt::print(" {}", first[k]);
    fmt::print("\n");
    if (tokenizer) show_samples(first, *tokenizer, o.samples);
    if (counts.outside > 0)
        fail(fmt::format("{} tokens are not below the vocabulary, {}", counts.outside, first.vocabulary()),
             "pack it again");
}

}  // namespace

void add_data_inspect(CLI::App& data, Action& action) {
    auto i = std::make_shared<InspectOptions>();
    CLI::App* sub = data.add_subcommand("inspect", "check packed tokens and show what they hold");
    sub->footer("Exit status 1 where a file is damaged.");
    sub->add_option("file", i->file, "a file or a folder that `thunderc data pack` wrote")
        ->required()
        ->type_name("FILE");
    sub->add_option("--first", i->first, "how many tokens of the beginning are shown")
        ->check(at_least(0))
        ->capture_default_str();
    sub->add_option("--tokenizer", i->tokenizer, "decode samples with it")->check(not_empty())->type_name("PATH");
    sub->add_option("--pattern", i->pattern, "of tiktoken's files, as pack takes it")
        ->check(not_empty())
        ->type_name("NAME|REGEX");
    sub->add_option("--samples", i->samples, "how many documents are decoded, in part")
        ->check(at_least(0))
        ->capture_default_str();
    sub->callback([i, &action] {
        action = [i] {
            with_runtime_errors("", [&] { inspect(*i); });
            return 0;
        };
    });
}

}  // namespace thunderc
