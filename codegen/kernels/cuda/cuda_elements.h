// SPDX-License-Identifier: Apache-2.0
// The statements of a GPU kernel's innermost loops: addresses, vectors of 16 bytes, expressions, stores.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "codegen/kernels/cuda/kernels_cuda.h"
#include "codegen/kernels/element_printer.h"

namespace thunderc {

// The operands of a kernel as its device code sees them.
struct CudaOperands {
    std::vector<std::string> inputs, outputs;  // names
    std::vector<DType> input_types, output_types;
    KernelAlignment alignment;  // filled
};

// One __global__ function.
struct CudaStage {
    std::string suffix;    // of its name, behind the kernel's: "", "_finish"
    std::string schedule;  // for its comment: who does what, and why
    std::string body;
    int threads = 256;
    int at_once = 0;  // blocks that have to find room on a multiprocessor together; 0: any number
    std::int64_t blocks = 1;
    std::int64_t partials = 0;  // floats of workspace that it takes as its last argument
};

class CudaElements : public ElementPrinter {
  public:
    CudaElements(const Loops& loops, const CudaOperands& operands, SourceText& out);

  protected:
    static constexpr const char* unroll = "THUNDER_UNROLL";

    // ---- which nodes a part of the kernel needs ----
    // What the roots are computed from, up to reductions.
    std::vector<bool> reachable(const std::vector<std::size_t>& roots) const;
    bool by_column(const Affine& a) const { return moves(a, row_dims(), loops_.rank()); }

    // ---- types ----
    // "int" where all indices and positions fit.
    const std::string& index_type() const { return index_type_; }
    static std::string type_name(DType dtype);

    // ---- vectors ----
    // Elements of the last dimension that a thread takes at once; 1: no vectors.
    int vector() const { return vector_; }
    bool is_vector(std::size_t load) const;
    bool store_is_vector(std::size_t s) const;
    // "const int c0 = column / 40;" and so on, where the columns have several dimensions; `flat` is c where not.
    void define_column_variables(const std::string& flat);
    std::string flat_column() const { return loops_.columns.size() > 1 ? "column" : "c"; }

    // ---- statements ----
    // "const int i0 = row / 32;" for the rows' dimensions that `needed` nodes or the stores use.
    void define_row_variables(const std::vector<bool>& needed, const std::vector<std::size_t>& stores) const;
    // "constexpr int rows = 16, width = 64;": those of them that the text names.
    void prepend_constants(std::string& body, const std::vector<std::pair<std::string, std::string>>& constants) const;
    // Scalars that are needed, read once.
    void define_scalars(const std::vector<bool>& needed, Scope& scope) const;
    // Loads and indices by their text, where they have no name yet.
    void name_leaves(const std::vector<bool>& needed, Scope& scope) const;
    std::string value_text(std::size_t k, Scope scope) const;
    // A load or an expression without columns, as a value of its own.
    void define_value(std::size_t k, Scope& scope) const;

    // Vectors that stay in registers over several loops, by load: "x_v", indexed by [part] where a thread has several.
    struct Kept {
        std::map<std::size_t, std::string> name;
        std::vector<std::size_t> fresh;  // of them: loaded in this loop
        bool several = false;
    };
    void load_kept(std::size_t k, const Kept& kept) const;
    // Everything of one vector of elements: loads, then what is added to sums, then stores.
    struct Addition {
        std::size_t node;    // what is added
        std::string target;  // text of the variable; with [e] where there is one for each column
        bool max = false;
    };
    void print_elements(const std::vector<Addition>& additions, const std::vector<std::size_t>& stores,
                        const Kept& kept, Scope scope);

    void hold_terms(std::size_t k, Scope& scope);
    std::string stored_text(std::size_t s, const Scope& scope) const;

    const CudaOperands& operands_;
    int vector_ = 1;

  private:
    bool aligned(const Affine& a, DType dtype, std::int64_t base, int vector) const;
    int choose_vector() const;

    std::string index_type_;
};

// C++ of the CPU as device code says it: vec_math::exp is math::exp.
std::string device_spelling(std::string text);

}  // namespace thunderc
