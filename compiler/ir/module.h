// SPDX-License-Identifier: Apache-2.0
// Modules, functions, ops and values: what every pass takes and gives. All of it is plain data with value semantics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/ir/attribute.h"
#include "compiler/ir/type.h"

namespace thunderc {

// An index into Function::values. None stands for an absent operand.
struct Value {
    std::uint32_t index = none_index;

    static constexpr std::uint32_t none_index = 0xffffffff;
    explicit operator bool() const { return index != none_index; }
    auto operator<=>(const Value&) const = default;
};

// Where an op came from. Passes that replace ops merge the provenance of what they replace.
struct Provenance {
    std::string scope;                  // module path: "model.layers.0.self_attn.q_proj"; "" at the root
    std::string module_class;           // of the scope: "Linear"; "" where not known
    std::vector<std::string> nodes;     // the exporter's node names, in order, without repetition
    std::vector<std::string> node_ops;  // their operators, in the same order: "MatMul"
    // The framework's names of the parameters that the traced node took, where the exporter says so; until
    // lift_parameters has used them.
    std::vector<std::string> reads{};

    bool operator==(const Provenance&) const = default;
};

Provenance merge(const Provenance& a, const Provenance& b);  // common scope; nodes of a, then those of b

struct Op {
    std::string name;             // key into the op registry
    std::vector<Value> operands;  // some may be none
    std::vector<Value> results;
    Attributes attributes;
    Provenance provenance;
    std::string stream{};  // after plan: one of Module::streams; "" is the compute stream
};

// ---- after plan: where a value lies ---------------------------------------------------------------------------------

struct Placement {
    enum class Arena : std::uint8_t {
        unplaced,  // before plan
        parameters,
        gradients,
        optimizer,
        saved,
        scratch,
        constants,
        batch,
        results,  // what a function library gives beside the gradients of parameters
        scalars,
        caller,          // an argument or result of a called function: whoever calls places it
        narrow_copies,   // parameters once more in bf16, as products read them
        gathered,        // the units of a sharded model, each whole
        unit_gradients,  // their gradients before they are summed over ranks, each whole
        scaling,         // of what is quantised: amaxes, scales and histories, and weights in codes
    };
    Arena arena = Arena::unplaced;
    std::int64_t offset = 0;        // bytes into the arena; of member 0 for a family
    std::int64_t layer_stride = 0;  // bytes from one member of a family to the next
    Dims strides;                   // elements; empty: dense. A view of another value has the viewed value's
    Value view_of;                  // the value whose bytes these are, where it owns none of its own
    // Of a tensor in the body of a loop: in the iteration of layer i it lies `i % slots` layer strides behind the
    // offset.
    std::int64_t slots = 0;

    bool operator==(const Placement&) const = default;
};

std::string_view name_of(Placement::Arena arena);
std::optional<Placement::Arena> parse_arena(std::string_view name);

struct ValueInfo {
    Type type;
    std::string name;  // a hint, from scope and op; printing makes it unique in its function
    Placement placement;
};

// ---- arguments of main ----------------------------------------------------------------------------------------------

// Initial data of a parameter, read only when it is asked for.
struct WeightSource {
    Type type;                // as `read` gives it
    bool transposed = false;  // the two dimensions of the stored data are swapped against the parameter
    std::function<std::vector<std::byte>()> read;  // the stored bytes, dense; empty where there are none to be read
    std::string missing;                           // why there are none: the external file's name
    DType stored = DType::f32;                     // how the file has them, of floating point
};

// Of the input in which whoever runs a program says which samples a micro-batch has, by their running numbers: what is
// drawn (dropout) is drawn by them. No file of batches has it.
inline constexpr const char* sample_numbers_source = "sample_numbers";

struct ArgInfo {
    // buffer: what the model keeps beside its parameters and moves in each micro-step, as a batch norm's running
    // statistics: a result of the entry (result_names has the buffer's name) is what it will be. It has no gradient and
    // no state of the optimizer, and is whole on each rank. output: where a result of a function library goes; the
    // argument itself is never read.
    enum class Kind : std::uint8_t { input, parameter, buffer, constant, state, scalar, output, value };
    Kind kind = Kind::value;
    // Framework names, one for each member of a family (one for a tensor). For inputs: the graph's name.
    std::vector<std::string> names;
    std::vector<std::vector<std::string>> aliases;  // for each member: the other names it answers to
    bool trainable = true;
    bool outer = false;    // no hidden matrix: see compiler/analysis/outer_matrices.h
    bool adapter = false;  // of an adapter that was added to the model (add_adapters): no file of the model has it
    // Where no weights are given. uniform: between -1 and 1 over the root of the last dimension, as torch's layers
    // begin.
    enum class Init : std::uint8_t { normal, zeros, ones, uniform } init = Init::normal;
    std::string note;  // what an exporter folded into it, "" where it is the checkpoint's tensor
    std::vector<std::shared_ptr<const WeightSource>> sources;  // for each member; null: none
    // inputs
    bool batched = false;  // dimension 0 is the batch
    bool added = false;    // by --loss: no input of the model
    struct Ids {
        std::int64_t entries = -1;      // they lie in [0, entries)
        std::int64_t ignore_index = 0;  // a value that may stand outside that range
        bool operator==(const Ids&) const = default;
    };
    std::int64_t entries = -1;  // of all; see Ids
    std::int64_t ignore_index = 0;
    // Runs of positions along an axis that are looked up in tables of different sizes; empty where all are alike.
    struct Column {
        std::int64_t end = 0;  // behind its last position; it begins where the one before ends
        Ids ids;
        std::string table;  // that has so many rows: a parameter's name; "" where it is none
    };
    std::int64_t column_axis = 0;
    std::vector<Column> columns;
    Ids ids_at(const Type& type, std::int64_t element) const;  // of one element, in order
    std::int64_t least_entries() const;                        // what lies below is fine in every column
    // default role for packed data: tokens, next_tokens, ones, positions; or cotangent, or sample_numbers_source
    std::string source;
};

std::string_view name_of(ArgInfo::Init init);

// What checkpoints of the framework have: parameters, and buffers that the model moves.
inline bool is_of_checkpoint(const ArgInfo& info) {
    return info.kind == ArgInfo::Kind::parameter || info.kind == ArgInfo::Kind::buffer;
}

// What belongs to a parameter is a state with the names "<prefix>.<parameter>". Prefixes that are more than a word of
// the optimizer's: the gradient, and the copy in bf16 that products read.
inline constexpr std::string_view gradient_state = "grad", narrow_copy_state = "narrow_copy";
// States of no parameter, but of a tensor that is quantised: "fp8.<module>.input_scale", of "weight_" and "gradient_",
// "_amax" and "_history".
inline constexpr std::string_view scaling_state = "fp8";
std::string state_name(std::string_view prefix, std::string_view parameter);
// Whether it is a state with this prefix.
bool is_state(const ArgInfo& info, std::string_view prefix);
// The parameter that it belongs to: its first name without the prefix.
std::string parameter_of_state(const ArgInfo& info);

// "model.layers.{0..31}.mlp.up_proj.weight" for names that differ in one number that counts up by a constant step;
// the names joined by ", " otherwise. For comments and printed IR.
std::string name_pattern(const std::vector<std::string>& names);

struct Function {
    std::string name;
    std::deque<ValueInfo> values;  // references to types stay valid while values are added
    std::vector<Value> arguments;
    std::vector<ArgInfo> argument_info;  // as long as arguments in entry functions, else empty
    std::vector<Op> ops;
    std::vector<Value> results;
    std::vector<std::string> result_names;  // as long as results, or empty
    // "" for a function of the program; "kernel:<schedule>" for a kernel function; "loop" for the body of a loop that
    // calls the function of a layer with collectives around it.
    std::string kind;
    std::string scope;               // module path pattern it was outlined from: "model.layers.{0..31}"
    std::string module_class;        // "LlamaDecoderLayer"
    std::int64_t scratch_bytes = 0;  // after plan: what a call needs of the scratch arena

    bool is_kernel() const { return kind.starts_with("kernel:"); }
    bool is_loop_body() const { return kind == "loop"; }
    const Type& type(Value v) const { return values[v.index].type; }
    ValueInfo& info(Value v) { return values[v.index]; }
    const ValueInfo& info(Value v) const { return values[v.index]; }

    Value add_value(Type type, std::string name);
    Value add_argument(Type type, std::string name, ArgInfo info = {});
};

// The ranks that run a program: `replicas` copies of the model, each cut over `shards` ranks. Rank r has shard r %
// shards of copy r / shards. Collectives are among the ranks of a group: "world", all; "shard", those that share a
// copy; "replica", those that have the same shard.
//
// One rank communicates with nobody, unless it is asked to do all the same what ranks with these groups do, with
// itself: `alone`.
struct Mesh {
    enum class Alone : std::uint8_t { silent, copies, shards, both };

    std::int64_t replicas = 1, shards = 1;
    Alone alone = Alone::silent;

    std::int64_t world() const { return replicas * shards; }
    // The model is cut: parameters are gathered before they are read.
    bool has_shards() const { return shards > 1 || alone == Alone::shards || alone == Alone::both; }
    // There are copies of it, or of its shards, whose gradients are summed.
    bool has_copies() const { return replicas > 1 || alone == Alone::copies || alone == Alone::both; }
    bool communicates() const { return has_shards() || has_copies(); }
    std::int64_t ranks(std::string_view group) const;  // of one group; 0 where there is no such group
    bool operator==(const Mesh&) const = default;
};

// A flat tensor of parameters that are gathered and reduced as one; each rank of a group has one shard of it, a piece
// of equal length. A unit of layers is a family: one flat tensor for each layer.
struct ShardUnit {
    struct Tensor {
        // Of the parameter, with a name for each of its members: member i is in member i of a unit of layers; in a unit
        // of one flat tensor the members stand `stride` apart.
        ArgInfo info;
        Dims dims;
        std::int64_t offset = 0, stride = 0;  // elements, in the flat tensor
    };
    std::string name;
    std::int64_t count = 1;     // layers
    std::int64_t elements = 0;  // of one flat tensor: a multiple of the ranks that share it
    std::vector<Tensor> tensors;
};

// Of adapters of low rank that were added to linear layers (add_adapters): what files of them say (PEFT's
// adapter_config.json).
struct Adapters {
    std::int64_t rank = 0;
    double alpha = 0, dropout = 0;
    bool rank_stabilized = false;  // scaled by alpha / sqrt(rank), not by alpha / rank
    bool transposed = false;       // there are layers whose weights are (in, out)
    // Modules, by their paths or by the last parts of these where no other module ends so.
    std::vector<std::string> targets, saved;  // saved: those that are trained whole
    bool operator==(const Adapters&) const = default;
};

struct Module {
    enum class Phase : std::uint8_t { values, planned };

    std::string name;  // of the model: file stem
    Phase phase = Phase::values;
    // The export lists all parameters of the model: one that nothing reads was told of when it was read. Not printed.
    bool lists_parameters = false;
    // What is a parameter, what it is called and what is tied stands in the export: nothing of it is looked for. Not
    // printed.
    bool names_are_given = false;
    // The exporter left tensors apart that are equal, as TorchScript's does in training mode: what is one in the graph
    // is one in the model. Not printed.
    bool merges_nothing = false;
    // Initializers have the model's own names, and each such name is one parameter or buffer of the model, as
    // TorchScript's exporter of torch 2 leaves them. Not printed.
    bool keeps_names = false;
    // Activations are computed again instead of kept: passes keep none that they could do without. Not printed.
    bool spares_memory = false;
    std::optional<Adapters> adapters;  // Not printed.
    Mesh mesh;
    std::vector<ShardUnit> units;     // of a sharded model; their shards are the parameters of its functions
    std::vector<Function> functions;  // the entry first
    std::map<std::string, std::int64_t> arena_bytes;  // after plan, by arena name
    std::vector<std::string> streams;                 // after plan, beside "compute": where ops run at the same time

    Function& main() { return functions.front(); }
    const Function& main() const { return functions.front(); }
    const Function* find(std::string_view function_name) const;
    Function* find(std::string_view function_name);
    // A name that no function has yet: "f", "f_1", ...
    std::string unique_function_name(const std::string& wanted) const;
};

// Which op defines each value (index into ops, -1 for arguments), and which ops use it.
struct Uses {
    std::vector<std::int32_t> definition;          // by value
    std::vector<std::vector<std::int32_t>> users;  // by value; ops in order, once each
    std::vector<bool> is_result;                   // of the function, by value

    explicit Uses(const Function& function);
    bool single_user(Value v) const { return users[v.index].size() == 1 && !is_result[v.index]; }
    // Kept true while the function is edited: the op at `index` goes, or is there now.
    void remove(const Op& op, std::int32_t index);
    void add(const Op& op, std::int32_t index);
    // Room for `count` ops before that at `index`, and for values that were added.
    void make_room(std::int32_t index, std::int32_t count, std::size_t values);
};

}  // namespace thunderc
