// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/name_results.h"

#include <set>
#include <string>

#include "compiler/analysis/result_names.h"

namespace thunderc {
namespace {

// What no op gave: the tables cos and sin of a rotation, inputs and parameters, whatever they are called.
std::set<std::string> names_of_tables(const Module& module) {
    std::set<std::string> out;
    for (const Function& f : module.functions) {
        if (!f.argument_info.empty())
            for (Value v : f.arguments) out.insert(f.info(v).name);
        for (const Op& op : f.ops)
            if (op.name == "constant") out.insert(f.info(op.results[0]).name);
    }
    return out;
}

}  // namespace

Module name_results(Module module, Report&) {
    const std::set<std::string> tables = names_of_tables(module);
    for (Function& f : module.functions) {
        const auto rename = [&](Value v) {
            std::string& name = f.info(v).name;
            if (!tables.contains(name)) name = noun_of_result(name);
        };
        // Those of entry functions are called by what they are outside.
        if (f.argument_info.empty() && f.result_names.empty())
            for (Value v : f.arguments) rename(v);
        for (const Op& op : f.ops)
            for (Value v : op.results)
                if (v) rename(v);
    }
    return module;
}

}  // namespace thunderc
