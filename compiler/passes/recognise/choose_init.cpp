// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/choose_init.h"

#include <algorithm>

#include "compiler/ir/op_def.h"
#include "compiler/passes/recognise/parameter_sites.h"

namespace thunderc {
namespace {

Role role_of(const Site& site) {
    if (site.role != Role::other) return site.role;
    const OpDef& def = op_def(site.consumer->name);
    if (def.combination.size() > 1) return Role::shift;                          // x - b
    return def.elementwise && !def.linear_in.empty() ? Role::scale : site.role;  // x / s
}

bool is_vector(const Type& type) {
    return std::count_if(type.dims.begin(), type.dims.end(), [](std::int64_t extent) { return extent > 1; }) <= 1;
}

bool is_norm(const Op& op) {
    const std::vector<Role>& roles = op_def(op.name).parameter_roles;
    return std::find(roles.begin(), roles.end(), Role::scale) != roles.end();
}

ArgInfo::Init init_of(const std::vector<Site>& sites, const Type& type) {
    if (sites.empty()) return ArgInfo::Init::normal;
    const Role role = role_of(sites.front());
    for (const Site& site : sites)
        if (role_of(site) != role || !(is_vector(type) || is_norm(*site.consumer))) return ArgInfo::Init::normal;
    return role == Role::scale   ? ArgInfo::Init::ones
           : role == Role::shift ? ArgInfo::Init::zeros
                                 : ArgInfo::Init::normal;
}

}  // namespace

Module choose_init(Module module, Report&) {
    Function& main = module.main();
    const Uses uses(main);
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        ArgInfo& info = main.argument_info.at(k);
        if (info.kind == ArgInfo::Kind::parameter && info.init == ArgInfo::Init::normal)  // else its frontend knows
            info.init = init_of(find_sites(main, uses, main.arguments[k]), main.type(main.arguments[k]));
    }
    return module;
}

}  // namespace thunderc
