// SPDX-License-Identifier: Apache-2.0
// thunderc ckpt: looks at checkpoints of training programs, and makes other files of them.
#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <memory>
#include <vector>

#include "checkpoint/folder.h"
#include "checkpoint/stored.h"
#include "cli/ckpt_files.h"
#include "cli/command.h"
#include "compiler/frontend/shared/runtime_errors.h"
#include "compiler/support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunderc {
namespace {

using thunder::StoredCheckpoint;

// What a path means: of the folder that a run keeps its checkpoints in, the newest one.
std::string checkpoint_at(const std::filesystem::path& path) {
    const std::string text = path.string();
    if (!thunder::is_folder(text) || thunder::is_file(thunder::join_path(text, thunder::manifest_name))) return text;
    const std::vector<std::string> inside = thunder::checkpoints_in(text);
    return inside.empty() ? text : inside.back();
}

std::uint64_t bytes_in(const StoredCheckpoint::Tensor& tensor) {
    std::uint64_t bytes = 0;
    for (const StoredCheckpoint::Part& part : tensor.parts) bytes += part.tensor->bytes.size();
    return bytes;
}

std::string sizes_text(std::uint64_t count, std::uint64_t elements, std::uint64_t bytes) {
    return fmt::format("{}, {} elements, {}", thunder::count_text(count, "tensor"), elements,
                       thunder::bytes_text(bytes));
}

int inspect(const std::filesystem::path& path) {
    const StoredCheckpoint checkpoint(checkpoint_at(path));
    const auto row = [](const char* what, const std::string& value) {
        if (!value.empty()) fmt::print("{:<18}{}\n", what, value);
    };
    row("checkpoint", checkpoint.path());
    row("program", checkpoint.entry("program"));
    row("step", checkpoint.entry("step"));
    if (!checkpoint.entry("shards").empty())
        row("written by",
            fmt::format("{} x {} ranks (copies x shards)", checkpoint.entry("replicas"), checkpoint.entry("shards")));
    row("optimizer", checkpoint.entry("optimizer"));
    row("products", checkpoint.entry("compute"));
    row("seed", checkpoint.entry("seed"));
    if (!checkpoint.entry("data_position").empty())
        row("data", fmt::format("{}, from row {} on", checkpoint.entry("batches"), checkpoint.entry("data_position")));
    std::uint64_t of_files = 0;
    for (const auto& file : checkpoint.files()) of_files += file->bytes();
    row("files", fmt::format("{}, {}, {}", checkpoint.files().size(), thunder::bytes_text(of_files),
                             checkpoint.has_checksum() ? "with checksums" : "without checksums"));
    std::uint64_t count[2] = {}, elements[2] = {}, bytes[2] = {};
    for (const StoredCheckpoint::Tensor& tensor : checkpoint.tensors()) {
        const int of = thunder::is_optimizer_state(tensor.name) ? 1 : 0;
        ++count[of];
        elements[of] += static_cast<std::uint64_t>(tensor.elements());
        bytes[of] += bytes_in(tensor);
    }
    row("parameters", sizes_text(count[0], elements[0], bytes[0]));
    if (count[1] > 0) row("optimizer's state", sizes_text(count[1], elements[1], bytes[1]));
    fmt::print("\n{:<60} {:<5} {:<20} {:>10}  in\n", "tensor", "type", "shape", "");
    for (const StoredCheckpoint::Tensor& tensor : checkpoint.tensors())
        fmt::print("{:<60} {:<5} {:<20} {:>10}  {}\n", tensor.name, tensor.dtype, thunder::shape_text(tensor.shape),
                   thunder::bytes_text(bytes_in(tensor)),
                   tensor.parts.size() == 1 ? std::filesystem::path(tensor.parts[0].file->path()).filename().string()
                                            : thunder::count_text(tensor.parts.size(), "file"));
    return 0;
}

int verify(const std::vector<std::filesystem::path>& paths) {
    std::string unverified;
    for (const std::filesystem::path& path : paths) {
        const StoredCheckpoint checkpoint(checkpoint_at(path));
        std::uint64_t bytes = 0;
        for (const auto& file : checkpoint.files()) bytes += file->bytes();
        checkpoint.verify([] {});
        const bool known = checkpoint.has_checksum();
        if (!known && unverified.empty()) unverified = checkpoint.path();
        fmt::print("{}: {}, {}, {}\n", checkpoint.path(), thunder::count_text(checkpoint.tensors().size(), "tensor"),
                   thunder::bytes_text(bytes),
                   known ? "whole: all bytes are those that were written" : "complete, without a checksum");
    }
    if (!unverified.empty())
        fail(unverified + " was written without a checksum: whether its bytes are as they were is not known",
             "checkpoints have checksums; files of --save and of other programs have none");
    return 0;
}

// Of one tensor in two checkpoints.
struct Difference {
    std::uint64_t elements = 0;  // that differ
    double absolute = 0, relative = 0;
};

Difference difference_of(const StoredCheckpoint::Tensor& a, const StoredCheckpoint::Tensor& b) {
    Difference out;
    const auto count = static_cast<std::size_t>(a.elements());
    const bool whole = a.dtype.starts_with('I') || a.dtype.starts_with('U');
    constexpr std::size_t portion = std::size_t{1} << 20;
    std::vector<double> numbers[2];
    const auto read = [&](const StoredCheckpoint::Tensor& t, std::size_t first, std::size_t n,
                          std::vector<double>& to) {
        to.resize(n);
        if (whole) {
            std::vector<std::int64_t> values(n);
            thunder::read_elements(t, thunder::DType::i64, first, n, values.data());
            to.assign(values.begin(), values.end());
        } else if (t.dtype == "BOOL") {
            std::vector<std::uint8_t> values(n);
            thunder::read_elements(t, thunder::DType::boolean, first, n, values.data());
            to.assign(values.begin(), values.end());
        } else {
            std::vector<float> values(n);
            thunder::read_elements(t, thunder::DType::f32, first, n, values.data());
            to.assign(values.begin(), values.end());
        }
    };
    for (std::size_t done = 0; done < count; done += portion) {
        const std::size_t n = std::min(portion, count - done);
        read(a, done, n, numbers[0]);
        read(b, done, n, numbers[1]);
        for (std::size_t i = 0; i < n; ++i) {
            const double x = numbers[0][i], y = numbers[1][i];
            if (x == y || (std::isnan(x) && std::isnan(y))) continue;
            ++out.elements;
            const double by = std::isnan(x) || std::isnan(y) ? HUGE_VAL : std::abs(x - y);
            out.absolute = std::max(out.absolute, by);
            out.relative = std::max(out.relative, by / std::max(std::abs(x), std::abs(y)));
        }
    }
    return out;
}

bool is_readable(const std::string& dtype) {
    return thunder::readable_as(dtype, thunder::DType::f32) || thunder::readable_as(dtype, thunder::DType::i64) ||
           dtype == "BOOL";
}

int diff(const std::filesystem::path& first, const std::filesystem::path& second) {
    const StoredCheckpoint a(checkpoint_at(first)), b(checkpoint_at(second));
    std::vector<std::string> lines;
    std::size_t same = 0;
    for (const StoredCheckpoint::Tensor& tensor : a.tensors()) {
        const StoredCheckpoint::Tensor* const other = b.find(tensor.name);
        if (other == nullptr) {
            lines.push_back(fmt::format("{:<60} only in {}", tensor.name, a.path()));
        } else if (tensor.shape != other->shape || is_readable(tensor.dtype) != is_readable(other->dtype) ||
                   thunder::readable_as(tensor.dtype, thunder::DType::f32) !=
                       thunder::readable_as(other->dtype, thunder::DType::f32)) {
            lines.push_back(fmt::format("{:<60} {} and {}", tensor.name, tensor.describe(), other->describe()));
        } else if (!is_readable(tensor.dtype)) {
            lines.push_back(fmt::format("{:<60} not compared: {}", tensor.name, tensor.dtype));
        } else if (const Difference d = difference_of(tensor, *other); d.elements > 0) {
            lines.push_back(fmt::format("{:<60} {:>12} of {:<12} {:>12.6g} {:>12.6g}", tensor.name, d.elements,
                                        tensor.elements(), d.absolute, d.relative));
        } else {
            ++same;
        }
    }
    for (const StoredCheckpoint::Tensor& tensor : b.tensors())
        if (a.find(tensor.name) == nullptr) lines.push_back(fmt::format("{:<60} only in {}", tensor.name, b.path()));
    if (!lines.empty()) {
        fmt::print("{:<60} {:>12}    {:<12} {:>12} {:>12}\n", "tensor", "differ", "elements", "absolute", "relative");
        for (const std::string& line : lines) fmt::print("{}\n", line);
    }
    fmt::print("{} the same, {} not\n", thunder::count_text(same, "tensor"), lines.size());
    return lines.empty() ? 0 : 1;
}

int convert_command(const std::filesystem::path& path, const ConvertOptions& options) {
    if (options.folder && std::filesystem::is_regular_file(options.out))
        fail(fmt::format("{} is a file, and --to hf writes a folder", options.out.string()),
             "name another one with -o");
    if (!options.folder && std::filesystem::is_directory(options.out))
        fail(fmt::format("{} is a folder", options.out.string()), "--to hf writes a folder");
    if (!options.folder && !options.like.empty())
        fail("--like is about a model's folder, and one file is written", "add --to hf, or leave it away");
    for (const std::string& line : convert(StoredCheckpoint(checkpoint_at(path)), options)) fmt::print("{}\n", line);
    return 0;
}

// What each of the commands is given.
struct Given {
    std::filesystem::path path, second;
    std::vector<std::filesystem::path> paths;
    std::string to = "safetensors";
    std::int64_t ranks = 1, file_mb = 0;
    ConvertOptions convert;
};

}  // namespace

void add_ckpt(CLI::App& app, Action& action) {
    CLI::App* ckpt =
        app.add_subcommand("ckpt", "look at checkpoints of training programs, and make other files of them");
    ckpt->require_subcommand(1);
    ckpt->footer(
        "A checkpoint is a folder step-00001000/, or a file step-00001000.safetensors of an earlier program; of a "
        "folder\n"
        "that a run keeps them in, the newest. Files of --save and folders of Hugging Face are read as well.");
    auto g = std::make_shared<Given>();
    const auto command = [&](const char* name, const char* help, std::function<int(const Given&)> run) {
        CLI::App* sub = ckpt->add_subcommand(name, help);
        sub->callback([g, run = std::move(run), &action] {
            action = [g, run] {
                int status = 0;
                with_runtime_errors("", [&] { status = run(*g); });
                return status;
            };
        });
        return sub;
    };
    const auto add_path = [&](CLI::App* sub) {
        sub->add_option("checkpoint", g->path, "a checkpoint, or the folder that a run keeps them in")
            ->required()
            ->check(not_empty())
            ->type_name("CHECKPOINT");
    };
    const auto add_out = [&](CLI::App* sub, std::filesystem::path& out, const char* help, const char* type) {
        sub->add_option("-o,--out", out, help)->required()->check(not_empty())->type_name(type);
    };

    CLI::App* sub = command("inspect", "show what a checkpoint is of, and its tensors",
                            [](const Given& given) { return inspect(given.path); });
    add_path(sub);

    sub = command("verify", "read all bytes of checkpoints and hold them against their checksums",
                  [](const Given& given) { return verify(given.paths); });
    sub->footer("Exit status 1 where one is damaged, lacks something, or was written without a checksum.");
    sub->add_option("checkpoints", g->paths, "checkpoints")->required()->type_name("CHECKPOINT...");

    sub = command("convert", "write the parameters, without the optimizer, as one file or as a model's folder",
                  [](const Given& given) {
                      ConvertOptions options = given.convert;
                      options.out = given.second;
                      options.folder = given.to == "hf";
                      options.file_bytes = static_cast<std::uint64_t>(given.file_mb) * 1'000'000;
                      return convert_command(given.path, options);
                  });
    sub->footer(
        "  thunderc ckpt convert checkpoints -o weights.safetensors\n"
        "  thunderc ckpt convert checkpoints --to hf --like Llama-3.2-1B --dtype bf16 -o tuned/\n"
        "  thunderc ckpt convert Llama-3.2-1B --merge adapter/ --to hf --like Llama-3.2-1B -o merged/");
    add_path(sub);
    add_out(sub, g->second, "the file, or with --to hf the folder", "PATH");
    sub->add_option("--to", g->to, "safetensors: one file; hf: a folder that transformers loads")
        ->check(one_of({"safetensors", "hf"}))
        ->capture_default_str();
    sub->add_option("--like", g->convert.like,
                    "with --to hf: the folder of the model that was trained, for its configuration, its tokenizer and "
                    "the names of its tensors")
        ->check(not_empty())
        ->type_name("FOLDER");
    sub->add_option("--dtype", g->convert.dtype, "of numbers of floating point, instead of what they are")
        ->check(one_of({"f32", "bf16", "f16"}));
    sub->add_option("--merge", g->convert.merge,
                    "a folder of adapters, as PEFT or a program's --save-adapter wrote it: they are added to the "
                    "weights that they stand beside")
        ->check(not_empty())
        ->type_name("FOLDER");
    sub->add_flag("--ema", g->convert.ema, "the average of the weights that --ema keeps, of what has one");
    sub->add_option("--file-mb", g->file_mb, "with --to hf: the most that a file of weights has, in MB [5000]")
        ->check(at_least_one())
        ->type_name("MB");

    sub = command("reshard", "write a checkpoint in as many files as there are ranks to read or write it",
                  [](const Given& given) {
                      const StoredCheckpoint checkpoint(checkpoint_at(given.path));
                      fmt::print("{}\n", reshard(checkpoint, given.ranks, given.second));
                      return 0;
                  });
    sub->footer("Programs of any number of ranks go on from any checkpoint: this is for how files lie, not for them.");
    add_path(sub);
    sub->add_option("--ranks", g->ranks, "files of about the same length")
        ->required()
        ->check(between(1, most_ranks))
        ->type_name("N");
    add_out(sub, g->second, "the folder that the checkpoint is written into", "FOLDER");

    sub = command("diff", "compare the numbers of two checkpoints, tensor by tensor",
                  [](const Given& given) { return diff(given.path, given.second); });
    sub->footer("Exit status 1 where they differ.");
    add_path(sub);
    sub->add_option("other", g->second, "the other one")->required()->check(not_empty())->type_name("OTHER");

    sub = command(
        "average", "write the mean of the parameters of several checkpoints, summed in double", [](const Given& given) {
            std::vector<StoredCheckpoint> all;
            for (const std::filesystem::path& path : given.paths) all.emplace_back(checkpoint_at(path));
            average(all, given.second);
            fmt::print("{}: the mean of {}\n", given.second.string(), thunder::count_text(all.size(), "checkpoint"));
            return 0;
        });
    sub->add_option("checkpoints", g->paths, "checkpoints of one run")->required()->type_name("CHECKPOINT...");
    add_out(sub, g->second, "the safetensors file", "FILE");
}

}  // namespace thunderc
