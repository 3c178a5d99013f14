// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/choose_init.h"

#include <algorithm>

#include "compiler/passes/recognise/parameter_sites.h"

namespace thunderc {
namespace {

Role role_of(const Site& site) {
    if (site.consumer->name == "sub") return Role::shift;  // x - b
    if (site.consumer->name == "div") return Role::scale;  // x / s
    return site.role;
}

bool is_vector(const Type& type) {
    return std::count_if(type.dims.begin(), type.dims.end(), [](std::int64_t extent) { return extent > 1; }) <= 1;
}

bool is_norm(const Op& op) {
    return op.name == "rms_norm" || op.name == "layer_norm";
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
        if (info.kind == ArgInfo::Kind::parameter)
            info.init = init_of(find_sites(main, uses, main.arguments[k]), main.type(main.arguments[k]));
    }
    return module;
}

}  // namespace thunderc
