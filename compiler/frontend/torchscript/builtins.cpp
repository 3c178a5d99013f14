// SPDX-License-Identifier: Apache-2.0
// What torch's functions do with numbers, texts, lists and None.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "compiler/frontend/torchscript/interpreter.h"
#include "compiler/support/error.h"

namespace thunderc::torchscript {
namespace {

constexpr std::size_t most_of_list = std::size_t{1} << 20U;
constexpr std::size_t most_compared = std::size_t{1} << 21U;
constexpr std::size_t longest_text = std::size_t{1} << 20U;

const char* const damaged_code = "save the model again with torch.jit.save";

using Items = std::vector<Item>;

const Item& argument(const OperatorCall& call, std::size_t k) {
    if (k >= call.arguments.size()) fail(fmt::format("{} is called with too few arguments", call.name), damaged_code);
    return call.arguments[k];
}

Items& list_of(const OperatorCall& call, std::size_t k = 0) {
    const Item& list = argument(call, k);
    if (!list.is_sequence()) fail(fmt::format("{} of {}", call.name, list.what()), damaged_code);
    return *list.items;
}

// A list that is changed where it lies. What a module holds would keep the change from step to step.
Items& changed_list(const OperatorCall& call) {
    Items& list = list_of(call);
    const Item& of = argument(call, 0);
    if (of.kind == Item::Kind::list && !of.text.empty())
        fail(fmt::format("the model changes its attribute {} as it runs, which a program does not do", of.text),
             "leave the change out of forward(); what depends on it make an input");
    return list;
}

void keep_small(std::size_t count) {
    if (count > most_of_list) fail("a list has more items than a program needs", "make the list shorter");
}

// Whether what is given has no tensor in it, so that what is computed is known.
bool is_plain(const Item& item) {
    if (!item.is_sequence()) return item.kind != Item::Kind::tensor;
    std::vector<const Items*> waiting = {item.items.get()};
    std::set<const Items*> seen = {item.items.get()};  // one may stand in several, or in itself
    while (!waiting.empty()) {
        const Items& list = *waiting.back();
        waiting.pop_back();
        for (const Item& one : list) {
            if (one.kind == Item::Kind::tensor) return false;
            if (one.is_sequence() && seen.insert(one.items.get()).second) waiting.push_back(one.items.get());
        }
    }
    return true;
}

// ---- numbers --------------------------------------------------------------------------------------------------------

[[noreturn]] void too_large(const std::string& name) {
    fail(fmt::format("{} of these numbers leaves the range of 64 bits", name), "compute with smaller numbers");
}

std::int64_t floor_of_quotient(std::int64_t a, std::int64_t b) {
    const std::int64_t quotient = a / b;
    return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::optional<Item> of_integers(const std::string& op, std::int64_t a, std::int64_t b) {
    std::int64_t out = 0;
    if (op == "add") return __builtin_add_overflow(a, b, &out) ? (too_large(op), Item{}) : Item::of(out);
    if (op == "sub") return __builtin_sub_overflow(a, b, &out) ? (too_large(op), Item{}) : Item::of(out);
    if (op == "mul") return __builtin_mul_overflow(a, b, &out) ? (too_large(op), Item{}) : Item::of(out);
    if (op == "__and__") return Item::of(a & b);
    if (op == "__or__") return Item::of(a | b);
    if (op == "__xor__") return Item::of(a ^ b);
    if (op == "max" || op == "prim.max") return Item::of(std::max(a, b));
    if (op == "min" || op == "prim.min") return Item::of(std::min(a, b));
    const bool divides = op == "floordiv" || op == "floor_divide" || op == "remainder";
    if (divides && b == 0) fail("a number is divided by 0", "divide by another one");
    if (divides && (b == -1 && a == INT64_MIN)) too_large(op);
    if (op == "floordiv" || op == "floor_divide") return Item::of(floor_of_quotient(a, b));
    if (op == "remainder") return Item::of(a - b * floor_of_quotient(a, b));
    if (op == "pow" && b >= 0 && std::abs(std::pow(static_cast<double>(a), static_cast<double>(b))) < 0x1p53)
        return Item::of(static_cast<std::int64_t>(std::pow(static_cast<double>(a), static_cast<double>(b))));
    return std::nullopt;
}

std::optional<Item> of_reals(const std::string& op, double a, double b) {
    if (op == "add") return Item::of(a + b);
    if (op == "sub") return Item::of(a - b);
    if (op == "mul") return Item::of(a * b);
    const bool divides = op == "div" || op == "true_divide" || op == "floordiv" || op == "floor_divide";
    if (b == 0 && (divides || op == "remainder")) fail("a number is divided by 0", "divide by another one");
    if (op == "div" || op == "true_divide") return Item::of(a / b);
    if (divides) return Item::of(std::floor(a / b));
    if (op == "remainder") return Item::of(a - b * std::floor(a / b));
    if (op == "pow") return Item::of(std::pow(a, b));
    if (op == "max" || op == "prim.max") return Item::of(std::max(a, b));
    if (op == "min" || op == "prim.min") return Item::of(std::min(a, b));
    return std::nullopt;
}

std::optional<Item> of_comparison(const std::string& op, const Item& a, const Item& b) {
    if (op == "eq") return Item::of(equal(a, b));
    if (op == "ne") return Item::of(!equal(a, b));
    if (!a.is_number() || !b.is_number()) return std::nullopt;
    if (op == "lt") return Item::of(a.number < b.number);
    if (op == "le") return Item::of(a.number <= b.number);
    if (op == "gt") return Item::of(a.number > b.number);
    if (op == "ge") return Item::of(a.number >= b.number);
    return std::nullopt;
}

std::optional<Item> of_two(const OperatorCall& call) {
    const Item& a = argument(call, 0);
    const Item& b = argument(call, 1);
    if (const std::optional<Item> compared = of_comparison(call.name, a, b)) return compared;
    if (a.kind == Item::Kind::text && b.kind == Item::Kind::text && call.name == "add") {
        if (a.text.size() + b.text.size() > longest_text) fail("a text is too long", "make it shorter");
        return Item::of_text(a.text + b.text);
    }
    if (!a.is_number() || !b.is_number()) return std::nullopt;
    const bool logical = a.kind == Item::Kind::boolean && b.kind == Item::Kind::boolean;
    if (logical && call.name.starts_with("__")) {
        const std::optional<Item> out = of_integers(call.name, a.integer, b.integer);
        return out ? std::optional(Item::of(out->integer != 0)) : std::nullopt;
    }
    const bool whole = a.kind != Item::Kind::number && b.kind != Item::Kind::number;
    if (whole)
        if (const std::optional<Item> out = of_integers(call.name, a.integer, b.integer)) return out;
    return of_reals(call.name, a.number, b.number);
}

std::optional<Item> of_one(const OperatorCall& call) {
    const Item& a = argument(call, 0);
    if (!a.is_number()) return std::nullopt;
    const double v = a.number;
    const std::string& op = call.name;
    const bool whole = a.kind != Item::Kind::number;
    const auto as_whole = [&](double rounded) {
        if (!(std::abs(rounded) < 0x1p63)) too_large(op);
        return Item::of(static_cast<std::int64_t>(rounded));
    };
    const auto whole_abs = [&](std::int64_t n) {
        return n == INT64_MIN ? (too_large(op), Item{}) : Item::of(std::abs(n));
    };
    if (op == "neg" && whole && a.integer == INT64_MIN) return a;  // the least number, whose sign was read before it
    if (op == "neg") return whole ? Item::of(-a.integer) : Item::of(-v);
    if (op == "__not__") return Item::of(v == 0);
    if (op == "abs" || op == "prim.abs") return whole ? whole_abs(a.integer) : Item::of(std::abs(v));
    if (op == "sqrt") return Item::of(std::sqrt(v));
    if (op == "exp") return Item::of(std::exp(v));
    if (op == "log") return Item::of(std::log(v));
    if (op == "floor") return as_whole(std::floor(v));
    if (op == "ceil") return as_whole(std::ceil(v));
    if (op == "round") return Item::of(std::nearbyint(v));
    if (op == "Int") return whole ? a : as_whole(std::trunc(v));
    if (op == "Float" || op == "FloatImplicit") return Item::of(v);
    if (op == "Bool") return Item::of(v != 0);
    return std::nullopt;
}

// ---- lists ----------------------------------------------------------------------------------------------------------

std::size_t place_in(const Items& list, const OperatorCall& call, std::int64_t at) {
    const auto size = static_cast<std::int64_t>(list.size());
    if (at < -size || at >= size) fail(fmt::format("{} asks for item {} of {}", call.name, at, size), damaged_code);
    return static_cast<std::size_t>(at < 0 ? at + size : at);
}

Item item_at(const OperatorCall& call) {
    const Item& of = argument(call, 0);
    const Item& at = argument(call, 1);
    if (of.kind == Item::Kind::dictionary) {
        for (std::size_t k = 0; k + 1 < of.items->size(); k += 2)
            if (equal((*of.items)[k], at)) return (*of.items)[k + 1];
        fail("a dictionary has no such key", damaged_code);
    }
    if (of.kind == Item::Kind::text && at.kind == Item::Kind::integer) {
        const auto size = static_cast<std::int64_t>(of.text.size());
        if (at.integer < -size || at.integer >= size) fail("a text has no such letter", damaged_code);
        return Item::of_text(of.text.substr(static_cast<std::size_t>((at.integer + size) % size), 1));
    }
    if (at.kind != Item::Kind::integer) fail("an item of a list is asked for by no number", damaged_code);
    const Items& list = list_of(call);
    return list[place_in(list, call, at.integer)];
}

Item set_item(const OperatorCall& call) {
    if (argument(call, 0).kind == Item::Kind::dictionary)
        fail("dictionaries that change are not supported", "return tensors, tuples and lists from the model");
    Items& list = changed_list(call);
    list[place_in(list, call, argument(call, 1).integer)] = argument(call, 2);
    return argument(call, 0);
}

// slice(list, start, end, step)
Item slice_of_list(const OperatorCall& call) {
    const Items& list = list_of(call);
    const auto size = static_cast<std::int64_t>(list.size());
    const auto bound = [&](std::size_t k, std::int64_t otherwise) {
        if (k >= call.arguments.size() || call.arguments[k].kind == Item::Kind::none) return otherwise;
        const std::int64_t at = call.arguments[k].integer;
        return std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size);
    };
    const std::int64_t step = call.arguments.size() > 3 ? call.arguments[3].integer : 1;
    if (step < 1) fail("a list is cut in steps backwards", damaged_code);
    Items out;
    const std::int64_t end = bound(2, size);
    for (std::int64_t k = bound(1, 0); k < end; k += std::min(step, size))
        out.push_back(list[static_cast<std::size_t>(k)]);
    return Item::sequence(Item::Kind::list, std::move(out));
}

Item append(const OperatorCall& call) {
    Items& list = changed_list(call);
    keep_small(list.size() + 1);
    list.push_back(argument(call, 1));
    return argument(call, 0);
}

Item extend(const OperatorCall& call) {
    Items& list = changed_list(call);
    const Items more = list_of(call, 1);
    keep_small(list.size() + more.size());
    list.insert(list.end(), more.begin(), more.end());
    return argument(call, 0);
}

Item insert(const OperatorCall& call) {
    Items& list = changed_list(call);
    keep_small(list.size() + 1);
    const auto size = static_cast<std::int64_t>(list.size());
    const std::int64_t at = argument(call, 1).integer;
    list.insert(list.begin() + std::clamp<std::int64_t>(at < 0 ? at + size : at, 0, size), argument(call, 2));
    return argument(call, 0);
}

Item pop(const OperatorCall& call) {
    Items& list = changed_list(call);
    const std::size_t at = place_in(list, call, call.arguments.size() > 1 ? call.arguments[1].integer : -1);
    Item out = list[at];
    list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
    return out;
}

Item clear(const OperatorCall& call) {
    changed_list(call).clear();
    return {};
}

Item reverse(const OperatorCall& call) {
    Items& list = changed_list(call);
    std::reverse(list.begin(), list.end());
    return {};
}

Item copied_list(const OperatorCall& call) {
    return Item::sequence(Item::Kind::list, list_of(call));
}

Item joined_lists(const OperatorCall& call) {
    Items out = list_of(call);
    const Items& more = list_of(call, 1);
    keep_small(out.size() + more.size());
    out.insert(out.end(), more.begin(), more.end());
    return Item::sequence(argument(call, 0).kind, std::move(out));
}

Item repeated_list(const OperatorCall& call) {
    const Items& list = list_of(call);
    Items out;
    for (std::int64_t k = 0; k < argument(call, 1).integer && !list.empty(); ++k) {
        keep_small(out.size() + list.size());
        out.insert(out.end(), list.begin(), list.end());
    }
    return Item::sequence(Item::Kind::list, std::move(out));
}

Item length(const OperatorCall& call) {
    const Item& of = argument(call, 0);
    if (of.kind == Item::Kind::text) return Item::of(static_cast<std::int64_t>(of.text.size()));
    if (of.kind == Item::Kind::dictionary) return Item::of(static_cast<std::int64_t>(of.items->size() / 2));
    return Item::of(static_cast<std::int64_t>(list_of(call).size()));
}

Item contains(const OperatorCall& call) {
    const Item& of = argument(call, 0);
    const Item& wanted = argument(call, 1);
    if (of.kind == Item::Kind::text) return Item::of(of.text.find(wanted.text) != std::string::npos);
    const std::size_t step = of.kind == Item::Kind::dictionary ? 2 : 1;
    if (of.items == nullptr) fail(fmt::format("something is looked for in {}", of.what()), damaged_code);
    bool out = false;
    for (std::size_t k = 0; k < of.items->size(); k += step) out = out || equal((*of.items)[k], wanted);
    return Item::of(out);
}

Item is_none(const OperatorCall& call) {
    const Item& a = argument(call, 0);
    const Item& b = argument(call, 1);
    const bool same = a.kind == b.kind && (a.kind == Item::Kind::none || equal(a, b));
    return Item::of(same == (call.name == "__is__"));
}

Item unwrapped(const OperatorCall& call) {
    if (argument(call, 0).kind == Item::Kind::none) fail("a value that is asked for is None", "give the input");
    return argument(call, 0);
}

std::string written(const Item& item) {
    switch (item.kind) {
        case Item::Kind::text: return item.text;
        case Item::Kind::integer: return std::to_string(item.integer);
        case Item::Kind::number: return fmt::format("{}", item.number);
        case Item::Kind::boolean: return item.integer != 0 ? "True" : "False";
        case Item::Kind::none: return "None";
        default: break;
    }
    if (!item.is_sequence()) return item.what();
    std::string out = item.kind == Item::Kind::list ? "[" : "(";
    for (std::size_t k = 0; k < item.items->size() && k < 16; ++k)
        out += (k == 0 ? "" : ", ") + ((*item.items)[k].is_sequence() ? "…" : written((*item.items)[k]));
    return out + (item.kind == Item::Kind::list ? "]" : ")");
}

// "expected {}, got {}" and what stands for the braces.
Item formatted(const OperatorCall& call) {
    const std::string& form = argument(call, 0).text;
    std::string out;
    std::size_t next = 1;
    for (std::size_t at = 0; at < form.size(); ++at) {
        if (form.compare(at, 2, "{}") != 0) {
            out += form[at];
            continue;
        }
        if (next < call.arguments.size()) out += written(call.arguments[next++]);
        ++at;
        if (out.size() > longest_text) fail("a text is too long", "make it shorter");
    }
    return Item::of_text(out);
}

// A device, or nothing: what a warning and a print give.
Item an_option(const OperatorCall& call) {
    static_cast<void>(call);
    Item out;
    out.kind = Item::Kind::option;
    return out;
}
Item nothing_at_all(const OperatorCall& call) {
    static_cast<void>(call);
    return {};
}
Item truth_of_state(const OperatorCall& call) {  // what torch is doing
    return Item::of(call.name == "is_scripting");
}

Item kind_of_device(const OperatorCall& call) {
    static_cast<void>(call);
    return Item::of_text("cpu");
}

Item range_length(const OperatorCall& call) {
    const std::int64_t low = argument(call, 0).integer, high = argument(call, 1).integer,
                       step = argument(call, 2).integer;
    if (step == 0) fail("a range without a step", damaged_code);
    const double count = std::ceil((static_cast<double>(high) - static_cast<double>(low)) / static_cast<double>(step));
    return Item::of(static_cast<std::int64_t>(std::max(0.0, std::min(count, 0x1p62))));
}
Item derived_index(const OperatorCall& call) {
    std::int64_t out = 0;
    if (__builtin_mul_overflow(argument(call, 0).integer, argument(call, 2).integer, &out) ||
        __builtin_add_overflow(argument(call, 1).integer, out, &out))
        too_large("a range");
    return Item::of(out);
}

Item reduced_list(const OperatorCall& call) {
    const Items& list = list_of(call);
    if (list.empty() && call.name != "sum") fail(fmt::format("{} of an empty list", call.name), damaged_code);
    Item out = list.empty() ? Item::of(std::int64_t{0}) : list.front();
    for (std::size_t k = 1; k < list.size(); ++k) {
        OperatorCall both;
        both.name = call.name == "sum" ? "add" : call.name;
        both.arguments = {out, list[k]};
        out = of_two(both).value_or(out);
    }
    return out;
}

// any() and all() of a list of numbers.
Item joined_truth(const OperatorCall& call) {
    bool any = false, all = true;
    for (const Item& item : list_of(call)) {
        any = any || item.number != 0;
        all = all && item.number != 0;
    }
    return Item::of(call.name == "any" ? any : all);
}

// Numbers, or texts. sort() changes the list, sorted() gives another.
Item sorted_list(const OperatorCall& call) {
    const bool in_place = call.name == "sort";
    const Item* reverse = call.at(1, "reverse");
    const Items& list = in_place ? changed_list(call) : list_of(call);
    const auto all = [&](const auto& holds) { return std::all_of(list.begin(), list.end(), holds); };
    const bool texts = all([](const Item& i) { return i.kind == Item::Kind::text; });
    if (!texts && !all([](const Item& i) { return i.is_number() && !std::isnan(i.number); }))
        fail(fmt::format("{} of a list that has something else than numbers, or texts", call.name),
             "sort numbers or texts alone");
    Items out = list;
    std::stable_sort(out.begin(), out.end(), [&](const Item& a, const Item& b) {
        const bool whole = a.kind != Item::Kind::number && b.kind != Item::Kind::number;
        return texts ? a.text < b.text : whole ? a.integer < b.integer : a.number < b.number;
    });
    if (reverse != nullptr && reverse->number != 0) std::reverse(out.begin(), out.end());
    if (!in_place) return Item::sequence(Item::Kind::list, std::move(out));
    changed_list(call) = std::move(out);
    return {};
}

using Builtin = Item (*)(const OperatorCall&);

// Those that take lists and whatever is in them.
const std::map<std::string_view, Builtin>& list_functions() {
    static const std::map<std::string_view, Builtin> table = {
        {"append", append},    {"extend", extend},       {"insert", insert},         {"pop", pop},
        {"clear", clear},      {"reverse", reverse},     {"copy", copied_list},      {"list", copied_list},
        {"len", length},       {"__getitem__", item_at}, {"_set_item", set_item},    {"slice", slice_of_list},
        {"add", joined_lists}, {"mul", repeated_list},   {"__contains__", contains}, {"add_", extend},
    };
    return table;
}

const std::map<std::string_view, Builtin>& plain_functions() {
    static const std::map<std::string_view, Builtin> table = {
        {"__is__", is_none},
        {"__isnot__", is_none},
        {"_unwrap_optional", unwrapped},
        {"prim.unchecked_unwrap_optional", unwrapped},
        {"format", formatted},
        {"device", an_option},
        {"prim.device", an_option},
        {"prim.layout", an_option},
        {"prim.type", kind_of_device},
        {"Generator", an_option},
        {"warn", nothing_at_all},
        {"prim.Print", nothing_at_all},
        {"is_scripting", truth_of_state},
        {"is_tracing", truth_of_state},
        {"is_autocast_enabled", truth_of_state},
        {"is_autocast_cpu_enabled", truth_of_state},
        {"is_inference_mode_enabled", truth_of_state},
        {"__range_length", range_length},
        {"__derive_index", derived_index},
    };
    return table;
}

}  // namespace

namespace {

// `left`: how many more items may be compared.
bool equal(const Item& a, const Item& b, std::size_t& left, std::size_t depth) {
    if (left-- == 0 || depth > 64) fail("lists within lists are compared without an end", damaged_code);
    if (a.is_number() && b.is_number()) {
        const bool whole = a.kind != Item::Kind::number && b.kind != Item::Kind::number;
        return whole ? a.integer == b.integer : a.number == b.number;
    }
    if (a.kind != b.kind) return false;
    if (a.is_sequence() || a.kind == Item::Kind::dictionary)
        return a.items == b.items ||
               std::equal(a.items->begin(), a.items->end(), b.items->begin(), b.items->end(),
                          [&](const Item& x, const Item& y) { return equal(x, y, left, depth + 1); });
    return a.kind == Item::Kind::none || a.kind == Item::Kind::option || (a.text == b.text && a.module == b.module);
}

}  // namespace

bool equal(const Item& a, const Item& b) {
    std::size_t left = most_compared;
    return equal(a, b, left, 0);
}

Tensor tensor_of_numbers(const Item& value) {
    Dims dims;
    std::vector<Item> flat = {value};
    bool whole = true, logical = true;
    while (!flat.empty() && flat.front().is_sequence()) {  // one dimension after the other
        const std::size_t count = flat.front().items->size();
        Items next;
        for (const Item& row : flat) {
            if (!row.is_sequence() || row.items->size() != count)
                fail("a tensor is made of lists of different lengths", "make them equal in the model");
            keep_small(next.size() + count);
            next.insert(next.end(), row.items->begin(), row.items->end());
        }
        dims.push_back(static_cast<std::int64_t>(count));
        if (dims.size() > 8) fail("a tensor is made of lists within lists without an end", damaged_code);
        flat = std::move(next);
    }
    for (const Item& item : flat) {
        if (!item.is_number()) fail(fmt::format("a tensor is made of {}", item.what()), "make it of numbers");
        whole = whole && item.kind != Item::Kind::number;
        logical = logical && item.kind == Item::Kind::boolean;
    }
    Tensor out(Type::tensor(!whole || flat.empty() ? DType::f32 : logical ? DType::boolean : DType::i64, dims));
    for (std::size_t k = 0; k < flat.size(); ++k) {
        if (out.floating())
            out.f[k] = flat[k].number;
        else
            out.i[k] = flat[k].integer;
    }
    return out;
}

bool is_plain_function(const std::string& name) {
    static const std::set<std::string_view> more = {"size",
                                                    "dim",
                                                    "numel",
                                                    "eq",
                                                    "ne",
                                                    "floordiv",
                                                    "__not__",
                                                    "sorted",
                                                    "tensor",
                                                    "is_floating_point",
                                                    "is_grad_enabled",
                                                    "as_tensor",
                                                    "is_complex",
                                                    "is_contiguous",
                                                    "set_grad_enabled"};
    return plain_functions().contains(name) || list_functions().contains(name) || more.contains(name);
}

std::optional<Item> without_tensors(const OperatorCall& call) {
    if (const auto at = plain_functions().find(call.name); at != plain_functions().end()) return at->second(call);
    if (call.arguments.empty()) return std::nullopt;
    const Item& first = call.arguments.front();
    const bool sequence = first.is_sequence() || first.kind == Item::Kind::dictionary || first.kind == Item::Kind::text;
    const bool of_list = sequence && !(first.kind == Item::Kind::text && call.name == "add");
    if (const auto at = list_functions().find(call.name); of_list && at != list_functions().end())
        return at->second(call);
    if (!std::all_of(call.arguments.begin(), call.arguments.end(), [](const Item& i) { return is_plain(i); }))
        return std::nullopt;
    if (call.arguments.size() == 1 && first.is_sequence()) {
        if (call.name == "max" || call.name == "min" || call.name == "sum" || call.name == "prim.max" ||
            call.name == "prim.min")
            return reduced_list(call);
        if (call.name == "any" || call.name == "all") return joined_truth(call);
    }
    const bool sorts = (call.arguments.size() <= 2 && call.name == "sort") || call.name == "sorted";
    if (first.kind == Item::Kind::list && sorts) return sorted_list(call);
    if (call.arguments.size() == 2) return of_two(call);
    return call.arguments.size() == 1 ? of_one(call) : std::nullopt;
}

}  // namespace thunderc::torchscript
