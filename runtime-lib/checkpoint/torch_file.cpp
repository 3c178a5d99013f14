// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/torch_file.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <set>
#include <utility>

#include "checkpoint/safetensors.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr int deepest_state = 16;  // dictionaries within one another
constexpr std::uint64_t largest_state_pickle = std::uint64_t{256} << 20;
constexpr const char* saved_again = "copy or download the file again, or save it again with torch.save";

// How training loops call the parameters in what they save, the likeliest first.
constexpr std::array<std::string_view, 4> state_keys = {"state_dict", "model_state_dict", "model", "module"};

bool is_of_optimizer(std::string_view key) {
    return key.starts_with("optim") || key.starts_with("scheduler") || key.starts_with("lr_sched") ||
           key.starts_with("scaler");
}

// Pairs of a dictionary whose keys are text.
std::vector<std::pair<std::string, PickledValue::Index>> named_items(const PickledValue& dictionary,
                                                                     const TorchPickle& pickle) {
    std::vector<std::pair<std::string, PickledValue::Index>> out;
    if (dictionary.kind != PickledValue::Kind::dictionary) return out;
    for (std::size_t k = 0; k + 1 < dictionary.items.size(); k += 2)
        if (const PickledValue& key = pickle.at(dictionary.items[k]); key.kind == PickledValue::Kind::text)
            out.emplace_back(key.text, dictionary.items[k + 1]);
    return out;
}

bool has_own_tensors(const PickledValue& dictionary, const TorchPickle& pickle) {
    const auto items = named_items(dictionary, pickle);
    return std::any_of(items.begin(), items.end(),
                       [&](const auto& item) { return pickle.at(item.second).kind == PickledValue::Kind::tensor; });
}

// Dictionaries with tensors in them, at whatever depth. Each is looked into once.
class TensorDictionaries {
  public:
    explicit TensorDictionaries(const TorchPickle& pickle) : pickle_(pickle), known_(pickle.values.size(), unknown) {}

    bool has_tensors(PickledValue::Index index, int depth = 0) {
        char& known = known_[index];
        if (known != unknown || depth > deepest_state) return known == yes;
        known = no;  // what contains itself adds nothing
        const PickledValue& value = pickle_.at(index);
        bool found = has_own_tensors(value, pickle_);
        for (const auto& [key, item] : named_items(value, pickle_)) found = found || has_tensors(item, depth + 1);
        known_[index] = found ? yes : no;
        return found;
    }
    std::vector<std::pair<std::string, PickledValue::Index>> within(PickledValue::Index index) {
        std::vector<std::pair<std::string, PickledValue::Index>> out;
        for (const auto& item : named_items(pickle_.at(index), pickle_))
            if (pickle_.at(item.second).kind == PickledValue::Kind::dictionary && has_tensors(item.second))
                out.push_back(item);
        return out;
    }

  private:
    static constexpr char unknown = 0, yes = 1, no = 2;
    const TorchPickle& pickle_;
    std::vector<char> known_;
};

std::string keys_text(const std::vector<std::pair<std::string, PickledValue::Index>>& items) {
    std::vector<std::string> keys;
    for (const auto& [key, index] : items) keys.push_back(key);
    return list_text(keys);
}

std::span<const std::byte> first_bytes(const MappedFile& file, std::size_t count) {
    return file.bytes().first(std::min(count, file.bytes().size()));
}

// A pickle of protocol 2 or later, as torch.save wrote them before 1.6.
bool begins_as_pickle(std::span<const std::byte> bytes) {
    return bytes.size() >= 2 && bytes[0] == std::byte{0x80} && bytes[1] >= std::byte{2} && bytes[1] <= std::byte{5};
}

bool is_tar(std::span<const std::byte> bytes) {
    return bytes.size() >= 262 && std::memcmp(bytes.data() + 257, "ustar", 5) == 0;
}

}  // namespace

TorchFile::TorchFile(const std::string& path, const std::string& key) : TensorFile(path), key_(key) {
    const std::span<const std::byte> bytes = file_.bytes();
    if (begins_as_pickle(bytes) || is_tar(bytes))
        fail(cat(path, " is of the form that torch.save had before PyTorch 1.6, which is not read"),
             cat("load and save it again: torch.save(torch.load(\"", path, "\", map_location=\"cpu\"), \"again.pt\")"));
    entries_ = std::make_unique<const ZipEntries>(bytes, path);
    read();
    sort_by_name();
    const auto twice =
        std::adjacent_find(tensors_.begin(), tensors_.end(),
                           [](const StoredTensor& a, const StoredTensor& b) { return a.name == b.name; });
    if (twice != tensors_.end())
        fail(cat(path, " has two tensors ", twice->name), "name the part that has the parameters: FILE#KEY");
}

void TorchFile::read() {
    const std::string& path = this->path();
    // Everything lies in one folder, whose name is the file's first one.
    std::string pickle_entry;
    bool program = false, exported = false;
    for (const auto& [name, entry] : entries_->all()) {
        const std::size_t slash = name.find('/');
        const std::string_view inside = slash == std::string::npos ? "" : std::string_view(name).substr(slash + 1);
        if (inside == "data.pkl") {
            pickle_entry = name;
            folder_ = name.substr(0, slash + 1);
        }
        program = program || inside == "constants.pkl" || inside.starts_with("code/");
        exported = exported || inside == "archive_format" || inside == "models/model.json";
    }
    if (program || exported)
        fail(cat(path, " is a program of ", program ? "TorchScript" : "torch.export", ", and no file of weights"),
             cat("save its weights: torch.save(model.state_dict(), \"weights.pt\"); thunderc train ", path,
                 " makes a training program of it, which begins with them"));
    if (pickle_entry.empty())
        fail(cat(path, " is an archive, and not one of torch.save: it has no data.pkl"), saved_again);
    const ZipEntries::Entry& entry = *entries_->find(pickle_entry);
    if (entry.bytes.size() > largest_state_pickle)
        throw DamagedFile(cat(path, ": its pickle is larger than any checkpoint's"), saved_again);
    if (crc32(entry.bytes) != entry.checksum)
        throw DamagedFile(cat(path, " is damaged: its pickle is not what was written"), saved_again);
    if (const ZipEntries::Entry* order = entries_->find(folder_ + "byteorder");
        order != nullptr && order->bytes.size() == 3)  // "big"
        fail(cat(path, " was saved on a machine with the other order of bytes"), "save it on a little-endian machine");
    const TorchPickle pickle = read_torch_pickle(entry.bytes, cat("the pickle of ", path));
    std::set<Index> added;
    add_tensors(pickle, pick(pickle), "", added);
}

TorchFile::Index TorchFile::pick(const TorchPickle& pickle) {
    const std::string& path = this->path();
    TensorDictionaries dictionaries(pickle);
    Index at = pickle.root;
    if (pickle.at(at).kind != PickledValue::Kind::dictionary)
        fail(cat(path, " holds no dictionary of tensors"),
             "save a state dict: torch.save(model.state_dict(), \"model.pt\")");
    for (std::size_t begin = 0; begin < key_.size();) {  // as it was asked for
        // A key may have dots of its own: the longest one that is there.
        const auto items = named_items(pickle.at(at), pickle);
        std::size_t best = 0;
        Index next = at;
        const std::string_view rest = std::string_view(key_).substr(begin);
        for (const auto& [key, index] : items) {
            const bool is_there = rest.starts_with(key) && (rest.size() == key.size() || rest[key.size()] == '.');
            if (!is_there || key.size() <= best) continue;
            best = key.size();
            next = index;
        }
        if (best == 0)
            fail_usage(cat(path, " has no ", key_),
                       cat("dictionaries of tensors in it: ", keys_text(dictionaries.within(pickle.root))));
        at = next;
        begin += best + 1;
    }
    if (!key_.empty()) {
        if (!dictionaries.has_tensors(at)) fail_usage(cat(path, ": ", key_, " holds no tensors"));
        return at;
    }
    for (int depth = 0; depth < deepest_state; ++depth) {
        const auto all = dictionaries.within(at);
        const auto find = [&](std::string_view key) {
            return std::find_if(all.begin(), all.end(), [&](const auto& item) { return item.first == key; });
        };
        auto taken = all.end();
        for (const std::string_view key : state_keys)
            if (taken == all.end()) taken = find(key);
        std::vector<std::pair<std::string, Index>> others;
        for (auto item = all.begin(); item != all.end(); ++item)
            if (item != taken && !is_of_optimizer(item->first)) others.push_back(*item);
        if (taken == all.end()) {
            if (has_own_tensors(pickle.at(at), pickle) || !chosen_.empty()) return at;
            if (others.size() > 1)
                fail_usage(cat(path, " has several dictionaries of tensors: ", keys_text(others)),
                           cat("say which one has the parameters: ", path, "#", others.front().first));
            if (others.empty()) return at;  // nothing but an optimizer: what is missing is said by name
            at = others.front().second;
            continue;
        }
        chosen_ = cat("its ", taken->first, others.empty() ? "" : cat("; it has ", keys_text(others), " as well"));
        at = taken->second;
    }
    return at;
}

void TorchFile::add_tensors(const TorchPickle& pickle, Index dictionary, const std::string& prefix,
                            std::set<Index>& added) {
    // One that contains itself adds nothing more.
    if (!added.insert(dictionary).second) return;
    std::map<std::string, Index> last;  // of a key that stands twice the last one holds, as in Python
    for (const auto& [key, index] : named_items(pickle.at(dictionary), pickle)) last[key] = index;
    for (const auto& [key, index] : last) {
        const PickledValue& value = pickle.at(index);
        if (value.kind == PickledValue::Kind::tensor) add(prefix + key, *value.tensor);
        if (value.kind == PickledValue::Kind::dictionary && !is_of_optimizer(key))
            add_tensors(pickle, index, prefix + key + ".", added);
    }
}

void TorchFile::add(const std::string& name, const PickledTensor& tensor) {
    const auto damaged = [&](const std::string& what) {
        throw DamagedFile(cat(path(), ": tensor ", name, ": ", what), saved_again);
    };
    const ZipEntries::Entry* stored = entries_->find(cat(folder_, "data/", tensor.storage));
    if (stored == nullptr) damaged("its numbers are not in the archive");
    if (stored->bytes.size() < tensor.storage_bytes)
        damaged(cat("its storage has ", stored->bytes.size(), " bytes, and is to have ", tensor.storage_bytes));
    if (tensor.shape.size() != tensor.strides.size() || tensor.offset < 0) damaged("its shape and its strides differ");
    // The last element's place, and whether elements lie in order.
    std::int64_t count = 1, last = tensor.offset, dense = 1;
    bool ordered = true;
    for (std::size_t d = tensor.shape.size(); d-- > 0;) {
        const std::int64_t extent = tensor.shape[d], stride = tensor.strides[d];
        std::int64_t reach = 0;
        if (extent < 0 || stride < 0 || __builtin_mul_overflow(count, extent, &count) ||
            __builtin_mul_overflow(std::max<std::int64_t>(extent - 1, 0), stride, &reach) ||
            __builtin_add_overflow(last, reach, &last))
            damaged(cat("a shape of ", shape_text(tensor.shape)));
        ordered = ordered && (extent == 1 || stride == dense);
        dense = count;
    }
    StoredTensor out{name, tensor.dtype, tensor.shape, {}};
    const std::uint64_t width = tensor.element_bytes, there = tensor.storage_bytes / width;
    if (count > 0 && static_cast<std::uint64_t>(last) >= there) damaged("it leads out of its storage");
    if (count > 0 && ordered) {
        out.bytes = stored->bytes.subspan(static_cast<std::size_t>(tensor.offset) * width,
                                          static_cast<std::size_t>(count) * width);
    } else if (count > 0) {
        // No more than the file has: an expanded tensor of a few numbers could be as large as it likes.
        const std::uint64_t room = file_.bytes().size() - copied_, wanted = static_cast<std::uint64_t>(count);
        if (wanted > room / width)
            fail(cat(path(), ": tensor ", name, " repeats its numbers (", out.dtype, " ", shape_text(tensor.shape),
                     " of ", count_text(there, "number"), ")"),
                 "save it with .contiguous()");
        std::vector<std::byte>& copy = copies_.emplace_back(wanted * width);
        copied_ += copy.size();
        std::vector<std::int64_t> index(tensor.shape.size(), 0);
        std::int64_t from = tensor.offset;
        for (std::uint64_t k = 0; k < wanted; ++k) {
            std::memcpy(copy.data() + k * width, stored->bytes.data() + static_cast<std::uint64_t>(from) * width,
                        width);
            for (std::size_t d = index.size(); d-- > 0;) {
                from += tensor.strides[d];
                if (++index[d] < tensor.shape[d]) break;
                from -= tensor.strides[d] * tensor.shape[d];
                index[d] = 0;
            }
        }
        out.bytes = copy;
    }
    tensors_.push_back(std::move(out));
}

bool is_torch_file(const std::string& path) {
    const MappedFile file(path);
    const std::span<const std::byte> bytes = first_bytes(file, 512);
    return begins_as_zip(bytes) || begins_as_pickle(bytes) || is_tar(bytes);
}

std::string file_of(const std::string& path) {
    const std::size_t mark = path.rfind('#');
    return mark == std::string::npos || is_file(path) || is_folder(path) ? path : path.substr(0, mark);
}

std::unique_ptr<TensorFile> open_tensor_file(const std::string& path) {
    const std::string file = file_of(path), key = file.size() < path.size() ? path.substr(file.size() + 1) : "";
    if (is_torch_file(file)) return std::make_unique<TorchFile>(file, key);
    if (!key.empty())
        fail_usage(cat(path, ": ", file, " is no file of torch.save, which alone have several dictionaries"),
                   "leave the # and what follows it away");
    return std::make_unique<SafetensorsFile>(file);
}

}  // namespace thunder
