// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/composites.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;
using KernelNodes = std::vector<KernelNode>;

struct Pattern {
    std::string name;
    KernelNodes nodes;
    std::size_t root = 0, argument = 0;
};

// What an op of these attributes computes of one element, from operands called 0, 1, ...; none where that is no kernel.
std::optional<Pattern> pattern_of(const OpDef& def, const Attributes& attributes, std::size_t operands) {
    Function f;
    f.name = "pattern";
    f.kind = "kernel:pointwise";
    Op op;
    op.name = def.name;
    op.attributes = attributes;
    for (std::size_t k = 0; k < operands; ++k)
        op.operands.push_back(
            f.add_argument(Type::tensor(DType::f32, {2}), std::string(1, static_cast<char>('x' + k))));
    Builder b(f);
    f.results = def.decompose(b, op);
    const std::optional<KernelDescription> kernel = try_describe_kernel(f);
    if (!kernel || kernel->nests.size() != 1) return std::nullopt;
    Pattern pattern;
    pattern.nodes = kernel->nests[0].nodes;
    pattern.root = kernel->nests[0].stores[0].node;
    return pattern;
}

std::optional<std::size_t> load_of(const KernelNodes& nodes, std::size_t operand) {
    for (std::size_t k = 0; k < nodes.size(); ++k)
        if (nodes[k].kind == Kind::load && nodes[k].operand == operand) return k;
    return std::nullopt;
}

// y = f(x), and f' from the companion that gives dx = dy f'(x).
void add_patterns(std::vector<Pattern>& patterns, const OpDef& def, const Attributes& attributes) {
    const std::string name = def.activation ? def.activation(attributes) : def.name;
    const auto add = [&](std::optional<Pattern> pattern, std::size_t argument) {
        const auto load = pattern ? load_of(pattern->nodes, argument) : std::nullopt;
        if (!load || pattern->nodes[pattern->root].kind != Kind::apply) return;
        pattern->argument = *load;
        patterns.push_back(std::move(*pattern));
    };
    std::optional<Pattern> value = pattern_of(def, attributes, 1);
    if (value) value->name = name;
    add(std::move(value), 0);
    const OpDef* companion = find_op(def.name + "_backward");
    if (companion == nullptr || !companion->decompose) return;
    std::optional<Pattern> slope = pattern_of(*companion, attributes, 2);
    if (!slope || slope->nodes[slope->root].op != "mul") return;
    const std::vector<std::size_t>& factors = slope->nodes[slope->root].inputs;
    const std::optional<std::size_t> dy = load_of(slope->nodes, 0);
    if (dy != factors[0]) return;
    slope->name = name + "'";
    slope->root = factors[1];
    add(std::move(slope), 1);
}

// Of composites of one operand that compute something of each element, and say by their name alone what.
std::vector<Pattern> all_patterns() {
    std::vector<Pattern> patterns;
    for (const OpDef* def : all_ops()) {
        if (!def->decompose || def->rows.kind != Rows::Kind::by_element) continue;
        std::vector<Attributes> known;
        for (const Sample& sample : def->samples) {
            if (sample.operands.size() != 1 || (sample.attributes != Attributes() && !def->activation)) {
                known.clear();
                break;
            }
            if (std::find(known.begin(), known.end(), sample.attributes) == known.end())
                known.push_back(sample.attributes);
        }
        for (const Attributes& attributes : known) add_patterns(patterns, *def, attributes);
    }
    return patterns;
}

// Whether node k computes what the pattern's node p does; `argument`: what stands for the pattern's, once it is met.
bool matches(const Pattern& pattern, std::size_t p, const KernelNodes& nodes, std::size_t k,
             std::optional<std::size_t>& argument) {
    const KernelNode &wanted = pattern.nodes[p], &node = nodes[k];
    if (p == pattern.argument) {
        if (!argument) argument = k;
        return *argument == k;
    }
    if (wanted.kind != node.kind || wanted.dtype != node.dtype) return false;
    if (wanted.kind == Kind::literal) return static_cast<float>(wanted.value) == static_cast<float>(node.value);
    if (wanted.kind != Kind::apply || wanted.op != node.op || !node.terms.empty()) return false;
    const auto in_order = [&](std::size_t a, std::size_t b) {
        std::optional<std::size_t> met = argument;
        if (!matches(pattern, wanted.inputs[0], nodes, node.inputs[a], met)) return false;
        if (wanted.inputs.size() > 1 && !matches(pattern, wanted.inputs[1], nodes, node.inputs[b], met)) return false;
        argument = met;
        return true;
    };
    if (wanted.inputs.size() > 2) return false;
    return in_order(0, 1) || (op_def(node.op).commutative && in_order(1, 0));
}

}  // namespace

std::map<std::size_t, Composite> composites_of(const KernelNodes& nodes) {
    static const std::vector<Pattern> patterns = all_patterns();
    std::map<std::size_t, Composite> found;
    for (std::size_t k = 0; k < nodes.size(); ++k) {
        if (nodes[k].kind != Kind::apply) continue;
        for (const Pattern& pattern : patterns) {
            std::optional<std::size_t> argument;
            if (!matches(pattern, pattern.root, nodes, k, argument) || !argument) continue;
            found[k] = {pattern.name, *argument};
            break;
        }
    }
    return found;
}

}  // namespace thunderc
