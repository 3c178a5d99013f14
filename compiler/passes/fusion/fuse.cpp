// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/fusion/kernel_functions.h"
#include "compiler/passes/fusion/kernel_groups.h"
#include "compiler/passes/fusion/kernel_places.h"
#include "compiler/passes/fusion/recompute_in_kernels.h"

namespace thunderc {
namespace {

constexpr int none = KernelGroups::none;

void report_declined(const KernelGroups& groups, Report& report) {
    std::set<std::pair<int, int>> said;
    for (int k = 0; k < static_cast<int>(groups.function().ops.size()); ++k) {
        const int g = groups.of(k);
        if (g == none) continue;
        for (int producer : groups.producers(k)) {
            if (producer == g || !said.insert({producer, g}).second) continue;
            report.declined("fuse", groups.where(g),
                            fmt::format("not with the kernel of {} that it reads: {}", groups.where(producer),
                                        groups.why_apart(producer, g)));
        }
    }
}

// The function anew, its groups called as kernels.
class Rebuild {
  public:
    Rebuild(const KernelGroups& groups, KernelFunctions& kernels, Report& report)
        : g_(groups), f_(groups.function()), places_(groups), kernels_(kernels), report_(report), builder_(out_) {}

    Function run() {
        out_.name = f_.name;
        out_.kind = f_.kind;
        out_.scope = f_.scope;
        out_.module_class = f_.module_class;
        out_.argument_info = f_.argument_info;
        out_.result_names = f_.result_names;
        moved_.resize(f_.values.size());
        for (Value v : f_.arguments) {
            moved_[v.index] = out_.add_value(f_.type(v), f_.info(v).name);
            out_.arguments.push_back(moved_[v.index]);
        }
        operands_.resize(g_.groups().size());
        for (int g = 0; g < static_cast<int>(operands_.size()); ++g)
            if (!g_.members(g).empty()) operands_[static_cast<std::size_t>(g)] = g_.operands_read(g);
        // A kernel's call stands where the last of its ops stood, or as soon after as what it reads is there.
        const std::vector<bool> needed = needed_ops();
        done_.assign(f_.ops.size(), false);
        for (int k = 0; k < static_cast<int>(f_.ops.size()); ++k) {
            const bool last = g_.of(k) == none || g_.members(g_.of(k)).back() == k;
            if (needed[static_cast<std::size_t>(k)] && last) place(k);
        }
        for (Value v : f_.results) out_.results.push_back(moved_[v.index]);
        return std::move(out_);
    }

  private:
    const Op& op(int k) const { return f_.ops[static_cast<std::size_t>(k)]; }
    int definition(Value v) const { return g_.uses().definition[v.index]; }
    const std::vector<Value>& operands_of(int k) const {
        return g_.of(k) == none ? op(k).operands : operands_[static_cast<std::size_t>(g_.of(k))];
    }

    // Ops whose results are still read, now that kernels have their own views and constants.
    std::vector<bool> needed_ops() const {
        std::vector<bool> needed(f_.ops.size(), false);
        std::vector<int> todo;
        std::set<int> seen_groups;
        auto need = [&](Value v) {
            if (v && definition(v) >= 0) todo.push_back(definition(v));
        };
        for (Value v : f_.results) need(v);
        while (!todo.empty()) {
            const int k = todo.back();
            todo.pop_back();
            if (needed[static_cast<std::size_t>(k)]) continue;
            const int g = g_.of(k);
            needed[static_cast<std::size_t>(k)] = true;
            if (g != none) {
                if (!seen_groups.insert(g).second) continue;
                for (int member : g_.members(g)) needed[static_cast<std::size_t>(member)] = true;
            }
            for (Value v : operands_of(k)) need(v);
        }
        return needed;
    }

    void place(int k) {
        if (done_[static_cast<std::size_t>(k)]) return;
        for (Value v : operands_of(k)) {
            if (v && definition(v) >= 0) place(definition(v));
        }
        std::vector<Value> operands;
        for (Value v : operands_of(k)) operands.push_back(v ? moved_[v.index] : Value{});
        if (g_.of(k) != none) return place_kernel(g_.of(k), operands);
        done_[static_cast<std::size_t>(k)] = true;
        const std::vector<Value> results = builder_.clone(op(k), operands, f_);
        forget_origin(out_.ops.back());
        for (std::size_t r = 0; r < results.size(); ++r) moved_[op(k).results[r].index] = results[r];
    }

    void place_kernel(int g, const std::vector<Value>& operands) {
        for (int member : g_.members(g)) done_[static_cast<std::size_t>(member)] = true;
        Extracted kernel = g_.extract(g);
        kernel.place = places_.of(g);
        builder_.set_provenance(kernel.provenance);
        std::vector<Type> types;
        std::vector<std::string> names;
        for (Value v : kernel.results) {
            types.push_back(f_.type(v));
            names.push_back(f_.info(v).name);
        }
        const std::string name = kernels_.add(kernel);
        const std::vector<Value> results = builder_.emit_typed("fused", operands, {{"kernel", name}}, types, names);
        for (std::size_t r = 0; r < results.size(); ++r) moved_[kernel.results[r].index] = results[r];
        const Group& group = g_.groups()[static_cast<std::size_t>(g)];
        report_.done("fuse", g_.where(g),
                     fmt::format("{}: {} ops in one kernel that moves {} bytes; apart they move {}", name,
                                 group.ops.size(), group.bytes, g_.bytes_apart(g)));
    }

    const KernelGroups& g_;
    const Function& f_;
    KernelPlaces places_;
    KernelFunctions& kernels_;
    Report& report_;
    Function out_;
    Builder builder_;
    std::vector<Value> moved_;  // by value
    std::vector<bool> done_;
    std::vector<std::vector<Value>> operands_;  // by group
};

// A concatenation of more than a kernel takes in, as one of concatenations.
void split_concats(Function& f) {
    constexpr std::size_t most = most_kernel_tensors - 1;  // and its result
    std::vector<Op> ops = std::exchange(f.ops, {});
    for (Op& op : ops) {
        while (op.name == "concat" && op.operands.size() > most) {
            const auto axis = static_cast<std::size_t>(op.attributes.integer("axis"));
            std::vector<Value> joined;
            for (std::size_t k = 0; k < op.operands.size(); k += most) {
                Op part = op;
                const std::size_t end = std::min(k + most, op.operands.size());
                part.operands.assign(op.operands.begin() + static_cast<std::ptrdiff_t>(k),
                                     op.operands.begin() + static_cast<std::ptrdiff_t>(end));
                if (part.operands.size() == 1) {
                    joined.push_back(part.operands[0]);
                    continue;
                }
                Type type = f.type(op.results[0]);
                type.dims[axis] = 0;
                for (Value v : part.operands) type.dims[axis] += f.type(v).dims[axis];
                part.results = {f.add_value(type, f.info(op.results[0]).name + "_part")};
                joined.push_back(part.results[0]);
                f.ops.push_back(std::move(part));
            }
            op.operands = std::move(joined);
        }
        f.ops.push_back(std::move(op));
    }
}

// A kernel of several ops is a decision; of a group without it each op is a kernel by itself.
void part_undecided(KernelGroups& groups, Report& report) {
    const Function& f = groups.function();
    for (int g = 0; g < static_cast<int>(groups.groups().size()); ++g) {
        const std::vector<int>& ops = groups.members(g);
        if (ops.size() < 2) continue;
        const Op& last = f.ops[static_cast<std::size_t>(ops.back())];
        if (!report.may("fuse", groups.where(g),
                        fmt::format("{} ops that give {} of @{}", ops.size(), f.info(last.results[0]).name, f.name)))
            groups.part(g);
    }
}

Function fuse_function(const Function& function, const FuseOptions& options, KernelFacts& facts,
                       KernelFunctions& kernels, Report& report) {
    Function current = function;
    split_concats(current);
    constexpr int most_rounds = 8;
    for (int round = 0;; ++round) {
        KernelGroups groups(current, facts);
        if (options.fuse) groups.merge_all();
        std::optional<Function> next;
        if (options.fuse && round < most_rounds) next = recompute_in_kernels(groups, report);
        if (!next) {
            if (report.decisions != nullptr) part_undecided(groups, report);
            groups.describe_all();
            if (options.fuse) report_declined(groups, report);
            return Rebuild(groups, kernels, report).run();
        }
        current = std::move(*next);
        remove_dead_ops(
            current);  // what all of its readers compute again: a kernel would be given what it does not read
    }
}

}  // namespace

Module fuse(Module module, const FuseOptions& options, Report& report) {
    KernelFunctions kernels(module);
    KernelFacts facts;
    std::vector<Function> functions;
    functions.reserve(module.functions.size());  // a list that grows copies them
    for (const Function& function : module.functions) {
        functions.push_back(function.kind.empty() ? fuse_function(function, options, facts, kernels, report)
                                                  : function);
    }
    for (const auto& [before, now] : kernels.rename_shared()) {
        for (Function& function : functions)
            for (Op& op : function.ops)
                if (is_kernel_call(op) && called_kernel(op) == before) op.attributes.set("kernel", now);
        for (Note& note : report.notes)
            if (note.text.starts_with(before + ": ")) note.text.replace(0, before.size(), now);
    }
    module.functions.clear();
    module.functions.reserve(functions.size() + kernels.functions().size());
    for (Function& function : functions) module.functions.push_back(std::move(function));
    for (Function& kernel : kernels.functions()) module.functions.push_back(std::move(kernel));
    return module;
}

}  // namespace thunderc
