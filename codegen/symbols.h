// The names that generated code gives to sizes: B, T, C, V, NH, ...
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// Sizes that have a name, in the order in which model.h defines them; each with what it is.
struct Symbol {
    std::string name;  // "C"
    std::int64_t value = 0;
    std::string meaning;  // "width of the residual stream"
};

class Symbols {
  public:
    // Found from the graph: B and T from its inputs, V and C from the embedding, NH, KVH, HS from attention, L from
    // loops.
    explicit Symbols(const Module& module);

    const std::vector<Symbol>& all() const { return symbols_; }
    // "(B,T,C)"; numbers where no one name fits.
    std::string shape(const Dims& dims) const;
    // A size as C++: "B * T", "3 * C", "512". `wanted` is the name that the place asks for, and wins where two names
    // have the value.
    std::string size(std::int64_t value, const std::string& wanted = {}) const;
    std::int64_t value(const std::string& name) const;  // 0: there is none

  private:
    void add(std::string name, std::int64_t value, std::string meaning);
    std::string unique_name(std::int64_t value) const;  // "" where no name or several have it

    std::vector<Symbol> symbols_;
};

}  // namespace thunderc
