// SPDX-License-Identifier: Apache-2.0
#include "cli/ckpt_merge.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "checkpoint/model_folder.h"
#include "device/types.h"
#include "support/error.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"

namespace thunderc {
namespace {

using thunder::cat;
using thunder::Json;
using Stored = thunder::StoredCheckpoint::Tensor;

// Before a name of the model, in files of adapters.
constexpr std::string_view peft_prefix = "base_model.model.";
constexpr std::string_view end_of_a = ".lora_A.weight", end_of_b = ".lora_B.weight";
constexpr const char* config_name = "adapter_config.json";
constexpr const char* tensors_name = "adapter_model.safetensors";

std::string file_in(const std::filesystem::path& folder) {
    const std::string path = (folder / tensors_name).string();
    if (!thunder::is_file(path))
        thunder::fail(cat(folder.string(), " has no ", tensors_name),
                      "--merge takes a folder that PEFT's save_pretrained, or --save-adapter of a program, wrote");
    return path;
}

std::vector<float> numbers_of(const Stored& tensor, const std::string& folder) {
    std::vector<float> out(static_cast<std::size_t>(tensor.elements()));
    if (!thunder::readable_as(tensor.dtype, thunder::DType::f32))
        thunder::fail(cat(tensor.name, " is ", tensor.describe(), " in ", folder), "adapters are of floating point");
    thunder::read_elements(tensor, thunder::DType::f32, 0, out.size(), out.data());
    return out;
}

}  // namespace

void LowRank::add_to(float* numbers, std::size_t first, std::size_t count) const {
    const auto width = static_cast<std::size_t>(transposed ? out : in), ranks = static_cast<std::size_t>(rank),
               inputs = static_cast<std::size_t>(in);
    for (std::size_t k = 0; k < count; ++k) {
        const std::size_t row = (first + k) / width, column = (first + k) % width;
        const std::size_t o = transposed ? column : row, i = transposed ? row : column;
        double sum = 0;
        for (std::size_t r = 0; r < ranks; ++r)
            sum += static_cast<double>(b[o * ranks + r]) * static_cast<double>(a[r * inputs + i]);
        numbers[k] = static_cast<float>(static_cast<double>(numbers[k]) + scale * sum);
    }
}

MergedAdapters::MergedAdapters(const std::filesystem::path& folder) : folder_(folder.string()), file_(file_in(folder)) {
    read_config();
    read_tensors();
}

void MergedAdapters::read_config() {
    const std::string path = thunder::join_path(folder_, config_name);
    if (!thunder::is_file(path))
        thunder::fail(cat(folder_, " has no ", config_name), "it says by how much adapters are scaled: copy it there");
    const thunder::MappedFile file(path);
    const Json json =
        thunder::parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, path);
    const auto refuse = [&](const std::string& what) {
        thunder::fail(cat(path, ": ", what), "PEFT merges such adapters: merge_and_unload().save_pretrained(...)");
    };
    const auto flag = [&](const char* key) {
        const Json* value = json.find(key);
        return value != nullptr && value->is(Json::Kind::boolean) && value->boolean;
    };
    const Json* const type = json.find("peft_type");
    if (type == nullptr || type->string != "LORA") refuse("the adapters are no LORA");
    for (const char* key : {"use_dora", "lora_bias", "use_qalora"})
        if (flag(key)) refuse(cat(key, " is true"));
    // Ranks of single modules are those of their tensors; a scale of their own is nowhere else.
    if (const Json* own = json.find("alpha_pattern"); own != nullptr && !own->object.empty())
        refuse("alpha_pattern gives some modules a scale of their own");
    const Json* const alpha = json.find("lora_alpha");
    alpha_ = alpha != nullptr && (alpha->is(Json::Kind::integer) || alpha->is(Json::Kind::real)) ? alpha->real : 8;
    rank_stabilized_ = flag("use_rslora");
    fan_in_fan_out_ = flag("fan_in_fan_out");
}

void MergedAdapters::read_tensors() {
    std::map<std::string, std::pair<const Stored*, const Stored*>> pairs;  // A and B
    for (const Stored& tensor : file_.tensors()) {
        std::string_view name = tensor.name;
        if (!name.starts_with(peft_prefix) || name.find("lora_embedding") != std::string_view::npos ||
            name.find("lora_magnitude") != std::string_view::npos)
            thunder::fail(cat(folder_, " holds ", tensor.name, ", which cannot be merged"),
                          "adapters of linear layers can: PEFT merges others, by merge_and_unload()");
        name.remove_prefix(peft_prefix.size());
        if (name.ends_with(end_of_a))
            pairs[cat(name.substr(0, name.size() - end_of_a.size()), ".weight")].first = &tensor;
        else if (name.ends_with(end_of_b))
            pairs[cat(name.substr(0, name.size() - end_of_b.size()), ".weight")].second = &tensor;
        else
            whole_[std::string(name)] = &tensor;
    }
    for (const auto& [name, pair] : pairs) {
        const auto& [a, b] = pair;
        if (a == nullptr || b == nullptr)
            thunder::fail(cat(folder_, " has one of the two matrices of the adapter of ", name),
                          "the folder is not whole: get it again");
        if (a->shape.size() != 2 || b->shape.size() != 2 || a->shape[0] != b->shape[1])
            thunder::fail(cat("the adapter of ", name, " is ", a->describe(), " and ", b->describe(), " in ", folder_),
                          "adapters of linear layers can be merged: A is (r, in), B is (out, r)");
        LowRank& added = added_[name];
        added.rank = a->shape[0];
        added.in = a->shape[1];
        added.out = b->shape[0];
        const auto rank = static_cast<double>(added.rank);
        added.scale = alpha_ / (rank_stabilized_ ? std::sqrt(rank) : rank);
        added.a = numbers_of(*a, folder_);
        added.b = numbers_of(*b, folder_);
    }
    if (added_.empty()) thunder::fail(cat(folder_, " has no adapters"), "its tensors end in lora_A.weight");
}

std::string MergedAdapters::apply(std::vector<Outgoing>& tensors) {
    std::erase_if(tensors, [](const Outgoing& one) { return one.name.starts_with(peft_prefix); });
    std::vector<std::string> wanted, theirs;
    for (const auto& [name, added] : added_) wanted.push_back(name);
    for (const auto& [name, tensor] : whole_) wanted.push_back(name);
    for (const Outgoing& one : tensors) theirs.push_back(one.name);
    const std::vector<std::string> names = thunder::names_in_folder(wanted, theirs);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
        const auto at =
            std::find_if(tensors.begin(), tensors.end(), [&](const Outgoing& one) { return one.name == names[k]; });
        if (at == tensors.end())
            thunder::fail(cat("there is no ", names[k], " that what ", folder_, " has of it could be merged into"),
                          cat("the weights are those of another model, or this one is tied to another tensor; there "
                              "are ",
                              thunder::list_text(theirs)));
        const std::vector<std::int64_t>& shape = at->tensor->shape;
        const auto unfit = [&](const std::string& its) {
            thunder::fail(cat(names[k], " is ", at->tensor->describe(), ", and ", its, " in ", folder_),
                          "they are of two models");
        };
        if (const auto whole = whole_.find(wanted[k]); whole != whole_.end()) {
            if (whole->second->shape != shape) unfit(whole->second->describe());
            at->tensor = whole->second;
            continue;
        }
        LowRank& added = added_.at(wanted[k]);
        const std::vector<std::int64_t> as_linear = {added.out, added.in}, turned = {added.in, added.out};
        if (shape != as_linear && shape != turned) unfit(cat("its adapter goes from ", added.in, " to ", added.out));
        added.transposed = shape != as_linear || (added.in == added.out && fan_in_fan_out_);
        at->added = &added;
    }
    return cat(thunder::count_text(added_.size(), "adapter"), " of ", folder_, " merged",
               whole_.empty() ? "" : cat(", and ", thunder::count_text(whole_.size(), "tensor"), " taken as they are"));
}

}  // namespace thunderc
