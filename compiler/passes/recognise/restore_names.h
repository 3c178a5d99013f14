// SPDX-License-Identifier: Apache-2.0
// What an initializer is called as a parameter, and how it lay before an exporter rearranged it.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/passes/recognise/parameter_sites.h"

namespace thunderc {

class RestoredNames {
  public:
    // `exporters_scopes`: the scopes of main's ops are the exporter's, not made up from structure. `keeps_names`: the
    // module's.
    RestoredNames(const Function& main, bool exporters_scopes, bool keeps_names);

    // Whether argument k is one parameter or buffer of the model, under its name.
    bool is_models_own(std::size_t k) const;

    // Whether some initializer has its framework's name: then one that lost it holds something else.
    bool any_named() const { return any_named_; }

    // The name that one use of argument k speaks for; `first`: of its uses.
    std::string target(std::size_t k, const Site& site, bool first) const;

    // The framework's name of what one use of argument k read when the model was traced; "" where the exporter does not
    // say, or says more than one that it could be.
    std::string traced(std::size_t k, const Site& site) const;

    // An unnamed tensor where a parameter would keep its name holds what the exporter computed from one. (Products are
    // another matter: transposing a weight renames it too.)
    bool folded(std::size_t k, const Site& site) const;

    // torch transposes the weight of a Linear for a product and folds that; a Conv1D of GPT-2 has (in, out) to begin
    // with.
    bool was_transposed(std::size_t k, const std::vector<Site>& sites) const;

  private:
    const std::string& name(std::size_t k) const { return main_->argument_info[k].names.front(); }
    const Type& type(std::size_t k) const { return main_->type(main_->arguments[k]); }
    // The weight of a product to which a bias is added that kept its name, in one module: "heads.a.weight" beside
    // "heads.a.bias", where the scope is "a" alone (a ModuleDict is not called, and has none); "in_proj_weight" beside
    // "in_proj_bias". "" where there is no such bias.
    std::string beside_bias(const Site& site) const;
    std::string base_of(std::size_t k, const Site& site) const;  // "weight" or "bias"
    std::string leaf_of(std::size_t k, const Site& site) const;

    struct Bias {
        std::string name, scope;  // of what adds it
    };
    const Function* main_;
    std::map<Value, Bias> biases_;  // by what they are added to
    bool exporters_scopes_, keeps_names_, any_named_ = false;
};

}  // namespace thunderc
