// SPDX-License-Identifier: Apache-2.0
// thunderc data pack: text, conversations or tokens of other programs into files of packed tokens.
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <thread>

#include "cli/data.h"
#include "compiler/frontend/shared/runtime_errors.h"
#include "compiler/support/error.h"
#include "data/corpus.h"
#include "data/token_file.h"
#include "packing/packer.h"
#include "packing/progress.h"
#include "support/file.h"
#include "support/text.h"

namespace thunderc {
namespace {

struct PackArguments {
    std::vector<std::filesystem::path> files;
    std::filesystem::path out;
    std::string tokenizer, pattern, eos = "auto", chat, shard_tokens, longest = "1G";
    std::string format = "auto", invalid;
    ReadOptions read;
    std::int64_t vocabulary = 0, threads = 0;
    bool add_special = false, no_documents = false, documents = false, restart = false, quiet = false;
};

struct FilesToPack {
    std::vector<std::filesystem::path> files;
    std::size_t left_out = 0;  // hidden files of the folders; a hidden folder counts as one
};

bool same_file(const std::filesystem::path& a, const std::filesystem::path& b) {
    std::error_code error;
    return std::filesystem::exists(b, error) && std::filesystem::equivalent(a, b, error);
}

bool is_packed(const std::filesystem::path& file) {
    try {
        thunder::TokenFile(file.string());
        return true;
    } catch (const std::exception&) {
        return false;
    }
}

// Of a folder all files below it, in the order of their paths, but for those whose name begins with a dot, or that of a
// folder on the way to them; and but for `out` where it was packed before. No other file is written over.
FilesToPack files_of(const std::vector<std::filesystem::path>& named, const std::filesystem::path& out) {
    FilesToPack found;
    const bool again = is_packed(out);
    for (const std::filesystem::path& path : named) {
        std::error_code error;
        if (!std::filesystem::is_directory(path, error)) {
            found.files.push_back(path);
            continue;
        }
        std::vector<std::filesystem::path> inside;
        for (auto at = std::filesystem::recursive_directory_iterator(path); at != end(at); ++at) {
            const bool is_out = at->is_directory() && same_file(at->path(), out);
            if (at->path().filename().string().starts_with('.') || is_out) {
                if (!is_out) ++found.left_out;
                at.disable_recursion_pending();
            } else if (at->is_regular_file() && !(again && same_file(at->path(), out))) {
                inside.push_back(at->path());
            }
        }
        std::sort(inside.begin(), inside.end());
        found.files.insert(found.files.end(), inside.begin(), inside.end());
    }
    return found;
}

InputFormat format_named(const std::string& name) {
    constexpr std::pair<const char*, InputFormat> formats[] = {
        {"text", InputFormat::text}, {"jsonl", InputFormat::jsonl},       {"nanogpt", InputFormat::nanogpt},
        {"llmc", InputFormat::llmc}, {"megatron", InputFormat::megatron}, {"npy", InputFormat::npy}};
    for (const auto& [known, format] : formats)
        if (name == known) return format;
    return InputFormat::automatic;
}

// The token that ends documents: as asked, or as tokenizer_config.json beside the tokenizer says.
std::optional<std::uint32_t> end_token(const PackArguments& o, const Tokenizer& tokenizer) {
    if (o.eos == "none") return std::nullopt;
    const std::optional<std::string> beside = o.eos == "auto" ? end_token_beside(o.tokenizer) : o.eos;
    if (beside)
        if (const auto id = tokenizer.find(*beside)) return id;
    if (o.eos != "auto")
        fail(fmt::format("the tokenizer has no token {}", o.eos),
             "--eos NAME takes the text of one of its tokens, or none");
    fmt::print(
        stderr,
        "note: nothing says which token ends documents, and none is put behind them: --eos NAME, or --eos none\n");
    return std::nullopt;
}

void warn_of_marks(const ChatTemplate& chat, const Tokenizer& tokenizer) {
    std::vector<std::string> absent;
    for (const std::string& mark : chat.marks())
        if (!tokenizer.find(mark)) absent.push_back(mark);
    if (absent.empty()) return;
    fmt::print(
        stderr,
        "warning: the tokenizer has no token {}: the template's marks become several tokens, as other text does\n"
        "help: --template with the format that the model was trained on, or add the tokens to the tokenizer and to the "
        "model\n",
        thunder::list_text(absent));
}

void refuse_options(const PackArguments& o, bool tokens) {
    if (o.tokenizer.empty()) {
        if (o.eos != "auto" && o.eos != "none")
            fail_usage("--eos names a token, and there is no --tokenizer", "name both");
        if (o.add_special) fail_usage("--add-special needs --tokenizer, whose tokens they are", "name both");
        if (!o.pattern.empty()) fail_usage("--pattern is of a --tokenizer", "name both");
    }
    if (tokens && o.vocabulary == 0 && o.tokenizer.empty())
        fail_usage("files of tokens do not say how many there are", "--vocab N, or the --tokenizer that they are of");
    if (o.documents && o.no_documents)
        fail_usage("--documents and --no-documents exclude each other", "leave one of the two out");
    if (o.restart && o.shard_tokens.empty()) fail_usage("--restart is of a pack into shards", "add --shard-tokens N");
}

// What is of one kind of files, where there is none of that kind.
void refuse_options_of_others(const PackArguments& o, bool texts, bool lines) {
    const auto refuse = [](const std::string& option, const std::string& kind) {
        fail_usage(fmt::format("{} is of {}, and no file is one", option, kind),
                   "leave it out, or say with --format what the files hold");
    };
    if (!o.chat.empty() && !lines) refuse("--template", "JSONL");
    if (o.read.text_field != ReadOptions().text_field && !lines) refuse("--text-field", "JSONL");
    if (!o.read.split_on.empty() && !texts) refuse("--split-on", "text");
    if (!o.invalid.empty() && !texts && !lines) refuse("--invalid", "text or JSONL");
    if (o.longest != PackArguments().longest && !texts && !lines) refuse("--longest", "text or JSONL");
}

// Shards and lists of a pack, and nothing else that the folder may hold; the lists last, without which shards that are
// left over would be taken for a corpus.
void remove_shards(const std::string& folder) {
    for (const std::string& name : thunder::names_in(folder))
        if (name.starts_with("shard-") && name.ends_with(".bin"))
            std::filesystem::remove(std::filesystem::path(folder) / name);
    for (const std::string_view name : {thunder::corpus_list, thunder::unfinished_corpus_list})
        std::filesystem::remove(std::filesystem::path(folder) / name);
}

void pack(PackArguments o) {
    const auto [files, left_out] = files_of(o.files, o.out);
    PackOptions options;
    options.read = o.read;
    options.read.format = format_named(o.format);
    options.read.invalid = o.invalid == "replace" ? InvalidText::replace
                           : o.invalid == "drop"  ? InvalidText::drop
                                                  : InvalidText::refuse;
    options.read.longest = count_of(o.longest, "--longest");
    options.read.bytes = o.tokenizer.empty() && o.invalid.empty();
    options.read.whole = o.longest != PackArguments().longest;
    if (!o.chat.empty()) options.read.chat = read_chat_template(o.chat);
    options.out = o.out.string();
    options.shard_tokens = o.shard_tokens.empty() ? 0 : count_of(o.shard_tokens, "--shard-tokens");
    options.threads = o.threads > 0 ? static_cast<int>(o.threads)
                                    : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    options.add_special = o.add_special;
    options.command = fmt::format("thunderc data pack, {}", counted(files.size(), "file"));

    bool tokens = false, lines = false, texts = false;
    for (const std::filesystem::path& file : files) {
        if (same_file(file, o.out))
            fail(fmt::format("{} would be written over itself", file.string()), "choose another file with -o");
        if (!std::filesystem::exists(file))
            fail(fmt::format("cannot read {}: No such file or directory", file.string()), "check the name of the file");
        const InputFile input(file.string());
        const InputFormat format = format_of(input, options.read);
        tokens = tokens || (format != InputFormat::text && format != InputFormat::jsonl);
        lines = lines || format == InputFormat::jsonl;
        texts = texts || format == InputFormat::text;
        options.files.push_back(input);
    }
    refuse_options(o, tokens);
    refuse_options_of_others(o, texts, lines);

    std::optional<Tokenizer> tokenizer;
    if (!o.tokenizer.empty()) {
        tokenizer.emplace(read_tokenizer(o.tokenizer, o.pattern));
        options.tokenizer = &*tokenizer;
        options.tokenizer_name = tokenizer->description();
        options.vocabulary = tokenizer->vocabulary();
        options.end = end_token(o, *tokenizer);
        if (options.read.chat) warn_of_marks(*options.read.chat, *tokenizer);
    } else if (tokens) {
        options.tokenizer_name = "ids of other programs";
    }
    if (o.vocabulary > 0) {
        // Bytes may all be below it, as those of ASCII: one that is not is refused where it is written.
        if (static_cast<std::uint64_t>(o.vocabulary) < options.vocabulary && tokenizer && !tokens)
            fail_usage(fmt::format("--vocab {} is less than the tokenizer has, {}", o.vocabulary, options.vocabulary),
                       "leave it out, or name the model's vocabulary, which may be larger");
        options.vocabulary = static_cast<std::uint64_t>(o.vocabulary);
    }
    // Bytes of files that follow each other are one text, as they have been.
    options.keep_documents =
        o.documents || (!o.no_documents && (tokenizer || tokens || lines || !options.read.split_on.empty()));
    if (o.restart && thunder::is_folder(options.out)) remove_shards(options.out);

    PackResult result;
    {
        ProgressLine line("packing", ProgressLine::mode_of_stderr(o.quiet));
        result = pack_documents(
            options, [&](const PackProgress& p) { line.show(p.bytes, p.all_bytes, counted(p.tokens, "token")); });
    }
    const std::string from =
        fmt::format("{}: {} from {}", options.out, counted(result.tokens, "token"), counted(files.size(), "file"));
    if (!tokenizer && !tokens && !lines && !options.keep_documents) {
        fmt::print("{}, one for each byte\n", from);
    } else {
        fmt::print("{}", from);
        if (options.keep_documents) fmt::print(", {}", counted(result.documents, "document"));
        if (options.shard_tokens > 0) fmt::print(", {}", counted(result.shards, "shard"));
        fmt::print(", vocabulary {}\n", options.vocabulary);
        if (options.end) fmt::print("documents end with {} ({})\n", tokenizer->text(*options.end), *options.end);
        if (result.trained != result.tokens)
            fmt::print("{} of them are trained on ({:.1f}%)\n", result.trained,
                       100.0 * static_cast<double>(result.trained) / static_cast<double>(result.tokens));
    }
    if (result.shards_found > 0)
        fmt::print(stderr, "note: went on behind {}, which {} there\n", counted(result.shards_found, "shard"),
                   result.shards_found == 1 ? "was" : "were");
    if (result.dropped > 0)
        fmt::print(stderr, "note: {} left out, since {} could not be read (--invalid drop)\n",
                   result.dropped == 1 ? "1 document was" : fmt::format("{} documents were", result.dropped),
                   result.dropped == 1 ? "it" : "they");
    if (left_out > 0)
        fmt::print(stderr, "note: {} hidden file{} or folder{} left out: name {} to have {} packed\n", left_out,
                   left_out == 1 ? "" : "s", left_out == 1 ? " was" : "s were", left_out == 1 ? "it" : "them",
                   left_out == 1 ? "it" : "them");
}

}  // namespace

void add_data_pack(CLI::App& data, Action& action) {
    auto p = std::make_shared<PackArguments>();
    CLI::App* sub = data.add_subcommand("pack", "write text or tokens of other programs as files of packed tokens");
    sub->footer(
        "Without a tokenizer each byte is a token: the files follow each other without anything between them, and\n"
        "the vocabulary is 256. docs/data.md has the formats, templates and what is refused.\n\n"
        "  thunderc data pack docs/*.md -o corpus.bin\n"
        "  thunderc data pack web.jsonl.zst --tokenizer Llama-3.2-1B/ --shard-tokens 100M -o corpus/\n"
        "  thunderc data pack chat.jsonl --tokenizer tokenizer.json --template chatml -o chat.bin\n"
        "  out/build/train --data corpus.bin");
    sub->add_option("files", p->files, "text, JSONL or tokens; of a folder all files below it that are not hidden")
        ->required()
        ->type_name("FILE...");
    sub->add_option("-o,--out", p->out, "the file to write, with --shard-tokens the folder")
        ->required()
        ->check(not_empty())
        ->type_name("CORPUS");
    sub->add_option("--tokenizer", p->tokenizer, "tokenizer.json, a folder with one, or tiktoken's ranks")
        ->check(not_empty())
        ->type_name("PATH");
    sub->add_option("--pattern", p->pattern,
                    "of tiktoken's files, which do not say it: gpt2, cl100k_base, o200k_base, llama3, qwen2, or a "
                    "regular expression")
        ->check(not_empty())
        ->type_name("NAME|REGEX");
    sub->add_option("--format", p->format, "what the files hold; auto: as they begin, and .jsonl by its name")
        ->check(one_of({"auto", "text", "jsonl", "nanogpt", "llmc", "megatron", "npy"}))
        ->capture_default_str();
    sub->add_option("--text-field", p->read.text_field, "of JSONL: where texts, or lists of messages, are")
        ->check(not_empty())
        ->capture_default_str()
        ->type_name("NAME");
    sub->add_option("--template", p->chat,
                    "lines are conversations, of which the assistant's turns alone are trained on: chatml, llama2, "
                    "llama3, gemma, or a file")
        ->check(not_empty())
        ->type_name("NAME|FILE");
    sub->add_option("--split-on", p->read.split_on, "a text that separates documents within files of text")
        ->check(not_empty())
        ->type_name("TEXT");
    sub->add_option("--eos", p->eos, "the token behind each document; auto: the tokenizer's own; none")
        ->check(not_empty())
        ->capture_default_str()
        ->type_name("TOKEN");
    sub->add_flag("--add-special", p->add_special,
                  "the tokens that the tokenizer puts around a text, around each document");
    sub->add_flag("--documents", p->documents, "keep where documents end, of bytes as well");
    sub->add_flag("--no-documents", p->no_documents, "do not keep where documents end");
    sub->add_option(
           "--invalid", p->invalid,
           "of text that is no UTF-8, and of lines that are no JSON; without it both are refused, but bytes without a "
           "tokenizer, which are taken as they are")
        ->check(one_of({"refuse", "replace", "drop"}));
    sub->add_option("--longest", p->longest, "the longest document, in bytes: longer ones are refused")
        ->capture_default_str()
        ->type_name("BYTES");
    sub->add_option("--vocab", p->vocabulary,
                    "the model's vocabulary, where it is not the tokenizer's, or not the 256 of bytes")
        ->check(between(1, std::int64_t{1} << 32))
        ->type_name("N");
    sub->add_option("--shard-tokens", p->shard_tokens, "write a folder of files of about so many tokens")
        ->type_name("N");
    sub->add_option("--threads", p->threads, "that encode; 0: as many as there are cores")
        ->check(between(0, 1024))
        ->capture_default_str();
    sub->add_flag("--restart", p->restart, "begin anew: remove the shards that the folder has");
    sub->add_flag("--quiet", p->quiet, "no progress");
    sub->callback([p, &action] {
        action = [p] {
            with_runtime_errors("", [&] { pack(*p); });
            return 0;
        };
    });
}

}  // namespace thunderc
