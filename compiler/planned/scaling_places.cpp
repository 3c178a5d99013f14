// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/scaling_places.h"

#include <algorithm>

#include "compiler/planned/alignment.h"
#include "compiler/support/error.h"

namespace thunderc::planning {
namespace {

constexpr std::int64_t number_bytes = 4;  // f32

// What an entry's result is to be: the argument of that name.
const ArgInfo& state_of(const Function& f, Value result) {
    const auto at = std::find(f.results.begin(), f.results.end(), result);
    check(at != f.results.end(), "a state of scaling that is no result");
    const std::string& name = f.result_names[static_cast<std::size_t>(at - f.results.begin())];
    for (std::size_t k = 0; k < f.arguments.size(); ++k)
        if (f.info(f.arguments[k]).name == name) return f.argument_info[k];
    throw InternalError("a state of scaling that is no argument: " + name);
}

}  // namespace

ScalingPlaces place_scaling(const Module& module) {
    struct Group {
        const Function* f;
        const Op* op;
    };
    std::vector<Group> groups;
    for (const Function& f : module.functions)
        for (const Op& op : f.ops)
            if (op.name == "fp8_update_scales" && !f.argument_info.empty()) groups.push_back({&f, &op});
    ScalingPlaces out;
    // Each part of all groups behind that before it: amaxes, scales, histories stand second, first and last in an op.
    for (const std::size_t part : {1, 0, 2})
        for (const auto& [f, op] : groups) {
            const std::size_t n = op->results.size() / 3;
            for (std::size_t k = part * n; k < (part + 1) * n; ++k) {
                const Type& type = f->type(op->results[k]);
                const ArgInfo& info = state_of(*f, op->results[k]);
                const std::int64_t stride = type.elements() * number_bytes, count = type.is_family() ? type.count : 1;
                out.by_name[info.names.front()] = {out.bytes, type.is_family() ? stride : 0};
                out.bytes += stride * count;
                if (part == 2) out.history = type.elements();
                if (part != 1) continue;
                for (std::string name : info.names) {
                    name = name.substr(scaling_state.size() + 1);
                    out.tensors.push_back(name.substr(0, name.rfind('_')));
                }
            }
        }
    // Codes that are kept, with what belongs to them: whole tensors, each from an aligned byte on.
    for (const Function& f : module.functions)
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            if (!is_state(info, scaling_state) || out.by_name.contains(info.names.front())) continue;
            const Type& type = f.type(f.arguments[k]);
            const std::int64_t stride = aligned(bytes_of(type)), count = type.is_family() ? type.count : 1;
            out.bytes = aligned(out.bytes);
            out.by_name[info.names.front()] = {out.bytes, type.is_family() ? stride : 0};
            out.bytes += stride * count;
            out.codes += stride * count;
        }
    return out;
}

}  // namespace thunderc::planning
