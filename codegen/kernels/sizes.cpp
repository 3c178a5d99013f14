// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/sizes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>

namespace thunderc {
namespace {

SizeFormula number(std::int64_t n) {
    return {{n, {}}};
}

// A factor or divisor: a sum in parentheses, which one that ends in a common factor has already.
std::string in_parentheses(const std::string& text) {
    return text.find(' ') == std::string::npos ? text : "(" + text + ")";
}

// The one dimension of the space that an index moves with, one element at a time.
bool runs_along(const Affine& a, std::size_t s) {
    for (std::size_t d = 0; d < a.step.size(); ++d)
        if (a.step[d] != (d == s ? 1 : 0)) return false;
    return true;
}

// What runs over the whole dimension of a tensor, or over one of equal parts of it.
std::optional<LoopSize> size_by(const AffineIndex& index, const Dims& dims, const std::vector<SizeFormula>& formulas,
                                std::size_t s, std::int64_t extent, bool whole) {
    if (formulas.size() != dims.size()) return std::nullopt;
    for (std::size_t d = 0; d < index.size(); ++d) {
        if (!runs_along(index[d], s) || !is_symbolic(formulas[d])) continue;
        if (whole && index[d].offset == 0 && dims[d] == extent) return LoopSize{formulas[d], 1};
        if (!whole && dims[d] % extent == 0 && index[d].offset % extent == 0)
            return LoopSize{formulas[d], dims[d] / extent};
    }
    return std::nullopt;
}

// Where several dimensions of the space run over one of a tensor: what the outermost of them is of it. Once they are
// one loop that loop has the whole size.
std::optional<LoopSize> size_by_split(const AffineIndex& index, const Dims& dims,
                                      const std::vector<SizeFormula>& formulas, std::size_t s, const Dims& extents) {
    if (formulas.size() != dims.size()) return std::nullopt;
    for (std::size_t d = 0; d < index.size(); ++d) {
        const Affine& a = index[d];
        if (a.offset != 0 || a.step[s] <= 1 || a.step[s] * extents[s] != dims[d] || !is_symbolic(formulas[d])) continue;
        std::int64_t inner = a.step[s];
        bool row_major = true;
        for (std::size_t e = 0; e < a.step.size(); ++e) {
            if (e == s || a.step[e] == 0) continue;
            row_major = row_major && e > s && a.step[e] * extents[e] == inner;
            inner = a.step[e];
        }
        if (row_major && inner == 1) return LoopSize{formulas[d], a.step[s]};
    }
    return std::nullopt;
}

// Of a size (NH + 2 * KVH) * HS the number HS is what its inner part has.
std::optional<SizeFormula> inner_part(SizeFormula whole, std::int64_t number, const KernelSizes& sizes) {
    std::vector<std::string> behind;
    while (!whole.empty() && std::all_of(whole.begin(), whole.end(), [&](const SizeTerm& t) {
        return !t.names.empty() && t.names.back() == whole[0].names.back();
    })) {
        behind.insert(behind.begin(), whole[0].names.back());
        for (SizeTerm& t : whole) t.names.pop_back();
        SizeFormula inner{{1, behind}};
        if (sizes.value(inner) == number) return inner;
    }
    return std::nullopt;
}

}  // namespace

LoopSize operator*(const LoopSize& outer, const LoopSize& inner) {
    LoopSize out{size_product(outer.formula, inner.formula), outer.divisor * inner.divisor};
    std::int64_t common = out.divisor;
    for (const SizeTerm& term : out.formula) common = std::gcd(common, term.factor);
    for (SizeTerm& term : out.formula) term.factor /= common;
    out.divisor /= common;
    return out;
}

std::string size_text(const LoopSize& size, std::int64_t number, const KernelSizes& sizes) {
    if (!is_symbolic(size.formula) || sizes.value(size.formula) != number * size.divisor)
        return fmt::format("{}", number);
    std::string text = size_text(size.formula);
    if (size.divisor == 1) return text;
    if (size.formula.size() > 1 && text.front() != '(') text = "(" + text + ")";
    return fmt::format("{} / {}", text, size.divisor);
}

std::string size_factor(const LoopSize& size, std::int64_t number, const KernelSizes& sizes) {
    return in_parentheses(size_text(size, number, sizes));
}

std::string index_letter(const LoopSize& size) {
    if (size.divisor != 1 || size.formula.size() != 1 || size.formula[0].factor != 1 ||
        size.formula[0].names.size() != 1)
        return {};
    const std::string& name = size.formula[0].names[0];
    if (name == "B" || name == "T" || name == "S")
        return std::string(1, static_cast<char>(std::tolower(static_cast<unsigned char>(name[0]))));
    return name == "NH" || name == "KVH" ? "h" : "";
}

std::vector<LoopSize> sizes_of(const KernelNest& nest, const KernelDescription& kernel, const KernelSizes& sizes) {
    std::vector<LoopSize> out;
    for (std::int64_t extent : nest.extents) out.push_back({number(extent), 1});
    if (sizes.inputs.empty()) return out;
    for (std::size_t s = 0; s < out.size(); ++s) {
        std::optional<LoopSize> found;
        for (const bool whole : {true, false}) {
            for (const KernelStore& store : nest.stores)
                if (!found)
                    found = size_by(store.index, kernel.outputs[store.output].type.dims, sizes.outputs[store.output], s,
                                    nest.extents[s], whole);
            for (const KernelNode& node : nest.nodes)
                if (!found && node.kind == KernelNode::Kind::load)
                    found = size_by(node.index, kernel.inputs[node.operand].type.dims, sizes.inputs[node.operand], s,
                                    nest.extents[s], whole);
        }
        for (const KernelStore& store : nest.stores)
            if (!found)
                found = size_by_split(store.index, kernel.outputs[store.output].type.dims, sizes.outputs[store.output],
                                      s, nest.extents);
        for (const KernelNode& node : nest.nodes)
            if (!found && node.kind == KernelNode::Kind::load)
                found = size_by_split(node.index, kernel.inputs[node.operand].type.dims, sizes.inputs[node.operand], s,
                                      nest.extents);
        // A tensor within has as many dimensions of these sizes, up to this one.
        for (const KernelSizes::Inner& inner : sizes.inner) {
            const auto end = nest.extents.begin() + static_cast<std::ptrdiff_t>(s) + 1;
            if (!found && inner.dims.size() > s && std::equal(nest.extents.begin(), end, inner.dims.begin()) &&
                is_symbolic(inner.formulas[s]))
                found = LoopSize{inner.formulas[s], 1};
        }
        if (found) out[s] = std::move(*found);
    }
    return out;
}

void name_steps(StepNames& names, const AffineIndex& index, const Dims& dims, const std::vector<SizeFormula>& formulas,
                const std::vector<LoopSize>& loops, const Dims& extents, const KernelSizes& sizes,
                const std::function<std::string(std::int64_t)>& elements) {
    if (formulas.size() != dims.size() || index.size() != dims.size() || dims.empty()) return;
    // By dimension: the sizes of those behind it, as factors.
    std::vector<LoopSize> strides(dims.size(), {number(1), 1});
    std::vector<std::string> texts(dims.size());
    for (std::size_t d = dims.size() - 1; d-- > 0;) {
        strides[d] = LoopSize{formulas[d + 1], 1} * strides[d + 1];
        const std::string text = size_text(formulas[d + 1]);
        const bool sum = formulas[d + 1].size() > 1 && text.front() != '(';
        texts[d] = (sum ? "(" + text + ")" : text) + (texts[d + 1].empty() ? "" : " * " + texts[d + 1]);
    }
    for (std::size_t s = 0; s < extents.size(); ++s) {
        std::optional<std::size_t> by;
        bool only = true;
        for (std::size_t d = 0; d < dims.size(); ++d)
            if (index[d].step[s] != 0) only = only && !by, by = d;
        if (!by || !only || index[*by].step[s] < 0) continue;
        const std::int64_t along = index[*by].step[s];
        const SizeFormula part =
            along == 1 ? number(1) : inner_part(formulas[*by], along, sizes).value_or(number(along));
        const SizeFormula step = size_product(part, strides[*by].formula);
        if (!is_symbolic(step)) continue;
        std::string text = along == 1 ? "" : size_text(part);
        if (!texts[*by].empty()) text += (text.empty() ? "" : " * ") + texts[*by];
        names.steps.emplace(sizes.value(step), text);
    }
    // Where the piece begins that is read: behind other parts of a row, or at its second half.
    std::int64_t offset = 0;
    for (std::size_t d = 0, inner = dims.size(); d < dims.size(); ++d) {
        std::int64_t stride = 1;
        for (std::size_t e = d + 1; e < inner; ++e) stride *= dims[e];
        offset += index[d].offset * stride;
    }
    if (offset <= 0) return;
    const auto is_number = [](const std::string& text) {
        return std::isdigit(static_cast<unsigned char>(text.front())) != 0 && text.find(' ') == std::string::npos;
    };
    if (const std::string whole = elements(offset); !is_number(whole)) {
        names.offsets.emplace(offset, whole);
        return;
    }
    for (std::size_t s = 0; s < extents.size(); ++s) {
        if (loops[s].divisor == 1 || extents[s] > offset) continue;
        const std::string part = size_text(loops[s], extents[s], sizes);
        if (is_number(part)) continue;
        if (offset == extents[s]) {
            names.offsets.emplace(offset, part);
        } else if (const std::string before = elements(offset - extents[s]); !is_number(before)) {
            names.offsets.emplace(offset, before + " + " + part);
        }
    }
}

}  // namespace thunderc
