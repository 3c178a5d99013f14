// SPDX-License-Identifier: Apache-2.0
// Calls of ATen's operators as a file has them, as plain data: names of values, numbers and lists. Nothing is decided
// here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "compiler/frontend/aten/types.h"

namespace thunderc::aten {

// A size, which may depend on dimensions that are not fixed: "s77", "2*s77 + 1".
struct Size {
    std::int64_t value = 0;
    std::string expression;  // "": the value

    bool operator==(const Size&) const = default;
};

struct TensorMeta {
    ScalarType type = ScalarType::unknown;
    std::vector<Size> sizes, strides;
    Size offset;  // elements, into the storage
    bool requires_grad = false;
};

struct Graph;

// What a call takes or gives.
struct Argument {
    enum class Kind : std::uint8_t {
        none,
        name,  // of a tensor, or of a number that the graph computes
        integer,
        number,
        boolean,
        text,
        scalar_type,
        option,  // layouts, devices, memory formats: nothing that a program is asked for
        list,
        graph,
        other,  // what nothing here takes: `text` says what it is
    };
    Kind kind = Kind::none;
    std::int64_t integer = 0;  // of booleans and scalar types as well
    double number = 0;
    std::string text;
    std::vector<Argument> items;
    std::shared_ptr<const Graph> graph;
};

// A list among the results of a call whose length the operator decides: its text is what its items are called by.
bool is_open(const Argument& list);
std::string item_of(const Argument& open_list, std::size_t k);

struct NamedArgument {
    std::string name;
    Argument value;
};

// One call of the graph.
struct Call {
    std::string name;    // "linear_3"
    std::string target;  // "aten.linear.default", "higher_order.cond"
    std::vector<NamedArgument> arguments;
    std::vector<Argument> results;
    std::string scope, module_class;  // of the module that makes it: "model.layers.0.mlp", "LlamaMLP"
    std::string line;                 // of the author's code: "modeling_llama.py:182", "" where not known
};

struct Graph {
    std::vector<Argument> inputs, outputs;
    std::vector<Call> calls;
    std::map<std::string, TensorMeta> tensors;
    std::map<std::string, Size> integers;  // numbers that the graph computes of sizes
};

}  // namespace thunderc::aten
