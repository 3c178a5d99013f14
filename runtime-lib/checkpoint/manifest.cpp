// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/manifest.h"

#include <algorithm>

#include "checkpoint/safetensors.h"
#include "support/checksum.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::string_view manifest_head = "{\"checksum\":\"";  // what a manifest begins with

constexpr const char* manifest_help = "copy the checkpoint again, or take an earlier one";

[[noreturn]] void fail_damaged(const std::string& path, const std::string& what) {
    throw DamagedFile(cat(path, ": ", what), manifest_help);
}

// Of the text with zeros in the checksum's place.
std::string checksum_of(std::string text) {
    text.replace(manifest_head.size(), no_checksum.size(), no_checksum);
    Checksum checksum;
    checksum.add(text.data(), text.size());
    return checksum_text(checksum.value());
}

const Json& member(const Json& of, const char* name, Json::Kind kind, const std::string& path) {
    const Json* found = of.find(name);
    if (found == nullptr || !found->is(kind)) fail_damaged(path, cat("the manifest does not say its ", name));
    return *found;
}

std::int64_t extent_in(const Json& json, const std::string& path) {
    if (!json.is(Json::Kind::integer) || json.integer < 0) fail_damaged(path, "the manifest has a size that is none");
    return json.integer;
}

Manifest::Tensor read_tensor(const std::string& name, const Json& json, const std::string& path) {
    Manifest::Tensor tensor;
    tensor.name = name;
    tensor.dtype = member(json, "dtype", Json::Kind::string, path).string;
    std::int64_t elements = 1;
    for (const Json& extent : member(json, "shape", Json::Kind::array, path).array) {
        tensor.shape.push_back(extent_in(extent, path));
        if (__builtin_mul_overflow(elements, tensor.shape.back(), &elements))
            fail_damaged(path, cat("the shape of ", name, " is too large"));
    }
    std::int64_t end = 0;
    for (const Json& part : member(json, "parts", Json::Kind::array, path).array) {
        if (!part.is(Json::Kind::array) || part.array.size() != 3)
            fail_damaged(path, cat("a part of ", name, " is no [file, first, count]"));
        const std::int64_t file = extent_in(part.array[0], path), first = extent_in(part.array[1], path),
                           count = extent_in(part.array[2], path);
        if (first != end || count > elements - end)
            fail_damaged(path, cat("the parts of ", name, " do not follow one another at element ", end));
        tensor.parts.push_back({static_cast<std::size_t>(file), first, count});
        end += count;
    }
    if (end != elements) fail_damaged(path, cat("the parts of ", name, " end at element ", end, " of ", elements));
    return tensor;
}

}  // namespace

std::string manifest_text(const Manifest& manifest) {
    std::string text = cat(manifest_head, no_checksum, "\",\n\"metadata\":{");
    const char* separator = "\n";
    const auto next = [&] {
        text += separator;
        separator = ",\n";
    };
    for (const auto& [name, value] : manifest.metadata) {
        next();
        text += cat(json_quote(name), ":", json_quote(value));
    }
    text += "},\n\"files\":[";
    separator = "\n";
    for (const Manifest::File& file : manifest.files) {
        next();
        text += cat("{\"name\":", json_quote(file.name), ",\"bytes\":", file.bytes, ",\"checksum\":\"", file.checksum,
                    "\"}");
    }
    text += "],\n\"tensors\":{";
    separator = "\n";
    for (const Manifest::Tensor& tensor : manifest.tensors) {
        next();
        text += cat(json_quote(tensor.name), ":{\"dtype\":", json_quote(tensor.dtype), ",\"shape\":[");
        for (std::size_t k = 0; k < tensor.shape.size(); ++k) text += cat(k == 0 ? "" : ",", tensor.shape[k]);
        text += "],\"parts\":[";
        for (std::size_t k = 0; k < tensor.parts.size(); ++k) {
            const Manifest::Part& part = tensor.parts[k];
            text += cat(k == 0 ? "[" : ",[", part.file, ",", part.first, ",", part.count, "]");
        }
        text += "]}";
    }
    text += "}}\n";
    return text.replace(manifest_head.size(), no_checksum.size(), checksum_of(text));
}

Manifest parse_manifest(std::string_view text, const std::string& path) {
    if (!text.starts_with(manifest_head) || text.size() < manifest_head.size() + no_checksum.size() ||
        text.substr(manifest_head.size(), no_checksum.size()) != checksum_of(std::string(text)))
        fail_damaged(path, "its bytes are not those that were written (their checksum is another)");
    Json json;
    try {
        json = parse_json(text, path, manifest_help);
    } catch (const Error& error) {
        throw DamagedFile(error);
    }
    Manifest manifest;
    for (const auto& [name, value] : member(json, "metadata", Json::Kind::object, path).object) {
        if (!value.is(Json::Kind::string)) fail_damaged(path, cat("the metadata ", name, " is not a string"));
        manifest.metadata[name] = value.string;
    }
    for (const Json& entry : member(json, "files", Json::Kind::array, path).array) {
        Manifest::File file;
        file.name = member(entry, "name", Json::Kind::string, path).string;
        file.bytes = static_cast<std::uint64_t>(extent_in(member(entry, "bytes", Json::Kind::integer, path), path));
        file.checksum = member(entry, "checksum", Json::Kind::string, path).string;
        if (file.name.empty() || file.name.find('/') != std::string::npos)
            fail_damaged(path, cat(json_quote(file.name), " is not a file's name"));
        manifest.files.push_back(std::move(file));
    }
    for (const auto& [name, entry] : member(json, "tensors", Json::Kind::object, path).object) {
        manifest.tensors.push_back(read_tensor(name, entry, path));
        for (const Manifest::Part& part : manifest.tensors.back().parts)
            if (part.file >= manifest.files.size())
                fail_damaged(path, cat("a part of ", name, " is in file ", part.file, ", and there are ",
                                       manifest.files.size()));
    }
    std::sort(manifest.tensors.begin(), manifest.tensors.end(),
              [](const Manifest::Tensor& a, const Manifest::Tensor& b) { return a.name < b.name; });
    return manifest;
}

Manifest read_manifest(const std::string& folder) {
    const std::string path = join_path(folder, manifest_name);
    if (!is_file(path)) fail_damaged(folder, cat("the checkpoint has no ", manifest_name));
    const MappedFile file(path);
    return parse_manifest({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
}

}  // namespace thunder
