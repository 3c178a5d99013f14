// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/spec_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "codegen/host/parameters.h"
#include "codegen/host/statements.h"
#include "codegen/program/model_files.h"
#include "codegen/text.h"
#include "compiler/cost_model/step_costs.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/batch_norm.h"
#include "compiler/ops/plain_call.h"
#include "compiler/planned/scaling_places.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

std::string_view spec_dtype(DType dtype) {
    return dtype == DType::boolean ? "boolean" : name_of(dtype);
}

std::string quoted_names(const std::vector<std::string>& names) {
    std::string out;
    for (const std::string& name : names) out += (out.empty() ? "" : ", ") + quote(name);
    return out;
}

// As the runtime calls it (train/program.h).
std::string_view name_of(LossForm::Kind kind) {
    switch (kind) {
        case LossForm::Kind::average: return "average";
        case LossForm::Kind::mean: return "mean";
        case LossForm::Kind::terms: return "terms";
    }
    throw InternalError("a loss of no form");
}

// Why the forward pass of a step is none that a model is judged by, and what to do; "": it is.
struct NotEvaluated {
    std::string why, help;
};
NotEvaluated not_evaluated(const Module& module) {
    if (module.find(evaluate_function) != nullptr) return {};
    const Function& step = module.main();
    const std::string in_eval_mode =
        "export the model in eval() mode as well, and evaluate what --save wrote with the "
        "program of that: --init FILE --eval-only";
    for (const ArgInfo& info : step.argument_info) {
        if (is_seed(info)) return {"its forward pass draws random numbers, as for dropout", in_eval_mode};
        if (info.kind == ArgInfo::Kind::buffer)
            return {"its forward pass moves running statistics, and reads none", in_eval_mode};
    }
    if (printed_parts(step).size() > 1) return {};
    return {"what its backward pass gathers begins in the forward pass",
            "thunderc train --fsdp-reshard forward writes a program that is"};
}

// Whether it counts labels that are told right, as it is evaluated.
bool counts_hits(const Module& module) {
    const Function* evaluate = module.find(evaluate_function);
    return evaluate != nullptr && evaluate->results.size() > 1;
}

// Whether a layer waits for sums over all ranks.
bool adds_over_ranks(const Module& module) {
    bool adds = false;
    for_each_call(module, [&](const Function&, const Op& op) { adds = adds || op.name == sum_over_ranks_name; });
    return adds;
}

class SpecPrinter {
  public:
    SpecPrinter(const ProgramLayout& layout, const FunctionPrinter& printer, const EmitOptions& options)
        : layout_(layout), printer_(printer), options_(options) {}

    std::string print() {
        collect();
        const bool trains = layout_.trains();
        out_.comment(fmt::format("spec.cpp: the parameters, inputs{} and tables of {}{}.", trains ? "" : ", results",
                                 options_.model_name, trains ? ", for the trainer" : ""));
        out_.line("#include \"model.h\"");
        out_.blank();
        out_.line("using namespace thunder;");
        out_.blank();
        out_.open("namespace {");
        out_.outdent();
        out_.blank();
        for (const auto& [dims, name] : shapes_)
            out_.line(fmt::format("constexpr std::int64_t {}[] = {{{}}};", name,
                                  dims.empty() ? "1" : fmt::format("{}", fmt::join(dims, ", "))));
        out_.append_lines(aliases_);
        out_.append_lines(columns_);
        out_.blank();
        if (!parameters_.empty()) out_.line("using Init = ParameterSpec::Init;");
        array("ParameterSpec", "PARAMETERS", parameters_,
              std::string("name, type, shape, offset and bytes in the arena, has a gradient, starts as") +
                  (more_columns_ ? "; aliases, note, unit" : "") + (moves_ ? ", is moved by the model" : ""));
        array("ConstantSpec", "CONSTANTS", constants_, "name, type, shape, offset and bytes in the arena");
        array("InputSpec", "INPUTS", inputs_,
              "name, type, shape, offset and bytes in the arena, batched, ids below (-1: no ids), the id that "
              "is ignored where there are ids, default of --map");
        array("OutputSpec", "OUTPUTS", outputs_, "name, type, shape, offset and bytes in the arena");
        std::vector<std::string> padded;
        for (const PaddedRow& p : options_.padded_rows)
            padded.push_back(fmt::format("{{{}, {}}},", quote(p.table), p.row));
        array("PaddedRow", "PADDED_ROWS", padded);
        std::vector<std::string> outer;
        for (const ArgInfo& info : layout_.module().main().argument_info)
            for (const std::string& name : info.names)
                if (info.outer) outer.push_back(quote(name) + ",");
        array("std::string_view", "OUTER_MATRICES", outer);
        if (layout_.module().adapters) adapters(*layout_.module().adapters);
        scaling();
        array("UnitSpec", "UNITS", units_, "name, elements of a shard, its offset in the arena in bytes, type");
        array("std::string_view", "STREAMS", streams_);
        if (trains) results();
        array("UpdateRange", "UPDATE_PARTS", printer_.update_ranges(),
              "part, layers, elements of the arena from and to, and from one layer's to the next one's");
        out_.line("}  // namespace");
        out_.blank();
        out_.open(trains ? "const ProgramSpec PROGRAM = {" : "const FunctionSpec FUNCTION = {");
        out_.line(fmt::format(".name = {},", quote(options_.model_name)));
        out_.line(trains ? fmt::format(".optimizer = {},", quote(options_.compile.optimizer))
                         : fmt::format(".transform = {},", quote(layout_.module().main().name)));
        out_.line(fmt::format(".parameters = {},", parameters_.empty() ? "{}" : "PARAMETERS"));
        out_.line(fmt::format(".constants = {},", constants_.empty() ? "{}" : "CONSTANTS"));
        out_.line(fmt::format(".inputs = {},", inputs_.empty() ? "{}" : "INPUTS"));
        trains ? step_fields() : function_fields();
        out_.close("};");
        return out_.str();
    }

  private:
    // Of the gradients, or of the optimizer's states: those that are neither gradients nor narrow copies.
    DType state_dtype(const std::string& prefix) const {
        const Function& f = *layout_.module().find(update_function);
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            if (info.kind != ArgInfo::Kind::state) continue;
            const std::string& name = info.names.front();
            const bool other = name.starts_with("grad.") || name.starts_with("narrow_copy.");
            const DType dtype = f.type(f.arguments[k]).dtype;
            if (prefix.empty() ? !other && is_float(dtype) : name.starts_with(prefix)) return dtype;
        }
        return DType::f32;
    }

    // ".products = true": who has the matrix products of each call, by the executor that claimed it. What none claimed
    // is the runtime API's general product.
    std::string named_providers() const {
        bool products = false, plain_loops = false, attention = false;
        for_each_call(layout_.module(), [&](const Function& f, const Op& op) {
            const OpDef& def = op_def(op.name);
            if (!def.flops || def.flops(op, f) == 0) return;
            const std::string claimed = op.attributes.string("executor", "");
            (claimed == reference_name ? plain_loops : claimed == "attention" ? attention : products) = true;
        });
        std::vector<std::string> fields;
        if (products) fields.emplace_back(".products = true");
        if (plain_loops) fields.emplace_back(".plain_loops = true");
        if (attention) fields.emplace_back(".attention = true");
        return fmt::format("{}", fmt::join(fields, ", "));
    }

    bool any_outer() const {
        const std::vector<ArgInfo>& infos = layout_.module().main().argument_info;
        return std::any_of(infos.begin(), infos.end(), [](const ArgInfo& info) { return info.outer; });
    }

    void step_fields() {
        const Module& m = layout_.module();
        std::vector<std::string> arenas;
        Dims bytes;
        const auto add = [&](const char* arena) {
            const auto at = m.arena_bytes.find(arena);
            arenas.emplace_back(arena);
            bytes.push_back(at == m.arena_bytes.end() ? 0 : static_cast<std::int64_t>(at->second));
        };
        for (const char* arena : {"parameters", "gradients", "optimizer", "saved", "scratch", "constants", "batch"})
            add(arena);
        std::vector<const char*> less_common = {"narrow_copies", "gathered", "unit_gradients", "scaling"};
        while (!less_common.empty() && !m.arena_bytes.contains(less_common.back())) less_common.pop_back();
        for (const char* arena : less_common) add(arena);
        out_.comment(fmt::format("{}", fmt::join(arenas, ", ")));
        out_.line(fmt::format(".arena_bytes = {{{}}},", fmt::join(bytes, ", ")));
        if (layout_.mixed_precision()) {
            out_.line(fmt::format(".gradient_dtype = DType::{},", name_of(state_dtype("grad."))));
            out_.line(fmt::format(".optimizer_dtype = DType::{},", name_of(state_dtype(""))));
            out_.line(fmt::format(".compute = DType::{},", name_of(layout_.compute_dtype())));
        }
        if (has_coded_states(m)) out_.line(".coded_states = true,");
        out_.line(fmt::format(".batch = {},", batch_));
        out_.line(fmt::format(".tokens = {},", step_tokens(m.main())));
        const LossForm loss = loss_form(m);
        out_.line(fmt::format(".loss = Loss::{},", name_of(loss.kind)));
        if (const NotEvaluated no = not_evaluated(m); !no.why.empty())
            out_.line(fmt::format(".not_evaluated = {{{}, {}}},", quote(no.why), quote(no.help)));
        if (options_.token_entropy) out_.line(".token_entropy = true,");
        if (counts_hits(m)) out_.line(".counts_hits = true,");
        if (adds_over_ranks(m)) out_.line(".synced_norms = true,");
        if (options_.stops_gradients) out_.line(".stops_gradients = true,");
        out_.line(fmt::format(".default_grad_accum = {},", options_.default_grad_accum));
        out_.line(fmt::format(".flops_per_micro_step = {:.9g},", product_flops(m, true)));
        if (const std::string named = named_providers(); !named.empty())
            out_.line(fmt::format(".providers = {{{}}},", named));
        if (sample_numbers_) out_.line(fmt::format(".sample_numbers = {},", *sample_numbers_));
        if (loss.kind == LossForm::Kind::terms) out_.line(fmt::format(".loss_weights = {},", loss.weights.size()));
        if (const auto& pair = options_.tieable)
            out_.line(fmt::format(".tieable = {{.embedding = {}, .logits = {}}},", quote(pair->embedding),
                                  quote(pair->logits)));
        if (any_outer()) out_.line(".outer_matrices = OUTER_MATRICES,");
        if (!options_.padded_rows.empty()) out_.line(".padded_rows = PADDED_ROWS,");
        if (m.adapters) out_.line(".adapters = &ADAPTERS,");
        if (!scaled_.tensors.empty())
            out_.line(fmt::format(".scaling = {{.recipe = {}, .tensors = SCALED_TENSORS, .states = SCALING_STATES}},",
                                  quote(options_.compile.fp8)));
        else if (!options_.compile.fp8.empty())
            out_.line(fmt::format(".scaling = {{.recipe = {}}},", quote(options_.compile.fp8)));
        if (has_results_) out_.line(".results = RESULTS,");
        if (printer_.waits_for_updates()) out_.line(".update_parts = UPDATE_PARTS,");
        if (!layout_.communication().any()) return;
        out_.line(fmt::format(".mesh = {{.replicas = {}, .shards = {}}},", m.mesh.replicas, m.mesh.shards));
        if (!units_.empty()) out_.line(".units = UNITS,");
        out_.line(".streams = STREAMS,");
        out_.line(".schedule =");
        out_.indent();
        const std::vector<std::string> lines = layout_.communication().schedule();
        for (const std::string& line : lines) out_.line(quote(line) + (&line == &lines.back() ? "," : ""));
        out_.outdent();
    }

    void adapters(const Adapters& a) {
        for (const auto& [name, modules] : {std::pair{"ADAPTED_MODULES", &a.targets}, {"SAVED_MODULES", &a.saved}}) {
            std::vector<std::string> lines;
            for (const std::string& module : *modules) lines.push_back(quote(module) + ",");
            array("std::string_view", name, lines);
        }
        out_.open("constexpr AdapterSpec ADAPTERS = {");
        out_.line(fmt::format(".rank = {},", a.rank));
        out_.line(fmt::format(".alpha = {},", a.alpha));
        out_.line(fmt::format(".dropout = {},", a.dropout));
        out_.line(fmt::format(".rank_stabilized = {},", a.rank_stabilized));
        out_.line(fmt::format(".fan_in_fan_out = {},", a.transposed));
        out_.line(".targets = ADAPTED_MODULES,");
        if (!a.saved.empty()) out_.line(".saved = SAVED_MODULES,");
        out_.close("};");
        out_.blank();
    }

    // What the calls of a step write.
    void results() {
        std::vector<std::string> functions;
        for (const FunctionPrinter::NamedFunction& f : printer_.call_results()) {
            std::string modules = "{}";
            if (!f.modules.empty()) {
                std::vector<std::string> lines;
                for (const std::string& module : f.modules) lines.push_back(quote(module) + ",");
                modules = "MODULES_OF_" + f.name;
                array("std::string_view", modules.c_str(), lines);
            }
            std::vector<std::string> lines;
            for (const auto& r : f.results)
                lines.push_back(fmt::format("{{{}, \"{}\", \"{}\", {}, {}, {}, \"[{}]\", {}, {}, {}}},", r.call, r.name,
                                            r.field, r.result, quote(r.tensor), quote(r.scope), fmt::join(r.dims, ","),
                                            r.rows, r.width, r.ld));
            array("ResultSpec", ("RESULTS_OF_" + f.name).c_str(), lines,
                  functions.empty() ? "which call, its name; field or number of the result; what the text calls it; "
                                      "module; shape; rows, width and distance of rows in memory"
                                    : "");
            functions.push_back(fmt::format("{{\"{}\", {}, RESULTS_OF_{}}},", f.name, modules, f.name));
        }
        array("FunctionResults", "RESULTS", functions, "what --numerics looks at: function, modules, results");
        has_results_ = !functions.empty();
    }

    // What is quantised, in the order in which amaxes, scales and histories lie.
    void scaling() {
        if (!scaled_.tensors.empty()) {
            std::vector<std::string> names;
            for (const std::string& tensor : scaled_.tensors) names.push_back(quote(tensor) + ",");
            array("std::string_view", "SCALED_TENSORS", names);
            array("ParameterSpec", "SCALING_STATES", scaling_states_,
                  "of all of these, in the arena of scales, whole on each rank");
        }
    }

    void collect_scaling() {
        scaled_ = planning::place_scaling(layout_.module());
        const auto tensors = static_cast<std::int64_t>(scaled_.tensors.size());
        if (tensors == 0) return;
        const auto state = [&](const char* name, const Dims& dims, std::int64_t offset, const char* init) {
            scaling_states_.push_back(fmt::format("{{\"{}\", DType::f32, {}, {}, {}, false, Init::{}}},", name,
                                                  shape(dims), offset, element_count(dims) * 4, init));
        };
        state("scale", {tensors}, tensors * 4, "ones");
        state("history", {tensors, scaled_.history}, tensors * 8, "zeros");
    }

    void function_fields() {
        out_.line(fmt::format(".outputs = {},", outputs_.empty() ? "{}" : "OUTPUTS"));
        out_.open(".bytes = {");
        for (const char* arena : {"parameters", "gradients", "saved", "scratch", "constants", "batch", "results"}) {
            const auto& sizes = layout_.module().arena_bytes;
            const auto at = sizes.find(arena);
            out_.line(fmt::format(".{} = {},", arena, at == sizes.end() ? 0 : at->second));
        }
        out_.close("},");
    }

    std::string shape(const Dims& dims) {
        auto [at, is_new] = shapes_.try_emplace(dims);
        if (is_new)
            at->second = fmt::format("SHAPE_{}", dims.empty() ? "SCALAR" : fmt::format("{}", fmt::join(dims, "_")));
        return dims.empty() ? "{}" : at->second;
    }

    std::string span_of(const Dims& dims) { return dims.empty() ? "{}" : shape(dims); }

    void collect() {
        collect_scaling();
        const Function& main = layout_.module().main();
        for (std::size_t k = 0; k < main.arguments.size(); ++k) {
            const ArgInfo& info = main.argument_info[k];
            const Type& type = main.type(main.arguments[k]);
            const Placement& p = main.info(main.arguments[k]).placement;
            if (info.kind == ArgInfo::Kind::input && info.source == sample_numbers_source && layout_.trains()) {
                sample_numbers_ = p.offset;
            } else if (info.kind == ArgInfo::Kind::input) {
                input(info, type, p);
            } else if (info.kind == ArgInfo::Kind::output) {
                outputs_.push_back(fmt::format("{{{}, DType::{}, {}, {}, {}}},", quote(info.names[0]),
                                               spec_dtype(type.dtype), span_of(type.dims), p.offset, type.bytes()));
            }
        }
        for (const ModelParameter& p : model_parameters(layout_.module()))
            for (std::size_t m = 0; m < p.info->names.size(); ++m) parameter(p, m);
        for (const ModelUnit& u : model_units(layout_.module()))
            units_.push_back(fmt::format("{{{}, {}, {}, DType::{}}},", quote(u.name), u.shard_elements, u.offset,
                                         spec_dtype(u.dtype)));
        // Parameters in the order of their bytes, so that the table reads like the arena.
        std::stable_sort(parameter_order_.begin(), parameter_order_.end(),
                         [](const auto& a, const auto& b) { return a.first < b.first; });
        for (const auto& [place, line] : parameter_order_) parameters_.push_back(line);
        for (const std::string& stream : layout_.module().streams) streams_.push_back(quote(stream) + ",");
        std::map<std::int64_t, std::pair<std::string, Type>> tables;
        for (const Function& f : layout_.module().functions)
            for (const Op& op : f.ops)
                if (is_constant_op(op) && f.kind.empty()) {
                    Value v = op.results[0];
                    tables.try_emplace(f.info(v).placement.offset, fmt::format("table_{}", f.info(v).placement.offset),
                                       f.type(v));
                }
        for (const auto& [offset, table] : tables)
            constants_.push_back(fmt::format("{{{}, DType::{}, {}, {}, {}}},", quote(table.first),
                                             spec_dtype(table.second.dtype), span_of(table.second.dims), offset,
                                             table.second.bytes()));
    }

    void parameter(const ModelParameter& p, std::size_t m) {
        const ArgInfo& info = *p.info;
        const Type& type = p.type;
        std::string aliases;
        if (m < info.aliases.size() && !info.aliases[m].empty()) {
            aliases = fmt::format("ALIASES_{}", alias_count_++);
            aliases_ +=
                fmt::format("constexpr std::string_view {}[] = {{{}}};\n", aliases, quoted_names(info.aliases[m]));
        }
        const auto member = static_cast<std::int64_t>(m);
        const std::int64_t offset = p.offset + (p.unit_each ? 0 : member * p.stride);
        const std::int64_t unit = p.unit < 0 ? -1 : p.unit + (p.unit_each ? member : 0);
        // Fields that are as those of most others, at the end, are left out.
        std::string more;
        const bool moves = info.kind == ArgInfo::Kind::buffer;
        check(!moves || type.dtype == DType::f32, "ranks agree on buffers of f32 alone");
        if (unit >= 0 || moves) more = fmt::format(", {}{}", unit, moves ? ", true" : "");
        if (!more.empty() || !info.note.empty()) more = ", " + quote(info.note) + more;
        if (!more.empty() || !aliases.empty()) more = fmt::format(", {}", aliases.empty() ? "{}" : aliases) + more;
        more_columns_ = more_columns_ || !more.empty();
        moves_ = moves_ || moves;
        parameter_order_.emplace_back(
            std::pair(unit, offset), fmt::format("{{{}, DType::{}, {}, {}, {}, {}, Init::{}{}}},", quote(info.names[m]),
                                                 spec_dtype(type.dtype), span_of(type.dims), offset, type.bytes(),
                                                 info.trainable && is_float(type.dtype), name_of(info.init), more));
    }

    void input(const ArgInfo& info, const Type& type, const Placement& p) {
        if (info.batched && type.rank() > 0) batch_ = type.dims[0];
        std::string columns;
        if (!info.columns.empty()) {
            columns = fmt::format(", COLUMNS_{}, {}", column_count_, info.column_axis);
            columns_ += fmt::format("constexpr ColumnSpec COLUMNS_{}[] = {{\n", column_count_++);
            for (const ArgInfo::Column& c : info.columns)
                columns_ +=
                    fmt::format("    {{{}, {}, {}, {}}},\n", c.end, c.ids.entries, c.ids.ignore_index, quote(c.table));
            columns_ += "};\n";
        }
        inputs_.push_back(fmt::format("{{{}, DType::{}, {}, {}, {}, {}, {}, {}, {}{}}},", quote(info.names[0]),
                                      spec_dtype(type.dtype), span_of(type.dims), p.offset, type.bytes(), info.batched,
                                      info.entries, info.ignore_index, quote(info.source), columns));
    }

    // `columns`: what the fields of a line are.
    void array(const char* type, const char* name, const std::vector<std::string>& lines,
               const std::string& columns = {}) {
        if (lines.empty()) return;
        out_.open(fmt::format("constexpr {} {}[] = {{", type, name));
        if (!columns.empty()) out_.comment(columns);
        for (const std::string& line : lines) out_.line(line);
        out_.close("};");
        out_.blank();
    }

    const ProgramLayout& layout_;
    const FunctionPrinter& printer_;
    const EmitOptions& options_;
    SourceText out_;
    std::map<Dims, std::string> shapes_;
    std::string aliases_;
    int alias_count_ = 0;
    bool has_results_ = false;
    bool more_columns_ = false, moves_ = false;  // fields at the end that some have
    std::string columns_;
    int column_count_ = 0;
    std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, std::string>> parameter_order_;  // by unit and offset
    std::vector<std::string> parameters_, constants_, inputs_, outputs_, streams_, units_, scaling_states_;
    planning::ScalingPlaces scaled_;
    std::optional<std::int64_t> sample_numbers_;  // where in the batch arena the trainer writes them
    std::int64_t batch_ = 1;
};

}  // namespace

std::string print_program_spec(const ProgramLayout& layout, const FunctionPrinter& printer,
                               const EmitOptions& options) {
    return SpecPrinter(layout, printer, options).print();
}

}  // namespace thunderc
