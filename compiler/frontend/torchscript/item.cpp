// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/item.h"

#include <algorithm>

namespace thunderc::torchscript {
namespace {

// A list goes with those within it, however deep they are: one after the other, and not each within the one before.
void let_go(std::vector<Item>* list) {
    std::vector<std::shared_ptr<std::vector<Item>>> waiting;
    const auto take = [&](std::vector<Item>& from) {
        for (Item& item : from)
            if (item.items != nullptr) waiting.push_back(std::move(item.items));
    };
    take(*list);
    delete list;
    while (!waiting.empty()) {
        const std::shared_ptr<std::vector<Item>> one = std::move(waiting.back());
        waiting.pop_back();
        if (one.use_count() == 1) take(*one);
    }
}

}  // namespace

Item Item::of(std::int64_t v) {
    Item out;
    out.kind = Kind::integer;
    out.integer = v;
    out.number = static_cast<double>(v);
    return out;
}

Item Item::of(double v) {
    Item out;
    out.kind = Kind::number;
    out.number = v;
    return out;
}

Item Item::of(bool v) {
    Item out = of(std::int64_t{v ? 1 : 0});
    out.kind = Kind::boolean;
    return out;
}

Item Item::of_text(std::string text) {
    Item out;
    out.kind = Kind::text;
    out.text = std::move(text);
    return out;
}

Item Item::tensor(std::string name) {
    Item out = of_text(std::move(name));
    out.kind = Kind::tensor;
    return out;
}

Item Item::sequence(Kind kind, std::vector<Item> items) {
    Item out;
    out.kind = kind;
    out.items = {new std::vector<Item>(std::move(items)), let_go};
    return out;
}

const char* Item::what() const {
    switch (kind) {
        case Kind::none: return "None";
        case Kind::tensor: return "a tensor";
        case Kind::integer: return "a whole number";
        case Kind::number: return "a number";
        case Kind::boolean: return "a boolean";
        case Kind::text: return "a text";
        case Kind::list: return "a list";
        case Kind::tuple: return "a tuple";
        case Kind::dictionary: return "a dictionary";
        case Kind::module: return "a module";
        case Kind::function: return "a function";
        case Kind::gradients: return "a context of gradients";
        case Kind::option: return "a device";
        case Kind::uninitialized: return "nothing, behind an exception";
    }
    return "nothing";
}

const Item* ModuleObject::attribute(const std::string& name) const {
    const auto at = std::find_if(attributes.begin(), attributes.end(), [&](const auto& a) { return a.first == name; });
    return at == attributes.end() ? nullptr : &at->second;
}

}  // namespace thunderc::torchscript
