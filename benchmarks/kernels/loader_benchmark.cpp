// SPDX-License-Identifier: Apache-2.0
// How quickly rows are read from packed tokens, on one core, and what memory that takes.
//
//     loader_benchmark FOLDER [GIGATOKENS]
//
// writes a packed file into the folder, with GIGATOKENS (default 1000) times 10^9 ids in a sparse file beside it, which
// takes no room on the disk. Prints tokens a second for a file that the page cache holds, of one source and of a
// mixture of three, with documents kept apart and as many whole ones as fit; and the process's largest memory before
// and behind reading rows of the sparse one, of several epochs' places.
#include <sys/resource.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <string>

#include "data/batch_source.h"
#include "data/token_file.h"
#include "support/error.h"
#include "support/mix_bits.h"
#include "support/text.h"

namespace {

using thunder::cat;

constexpr std::int64_t B = 8, T = 1024;
constexpr std::int64_t shape[] = {B, T};
constexpr thunder::InputSpec inputs[] = {
    {"input_ids", thunder::DType::i64, shape, 0, B* T * 8, true, 50000, 0, "tokens"},
    {"labels", thunder::DType::i64, shape, B* T * 8, B* T * 8, true, 50000, -100, "next_tokens"},
};
constexpr std::size_t batch_bytes = 2 * B * T * 8;

void write_file(const std::string& path, std::uint64_t count) {
    thunder::TokenFileWriter writer(path, 50000);
    std::vector<std::uint32_t> ids;
    for (std::uint64_t i = 0; i < count; ++i) {
        ids.push_back(static_cast<std::uint32_t>(thunder::mix_bits(i) % 50000));
        if (ids.size() < 700) continue;
        writer.append(ids);
        writer.end_document();
        ids.clear();
    }
    writer.append(ids);
    writer.end_document();
    writer.commit();
}

// A file of that many zeros as ids, of version 1: a header, and nothing on the disk. Its header is that of an empty
// file but for the count and the checksum of the header, which a small one with the right bytes tells how to make.
void write_sparse(const std::string& path, std::uint64_t count) {
    struct Header {
        char magic[8];
        std::uint32_t version, width;
        std::uint64_t count, vocabulary, checksum, documents, flags, header_checksum;
    } header{{'t', 'h', 'u', 'n', 'd', 't', 'o', 'k'}, 1, 2, count, 50000, 0, 0, 0, 0};
    thunder::Checksum sum;
    sum.add(&header, sizeof header - 8);
    header.header_checksum = sum.value();
    std::ofstream(path, std::ios::binary).write(reinterpret_cast<const char*>(&header), sizeof header);
    if (truncate(path.c_str(), static_cast<off_t>(sizeof header + 2 * count)) != 0)
        thunder::fail(cat("cannot make ", path, " as large as that"), "name a folder on another file system");
}

// Of the processor, which other processes may have as well.
double seconds() {
    return static_cast<double>(std::clock()) / CLOCKS_PER_SEC;
}

double peak_megabytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<double>(usage.ru_maxrss) / 1024;
}

thunder::ProgramSpec program() {
    thunder::ProgramSpec spec{};
    spec.name = "benchmark";
    spec.inputs = inputs;
    spec.batch = B;
    spec.arena_bytes[static_cast<std::size_t>(thunder::Arena::batch)] = batch_bytes;
    return spec;
}

void measure(const char* what, const thunder::Options& options, std::int64_t steps) {
    const thunder::ProgramSpec spec = program();
    const auto source = thunder::make_batch_source(spec, options, {1, 0, 1, B});
    std::vector<std::byte> batch(batch_bytes);
    source->load(0, 0, 0, batch);
    const double before = peak_megabytes(), began = seconds();
    for (std::int64_t step = 0; step < steps; ++step) source->load(step, step * B, 0, batch);
    const double took = seconds() - began;
    std::printf("%-40s %8.1f M tokens/s   memory %.1f MB, then %.1f MB\n", what,
                static_cast<double>(steps * B * T) / took / 1e6, before, peak_megabytes());
    std::fflush(stdout);
}

}  // namespace

int main(int argc, char** argv) try {
    if (argc < 2) thunder::fail_usage("names no folder", "loader_benchmark FOLDER [GIGATOKENS]");
    const std::string folder = argv[1];
    const std::uint64_t giga = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1000;
    const std::string small = cat(folder, "/small.bin"), other = cat(folder, "/other.bin"),
                      sparse = cat(folder, "/sparse.bin");
    write_sparse(sparse, giga * 1'000'000'000);
    write_file(small, 20'000'000);
    write_file(other, 3'000'000);
    thunder::Options options;
    options.data = sparse;
    measure(cat(giga * 1'000'000'000, " tokens, sparse").c_str(), options, 1000);
    options.data = small;
    measure("one source", options, 500);
    options.documents = thunder::Options::Documents::separate;
    measure("one source, documents apart", options, 500);
    options.documents = thunder::Options::Documents::fit;
    measure("one source, whole documents", options, 500);
    options.data = cat(small, ":0.7,", other, ":0.2,", sparse, ":0.1");
    options.documents = thunder::Options::Documents::join;
    measure("three sources", options, 500);
    for (const std::string& path : {small, other, sparse}) unlink(path.c_str());
    return 0;
} catch (...) {
    return thunder::report_error();
}
