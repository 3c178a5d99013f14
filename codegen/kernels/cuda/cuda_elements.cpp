// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/cuda/cuda_elements.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;

constexpr std::int64_t greatest_int = std::numeric_limits<std::int32_t>::max();

void replace_all(std::string& text, const std::string& from, const std::string& to) {
    for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size()))
        text.replace(at, from.size(), to);
}

// Whether everything that is computed of indices stays below 2^31.
bool fits_int(const Loops& loops) {
    Dims extents = loops.rows;
    extents.insert(extents.end(), loops.columns.begin(), loops.columns.end());
    // Threads past the end compute an index too: up to a block of vectors more.
    constexpr std::int64_t past = 1024 * 16;
    auto fits = [&](const Affine& a) {
        return max_of(a, extents) < greatest_int - past && min_of(a, extents) > past - greatest_int;
    };
    bool all = element_count(extents) < greatest_int - past;
    for (std::size_t k = 0; k < loops.nodes.size(); ++k)
        if (loops.nodes[k].kind == Kind::load) all = all && fits(loops.position[k]);
    for (const auto& [k, sum] : loops.short_sums.by_node) {
        for (const auto& [load, step] : sum.step) {
            Affine last = loops.position[load];
            last.offset += (sum.count - 1) * step;
            all = all && fits(last);
        }
    }
    for (const Affine& a : loops.store_position) all = all && fits(a);
    return all;
}

}  // namespace

std::string device_spelling(std::string text) {
    replace_all(text, "vec_math::", "math::");
    for (const char* function : {"max<", "floor(", "ceil(", "nearbyint("})
        replace_all(text, std::string("std::") + function, std::string("math::") + function);
    replace_all(text, "std::numeric_limits<float>::infinity()", "math::infinity()");
    replace_all(text, "std::numeric_limits<float>::quiet_NaN()", "math::quiet_nan()");
    for (const std::string type : {"float", "std::int32_t", "std::int64_t"})
        replace_all(text, "std::numeric_limits<" + type + ">::lowest()", "math::lowest<" + type + ">()");
    replace_all(text, "std::numeric_limits<std::int64_t>::min()", "math::lowest<std::int64_t>()");
    replace_all(text, "std::numeric_limits<std::int64_t>::max()", "math::greatest()");
    return text;
}

CudaElements::CudaElements(const Loops& loops, const CudaOperands& operands, SourceText& out)
    : ElementPrinter(loops, operands.inputs, operands.outputs, out), operands_(operands) {
    scope_.taken.add({"part", "e", "w", "p", "b", "chunk", "sums", "totals", "shared", "partials", "block"});
    index_type_ = fits_int(loops) ? "int" : "std::int64_t";
    term_type_ = index_type_;
    term_hint_ = unroll;
    vector_ = choose_vector();
}

// ---- which nodes a part of the kernel needs ----

std::vector<bool> CudaElements::reachable(const std::vector<std::size_t>& roots) const {
    std::vector<bool> needed(loops_.nodes.size(), false);
    for (std::size_t root : roots) needed[root] = true;
    for (std::size_t k = loops_.nodes.size(); k-- > 0;) {
        if (!needed[k] || node(k).kind == Kind::reduce) continue;
        for (std::size_t input : node(k).inputs) needed[input] = true;
        // Those in the loop of a sum stand right before it.
        for (std::size_t j = k; loops_.short_sums.of(k) != nullptr && j-- > 0 && loops_.short_sums.inside[j] == k;)
            needed[j] = true;
    }
    return needed;
}

// ---- types ----

// Descriptions widen and narrow bf16 by casts of their own.
std::string CudaElements::type_name(DType dtype) {
    return std::string(scalar_type(dtype));
}

// ---- vectors ----

bool CudaElements::aligned(const Affine& a, DType dtype, std::int64_t base, int vector) const {
    if (a.step.back() != 1) return false;
    const auto size = static_cast<std::int64_t>(size_of(dtype));
    const std::int64_t word = std::min<std::int64_t>(16, vector * size);
    bool multiple = base % word == 0 && a.offset * size % word == 0;
    for (std::size_t d = 0; d + 1 < a.step.size(); ++d) multiple = multiple && a.step[d] * size % word == 0;
    return multiple;
}

bool CudaElements::is_vector(std::size_t load) const {
    const std::size_t o = node(load).operand;
    return vector_ > 1 &&
           aligned(loops_.position[load], operands_.input_types[o], operands_.alignment.inputs[o], vector_);
}

bool CudaElements::store_is_vector(std::size_t s) const {
    const std::size_t r = loops_.stores[s].output;
    return vector_ > 1 &&
           aligned(loops_.store_position[s], operands_.output_types[r], operands_.alignment.outputs[r], vector_);
}

// 16 bytes of the narrowest type, or as much of it as divides the columns and keeps most accesses aligned.
int CudaElements::choose_vector() const {
    struct Access {
        const Affine* position;
        DType dtype;
        std::int64_t base;
    };
    std::vector<Access> accesses;
    std::size_t narrowest = 16;
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (node(k).kind != Kind::load || !by_column(loops_.position[k])) continue;
        const std::size_t o = node(k).operand;
        accesses.push_back({&loops_.position[k], operands_.input_types[o], operands_.alignment.inputs[o]});
    }
    for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
        if (!by_column(loops_.store_position[s])) continue;
        const std::size_t r = loops_.stores[s].output;
        accesses.push_back({&loops_.store_position[s], operands_.output_types[r], operands_.alignment.outputs[r]});
    }
    for (const Access& a : accesses) narrowest = std::min(narrowest, size_of(a.dtype));
    int best = 1;
    std::int64_t most = 0;
    for (int n = std::min<int>(8, static_cast<int>(16 / narrowest)); n > 1; n /= 2) {
        if (loops_.columns.back() % n != 0) continue;
        const std::int64_t count = std::count_if(accesses.begin(), accesses.end(), [&](const Access& a) {
            return aligned(*a.position, a.dtype, a.base, n);
        });
        if (count > most) {
            most = count;
            best = n;
        }
    }
    return best;
}

void CudaElements::define_column_variables(const std::string& flat) {
    variables_.back() = "c";
    if (loops_.columns.size() == 1) {
        variables_.back() = flat;
        return;
    }
    for (std::size_t d = loops_.columns.size(); d-- > 0;) {
        const bool last = d + 1 == loops_.columns.size();
        std::string text = last ? flat : fmt::format("{} / {}", flat, columns_within(d));
        if (d > 0) text += fmt::format(" % {}", size_factor(loops_.column_sizes[d], loops_.columns[d], loops_.sizes));
        out_.line(fmt::format("const {} {} = {};", index_type_, variables_[row_dims() + d], text));
    }
}

// ---- statements ----

void CudaElements::define_row_variables(const std::vector<bool>& needed, const std::vector<std::size_t>& stores) const {
    if (row_dims() < 2) return;
    std::vector<std::string> lines;
    for (std::size_t d = row_dims(); d-- > 0;) {
        std::string text = d + 1 == row_dims() ? "row" : fmt::format("row / {}", rows_within(d));
        if (d > 0) text += fmt::format(" % {}", size_factor(loops_.row_sizes[d], loops_.rows[d], loops_.sizes));
        bool used = false;
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (!needed[k]) continue;
            if (node(k).kind == Kind::load) used = used || loops_.position[k].step[d] != 0;
            if (node(k).kind == Kind::index) used = used || node(k).steps[d] != 0;
        }
        for (std::size_t s : stores) used = used || loops_.store_position[s].step[d] != 0;
        if (used) lines.push_back(fmt::format("const {} {} = {};", index_type_, variables_[d], text));
    }
    for (std::size_t k = lines.size(); k-- > 0;) out_.line(lines[k]);
}

void CudaElements::prepend_constants(std::string& body,
                                     const std::vector<std::pair<std::string, std::string>>& constants) const {
    std::string list;
    for (const auto& [name, value] : constants)
        if (names_identifier(body, name)) list += fmt::format("{}{} = {}", list.empty() ? "" : ", ", name, value);
    if (!list.empty()) body = fmt::format("constexpr {} {};\n", index_type_, list) + body;
}

void CudaElements::name_leaves(const std::vector<bool>& needed, Scope& scope) const {
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!needed[k] || scope.names.contains(k) || loops_.short_sums.is_inside(k)) continue;
        if (node(k).kind == Kind::load && !is_flag(node(k))) scope.names[k] = load_text(k, scope);
        // What is computed of indices is so in 64 bits, as everywhere.
        if (node(k).kind == Kind::index && node(k).dtype == DType::i64 && index_type_ == "int")
            scope.names[k] = fmt::format("static_cast<std::int64_t>({})", expression(k, scope).text);
    }
}

std::string CudaElements::value_text(std::size_t k, Scope scope) const {
    name_leaves(reachable({k}), scope);
    return expression(k, scope).text;
}

void CudaElements::define_value(std::size_t k, Scope& scope) const {
    if (const ShortSum* sum = loops_.short_sums.of(k)) {
        Scope with_leaves = scope;
        name_leaves(reachable({k}), with_leaves);
        define_short_sum(k, *sum, with_leaves);
        scope.names[k] = with_leaves.names.at(k);
        scope.taken = with_leaves.taken;
        return;
    }
    const std::string text = value_text(k, scope);
    const std::string name = name_for(k, scope);
    out_.line(fmt::format("const {} {} = {};", type_name(node(k).dtype), name, text));
    scope.names[k] = name;
}

void CudaElements::define_scalars(const std::vector<bool>& needed, Scope& scope) const {
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!needed[k] || node(k).level != KernelLevel::scalar || node(k).finish || loops_.short_sums.is_inside(k))
            continue;
        if (node(k).kind == Kind::load || loops_.short_sums.of(k) != nullptr ||
            (node(k).kind == Kind::apply && used_above(k, KernelLevel::scalar)))
            define_value(k, scope);
    }
}

std::string CudaElements::stored_text(std::size_t s, const Scope& scope) const {
    return value_text(loops_.stores[s].node, scope);
}

void CudaElements::load_kept(std::size_t k, const Kept& kept) const {
    const std::string name = kept.name.at(k) + (kept.several ? "[part]" : ""), from = inputs_[node(k).operand];
    const Affine& position = loops_.position[k];
    out_.line(vector_ > 1 ? fmt::format("{} = load<{}>({} + {});", name, vector_, from,
                                        sum_text(position, 0, loops_.rank(), position.offset, from))
                          : fmt::format("{} = {};", name, access(from, position)));
}

// What all terms of a short sum read, one vector for each term.
void CudaElements::hold_terms(std::size_t k, Scope& scope) {
    held_.erase(k);
    const std::size_t o = node(k).operand;
    const ShortSum& sum = *loops_.short_sums.of(loops_.short_sums.inside[k]);
    const auto size = static_cast<std::int64_t>(size_of(operands_.input_types[o]));
    const std::int64_t word = std::min<std::int64_t>(16, vector_ * size);
    if (!is_vector(k) || sum.step.at(k) * size % word != 0) return;
    const std::string name =
                          scope.taken.unique(loops_.load_names[k] + (is_written(node(k).operand) ? "_before_v" : "_v")),
                      term = UsedNames(scope.taken).unique("r");
    const Affine& position = loops_.position[k];
    out_.line(fmt::format("Vec<{}, {}> {}[{}];", type_name(operands_.input_types[o]), vector_, name, sum.count));
    out_.line(unroll);
    out_.line(fmt::format("for (int {0} = 0; {0} < {1}; ++{0}) {2}[{0}] = load<{3}>({4} + {5} + {6});", term, sum.count,
                          name, vector_, inputs_[o], term_of_sum(k, sum.step.at(k), term),
                          sum_text(position, 0, loops_.rank(), position.offset, inputs_[o])));
    held_[k] = name;
}

void CudaElements::print_elements(const std::vector<Addition>& additions, const std::vector<std::size_t>& stores,
                                  const Kept& kept, Scope scope) {
    std::vector<std::size_t> roots;
    for (const Addition& a : additions) roots.push_back(a.node);
    for (std::size_t s : stores) roots.push_back(loops_.stores[s].node);
    const std::vector<bool> needed = reachable(roots);
    const bool vectors = vector_ > 1;
    const std::string element = vectors ? "[e]" : "";
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (!needed[k] || node(k).kind != Kind::load || scope.names.contains(k)) continue;
        const std::size_t o = node(k).operand;
        const Affine& position = loops_.position[k];
        if (loops_.short_sums.is_inside(k)) {
            hold_terms(k, scope);
        } else if (auto at = kept.name.find(k); at != kept.name.end()) {
            const std::string name = at->second + (kept.several ? "[part]" : "");
            if (std::find(kept.fresh.begin(), kept.fresh.end(), k) != kept.fresh.end()) load_kept(k, kept);
            scope.names[k] = name + element;
        } else if (is_vector(k)) {
            const std::string name =
                scope.taken.unique(loops_.load_names[k] + (is_written(node(k).operand) ? "_before_v" : "_v"));
            out_.line(fmt::format("const auto {} = load<{}>({} + {});", name, vector_, inputs_[o],
                                  sum_text(position, 0, loops_.rank(), position.offset, inputs_[o])));
            scope.names[k] = name + "[e]";
        }
    }
    for (const std::size_t k : kept.fresh)
        if (!needed[k]) load_kept(k, kept);        // for a later loop
    std::map<std::size_t, std::string> vector_of;  // by store
    for (std::size_t s : stores) {
        if (!store_is_vector(s)) continue;
        const std::size_t r = loops_.stores[s].output;
        const std::string name = scope.taken.unique(loops_.store_names[s] + "_v");
        out_.line(fmt::format("Vec<{}, {}> {};", type_name(operands_.output_types[r]), vector_, name));
        vector_of[s] = name;
    }
    const std::string column = variables_.back();
    if (vectors) {
        out_.line(unroll);
        out_.open(fmt::format("for (int e = 0; e < {}; ++e) {{", vector_));
        variables_.back() = fmt::format("({} + e)", column);
    }
    name_leaves(needed, scope);
    define_shared(roots, scope);
    // Nothing is read after the first store, so that an output may lie over an input.
    if (stores.size() > 1 && vector_of.size() < stores.size()) {
        for (std::size_t s : stores) {
            const std::size_t k = loops_.stores[s].node;
            if (node(k).kind != Kind::literal &&
                (!scope.names.contains(k) || node(k).kind == Kind::load || node(k).kind == Kind::index)) {
                const std::string text = expression(k, scope).text;
                const std::string name = name_for(k, scope);
                out_.line(fmt::format("const {} {} = {};", type_name(node(k).dtype), name, text));
                scope.names[k] = name;
            }
        }
    }
    for (const Addition& a : additions) {
        const std::string text = expression(a.node, scope).text;
        const DType dtype = node(a.node).dtype;
        const char* const combine = a.max ? "max" : "add";  // integers wrap around
        out_.line(a.max || !is_float(dtype)
                      ? fmt::format("{0} = math::{1}<{2}>({0}, {3});", a.target, combine, type_name(dtype), text)
                      : fmt::format("{} += {};", a.target, text));
    }
    for (std::size_t s : stores) {
        const std::size_t r = loops_.stores[s].output;
        const std::string target =
            vector_of.contains(s) ? vector_of[s] + "[e]" : access(outputs_[r], loops_.store_position[s]);
        out_.line(fmt::format("{} = {};", target, stored_text(s, scope)));
    }
    if (!vectors) return;
    out_.close();
    variables_.back() = column;
    for (const auto& [s, name] : vector_of) {
        const Affine& position = loops_.store_position[s];
        const std::string& to = outputs_[loops_.stores[s].output];
        out_.line(
            fmt::format("store({} + {}, {});", to, sum_text(position, 0, loops_.rank(), position.offset, to), name));
    }
}

}  // namespace thunderc
