// SPDX-License-Identifier: Apache-2.0
// Opcodes: Lib/pickletools.py of Python. What torch names in them: torch/_utils.py and torch/serialization.py.
#include "checkpoint/torch_pickle.h"

#include <algorithm>
#include <array>
#include <bit>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

using PickleIndex = PickledValue::Index;
using PickleKind = PickledValue::Kind;

constexpr std::size_t most_pickled_values = std::size_t{1} << 22;  // above what any checkpoint has
constexpr std::size_t most_pickle_marks = 10000;                   // collections within one another
constexpr std::size_t most_tensor_dimensions = 64;                 // as torch has it
constexpr std::size_t longest_class_name = 4096;

struct TorchType {
    std::string_view storage, dtype;  // names in torch
    std::string_view name;            // in safetensors
    std::size_t bytes;
};
constexpr std::array torch_types = {
    TorchType{"FloatStorage", "float32", "F32", 4},
    TorchType{"DoubleStorage", "float64", "F64", 8},
    TorchType{"HalfStorage", "float16", "F16", 2},
    TorchType{"BFloat16Storage", "bfloat16", "BF16", 2},
    TorchType{"LongStorage", "int64", "I64", 8},
    TorchType{"IntStorage", "int32", "I32", 4},
    TorchType{"ShortStorage", "int16", "I16", 2},
    TorchType{"CharStorage", "int8", "I8", 1},
    TorchType{"ByteStorage", "uint8", "U8", 1},
    TorchType{"BoolStorage", "bool", "BOOL", 1},
    TorchType{"ComplexFloatStorage", "complex64", "C64", 8},
    TorchType{"ComplexDoubleStorage", "complex128", "C128", 16},
    TorchType{"", "uint16", "U16", 2},
    TorchType{"", "uint32", "U32", 4},
    TorchType{"", "uint64", "U64", 8},
    TorchType{"", "float8_e4m3fn", "F8_E4M3", 1},
    TorchType{"", "float8_e5m2", "F8_E5M2", 1},
};

const TorchType* torch_type(std::string_view name, bool of_storage) {
    if (!name.starts_with("torch.")) return nullptr;
    name.remove_prefix(6);
    for (const TorchType& type : torch_types)
        if ((of_storage ? type.storage : type.dtype) == name) return &type;
    return nullptr;
}

// What a pickle may name beside types and storages. Tensors and dictionaries are made of these; others are data that
// nobody asks for, whatever they are called with.
constexpr std::string_view rebuilt_tensor = "torch._utils._rebuild_tensor_v2",
                           rebuilt_typed_tensor = "torch._utils._rebuild_tensor_v3",
                           rebuilt_parameter = "torch._utils._rebuild_parameter",
                           rebuilt_parameter_with_state = "torch._utils._rebuild_parameter_with_state",
                           ordered_dictionary = "collections.OrderedDict", untyped = "torch.storage.UntypedStorage";
constexpr std::array<std::string_view, 10> ignored_names = {
    "torch.strided",   "torch.per_tensor_affine", "collections.defaultdict", "collections.Counter", "builtins.set",
    "__builtin__.set", "builtins.bytearray",      "_codecs.encode",          "builtins.dict",       "builtins.complex",
};
// These are called with what they give.
constexpr std::array<std::string_view, 7> passing_on = {"torch.Size",
                                                        "torch.device",
                                                        "torch.jit._pickle.restore_type_tag",
                                                        "torch.jit._pickle.build_intlist",
                                                        "torch.jit._pickle.build_doublelist",
                                                        "torch.jit._pickle.build_boollist",
                                                        "torch.jit._pickle.build_tensorlist"};

template <std::size_t count>
bool is_among(const std::array<std::string_view, count>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

bool is_class_of_archive(std::string_view name) {
    return name.starts_with("__torch__.");
}

class TorchPickleMachine {
  public:
    TorchPickleMachine(std::span<const std::byte> bytes, const std::string& what) : bytes_(bytes), what_(what) {}

    TorchPickle run() {
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
        throw DamagedFile(cat(what_, " is damaged: ", why), "copy or download the file again, or save it again");
    }
    [[noreturn]] void refuse(const std::string& name) const {
        fail(cat(what_, " names ", name, ", which is no tensor and no number"),
             "pickles are read as data, and nothing in them is run: save the tensors alone: "
             "torch.save(model.state_dict(), \"model.pt\")");
    }

    // ---- bytes ----
    std::string_view take(std::uint64_t count) {
        if (count > bytes_.size() - at_) damaged("it ends too early");
        const std::string_view out(reinterpret_cast<const char*>(bytes_.data()) + at_, count);
        at_ += count;
        return out;
    }
    std::uint64_t little_endian(std::size_t count) {
        std::uint64_t out = 0;
        const std::string_view bytes = take(count);
        for (std::size_t k = count; k-- > 0;) out = out << 8U | static_cast<unsigned char>(bytes[k]);
        return out;
    }
    std::string_view line() {
        const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
        const std::size_t end = rest.find('\n');
        if (end == std::string_view::npos) damaged("it ends too early");
        at_ += end + 1;
        return rest.substr(0, end);
    }

    // ---- the stack ----
    PickleIndex make(PickleKind kind) {
        if (out_.values.size() >= most_pickled_values) damaged("it has more values than any checkpoint");
        out_.values.emplace_back().kind = kind;
        return static_cast<PickleIndex>(out_.values.size() - 1);
    }
    void push(PickleIndex value) {
        if (stack_.size() >= most_pickled_values) damaged("it has more values than any checkpoint");
        stack_.push_back(value);
    }
    void push_new(PickleKind kind) { push(make(kind)); }
    // All of what nobody asks for is one value.
    void push_other() {
        if (!other_) other_ = make(PickleKind::other);
        push(*other_);
    }
    void push_mark() {
        if (marks_.size() >= most_pickle_marks) damaged("lists stand within one another without an end");
        marks_.push_back(stack_.size());
    }
    PickleIndex top() const {
        if (stack_.size() <= (marks_.empty() ? 0 : marks_.back())) damaged("its stack is empty");
        return stack_.back();
    }
    PickleIndex pop() {
        const PickleIndex out = top();
        stack_.pop_back();
        return out;
    }
    std::vector<PickleIndex> pop_to_mark() {
        if (marks_.empty()) damaged("it has no mark");
        const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
        std::vector<PickleIndex> out(begin, stack_.end());
        stack_.erase(begin, stack_.end());
        marks_.pop_back();
        return out;
    }
    const PickledValue& of_kind(PickleIndex index, PickleKind kind, const char* what) const {
        const PickledValue& value = out_.values[index];
        if (value.kind != kind) damaged(cat("there is no ", what, " where one is asked for"));
        return value;
    }
    void push_integer(std::int64_t value, PickleKind kind = PickleKind::integer) {
        push_new(kind);
        out_.values[stack_.back()].integer = value;
        out_.values[stack_.back()].number = static_cast<double>(value);
    }
    void push_number() {  // the one number that is big-endian
        std::uint64_t bits = 0;
        for (const char c : take(8)) bits = bits << 8U | static_cast<unsigned char>(c);
        push_new(PickleKind::number);
        out_.values[stack_.back()].number = std::bit_cast<double>(bits);
    }
    void push_text(std::string_view text) {
        push_new(PickleKind::text);
        out_.values[stack_.back()].text = text;
    }
    void push_sequence(PickleKind kind, std::vector<PickleIndex> items) {
        push_new(kind);
        out_.values[stack_.back()].items = std::move(items);
    }
    void push_tuple(std::size_t count) {
        std::vector<PickleIndex> items(count);
        for (std::size_t k = count; k-- > 0;) items[k] = pop();
        push_sequence(PickleKind::tuple, std::move(items));
    }
    void push_name(std::string_view module, std::string_view name) {
        const std::string full = cat(module, ".", name);
        const bool known = full == rebuilt_tensor || full == rebuilt_typed_tensor || full == rebuilt_parameter ||
                           full == rebuilt_parameter_with_state || full == ordered_dictionary || full == untyped ||
                           torch_type(full, true) != nullptr || torch_type(full, false) != nullptr ||
                           is_among(ignored_names, full) || is_among(passing_on, full) || is_class_of_archive(full);
        if (!known) refuse(full.substr(0, 200));
        if (full.size() > longest_class_name) damaged("a class has a longer name than any model's");
        push_new(PickleKind::name);
        out_.values[stack_.back()].text = full;
    }
    // Items of a list, a set or a dictionary, which what is no such thing takes as well, since nobody asks for it.
    void add_items(const std::vector<PickleIndex>& items, PickleKind kind) {
        PickledValue& to = out_.values[top()];
        if (to.kind == PickleKind::other) return;
        if (to.kind != kind || (kind == PickleKind::dictionary && items.size() % 2 != 0))
            damaged("it gives items to what takes none");
        to.items.insert(to.items.end(), items.begin(), items.end());
    }

    void step(unsigned char op) {
        switch (op) {
            case 0x80:
                if (little_endian(1) > 5) damaged("it is of a later protocol");
                return;
            case 0x95: take(8); return;  // a frame, which says nothing
            case '(': return push_mark();
            case ')': return push_new(PickleKind::tuple);
            case ']': return push_new(PickleKind::list);
            case '}': return push_new(PickleKind::dictionary);
            case 't': return push_sequence(PickleKind::tuple, pop_to_mark());
            case 'l': return push_sequence(PickleKind::list, pop_to_mark());
            case 'd': {
                std::vector<PickleIndex> items = pop_to_mark();
                if (items.size() % 2 != 0) damaged("a dictionary has a key without a value");
                return push_sequence(PickleKind::dictionary, std::move(items));
            }
            case 0x85: return push_tuple(1);
            case 0x86: return push_tuple(2);
            case 0x87: return push_tuple(3);
            case 0x8f: return push_new(PickleKind::list);  // a set
            case 0x91: return push_sequence(PickleKind::list, pop_to_mark());
            case 'N': return push_new(PickleKind::none);
            case 0x88: return push_integer(1, PickleKind::boolean);
            case 0x89: return push_integer(0, PickleKind::boolean);
            case 'K': return push_integer(static_cast<std::int64_t>(little_endian(1)));
            case 'M': return push_integer(static_cast<std::int64_t>(little_endian(2)));
            case 'J': return push_integer(static_cast<std::int32_t>(little_endian(4)));
            case 0x8a: return push_long(little_endian(1));
            case 0x8b: return push_long(little_endian(4));
            case 'G': return push_number();
            case 'X': return push_text(take(little_endian(4)));
            case 0x8c:
            case 'U': return push_text(take(little_endian(1)));
            case 0x8d: return push_text(take(little_endian(8)));
            case 'C': take(little_endian(1)); return push_other();
            case 'B':
            case 'T': take(little_endian(4)); return push_other();
            case 0x8e: take(little_endian(8)); return push_other();
            case 'c': {
                const std::string_view module = line();
                return push_name(module, line());
            }
            case 0x93: {
                const PickleIndex name = pop(), module = pop();
                return push_name(of_kind(module, PickleKind::text, "name").text,
                                 of_kind(name, PickleKind::text, "name").text);
            }
            case 'q': return remember(little_endian(1));
            case 'r': return remember(little_endian(4));
            case 0x94: return remember(memo_.size());
            case 'h': return recall(little_endian(1));
            case 'j': return recall(little_endian(4));
            case 'a': {
                const PickleIndex item = pop();
                return add_items({item}, PickleKind::list);
            }
            case 'e':
            case 0x90: {
                const std::vector<PickleIndex> items = pop_to_mark();
                return add_items(items, PickleKind::list);
            }
            case 's': {
                const PickleIndex value = pop(), key = pop();
                return add_items({key, value}, PickleKind::dictionary);
            }
            case 'u': {
                const std::vector<PickleIndex> items = pop_to_mark();
                return add_items(items, PickleKind::dictionary);
            }
            case 'Q': return push_storage(pop());
            case 'R': return call();
            case 0x81: return make_object();
            case 'b': return build();
            case '0': pop(); return;
            default:
                fail(cat(what_, " has the opcode ", static_cast<int>(op), ", which makes objects that are no tensors"),
                     "pickles are read as data, and nothing in them is run: save the tensors alone: "
                     "torch.save(model.state_dict(), \"model.pt\")");
        }
    }

    // The bytes of a number in two's complement; one of more than 64 bits is a seed or a hash, which nobody asks for.
    void push_long(std::uint64_t count) {
        const std::string_view bytes = take(count);
        if (count > 8) return push_other();
        std::uint64_t bits = 0;
        for (std::size_t k = bytes.size(); k-- > 0;) bits = bits << 8U | static_cast<unsigned char>(bytes[k]);
        const unsigned shift = 64 - 8 * static_cast<unsigned>(count);
        push_integer(count == 0 ? 0 : static_cast<std::int64_t>(bits << shift) >> shift);
    }

    void remember(std::uint64_t where) { memo_[where] = top(); }
    void recall(std::uint64_t where) {
        const auto at = memo_.find(where);
        if (at == memo_.end()) damaged("it asks for what it did not remember");
        push(at->second);
    }

    // ("storage", class, key, device, elements); bytes of an untyped one.
    void push_storage(PickleIndex id) {
        const std::vector<PickleIndex> parts = of_kind(id, PickleKind::tuple, "storage").items;
        if (parts.size() != 5 || of_kind(parts[0], PickleKind::text, "storage").text != "storage")
            damaged("a storage has other parts than torch writes");
        const std::string& name = of_kind(parts[1], PickleKind::name, "class of a storage").text;
        const TorchType* type = torch_type(name, true);
        if (type == nullptr && name != untyped) damaged(cat(name, " is no storage"));
        PickledTensor out;
        out.storage = of_kind(parts[2], PickleKind::text, "key of a storage").text;
        const std::int64_t count = of_kind(parts[4], PickleKind::integer, "size of a storage").integer;
        out.dtype = type == nullptr ? "" : type->name;
        out.element_bytes = type == nullptr ? 1 : type->bytes;
        if (count < 0 ||
            __builtin_mul_overflow(static_cast<std::uint64_t>(count), out.element_bytes, &out.storage_bytes))
            damaged(cat("a storage has ", count, " elements"));
        push_new(PickleKind::storage);
        out_.values[stack_.back()].tensor = std::make_shared<const PickledTensor>(std::move(out));
    }

    std::vector<std::int64_t> extents(PickleIndex index, const char* what) const {
        std::vector<std::int64_t> out;
        for (const PickleIndex item : of_kind(index, PickleKind::tuple, what).items)
            out.push_back(of_kind(item, PickleKind::integer, what).integer);
        if (out.size() > most_tensor_dimensions) damaged(cat("a tensor has ", out.size(), " dimensions"));
        return out;
    }

    // (storage, offset, sizes, strides, requires_grad, hooks[, dtype])
    PickleIndex tensor_of(const std::vector<PickleIndex>& arguments, bool typed) {
        if (arguments.size() < (typed ? 7 : 5)) damaged("a tensor has other parts than torch writes");
        PickledTensor out = *of_kind(arguments[0], PickleKind::storage, "storage").tensor;
        if (typed) {
            const std::string& name = of_kind(arguments[6], PickleKind::name, "type of a tensor").text;
            const TorchType* type = torch_type(name, false);
            if (type == nullptr) damaged(cat(name, " is no type of a tensor"));
            out.dtype = type->name;
            out.element_bytes = type->bytes;
        }
        if (out.dtype.empty()) damaged("a tensor has no type");
        out.offset = of_kind(arguments[1], PickleKind::integer, "offset of a tensor").integer;
        out.shape = extents(arguments[2], "shape of a tensor");
        out.strides = extents(arguments[3], "strides of a tensor");
        extents_ += out.shape.size() + out.strides.size();
        if (extents_ > most_pickled_values) damaged("it has more values than any checkpoint");
        const bool grad =
            out_.values[arguments[4]].kind == PickleKind::boolean && out_.values[arguments[4]].integer != 0;
        const PickleIndex made = make(PickleKind::tensor);
        out_.values[made].requires_grad = grad;
        out_.values[made].tensor = std::make_shared<const PickledTensor>(std::move(out));
        return made;
    }

    void call() {
        const std::vector<PickleIndex> arguments = of_kind(pop(), PickleKind::tuple, "tuple of arguments").items;
        const std::string name = of_kind(pop(), PickleKind::name, "function").text;
        if (name == rebuilt_tensor || name == rebuilt_typed_tensor)
            return push(tensor_of(arguments, name == rebuilt_typed_tensor));
        if ((name == rebuilt_parameter || name == rebuilt_parameter_with_state) && !arguments.empty()) {
            static_cast<void>(of_kind(arguments[0], PickleKind::tensor, "tensor"));
            out_.values[arguments[0]].requires_grad = arguments.size() > 1 && out_.values[arguments[1]].integer != 0;
            return push(arguments[0]);
        }
        if (is_among(passing_on, name) && !arguments.empty()) return push(arguments[0]);
        if (name == ordered_dictionary || name == "collections.defaultdict" || name == "builtins.dict") {
            push_new(PickleKind::dictionary);
            // OrderedDict([[key, value], …]), as protocols before 2 have it
            if (name == ordered_dictionary && arguments.size() == 1) add_pairs(arguments[0]);
            return;
        }
        push_other();
    }

    void make_object() {
        static_cast<void>(of_kind(pop(), PickleKind::tuple, "tuple of arguments"));
        const std::string name = of_kind(pop(), PickleKind::name, "class").text;
        if (!is_class_of_archive(name)) refuse(cat("an object of ", name));
        push_new(PickleKind::object);
        out_.values[stack_.back()].text = name;
    }

    // Attributes: of other things than objects nobody asks for them, as for an OrderedDict's "_metadata". Classes with
    // a
    // __getstate__ of their own have something else than a dictionary.
    void build() {
        const PickleIndex state = pop();
        PickledValue& object = out_.values[top()];
        if (object.kind == PickleKind::object && out_.values[state].kind == PickleKind::dictionary)
            object.items = {state};
    }

    void add_pairs(PickleIndex list) {
        const std::vector<PickleIndex> pairs = of_kind(list, PickleKind::list, "list of pairs").items;
        for (const PickleIndex pair : pairs) {
            const PickledValue& two = out_.values[pair];
            const std::vector<PickleIndex> items = two.items;
            if ((two.kind != PickleKind::list && two.kind != PickleKind::tuple) || items.size() != 2)
                damaged("a dictionary has a key without a value");
            add_items(items, PickleKind::dictionary);
        }
    }

    std::span<const std::byte> bytes_;
    const std::string& what_;
    std::uint64_t at_ = 0, extents_ = 0;
    std::vector<PickleIndex> stack_;
    std::vector<std::size_t> marks_;
    std::unordered_map<std::uint64_t, PickleIndex> memo_;
    std::optional<PickleIndex> other_;
    TorchPickle out_;
};

}  // namespace

TorchPickle read_torch_pickle(std::span<const std::byte> bytes, const std::string& what) {
    return TorchPickleMachine(bytes, what).run();
}

}  // namespace thunder
