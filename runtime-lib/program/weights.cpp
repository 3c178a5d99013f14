// SPDX-License-Identifier: Apache-2.0
#include "program/weights.h"

#include <algorithm>
#include <cstring>

#include "checkpoint/manifest.h"
#include "checkpoint/torch_file.h"
#include "program/transfer.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

// ---- files

namespace {

// "model.layers.0.weight" of "model._orig_mod.layers.0.weight": what torch.compile, FSDP and checkpointing put between
// the names of modules.
std::string without_wrappers(const std::string& name) {
    std::string out;
    for (std::size_t begin = 0; begin <= name.size();) {
        const std::size_t end = std::min(name.find('.', begin), name.size());
        const std::string_view part = std::string_view(name).substr(begin, end - begin);
        if (part != "_orig_mod" && part != "_fsdp_wrapped_module" && part != "_checkpoint_wrapped_module") {
            if (!out.empty()) out += '.';
            out += part;
        }
        begin = end + 1;
    }
    return out;
}

}  // namespace

Weights::Weights(const std::string& path) : path_(path) {
    if (!is_folder(path)) {
        open(path, nullptr);
        return;
    }
    if (is_file(join_path(path, manifest_name))) {
        open_checkpoint();
        return;
    }
    // What save_pretrained() writes, of now and of before.
    for (const char* name : {"model.safetensors", "pytorch_model.bin"}) {
        const std::string whole = join_path(path, name), index = cat(whole, ".index.json");
        if (is_file(index)) {
            open_shards(index);
            return;
        }
        if (is_file(whole)) {
            open(whole, nullptr);
            return;
        }
    }
    const std::vector<std::string> names = names_in(path);
    fail(cat("--init ", path, ": the folder has neither model.safetensors nor pytorch_model.bin, nor an index of them"),
         cat("it holds ", names.empty() ? "nothing" : list_text(names)));
}

const Weights::Found* Weights::find(const std::string& name) const {
    const auto at = tensors_.find(name);
    return at == tensors_.end() ? nullptr : &at->second;
}

std::vector<std::string> Weights::names() const {
    std::vector<std::string> names;
    for (const auto& [name, found] : tensors_) names.push_back(name);
    return names;
}

void Weights::open(const std::string& path, const std::set<std::string>* wanted) {
    files_.push_back(open_tensor_file(path));
    for (const StoredTensor& tensor : files_.back()->tensors()) {
        if (wanted != nullptr && !wanted->contains(tensor.name)) continue;
        std::string name = without_wrappers(tensor.name);
        if (files_.back()->find(name) != nullptr) name = tensor.name;
        tensors_[name] = {files_.back().get(), &tensor};
    }
    if (const auto* torch = dynamic_cast<const TorchFile*>(files_.back().get())) chosen_ = torch->chosen();
}

void Weights::open_shards(const std::string& index) {
    const MappedFile file(index);
    const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, index);
    const Json* map = json.find("weight_map");
    const char* const damaged = "the index is damaged, or was not written by save_pretrained: get the folder again";
    if (map == nullptr || !map->is(Json::Kind::object)) fail(cat(index, " has no weight_map"), damaged);
    std::map<std::string, std::set<std::string>> shards;
    for (const auto& [tensor, shard] : map->object) {
        if (!shard.is(Json::Kind::string) || shard.string.find('/') != std::string::npos)
            fail(cat(index, ": the entry of ", tensor, " is not a file's name"), damaged);
        shards[shard.string].insert(tensor);
    }
    for (const auto& [shard, wanted] : shards) {
        open(join_path(path_, shard), &wanted);
        for (const std::string& name : wanted) {
            if (files_.back()->find(name) == nullptr)
                fail(cat(index, " says that ", name, " is in ", shard, ", and it is not"),
                     "the folder's files are not of one checkpoint: get the folder again");
        }
    }
}

void Weights::open_checkpoint() {
    const Manifest manifest = read_manifest(path_);
    for (const Manifest::File& file : manifest.files) files_.push_back(open_tensor_file(join_path(path_, file.name)));
    for (const Manifest::Tensor& tensor : manifest.tensors) {
        if (tensor.name.starts_with("optimizer.") || tensor.parts.empty()) continue;
        std::vector<TensorPart> parts;
        for (const Manifest::Part& part : tensor.parts) {
            const TensorFile& file = *files_[part.file];
            const StoredTensor* stored = file.find(tensor.name);
            if (stored == nullptr || stored->elements() != static_cast<std::size_t>(part.count))
                fail(cat(file.path(), " has not the ", part.count, " elements of ", tensor.name,
                         " that the checkpoint's manifest says"),
                     "copy the checkpoint again, or take an earlier one");
            parts.push_back({&file, stored, part.first, part.count});
        }
        if (parts.size() == 1) {
            tensors_[tensor.name] = {parts[0].file, parts[0].tensor};
        } else {
            const StoredTensor& whole = in_parts_.emplace_back(tensor.name, tensor.dtype, tensor.shape);
            tensors_[tensor.name] = {parts[0].file, &whole, std::move(parts)};
        }
    }
}

std::vector<TensorPart> Weights::Found::all_parts() const {
    if (!parts.empty()) return parts;
    return {{file, tensor, 0, static_cast<std::int64_t>(tensor->elements())}};
}

// ---- which tensor is which parameter

namespace {

// What to do with a program's name to get the file's: one wrapper's prefix is removed, or one or two are put before.
struct Renaming {
    std::string remove, add;

    std::string operator()(std::string_view name) const {
        if (!remove.empty() && name.starts_with(remove)) return std::string(name.substr(remove.size()));
        return add + std::string(name);
    }
};

std::string first_component(std::string_view name) {
    const std::size_t dot = name.find('.');
    return dot == std::string_view::npos ? "" : std::string(name.substr(0, dot + 1));
}

std::vector<std::string> names_of(const ParameterSpec& parameter) {
    std::vector<std::string> names{std::string(parameter.name)};
    for (const std::string_view alias : parameter.aliases) names.emplace_back(alias);
    return names;
}

// The renaming under which most parameters are found; names as they are, where no other does better.
Renaming choose_renaming(std::span<const ParameterSpec> parameters, const Weights& weights) {
    std::vector<Renaming> candidates{{}};
    std::set<std::string> ours, theirs;
    for (const ParameterSpec& parameter : parameters) {
        for (const std::string& name : names_of(parameter)) ours.insert(first_component(name));
    }
    for (const auto& [name, found] : weights.all()) {
        const std::string first = first_component(name), second = first_component(name.substr(first.size()));
        theirs.insert(first);
        if (!second.empty()) theirs.insert(first + second);  // "module.model."
    }
    for (const std::string& prefix : ours) {
        if (!prefix.empty()) candidates.push_back({prefix, ""});
    }
    for (const std::string& prefix : theirs) {
        if (!prefix.empty()) candidates.push_back({"", prefix});
    }
    std::size_t best = 0, best_count = 0;
    for (std::size_t i = 0; i < candidates.size(); ++i) {
        std::size_t count = 0;
        for (const ParameterSpec& parameter : parameters) {
            const std::vector<std::string> names = names_of(parameter);
            count += std::any_of(names.begin(), names.end(),
                                 [&](const std::string& n) { return weights.find(candidates[i](n)) != nullptr; });
        }
        if (count > best_count) {
            best = i;
            best_count = count;
        }
    }
    return candidates[best];
}

std::string describe(DType dtype, std::span<const std::int64_t> shape) {
    return cat(stored_name(dtype), " ", shape_text(shape));
}

// However the two lie in parts.
bool same_bytes(const Weights::Found& a, const Weights::Found& b) {
    if (a.tensor->dtype != b.tensor->dtype || a.tensor->shape != b.tensor->shape) return false;
    const std::vector<TensorPart> theirs = b.all_parts();
    auto other = theirs.begin();
    std::span<const std::byte> right = other->tensor->bytes;
    for (const TensorPart& part : a.all_parts()) {
        for (std::span<const std::byte> left = part.tensor->bytes; !left.empty();) {
            while (right.empty()) right = (++other)->tensor->bytes;  // both have as many bytes
            const std::size_t count = std::min(left.size(), right.size());
            if (std::memcmp(left.data(), right.data(), count) != 0) return false;
            left = left.subspan(count);
            right = right.subspan(count);
        }
    }
    return true;
}

}  // namespace

void check_fits(const std::string& path, const StoredTensor& tensor, DType dtype, std::span<const std::int64_t> shape,
                std::string_view what) {
    const bool shape_fits = std::equal(tensor.shape.begin(), tensor.shape.end(), shape.begin(), shape.end());
    if (shape_fits && readable_as(tensor.dtype, dtype)) return;
    const bool transposed =
        shape.size() == 2 && tensor.shape.size() == 2 && tensor.shape[0] == shape[1] && tensor.shape[1] == shape[0];
    fail(cat(path, ": ", tensor.name, " is ", tensor.describe(), ", and the program's ", what, " is ",
             describe(dtype, shape)),
         shape_fits   ? "write it with that type"
         : transposed ? "the two are transposed: the file is of another model, or was written by another framework"
                      : "the file belongs to a model of other sizes");
}

std::vector<Weights::Found> find_parameters(std::span<const ParameterSpec> parameters, const Weights& weights,
                                            std::set<std::string>& used) {
    const Renaming renamed = choose_renaming(parameters, weights);
    const std::string& path = weights.path();
    std::vector<Weights::Found> all;
    for (const ParameterSpec& parameter : parameters) {
        Weights::Found first;
        for (const std::string& name : names_of(parameter)) {
            const Weights::Found* found = weights.find(renamed(name));
            if (found == nullptr) continue;
            used.insert(renamed(name));
            check_fits(path, *found->tensor, parameter.dtype, parameter.shape, cat("parameter ", parameter.name));
            if (first.tensor == nullptr) {
                first = *found;
            } else if (!same_bytes(first, *found)) {
                fail(cat(path, ": ", first.tensor->name, " and ", found->tensor->name,
                         " differ, and in the program they are one parameter"),
                     "the file's model does not tie them; export that model, or remove one of the two from the file");
            }
        }
        all.push_back(first);
    }
    return all;
}

void fail_missing(const Weights& weights, std::span<const ParameterSpec* const> missing, const std::string& help) {
    std::vector<std::string> names;
    std::string notes;
    for (const ParameterSpec* parameter : missing) {
        names.emplace_back(parameter->name);
        if (!parameter->note.empty() && notes.empty())
            notes = cat("; ", parameter->name, " is no tensor of the checkpoint: ", parameter->note);
    }
    const std::vector<std::string> held = weights.names();
    fail(cat(weights.path(), " lacks ", count_text(names.size(), "parameter"), " of the program: ", list_text(names),
             notes),
         cat("it holds ", held.empty() ? "no tensors" : list_text(held, 4), "; ", help));
}

std::string exported_weights(const std::string& program_folder) {
    const std::string path = join_path(program_folder, "weights.safetensors");
    return !program_folder.empty() && is_file(path) ? path : "";
}

void read_constants(std::span<const ConstantSpec> constants, const std::string& folder, std::byte* arena,
                    Stream& stream) {
    if (constants.empty()) return;
    const std::string path = join_path(folder, "constants.safetensors");
    const SafetensorsFile file(path);
    for (const ConstantSpec& constant : constants) {
        const StoredTensor* tensor = file.find(constant.name);
        if (tensor == nullptr)
            fail(cat(path, " lacks the table ", constant.name),
                 "it is not the file that was written with this program: write the program again");
        check_fits(path, *tensor, constant.dtype, constant.shape, "table");
        load_tensor(file, *tensor, constant.dtype, arena + constant.offset, stream);
    }
}

}  // namespace thunder
