// SPDX-License-Identifier: Apache-2.0
// What a name of TorchScript's code stands for while the code is run.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "compiler/frontend/torchscript/syntax.h"

namespace thunderc::torchscript {

struct ModuleObject;

struct Item {
    enum class Kind : std::uint8_t {
        none,
        tensor,  // text: the name by which the import knows it
        integer,
        number,
        boolean,
        text,
        list,        // shared by all names of it, as Python has it; text: its name, where it is a module's attribute
        tuple,       // text: its class, of named tuples
        dictionary,  // items: key, value, key, value
        module,
        function,       // text: "__torch__.torch.nn.functional.relu"
        gradients,      // torch.no_grad() and the like; integer: whether gradients are kept within
        option,         // a device, a generator: nothing that a program is asked for
        uninitialized,  // what a branch that raises leaves
    };
    Kind kind = Kind::none;
    std::int64_t integer = 0;  // of booleans as well
    double number = 0;         // of integers as well
    std::string text;
    std::shared_ptr<std::vector<Item>> items;
    const ModuleObject* module = nullptr;

    static Item of(std::int64_t v);
    static Item of(double v);
    static Item of(bool v);
    static Item of_text(std::string text);
    static Item tensor(std::string name);
    static Item sequence(Kind kind, std::vector<Item> items);
    bool is_number() const { return kind == Kind::integer || kind == Kind::number || kind == Kind::boolean; }
    bool is_sequence() const { return kind == Kind::list || kind == Kind::tuple; }
    const char* what() const;  // for messages: "a list"
};

// A module of the archive with its attributes.
struct ModuleObject {
    std::string path;  // "model.layers.0"; "" of the root
    std::string type;  // "__torch__.torch.nn.modules.linear.___torch_mangle_8.Linear"
    const ClassCode* code = nullptr;
    std::vector<std::pair<std::string, Item>> attributes;
    const Item* attribute(const std::string& name) const;  // nullptr: there is none
};

}  // namespace thunderc::torchscript
