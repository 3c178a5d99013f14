// SPDX-License-Identifier: Apache-2.0
#include "compiler/ir/print.h"

#include <fmt/format.h>

#include <cmath>
#include <set>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Names = std::vector<std::string>;

bool plain(const Provenance& p) {
    return p.scope.empty() && p.module_class.empty() && p.nodes.empty() && p.reads.empty();
}

std::string element_text(const Tensor& tensor, std::int64_t index) {
    if (tensor.floating()) return number_text(tensor.at(index));
    return std::to_string(tensor.i[static_cast<std::size_t>(index)]);
}

std::string placement_text(const Placement& p, const Names& names) {
    if (p.arena == Placement::Arena::unplaced) return "";
    std::string out = fmt::format(" @{}+{}", name_of(p.arena), p.offset);
    if (p.layer_stride != 0) out += fmt::format(" layer {}", p.layer_stride);
    if (p.slots != 0) out += fmt::format(" slots {}", p.slots);
    if (!p.strides.empty()) out += fmt::format(" strides [{}]", to_string(p.strides));
    if (p.view_of) out += fmt::format(" view %{}", names[p.view_of.index]);
    return out;
}

std::string typed(const ValueInfo& info, const Names& names) {
    return to_string(info.type) + placement_text(info.placement, names);
}

std::string list(const std::vector<Value>& operands, const Names& names) {
    std::string out;
    for (Value v : operands) out += fmt::format("{}{}", out.empty() ? "" : ", ", v ? "%" + names[v.index] : "_");
    return out;
}

std::string quoted_list(const std::vector<std::string>& texts) {
    std::string out;
    for (const std::string& text : texts) out += (out.empty() ? "" : ", ") + quote(text);
    return out;
}

// A pattern that reads back to the same names, or all of them.
std::string names_text(const std::vector<std::string>& names) {
    std::string pattern = name_pattern(names);
    bool folded = names.size() > 1 && pattern.find(", ") == std::string::npos;
    return folded || names.size() == 1 ? quote(pattern) : "[" + quoted_list(names) + "]";
}

std::string_view kind_name(ArgInfo::Kind kind) {
    constexpr std::string_view names[] = {"input", "parameter", "buffer", "constant",
                                          "state", "scalar",    "output", "value"};
    return names[static_cast<std::size_t>(kind)];
}

std::string argument_info_text(const ArgInfo& info) {
    if (info.kind == ArgInfo::Kind::value && info.names.empty()) return "";
    std::string out = fmt::format(" {} {}", kind_name(info.kind), names_text(info.names));
    std::vector<std::string> fields;
    if (info.batched) fields.emplace_back("batched");
    if (info.added) fields.emplace_back("added");
    if (!info.trainable) fields.emplace_back("frozen");
    if (info.outer) fields.emplace_back("outer");
    if (info.adapter) fields.emplace_back("adapter");
    if (info.init != ArgInfo::Init::normal) fields.push_back(fmt::format("init = {}", name_of(info.init)));
    if (info.entries >= 0) fields.push_back(fmt::format("entries = {}", info.entries));
    if (info.ignore_index != 0) fields.push_back(fmt::format("ignore = {}", info.ignore_index));
    if (!info.columns.empty()) {
        std::vector<std::string> columns;
        std::int64_t begin = 0;
        for (const ArgInfo::Column& c : info.columns) {
            std::string text = fmt::format("{} to {}", begin, c.end);
            if (c.ids.entries >= 0) text += fmt::format(" entries = {}", c.ids.entries);
            if (c.ids.ignore_index != 0) text += fmt::format(" ignore = {}", c.ids.ignore_index);
            if (!c.table.empty()) text += " of " + quote(c.table);
            columns.push_back(std::move(text));
            begin = c.end;
        }
        fields.push_back(fmt::format("columns {} = [{}]", info.column_axis, fmt::join(columns, ", ")));
    }
    if (!info.source.empty()) fields.push_back("source = " + quote(info.source));
    if (!info.note.empty()) fields.push_back("note = " + quote(info.note));
    for (std::size_t k = 0; k < info.aliases.size(); ++k)
        if (!info.aliases[k].empty()) fields.push_back(fmt::format("alias {} = [{}]", k, quoted_list(info.aliases[k])));
    if (!fields.empty()) out += fmt::format(" {{{}}}", fmt::join(fields, ", "));
    return out;
}

std::string op_text(const Function& function, const Op& op, const Names& names, const PrintOptions& options) {
    std::string out = list(op.results, names);
    if (!out.empty()) out += " = ";
    out += fmt::format("{}({})", op.name, list(op.operands, names));
    if (!op.attributes.entries().empty()) {
        std::vector<std::string> entries;
        for (const auto& [name, value] : op.attributes.entries())
            entries.push_back(fmt::format("{} = {}", name, to_string(value, options)));
        out += fmt::format(" {{{}}}", fmt::join(entries, ", "));
    }
    std::string separator = " : ";
    for (Value v : op.results) {
        out += separator + typed(function.info(v), names);
        separator = ", ";
    }
    if (!op.stream.empty()) out += " on " + op.stream;
    if (options.provenance && !plain(op.provenance)) {
        const Provenance& p = op.provenance;
        out += " at " + quote(p.scope);
        if (!p.module_class.empty()) out += " " + quote(p.module_class);
        std::string nodes;
        for (std::size_t k = 0; k < p.nodes.size(); ++k)
            nodes += fmt::format("{}{} {}", k == 0 ? "" : ", ", p.node_ops[k], quote(p.nodes[k]));
        if (!nodes.empty()) out += fmt::format(" [{}]", nodes);
        std::string separator_of_reads = " reads ";
        for (const std::string& name : p.reads) {
            out += separator_of_reads + quote(name);
            separator_of_reads = ", ";
        }
    }
    return out;
}

}  // namespace

std::string quote(const std::string& text) {
    std::string out = "\"";
    for (char c : text) {
        if (c == '"' || c == '\\') out += '\\';
        if (c == '\n')
            out += "\\n";
        else
            out += c;
    }
    return out + "\"";
}

std::string number_text(double value) {
    if (std::isnan(value)) return "nan";
    std::string out = fmt::format("{}", value);
    return out.find_first_of(".ein") == std::string::npos ? out + ".0" : out;
}

std::vector<std::string> unique_names(const Function& function) {
    Names names(function.values.size());
    std::set<std::string> taken;
    std::map<std::string, int> next;  // by hint: where to begin counting, so that many equal hints stay cheap
    auto give = [&](Value v) {
        const std::string hint = function.info(v).name.empty() ? "v" : function.info(v).name;
        std::string name = hint;
        for (int& k = next[hint]; !taken.insert(name).second;) name = fmt::format("{}_{}", hint, ++k);
        names[v.index] = name;
    };
    for (Value v : function.arguments) give(v);
    for (const Op& op : function.ops)
        for (Value v : op.results) give(v);
    return names;
}

std::string to_string(const ConstExpr& expr, const PrintOptions& options) {
    std::string type = to_string(expr.type);
    switch (expr.kind) {
        case ConstExpr::Kind::splat: return fmt::format("{} splat {}", type, number_text(expr.value));
        case ConstExpr::Kind::affine: {
            std::string steps;
            for (double s : expr.step) steps += (steps.empty() ? "" : ", ") + number_text(s);
            return fmt::format("{} affine {} + [{}]", type, number_text(expr.base), steps);
        }
        case ConstExpr::Kind::dense: {
            std::string elements;
            const std::int64_t n = expr.data->size();
            const std::int64_t shown = n <= options.dense_elements ? n : 4;
            for (std::int64_t k = 0; k < shown; ++k) elements += (k == 0 ? "" : ", ") + element_text(*expr.data, k);
            if (shown < n) elements += fmt::format(", ... {} elements", n);
            return fmt::format("{} dense [{}]", type, elements);
        }
        case ConstExpr::Kind::elementwise:
        case ConstExpr::Kind::select: {
            std::string operands;
            for (const ConstPtr& operand : expr.operands)
                operands += (operands.empty() ? "" : ", ") + to_string(*operand, options);
            return fmt::format("{} {}({})", type, expr.kind == ConstExpr::Kind::select ? "select" : expr.op_name,
                               operands);
        }
    }
    throw InternalError("a constant expression of no kind");
}

std::string to_string(const Attribute& attribute, const PrintOptions& options) {
    struct Visitor {
        const PrintOptions& options;
        std::string operator()(bool v) const { return v ? "true" : "false"; }
        std::string operator()(std::int64_t v) const { return std::to_string(v); }
        std::string operator()(double v) const { return number_text(v); }
        std::string operator()(const std::string& v) const { return quote(v); }
        std::string operator()(DType v) const { return std::string(name_of(v)); }
        std::string operator()(const std::vector<std::int64_t>& v) const {
            return fmt::format("[{}]", fmt::join(v, ", "));
        }
        std::string operator()(const std::vector<std::string>& v) const { return "[" + quoted_list(v) + "]"; }
        std::string operator()(const ConstPtr& v) const { return "<" + to_string(*v, options) + ">"; }
    };
    return std::visit(Visitor{options}, attribute);
}

std::string to_string(const Function& function, const Op& op, const PrintOptions& options) {
    return op_text(function, op, unique_names(function), options);
}

std::string to_string(const Function& function, const PrintOptions& options) {
    const Names names = unique_names(function);
    std::string out = fmt::format("func @{}(", function.name);
    const bool entry = !function.argument_info.empty();
    for (std::size_t k = 0; k < function.arguments.size(); ++k) {
        Value v = function.arguments[k];
        if (entry)
            out += "\n    ";
        else if (k > 0)
            out += " ";
        out += fmt::format("%{}: {}", names[v.index], typed(function.info(v), names));
        if (entry) out += argument_info_text(function.argument_info[k]);
        if (k + 1 < function.arguments.size()) out += ",";
    }
    out += ") -> (";
    for (std::size_t k = 0; k < function.results.size(); ++k) {
        out += fmt::format("{}%{}", k == 0 ? "" : ", ", names[function.results[k].index]);
        if (k < function.result_names.size()) out += " " + quote(function.result_names[k]);
    }
    out += ")";
    if (!function.kind.empty()) out += " kind " + quote(function.kind);
    if (!function.scope.empty()) out += " scope " + quote(function.scope);
    if (!function.module_class.empty()) out += " class " + quote(function.module_class);
    if (function.scratch_bytes != 0) out += fmt::format(" scratch {}", function.scratch_bytes);
    out += " {\n";
    for (const Op& op : function.ops) out += "  " + op_text(function, op, names, options) + "\n";
    return out + "}\n";
}

std::string to_string(const Module& module, const PrintOptions& options) {
    std::string out =
        fmt::format("module {} {}\n", quote(module.name), module.phase == Module::Phase::values ? "values" : "planned");
    if (module.mesh.communicates())
        out += fmt::format("mesh {} replicas {} shards\n", module.mesh.replicas, module.mesh.shards);
    for (const auto& [arena, bytes] : module.arena_bytes) out += fmt::format("arena {} {}\n", arena, bytes);
    for (const std::string& stream : module.streams) out += fmt::format("stream {}\n", stream);
    for (const ShardUnit& unit : module.units) {
        out += fmt::format("unit {} {} x {} {{\n", quote(unit.name), unit.count, unit.elements);
        for (const ShardUnit::Tensor& t : unit.tensors) {
            out += fmt::format("  [{}] + {}", to_string(t.dims), t.offset);
            if (t.stride != 0) out += fmt::format(" every {}", t.stride);
            out += argument_info_text(t.info) + "\n";
        }
        out += "}\n";
    }
    for (const Function& function : module.functions) out += "\n" + to_string(function, options);
    return out;
}

}  // namespace thunderc
