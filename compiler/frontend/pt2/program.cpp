// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/pt2/program.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc::pt2_frontend {
namespace {

using nlohmann::json;

constexpr std::int64_t schema_major = 8;
constexpr std::string_view model_end = "/models/model.json";
// Of graphs within graphs: no model nests them so, and each is a call of the reader within itself.
constexpr int deepest_json = 32;

[[noreturn]] void malformed(const std::string& what) {
    fail(fmt::format("the program of the archive is not as torch.export.save writes it: {}", what),
         "save the model again, with torch.export.save(torch.export.export(model, args), \"model.pt2\")");
}

// Neither deeper nor of more values than any program: a value takes far more memory than its text.
bool is_of_a_program(std::string_view text) {
    constexpr std::size_t deepest = 500, most_values = std::size_t{1} << 24U;
    std::size_t depth = 0, values = 0;
    bool quoted = false;
    for (std::size_t k = 0; k < text.size(); ++k) {
        const char c = text[k];
        if (c == '"') quoted = !quoted;
        if (quoted && c == '\\') ++k;
        if (quoted) continue;
        if (c == '[' || c == '{') ++depth;
        if ((c == ']' || c == '}') && depth > 0) --depth;
        if (c == '[' || c == '{' || c == ',') ++values;
        if (depth > deepest || values > most_values) return false;
    }
    return true;
}

// Discarded where it is none.
json json_of(const std::string& text) {
    return is_of_a_program(text) ? json::parse(text, nullptr, false) : json(json::value_t::discarded);
}

json parsed(const ZipArchive& archive, const std::string& entry) {
    json out = json_of(archive.text(entry));
    if (out.is_discarded())
        fail(fmt::format("the entry {} of {} is no valid JSON, or larger than any program's", entry,
                         archive.path().string()),
             "save or copy the file again");
    return out;
}

const json& member(const json& of, const char* name, const char* what) {
    if (!of.is_object() || !of.contains(name)) malformed(fmt::format("{} has no \"{}\"", what, name));
    return of.at(name);
}

std::string text_of(const json& value, const char* what) {
    if (!value.is_string()) malformed(fmt::format("{} is no text", what));
    return value.get<std::string>();
}

std::int64_t integer_of(const json& value, const char* what) {
    if (!value.is_number_integer()) malformed(fmt::format("{} is no whole number", what));
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max())
        malformed(fmt::format("{} is {}, which 64 bits do not hold", what, value.get<std::uint64_t>()));
    return value.get<std::int64_t>();
}

double number_of(const json& value, const char* what) {
    if (value.is_number()) return value.get<double>();
    if (value == "Infinity") return std::numeric_limits<double>::infinity();
    if (value == "-Infinity") return -std::numeric_limits<double>::infinity();
    if (value == "NaN") return std::numeric_limits<double>::quiet_NaN();
    malformed(fmt::format("{} is no number", what));
}

const json& list_of(const json& value, const char* what) {
    if (!value.is_array()) malformed(fmt::format("{} is no list", what));
    return value;
}

// {"as_int": 3}, {"as_expr": {"expr_str": "s77"}}
Size size_of(const json& value) {
    Size out;
    if (value.is_object() && value.contains("as_int")) {
        out.value = integer_of(value.at("as_int"), "a size");
    } else if (value.is_object() && value.contains("as_expr")) {
        out.expression = text_of(member(value.at("as_expr"), "expr_str", "a size"), "a size");
    } else {
        malformed("a size is neither a number nor an expression");
    }
    return out;
}

TensorMeta meta_of(const json& value) {
    TensorMeta out;
    const auto sizes = [](const json& list) {
        std::vector<Size> all;
        for (const json& size : list_of(list, "the sizes of a tensor")) all.push_back(size_of(size));
        return all;
    };
    out.type = static_cast<ScalarType>(integer_of(member(value, "dtype", "a tensor"), "a tensor's dtype"));
    out.sizes = sizes(member(value, "sizes", "a tensor"));
    out.strides = sizes(member(value, "strides", "a tensor"));
    out.offset = size_of(member(value, "storage_offset", "a tensor"));
    const json& grad = member(value, "requires_grad", "a tensor");
    out.requires_grad = grad.is_boolean() && grad.get<bool>();
    return out;
}

// ---- arguments and graphs -------------------------------------------------------------------------------------------

Graph graph_of(const json& value, int depth);

Argument named(std::string name) {
    Argument out;
    out.kind = name.empty() ? Argument::Kind::none : Argument::Kind::name;
    out.text = std::move(name);
    return out;
}

Argument integer(std::int64_t value, Argument::Kind kind = Argument::Kind::integer) {
    Argument out;
    out.kind = kind;
    out.integer = value;
    return out;
}

Argument argument_of(const json& value, int depth);

Argument list(const json& values, int depth, const std::function<Argument(const json&)>& item) {
    Argument out;
    out.kind = Argument::Kind::list;
    if (depth > deepest_json) malformed("its arguments are nested too deeply");
    for (const json& v : list_of(values, "a list of arguments")) out.items.push_back(item(v));
    return out;
}

Argument name_in(const json& value) {
    return named(text_of(member(value, "name", "an argument"), "the name of an argument"));
}

// A union has one member, which says what it is.
Argument argument_of(const json& value, int depth) {
    if (!value.is_object() || value.size() != 1) malformed("an argument is no union of one member");
    const std::string kind = value.begin().key();
    const json& v = value.begin().value();
    const auto nested = [&](const json& item) { return argument_of(item, depth + 1); };
    const auto whole = [](const json& item) { return integer(integer_of(item, "an argument")); };
    const auto real = [](const json& item) {
        Argument out;
        out.kind = Argument::Kind::number;
        out.number = number_of(item, "an argument");
        return out;
    };
    const auto truth = [](const json& item) {
        if (!item.is_boolean()) malformed("an argument is no boolean");
        return integer(item.get<bool>() ? 1 : 0, Argument::Kind::boolean);
    };
    const auto text = [](const json& item) {
        Argument out;
        out.kind = Argument::Kind::text;
        out.text = text_of(item, "an argument");
        return out;
    };
    if (kind == "as_none") return {};
    if (kind == "as_tensor") return name_in(v);
    if (kind == "as_tensors") return list(v, depth, name_in);
    if (kind == "as_name") return named(text_of(v, "the name of an argument"));
    if (kind == "as_int") return whole(v);
    if (kind == "as_ints") return list(v, depth, whole);
    if (kind == "as_float") return real(v);
    if (kind == "as_floats") return list(v, depth, real);
    if (kind == "as_bool") return truth(v);
    if (kind == "as_bools") return list(v, depth, truth);
    if (kind == "as_string") return text(v);
    if (kind == "as_strings") return list(v, depth, text);
    if (kind == "as_sym_int" || kind == "as_sym_float" || kind == "as_sym_bool" || kind == "as_optional_tensor")
        return argument_of(v, depth + 1);
    if (kind == "as_sym_ints" || kind == "as_sym_floats" || kind == "as_sym_bools" || kind == "as_optional_tensors")
        return list(v, depth, nested);
    if (kind == "as_nested_tensors")
        return list(v, depth, [&](const json& inner) { return list(inner, depth + 1, name_in); });
    if (kind == "as_int_lists") return list(v, depth, [&](const json& inner) { return list(inner, depth + 1, whole); });
    if (kind == "as_scalar_type") return integer(integer_of(v, "the type of an argument"), Argument::Kind::scalar_type);
    Argument out;
    if (kind == "as_graph") {
        if (depth > deepest_json) malformed("its graphs are nested too deeply");
        out.kind = Argument::Kind::graph;
        out.graph = std::make_shared<Graph>(graph_of(member(v, "graph", "a graph"), depth + 1));
        return out;
    }
    const bool option = kind == "as_memory_format" || kind == "as_layout" || kind == "as_device";
    out.kind = option ? Argument::Kind::option : Argument::Kind::other;
    out.text = kind;
    return out;
}

std::string last_part(const std::string& dotted) {
    return dotted.substr(dotted.rfind('.') + 1);  // npos + 1 is 0
}

// "L__self__model,model,pkg.LlamaModel;L__self__model.norm,model.norm,pkg.Norm": key, path and class of each module,
// the innermost last. A module that is called again has "@1" behind its path.
void add_modules(const std::string& stack, Call& call, Program& program) {
    for (std::size_t at = 0; at < stack.size();) {
        const std::size_t end = std::min(stack.find(';', at), stack.size());
        const std::string entry = stack.substr(at, end - at);
        at = end + 1;
        const std::size_t type = entry.rfind(',');
        const std::size_t path = type == std::string::npos || type == 0 ? type : entry.rfind(',', type - 1);
        if (type == std::string::npos || path == std::string::npos) continue;
        call.scope = entry.substr(path + 1, type - path - 1);
        if (const std::size_t again = call.scope.rfind('@'); again != std::string::npos) call.scope.resize(again);
        const std::string qualified = entry.substr(type + 1);
        call.module_class = last_part(qualified);
        program.classes[call.scope] = qualified;
    }
}

// A call on the way to a node: File "/home/me/model.py", line 12, in forward, and the code of the line.
struct Frame {
    std::string place;  // "model.py:12"
    std::string function, code;
    bool of_torch = false;
};

std::vector<Frame> frames_of(const std::string& trace) {
    std::vector<Frame> out;
    constexpr std::string_view begin = "File \"", between = "\", line ", in = ", in ";
    for (std::size_t at = trace.find(begin), next = 0; at != std::string::npos; at = next) {
        next = trace.find(begin, at + 1);
        const std::size_t path = at + begin.size(), end = trace.find(between, path);
        if (end == std::string::npos) break;
        const std::string file = trace.substr(path, end - path);
        const std::size_t digits = end + between.size(), behind = trace.find_first_not_of("0123456789", digits);
        Frame& frame = out.emplace_back();
        frame.place = fmt::format("{}:{}", file.substr(file.rfind('/') + 1), trace.substr(digits, behind - digits));
        frame.of_torch = file.find("/torch/") != std::string::npos;
        const std::string rest = behind == std::string::npos ? "" : trace.substr(behind, next - behind);
        const std::size_t line_end = std::min(rest.find('\n'), rest.size());
        if (rest.starts_with(in)) frame.function = rest.substr(in.size(), line_end - in.size());
        frame.code = rest.substr(line_end);
    }
    return out;
}

// The last line that is none of torch's own: "modeling_llama.py:182".
std::string line_of(const std::vector<Frame>& trace) {
    std::string found;
    for (const Frame& frame : trace)
        if (!frame.of_torch) found = frame.place;
    return found;
}

// What apply() calls forward() of, with torch's own calls between the two.
void add_functions(std::vector<Frame> trace, Program& program) {
    constexpr std::string_view applied = ".apply(";
    std::erase_if(trace, [](const Frame& frame) { return frame.of_torch; });
    for (std::size_t k = 0; k + 1 < trace.size(); ++k) {
        const std::size_t end = trace[k].code.find(applied);
        if (trace[k + 1].function != "forward" || end == std::string::npos) continue;
        std::size_t begin = end;
        const auto of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_' || c == '.'; };
        while (begin > 0 && of_name(static_cast<unsigned char>(trace[k].code[begin - 1]))) --begin;
        if (begin < end) program.functions.try_emplace(trace[k].code.substr(begin, end - begin), trace[k].place);
    }
}

constexpr std::string_view ops_prefix = "torch.ops.";

class Reader {
  public:
    explicit Reader(Program& program) : program_(&program) {}

    Graph graph(const json& value, int depth) {
        Graph out;
        for (const json& input : list_of(member(value, "inputs", "a graph"), "the inputs of a graph"))
            out.inputs.push_back(argument_of(input, depth));
        for (const json& output : list_of(member(value, "outputs", "a graph"), "the outputs of a graph"))
            out.outputs.push_back(argument_of(output, depth));
        for (const json& node : list_of(member(value, "nodes", "a graph"), "the nodes of a graph"))
            out.calls.push_back(call(node, depth));
        const json& tensors = member(value, "tensor_values", "a graph");
        if (!tensors.is_object()) malformed("the tensors of a graph are no map");
        for (const auto& [name, meta] : tensors.items()) out.tensors.emplace(name, meta_of(meta));
        if (value.contains("sym_int_values") && value.at("sym_int_values").is_object())
            for (const auto& [name, size] : value.at("sym_int_values").items())
                out.integers.emplace(name, size_of(size));
        return out;
    }

  private:
    Call call(const json& node, int depth) {
        Call out;
        out.target = text_of(member(node, "target", "a node"), "the target of a node");
        if (out.target.starts_with(ops_prefix)) out.target.erase(0, ops_prefix.size());
        for (const json& input : list_of(member(node, "inputs", "a node"), "the inputs of a node"))
            out.arguments.push_back({text_of(member(input, "name", "an input"), "the name of an input"),
                                     argument_of(member(input, "arg", "an input"), depth)});
        for (const json& output : list_of(member(node, "outputs", "a node"), "the outputs of a node"))
            out.results.push_back(argument_of(output, depth));
        if (node.contains("name") && node.at("name").is_string()) out.name = node.at("name").get<std::string>();
        const auto first = std::find_if(out.results.begin(), out.results.end(),
                                        [](const Argument& r) { return r.kind == Argument::Kind::name; });
        if (out.name.empty() && first != out.results.end()) out.name = first->text;
        if (out.name.empty()) out.name = out.target;
        if (node.contains("metadata") && node.at("metadata").is_object()) {
            const json& metadata = node.at("metadata");
            const auto value = [&](const char* key) {
                return metadata.contains(key) && metadata.at(key).is_string() ? metadata.at(key).get<std::string>()
                                                                              : std::string();
            };
            add_modules(value("nn_module_stack"), out, *program_);
            out.line = line_of(frames_of(value("stack_trace")));
        }
        return out;
    }

    Program* program_;
};

// Graphs within arguments have modules as well, which nobody asks for: those of their calls are enough.
Graph graph_of(const json& value, int depth) {
    Program ignored;
    return Reader(ignored).graph(value, depth);
}

// ---- the signature --------------------------------------------------------------------------------------------------

std::string name_of_argument(const json& spec) {
    const json& arg = member(spec, "arg", "a signature");
    if (arg.is_object() && arg.contains("name")) return text_of(arg.at("name"), "the name of an argument");
    const Argument value = argument_of(arg, 0);
    return value.kind == Argument::Kind::name ? value.text : "";
}

InputSpec input_of(const json& spec) {
    if (!spec.is_object() || spec.size() != 1) malformed("an input of its signature is no union of one member");
    const std::string kind = spec.begin().key();
    const json& v = spec.begin().value();
    InputSpec out;
    if (kind == "constant_input") {
        out.kind = InputSpec::Kind::fixed;
        out.name = text_of(member(v, "name", "a signature"), "the name of an input");
        return out;
    }
    if (kind == "token" || kind == "custom_obj") {
        out.target = kind == "token" ? "a token of an effect" : "an object of a class of its own";
        return out;
    }
    out.name = name_of_argument(v);
    const auto target = [&](const char* key) { return text_of(member(v, key, "a signature"), "a module's name"); };
    if (kind == "user_input") {
        out.kind = out.name.empty() ? InputSpec::Kind::fixed : InputSpec::Kind::input;
    } else if (kind == "parameter") {
        out.kind = InputSpec::Kind::parameter;
        out.target = target("parameter_name");
    } else if (kind == "buffer") {
        out.kind = InputSpec::Kind::buffer;
        out.target = target("buffer_name");
        out.persistent = !v.contains("persistent") || v.at("persistent") != false;
    } else if (kind == "tensor_constant") {
        out.kind = InputSpec::Kind::constant;
        out.target = target("tensor_constant_name");
    } else {
        malformed(fmt::format("its signature has an input of the kind \"{}\"", kind));
    }
    return out;
}

OutputSpec output_of(const json& spec) {
    if (!spec.is_object() || spec.size() != 1) malformed("an output of its signature is no union of one member");
    const std::string kind = spec.begin().key();
    const json& v = spec.begin().value();
    OutputSpec out;
    const json& arg = member(v, "arg", "a signature");
    out.value = kind == "user_output" ? argument_of(arg, 0)
                : kind == "token"     ? Argument{}
                                      : named(text_of(member(arg, "name", "a signature"), "the name of an output"));
    const auto target = [&](const char* key) { out.target = text_of(member(v, key, "a signature"), "a name"); };
    if (kind == "user_output") {
        out.kind = OutputSpec::Kind::output;
    } else if (kind == "loss_output") {
        out.kind = OutputSpec::Kind::loss;
    } else if (kind == "buffer_mutation") {
        out.kind = OutputSpec::Kind::buffer;
        target("buffer_name");
    } else if (kind == "parameter_mutation") {
        out.kind = OutputSpec::Kind::parameter;
        target("parameter_name");
    } else if (kind == "user_input_mutation") {
        out.kind = OutputSpec::Kind::input;
        target("user_input_name");
    }
    return out;
}

// ---- names of outputs -----------------------------------------------------------------------------------------------

// The keys of a node of the tree that forward() returns: of a dictionary, and of classes that are registered with the
// names of their fields (of data classes two lists, the second of fields that are None); those of tuples are numbers.
// Of named tuples there is the class's name alone, to which thunderc.export adds the fields: "model.Out(loss, logits)".
std::vector<std::string> keys_of(const json& spec, std::size_t children) {
    std::vector<std::string> keys;
    if (spec.contains("context") && spec.at("context").is_string()) {
        const std::string text = spec.at("context").get<std::string>();
        json context = json_of(text);
        if (context.is_array() && context.size() == 2 && context[0].is_array() && context[1].is_array())
            context = json(context[0]);
        if (context.is_array() && context.size() == children)
            for (const json& key : context)
                if (key.is_string()) keys.push_back(key.get<std::string>());
        if (const std::size_t open = text.find('('); context.is_discarded() && open != std::string::npos)
            for (std::size_t begin = open + 1; begin < text.size();) {
                const std::size_t end = std::min(text.find_first_of(",)", begin), text.size());
                keys.push_back(text.substr(begin, end - begin));
                begin = std::max(text.find_first_not_of(" ,)", end), end);
            }
    }
    if (keys.size() != children) keys.clear();
    return keys;
}

// One name for each leaf; where no key leads there, none. Returns whether some key does.
void add_leaves(const json& spec, const std::string& path, bool named_path, std::vector<std::string>& names,
                int depth) {
    if (!spec.is_object() || !spec.contains("children_spec") || !spec.at("children_spec").is_array() ||
        depth > deepest_json)
        return;
    const json& children = spec.at("children_spec");
    if (spec.contains("type") && spec.at("type").is_null()) {
        names.push_back(named_path ? path : "");
        return;
    }
    const std::vector<std::string> keys = keys_of(spec, children.size());
    for (std::size_t k = 0; k < children.size(); ++k) {
        const std::string key = keys.empty() ? std::to_string(k) : keys[k];
        add_leaves(children[k], path.empty() ? key : path + "." + key, named_path || !keys.empty(), names, depth + 1);
    }
}

std::vector<std::string> output_names(const json& module_calls) {
    std::vector<std::string> names;
    if (!module_calls.is_array() || module_calls.empty()) return names;
    const json& root = module_calls.front();
    if (!root.is_object() || !root.contains("signature") || !root.at("signature").is_object()) return names;
    const json& signature = root.at("signature");
    if (!signature.contains("out_spec") || !signature.at("out_spec").is_string()) return names;
    const json spec = json_of(signature.at("out_spec").get<std::string>());
    if (spec.is_array() && spec.size() == 2) add_leaves(spec[1], "", false, names, 0);
    return names;
}

// ---- weights --------------------------------------------------------------------------------------------------------

void add_payloads(const ZipArchive& archive, const std::string& folder, const std::string& config, Program& program) {
    const std::string entry = folder + config;
    if (archive.find(entry) == nullptr)
        fail(fmt::format("{} has no {}", archive.path().string(), config),
             "load and save it again with PyTorch 2.13: torch.export.save(torch.export.load(\"model.pt2\"), "
             "\"again.pt2\")");
    const json all = parsed(archive, entry);
    const json& map = member(all, "config", "the list of weights");
    if (!map.is_object()) malformed("its list of weights is no map");
    for (const auto& [name, value] : map.items()) {
        Payload payload;
        payload.entry = folder + text_of(member(value, "path_name", "a weight"), "the path of a weight");
        payload.pickled = value.contains("use_pickle") && value.at("use_pickle") == true;
        if (value.contains("tensor_meta") && value.at("tensor_meta").is_object())
            payload.meta = meta_of(value.at("tensor_meta"));
        program.payloads.emplace(name, std::move(payload));
    }
}

void add_ranges(const json& program, Program& out) {
    if (!program.contains("range_constraints") || !program.at("range_constraints").is_object()) return;
    for (const auto& [symbol, range] : program.at("range_constraints").items()) {
        Range bounds;
        const auto bound = [&](const char* key, std::optional<std::int64_t>& to) {
            if (range.is_object() && range.contains(key) && range.at(key).is_number_integer() &&
                !(range.at(key).is_number_unsigned() &&
                  range.at(key).get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()))
                to = range.at(key).get<std::int64_t>();
        };
        bound("min_val", bounds.least);
        bound("max_val", bounds.most);
        out.ranges.emplace(symbol, bounds);
    }
}

// Those of all graphs, also of the one that stands within a call (strict mode puts forward() there).
void add_functions(const json& graph, Program& program) {
    if (graph.is_object() && graph.contains("stack_trace") && graph.at("stack_trace").is_string())
        add_functions(frames_of(graph.at("stack_trace").get<std::string>()), program);
    if (graph.is_structured())
        for (const json& part : graph) add_functions(part, program);
}

}  // namespace

bool is_program(const ZipArchive& archive) {
    return archive.only_with_end(model_end).has_value();
}

Program read_program(const ZipArchive& archive) {
    const std::string entry = archive.only_with_end(model_end).value();
    const std::string root = entry.substr(0, entry.size() - model_end.size());
    const json all = parsed(archive, entry);
    Program out;
    const json& version = member(all, "schema_version", "the program");
    const std::int64_t major = integer_of(member(version, "major", "the schema's version"), "the schema's version");
    const std::int64_t minor = integer_of(member(version, "minor", "the schema's version"), "the schema's version");
    out.schema = fmt::format("{}.{}", major, minor);
    if (all.contains("torch_version") && all.at("torch_version").is_string())
        out.torch_version = all.at("torch_version").get<std::string>();
    if (major != schema_major) {
        Diagnostic d;
        d.message = fmt::format("the program of {} is of version {} of torch.export's schema, which is not supported",
                                archive.path().string(), out.schema);
        d.expected = fmt::format("version {}", schema_major);
        d.actual = fmt::format("version {}{}", out.schema,
                               out.torch_version.empty() ? "" : ", of PyTorch " + out.torch_version);
        d.help = "export and save the model with PyTorch 2.13";
        throw UserError(std::move(d));
    }
    if (archive.find(root + "/byteorder") != nullptr && archive.text(root + "/byteorder") == "big")
        fail(fmt::format("{} was saved on a machine with the other order of bytes", archive.path().string()),
             "save it on a little-endian machine");
    const json& module = member(all, "graph_module", "the program");
    out.graph = Reader(out).graph(member(module, "graph", "the program"), 0);
    add_functions(member(module, "graph", "the program"), out);
    const json& signature = member(module, "signature", "the program");
    for (const json& spec : list_of(member(signature, "input_specs", "the signature"), "the inputs of its signature"))
        out.inputs.push_back(input_of(spec));
    for (const json& spec : list_of(member(signature, "output_specs", "the signature"), "the outputs of its signature"))
        out.outputs.push_back(output_of(spec));
    if (module.contains("module_call_graph")) out.output_names = output_names(module.at("module_call_graph"));
    add_ranges(all, out);
    if (all.contains("guards_code") && all.at("guards_code").is_array())
        for (const json& guard : all.at("guards_code"))
            if (guard.is_string()) out.guards.push_back(guard.get<std::string>());
    add_payloads(archive, root + "/data/weights/", "model_weights_config.json", out);
    add_payloads(archive, root + "/data/constants/", "model_constants_config.json", out);
    return out;
}

}  // namespace thunderc::pt2_frontend
