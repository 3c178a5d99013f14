// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/kernel_table.h"

#include <fmt/format.h>

#include <algorithm>

#include "codegen/host/gradient_flags.h"
#include "codegen/kernels/formula.h"
#include "codegen/text.h"
#include "compiler/analysis/result_names.h"
#include "compiler/ir/structure.h"
#include "compiler/planned/alignment.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

void add_once(std::vector<std::string>& list, const std::string& text) {
    if (!text.empty() && std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

// "Pow, ReduceMean, Mul (model.layers.{0..3}.input_layernorm, model.norm)"
std::string replaces(const std::vector<std::string>& nodes, const std::vector<std::string>& scopes) {
    constexpr std::size_t most = 4;
    if (nodes.empty()) return {};
    std::string out = fmt::format("{}", fmt::join(nodes, ", "));
    if (scopes.empty()) return out;
    const auto shown = static_cast<std::ptrdiff_t>(std::min(scopes.size(), most));
    out += fmt::format(" ({}", fmt::join(scopes.begin(), scopes.begin() + shown, ", "));
    if (scopes.size() > most) out += fmt::format(" and {} more places", scopes.size() - most);
    return out + ")";
}

// The numbers that tensors have where the kernel is called: "total_2" for "total".
void take_numbers(std::vector<KernelOperand>& operands, const std::vector<std::string>& passed) {
    for (std::size_t k = 0; k < passed.size(); ++k) {
        std::string_view text = passed[k];
        text.remove_prefix(text.find_last_of(".>") + 1);  // of saved.total_2
        if (text == identifier(text) && without_number(text) == without_number(operands[k].name))
            operands[k].name = text;
    }
}

// "dw" of "dw_before", "loss_sum" of "loss_sum_after".
std::string_view without_end(std::string_view name, std::string_view end) {
    return name.ends_with(end) ? name.substr(0, name.size() - end.size()) : name;
}

// By operand of the call: the result that goes on from it in its place, as a gradient that is added to does.
std::vector<std::optional<std::size_t>> goes_on_in_place(const Function& kernel, const std::vector<std::string>& inputs,
                                                         const std::vector<std::string>& outputs) {
    std::vector<std::optional<std::size_t>> out(kernel.arguments.size());
    for (std::size_t o = 0; o < inputs.size(); ++o)
        for (std::size_t r = 0; r < outputs.size(); ++r) {
            const ValueInfo &before = kernel.info(kernel.arguments[o]), &after = kernel.info(kernel.results[r]);
            const bool named = without_end(before.name, "_before") == without_end(after.name, "_after");
            if (named && before.type == after.type && inputs[o] == outputs[r] && !inputs[o].empty()) out[o] = r;
        }
    return out;
}

// One parameter in place of two, under a name that no other has.
void join_in_place(KernelDescription& kernel, const std::vector<std::optional<std::size_t>>& in_place) {
    for (std::size_t o = 0; o < in_place.size(); ++o) {
        if (!in_place[o]) continue;
        kernel.inputs[o].same_as = in_place[o];
        std::string name(without_end(kernel.outputs[*in_place[o]].name, "_after"));
        for (std::size_t other = 0; other < kernel.inputs.size(); ++other)
            if (other != o && kernel.inputs[other].name == name) {
                name += "_sum";  // dw, of this micro-step, is added to it
                break;
            }
        kernel.outputs[*in_place[o]].name = name;
    }
}

// Under a name that all have, with names as they were before they had numbers.
KernelDescription without_numbers(KernelDescription kernel) {
    kernel.name = "kernel";
    for (std::vector<KernelOperand>* operands : {&kernel.inputs, &kernel.outputs})
        for (KernelOperand& operand : *operands) operand.name = without_number(operand.name);
    for (KernelNest& nest : kernel.nests)
        for (KernelNode& node : nest.nodes) node.name = without_number(node.name);
    return kernel;
}

}  // namespace

KernelTable::Key KernelTable::key_of(const Function& caller, const Op& fused) const {
    std::vector<std::optional<WithinResult>> within = operands_within_results(caller, fused);
    KernelLayouts layouts;
    bool dense = true;
    for (std::size_t o = 0; o < fused.operands.size(); ++o) {
        const Value v = fused.operands[o];
        // What lies in a result has its layout there.
        layouts.inputs.push_back(v && !within[o] ? caller.info(v).placement.strides : Dims{});
        dense = dense && layouts.inputs.back().empty();
    }
    for (Value v : fused.results) {
        layouts.outputs.push_back(caller.info(v).placement.strides);
        dense = dense && layouts.outputs.back().empty();
    }
    if (dense) layouts = {};
    return {called_kernel(fused),
            std::move(layouts),
            gradient_flags(*module_, calls_, caller, fused),
            {},
            std::move(within)};
}

KernelSizes kernel_sizes(const Symbols& symbols, const Function& kernel) {
    KernelSizes out;
    for (const Symbol& s : symbols.all()) out.names.push_back(s.name);
    const auto dimensions = [&](const std::vector<Value>& values) {
        std::vector<std::vector<SizeFormula>> all(values.size());
        for (std::size_t k = 0; k < values.size(); ++k)
            for (std::size_t d = 0; d < kernel.type(values[k]).dims.size(); ++d)
                all[k].push_back(symbols.dimension(kernel, values[k], d));
        return all;
    };
    out.inputs = dimensions(kernel.arguments);
    out.outputs = dimensions(kernel.results);
    for (const Op& op : kernel.ops)
        for (Value v : op.results) {
            KernelSizes::Inner inner{kernel.type(v).dims, {}};
            for (std::size_t d = 0; d < inner.dims.size(); ++d)
                inner.formulas.push_back(symbols.dimension(kernel, v, d));
            out.inner.push_back(std::move(inner));
        }
    out.value = [symbols = &symbols](const SizeFormula& formula) { return symbols->value(formula); };
    out.elements = [symbols = &symbols, &kernel](bool output, std::size_t k, std::int64_t count) {
        return symbols->elements(kernel, output ? kernel.results[k] : kernel.arguments[k], count);
    };
    return out;
}

std::size_t KernelTable::find(const Function& caller, const Op& fused, const std::vector<std::string>& inputs,
                              const std::vector<std::string>& outputs) {
    const Function& kernel = *module_->find(called_kernel(fused));
    Key key = key_of(caller, fused);
    key.in_place = goes_on_in_place(kernel, inputs, outputs);
    const KernelLayouts layouts = key.layouts;
    std::vector<std::pair<Key, std::size_t>>& known = known_[kernel.name];
    for (const auto& [other, k] : known)
        if (other == key) return k;
    KernelDescription description = describe_planned_kernel(kernel, caller, fused);
    for (std::size_t o = 0; o < key.flags.size(); ++o) description.inputs[o].is_flag = key.flags[o];
    join_in_place(description, key.in_place);
    std::size_t same_name = 0;
    for (const Entry& entry : entries_) same_name += entry.description.name == kernel.name ? 1 : 0;
    // What has only the name of its own is no kernel of its own.
    KernelSizes sizes = symbols_ == nullptr ? KernelSizes{} : kernel_sizes(*symbols_, kernel);
    const PrintedKernel nameless = print_kernel_cpu(without_numbers(description), layouts, {}, sizes);
    const auto [at, is_new] = by_text_.emplace(nameless.definition, entries_.size());
    known.emplace_back(std::move(key), at->second);
    if (!is_new) return at->second;
    description.name = kernel.name;
    take_numbers(description.inputs, inputs);
    take_numbers(description.outputs, outputs);
    KernelDescription named = description;
    if (same_name > 0)
        named.name +=
            layouts == KernelLayouts{} ? fmt::format("_{}", same_name + 1) : fmt::format("_strided_{}", same_name);
    PrintedKernel printed = print_kernel_cpu(named, layouts, {}, sizes);
    entries_.push_back({std::move(description), std::move(sizes), layouts, std::move(printed), {}, {}, {}});
    return at->second;
}

const PrintedKernel& KernelTable::use(const Function& caller, const Op& fused, const std::vector<std::string>& inputs,
                                      const std::vector<std::string>& outputs) {
    const std::size_t found = find(caller, fused, inputs, outputs);
    of_call_[{caller.name, fused.results[0]}] = found;
    Entry& entry = entries_[found];
    for (const std::string& op : fused.provenance.node_ops) add_once(entry.nodes, op);
    add_once(entry.scopes, fused.provenance.scope);
    align(entry, caller, fused);
    return entry.printed;
}

void KernelTable::align(Entry& entry, const Function& caller, const Op& fused) const {
    auto lower = [&](std::vector<std::int64_t>& known, const std::vector<Value>& values) {
        known.resize(values.size(), 64);
        for (std::size_t k = 0; k < values.size(); ++k)
            if (values[k]) known[k] = std::min(known[k], alignment_of(calls_, caller, values[k]));
    };
    lower(entry.alignment.inputs, fused.operands);
    lower(entry.alignment.outputs, fused.results);
}

const KernelTable::Entry& KernelTable::used(const Function& caller, const Op& fused) const {
    if (const auto at = of_call_.find({caller.name, fused.results[0]}); at != of_call_.end())
        return entries_[at->second];
    throw InternalError(fmt::format("the kernel {} was not used yet", called_kernel(fused)));
}

const std::string& KernelTable::name(const Function& caller, const Op& fused) const {
    return used(caller, fused).printed.name;
}

const std::vector<std::string>& KernelTable::formula(const Function& caller, const Op& fused) const {
    return used(caller, fused).printed.formula;
}

std::vector<std::string> KernelTable::formula(const Function& caller, const Op& fused,
                                              const std::vector<std::string>& inputs,
                                              const std::vector<std::string>& outputs) const {
    const Entry& entry = used(caller, fused);
    return kernel_formula(entry.description, inputs, outputs, entry.sizes);
}

std::vector<PrintedKernel> KernelTable::all(bool naive) const {
    std::vector<PrintedKernel> out;
    for (const Entry& entry : entries_) {
        KernelDescription named = entry.description;
        named.name = entry.printed.name;
        out.push_back(print_kernel_cpu(named, entry.layouts, replaces(entry.nodes, entry.scopes), entry.sizes, naive));
    }
    return out;
}

std::vector<PrintedCudaKernel> KernelTable::all_cuda(const CudaTuning& tuning) const {
    std::vector<PrintedCudaKernel> out;
    for (const Entry& entry : entries_) {
        KernelDescription named = entry.description;
        named.name = entry.printed.name;
        out.push_back(print_kernel_cuda(named, entry.layouts, entry.alignment, tuning,
                                        replaces(entry.nodes, entry.scopes), entry.sizes));
    }
    return out;
}

}  // namespace thunderc
