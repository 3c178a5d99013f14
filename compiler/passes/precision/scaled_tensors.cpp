// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/precision/scaled_tensors.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {
namespace {

using Part = ScaledTensor::Part;

const char* name_of(Part part) {
    constexpr const char* names[] = {"scale", "amax", "history"};
    return names[static_cast<std::size_t>(part)];
}

std::string last_part(const std::string& path) {
    return path.substr(path.rfind('.') + 1);
}

// "qkv_proj" of q_proj, k_proj, v_proj; "gate_up_proj" of gate_proj, up_proj.
std::string joined_leaves(const std::vector<std::string>& names) {
    std::string end = names[0].substr(std::min(names[0].rfind('_'), names[0].size()));
    if (!std::all_of(names.begin(), names.end(), [&](const std::string& n) { return n.ends_with(end); })) end.clear();
    bool letters = true;
    std::string out;
    for (const std::string& name : names) letters = letters && name.size() - end.size() == 1;
    for (const std::string& name : names)
        out += (letters || out.empty() ? "" : "_") + name.substr(0, name.size() - end.size());
    return out + end;
}

}  // namespace

std::string ScaledTensor::short_name() const {
    return fmt::format("{}_{}", last_part(modules.front()), role);
}

std::string ScaledTensor::short_name(Part part) const {
    return fmt::format("{}_{}", short_name(), name_of(part));
}

ScaledLayer layer_of_weights(const std::vector<std::vector<std::string>>& parameters) {
    ScaledLayer out;
    for (const std::vector<std::string>& of_product : parameters) out.weights.push_back(of_product.front());
    for (std::size_t layer = 0; layer < parameters.front().size(); ++layer) {
        std::vector<std::string> leaves, modules;
        for (const std::vector<std::string>& of_product : parameters) {
            std::string module = of_product[layer];
            if (last_part(module) == "weight") module.resize(module.rfind('.'));
            leaves.push_back(last_part(module));
            modules.push_back(std::move(module));
        }
        const std::string scope = modules.front().substr(0, modules.front().size() - leaves.front().size());
        out.modules.push_back(scope + joined_leaves(leaves));
    }
    return out;
}

ScaledTensor* ScaledTensors::find(const ScaledLayer& layer, const std::string& role) {
    for (ScaledTensor& tensor : tensors_)
        if (tensor.weights == layer.weights && tensor.role == role) return &tensor;
    return nullptr;
}

ScaledTensor& ScaledTensors::get(const ScaledLayer& layer, const std::string& role, DType dtype) {
    if (ScaledTensor* known = find(layer, role)) return *known;
    return tensors_.emplace_back(ScaledTensor{layer.weights, layer.modules, role, dtype});
}

bool ScaledTensors::is_read_twice(const ScaledLayer& layer) const {
    const auto at = reads_.find(layer.weights);
    return at != reads_.end() && at->second > 1;
}

bool ScaledTensors::is_called_as_another(const ScaledLayer& layer) const {
    return std::any_of(tensors_.begin(), tensors_.end(), [&](const ScaledTensor& tensor) {
        return tensor.modules.front() == layer.modules.front() && tensor.weights != layer.weights;
    });
}

Value ScaledTensors::argument(Function& entry, const ScaledTensor& tensor, const std::string& what, DType dtype,
                              const Dims& dims) {
    ArgInfo info;
    info.kind = ArgInfo::Kind::state;
    for (const std::string& module : tensor.modules)
        info.names.push_back(fmt::format("{}.{}.{}_{}", scaling_state, module, tensor.role, what));
    const auto [at, is_new] = arguments_.try_emplace({entry.name, info.names.front()});
    if (is_new) {
        const auto count = static_cast<std::int64_t>(tensor.modules.size());
        const Type type = count > 1 ? Type::family(count, dtype, dims) : Type::tensor(dtype, dims);
        const std::string name = fmt::format("fp8_{}_{}", tensor.short_name(), what);
        at->second = entry.add_argument(type, unique_value_name(entry, name), info);
    }
    return at->second;
}

Value ScaledTensors::argument(Function& entry, const ScaledTensor& tensor, Part part) {
    const Dims dims = part == Part::history ? Dims{history_} : Dims{};
    return argument(entry, tensor, name_of(part), DType::f32, dims);
}

Value ScaledTensors::argument(Function& entry, const ScaledTensor& tensor, const std::string& kept, const Type& type) {
    return argument(entry, tensor, kept, type.dtype, type.dims);
}

std::vector<ScaledTensor*> ScaledTensors::of_role(const std::string& role) {
    std::vector<ScaledTensor*> out;
    for (ScaledTensor& tensor : tensors_)
        if (tensor.role == role && tensor.amax_after) out.push_back(&tensor);
    return out;
}

void ScaledTensors::give(Function& f, Value before, Value value) {
    f.results.push_back(value);
    f.result_names.push_back(f.info(before).name);
}

void ScaledTensors::emit_update(Function& f, const std::string& role, const std::vector<Value>& amaxes) {
    const std::vector<ScaledTensor*> all = of_role(role);
    if (all.empty()) return;
    std::vector<Value> operands;
    for (const ScaledTensor* tensor : all) operands.push_back(argument(f, *tensor, Part::scale));
    operands.insert(operands.end(), amaxes.begin(), amaxes.end());
    for (const ScaledTensor* tensor : all) operands.push_back(argument(f, *tensor, Part::history));
    Builder b(f);
    const std::vector<Value> after =
        b.emit("fp8_update_scales", operands, {{"largest", row_of(all.front()->dtype).largest}, {"of", role + "s"}});
    for (const Part part : {Part::scale, Part::amax, Part::history})
        for (std::size_t k = 0; k < all.size(); ++k) {
            const Value v = after[static_cast<std::size_t>(part) * all.size() + k];
            f.info(v).name = unique_value_name(f, f.info(argument(f, *all[k], part)).name + "_after");
            give(f, argument(f, *all[k], part), v);
        }
}

void ScaledTensors::update_scales(Function& step, Function& update, bool ranks) {
    std::vector<Value> inputs, gradients, weights;
    for (const ScaledTensor* tensor : of_role("input")) inputs.push_back(tensor->amax_after);
    for (const ScaledTensor* tensor : of_role("gradient")) gradients.push_back(tensor->amax_after);
    if (ranks && !inputs.empty()) {
        std::vector<Value> all = inputs;
        all.insert(all.end(), gradients.begin(), gradients.end());
        Builder b(step);
        const std::vector<Value> of_ranks = b.emit("fp8_reduce_amaxes", all);
        for (std::size_t k = 0; k < all.size(); ++k)
            (k < inputs.size() ? inputs[k] : gradients[k - inputs.size()]) = of_ranks[k];
    }
    emit_update(step, "input", inputs);
    emit_update(step, "gradient", gradients);
    for (const ScaledTensor* tensor : of_role("weight")) {
        give(step, argument(step, *tensor, Part::amax), tensor->amax_after);
        weights.push_back(argument(update, *tensor, Part::amax));
    }
    const auto behind = static_cast<std::ptrdiff_t>(update.ops.size());
    emit_update(update, "weight", weights);
    // Scales follow from amaxes alone. The optimizer's step, whose parts may run beside the next forward pass, is last.
    const auto stepped = std::find_if(update.ops.begin(), update.ops.end(),
                                      [](const Op& op) { return thunder::find_rule(op.name) != nullptr; });
    std::rotate(stepped, update.ops.begin() + behind, update.ops.end());
    for (const ScaledTensor& tensor : tensors_)
        for (const auto& [what, after] : tensor.kept) give(step, argument(step, tensor, what, step.type(after)), after);
}

void ScaledTensors::require_any() const {
    if (!tensors_.empty()) return;
    Diagnostic d;
    d.message = "--fp8: no linear layer of the model's blocks can be quantised";
    if (!declined_.empty()) {
        d.module = declined_.front().first;
        d.message += ": " + declined_.front().second;
    }
    d.help = "leave --fp8 out; docs/numerics.md says which layers are taken";
    throw UserError(std::move(d));
}

}  // namespace thunderc
