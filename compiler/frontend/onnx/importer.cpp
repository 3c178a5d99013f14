// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/frontend/onnx/bound_inputs.h"
#include "compiler/frontend/onnx/check_model.h"
#include "compiler/frontend/onnx/dropped_arguments.h"
#include "compiler/frontend/onnx/model_file.h"
#include "compiler/frontend/onnx/narrow_integers.h"
#include "compiler/frontend/onnx/onnx_frontend.h"
#include "compiler/frontend/onnx/restore_views.h"
#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/training_mode.h"
#include "compiler/frontend/onnx/unsupported.h"
#include "compiler/frontend/onnx/user_operators.h"
#include "compiler/frontend/shared/dimensions.h"
#include "compiler/frontend/shared/inputs.h"
#include "compiler/frontend/shared/stored_types.h"
#include "compiler/frontend/shared/wrapper.h"
#include "compiler/ir/op_def.h"
#include "compiler/ops/user_ops.h"
#include "compiler/passes/pattern.h"
#include "compiler/support/error.h"

namespace thunderc::onnx_frontend {
namespace {

// Integer tensors up to this size are shape arithmetic: they are folded at once and leave no op behind.
constexpr std::int64_t shape_like = 64;
// Nodes that bodies of functions and branches expand to. Functions that call functions twice grow without bound.
constexpr std::int64_t most_expanded_nodes = 100'000;

// Whether the graph is of PyTorch's TorchScript-based exporter, of whatever age: it keeps no calls, and gives the
// model's parameters their own names, one of a single number at the root as well ("scale"). What the code writes as
// numbers it leaves to nodes.
bool is_torchscript(const onnx::ModelProto& model, const TracedProgram& traced) {
    const auto& nodes = model.graph().node();
    const bool slashes = std::any_of(nodes.begin(), nodes.end(),
                                     [](const onnx::NodeProto& node) { return node.name().starts_with("/"); });
    return (slashes || model.producer_name() == "pytorch") && traced.parameters().empty() &&
           std::none_of(nodes.begin(), nodes.end(),
                        [](const onnx::NodeProto& node) { return metadata(node, traced_call_key) != nullptr; });
}

// Whether a single number of the graph is certainly none of the model's parameters: by its having no module's name, or,
// in a graph of TorchScript, by having one that is given to what the code writes ("val_7", "/Constant_output_0"). Not
// "scale7", nor what that exporter folded, which may have been made of a parameter ("onnx::Mul_7", "7"). The others are
// decided with the rest of the tensors (decide_parameters.h).
bool is_number_of_code(const std::string& name, bool torchscript) {
    if (!torchscript) return !is_dotted(name);
    if (!exporters_name(name)) return false;
    if (name.find('/') != std::string::npos) return true;
    const std::size_t end = name.find_last_not_of("0123456789");
    return end != std::string::npos && name[end] == '_' && name.find("::") == std::string::npos;
}

// Inputs that are no initializers.
std::vector<const onnx::ValueInfoProto*> inputs_of(const onnx::GraphProto& graph) {
    std::set<std::string> initializers;
    for (const auto& tensor : graph.initializer()) initializers.insert(tensor.name());
    std::vector<const onnx::ValueInfoProto*> out;
    for (const auto& input : graph.input())
        if (!initializers.contains(input.name())) out.push_back(&input);
    return out;
}

// Each dimension that is not static has a name: its own, or its place where the exporter gave it none.
std::vector<DeclaredInput> declared(const std::vector<const onnx::ValueInfoProto*>& inputs) {
    std::vector<DeclaredInput> out;
    for (const auto* input : inputs) {
        if (!input->type().has_tensor_type() || !input->type().tensor_type().has_shape())
            thunderc::fail(fmt::format("the input {} has no shape", input->name()),
                           "export the model again with shapes for all its inputs");
        DeclaredInput& one = out.emplace_back(DeclaredInput{input->name(), {}});
        for (const auto& dim : input->type().tensor_type().shape().dim())
            if (dim.has_dim_value())
                one.shape.push_back({dim.dim_value(), ""});
            else
                one.shape.push_back({0, dim.dim_param().empty() ? fmt::format("{}.{}", input->name(), one.shape.size())
                                                                : dim.dim_param()});
    }
    return out;
}

Module empty_module(const std::filesystem::path& path) {
    Module module;
    module.name = path.stem().string();
    module.functions.emplace_back();
    module.functions.front().name = "main";
    return module;
}

}  // namespace

bool default_domain(const std::string& domain) {
    return domain.empty() || domain == "ai.onnx";
}

Importer::Importer(std::shared_ptr<onnx::ModelProto> model, const std::filesystem::path& path,
                   const CompileOptions& options, Report& report)
    : model_(std::move(model)),
      options_(options),
      report_(report),
      reader_(model_, path.parent_path()),
      module_(empty_module(path)),
      builder_(module_.main()),
      integer_values_(module_.main()) {
    for (const auto& import : model_->opset_import())
        opsets_[default_domain(import.domain()) ? "" : import.domain()] = import.version();
    for (const auto& function : model_->functions())
        functions_[{function.domain(), function.name(), function.overload()}] = &function;
}

std::int64_t Importer::opset(const std::string& domain) const {
    const auto at = opsets_.find(default_domain(domain) ? "" : domain);
    return at == opsets_.end() ? 0 : at->second;
}

Module Importer::run() {
    check_opsets(*model_);
    if (const std::int64_t version = opset(""); version < first_opset || version > last_opset) {
        Diagnostic d;
        d.message = fmt::format("the model is of opset {}, which is not supported", version);
        d.expected = fmt::format("opset {} to {}", first_opset, last_opset);
        d.actual = fmt::format("opset {}", version);
        d.help = "export with torch.onnx.export(..., opset_version=20)";
        throw UserError(std::move(d));
    }
    check_model(*model_);
    bind_values(*model_->mutable_graph(), options_.bound);
    refuse_training_mode(model_->graph(), traced_, opset(""));
    refuse_dropped_arguments(model_->graph());
    refuse_unsupported(*model_, functions_);
    torchscript_ = is_torchscript(*model_, traced_);
    if (torchscript_) split_merged_parameters();
    if (torchscript_) restore_recurrent_weights();
    restore_views(*model_->mutable_graph(), traced_);
    tie_copies();
    restore_lost();
    refuse_lost_names();
    stops_.emplace(model_->graph());
    stops_->warn(traced_, said_merged_, frozen_parameters(), report_);
    warn_of_eval_mode(model_->graph(), options_.dropout.value_or(0) > 0, opset(""), report_);
    warn_of_lost_draws(model_->graph(), report_);
    warn_of_untraced(model_->graph(), torchscript_, report_);
    for (const auto& node : model_->graph().node()) {
        for (const auto& name : node.input()) consumers_[name].push_back(&node);
        for (const auto& name : node.output()) producers_[name] = &node;
    }
    import_inputs();
    import_initializers(model_->graph());
    import_nodes(model_->graph().node());
    import_outputs();
    describe_ids(module_.main());
    strip_wrapper(module_.main(), wrapper_prefix(model_->graph()), report_);
    moved_.end();
    report_composites(module_.main(), report_);
    warn_of_unused_inputs(module_.main(), report_);
    // The dynamo exporter keeps its signature and each node's call; files that were made smaller may have calls alone.
    const auto& nodes = model_->graph().node();
    module_.lists_parameters =
        !traced_.parameters().empty() || std::any_of(nodes.begin(), nodes.end(), [](const onnx::NodeProto& node) {
            return metadata(node, traced_call_key) != nullptr;
        });
    module_.keeps_names = torchscript_ && model_->producer_name() == "pytorch" && !model_->producer_version().empty() &&
                          model_->producer_version()[0] != '0' && !model_->producer_version().starts_with("1.");
    module_.merges_nothing = torchscript_ && says_training_mode(model_->graph(), opset(""));
    return std::move(module_);
}

DType Importer::dtype(std::int32_t data_type, const std::string& what) {
    const std::optional<DType> dtype = dtype_of(data_type);
    if (!dtype) {
        Diagnostic d;
        d.message = fmt::format("{} is of type {}, which is not supported", what, data_type_name(data_type));
        d.help = "export the model in float32";
        throw UserError(std::move(d));
    }
    const std::optional<DType> stored = stored_float(data_type);
    if (stored && *stored != *dtype && !warned_f32_) {
        warned_f32_ = true;
        say_how_it_is_computed(*stored, what, options_, report_);
    }
    return *dtype;
}

// ---- names ----------------------------------------------------------------------------------------------------------

void Importer::bind(const std::string& name, Binding binding) {
    names_->bindings[name] = std::move(binding);
}

const Binding* Importer::find(const std::string& name) const {
    for (Names* names = names_; names != nullptr; names = names->outer)
        if (auto at = names->bindings.find(name); at != names->bindings.end()) return &at->second;
    return nullptr;
}

Value Importer::value(const std::string& name) {
    auto* binding = const_cast<Binding*>(find(name));
    if (binding == nullptr) {
        Diagnostic d;
        d.message = fmt::format("the value {} is used before it is computed", name);
        d.help = "the graph is damaged: export the model again";
        throw UserError(std::move(d));
    }
    if (binding->value || binding->is_sequence) return binding->value;
    if (!binding->tensor) binding->tensor = std::make_shared<Tensor>(reader_.tensor(*binding->proto));
    binding->value = builder_.constant(ConstExpr::dense(*binding->tensor));
    materialised_.emplace_back(binding, binding->value);
    return binding->value;
}

std::shared_ptr<const Tensor> Importer::constant_tensor(const std::string& name) {
    auto* binding = const_cast<Binding*>(find(name));
    if (binding == nullptr || binding->is_sequence) return nullptr;
    if (!binding->tensor && binding->proto != nullptr) {
        const Type type = reader_.type(*binding->proto);
        if (type.elements() > IntegerValues::default_limit) return nullptr;
        binding->tensor = std::make_shared<Tensor>(reader_.tensor(*binding->proto));
    }
    if (binding->tensor) return binding->tensor;
    const Tensor* tensor = integer_values_.find(binding->value);
    return tensor == nullptr ? nullptr : std::make_shared<Tensor>(*tensor);
}

// ---- inputs and initializers ----------------------------------------------------------------------------------------

void Importer::import_inputs() {
    const std::vector<const onnx::ValueInfoProto*> graph_inputs = inputs_of(model_->graph());
    const BoundInputs bound = bind_inputs(declared(graph_inputs), options_);
    for (std::size_t k = 0; k < graph_inputs.size(); ++k) {
        const ShapedInput& input = bound.inputs[k];
        const std::int32_t data_type = graph_inputs[k]->type().tensor_type().elem_type();
        ArgInfo info = input_info(input, options_, report_);
        const Type type = Type::tensor(dtype(data_type, "the input " + input.name), input.dims);
        if (type.elements() == 0) {  // nobody has to be asked for its numbers
            Binding empty;
            empty.narrow = narrow_type(data_type);
            empty.tensor = std::make_shared<Tensor>(type);
            bind(input.name, std::move(empty));
            report_.done("input", input.name,
                         fmt::format("is a constant without elements, [{}]", to_string(type.dims)));
            continue;
        }
        Binding binding;
        binding.narrow = narrow_type(data_type);
        if (binding.narrow != 0) info.entries = narrow_entries(binding.narrow);
        const bool wraps = binding.narrow != 0 && info.entries < 0;
        binding.value = module_.main().add_argument(type, value_name(input.name), std::move(info));
        if (wraps) binding.value = wrapped(builder_, binding.value, binding.narrow);
        bind(input.name, std::move(binding));
    }
}

// Of an initializer, whether it was a parameter when the model was traced.
TracedInput Importer::says_exporter(const onnx::TensorProto& tensor) const {
    if (const TracedInput input = traced_.input(tensor.name()); input != TracedInput::unknown) return input;
    if (tied_.constants.contains(tensor.name())) return TracedInput::constant;
    const auto consumers = consumers_.find(tensor.name());
    if (consumers == consumers_.end()) return TracedInput::unknown;
    for (const auto* node : consumers->second)
        if (const TracedInput input = traced_input(*node, tensor.name()); input != TracedInput::unknown) return input;
    return restored_.constants.contains(tensor.name()) ? TracedInput::constant : TracedInput::unknown;
}

// The call of the traced program that the exporter evaluated an initializer of, where it says of it nothing else.
const std::string* Importer::evaluated_call(const onnx::TensorProto& initializer) const {
    const auto evaluated = restored_.evaluated.find(initializer.name());
    return evaluated == restored_.evaluated.end() || says_exporter(initializer) != TracedInput::unknown
               ? nullptr
               : &evaluated->second;
}

// Numbers without a name of their own (an epsilon) and integers are constants.
bool Importer::is_argument(const onnx::TensorProto& initializer) const {
    if (options_.bound.contains(initializer.name())) return false;
    const Type type = reader_.type(initializer);
    if (!is_float(type.dtype) || type.elements() == 0) return false;
    const TracedInput says = says_exporter(initializer);
    if (type.elements() > 1 || says == TracedInput::parameter || evaluated_call(initializer) != nullptr ||
        restored_.standing_in.contains(initializer.name()))
        return true;
    return says != TracedInput::constant && !is_number_of_code(initializer.name(), torchscript_);
}

// A float initializer is an argument until `lift_parameters` has decided. What the exporter says of it is kept as the
// kind: parameter and constant are certain, value is not; what was evaluated, of parameters perhaps, has the call as
// its note.
Binding Importer::initializer(const onnx::TensorProto& tensor) {
    const Type type = reader_.type(tensor);
    Binding binding;
    binding.narrow = narrow_type(tensor.data_type());
    const auto statistic = statistics_.find(tensor.name());
    const bool kept = statistic != statistics_.end();
    const bool moves = kept && statistic->second && options_.transform == Transform::train;
    const bool argument = kept || is_argument(tensor);
    if (!argument || type.elements() <= shape_like)
        binding.proto = &tensor;  // an operator may need to know its numbers
    if (!argument) return binding;
    dtype(tensor.data_type(), "the initializer " + tensor.name());
    const TracedInput says = says_exporter(tensor);
    ArgInfo info;
    info.kind = says == TracedInput::parameter  ? ArgInfo::Kind::parameter
                : says == TracedInput::constant ? ArgInfo::Kind::constant
                                                : ArgInfo::Kind::value;
    if (const std::string* call = evaluated_call(tensor)) {
        info.note = *call;
        if (type.elements() <= 1 || restored_.all_there()) info.kind = ArgInfo::Kind::constant;
    }
    if (kept) {  // checkpoints have it, and --init gives another
        info.kind = moves ? ArgInfo::Kind::buffer : ArgInfo::Kind::parameter;
        info.trainable = false;
        binding.proto = nullptr;
    }
    info.names = {tensor.name()};
    info.sources = {reader_.source(tensor)};
    binding.value = module_.main().add_argument(type, value_name(tensor.name()), std::move(info));
    return binding;
}

void Importer::import_initializers(const onnx::GraphProto& graph) {
    statistics_ = stored_statistics(graph, opset(""));
    for (const auto& tensor : graph.initializer()) bind(tensor.name(), initializer(tensor));
}

void Importer::import_outputs() {
    for (const auto& output : model_->graph().output()) {
        const Binding* binding = find(output.name());
        if (binding == nullptr || binding->is_sequence) {
            Diagnostic d;
            d.message =
                fmt::format("the output {} is {}", output.name(), binding == nullptr ? "never computed" : "a sequence");
            d.help = "export the model again";
            throw UserError(std::move(d));
        }
        const Value result = value(output.name());
        module_.main().results.push_back(result);
        module_.main().result_names.push_back(output.name());
    }
}

// ---- nodes ----------------------------------------------------------------------------------------------------------

void Importer::import_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes) {
    for (const auto& node : nodes) {
        const std::vector<int> stopped = stops_->stopped_inputs(node);
        import_node(stopped.empty() ? node : with_stops(node, stopped));
    }
}

// The node with a stop of the gradient before these operands.
onnx::NodeProto Importer::with_stops(const onnx::NodeProto& node, const std::vector<int>& inputs) {
    onnx::NodeProto stopped = node;
    builder_.set_provenance(provenance_of(node));
    for (const int k : inputs) {
        const Value v = value(node.input(k));
        if (!v || !is_float(type(v).dtype)) continue;
        Binding binding;
        binding.value = builder_.op("stop_gradient", {v});
        stopped.set_input(k, node.input(k) + ".detach()");  // no exporter's name
        bind(stopped.input(k), std::move(binding));
    }
    return stopped;
}

void Importer::import_node(const onnx::NodeProto& node) {
    Provenance provenance = provenance_of(node);
    provenance.reads = traced_.read_by(node);
    if (!provenance.reads.empty() && is_region(node)) {
        const std::string owner = parent(provenance.reads.front());
        if (!within(owner, provenance.scope) && !within(provenance.scope, owner)) {
            provenance.scope = owner;
            provenance.module_class.clear();
        }
    }
    if (!within_
             .empty()) {  // the body of a function: what the model calls it is more telling than the body's own names
        provenance.nodes = outer_provenance_.nodes;
        provenance.node_ops = outer_provenance_.node_ops;
        if (provenance.scope.empty()) {
            provenance.scope = outer_provenance_.scope;
            provenance.module_class = outer_provenance_.module_class;
        }
        if (provenance.reads.empty()) provenance.reads = outer_provenance_.reads;
    }
    builder_.set_provenance(provenance);
    const std::size_t first_op = module_.main().ops.size();
    const std::size_t first_value = module_.main().values.size();
    const std::int64_t version = opset(node.domain());
    Node view(*this, node, version);
    try {
        if ((!within_.empty() || nesting_ > 0) && ++expanded_nodes_ > most_expanded_nodes)
            view.fail(fmt::format("the model's functions and loops expand to more than {} nodes", most_expanded_nodes),
                      "export the model without them, or a smaller part of it");
        if (default_domain(node.domain())) check_node(node, version);
        if (import_user_function(view)) return;
        const OpImporter* importer = default_domain(node.domain()) ? find_importer(node.op_type(), version) : nullptr;
        const bool of_model = function_of(node) != nullptr;
        if (importer != nullptr && !of_model) {
            if (nesting_ == 0) materialised_.clear();
            ++nesting_;
            importer->import(view);
            --nesting_;
            keep_narrow(node, importer->integers);
            fold_small_outputs(node, first_op, first_value);
            return;
        }
        if (import_body(node)) return;
        throw UserError(unsupported_operator(node, version));
    } catch (UserError& error) {
        Diagnostic& d = error.diagnostic();
        if (d.node.empty() && !provenance.nodes.empty()) d.node = provenance.nodes.front();
        if (d.op.empty())
            d.op = operator_text(node) + (!within_.empty() && !provenance.node_ops.empty()
                                              ? " in the body of " + provenance.node_ops.front()
                                              : "");
        if (d.module.empty()) d.module = provenance.scope;
        if (d.help.empty()) d.help = help_on_short(node);
        if (d.help.empty())
            d.help =
                "the operator is supported in other forms only, or the graph breaks ONNX's rules here: "
                "onnx.checker.check_model(..., full_check=True) says which";
        throw;
    }
}

// Shape arithmetic is folded as it is imported: a node whose outputs are small known integers leaves constants, and its
// ops are taken back. So the module holds what computes, and not what computed shapes.
void Importer::fold_small_outputs(const onnx::NodeProto& node, std::size_t first_op, std::size_t first_value) {
    Function& main = module_.main();
    if (main.ops.size() == first_op) return;
    // A graph within it has an argument, which stays.
    if (!main.arguments.empty() && main.arguments.back().index >= first_value) return;
    std::vector<std::pair<std::string, std::shared_ptr<const Tensor>>> folded;
    for (const auto& name : node.output()) {
        if (name.empty()) continue;
        const Binding* binding = find(name);
        if (binding == nullptr || binding->is_sequence) return;
        if (!binding->value) continue;  // a constant already
        const Type& type = main.type(binding->value);
        if (is_float(type.dtype) ? type.elements() > 1 : type.elements() > shape_like) return;
        const Tensor* tensor = integer_values_.find(binding->value);
        if (tensor == nullptr) return;
        folded.emplace_back(name, std::make_shared<Tensor>(*tensor));
    }
    for (auto& [name, tensor] : folded) {
        Binding binding;
        binding.tensor = std::move(tensor);
        binding.narrow = find(name)->narrow;
        bind(name, std::move(binding));
    }
    // The last ones: what was made later has a higher index.
    for (; !materialised_.empty() && materialised_.back().second.index >= first_value; materialised_.pop_back())
        materialised_.back().first->value = Value{};
    main.ops.resize(first_op);
    main.values.resize(first_value);
    integer_values_.forget_from(static_cast<std::uint32_t>(first_value), first_op);
}

// ---- after the nodes ------------------------------------------------------------------------------------------------

}  // namespace thunderc::onnx_frontend

namespace thunderc {

Module import_onnx(const std::filesystem::path& path, const CompileOptions& options, Report& report) {
    return onnx_frontend::Importer(onnx_frontend::read_model(path), path, options, report).run();
}

}  // namespace thunderc
