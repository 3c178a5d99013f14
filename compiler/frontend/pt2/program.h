// SPDX-License-Identifier: Apache-2.0
// A program as torch.export saves it: the JSON of its schema as plain data. Nothing is decided here.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/frontend/aten/call.h"
#include "compiler/frontend/shared/zip_archive.h"

namespace thunderc::pt2_frontend {

using aten::Argument;
using aten::Call;
using aten::Graph;
using aten::NamedArgument;
using aten::ScalarType;
using aten::Size;
using aten::TensorMeta;

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
    std::vector<std::string> output_names;         // as forward() returns them: keys of dictionaries, fields; "": none
    std::map<std::string, Range> ranges;           // of dimensions, by symbol
    std::vector<std::string> guards;               // conditions on sizes beyond these
    std::map<std::string, Payload> payloads;       // by the module's name
    std::map<std::string, std::string> classes;    // of modules, with their packages, by path
    std::map<std::string, std::string> functions;  // the author's autograd.Functions: "Round" -> "model.py:12"
};

// Whether the archive is one of torch.export.save; and its model. Throws UserError.
bool is_program(const ZipArchive& archive);
Program read_program(const ZipArchive& archive);

}  // namespace thunderc::pt2_frontend
