// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "codegen/kernels/short_sums.h"
#include "codegen/text.h"
#include "compiler/analysis/result_names.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/error.h"

namespace thunderc {

std::string fill_template(std::string_view form, int precedence, const std::vector<ExpressionText>& operands,
                          std::string_view type) {
    std::string out;
    for (std::size_t k = 0; k < form.size(); ++k) {
        if (form[k] != '{' || k + 2 >= form.size() || form[k + 2] != '}') {
            out += form[k];
            continue;
        }
        const char which = form[k + 1];
        if (which == 't') {
            out += type;
            k += 2;
            continue;
        }
        const ExpressionText& operand = operands.at(static_cast<std::size_t>(which - '0'));
        const char before = k == 0 ? ' ' : form[k - 1];
        const std::size_t next = form.find_first_not_of(' ', k + 3);
        const char after = next == std::string_view::npos ? ' ' : form[next];
        std::string_view head = form.substr(0, k);
        while (!head.empty() && head.back() == ' ') head.remove_suffix(1);
        const char opener = head.empty() ? ' ' : head.back();
        // f({0}) and f({0}, {1}): nothing beside it binds.
        const bool enclosed = (opener == '(' || opener == ',') && (after == ')' || after == ',');
        // a + b + c and a * b * c are read from the left as they are written; anything else of equal rank is told
        // apart.
        const bool chains = k == 0 && (precedence == 2 || precedence == 3);
        const int needed = precedence >= 4 ? 4 : chains ? precedence : precedence + 1;
        const bool minus = !operand.text.empty() && operand.text.front() == '-' && before == '-';
        const bool parenthesise = !enclosed && (operand.precedence < needed || minus);
        out += parenthesise ? "(" + operand.text + ")" : operand.text;
        k += 2;
    }
    return out;
}

namespace {

std::string short_number(double value) {
    if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
    const std::string shortest = fmt::format("{}", static_cast<float>(value));
    const std::string rounded = fmt::format("{:.6g}", value);
    return rounded.size() < shortest.size() ? rounded : shortest;
}

// Which piece of an operand a load reads. Operands that are read at several
// places are told apart by what their pieces are called, gate and up, where
// each has a name; by x1, x2, ... where not.
class Pieces {
  public:
    void add(std::size_t operand, const AffineIndex& index, const std::string& piece) {
        std::string& known = seen_[operand][key(index)];
        // The x1 and x2 of a definition are numbered as pieces of their tensor are.
        const bool numbered = !piece.empty() && std::isdigit(static_cast<unsigned char>(piece.back())) != 0;
        if (known.empty() && !numbered) known = piece;
    }
    // What is stored there is another tensor as it is, and called as that is.
    void add_copy(std::size_t operand, const AffineIndex& index, const std::string& name) {
        seen_[operand][key(index)] = name;
        copies_.insert({operand, key(index)});
    }
    // Some read all of it: what they read is no piece.
    void add_whole(std::size_t operand) { whole_.insert(operand); }
    // When all are there. `used`: names that stand for something else.
    void name_all(const std::vector<std::string>& bases, UsedNames& used) {
        for (const auto& [operand, pieces] : seen_) {
            if (pieces.size() < 2 && !whole_.contains(operand)) continue;
            std::map<std::string, int> count, number;
            for (const auto& [at, piece] : pieces)
                if (!copies_.contains({operand, at})) ++count[piece];
            const std::string& base = bases[operand];
            const bool named = !count.contains("") && std::none_of(count.begin(), count.end(), [&](const auto& one) {
                return used.has(one.first) || used.has(one.first + "1");
            });
            int place = 0;
            for (const auto& [at, piece] : pieces) {
                ++place;
                std::string& label = labels_[operand][at];
                if (!named)
                    label = numbered(base, place);
                else
                    label = count[piece] > 1 ? numbered(piece, ++number[piece]) : piece;
                if (named) used.add(label), listed_[operand] += (place == 1 ? "" : ", ") + label;
            }
        }
    }
    std::string name(const std::string& base, std::size_t operand, const AffineIndex& index) const {
        const auto at = labels_.find(operand);
        return at == labels_.end() ? base : at->second.at(key(index));
    }
    // "gate, up", by operand: of those whose pieces have names.
    const std::map<std::size_t, std::string>& listed() const { return listed_; }

  private:
    using Offsets = std::vector<std::int64_t>;
    static Offsets key(const AffineIndex& index) {
        Offsets offsets;
        for (const Affine& a : index) offsets.push_back(a.offset);
        return offsets;
    }
    static std::string numbered(const std::string& base, int place) {
        const bool digit = std::isdigit(static_cast<unsigned char>(base.back())) != 0;
        return fmt::format("{}{}{}", base, digit ? "_" : "", place);
    }
    std::map<std::size_t, std::map<Offsets, std::string>> seen_,
        labels_;  // by operand and where the piece begins
    std::map<std::size_t, std::string> listed_;
    std::set<std::size_t> whole_;
    std::set<std::pair<std::size_t, Offsets>> copies_;
};

// Formulas do not speak of the types in which things are stored: casts from and to narrow types are left out.
KernelDescription without_rounding(KernelDescription kernel) {
    for (KernelNest& nest : kernel.nests) {
        std::vector<std::size_t> stands_for(nest.nodes.size());
        for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
            KernelNode& node = nest.nodes[k];
            for (std::size_t& input : node.inputs) input = stands_for[input];
            for (std::size_t& term : node.terms) term = stands_for[term];
            const bool rounds = node.kind == KernelNode::Kind::apply && node.op == "cast" &&
                                (is_narrow(node.dtype) || is_narrow(nest.nodes[node.inputs[0]].dtype));
            stands_for[k] = rounds ? node.inputs[0] : k;
        }
        for (KernelStore& store : nest.stores) store.node = stands_for[store.node];
    }
    return kernel;
}

class Formula {
  public:
    Formula(KernelDescription kernel, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs)
        : kernel_(std::move(kernel)), inputs_(inputs), outputs_(outputs) {
        for (KernelNest& nest : kernel_.nests) {
            std::vector<Affine> position(nest.nodes.size());
            for (std::size_t k = 0; k < position.size(); ++k) {
                const KernelNode& node = nest.nodes[k];
                if (node.kind == KernelNode::Kind::load && !node.index.empty())
                    position[k] = linear_index(node.index, kernel_.inputs[node.operand].type.dims);
            }
            sums_[&nest] = roll_short_sums(nest.nodes, position, nest.stores);
            for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
                const KernelNode& node = nest.nodes[k];
                if (node.kind != KernelNode::Kind::load) continue;
                if (reads_whole(nest, k))
                    loads_.add_whole(node.operand);
                else
                    loads_.add(node.operand, node.index, node.piece);
            }
            for (const KernelStore& store : nest.stores) {
                if (nest.nodes[store.node].kind == KernelNode::Kind::load && reads_whole(nest, store.node))
                    stores_.add_copy(store.output, store.index, inputs[nest.nodes[store.node].operand]);
                else
                    stores_.add(store.output, store.index, store.piece);
            }
        }
        used_.add(inputs);
        used_.add(outputs);
        loads_.name_all(inputs, used_);
        stores_.name_all(outputs, used_);
    }

    std::vector<std::string> equations() {
        std::vector<std::string> out;
        for (const KernelNest& nest : kernel_.nests) {
            nest_ = &nest;
            named_.clear();
            UsedNames used = used_;
            // What an output holds is called by its name in the others.
            std::map<std::size_t, std::string> own;
            for (const KernelStore& store : nest.stores) {
                const KernelNode& stored = nest.nodes[store.node];
                const bool computed = stored.kind == KernelNode::Kind::apply || stored.kind == KernelNode::Kind::reduce;
                if (computed && !own.contains(store.node)) {
                    own[store.node] = stores_.name(outputs_[store.output], store.output, store.index);
                }
            }
            // Long expressions, and those that have a name in their definition, are written once where they are used
            // more than once.
            std::vector<int> uses(nest.nodes.size(), 0), size(nest.nodes.size(), 1);
            for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
                const ShortSum* sum = sums_[&nest].of(k);
                for (std::size_t input : sum != nullptr ? std::vector{sum->body} : nest.nodes[k].inputs) {
                    ++uses[input];
                    size[k] = std::min(size[k] + size[input], 1000);  // a graph may double it again and again
                }
            }
            for (const KernelStore& store : nest.stores)  // first ? d : before + d is written as one use of d
                if (auto gradient = accumulated(store.node)) --uses[*gradient];
            std::vector<std::string> definitions;
            for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
                if (own.contains(k)) {
                    named_[k] = own[k];
                    continue;
                }
                const bool named = nest.nodes[k].kind == KernelNode::Kind::apply && size[k] > 1 &&
                                   !is_named_after_op(nest.nodes[k].name);
                if (uses[k] < 2 || (size[k] <= 4 && !named)) continue;
                const std::string body = expression(k).text;
                const std::string name = used.unique(nest.nodes[k].name.empty() ? "t" : nest.nodes[k].name);
                named_[k] = name;
                definitions.push_back(fmt::format("{} = {}", name, body));
            }
            std::set<std::string> used_own;
            for (const KernelStore& store : nest.stores) {
                const std::string name = stores_.name(outputs_[store.output], store.output, store.index);
                if (own.contains(store.node) && own[store.node] == name) {
                    named_.erase(store.node);
                    const auto gradient = accumulated(store.node);
                    const std::string body = expression(gradient.value_or(store.node)).text;
                    named_[store.node] = name;
                    out.push_back(fmt::format("{} {}= {}", name, gradient ? "+" : "", body));
                } else if (const std::string value = expression(store.node).text; value != name) {
                    out.push_back(fmt::format("{} = {}", name, value));
                }
            }
            for (const std::string& definition : definitions)  // nests may need the same
                if (std::find(out.begin(), out.end(), "where " + definition) == out.end())
                    out.push_back("where " + definition);
        }
        for (const auto& [operand, pieces] : loads_.listed())
            out.push_back(fmt::format("where {} = {}", pieces, inputs_[operand]));
        for (const auto& [output, pieces] : stores_.listed())
            out.push_back(fmt::format("where {} = {}", outputs_[output], pieces));
        return out;
    }

  private:
    ExpressionText expression(std::size_t k) {
        if (auto at = named_.find(k); at != named_.end()) return {at->second, 4};
        const KernelNode& node = nest_->nodes[k];
        switch (node.kind) {
            case KernelNode::Kind::literal:
                if (node.dtype == DType::boolean) return {node.value != 0 ? "true" : "false", 4};
                return {short_number(node.value), node.value < 0 ? 3 : 4};
            case KernelNode::Kind::index: return {"index", 4};
            case KernelNode::Kind::load: {
                const std::string& base = inputs_[node.operand];
                if (kernel_.inputs[node.operand].is_flag) return {"overwrite", 4};
                return {reads_whole(*nest_, k) ? base : loads_.name(base, node.operand, node.index), 4};
            }
            case KernelNode::Kind::reduce: {
                const bool over_rows = node.over != KernelNode::Over::columns;
                return {fmt::format("{}({})", over_rows ? node.op + " over rows" : node.op,
                                    expression(node.inputs[0]).text),
                        4};
            }
            case KernelNode::Kind::apply: break;
        }
        if (const ShortSum* sum = sums_[nest_].of(k)) {
            const std::string over = sum->axes.front() == 0 ? "rows" : fmt::format("axis {}", sum->axes.front());
            return {fmt::format("{} over {}({})", node.op == "add" ? "sum" : "max", over, expression(sum->body).text),
                    4};
        }
        if (auto mean = mean_of(node)) return {fmt::format("mean({})", expression(*mean).text), 4};
        if (node.op == "mul" && node.inputs[0] == node.inputs[1]) {
            const ExpressionText base = expression(node.inputs[0]);
            return {(base.precedence < 4 ? "(" + base.text + ")" : base.text) + "^2", 4};
        }
        const Elementwise& rule = *op_def(node.op).elementwise;
        std::vector<ExpressionText> operands;
        for (std::size_t input : node.inputs) operands.push_back(expression(input));
        return {fill_template(rule.formula, rule.precedence, operands, name_of(node.dtype)), rule.precedence};
    }

    // Whether the loops together read every element of the operand.
    bool reads_whole(const KernelNest& nest, std::size_t k) const {
        const KernelNode& node = nest.nodes[k];
        const ShortSums& sums = sums_.at(&nest);
        const std::int64_t terms = sums.is_inside(k) ? sums.of(sums.inside[k])->count : 1;
        return footprint(node.index, nest.extents) * terms == kernel_.inputs[node.operand].type.elements();
    }

    // The gradient of this micro-step, where the node is first ? gradient : before + gradient.
    std::optional<std::size_t> accumulated(std::size_t k) const {
        const KernelNode& node = nest_->nodes[k];
        if (node.kind != KernelNode::Kind::apply || node.op != "select") return std::nullopt;
        const KernelNode &first = nest_->nodes[node.inputs[0]], &sum = nest_->nodes[node.inputs[2]];
        if (first.kind != KernelNode::Kind::load || first.level != KernelLevel::scalar || sum.op != "add" ||
            sum.kind != KernelNode::Kind::apply || sum.inputs[1] != node.inputs[1] ||
            nest_->nodes[sum.inputs[0]].kind != KernelNode::Kind::load)
            return std::nullopt;
        return node.inputs[1];
    }

    // The body of sum(...) * (1 / columns) or sum(...) / columns.
    std::optional<std::size_t> mean_of(const KernelNode& node) const {
        if (node.op != "mul" && node.op != "div") return std::nullopt;
        const KernelNode& a = nest_->nodes[node.inputs[0]];
        const KernelNode& b = nest_->nodes[node.inputs[1]];
        if (a.kind != KernelNode::Kind::reduce || a.op != "sum" || a.over != KernelNode::Over::columns)
            return std::nullopt;
        if (b.kind != KernelNode::Kind::literal) return std::nullopt;
        const auto columns = static_cast<double>(nest_->columns());
        const double factor = node.op == "mul" ? b.value * columns : b.value / columns;
        return std::abs(factor - 1) < 1e-6 ? std::optional<std::size_t>(a.inputs[0]) : std::nullopt;
    }

    KernelDescription kernel_;
    std::map<const KernelNest*, ShortSums> sums_;
    const std::vector<std::string>& inputs_;
    const std::vector<std::string>& outputs_;
    const KernelNest* nest_ = nullptr;
    Pieces loads_, stores_;
    UsedNames used_;
    std::map<std::size_t, std::string> named_;
};

}  // namespace

std::vector<std::string> kernel_formula(const KernelDescription& kernel, const std::vector<std::string>& input_names,
                                        const std::vector<std::string>& output_names) {
    return Formula(without_rounding(kernel), input_names, output_names).equations();
}

}  // namespace thunderc
