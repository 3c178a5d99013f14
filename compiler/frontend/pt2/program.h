// SPDX-License-Identifier: Apache-2.0
// A program as torch.export saves it: the JSON of its schema as plain data. Nothing is decided here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/frontend/shared/zip_archive.h"

namespace thunderc::pt2_frontend {

// A size, which may depend on dimensions that are not fixed: "s77", "2*s77 + 1".
struct Size {
    std::int64_t value = 0;
    std::string expression;  // "": the value

    bool operator==(const Size&) const = default;
};

// Elements' types by their numbers in the schema.
enum class ScalarType : std::int32_t {
    unknown = 0,
    u8 = 1,
    i8 = 2,
    i16 = 3,
    i32 = 4,
    i64 = 5,
    f16 = 6,
    f32 = 7,
    f64 = 8,
    c32 = 9,
    c64 = 10,
    c128 = 11,
    boolean = 12,
    bf16 = 13,
    u16 = 28,
    u32 = 34,
    u64 = 35,
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

struct InputSpec {
    enum class Kind : std::uint8_t { input, parameter, buffer, constant, fixed, other } kind = Kind::other;
    std::string name;    // of the value in the graph
    std::string target;  // the module's name of a parameter, a buffer or a constant; of `other`, what it is
    bool persistent = true;
};

struct OutputSpec {
    enum class Kind : std::uint8_t { output, loss, buffer, parameter, input, other } kind = Kind::other;
    Argument value;
    std::string target;  // what the value becomes, of buffers, parameters and inputs
};

// Where the bytes of a parameter, a buffer or a constant lie.
struct Payload {
    std::string entry;  // of the archive
    bool pickled = false;
    std::optional<TensorMeta> meta;
};

struct Range {
    std::optional<std::int64_t> least, most;
};

struct Program {
    std::string torch_version, schema;  // "2.13.0", "8.20"
    Graph graph;
    std::vector<InputSpec> inputs;
    std::vector<OutputSpec> outputs;
    std::vector<std::string> output_names;       // as forward() returns them: keys of dictionaries, fields; "": none
    std::map<std::string, Range> ranges;         // of dimensions, by symbol
    std::map<std::string, Payload> payloads;     // by the module's name
    std::map<std::string, std::string> classes;  // of modules, with their packages, by path
};

// Whether the archive is one of torch.export.save; and its model. Throws UserError.
bool is_program(const ZipArchive& archive);
Program read_program(const ZipArchive& archive);

}  // namespace thunderc::pt2_frontend
