// SPDX-License-Identifier: Apache-2.0
// Sums of all elements: cut into rows, so that blocks have rows of their own and a second kernel adds what they have
// summed, as it is done for sums over rows.
#include <algorithm>
#include <set>

#include "codegen/kernels/cuda/cuda_nest.h"

namespace thunderc {

using Kind = KernelNode::Kind;
using Over = KernelNode::Over;

namespace {

// What one block does as quickly as several and a second launch.
constexpr std::int64_t few_elements = 1 << 15;

// How long rows are: the largest divisor up to 1024, of multiples of 8 if there are, which vectors of any type fill. 0
// where only short ones divide.
std::int64_t row_width(std::int64_t elements) {
    std::int64_t any = 0;
    for (std::int64_t width = 1024; width >= 64; --width) {
        if (elements % width != 0) continue;
        if (width % 8 == 0) return width;
        any = std::max(any, width);
    }
    return any;
}

// The reductions that a node is made of.
std::set<std::size_t> reductions_of(const Loops& loops, std::size_t k) {
    const KernelNode& node = loops.nodes[k];
    std::set<std::size_t> result;
    if (node.kind == Kind::reduce) result.insert(k);
    for (std::size_t input : node.inputs) result.merge(reductions_of(loops, input));
    return result;
}

// Sums alone, each of the elements and no other sum, and a result for each that follows from one of them.
bool only_whole_sums(const Loops& loops) {
    for (std::size_t k = 0; k < loops.nodes.size(); ++k) {
        const KernelNode& node = loops.nodes[k];
        if (node.kind != Kind::reduce) continue;
        if (node.op != "sum" || node.dtype != DType::f32 || node.over != Over::columns) return false;
        if (reductions_of(loops, k).size() != 1) return false;
    }
    for (std::size_t s = 0; s < loops.stores.size(); ++s) {
        const Dims& step = loops.store_position[s].step;
        if (std::any_of(step.begin(), step.end(), [](std::int64_t d) { return d != 0; })) return false;
        const std::size_t k = loops.stores[s].node;
        if (loops.nodes[k].level == KernelLevel::element || loops.nodes[k].level == KernelLevel::column) return false;
        if (reductions_of(loops, k).size() != 1) return false;
    }
    return true;
}

}  // namespace

Loops cut_whole_sums(Loops loops) {
    if (loops.pointwise || !loops.rows.empty() || loops.width() < few_elements || !only_whole_sums(loops)) return loops;
    if (loops.columns.size() > 1) {
        loops.rows.assign(loops.columns.begin(), loops.columns.end() - 1);
        loops.columns.erase(loops.columns.begin(), loops.columns.end() - 1);
        loops.row_sizes.assign(loops.column_sizes.begin(), loops.column_sizes.end() - 1);
        loops.column_sizes.erase(loops.column_sizes.begin(), loops.column_sizes.end() - 1);
    } else {
        const std::int64_t width = row_width(loops.width());
        if (width == 0) return loops;
        loops.rows = {loops.width() / width};
        loops.columns = {width};
        loops.row_sizes = {{{{loops.rows[0], {}}}, 1}};
        loops.column_sizes = {{{{width, {}}}, 1}};
        const auto cut = [width](auto& step) {
            const auto one = step.front();
            step = {one * static_cast<decltype(one)>(width), one};
        };
        for (std::size_t k = 0; k < loops.nodes.size(); ++k) {
            if (loops.nodes[k].kind == Kind::load) cut(loops.position[k].step);
            if (loops.nodes[k].kind == Kind::index) cut(loops.nodes[k].steps);
        }
        for (Affine& position : loops.store_position) cut(position.step);
    }
    // What a node depends on, anew.
    for (std::size_t k = 0; k < loops.nodes.size(); ++k) {
        KernelNode& node = loops.nodes[k];
        bool row = false, column = false;
        const auto touch = [&](const auto& step) {
            for (std::size_t d = 0; d < step.size(); ++d)
                if (step[d] != 0) (d < loops.rows.size() ? row : column) = true;
        };
        if (node.kind == Kind::load) touch(loops.position[k].step);
        if (node.kind == Kind::index) touch(node.steps);
        node.finish = node.kind == Kind::reduce;
        node.pass = 0;
        std::vector<std::size_t> inputs = node.inputs;
        for (std::size_t j = 0; j < k; ++j)
            if (loops.short_sums.inside[j] == k) inputs.push_back(j);
        for (std::size_t input : inputs) {
            const KernelNode& of = loops.nodes[input];
            row = row || of.level == KernelLevel::row || of.level == KernelLevel::element;
            column = column || of.level == KernelLevel::column || of.level == KernelLevel::element;
            node.finish = node.finish || of.finish;
        }
        if (node.kind == Kind::reduce) {
            node.over = Over::both;
            row = column = false;
        }
        node.level = row ? (column ? KernelLevel::element : KernelLevel::row)
                         : (column ? KernelLevel::column : KernelLevel::scalar);
    }
    return loops;
}

}  // namespace thunderc
