// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/pickle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc::torchscript {
namespace {

using aten::ScalarType;

constexpr std::size_t most_dimensions = 64;     // of a tensor, as torch has it
constexpr std::size_t most_values = 1U << 21U;  // above what any model has: some twenty for each tensor
constexpr std::uint64_t largest_pickle = std::uint64_t{64} << 20U;
constexpr std::size_t most_marks = 10000;   // lists and tuples within one another
constexpr std::size_t longest_name = 4096;  // of classes, attributes and keys

struct StorageType {
    std::string_view name;
    ScalarType type;
};
constexpr std::array storage_types = {
    StorageType{"torch.FloatStorage", ScalarType::f32},
    StorageType{"torch.DoubleStorage", ScalarType::f64},
    StorageType{"torch.HalfStorage", ScalarType::f16},
    StorageType{"torch.BFloat16Storage", ScalarType::bf16},
    StorageType{"torch.LongStorage", ScalarType::i64},
    StorageType{"torch.IntStorage", ScalarType::i32},
    StorageType{"torch.ShortStorage", ScalarType::i16},
    StorageType{"torch.CharStorage", ScalarType::i8},
    StorageType{"torch.ByteStorage", ScalarType::u8},
    StorageType{"torch.BoolStorage", ScalarType::boolean},
    StorageType{"torch.ComplexFloatStorage", ScalarType::c64},
    StorageType{"torch.ComplexDoubleStorage", ScalarType::c128},
};

std::optional<ScalarType> storage_type(std::string_view name) {
    const auto at =
        std::find_if(storage_types.begin(), storage_types.end(), [&](const StorageType& s) { return s.name == name; });
    return at == storage_types.end() ? std::nullopt : std::optional(at->type);
}

// What a pickle may name beside classes of the archive. Those that are called give their first argument, but for the
// three that make something.
constexpr std::string_view rebuild_tensor = "torch._utils._rebuild_tensor_v2";
constexpr std::string_view rebuild_parameter = "torch._utils._rebuild_parameter";
constexpr std::string_view ordered_dict = "collections.OrderedDict";
constexpr std::array<std::string_view, 5> passing_on = {
    "torch.jit._pickle.restore_type_tag", "torch.jit._pickle.build_intlist", "torch.jit._pickle.build_doublelist",
    "torch.jit._pickle.build_boollist", "torch.jit._pickle.build_tensorlist"};
constexpr std::array<std::string_view, 2> sizes = {"torch.Size", "torch.device"};

bool is_class_of_archive(std::string_view name) {
    return name.starts_with("__torch__.");
}

bool is_known(std::string_view name) {
    const auto in = [&](const auto& list) { return std::find(list.begin(), list.end(), name) != list.end(); };
    return name == rebuild_tensor || name == rebuild_parameter || name == ordered_dict || in(passing_on) || in(sizes) ||
           storage_type(name) || is_class_of_archive(name);
}

class PickleMachine {
  public:
    PickleMachine(const ZipArchive& archive, std::string entry, std::string storages)
        : archive_(archive), entry_(std::move(entry)), storages_(std::move(storages)) {
        const ZipArchive::Entry* found = archive.find(entry_);
        if (found == nullptr) damaged("it is not there");
        if (found->size > largest_pickle) damaged("it is larger than any model's");
        bytes_ = archive.text(entry_);
    }

    Pickle run() {
        for (;;) {
            const auto op = static_cast<unsigned char>(take(1)[0]);
            if (op == '.') break;
            step(op);
        }
        out_.root = pop();
        return std::move(out_);
    }

  private:
    [[noreturn]] void damaged(const std::string& why) const {
        fail(fmt::format("the pickle {} of {} is damaged: {}", entry_, archive_.path().string(), why),
             "save the model again");
    }

    // ---- bytes ----
    std::string_view take(std::size_t count) {
        if (count > bytes_.size() - at_) damaged("it ends too early");
        const std::string_view out = std::string_view(bytes_).substr(at_, count);
        at_ += count;
        return out;
    }
    std::uint64_t little_endian(std::size_t count) {
        std::uint64_t out = 0;
        const std::string_view bytes = take(count);
        for (std::size_t k = count; k-- > 0;) out = out << 8U | static_cast<unsigned char>(bytes[k]);
        return out;
    }
    std::string line() {
        const std::size_t end = bytes_.find('\n', at_);
        if (end == std::string::npos) damaged("it ends too early");
        std::string out(take(end - at_));
        ++at_;
        return out;
    }
    double real() {  // the one number that is big-endian
        std::uint64_t bits = 0;
        for (const char c : take(8)) bits = bits << 8U | static_cast<unsigned char>(c);
        return std::bit_cast<double>(bits);
    }
    // LONG1: the bytes of a number in two's complement.
    std::int64_t integer_of_bytes() {
        const std::size_t count = little_endian(1);
        if (count > 8) damaged("a number has more than 64 bits");
        const std::uint64_t bits = little_endian(count);
        if (count == 0) return 0;
        const unsigned shift = 64 - 8 * static_cast<unsigned>(count);
        return static_cast<std::int64_t>(bits << shift) >> shift;
    }

    // ---- the stack ----
    Pickled::Index make(Pickled::Kind kind) {
        if (out_.values.size() + dimensions_ > most_values) damaged("it has more values than any model");
        out_.values.emplace_back().kind = kind;
        return static_cast<Pickled::Index>(out_.values.size() - 1);
    }
    void push(Pickled::Index value) {
        if (stack_.size() >= most_values) damaged("it has more values than any model");
        stack_.push_back(value);
    }
    void push_mark() {
        if (marks_.size() >= most_marks) damaged("lists stand within one another without an end");
        marks_.push_back(stack_.size());
    }
    Pickled::Index pop() {
        if (stack_.size() <= floor()) damaged("its stack is empty");
        const Pickled::Index out = stack_.back();
        stack_.pop_back();
        return out;
    }
    std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }
    Pickled::Index top() const {
        if (stack_.size() <= floor()) damaged("its stack is empty");
        return stack_.back();
    }
    std::vector<Pickled::Index> pop_to_mark() {
        if (marks_.empty()) damaged("it has no mark");
        const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        std::vector<Pickled::Index> out(begin, stack_.end());
        stack_.erase(begin, stack_.end());
        marks_.pop_back();
        return out;
    }
    Pickled& of_kind(Pickled::Index index, Pickled::Kind kind, const char* what) {
        Pickled& value = out_.values[index];
        if (value.kind != kind) damaged(fmt::format("there is no {} where one is asked for", what));
        return value;
    }
    void push_integer(std::int64_t value) {
        const Pickled::Index made = make(Pickled::Kind::integer);
        out_.values[made].integer = value;
        push(made);
    }
    void push_boolean(bool value) {
        const Pickled::Index made = make(Pickled::Kind::boolean);
        out_.values[made].integer = value ? 1 : 0;
        push(made);
    }
    void push_text(std::string_view text) {
        const Pickled::Index made = make(Pickled::Kind::text);
        out_.values[made].text = text;
        push(made);
    }
    void push_sequence(Pickled::Kind kind, std::vector<Pickled::Index> items) {
        const Pickled::Index made = make(kind);
        out_.values[made].items = std::move(items);
        push(made);
    }
    void push_tuple(std::size_t count) {
        std::vector<Pickled::Index> items(count);
        for (std::size_t k = count; k-- > 0;) items[k] = pop();
        push_sequence(Pickled::Kind::tuple, std::move(items));
    }
    void push_global(const std::string& module, const std::string& name) {
        const std::string full = module + "." + name;
        if (full.size() > longest_name) damaged("a class has a longer name than any model's");
        if (!is_known(full))
            fail(fmt::format("the pickle {} of {} names {}, which is no part of a model's data", entry_,
                             archive_.path().string(), full),
                 "pickles are read as data, and nothing in them is run: save tensors, numbers and modules alone");
        const Pickled::Index made = make(Pickled::Kind::global);
        out_.values[made].text = full;
        push(made);
    }

    void append(std::vector<Pickled::Index> items) {
        std::vector<Pickled::Index>& list = of_kind(top(), Pickled::Kind::list, "list").items;
        list.insert(list.end(), items.begin(), items.end());
    }
    void set_items(const std::vector<Pickled::Index>& items) {
        if (items.size() % 2 != 0) damaged("a dictionary has a key without a value");
        std::vector<Pickled::Index>& to = of_kind(top(), Pickled::Kind::dictionary, "dictionary").items;
        for (std::size_t k = 0; k < items.size(); k += 2)
            if (out_.values[items[k]].text.size() > longest_name) damaged("a key is longer than any model's");
        to.insert(to.end(), items.begin(), items.end());
    }

    void step(unsigned char op) {
        switch (op) {
            case 0x80:
                if (little_endian(1) > 5) damaged("it is of a later protocol");
                return;
            case '(': return push_mark();
            case ')': return push_sequence(Pickled::Kind::tuple, {});
            case ']': return push_sequence(Pickled::Kind::list, {});
            case '}': return push_sequence(Pickled::Kind::dictionary, {});
            case 't': return push_sequence(Pickled::Kind::tuple, pop_to_mark());
            case 'l': return push_sequence(Pickled::Kind::list, pop_to_mark());
            case 0x85: return push_tuple(1);
            case 0x86: return push_tuple(2);
            case 0x87: return push_tuple(3);
            case 'N': return push(make(Pickled::Kind::none));
            case 0x88: return push_boolean(true);
            case 0x89: return push_boolean(false);
            case 'K': return push_integer(static_cast<std::int64_t>(little_endian(1)));
            case 'M': return push_integer(static_cast<std::int64_t>(little_endian(2)));
            case 'J': return push_integer(static_cast<std::int32_t>(little_endian(4)));
            case 0x8a: return push_integer(integer_of_bytes());
            case 'G': {
                const Pickled::Index made = make(Pickled::Kind::number);
                out_.values[made].number = real();
                return push(made);
            }
            case 'X': return push_text(take(little_endian(4)));
            case 0x8c:
            case 'U': return push_text(take(little_endian(1)));
            case 'c': {
                const std::string module = line();
                return push_global(module, line());
            }
            case 'q': return remember(little_endian(1));
            case 'r': return remember(little_endian(4));
            case 'h': return recall(little_endian(1));
            case 'j': return recall(little_endian(4));
            case 'a': {
                const Pickled::Index item = pop();
                return append({item});
            }
            case 'e': return append(pop_to_mark());
            case 's': {
                const Pickled::Index value = pop(), key = pop();
                return set_items({key, value});
            }
            case 'u': return set_items(pop_to_mark());
            case 'Q': return push_storage(pop());
            case 'R': return call();
            case 0x81: return make_object();
            case 'b': return build();
            case '0': pop(); return;
            default:
                fail(fmt::format("the pickle {} of {} has the opcode 0x{:02x}, which torch does not write", entry_,
                                 archive_.path().string(), op),
                     "pickles are read as data, and nothing in them is run: save the model again with torch.jit.save");
        }
    }

    void remember(std::uint64_t where) { memo_[where] = top(); }
    void recall(std::uint64_t where) {
        const auto at = memo_.find(where);
        if (at == memo_.end()) damaged("it asks for what it did not remember");
        push(at->second);
    }

    // ("storage", class, key, device, elements)
    void push_storage(Pickled::Index id) {
        const std::vector<Pickled::Index> parts = of_kind(id, Pickled::Kind::tuple, "storage").items;
        if (parts.size() != 5) damaged("a storage has other parts than torch writes");
        const std::string& what = of_kind(parts[0], Pickled::Kind::text, "name").text;
        const std::string type_name = of_kind(parts[1], Pickled::Kind::global, "class of a storage").text;
        const std::string key = of_kind(parts[2], Pickled::Kind::text, "key of a storage").text;
        const std::int64_t count = of_kind(parts[4], Pickled::Kind::integer, "size of a storage").integer;
        const std::optional<ScalarType> type = storage_type(type_name);
        if (key.size() > longest_name) damaged("a key is longer than any model's");
        if (what != "storage" || !type) damaged(fmt::format("{} is no storage", type_name));
        aten::StoredTensor out{key, storages_ + key, *type, {count}, {1}, 0};
        const Pickled::Index made = make(Pickled::Kind::storage);
        out_.values[made].tensor = std::make_shared<const aten::StoredTensor>(std::move(out));
        push(made);
    }

    Dims dims_of(Pickled::Index index, const char* what) {
        Dims out;
        for (const Pickled::Index item : of_kind(index, Pickled::Kind::tuple, what).items)
            out.push_back(of_kind(item, Pickled::Kind::integer, what).integer);
        if (out.size() > most_dimensions) damaged(fmt::format("a tensor has {} dimensions", out.size()));
        return out;
    }

    // (storage, offset, sizes, strides, requires_grad, hooks)
    Pickled::Index tensor_of(const std::vector<Pickled::Index>& arguments) {
        if (arguments.size() < 5) damaged("a tensor has other parts than torch writes");
        aten::StoredTensor out = *of_kind(arguments[0], Pickled::Kind::storage, "storage").tensor;
        out.offset = of_kind(arguments[1], Pickled::Kind::integer, "offset of a tensor").integer;
        out.dims = dims_of(arguments[2], "shape of a tensor");
        out.strides = dims_of(arguments[3], "strides of a tensor");
        dimensions_ += out.dims.size() + out.strides.size();
        const bool grad = of_kind(arguments[4], Pickled::Kind::boolean, "requires_grad of a tensor").integer != 0;
        const Pickled::Index made = make(Pickled::Kind::tensor);
        out_.values[made].tensor = std::make_shared<const aten::StoredTensor>(std::move(out));
        out_.values[made].requires_grad = grad;
        return made;
    }

    void call() {
        const std::vector<Pickled::Index> arguments = of_kind(pop(), Pickled::Kind::tuple, "tuple of arguments").items;
        const std::string name = of_kind(pop(), Pickled::Kind::global, "function").text;
        if (name == rebuild_tensor) return push(tensor_of(arguments));
        if (name == ordered_dict && arguments.empty()) return push_sequence(Pickled::Kind::dictionary, {});
        if (name == rebuild_parameter && !arguments.empty()) {
            Pickled& tensor = of_kind(arguments[0], Pickled::Kind::tensor, "tensor");
            tensor.requires_grad = arguments.size() > 1 && out_.values[arguments[1]].integer != 0;
            return push(arguments[0]);
        }
        const bool passes = std::find(passing_on.begin(), passing_on.end(), name) != passing_on.end() ||
                            std::find(sizes.begin(), sizes.end(), name) != sizes.end();
        if (passes && !arguments.empty()) return push(arguments[0]);
        damaged(fmt::format("it calls {} in a way that torch does not", name));
    }

    void make_object() {
        static_cast<void>(of_kind(pop(), Pickled::Kind::tuple, "tuple of arguments"));
        const std::string name = of_kind(pop(), Pickled::Kind::global, "class").text;
        if (!is_class_of_archive(name)) damaged(fmt::format("it makes an object of {}", name));
        const Pickled::Index made = make(Pickled::Kind::object);
        out_.values[made].text = name;
        push(made);
    }

    void build() {
        const Pickled::Index state = pop();
        Pickled& object = out_.values[top()];
        if (object.kind == Pickled::Kind::dictionary) return;  // an OrderedDict's own attributes, as "_metadata"
        if (object.kind != Pickled::Kind::object) damaged("it gives attributes to what is no object");
        // Classes with a __getstate__ of their own have something else, which nobody asks for.
        if (out_.values[state].kind == Pickled::Kind::dictionary) object.items = {state};
    }

    const ZipArchive& archive_;
    std::string entry_, storages_, bytes_;
    std::size_t at_ = 0, dimensions_ = 0;
    std::vector<Pickled::Index> stack_;
    std::vector<std::size_t> marks_;
    std::unordered_map<std::uint64_t, Pickled::Index> memo_;
    Pickle out_;
};

}  // namespace

const std::vector<Pickled::Index>& Pickle::entries(const Pickled& of) const {
    static const std::vector<Pickled::Index> none;
    if (of.kind == Pickled::Kind::dictionary) return of.items;
    return of.kind == Pickled::Kind::object && !of.items.empty() ? at(of.items.front()).items : none;
}

const Pickled* Pickle::member(const Pickled& of, const std::string& key) const {
    const std::vector<Pickled::Index>& all = entries(of);
    for (std::size_t k = 0; k + 1 < all.size(); k += 2)
        if (at(all[k]).kind == Pickled::Kind::text && at(all[k]).text == key) return &at(all[k + 1]);
    return nullptr;
}

Pickle read_pickle(const ZipArchive& archive, const std::string& entry, const std::string& storages) {
    return PickleMachine(archive, entry, storages).run();
}

}  // namespace thunderc::torchscript
