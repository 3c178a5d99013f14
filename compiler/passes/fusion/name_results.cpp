// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/fusion/name_results.h"

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "compiler/analysis/result_names.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"

namespace thunderc {
namespace {

// What no op gave: the tables cos and sin of a rotation, inputs and parameters, whatever they are called.
std::set<std::string> names_of_tables(const Module& module) {
    std::set<std::string> out;
    for (const Function& f : module.functions) {
        if (!f.argument_info.empty())
            for (Value v : f.arguments) out.insert(f.info(v).name);
        for (const Op& op : f.ops)
            if (is_constant_op(op)) out.insert(f.info(op.results[0]).name);
    }
    return out;
}

class ResultNames {
  public:
    explicit ResultNames(Module& module) : module_(module), tables_(names_of_tables(module)) {}

    void run() {
        for (const Function& f : module_.functions) count(f);
        number();
        for (Function& f : module_.functions)
            each(f, [&](Value v) {
                std::optional<NameOfOp> of = name(f, v);
                if (!of) return;
                of->number = numbers_[of->noun()].as.at(of->number);
                f.info(v).name = of->text();
            });
    }

  private:
    struct Numbers {
        std::set<std::int64_t> shown, others;  // of values that the text names, and of those that it may name
        std::map<std::int64_t, std::int64_t> as;
    };

    // Values with names that are ours to give: those of entry functions are called by what they are outside.
    template <typename Visit>
    static void each(const Function& f, Visit&& visit) {
        if (f.argument_info.empty() && f.result_names.empty())
            for (Value v : f.arguments) visit(v);
        for (const Op& op : f.ops)
            for (Value v : op.results)
                if (v) visit(v);
    }

    std::optional<NameOfOp> name(const Function& f, Value v) const {
        const std::string& known = f.info(v).name;
        return tables_.contains(known) ? std::nullopt : name_of_op(known);
    }

    void count(const Function& f) {
        const Uses uses(f);
        each(f, [&](Value v) {
            const std::optional<NameOfOp> of = name(f, v);
            if (!of) return;
            const std::int32_t k = uses.definition[v.index];
            const bool shown = !f.is_kernel() || k < 0 || uses.is_result[v.index] || uses.users[v.index].size() > 1 ||
                               op_def(f.ops[static_cast<std::size_t>(k)].name).reduction;
            Numbers& numbers = numbers_[of->noun()];
            (shown ? numbers.shown : numbers.others).insert(of->number);
        });
    }

    // In the order that they had, those that are seen first.
    void number() {
        for (auto& [noun, numbers] : numbers_) {
            std::int64_t next = 1;
            for (const std::set<std::int64_t>* all : {&numbers.shown, &numbers.others})
                for (std::int64_t one : *all)
                    if (numbers.as.try_emplace(one, next == 1 ? 0 : next).second) ++next;
        }
    }

    Module& module_;
    std::set<std::string> tables_;
    std::map<std::string, Numbers> numbers_;  // by noun
};

}  // namespace

Module name_results(Module module, Report&) {
    ResultNames(module).run();
    return module;
}

}  // namespace thunderc
