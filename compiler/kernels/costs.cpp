// SPDX-License-Identifier: Apache-2.0
#include "compiler/kernels/costs.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <vector>

#include "compiler/ir/op_def.h"

namespace thunderc {

std::int64_t bytes_moved(const KernelDescription& kernel) {
    std::map<std::size_t, std::int64_t> read, written;
    std::int64_t bytes = 0;
    for (const KernelNest& nest : kernel.nests) {
        for (const KernelNode& node : nest.nodes) {
            if (node.kind == KernelNode::Kind::load) read[node.operand] += footprint(node.index, nest.extents);
        }
        for (const KernelStore& store : nest.stores) written[store.output] += footprint(store.index, nest.extents);
    }
    for (const auto& [operand, elements] : read) {
        if (kernel.inputs[operand].is_flag) continue;  // an argument of the call
        const Type& type = kernel.inputs[operand].type;
        bytes += std::min(elements, type.elements()) * static_cast<std::int64_t>(size_of(type.dtype));
    }
    // Not all of an output, where a part stands there already.
    for (const auto& [output, elements] : written) {
        const Type& type = kernel.outputs[output].type;
        bytes += std::min(elements, type.elements()) * static_cast<std::int64_t>(size_of(type.dtype));
    }
    return bytes;
}

double work(const KernelDescription& kernel) {
    double total = 0;
    for (const KernelNest& nest : kernel.nests) {
        // A node is computed anew in every pass over the columns that needs it.
        std::vector<std::set<int>> passes(nest.nodes.size());
        const int last = 1 << 20;
        const std::vector<bool> while_storing = found_while_storing(nest);
        for (const KernelStore& store : nest.stores) passes[store.node].insert(last);
        for (std::size_t k = nest.nodes.size(); k-- > 0;) {
            const KernelNode& node = nest.nodes[k];
            for (std::size_t input : node.inputs) {
                if (node.kind == KernelNode::Kind::reduce) {
                    // One pass for the reductions that wait for the same ones.
                    const bool own = node.over == KernelNode::Over::columns && !while_storing[k];
                    passes[input].insert(own ? node.pass : last);
                } else {
                    passes[input].insert(passes[k].begin(), passes[k].end());
                }
            }
        }
        for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
            const KernelNode& node = nest.nodes[k];
            double weight = 0;
            if (node.kind == KernelNode::Kind::apply) {
                const auto& rule = op_def(node.op).elementwise;
                weight = rule ? rule->operations : 1;
            } else if (node.kind == KernelNode::Kind::reduce) {
                weight = 1;
            } else {
                continue;
            }
            double times = 1;
            if (node.kind == KernelNode::Kind::reduce || node.level == KernelLevel::element) {
                times = static_cast<double>(element_count(nest.extents));
            } else if (node.level == KernelLevel::row) {
                times = static_cast<double>(nest.rows());
            } else if (node.level == KernelLevel::column) {
                times = static_cast<double>(node.finish ? nest.columns() : element_count(nest.extents));
            }
            const bool by_pass = node.level == KernelLevel::element || node.level == KernelLevel::column;
            total += weight * times * (by_pass && passes[k].size() > 1 ? static_cast<double>(passes[k].size()) : 1.0);
        }
    }
    return total;
}

double cost_of(const KernelDescription& kernel) {
    constexpr double bytes_per_operation = 0.5;
    double bytes = static_cast<double>(bytes_moved(kernel));
    for (const KernelNest& nest : kernel.nests) {
        for (const KernelNode& node : nest.nodes) {
            if (node.kind != KernelNode::Kind::load || nest.extents.empty()) continue;
            const Type& type = kernel.inputs[node.operand].type;
            const Affine position = linear_index(node.index, type.dims);
            // Elements that are far apart along the innermost loop bring a cache line each.
            if (!position.step.empty() && std::abs(position.step.back()) >= 16 && nest.extents.back() > 1) {
                bytes += static_cast<double>(type.bytes());
            }
        }
    }
    return bytes + bytes_per_operation * work(kernel) + bytes_per_start * static_cast<double>(kernel.nests.size());
}

}  // namespace thunderc
