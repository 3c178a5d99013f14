// SPDX-License-Identifier: Apache-2.0
// thunderc data mix: what a weighted mixture of corpora yields: tokens and epochs of each.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "cli/data.h"
#include "compiler/frontend/shared/runtime_errors.h"
#include "compiler/support/error.h"
#include "data/corpus.h"
#include "data/token_file.h"
#include "data/weighted_path.h"

namespace thunderc {
namespace {

struct MixOptions {
    std::vector<std::string> sources;
    std::string tokens;
};

struct Source {
    std::string path;
    double weight = 1;
    std::uint64_t tokens = 0, vocabulary = 0;
};

// PATH:WEIGHT; a path alone has the weight 1.
Source source_of(const std::string& text) {
    constexpr const char* help = "a.bin:0.7 b.bin:0.3, for example";
    const thunder::WeightedPath named = thunder::weighted_path(text, help);
    if (!named.weight && text.find(':') != std::string::npos && !std::filesystem::exists(text))
        fail_usage(fmt::format("{} is not PATH:WEIGHT with a weight above 0", text), help);
    Source source{named.path, named.weight.value_or(1)};
    for (const std::string& path : thunder::token_files_of(source.path)) {
        const thunder::TokenFile file(path);
        source.tokens += file.count();
        source.vocabulary = std::max(source.vocabulary, file.vocabulary());
    }
    if (source.tokens == 0) fail(fmt::format("{} holds no tokens", source.path), "leave it out");
    return source;
}

void mix(const MixOptions& o) {
    std::vector<Source> sources;
    for (const std::string& text : o.sources) sources.push_back(source_of(text));
    double weights = 0;
    std::size_t width = 6;
    bool same = true;
    for (const Source& source : sources) {
        weights += source.weight;
        width = std::max(width, source.path.size());
        same = same && source.vocabulary == sources.front().vocabulary;
    }
    // How much there is until the first of them has been read once.
    double once = INFINITY;
    std::size_t shortest = 0;
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const double tokens = static_cast<double>(sources[i].tokens) * weights / sources[i].weight;
        if (tokens < once) shortest = i;
        once = std::min(once, tokens);
    }
    const std::uint64_t all = o.tokens.empty() ? static_cast<std::uint64_t>(once) : count_of(o.tokens, "--tokens");
    fmt::print("{:<{}}  {:>7}  {:>15}  {:>15}  {:>8}\n", "source", width, "share", "has", "gives", "epochs");
    for (const Source& source : sources) {
        const double share = source.weight / weights, tokens = share * static_cast<double>(all);
        fmt::print("{:<{}}  {:>6.2f}%  {:>15}  {:>15.0f}  {:>8.3f}\n", source.path, width, 100 * share, source.tokens,
                   tokens, tokens / static_cast<double>(source.tokens));
    }
    fmt::print("{:<{}}  {:>7}  {:>15}  {:>15}\n", "all", width, "", "", all);
    if (o.tokens.empty())
        fmt::print("so much until {} has been read once; --tokens N asks of another number\n", sources[shortest].path);
    if (!same)
        fmt::print(
            stderr,
            "warning: the sources have vocabularies of different sizes: they were packed with different tokenizers\n");
}

}  // namespace

void add_data_mix(CLI::App& data, Action& action) {
    auto m = std::make_shared<MixOptions>();
    CLI::App* sub = data.add_subcommand("mix", "say what a mixture of packed corpora yields");
    sub->footer("  thunderc data mix web/:0.7 code.bin:0.3 --tokens 10B");
    sub->add_option("sources", m->sources, "packed files or folders, each with its weight; 1 where none is given")
        ->required()
        ->type_name("PATH:WEIGHT...");
    sub->add_option("--tokens", m->tokens, "of the whole run: 10B, for example")->type_name("N");
    sub->callback([m, &action] {
        action = [m] {
            with_runtime_errors("", [&] { mix(*m); });
            return 0;
        };
    });
}

}  // namespace thunderc
