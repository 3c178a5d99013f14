// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/compose_function.h"

#include <fmt/format.h>

#include <map>
#include <utility>
#include <vector>

#include "compiler/ir/function_tools.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Tensors that stand in one file need different names; so do outputs and inputs, which are one namespace in the IR.
class Names {
  public:
    void take(const std::string& name, const std::string& what) {
        auto [at, is_new] = taken_.emplace(name, what);
        if (is_new) return;
        Diagnostic d;
        d.message = fmt::format("two tensors of the function would be called {}: {}, and {}", name, at->second, what);
        d.help = "give inputs and outputs other names when exporting (input_names, output_names)";
        throw UserError(std::move(d));
    }

  private:
    std::map<std::string, std::string> taken_;
};

ArgInfo info_of(ArgInfo::Kind kind, std::vector<std::string> names) {
    ArgInfo info;
    info.kind = kind;
    info.aliases.resize(names.size());
    info.sources.resize(names.size());
    info.names = std::move(names);
    return info;
}

void check_names(const Function& main, std::size_t outputs, const std::vector<std::size_t>& wanted) {
    Names names, gradients;
    for (const ArgInfo& info : main.argument_info)
        for (const std::string& name : info.names)
            names.take(name, info.source == "cotangent"              ? "a cotangent"
                             : info.kind == ArgInfo::Kind::parameter ? "a parameter"
                                                                     : "an input");
    for (std::size_t r = 0; r < outputs; ++r) {
        names.take(main.result_names.at(r), "an output");
        gradients.take(main.result_names.at(r), "an output");
    }
    for (std::size_t k : wanted)
        for (const std::string& name : main.argument_info[k].names) {
            if (main.argument_info[k].kind == ArgInfo::Kind::input) names.take("d" + name, "the gradient of " + name);
            gradients.take("d" + name, "the gradient of " + name);
        }
}

}  // namespace

bool wants_gradient(const ArgInfo& info) {
    if (info.kind == ArgInfo::Kind::input) return info.source != "cotangent";
    return info.kind == ArgInfo::Kind::parameter && info.trainable;
}

Module compose_function(Module module, const std::string& name, Report& report) {
    Function& main = module.main();
    check(main.result_names.size() == main.results.size(), "the results of main have no names");
    std::vector<std::size_t> wanted;  // arguments, in the order of their gradients
    bool differentiated = false;
    for (const ArgInfo& info : main.argument_info) differentiated = differentiated || info.source == "cotangent";
    for (std::size_t k = 0; differentiated && k < main.arguments.size(); ++k)
        if (wants_gradient(main.argument_info[k]) && is_float(main.type(main.arguments[k]).dtype)) wanted.push_back(k);
    check(wanted.size() <= main.results.size(),
          fmt::format("main gives {} results for {} gradients", main.results.size(), wanted.size()));
    const std::size_t outputs = main.results.size() - wanted.size();
    check_names(main, outputs, wanted);

    if (!differentiated)
        for (std::size_t f = 1; f < module.functions.size(); ++f) {
            const std::string before = module.functions[f].name;
            const std::string after = module.unique_function_name(before + "_forward");
            module.functions[f].name = after;
            for (Function& caller : module.functions)
                for (Op& op : caller.ops)
                    for (const char* attribute : {"callee", "body"})
                        if (op.attributes.has(attribute) && op.attributes.string(attribute) == before)
                            op.attributes.set(attribute, after);
        }
    main.name = name;
    for (std::size_t r = 0; r < main.results.size(); ++r) {
        std::string value_name = main.result_names[r];
        ArgInfo info;
        if (r < outputs) {
            info = info_of(ArgInfo::Kind::output, {value_name});
        } else {
            const std::size_t k = wanted[r - outputs];
            const ArgInfo& of = main.argument_info[k];
            const bool parameter = of.kind == ArgInfo::Kind::parameter;
            std::vector<std::string> names;
            for (const std::string& one : of.names)
                names.push_back(parameter ? state_name(gradient_state, one) : "d" + one);
            info = info_of(parameter ? ArgInfo::Kind::state : ArgInfo::Kind::output, std::move(names));
            value_name = (parameter ? "grad_" : "d") + main.info(main.arguments[k]).name;
        }
        // The place has the name, and what is computed another.
        for (const Op& op : main.ops)
            for (Value v : op.results)
                if (main.info(v).name == value_name) main.info(v).name = unique_value_name(main, value_name + "_after");
        value_name = unique_value_name(main, value_name);
        main.add_argument(main.type(main.results[r]), value_name, std::move(info));
        main.result_names[r] = value_name;
    }
    report.done("compose_function", name,
                fmt::format("{} outputs, gradients of {} inputs and parameters", outputs, wanted.size()));
    return module;
}

}  // namespace thunderc
