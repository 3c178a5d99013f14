// SPDX-License-Identifier: Apache-2.0
// The names that generated code gives to sizes: B, T, C, V, NH, ...
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/planned/dimensions.h"

namespace thunderc {

// Sizes that have a name, in the order in which model.h defines them; each with what it is.
struct Symbol {
    std::string name;  // "C"
    std::int64_t value = 0;
    std::string meaning;  // "width of the residual stream"
};

// A sum of products of names: "(NH + 2 * KVH) * HS".
struct SizeTerm {
    std::int64_t factor = 1;
    std::vector<std::string> names;
};
using SizeFormula = std::vector<SizeTerm>;

bool is_symbolic(const SizeFormula& f);  // whether it has a name
SizeFormula size_product(const SizeFormula& a, const SizeFormula& b);
// As C++; what all terms end in is written once, behind them.
std::string size_text(SizeFormula f);

class Symbols {
  public:
    // Found from the graph: B and T from its inputs, V and C from the embedding, NH, KVH, HS from attention, H from
    // what else products read, R from the adapters of low rank among these, L from loops. A dimension has a name where
    // it is that size by construction; that it has the same number is not enough.
    explicit Symbols(const Module& module);

    const std::vector<Symbol>& all() const { return symbols_; }
    std::int64_t value(const std::string& name) const;  // 0: there is none

    std::int64_t value(const SizeFormula& formula) const;
    SizeFormula dimension(const Function& function, Value v, std::size_t axis) const;

    // "(B,T,C)", "scalar"; numbers where there is no name.
    std::string shape(const Function& function, Value v) const;
    // A size of a call as C++, "B * T", by the field's name; `value` where nothing is known of it.
    std::string call_size(const Function& function, const Op& op, const std::string& field, std::int64_t value) const;
    // So many elements: whole rows of the tensor v, or what lies before one of the parts of its rows.
    std::string elements(const Function& function, Value v, std::int64_t count) const;

  private:
    bool name(Dimensions::Id id, const std::string& name, const std::string& meaning);
    void name_inputs(const Module& module);
    SizeFormula formula(Dimensions::Id id) const;
    // `above`: what it is asked for as a part of, and how deep. With the least depth of those that it met again.
    std::pair<SizeFormula, std::size_t> formula(Dimensions::Id id, std::map<Dimensions::Id, std::size_t>& above) const;
    std::string argument(const SizeFormula& formula, std::int64_t value) const;

    Dimensions dimensions_;
    std::vector<Symbol> symbols_;
    static constexpr std::size_t open = static_cast<std::size_t>(-1);  // met nothing again
    std::map<Dimensions::Id, std::string> names_;                      // by root
    mutable std::map<Dimensions::Id, SizeFormula> formulas_;           // by root: what was asked before
};

}  // namespace thunderc
