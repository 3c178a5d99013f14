// SPDX-License-Identifier: Apache-2.0
#include "cli/ckpt_files.h"

#include <algorithm>
#include <map>
#include <set>
#include <span>

#include "checkpoint/folder.h"
#include "checkpoint/model_folder.h"
#include "checkpoint/safetensors.h"
#include "cli/ckpt_merge.h"
#include "device/cpu/narrow.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunderc {
namespace {

using thunder::cat;
using Stored = thunder::StoredCheckpoint::Tensor;

constexpr std::size_t portion = std::size_t{1} << 20;  // elements at a time

thunder::DType dtype_in(const Stored& tensor) {
    for (std::size_t k = 0; k < std::size(thunder::dtype_stored_names); ++k) {
        const auto dtype = static_cast<thunder::DType>(k);
        if (tensor.dtype == thunder::dtype_stored_names[k] && !thunder::is_quantised(dtype)) return dtype;
    }
    thunder::fail(cat(tensor.name, " is ", tensor.dtype, ", which no program of thunderc computes in"),
                  "store it as F32, BF16, F16, I64 or I32");
}

// As `dtype` says where it is of floating point, else as it is.
thunder::DType dtype_out(const Stored& tensor, const std::string& dtype) {
    const thunder::DType is = dtype_in(tensor);
    if (dtype.empty() || !thunder::is_float(is)) return is;
    return dtype == "bf16" ? thunder::DType::bf16 : dtype == "f16" ? thunder::DType::f16 : thunder::DType::f32;
}

std::size_t bytes_as(const Stored& tensor, thunder::DType dtype) {
    return static_cast<std::size_t>(tensor.elements()) * thunder::size_of(dtype);
}

void release(const Stored& tensor) {
    for (const auto& part : tensor.parts) part.file->release(*part.tensor);
}

void append(thunder::SafetensorsWriter& writer, const Stored& tensor, thunder::DType dtype, std::size_t first,
            std::size_t count) {
    std::vector<std::byte> bytes;
    for (std::size_t done = 0; done < count; done += portion) {
        const std::size_t n = std::min(portion, count - done);
        bytes.resize(n * thunder::size_of(dtype));
        thunder::read_elements(tensor, dtype, first + done, n, bytes.data());
        writer.append(bytes.data(), bytes.size());
    }
}

// The same of one that something is added to, all of it.
void append_sum(thunder::SafetensorsWriter& writer, const Outgoing& one, thunder::DType dtype) {
    const auto count = static_cast<std::size_t>(one.tensor->elements());
    std::vector<float> numbers;
    std::vector<std::byte> bytes;
    for (std::size_t done = 0; done < count; done += portion) {
        const std::size_t n = std::min(portion, count - done);
        numbers.resize(n);
        thunder::read_elements(*one.tensor, thunder::DType::f32, done, n, numbers.data());
        one.added->add_to(numbers.data(), done, n);
        bytes.resize(n * thunder::size_of(dtype));
        thunder::with_float(dtype, [&]<typename T>(T*) {
            auto* const to = reinterpret_cast<T*>(bytes.data());
            for (std::size_t i = 0; i < n; ++i) to[i] = thunder::narrowed<T>(numbers[i]);
        });
        writer.append(bytes.data(), bytes.size());
    }
}

void write_file(const std::string& path, std::span<const Outgoing> tensors, const std::string& dtype) {
    std::vector<thunder::TensorToWrite> announced;
    for (const Outgoing& one : tensors)
        announced.push_back({one.name, dtype_out(*one.tensor, dtype), one.tensor->shape});
    const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}};  // what loaders of Hugging Face look for
    thunder::SafetensorsWriter writer(path, announced, metadata);
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        if (tensors[k].added != nullptr)
            append_sum(writer, tensors[k], announced[k].dtype);
        else
            append(writer, *tensors[k].tensor, announced[k].dtype, 0,
                   static_cast<std::size_t>(tensors[k].tensor->elements()));
        release(*tensors[k].tensor);
    }
    writer.commit();
}

bool same_numbers(const Stored& a, const Stored& b) {
    if (a.dtype != b.dtype || a.shape != b.shape) return false;
    const thunder::DType dtype = dtype_in(a);
    std::vector<std::byte> left, right;
    const auto count = static_cast<std::size_t>(a.elements());
    for (std::size_t done = 0; done < count; done += portion) {
        const std::size_t n = std::min(portion, count - done);
        left.resize(n * thunder::size_of(dtype));
        right.resize(left.size());
        thunder::read_elements(a, dtype, done, n, left.data());
        thunder::read_elements(b, dtype, done, n, right.data());
        if (left != right) return false;
    }
    return true;
}

bool same_numbers(const Outgoing& a, const Outgoing& b) {
    return a.added == nullptr && b.added == nullptr && same_numbers(*a.tensor, *b.tensor);
}

// The names of the model's folder, which of our tensors it ties to others, and what it has that we have not.
struct Fitted {
    std::vector<Outgoing> tensors;
    bool untie = false;
    std::vector<std::string> lines;
};

Fitted fit(const std::vector<Outgoing>& ours, const thunder::StoredCheckpoint& like) {
    std::vector<std::string> names, theirs;
    for (const Outgoing& one : ours) names.push_back(one.name);
    for (const Stored& tensor : like.tensors()) theirs.push_back(tensor.name);
    names = thunder::names_in_folder(names, theirs);
    Fitted out;
    std::vector<Outgoing> unknown;
    std::set<std::string> present;
    for (std::size_t k = 0; k < ours.size(); ++k) {
        const Stored* const known = like.find(names[k]);
        if (known == nullptr) {
            unknown.push_back({ours[k].tensor, names[k], ours[k].added});
            continue;
        }
        if (known->shape != ours[k].tensor->shape)
            thunder::fail(
                cat(names[k], " is ", ours[k].tensor->describe(), ", and ", known->describe(), " in ", like.path()),
                "name the folder of the model that was trained with --like");
        out.tensors.push_back({ours[k].tensor, names[k], ours[k].added});
        present.insert(names[k]);
    }
    if (present.empty())
        thunder::fail(cat(like.path(), " has none of the parameters"), cat("it has ", thunder::list_text(theirs)));
    // A head that its model ties to the embedding is in no file of it.
    for (const Outgoing& one : unknown) {
        const auto tied = std::find_if(out.tensors.begin(), out.tensors.end(),
                                       [&](const Outgoing& other) { return same_numbers(one, other); });
        if (tied != out.tensors.end()) {
            out.lines.push_back(cat("note: ", one.name, " is left out: it is ", tied->name));
            continue;
        }
        const bool alike = std::any_of(out.tensors.begin(), out.tensors.end(), [&](const Outgoing& other) {
            return one.tensor->shape.size() == 2 && one.tensor->shape == other.tensor->shape;
        });
        if (!alike)
            thunder::fail(cat(like.path(), " has no ", one.name),
                          one.name.find(".lora_") == std::string::npos
                              ? "name the folder of the model that was trained with --like"
                              : "--merge FOLDER puts the adapters that --save-adapter wrote into the weights");
        out.untie = true;
        out.lines.push_back(cat("note: ", one.name,
                                " was trained apart from what the model ties it to: config.json says "
                                "\"tie_word_embeddings\": false"));
    }
    if (out.untie)
        for (const Outgoing& one : unknown)
            if (std::none_of(out.tensors.begin(), out.tensors.end(),
                             [&](const Outgoing& other) { return same_numbers(one, other); }))
                out.tensors.push_back(one);
    std::vector<std::string> taken;
    for (const Stored& tensor : like.tensors()) {
        if (present.contains(tensor.name)) continue;
        const bool tied = std::any_of(present.begin(), present.end(),
                                      [&](const std::string& name) { return same_numbers(tensor, *like.find(name)); });
        if (tied) continue;
        out.tensors.push_back({&tensor, tensor.name});
        taken.push_back(tensor.name);
    }
    if (!taken.empty())
        out.lines.push_back(cat("note: ", thunder::list_text(taken), taken.size() == 1 ? " is" : " are",
                                " not in the checkpoint: taken from ", like.path(), " as ",
                                taken.size() == 1 ? "it is" : "they are"));
    return out;
}

bool has_weights(const std::filesystem::path& folder) {
    return std::filesystem::is_regular_file(folder / "model.safetensors") ||
           std::filesystem::is_regular_file(folder / "model.safetensors.index.json");
}

}  // namespace

std::vector<Outgoing> parameters_of(const thunder::StoredCheckpoint& checkpoint, bool ema) {
    std::vector<Outgoing> out;
    bool averaged = false;
    for (const Stored& tensor : checkpoint.tensors()) {
        if (thunder::is_optimizer_state(tensor.name)) continue;
        const Stored* const average = ema ? checkpoint.find(cat("optimizer.ema.", tensor.name)) : nullptr;
        averaged = averaged || average != nullptr;
        out.push_back({average != nullptr ? average : &tensor, tensor.name});
    }
    if (ema && !averaged)
        thunder::fail(cat(checkpoint.path(), " has no average of the weights"),
                      "leave --ema away, or train with --ema DECAY");
    if (out.empty()) thunder::fail(cat(checkpoint.path(), " has no parameters"));
    return out;
}

std::vector<std::string> convert(const thunder::StoredCheckpoint& checkpoint, const ConvertOptions& options) {
    std::vector<Outgoing> tensors = parameters_of(checkpoint, options.ema);
    std::vector<std::string> lines;
    std::optional<MergedAdapters> adapters;
    if (!options.merge.empty()) lines.push_back(adapters.emplace(options.merge).apply(tensors));
    if (!options.folder) {
        write_file(options.out.string(), tensors, options.dtype);
        lines.push_back(cat(options.out.string(), ": ", thunder::count_text(tensors.size(), "tensor")));
        return lines;
    }
    thunder::ConfigChanges changes;
    std::optional<thunder::StoredCheckpoint> like;
    if (!options.like.empty() && has_weights(options.like)) {
        like.emplace(options.like.string());
        Fitted fitted = fit(tensors, *like);
        tensors = std::move(fitted.tensors);
        changes.untie = fitted.untie;
        for (std::string& line : fitted.lines) lines.push_back(std::move(line));
    } else {
        lines.push_back(cat("note: ",
                            options.like.empty() ? "there is no --like, so that the folder has no config.json"
                                                 : cat(options.like.string(), " has no weights"),
                            ": tensors have the names of the checkpoint"));
    }
    std::sort(tensors.begin(), tensors.end(), [](const Outgoing& a, const Outgoing& b) { return a.name < b.name; });
    std::vector<thunder::NamedBytes> sizes;
    std::uint64_t total = 0;
    std::map<std::string, std::uint64_t> floats;  // bytes of each type of floating point
    for (const Outgoing& one : tensors) {
        const thunder::DType dtype = dtype_out(*one.tensor, options.dtype);
        sizes.push_back({one.name, bytes_as(*one.tensor, dtype)});
        total += sizes.back().bytes;
        if (thunder::is_float(dtype)) floats[std::string(thunder::stored_name(dtype))] += sizes.back().bytes;
    }
    const auto most = std::max_element(floats.begin(), floats.end(),
                                       [](const auto& a, const auto& b) { return a.second < b.second; });
    if (most != floats.end()) changes.dtype = thunder::config_dtype(most->first);
    const std::string folder = options.out.string();
    thunder::make_folders(folder);
    const std::vector<thunder::WeightFile> files =
        thunder::weight_files(sizes, options.file_bytes > 0 ? options.file_bytes : thunder::bytes_of_weight_file);
    for (const thunder::WeightFile& file : files) {
        std::vector<Outgoing> of_file;
        for (const std::size_t k : file.tensors) of_file.push_back(tensors[k]);
        write_file(thunder::join_path(folder, file.name), of_file, options.dtype);
    }
    thunder::finish_weights(folder, files, sizes);
    if (!options.like.empty()) thunder::copy_beside_weights(options.like.string(), folder, changes);
    lines.push_back(cat(folder, ": ", thunder::count_text(tensors.size(), "tensor"), ", ", thunder::bytes_text(total),
                        ", in ", thunder::count_text(files.size(), "file")));
    return lines;
}

std::string reshard(const thunder::StoredCheckpoint& checkpoint, std::int64_t ranks, const std::filesystem::path& out) {
    const std::string step = checkpoint.entry("step");
    if (checkpoint.entry("format") != "thunder-checkpoint" || step.empty())
        thunder::fail(cat(checkpoint.path(), " is not a checkpoint of a training run"),
                      "thunderc ckpt convert writes parameters alone");
    const std::string path = thunder::checkpoint_path(out.string(), std::stoll(step));
    if (thunder::is_folder(path)) thunder::fail(cat(path, " is there already"), "name another folder with -o");
    thunder::Manifest manifest;
    manifest.metadata = checkpoint.metadata();
    manifest.metadata.erase(std::string(thunder::checksum_key));
    manifest.metadata["version"] = "2";
    std::uint64_t total = 0, before = 0;
    for (const Stored& tensor : checkpoint.tensors()) total += bytes_as(tensor, dtype_in(tensor));
    // Tensors one behind the other, cut where a rank has its part of the bytes.
    std::vector<std::vector<std::pair<const Stored*, thunder::Manifest::Part>>> parts(static_cast<std::size_t>(ranks));
    for (const Stored& tensor : checkpoint.tensors()) {
        manifest.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, {}});
        const std::uint64_t width = thunder::size_of(dtype_in(tensor));
        for (std::int64_t first = 0; first < tensor.elements();) {
            const auto rank = static_cast<std::size_t>(std::min<std::uint64_t>(
                static_cast<std::uint64_t>(ranks) - 1,
                before * static_cast<std::uint64_t>(ranks) / std::max<std::uint64_t>(total, 1)));
            const std::uint64_t end =  // rounded up: what follows is the next rank's
                ((rank + 1) * total + static_cast<std::uint64_t>(ranks) - 1) / static_cast<std::uint64_t>(ranks);
            std::int64_t count = tensor.elements() - first;
            if (rank + 1 < static_cast<std::size_t>(ranks))
                count = std::min(count, static_cast<std::int64_t>((end - before + width - 1) / width));
            count = std::max<std::int64_t>(count, 1);
            parts[rank].push_back({&tensor, {rank, first, count}});
            manifest.tensors.back().parts.push_back({rank, first, count});
            before += static_cast<std::uint64_t>(count) * width;
            first += count;
        }
    }
    thunder::begin_checkpoint(path);
    // A rank that has nothing has no file.
    std::vector<std::size_t> file_of(parts.size());
    for (std::size_t rank = 0; rank < parts.size(); ++rank) {
        if (parts[rank].empty()) continue;
        file_of[rank] = manifest.files.size();
        std::vector<thunder::TensorToWrite> announced;
        for (const auto& [tensor, part] : parts[rank]) {
            announced.push_back({tensor->name, dtype_in(*tensor), tensor->shape});
            if (part.count != tensor->elements()) announced.back().shape = {part.count};
        }
        const std::pair<std::string, std::string> metadata[] = {
            {"format", "thunder-checkpoint-part"}, {"step", step}, {std::string(thunder::checksum_key), ""}};
        const std::string name = thunder::rank_file_name(static_cast<int>(rank));
        thunder::SafetensorsWriter writer(thunder::join_path(thunder::aside_of(path), name), announced, metadata);
        for (const auto& [tensor, part] : parts[rank])
            append(writer, *tensor, dtype_in(*tensor), static_cast<std::size_t>(part.first),
                   static_cast<std::size_t>(part.count));
        writer.commit();
        manifest.files.push_back({name, writer.bytes(), thunder::checksum_text(writer.checksum())});
    }
    for (thunder::Manifest::Tensor& tensor : manifest.tensors)
        for (thunder::Manifest::Part& part : tensor.parts) part.file = file_of[part.file];
    thunder::commit_checkpoint(path, manifest);
    return path;
}

void average(const std::vector<thunder::StoredCheckpoint>& all, const std::filesystem::path& out) {
    const std::vector<Outgoing> first = parameters_of(all.front(), false);
    std::vector<thunder::TensorToWrite> announced;
    for (const Outgoing& one : first) {
        announced.push_back({one.name, dtype_in(*one.tensor), one.tensor->shape});
        for (const thunder::StoredCheckpoint& other : all) {
            const Stored* const its = other.find(one.name);
            if (its == nullptr)
                thunder::fail(cat(other.path(), " has no ", one.name), "average checkpoints of one run");
            if (its->shape != one.tensor->shape ||
                thunder::is_float(dtype_in(*its)) != thunder::is_float(announced.back().dtype))
                thunder::fail(cat(one.name, " is ", its->describe(), " in ", other.path(), ", and ",
                                  one.tensor->describe(), " in ", all.front().path()),
                              "average checkpoints of one run");
            if (!thunder::is_float(announced.back().dtype) && !same_numbers(*its, *one.tensor))
                thunder::fail(
                    cat(one.name, " is of whole numbers, which differ in ", other.path(), " and ", all.front().path()),
                    "whole numbers have no mean: average checkpoints that have the same");
        }
    }
    for (const thunder::StoredCheckpoint& other : all)
        for (const Outgoing& one : parameters_of(other, false))
            if (all.front().find(one.name) == nullptr)
                thunder::fail(cat(all.front().path(), " has no ", one.name, ", and ", other.path(), " has"),
                              "average checkpoints of one run");
    const std::pair<std::string, std::string> metadata[] = {{"format", "pt"}};
    thunder::SafetensorsWriter writer(out.string(), announced, metadata);
    for (std::size_t k = 0; k < first.size(); ++k) {
        const auto count = static_cast<std::size_t>(first[k].tensor->elements());
        if (!thunder::is_float(announced[k].dtype)) {
            append(writer, *first[k].tensor, announced[k].dtype, 0, count);
            continue;
        }
        std::vector<float> numbers;
        std::vector<double> sums;
        std::vector<std::byte> bytes;
        for (std::size_t done = 0; done < count; done += portion) {
            const std::size_t n = std::min(portion, count - done);
            numbers.resize(n);
            sums.assign(n, 0);
            for (const thunder::StoredCheckpoint& one : all) {
                thunder::read_elements(*one.find(first[k].name), thunder::DType::f32, done, n, numbers.data());
                for (std::size_t i = 0; i < n; ++i) sums[i] += static_cast<double>(numbers[i]);
            }
            bytes.resize(n * thunder::size_of(announced[k].dtype));
            thunder::with_float(announced[k].dtype, [&]<typename T>(T*) {
                auto* const to = reinterpret_cast<T*>(bytes.data());
                for (std::size_t i = 0; i < n; ++i)
                    to[i] = thunder::narrowed<T>(static_cast<float>(sums[i] / static_cast<double>(all.size())));
            });
            writer.append(bytes.data(), bytes.size());
        }
    }
    writer.commit();
}

}  // namespace thunderc
