// SPDX-License-Identifier: Apache-2.0
// What importers of ATen's operators see: a call with its arguments, and the module that is made. Frontends whose files
// hold such calls derive from Importer: `pt2` has a graph of them, `torchscript` code that makes them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/analysis/integer_values.h"
#include "compiler/frontend/aten/call.h"
#include "compiler/frontend/aten/named_tensors.h"
#include "compiler/frontend/shared/moved_buffers.h"
#include "compiler/ir/builder.h"
#include "compiler/options.h"
#include "compiler/support/report.h"

namespace thunderc::aten {

// What a name of the graph stands for.
struct Binding {
    enum class Kind : std::uint8_t { nothing, tensor, complex, list, integer, number, boolean } kind = Kind::nothing;
    Value value;                 // of a tensor
    std::vector<Binding> items;  // of a list; of a complex tensor its real and imaginary parts
    std::int64_t integer = 0;    // of booleans as well
    double number = 0;
    // Views share memory. A call that writes to one of them leaves the others behind: `writes` counts for all of them,
    // and `seen` is what it was when this value was made.
    std::shared_ptr<int> writes;
    int seen = 0;
    // Of a view: what it is a view of, and what that is when the view is written to.
    std::string base;
    std::function<Value(Value base, Value written)> back;
    // Of what the model keeps from step to step, its name: a write to it would be more than a step of its own.
    std::string parameter, buffer, constant;

    static Binding of(Value v);
    static Binding of(std::int64_t v);
    static Binding of(double v);
    static Binding of(bool v);
    bool is_stale() const { return writes && *writes != seen; }
};

class Node;

// One line of the table of operators.
struct OpImporter {
    std::string_view op;  // "add" holds for all overloads; "pow.Scalar" for one, before "pow"
    void (*import)(Node&);
    // Whether the result may be the operand's memory: what is written to the one is written to the other.
    enum class Memory : std::uint8_t { own, shared } memory = Memory::own;
    // Whether integers of the result may have left the range of their type.
    enum class Numbers : std::uint8_t { moved, computed } numbers = Numbers::moved;
};
inline constexpr OpImporter::Memory own_memory = OpImporter::Memory::own, view = OpImporter::Memory::shared;
inline constexpr OpImporter::Numbers moved = OpImporter::Numbers::moved, computed = OpImporter::Numbers::computed;

inline constexpr std::size_t most_dimensions = 64;  // of a tensor, as torch has it

// Names of nodes, modules and parameters stand in comments of generated text: what would end one is spelled.
std::string plain(std::string text);

class Importer {
  public:
    Importer(Module module, const CompileOptions& options, Report& report);
    virtual ~Importer() = default;
    Importer(const Importer&) = delete;
    Importer& operator=(const Importer&) = delete;

    // ---- for importers of operators ----
    Builder& builder() { return builder_; }
    Report& report() { return report_; }
    const CompileOptions& options() const { return options_; }
    const Type& type(Value v) const { return module_.main().type(v); }
    const Binding& find(const std::string& name) const;  // fails where there is none, or it was written over
    void bind(const std::string& name, Binding binding) { names_[name] = std::move(binding); }
    Binding resolve(const Argument& argument) const;
    const Tensor* known(Value v);  // a small constant; fails where it counts steps, which no program does
    // What the file says of one of its tensors; nullptr: nothing.
    virtual const TensorMeta* meta(const std::string& name) const = 0;
    // Of which of PyTorch's types it is, several of which are one of ours; unknown: nothing says so.
    virtual ScalarType torch_type(const std::string& name) const;
    virtual std::optional<std::int64_t> size(const Size& size) const = 0;  // nullopt where it depends on data
    std::optional<Dims> dims(const TensorMeta& meta) const;
    DType dtype(ScalarType type, const std::string& what);  // with the warning for f16 and f64
    // A call writes to what this names: it stands for `v` from here on.
    void write(const std::string& name, Value v);
    MovedBuffers& moved() { return moved_; }
    // Imports the calls of a graph within the graph, and gives its outputs.
    std::vector<Binding> import_subgraph(const Graph& graph, std::span<const Binding> inputs);
    // A call of the model that is a dropout and drops nothing, since the export is of a model in eval() mode.
    void note_dropout(double rate);
    void note_frozen_norm();
    // A batch norm has this for its running mean or variance, and moves it or does not.
    void note_statistic(Value of, bool variance, bool moves);

  protected:
    // Parameters, buffers and constants, in order.
    void import_tensors(const std::shared_ptr<const ZipArchive>& archive, std::span<const NamedTensor> tensors);
    void require_numbers_of_constants() const;
    // Throws UsageError where --bind names what is no input.
    void require_bound_names(const std::vector<std::string>& inputs) const;
    // An input that --bind makes a constant of this type: of a list its numbers, of a file a tensor.
    Value bound_constant(const std::string& name, const CompileOptions::BoundInput& given, const Type& type);
    void import_call(const Call& call);
    void import_calls(const Graph& graph);
    // What all frontends do behind the last call. `classes`: of modules, with their packages, by path.
    Module finished(const std::map<std::string, std::string>& classes);

    const CompileOptions& options_;
    Report& report_;
    Module module_;
    Builder builder_;
    IntegerValues integer_values_;
    MovedBuffers moved_;
    std::unordered_map<std::string, Binding> names_;
    std::vector<const Graph*> graphs_;  // the one that is imported, and those around it
    std::set<std::string> counters_;    // names of buffers of integers that a call writes to
    std::set<Value> counted_;           // what they were and are: their numbers are those of the first step

  private:
    void share_memory(const Call& call, OpImporter::Memory memory);
    void import_known(Node& node);
    void write_in_place(const Call& call, OpImporter::Memory memory);
    void look_otherwise(const std::string& name, const std::string& result);
    void refuse_given_results(const Node& node) const;
    bool is_constant(const std::string& name) const;
    bool takes_complex(const Call& call) const;
    void check_results(const Call& call);
    void refuse_counted() const;
    void warn_of_eval_mode();
    std::string wrapper(const std::map<std::string, std::string>& classes) const;

    std::vector<std::string> dropouts_, norms_;  // places of such calls
    std::vector<double> rates_;
    int depth_ = 0;
    bool warned_precision_ = false;
};

// A module with an empty main for a program that says what its parameters are, by names that are its model's own.
Module module_of(const std::filesystem::path& path);

// What the importer of one call sees.
class Node {
  public:
    Node(Importer& importer, const Call& call) : importer_(importer), call_(call) {}

    const Call& call() const { return call_; }
    Importer& importer() { return importer_; }
    Builder& b() { return importer_.builder(); }
    std::string op() const;  // "add" of aten.add.Tensor, and of aten.add_.Tensor

    // ---- arguments, by the names of the operator's schema ----
    const Argument* argument(std::string_view name) const;  // nullptr: not given, or None
    const Argument* at(std::size_t k) const;
    bool has(std::string_view name) const { return argument(name) != nullptr; }
    bool is_tensor(std::string_view name) const;
    Value tensor(std::string_view name);  // fails where absent
    Value tensor(std::string_view name, DType dtype) { return b().cast(tensor(name), dtype); }
    Type type(std::string_view name) { return importer_.type(tensor(name)); }
    // A tensor's shape, of `least` to `most` dimensions, or it fails: files that PyTorch did not write have others.
    Dims shape(std::string_view name, std::size_t least, std::size_t most);
    Dims shape(std::string_view name, std::size_t rank) { return shape(name, rank, rank); }
    // A tensor of floating point, of which something is computed that has fractions; else it fails.
    Value fractions(std::string_view name);
    // Fails where so many channels cannot be divided into so many groups.
    void check_groups(std::int64_t groups, std::int64_t channels);
    // A tensor, or a number as one without dimensions, of this type.
    Value operand(std::string_view name, DType dtype);
    std::vector<Value> tensors(std::string_view name);
    std::vector<std::optional<Value>> optional_tensors(std::string_view name);
    std::int64_t integer(std::string_view name, std::optional<std::int64_t> otherwise = std::nullopt) const;
    double number(std::string_view name, std::optional<double> otherwise = std::nullopt) const;
    bool boolean(std::string_view name, bool otherwise) const;
    std::string text(std::string_view name, const std::string& otherwise) const;
    std::optional<Dims> integers(std::string_view name) const;  // one number is a list of one
    std::optional<std::vector<double>> numbers(std::string_view name) const;
    bool is_list(std::string_view name) const;
    bool is_whole(std::string_view name) const;  // an integer, or a tensor of integers; also where it is absent
    std::optional<ScalarType> scalar_type(std::string_view name) const;
    std::int64_t axis(std::int64_t axis, std::int64_t rank) const;  // normalised, or it fails
    std::int64_t axis(std::string_view name, std::int64_t rank, std::optional<std::int64_t> otherwise = std::nullopt);
    // One that is there: of a scalar `axis` gives 0, as torch has it, and this fails.
    std::int64_t dimension(std::int64_t axis, std::int64_t rank) const;
    std::int64_t dimension(std::string_view name, std::int64_t rank,
                           std::optional<std::int64_t> otherwise = std::nullopt);
    const Tensor* known(std::string_view name);  // a small constant

    // ---- results ----
    std::size_t results() const;  // names of results; a list counts each of its items, an open one none
    bool wants(std::size_t k) const;
    void give(Value v, std::size_t k = 0);
    void give(Binding binding, std::size_t k = 0);
    // A view: `back` makes of the operand's value and of one that is written to the view what the operand is then.
    void give_view(Value v, std::function<Value(Value base, Value written)> back, std::size_t k = 0);
    // What may be the operand's memory or a copy: neither is read once the other was written to.
    void give_perhaps_shared(Value v);
    // Whether the first operand's elements lie in order, so that another shape of it is a view in PyTorch as well, and
    // no copy; nullopt where nothing says so.
    std::optional<bool> is_dense() const;

    [[noreturn]] void fail(std::string message, std::string help = {}, std::string expected = {},
                           std::string actual = {}) const;

  private:
    std::optional<std::string> result(std::size_t k) const;  // its name; nullopt: nobody reads it

    Importer& importer_;
    const Call& call_;
};

// One for each file of operators.
std::span<const OpImporter> elementwise_ops();
std::span<const OpImporter> product_ops();
std::span<const OpImporter> reshape_ops();
std::span<const OpImporter> shape_ops();
std::span<const OpImporter> index_ops();
std::span<const OpImporter> creation_ops();
std::span<const OpImporter> reduce_ops();
std::span<const OpImporter> nn_ops();
std::span<const OpImporter> loss_ops();
std::span<const OpImporter> activation_ops();
std::span<const OpImporter> window_ops();
std::span<const OpImporter> window_backward_ops();
std::span<const OpImporter> fourier_ops();
std::span<const OpImporter> recurrent_ops();
std::span<const OpImporter> scatter_ops();
std::span<const OpImporter> bag_ops();
std::span<const OpImporter> order_ops();
std::span<const OpImporter> distance_ops();
std::span<const OpImporter> backward_ops();
std::span<const OpImporter> number_ops();
std::span<const OpImporter> composite_ops();
std::span<const OpImporter> graph_ops();

// nullptr where there is none. An operator that writes to its first argument ("add_") is found under the name of the
// one that does not.
const OpImporter* find_importer(std::string_view target);
std::vector<std::string_view> names_of_importers();
bool writes_in_place(std::string_view target);  // "aten.add_.Tensor"
// The argument that a call writes to: the first one of such, or what is given as `out`. nullptr: it writes to none.
const Argument* written_by(const Call& call);

// Throws UserError that names all operators of a graph that have no importer, so that nobody has to try again and
// again.
void refuse_unknown(const Graph& graph);

}  // namespace thunderc::aten
