// SPDX-License-Identifier: Apache-2.0
// Prints the functions of a planned module: the bodies of loops for blocks.cpp, the entries for model.cpp.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "codegen/host/kernel_table.h"
#include "codegen/host/layout.h"
#include "codegen/text.h"
#include "compiler/planned/update_parts.h"

namespace thunderc {

// Whether the collective is of a unit, of which model.h has a table.
bool is_of_unit(const Op& op);

class FunctionPrinter {
  public:
    FunctionPrinter(const ProgramLayout& layout, KernelTable& kernels) : layout_(layout), kernels_(kernels) {}

    // "void decoder_layer_forward(float* y, const float* x, const DecoderLayerWeights& w, ...)" without an end.
    std::string signature(const Function& body) const;
    // A body: its comment, signature and statements.
    void print_body(SourceText& out, const Function& body) const;
    // Where the function's tensors lie: constants for model.h.
    void offsets(SourceText& out, const Function& function) const;
    // The table of units, for model.h.
    void units(SourceText& out) const;
    // Whether an update may run beside the forward pass; its parts, for model.h, and UpdateRange of each, for spec.cpp.
    bool waits_for_updates() const;
    void update_parts(SourceText& out) const;
    std::vector<std::string> update_ranges() const;
    // The statements of an entry function, or of a part of its ops, without braces.
    void print_entry(SourceText& out, const Function& entry, std::span<const Op> part) const;

    // A tensor of floating point, or of codes, that a call of a step writes. A part of ResultSpec's meaning: there.
    struct NamedResult {
        std::size_t call;
        std::string name, field;
        std::size_t result;
        std::string tensor, scope;
        Dims dims;
        std::int64_t rows, width, ld;
    };
    struct NamedFunction {
        std::string name;                  // as its Range has it
        std::vector<std::string> modules;  // that a step comes to with it, in order; of what is no block none
        std::vector<NamedResult> results;
    };
    // By function, in the order of the text; once its statements were printed.
    std::vector<NamedFunction> call_results() const;

  private:
    // Units of several ranks: the lines of the table, and what a unit is called in it, by the function that gathers or
    // sums it and its own name.
    struct Units {
        std::vector<std::string> lines;
        std::map<std::pair<std::string, std::string>, std::string> names;
    };
    const Units& units_of_module() const;  // found once
    mutable std::optional<Units> units_;
    // Parts of the update that the forward pass waits for, and what model.h calls each. Found once.
    struct NamedParts {
        UpdateParts found;
        std::vector<std::string> names;
    };
    const NamedParts& parts_of_update() const;
    mutable std::optional<NamedParts> parts_of_update_;
    struct Frame;
    std::vector<std::string> modules_in_order(const Function& block) const;
    std::vector<NamedResult> named_results(const Frame& frame) const;
    // By value: whether the forward pass has computed it before. Found once for each function.
    const std::vector<bool>& recomputed(const Function& f) const;
    // A pointer that a function declares: a tensor that its statements name.
    struct Local {
        Value value;
        bool read_only = false;
        bool view = false;  // of one declared before
    };
    std::vector<Local> local_tensors(const Frame& frame) const;
    // "x_slot": where each value that goes through the loop lies. Found once for all loops of a function.
    const std::vector<std::string>& slot_names(const Function& f, const Op& loop) const;
    void locals(SourceText& out, const Frame& frame) const;
    void statements(SourceText& out, const Frame& frame) const;
    void statement(SourceText& out, const Frame& frame, const Op& op) const;
    // Before an op of the forward pass, or in each iteration of one that is a loop.
    void wait_for_update(SourceText& out, const Frame& frame, const Op& op, bool in_loop) const;
    void loop(SourceText& out, const Frame& frame, const Op& op) const;
    void slots(SourceText& out, const Frame& frame, const Op& op) const;
    std::string layers_text(const Op& loop) const;
    std::string layer_tensor(const Frame& frame, Value family, const std::string& layer) const;
    void single_call(SourceText& out, const Frame& frame, const Op& op) const;
    std::string block_arguments(const Frame& frame, const Op& op, const Function& block,
                                const std::vector<std::string>& arguments,
                                const std::vector<std::string>& results) const;
    // What ranks say to each other between two calls.
    void communication(SourceText& out, const Frame& frame, std::span<const Op* const> ops) const;
    void communication(SourceText& out, const Frame& frame, const Op& op) const;
    void block(SourceText& out, const Frame& frame, std::span<const Op* const> ops, const std::string& when,
               bool reasons) const;
    void reason(SourceText& out, const Op& op) const;
    std::string flag_text(const Frame& frame, const Op& op) const;
    std::string turn_text(const Frame& frame, const Op& op) const;
    std::string event_text(const Frame& frame, const Op& op, std::int64_t distance) const;
    bool overwrites(const Frame& frame, const Op& op) const;
    // The function's constants that are flags. Found once for each function.
    const std::vector<Value>& constant_flags(const Function& f) const;
    std::string gradient_text(const Frame& frame, const Op& op) const;
    std::string as_written(const Frame& frame, const Op& op, std::string formula) const;
    std::string iteration(const Frame& frame, std::int64_t ahead) const;
    // What runs ahead of its loop, one behind the other and for the same layers: a function of the layer.
    struct AheadRun {
        std::string name;  // "gather_layers"; in the backward pass "gather_layers_again"
        std::vector<const Op*> ops;
    };
    std::vector<AheadRun> ahead_runs(const Frame& inside) const;
    void ahead_of_loop(SourceText& out, const Frame& inside) const;
    // Gathers a unit, sums its gradients, or this rank's shard of them: where they lie, model.h says.
    void unit_call(SourceText& out, const Frame& frame, const Op& op, const std::string& stream) const;
    void collective_offsets(std::vector<std::string>& lines, const Function& function, const Op* loop,
                            const Op& op) const;
    void all_reduce(SourceText& out, const Frame& frame, const Op& op, const std::string& stream) const;
    void runtime_call(SourceText& out, const Frame& frame, const Op& op) const;
    void kernel_call(SourceText& out, const Frame& frame, const Op& op) const;
    std::string expression(const Frame& frame, Value v) const;
    std::string member_expression(const Frame& frame, Value family, const std::string& index) const;
    void comment(SourceText& out, const Frame& frame, const Op& op, const std::string& what) const;

    const ProgramLayout& layout_;
    KernelTable& kernels_;
    mutable std::map<std::string, std::vector<bool>> recomputed_;
    mutable std::map<std::string, std::map<std::vector<Value>, std::vector<std::string>>> slot_names_;  // by loop
    mutable std::map<std::string, std::vector<Value>> constant_flags_;
};

}  // namespace thunderc
