// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/stored.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <set>
#include <utility>

#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

namespace {

std::int64_t elements_in(std::span<const std::int64_t> shape) {
    return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

}  // namespace

std::int64_t StoredCheckpoint::Tensor::elements() const {
    return elements_in(shape);
}

std::string StoredCheckpoint::Tensor::describe() const {
    return cat(dtype, " ", shape_text(shape));
}

StoredCheckpoint::StoredCheckpoint(const std::string& path) : path_(path) {
    const std::string index = join_path(path, "model.safetensors.index.json"),
                      whole = join_path(path, "model.safetensors");
    if (!is_folder(path)) {
        files_.push_back(std::make_unique<SafetensorsFile>(path));
        metadata_ = files_.front()->metadata();
        add_all(*files_.front());
    } else if (is_file(join_path(path, manifest_name))) {
        open_manifest();
    } else if (is_file(index)) {
        open_index(index);
    } else if (is_file(whole)) {
        files_.push_back(std::make_unique<SafetensorsFile>(whole));
        add_all(*files_.front());
    } else {
        const std::vector<std::string> names = names_in(path);
        throw DamagedFile(cat(path, " has neither ", manifest_name, " nor model.safetensors"),
                          cat("it holds ", names.empty() ? "nothing" : list_text(names)));
    }
    std::sort(tensors_.begin(), tensors_.end(), [](const Tensor& a, const Tensor& b) { return a.name < b.name; });
}

void StoredCheckpoint::add_all(const SafetensorsFile& file) {
    for (const StoredTensor& tensor : file.tensors()) {
        const auto elements = static_cast<std::int64_t>(tensor.elements());
        tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, {{&file, &tensor, 0, elements}}});
    }
}

void StoredCheckpoint::open_manifest() {
    sharded_ = true;
    Manifest manifest = read_manifest(path_);
    const char* const help = "copy the checkpoint again, or take an earlier one";
    for (const Manifest::File& file : manifest.files) {
        const std::string path = join_path(path_, file.name);
        if (!is_file(path)) throw DamagedFile(cat(path_, " lacks ", file.name, ", which its manifest names"), help);
        files_.push_back(std::make_unique<SafetensorsFile>(path));
        if (files_.back()->bytes() != file.bytes)
            throw DamagedFile(cat(path, " has ", count_text(files_.back()->bytes(), "byte"),
                                  ", and the checkpoint's manifest says ", file.bytes),
                              help);
        if (files_.back()->checksum() != file.checksum)
            throw DamagedFile(
                cat(path, " is not the file that the checkpoint's manifest names: its checksum is another"), help);
    }
    for (Manifest::Tensor& listed : manifest.tensors) {
        Tensor tensor{listed.name, listed.dtype, listed.shape, {}};
        for (const Manifest::Part& part : listed.parts) {
            const SafetensorsFile& file = *files_[part.file];
            const StoredTensor* stored = file.find(listed.name);
            const bool fits =
                stored != nullptr && stored->dtype == listed.dtype && elements_in(stored->shape) == part.count;
            if (!fits)
                throw DamagedFile(cat(file.path(), " has not the ", part.count, " elements of ", listed.name,
                                      " that the checkpoint's manifest says"),
                                  help);
            tensor.parts.push_back({&file, stored, part.first, part.count});
        }
        tensors_.push_back(std::move(tensor));
    }
    metadata_ = std::move(manifest.metadata);
}

void StoredCheckpoint::open_index(const std::string& index) {
    const MappedFile file(index);
    const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, index);
    const Json* map = json.find("weight_map");
    const char* const help = "the index is damaged, or was not written by save_pretrained: get the folder again";
    if (map == nullptr || !map->is(Json::Kind::object)) fail(cat(index, " has no weight_map"), help);
    std::map<std::string, const SafetensorsFile*> opened;
    for (const auto& [name, shard] : map->object) {
        if (!shard.is(Json::Kind::string) || shard.string.find('/') != std::string::npos)
            fail(cat(index, ": the entry of ", name, " is not a file's name"), help);
        const SafetensorsFile*& from = opened[shard.string];
        if (from == nullptr) {
            files_.push_back(std::make_unique<SafetensorsFile>(join_path(path_, shard.string)));
            from = files_.back().get();
        }
        const StoredTensor* stored = from->find(name);
        if (stored == nullptr)
            fail(cat(index, " says that ", name, " is in ", shard.string, ", and it is not"),
                 "the folder's files are not of one checkpoint: get the folder again");
        tensors_.push_back(
            {name, stored->dtype, stored->shape, {{from, stored, 0, static_cast<std::int64_t>(stored->elements())}}});
    }
}

std::string StoredCheckpoint::entry(const std::string& key) const {
    const auto at = metadata_.find(key);
    return at == metadata_.end() ? "" : at->second;
}

const StoredCheckpoint::Tensor* StoredCheckpoint::find(std::string_view name) const {
    const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                     [](const Tensor& tensor, std::string_view key) { return tensor.name < key; });
    return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

bool StoredCheckpoint::has_checksum() const {
    return std::all_of(files_.begin(), files_.end(), [](const auto& file) { return !file->checksum().empty(); });
}

void StoredCheckpoint::verify(const std::function<void()>& on_progress, std::size_t first, std::size_t of) const {
    for (std::size_t k = first; k < files_.size(); k += of) files_[k]->verify(on_progress);
}

bool read_elements(const StoredCheckpoint::Tensor& tensor, DType dtype, std::size_t first, std::size_t count,
                   void* out) {
    auto* to = static_cast<std::byte*>(out);
    for (const StoredCheckpoint::Part& part : tensor.parts) {
        const auto part_first = static_cast<std::size_t>(part.first), part_end = part_first + part.count;
        const std::size_t begin = std::max(first, part_first), end = std::min(first + count, part_end);
        if (begin >= end) continue;
        if (!read_elements(*part.tensor, dtype, begin - part_first, end - begin, to + (begin - first) * size_of(dtype)))
            return false;
    }
    return true;
}

bool is_optimizer_state(std::string_view name) {
    return name.starts_with("optimizer.");
}

}  // namespace thunder
