// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/importer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/frontend/aten/complex.h"
#include "compiler/frontend/aten/schemas.h"
#include "compiler/frontend/aten/user_operators.h"
#include "compiler/frontend/shared/inputs.h"
#include "compiler/frontend/shared/stored_types.h"
#include "compiler/frontend/shared/wrapper.h"
#include "compiler/support/error.h"

namespace thunderc::aten {
namespace {

constexpr std::size_t deepest_graph = 32;  // graphs within graphs

// "linear" of "aten.linear.default"; of other operators all but the overload.
std::string operator_name(std::string target) {
    target.resize(std::min(target.rfind('.'), target.size()));
    return target.starts_with("aten.") ? target.substr(5) : target;
}

// num_batches_tracked and the like.
[[noreturn]] void fail_of_counted() {
    fail("the model reads a number of steps that it counts itself, which a program does not do",
         "give batch norms a momentum (not None), or call eval() before the model is saved");
}

Provenance provenance_of(const Call& call) {
    Provenance out;
    out.scope = plain(call.scope);
    out.module_class = plain(call.module_class);
    out.nodes = {plain(call.name)};
    out.node_ops = {plain(operator_name(call.target))};
    return out;
}

}  // namespace

std::string plain(std::string text) {
    for (char& c : text)
        if (static_cast<unsigned char>(c) < ' ' || c == '\\' || c == '\x7f') c = '_';
    return text;
}

Module module_of(const std::filesystem::path& path) {
    Module module;
    module.name = path.stem().string();
    module.names_are_given = true;
    module.lists_parameters = true;
    module.merges_nothing = true;
    module.functions.emplace_back();
    module.functions.front().name = "main";
    return module;
}

bool is_open(const Argument& list) {
    return list.kind == Argument::Kind::list && list.items.empty() && !list.text.empty();
}

std::string item_of(const Argument& open_list, std::size_t k) {
    return fmt::format("{}.{}", open_list.text, k);
}

// ---- bindings -------------------------------------------------------------------------------------------------------

Binding Binding::of(Value v) {
    Binding out;
    out.kind = Kind::tensor;
    out.value = v;
    out.writes = std::make_shared<int>(0);
    return out;
}

Binding Binding::of(std::int64_t v) {
    Binding out;
    out.kind = Kind::integer;
    out.integer = v;
    out.number = static_cast<double>(v);
    return out;
}

Binding Binding::of(double v) {
    Binding out;
    out.kind = Kind::number;
    out.number = v;
    return out;
}

Binding Binding::of(bool v) {
    Binding out = of(std::int64_t{v ? 1 : 0});
    out.kind = Kind::boolean;
    return out;
}

// ---- the import -----------------------------------------------------------------------------------------------------

Importer::Importer(Module module, const CompileOptions& options, Report& report)
    : options_(options),
      report_(report),
      module_(std::move(module)),
      builder_(module_.main()),
      integer_values_(module_.main()),
      moved_(builder_) {}

DType Importer::dtype(ScalarType type, const std::string& what) {
    const std::optional<DType> dtype = dtype_of(type);
    if (!dtype)
        fail(fmt::format("{} is of type {}, which is not supported", what, name_of(type)),
             "compute with real numbers of float32 in the model");
    const std::optional<DType> stored = stored_float(type);
    if (stored && *stored != *dtype && !warned_precision_) {
        warned_precision_ = true;
        say_how_it_is_computed(*stored, what, options_, report_);
    }
    return *dtype;
}

std::optional<Dims> Importer::dims(const TensorMeta& meta) const {
    Dims out;
    for (const Size& extent : meta.sizes) {
        const std::optional<std::int64_t> value = size(extent);
        if (!value) return std::nullopt;
        out.push_back(*value);
    }
    return out;
}

const Binding& Importer::find(const std::string& name) const {
    const auto at = names_.find(name);
    if (at == names_.end())
        fail(fmt::format("the value {} is used before it is computed", name), "the program is damaged: save it again");
    if (at->second.is_stale())
        fail(
            fmt::format("the model reads {} after it wrote, in place, to memory that it shares", name),
            "save the program without writes in place: torch.export.save(program.run_decompositions(), \"model.pt2\"), "
            "or write the line as y = x + 1 instead of x += 1");
    return at->second;
}

Binding Importer::resolve(const Argument& argument) const {
    switch (argument.kind) {
        case Argument::Kind::name: return find(argument.text);
        case Argument::Kind::integer:
        case Argument::Kind::scalar_type: return Binding::of(argument.integer);
        case Argument::Kind::number: return Binding::of(argument.number);
        case Argument::Kind::boolean: return Binding::of(argument.integer != 0);
        case Argument::Kind::list: {
            Binding out;
            out.kind = Binding::Kind::list;
            for (const Argument& item : argument.items) out.items.push_back(resolve(item));
            return out;
        }
        default: return {};
    }
}

ScalarType Importer::torch_type(const std::string& name) const {
    const TensorMeta* of = meta(name);
    return of == nullptr ? ScalarType::unknown : of->type;
}

void Importer::write(const std::string& name, Value v) {
    const auto refuse = [](const char* what, const std::string& kept) {
        Diagnostic d;
        d.message = fmt::format("the model changes the {} {} as it runs, which a program does not do", what, kept);
        d.expected = "what stays as it is while the model is computed, but for statistics of batch norms";
        d.help =
            "if it changes in training mode alone, call model.eval() before the export; else leave the change out "
            "of forward(), and what depends on it make an input";
        throw UserError(std::move(d));
    };
    Binding& written = names_.at(name);
    if (written.writes) ++*written.writes;
    // What it is a view of has its elements as well; the other views of that are left behind.
    for (std::string at = name;;) {
        Binding& one = names_.at(at);
        if (!one.parameter.empty()) refuse("parameter", one.parameter);
        if (!one.constant.empty()) refuse("tensor", one.constant);
        if (!one.buffer.empty() && !is_integer(type(v).dtype)) refuse("buffer", one.buffer);
        if (!one.buffer.empty()) {  // num_batches_tracked, which no program counts
            counters_.insert(one.buffer);
            counted_.insert({one.value, v});
        }
        one.value = v;
        one.seen = one.writes ? *one.writes : 0;
        if (!one.back || one.base.empty() || one.base == at) return;
        const auto base = names_.find(one.base);
        if (base == names_.end() || base->second.writes != one.writes) return;
        v = one.back(base->second.value, v);
        at = one.base;
    }
}

// What may be the operand's memory: a write to the one is one to the other. Of a list of operands each result may be
// its own one's.
void Importer::share_memory(const Call& call, OpImporter::Memory memory) {
    const Argument* from = call.arguments.empty() ? nullptr : &call.arguments.front().value;
    if (memory != view || from == nullptr) return;
    const auto share = [&](const Argument& operand, const Argument& result) {
        if (operand.kind != Argument::Kind::name || result.kind != Argument::Kind::name) return;
        const auto base = names_.find(operand.text), made = names_.find(result.text);
        if (base == names_.end() || !base->second.writes || made == names_.end()) return;
        made->second.writes = base->second.writes;
        made->second.seen = base->second.seen;
    };
    const auto operand_of = [&](std::size_t k) -> const Argument& {
        return k < from->items.size() ? from->items[k] : *from;
    };
    for (const Argument& result : call.results) {
        share(operand_of(0), result);
        for (std::size_t k = 0; k < result.items.size(); ++k) share(operand_of(k), result.items[k]);
        for (std::size_t k = 0; is_open(result) && names_.contains(item_of(result, k)); ++k) {
            Argument item;
            item.kind = Argument::Kind::name;
            item.text = item_of(result, k);
            share(operand_of(k), item);
        }
    }
}

// Whether it is a constant of the code, or a view of one.
bool Importer::is_constant(const std::string& name) const {
    for (auto at = names_.find(name); at != names_.end(); at = names_.find(at->second.base)) {
        if (!at->second.constant.empty()) return true;
        if (at->second.base.empty() || at->second.base == at->first) break;
    }
    return false;
}

// Of transpose_() and the like nothing is written: from here on the name stands for a view of what it was, which others
// go on to be views of.
void Importer::look_otherwise(const std::string& name, const std::string& result) {
    const std::string before = fmt::format("{} before {}", name, result);
    for (auto& [other, binding] : names_)
        if (binding.base == name) binding.base = before;
    Binding now = find(result);
    names_[before] = names_.at(name);
    names_[name] = now;
    now.base = name;
    now.back = [](Value, Value written) { return written; };
    names_[result] = std::move(now);
}

// The result of a call that writes to an operand is that operand, under another name.
void Importer::write_in_place(const Call& call, OpImporter::Memory memory) {
    const Argument* to = written_by(call);
    if (to == nullptr || to->kind != Argument::Kind::name || call.results.empty() ||
        call.results.front().kind != Argument::Kind::name)
        return;
    // What is written has the type of what it is written to.
    const std::string& result = call.results.front().text;
    const Binding &before = find(to->text), &given = find(result);
    if (before.kind != Binding::Kind::tensor || given.kind != Binding::Kind::tensor)
        fail(fmt::format("{} writes to what is no tensor", call.target), "the program is damaged: save it again");
    const Type of = type(before.value);
    const Value v = builder_.cast(given.value, of.dtype);
    if (call.target.starts_with("aten.detach_.") && is_constant(to->text))
        return;  // its numbers stay: torch.tensor made it
    if (memory == view && writes_in_place(call.target)) return look_otherwise(to->text, result);
    if (type(v).dims != of.dims)
        fail(fmt::format("{} gives another shape than what it writes to", call.target), "write x = x + y in the model");
    write(to->text, v);
    Binding same = names_.at(to->text);
    same.base = to->text;
    same.back = [](Value, Value written) { return written; };
    same.parameter.clear();
    same.buffer.clear();
    same.constant.clear();
    names_[result] = std::move(same);
}

// ---- calls ----------------------------------------------------------------------------------------------------------

void Importer::import_calls(const Graph& graph) {
    if (graphs_.size() > deepest_graph) fail("its graphs are nested too deeply", "export a model without control flow");
    graphs_.push_back(&graph);
    for (const Call& call : graph.calls) import_call(call);
    graphs_.pop_back();
}

std::vector<Binding> Importer::import_subgraph(const Graph& graph, std::span<const Binding> inputs) {
    if (graph.inputs.size() != inputs.size())
        fail(fmt::format("a graph within the graph takes {} inputs, and is given {}", graph.inputs.size(),
                         inputs.size()),
             "the program is damaged: save it again");
    // Its names are its own; what it writes to is left behind outside.
    const std::unordered_map<std::string, Binding> outer = names_;
    for (std::size_t k = 0; k < inputs.size(); ++k)
        if (graph.inputs[k].kind == Argument::Kind::name) {
            Binding input = inputs[k];
            input.base.clear();
            bind(graph.inputs[k].text, std::move(input));
        }
    import_calls(graph);
    std::vector<Binding> out;
    for (const Argument& output : graph.outputs) {
        out.push_back(resolve(output));
        out.back().base.clear();
    }
    names_ = outer;
    return out;
}

// Tensors for several results have names that no form of the operator has whose results are its own.
void Importer::refuse_given_results(const Node& node) const {
    const std::vector<Schema>& forms = schemas_of(node.op());
    if (!node.call().target.starts_with("aten.") || writes_in_place(node.call().target) || forms.empty()) return;
    const auto has = [](const Schema& form, const std::string& name) {
        return std::any_of(form.parameters.begin(), form.parameters.end(),
                           [&](const Schema::Parameter& p) { return p.name == name; });
    };
    for (const NamedArgument& a : node.call().arguments)
        if (a.value.kind == Argument::Kind::name && !a.name.empty() && a.name != "out" &&
            std::none_of(forms.begin(), forms.end(), [&](const Schema& form) { return has(form, a.name); }))
            node.fail(fmt::format("{} writes to a tensor that it is given as {}, which is not supported",
                                  node.call().target, a.name),
                      "take what it returns: leave out= away");
}

void Importer::import_known(Node& node) {
    const Call& call = node.call();
    const OpImporter* importer = find_importer(call.target);
    check(importer != nullptr, "unknown operators are refused before");
    if (importer->numbers == computed)
        for (const Argument& result : call.results)
            if (const TensorMeta* of = result.kind == Argument::Kind::name ? meta(result.text) : nullptr;
                of != nullptr && is_widened(of->type))
                node.fail(fmt::format("{} of {} is not supported", node.op(), name_of(of->type)),
                          "compute with torch.int64 in the model");
    refuse_given_results(node);
    if (takes_complex(call))
        import_complex(node, *importer, names_);
    else
        importer->import(node);
    share_memory(call, importer->memory);
    write_in_place(call, importer->memory);
}

void Importer::import_call(const Call& call) {
    Provenance provenance = provenance_of(call);
    // Calls within a graph of a call have no module of their own.
    if (provenance.scope.empty() && depth_ > 0) {
        provenance.scope = builder_.provenance().scope;
        provenance.module_class = builder_.provenance().module_class;
    }
    const Provenance around = builder_.provenance();
    builder_.set_provenance(provenance);
    ++depth_;
    try {
        Node node(*this, call);
        if (!import_user_function(node)) import_known(node);
        check_results(call);
    } catch (UserError& error) {
        Diagnostic& d = error.diagnostic();
        if (d.node.empty()) d.node = call.line.empty() ? call.name : fmt::format("{} ({})", call.name, call.line);
        if (d.op.empty()) d.op = call.target;
        if (d.module.empty()) d.module = provenance.scope;
        if (d.help.empty())
            d.help = "the operator is supported in other forms only, or the program is damaged: save it again";
        throw;
    }
    --depth_;
    builder_.set_provenance(around);
}

bool Importer::takes_complex(const Call& call) const {
    const auto is_complex = [&](const Argument& argument) {
        const auto at = argument.kind == Argument::Kind::name ? names_.find(argument.text) : names_.end();
        return at != names_.end() && at->second.kind == Binding::Kind::complex;
    };
    return std::any_of(call.arguments.begin(), call.arguments.end(), [&](const NamedArgument& one) {
        return is_complex(one.value) || std::any_of(one.value.items.begin(), one.value.items.end(), is_complex);
    });
}

// What PyTorch says that a call gives is what it gives here.
void Importer::check_results(const Call& call) {
    for (const Argument& result : call.results) {
        if (result.kind != Argument::Kind::name) continue;
        const TensorMeta* of = meta(result.text);
        const auto made = names_.find(result.text);
        if (of == nullptr || made == names_.end()) continue;
        const Binding& given = made->second;
        const bool pair = given.kind == Binding::Kind::complex;
        if (!pair && given.kind != Binding::Kind::tensor) continue;
        const std::optional<Dims> wanted = dims(*of);
        const std::optional<DType> dtype = dtype_of(pair ? part_of_complex(of->type) : of->type);
        const Type& is = type(pair ? given.items[0].value : given.value);
        if (!wanted || !dtype || (is.dims == *wanted && is.dtype == *dtype)) continue;
        Diagnostic d;
        d.message = fmt::format("{} gives another shape or type than the program says", call.target);
        d.expected = thunderc::to_string(Type::tensor(*dtype, *wanted));
        d.actual = thunderc::to_string(is);
        d.help =
            "the program does not hold for these values of --batch, --seq and --dim, or is damaged; where it was "
            "exported with fixed shapes, this is a fault of thunderc, which is worth a report";
        throw UserError(std::move(d));
    }
}

// ---- what comes out -------------------------------------------------------------------------------------------------

const Tensor* Importer::known(Value v) {
    if (counted_.contains(v)) fail_of_counted();
    return integer_values_.find(v);
}

// No result may follow from a number that moves from step to step.
void Importer::refuse_counted() const {
    const Function& main = module_.main();
    std::vector<bool> follows(main.values.size(), false);
    for (const Value v : counted_) follows[v.index] = true;
    for (const Op& op : main.ops) {
        const bool any =
            std::any_of(op.operands.begin(), op.operands.end(), [&](Value v) { return v && follows[v.index]; });
        for (const Value v : op.results) follows[v.index] = follows[v.index] || any;
    }
    if (std::any_of(main.results.begin(), main.results.end(), [&](Value v) { return follows[v.index]; }))
        fail_of_counted();
}

Module Importer::finished(const std::map<std::string, std::string>& classes) {
    if (!counters_.empty()) refuse_counted();
    if (!counters_.empty())
        report_.done("counters", list_of_names({counters_.begin(), counters_.end()}), "are not counted");
    describe_ids(module_.main());
    strip_wrapper(module_.main(), wrapper(classes), report_);
    moved_.end();
    report_composites(module_.main(), report_);
    warn_of_unused_inputs(module_.main(), report_);
    warn_of_eval_mode();
    return std::move(module_);
}

std::string Importer::wrapper(const std::map<std::string, std::string>& classes) const {
    std::set<std::string> firsts;
    const auto add = [&](const std::string& path) {
        if (!path.empty()) firsts.insert(path.substr(0, path.find('.')));
    };
    for (const ArgInfo& info : module_.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter || info.kind == ArgInfo::Kind::buffer) {
            // A parameter of the root itself is in no module that could be a wrapper's.
            if (!is_dotted(info.names.front())) return "";
            add(info.names.front());
        }
    for (const Op& op : module_.main().ops) add(op.provenance.scope);
    return wrapper_prefix(firsts, classes);
}

void Importer::note_dropout(double rate) {
    const std::string& scope = builder_.provenance().scope;
    const std::string& node = builder_.provenance().nodes.front();
    const std::string place = scope.empty() ? node : scope;
    if (std::find(dropouts_.begin(), dropouts_.end(), place) == dropouts_.end()) dropouts_.push_back(place);
    if (std::find(rates_.begin(), rates_.end(), rate) == rates_.end()) rates_.push_back(rate);
}

void Importer::note_frozen_norm() {
    const std::string& scope = builder_.provenance().scope;
    const std::string place = scope.empty() ? builder_.provenance().nodes.front() : scope;
    if (std::find(norms_.begin(), norms_.end(), place) == norms_.end()) norms_.push_back(place);
}

void Importer::warn_of_eval_mode() {
    constexpr std::size_t most = 8;
    if (!dropouts_.empty() && options_.dropout.value_or(0) == 0)
        report_.warning(
            "dropout", list_of_names(dropouts_, most),
            fmt::format("{} switched off, since the export is of a model in eval() mode: it is trained without the "
                        "dropout of {} that it has (--dropout P trains with it, as an export of model.train() does)",
                        dropouts_.size() == 1 ? "is" : fmt::format("these {} are", dropouts_.size()),
                        fmt::join(rates_, ", ")));
    if (!norms_.empty())
        report_.warning(
            "batch norm", list_of_names(norms_, most),
            "takes its running statistics, since the export is of a model in eval() mode: they stay as they "
            "are while scale and bias are trained");
}

}  // namespace thunderc::aten
