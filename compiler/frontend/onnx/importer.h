// SPDX-License-Identifier: Apache-2.0
// The state of one import, and what the importer of one node sees of it.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <deque>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/integer_values.h"
#include "compiler/frontend/onnx/gradient_stops.h"
#include "compiler/frontend/onnx/restore_parameters.h"
#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/tensors.h"
#include "compiler/frontend/onnx/tie_parameters.h"
#include "compiler/frontend/onnx/traced_program.h"
#include "compiler/frontend/shared/moved_buffers.h"
#include "compiler/ir/builder.h"
#include "compiler/options.h"
#include "compiler/support/report.h"

namespace thunderc::onnx_frontend {

// What a name of the graph stands for.
struct Binding {
    Value value;                               // none: a tensor that no op has needed as a value yet
    std::shared_ptr<const Tensor> tensor;      // of a constant, where known
    const onnx::TensorProto* proto = nullptr;  // of a constant, not read yet
    std::vector<Value> sequence;               // of a sequence of tensors
    bool is_sequence = false;
    std::int32_t narrow = 0;  // the ONNX type of integers that are narrower than ours, see narrow_integers.h
};

// What an operator's results are where they are integers of a type that is narrower than ours. There is no default: an
// operator that says nothing would be given a wrong width.
class Integers {
  public:
    // Of this operand's element type; `computed`: they may have left its range, and wrap around.
    static constexpr Integers of_operand(int operand, bool computed) { return {operand, computed}; }
    // Booleans, floating point numbers, counts and indices in int64; or the importer gives Node::output the type.
    static constexpr Integers own() { return {-1, false}; }

    bool are_own() const { return operand_ < 0; }
    int operand() const { return operand_; }
    bool computed() const { return computed_; }

  private:
    constexpr Integers(int operand, bool computed) : operand_(operand), computed_(computed) {}
    int operand_;
    bool computed_;
};
constexpr Integers own = Integers::own();
constexpr Integers moved = Integers::of_operand(0, false);
constexpr Integers computed = Integers::of_operand(0, true);

// Names of one graph or function body. A body of a function sees its own names only, a subgraph those around it too.
struct Names {
    std::unordered_map<std::string, Binding> bindings;
    Names* outer = nullptr;
};

bool default_domain(const std::string& domain);  // ONNX's own operators

// Functions of the model, by domain, name and overload.
// Bodies of functions within functions: more would be no function that somebody wrote.
inline constexpr std::size_t deepest_function = 32;
using FunctionTable = std::map<std::tuple<std::string, std::string, std::string>, const onnx::FunctionProto*>;

class Importer {
  public:
    Importer(std::shared_ptr<onnx::ModelProto> model, const std::filesystem::path& path, const CompileOptions& options,
             Report& report);
    Module run();

    // ---- for importers of operators ----
    Builder& builder() { return builder_; }
    Report& report() { return report_; }
    const CompileOptions& options() const { return options_; }
    const TensorReader& reader() const { return reader_; }
    IntegerValues& integer_values() { return integer_values_; }
    Value value(const std::string& name);  // makes a `constant` of a tensor that is not a value yet
    const Binding* find(const std::string& name) const;
    std::shared_ptr<const Tensor> constant_tensor(
        const std::string& name);  // known at compile time and small, else nullptr
    const Type& type(Value v) const { return module_.main().type(v); }
    // The stored tensor that an operand is, looked at or arranged in another way: "wpe.weight f32[1024,768]". For
    // messages; "" for what is computed.
    std::string stored_tensor(const std::string& name) const;
    // Whether a node of the graph gives the value, and is of the same traced call as the one that reads it.
    bool gives_within_call(const std::string& value, const onnx::NodeProto& reader) const;
    // Whether an operator of that name is made of the traced call of `node`.
    bool has_in_call(const onnx::NodeProto& node, std::string_view op_type) const;
    bool is_by_torch() const;
    bool is_read(const std::string& value) const;  // by a node of the graph, or as its output
    // Whether a Shape or Size is among what a value of the graph is computed from.
    bool made_of_shapes(const std::string& name) const;
    // Of a stored tensor fewer were there than a slice asked for: named where shapes do not fit for that reason.
    void note_short(const std::string& name, std::int64_t size, std::int64_t asked);
    MovedBuffers& moved() { return moved_; }
    // That is what a buffer of the model becomes in each micro-step; what the graph computed is no buffer.
    void move_average(Value buffer, Value towards, double share);
    // Of a stored statistic: what torch calls it in its module, where the graph has no name for it, and what it begins
    // as.
    struct StatisticIs {
        const char* leaf;
        ArgInfo::Init begins;
    };
    void describe_statistic(Value v, StatisticIs is);
    void bind(const std::string& name, Binding binding);
    bool import_body(const onnx::NodeProto& node);  // of a function; false where there is none
    const onnx::FunctionProto* function_of(const onnx::NodeProto& node) const;  // nullptr: none of the model's own
    // Inlines a graph (a branch of If, the body of a loop) and gives its outputs.
    std::vector<Binding> import_subgraph(const onnx::GraphProto& graph, std::span<const Binding> inputs = {});
    DType dtype(std::int32_t data_type, const std::string& what);  // with the warning for f16 and f64

  private:
    void split_merged_parameters();
    void restore_recurrent_weights();
    void tie_copies();
    void restore_lost();
    bool warn_of_merged();
    std::set<std::string> frozen_parameters() const;
    std::string shown_name(const std::string& name) const;
    std::string shown_names(const std::vector<std::string>& names) const;
    void import_inputs();
    TracedInput says_exporter(const onnx::TensorProto& tensor) const;
    void import_initializers(const onnx::GraphProto& graph);
    const std::string* evaluated_call(const onnx::TensorProto& initializer) const;
    bool is_argument(const onnx::TensorProto& initializer) const;
    Binding initializer(const onnx::TensorProto& tensor);
    Binding inner_initializer(const onnx::TensorProto& tensor);
    void name_statistic(ArgInfo& info, const std::string& name);
    void import_nodes(const google::protobuf::RepeatedPtrField<onnx::NodeProto>& nodes);
    void import_node(const onnx::NodeProto& node);
    onnx::NodeProto with_stops(const onnx::NodeProto& node, const std::vector<int>& inputs);
    void import_outputs();
    void import_function(const onnx::FunctionProto& function, const onnx::NodeProto& node);
    void keep_narrow(const onnx::NodeProto& node, Integers integers);
    void fold_small_outputs(const onnx::NodeProto& node, std::size_t first_op, std::size_t first_value);
    void refuse_lost_names() const;
    std::string help_on_short(const onnx::NodeProto& node) const;
    std::int64_t opset(const std::string& domain) const;

    std::shared_ptr<onnx::ModelProto> model_;
    const CompileOptions& options_;
    Report& report_;
    TensorReader reader_;
    Module module_;
    Builder builder_;
    IntegerValues integer_values_;
    FunctionTable functions_;
    std::map<std::string, std::int64_t> opsets_;
    Names top_;
    Names* names_ = &top_;
    Provenance outer_provenance_;                     // of the node whose function body is being imported
    std::vector<const onnx::FunctionProto*> within_;  // whose bodies are being imported, the outermost first
    int nesting_ = 0;                                 // of nodes within nodes (a branch of If)
    std::int64_t expanded_nodes_ = 0;                 // imported from bodies of functions and branches
    std::deque<Names> inner_names_;                   // of bodies and branches, kept: materialised_ may point into them
    std::vector<std::pair<Binding*, Value>>
        materialised_;  // constants that became values while importing the current node
    std::map<std::string, std::vector<const onnx::NodeProto*>> consumers_;  // of the graph's own names
    std::map<std::string, const onnx::NodeProto*> producers_;               // the same
    TracedProgram traced_{model_->graph()};
    TiedParameters tied_;
    RestoredParameters restored_;
    bool torchscript_ = false;  // whether that exporter made the graph
    // Initializers of graphs within the graph that are arguments, by name.
    struct InnerInitializer {
        const onnx::TensorProto* tensor;
        Binding binding;
    };
    std::map<std::string, InnerInitializer> inner_initializers_;
    std::map<std::string, bool>
        statistics_;  // initializers that batch norms have for these, and whether they move them
    MovedBuffers moved_{builder_};
    std::map<Value, std::string> movers_;  // the first module that moves a buffer
    std::set<std::string> said_merged_;    // values of the traced program
    std::optional<GradientStops> stops_;   // of the graph as it is imported
    bool warned_f32_ = false;
    // Slices that asked for more than there is.
    struct Short {
        std::string tensor;
        std::int64_t size, asked;
    };
    std::vector<Short> short_;
};

// What the importer of one operator sees.
class Node {
  public:
    Node(Importer& importer, const onnx::NodeProto& proto, std::int64_t opset)
        : importer_(importer), proto_(proto), opset_(opset) {}

    const onnx::NodeProto& proto() const { return proto_; }
    Importer& importer() { return importer_; }
    Builder& b() { return importer_.builder(); }
    std::int64_t opset() const { return opset_; }

    // ---- inputs ----
    std::size_t inputs() const { return static_cast<std::size_t>(proto_.input_size()); }
    bool has(std::size_t i) const { return i < inputs() && !proto_.input(static_cast<int>(i)).empty(); }
    Value input(std::size_t i);  // fails where absent
    const std::vector<Value>& sequence(std::size_t i);
    Type type(std::size_t i) { return importer_.type(input(i)); }
    std::vector<std::int64_t> integers(std::size_t i, std::string_view what);  // known at compile time, or it fails
    std::int64_t integer(std::size_t i, std::string_view what);
    std::optional<std::vector<std::int64_t>> known_integers(std::size_t i);  // fails where it has a fraction
    std::optional<Tensor> known(std::size_t i);                              // a small constant
    std::int32_t narrow(std::size_t i) const;                                // as in Binding; 0 where absent
    void take_floats_only();  // where ONNX takes others and the op that it becomes does not

    // ---- attributes ----
    const onnx::AttributeProto* attribute(std::string_view name) const;
    std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
    double number(std::string_view name, double otherwise) const;
    std::string string(std::string_view name, const std::string& otherwise) const;
    // A string that is one of these, or it fails; the first one where the node does not say.
    std::string one_of(std::string_view name, std::initializer_list<std::string_view> values) const;
    std::optional<std::vector<std::int64_t>> integers(std::string_view name) const;
    std::int64_t axis(std::int64_t axis, std::int64_t rank) const;  // normalised, or it fails
    // Several: it fails where two are one.
    std::vector<std::int64_t> axes(std::vector<std::int64_t> given, std::int64_t rank) const;

    // ---- outputs ----
    std::size_t outputs() const { return static_cast<std::size_t>(proto_.output_size()); }
    bool wants(std::size_t i) const { return i < outputs() && !proto_.output(static_cast<int>(i)).empty(); }
    // `narrow`: see Binding; 0 where the table's line says what integers are.
    void output(std::size_t i, Value v, std::int32_t narrow = 0);
    void output_constant(std::size_t i, Tensor tensor, std::int32_t narrow = 0);
    void output_sequence(std::size_t i, std::vector<Value> values);
    void expand_body();  // imports the function body that ONNX's schema has for the operator, or fails

    [[noreturn]] void fail(std::string message, std::string help = {}, std::string expected = {},
                           std::string actual = {}) const;

  private:
    Importer& importer_;
    const onnx::NodeProto& proto_;
    std::int64_t opset_;
};

// One line of the table of operators: importers of one operator hold for ranges of opset versions.
struct OpImporter {
    std::string_view op;
    std::int64_t since;
    std::int64_t until;
    void (*import)(Node&);
    Integers integers;
};

constexpr std::int64_t first_opset = 13;
constexpr std::int64_t last_opset = 28;

// One for each file of operators.
std::span<const OpImporter> math_ops();
std::span<const OpImporter> number_ops();
std::span<const OpImporter> shape_ops();
std::span<const OpImporter> reduce_ops();
std::span<const OpImporter> nn_ops();
std::span<const OpImporter> window_ops();
std::span<const OpImporter> recurrent_ops();
std::span<const OpImporter> resize_ops();
std::span<const OpImporter> sample_ops();
std::span<const OpImporter> deform_ops();
std::span<const OpImporter> roi_ops();
std::span<const OpImporter> signal_ops();
std::span<const OpImporter> random_ops();
std::span<const OpImporter> scatter_ops();
std::span<const OpImporter> generator_ops();
std::span<const OpImporter> sequence_ops();
std::span<const OpImporter> loop_ops();
std::span<const OpImporter> known_ops();

// nullptr where there is none for that version.
const OpImporter* find_importer(std::string_view op, std::int64_t opset);
bool known_operator(std::string_view op);
std::vector<std::string> similar_operators(std::string_view op);  // by spelling, for "did you mean"

// A function body of ONNX's own schema for the operator, for operators without an importer. `types` of the inputs,
// absent: nullopt.
std::optional<onnx::FunctionProto> schema_function(const onnx::NodeProto& node, std::int64_t opset,
                                                   std::span<const std::optional<Type>> types);

}  // namespace thunderc::onnx_frontend
