// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/model_folder.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::string_view index_name = "model.safetensors.index.json", config_name = "config.json";

// Weights of any framework, and their indices.
bool is_of_weights(std::string_view name) {
    for (const std::string_view ending :
         {".safetensors", ".bin", ".pt", ".pth", ".h5", ".msgpack", ".onnx", ".gguf", ".ckpt", ".index.json"})
        if (name.ends_with(ending)) return true;
    return false;
}

std::string whole_text(const std::string& path) {
    const MappedFile file(path);
    return {reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
}

void write_text(const std::string& path, const std::string& text) {
    AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
}

// Where the value of a key begins and ends, wherever the key stands in the text, from `from` on.
std::pair<std::size_t, std::size_t> value_of(const std::string& text, std::string_view key, std::size_t from) {
    const std::string quoted = cat("\"", key, "\"");
    for (std::size_t at = text.find(quoted, from); at != std::string::npos; at = text.find(quoted, at + 1)) {
        std::size_t begin = text.find_first_not_of(" \t\r\n", at + quoted.size());
        if (begin == std::string::npos || text[begin] != ':') continue;
        begin = text.find_first_not_of(" \t\r\n", begin + 1);
        if (begin == std::string::npos) break;
        const std::size_t end =
            text[begin] == '"' ? text.find('"', begin + 1) + 1 : text.find_first_of(",}] \t\r\n", begin);
        return {begin, std::min(end, text.size())};
    }
    return {std::string::npos, std::string::npos};
}

std::string wrapper_of(std::string_view name) {
    const std::size_t dot = name.find('.');
    return dot == std::string_view::npos ? "" : std::string(name.substr(0, dot + 1));
}

}  // namespace

std::vector<WeightFile> weight_files(std::span<const NamedBytes> tensors, std::uint64_t limit) {
    std::vector<WeightFile> files(1);
    std::uint64_t bytes = 0;
    for (std::size_t k = 0; k < tensors.size(); ++k) {
        if (bytes + tensors[k].bytes > limit && !files.back().tensors.empty()) {
            files.emplace_back();
            bytes = 0;
        }
        files.back().tensors.push_back(k);
        bytes += tensors[k].bytes;
    }
    for (std::size_t k = 0; k < files.size(); ++k) {
        char name[64];
        std::snprintf(name, sizeof name, "model-%05zu-of-%05zu.safetensors", k + 1, files.size());
        files[k].name = files.size() == 1 ? "model.safetensors" : name;
    }
    return files;
}

void finish_weights(const std::string& folder, std::span<const WeightFile> files, std::span<const NamedBytes> tensors) {
    const std::string index = join_path(folder, index_name);
    if (files.size() > 1) {
        std::uint64_t total = 0;
        for (const NamedBytes& tensor : tensors) total += tensor.bytes;
        std::string text = cat("{\n  \"metadata\": {\n    \"total_size\": ", total, "\n  },\n  \"weight_map\": {");
        const char* separator = "\n";
        for (const WeightFile& file : files)
            for (const std::size_t k : file.tensors) {
                text += cat(separator, "    ", json_quote(tensors[k].name), ": ", json_quote(file.name));
                separator = ",\n";
            }
        write_text(index, text + "\n  }\n}\n");
    } else {
        unlink(index.c_str());
    }
    for (const std::string& name : names_in(folder)) {
        const bool ours = std::any_of(files.begin(), files.end(), [&](const WeightFile& f) { return f.name == name; });
        if (!ours && name.starts_with("model") && name.ends_with(".safetensors"))
            unlink(join_path(folder, name).c_str());
    }
}

std::string changed_config(std::string text, const ConfigChanges& changes) {
    if (!changes.dtype.empty()) {
        for (const char* key : {"torch_dtype", "dtype"})
            for (std::size_t at = 0;;) {
                const auto [begin, end] = value_of(text, key, at);
                if (begin == std::string::npos) break;
                text.replace(begin, end - begin, cat("\"", changes.dtype, "\""));
                at = begin;
            }
    }
    if (!changes.untie) return text;
    const char* const key = "tie_word_embeddings";
    bool found = false;
    for (std::size_t at = 0;;) {
        const auto [begin, end] = value_of(text, key, at);
        if (begin == std::string::npos) break;
        text.replace(begin, end - begin, "false");
        at = begin;
        found = true;
    }
    if (found) return text;
    const std::size_t open = text.find('{');
    if (open == std::string::npos) return text;
    const std::size_t member = text.find_first_not_of(" \t\r\n", open + 1);
    const bool is_empty = member == std::string::npos || text[member] == '}';
    return text.insert(open + 1, cat("\n  \"", key, "\": false", is_empty ? "" : ","));
}

void copy_beside_weights(const std::string& from, const std::string& to, const ConfigChanges& changes) {
    if (!is_file(join_path(from, config_name)))
        fail(cat(from, " has no ", config_name), "name the folder of a model of Hugging Face");
    for (const std::string& name : names_in(from)) {
        const std::string source = join_path(from, name);
        if (name.starts_with('.') || is_of_weights(name) || !is_file(source) || same_file(source, join_path(to, name)))
            continue;
        const std::string text = whole_text(source);
        write_text(join_path(to, name), name == config_name ? changed_config(text, changes) : text);
    }
}

std::string_view config_dtype(std::string_view stored) {
    if (stored == "F32") return "float32";
    if (stored == "BF16") return "bfloat16";
    if (stored == "F16") return "float16";
    return "";
}

std::vector<std::string> names_in_folder(std::span<const std::string> ours, std::span<const std::string> theirs) {
    const std::set<std::string> known(theirs.begin(), theirs.end());
    std::set<std::string> removed, added;
    for (const std::string& name : ours) removed.insert(wrapper_of(name));
    for (const std::string& name : theirs) added.insert(wrapper_of(name));
    const auto renamed = [&](const std::string& name, const std::string& remove, const std::string& add) {
        return !remove.empty() && name.starts_with(remove) ? name.substr(remove.size()) : add + name;
    };
    std::pair<std::string, std::string> best;
    std::size_t most = 0;
    const auto consider = [&](const std::string& remove, const std::string& add) {
        std::size_t count = 0;
        for (const std::string& name : ours) count += known.count(renamed(name, remove, add));
        if (count <= most) return;
        most = count;
        best = {remove, add};
    };
    consider("", "");
    for (const std::string& prefix : removed) consider(prefix, "");
    for (const std::string& prefix : added) consider("", prefix);
    std::vector<std::string> names;
    for (const std::string& name : ours) names.push_back(renamed(name, best.first, best.second));
    return names;
}

}  // namespace thunder
