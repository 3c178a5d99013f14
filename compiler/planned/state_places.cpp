// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/state_places.h"

#include <fmt/format.h>

#include <set>

#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/state_layout.h"

namespace thunderc::planning {

StatePlaces place_states(const Module& module, const ParameterPlaces& parameters) {
    const Function& update = *module.find(update_function);
    const thunder::RuleInfo& rule = rule_of(module);
    const std::vector<std::string> prefixes = optimizer_states(module);
    std::set<std::string> coded;  // the parameters whose states are codes
    std::int64_t width = 4;       // of a number
    for (std::size_t k = 0; k < update.arguments.size(); ++k) {
        const ArgInfo& info = update.argument_info[k];
        const std::string& name = info.names.front();
        if (info.kind != ArgInfo::Kind::state || !state_of_name(prefixes, name)) continue;
        const DType dtype = update.type(update.arguments[k]).dtype;
        if (dtype == DType::u8)
            coded.insert(parameter_of_state(info));
        else
            width = static_cast<std::int64_t>(size_of(dtype));
    }
    std::vector<thunder::SteppedTensor> tensors;      // each member of a family by itself
    std::vector<std::pair<std::size_t, bool>> first;  // of each parameter's members; whether there are several
    std::vector<const ArgInfo*> infos;
    for (std::size_t k = 0; k < update.arguments.size(); ++k) {
        const ArgInfo& info = update.argument_info[k];
        if (info.kind != ArgInfo::Kind::parameter) continue;
        const Type& type = update.type(update.arguments[k]);
        const ParameterPlace& place = parameters.by_name.at(info.names.front());
        first.emplace_back(tensors.size(), type.is_family() && type.count > 1);
        infos.push_back(&info);
        for (std::int64_t m = 0; m < (type.is_family() ? type.count : 1); ++m)
            tensors.push_back({place.offset + m * place.layer_stride, type.dims,
                               info.outer ? thunder::rules::Stepped::by_element : rule.stepped(type.dims.size()),
                               coded.contains(info.names.front())});
    }
    const thunder::StateLayout layout = thunder::lay_out_states(rule, tensors, parameters.trained, width);
    StatePlaces out;
    out.bytes = layout.bytes;
    for (std::size_t p = 0; p < first.size(); ++p)
        for (std::size_t k = 0; k < rule.states.size(); ++k) {
            const auto& [at, several] = first[p];
            const auto place = [&](const std::string& state, const auto& of_tensors) {
                const std::int64_t begin = of_tensors[at][k];
                const std::int64_t stride = several ? of_tensors[at + 1][k] - begin : 0;
                for (std::size_t m = 0; m < infos[p]->names.size(); ++m)
                    check(of_tensors[at + m][k] == begin + static_cast<std::int64_t>(m) * stride,
                          fmt::format("layers of the state {} lie at no even distance", state));
                out.by_name[state_name(state, infos[p]->names.front())] = {begin, stride};
            };
            place(rule.states[k], layout.begins);
            if (!coded.empty()) place(thunder::scales_of(rule.states[k]), layout.scales);
        }
    return out;
}

}  // namespace thunderc::planning
