// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "codegen/kernels/composites.h"
#include "codegen/kernels/pieces.h"
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
    const bool whole = value == std::floor(value) && std::abs(value) < 0x1p53;
    if (whole && std::stod(rounded) != value && std::stod(shortest) != value) return fmt::format("{:.0f}", value);
    return rounded.size() < shortest.size() ? rounded : shortest;
}

class Formula {
  public:
    Formula(const KernelDescription& kernel, const std::vector<std::string>& inputs,
            const std::vector<std::string>& outputs, const KernelSizes& sizes, const UsedNames& reserved)
        : kernel_(without_rounding(kernel)),
          inputs_(inputs),
          outputs_(outputs),
          sizes_(sizes),
          pieces_(kernel, inputs, outputs, reserved) {
        for (KernelNest& nest : kernel_.nests) {
            sums_[&nest] = roll_nest(nest, kernel_);
            composites_[&nest] = composites_of(nest.nodes);
        }
    }

    std::vector<std::string> equations() {
        std::vector<std::string> out, definitions;
        UsedNames used = pieces_.used();
        for (const KernelNest& nest : kernel_.nests) {
            nest_ = &nest;
            transposes_ = transposes();
            named_.clear();
            // What an output holds is called by its name in the others.
            std::map<std::size_t, std::string> own;
            for (const KernelStore& store : nest.stores) {
                const KernelNode& stored = nest.nodes[store.node];
                const bool computed = stored.kind == KernelNode::Kind::apply || stored.kind == KernelNode::Kind::reduce;
                if (computed && !own.contains(store.node)) {
                    own[store.node] = stored_name(store);
                }
            }
            const std::vector<std::size_t> size = sizes_in_text();
            const std::map<std::size_t, std::string> said = said_before(size, own);
            const std::vector<bool> written = nodes_written(said);
            std::vector<int> uses(nest.nodes.size(), 0);
            for (std::size_t k = 0; k < nest.nodes.size(); ++k)
                if (written[k] && !said.contains(k))
                    for (std::size_t input : operands_of(k)) ++uses[input];
            for (const KernelStore& store : nest.stores)  // first ? d : before + d is written as one use of d
                if (auto gradient = accumulated(store.node, store.output)) --uses[*gradient];
            std::set<std::size_t> steps;  // of gradients that are added to and nothing else: their equations say "+="
            for (const KernelStore& store : nest.stores)
                if (auto gradient = accumulated(store.node, store.output); gradient && uses[*gradient] < 2)
                    steps.insert(*gradient);
            named_ = said;
            std::vector<std::size_t> length(nest.nodes.size(), 1);
            for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
                if (own.contains(k)) {
                    named_[k] = own[k];
                    continue;
                }
                if (!written[k] || said.contains(k)) continue;
                // What has a name has it in another type, too.
                if (const KernelNode& node = nest.nodes[k]; node.kind == KernelNode::Kind::apply && node.op == "cast")
                    if (const auto at = named_.find(node.inputs[0]); at != named_.end()) {
                        named_[k] = at->second;
                        continue;
                    }
                for (std::size_t input : operands_of(k)) length[k] += length[input];
                if (steps.contains(k) || !is_defined(nest.nodes[k], uses[k], size[k], length[k])) continue;
                length[k] = 1;
                const std::string body = expression(k).text;
                const std::string name = used.unique(nest.nodes[k].name.empty() ? "t" : nest.nodes[k].name);
                named_[k] = name;
                definitions.push_back(fmt::format("where {} = {}", name, body));
                remember(k, size[k], name);
            }
            for (const KernelStore& store : nest.stores) {
                const std::string name = stored_name(store);
                if (own.contains(store.node) && own[store.node] == name) {
                    named_.erase(store.node);
                    std::optional<std::size_t> gradient = accumulated(store.node, store.output);
                    if (!gradient) gradient = added(store.node, store.output);
                    const std::string body = expression(gradient.value_or(store.node)).text;
                    named_[store.node] = name;
                    out.push_back(fmt::format("{} {}= {}", name, gradient ? "+" : "", body));
                    if (!gradient) remember(store.node, size[store.node], name);
                } else if (const std::string value = expression(store.node).text; value != name) {
                    out.push_back(fmt::format("{} = {}", name, value));
                }
            }
        }
        for (const std::string& definition : definitions)
            if (std::find(out.begin(), out.end(), definition) == out.end()) out.push_back(definition);
        const std::map<std::size_t, std::string>& stored = pieces_.listed_outputs();
        std::map<std::size_t, std::string> replaced;  // by output: what stood in its place
        for (std::size_t o = 0; o < kernel_.inputs.size(); ++o) {
            const auto pieces = pieces_.listed_inputs().find(o);
            const bool listed = pieces != pieces_.listed_inputs().end();
            const KernelOperand& operand = kernel_.inputs[o];
            if (operand.same_as && stored.contains(*operand.same_as) && (listed || (operand.within && is_read(o)))) {
                std::string& names = replaced[*operand.same_as];
                names += (names.empty() ? "" : ", ") + (listed ? pieces->second : pieces_.operand(o));
            } else if (listed) {
                out.push_back(fmt::format("where {} = {}", pieces->second, inputs_[o]));
            }
        }
        for (const auto& [output, pieces] : stored) {
            const auto before = replaced.find(output);
            const std::string in_place = before == replaced.end() ? "" : ", in place of " + before->second;
            out.push_back(fmt::format("where {} = {}{}", outputs_[output], pieces, in_place));
        }
        return out;
    }

  private:
    bool is_read(std::size_t operand) const {
        return std::any_of(kernel_.nests.begin(), kernel_.nests.end(), [&](const KernelNest& nest) {
            return std::any_of(nest.nodes.begin(), nest.nodes.end(), [&](const KernelNode& node) {
                return node.kind == KernelNode::Kind::load && node.operand == operand;
            });
        });
    }

    // By node of the nest: how many others its expression is made of, itself among them, where nothing has a name.
    std::vector<std::size_t> sizes_in_text() const {
        std::vector<std::size_t> size(nest_->nodes.size(), 1);
        for (std::size_t k = 0; k < size.size(); ++k)
            for (std::size_t input : operands_of(k))
                size[k] = std::min<std::size_t>(size[k] + size[input], 1000);  // a graph may double it again and again
        return size;
    }

    // Whether an expression has a line of its own: a long one, or one with a name in its definition, or a gradient,
    // that is used more than once; and a long one of a gradient, within the expression of another. `size` is without
    // names, `length` with those that there are.
    static bool is_defined(const KernelNode& node, int uses, std::size_t size, std::size_t length) {
        if (uses == 0) return false;
        const std::optional<NameOfOp> of = name_of_op(node.name);
        const bool computed = node.kind == KernelNode::Kind::apply && size > 1;
        const bool named = computed && !is_named_after_op(node.name);
        const bool gradient =
            computed && (of ? of->cotangent && of->role.empty() : named && node.name.starts_with("d"));
        if (uses > 1) return size > 4 || named || gradient;
        constexpr std::size_t long_enough = 12;
        return gradient && length >= long_enough;
    }

    // Expressions that have a name already, in this nest's loops as in an earlier one's: by their text without names.
    void remember(std::size_t k, std::size_t size, const std::string& name) {
        if (size > most_compared) return;
        said_.emplace(spelled_out(k), name);
    }
    // The text says in which loops each tensor is read, casts, and numbers to the last digit: equal texts are one
    // value.
    std::string spelled_out(std::size_t k) {
        const std::map<std::size_t, std::string> names = std::exchange(named_, {});
        spelling_ = true;
        std::string text = expression(k).text;
        spelling_ = false;
        named_ = names;
        return text;
    }
    // Of each dimension of a tensor where it begins, and the loops that move along it: of the nest's loops and that of
    // a short sum, from the outermost on, by how many there are around them.
    std::string spelled_index(std::size_t load) const {
        const KernelNode& node = nest_->nodes[load];
        const std::optional<TermAxis> terms = along_terms(load);
        const ShortSums& sums = sums_.at(nest_);
        std::vector<double> places;
        for (std::size_t s = 0; s < nest_->extents.size(); ++s)
            if (nest_->extents[s] > 1) places.push_back(static_cast<double>(s));
        for (const auto& [node_of_sum, sum] : sums.by_node)
            places.push_back(static_cast<double>(sum.axes.front()) - 0.5);
        std::sort(places.begin(), places.end());
        places.erase(std::unique(places.begin(), places.end()), places.end());
        const auto depth = [&](double place) {
            return std::lower_bound(places.begin(), places.end(), place) - places.begin();
        };
        std::string text;
        for (std::size_t d = 0; d < node.index.size(); ++d) {
            text += fmt::format("[{}", node.index[d].offset);
            if (terms && terms->dim == d) text += fmt::format("+{}*{}", terms->step, depth(terms->place));
            for (std::size_t s = 0; s < node.index[d].step.size(); ++s)
                if (node.index[d].step[s] != 0 && nest_->extents[s] > 1)
                    text += fmt::format("+{}*{}", node.index[d].step[s], depth(static_cast<double>(s)));
            text += "]";
        }
        return text;
    }
    std::map<std::size_t, std::string> said_before(const std::vector<std::size_t>& size,
                                                   const std::map<std::size_t, std::string>& own) {
        std::map<std::size_t, std::string> out;
        if (said_.empty()) return out;
        for (std::size_t k = 0; k < nest_->nodes.size(); ++k) {
            if (nest_->nodes[k].kind != KernelNode::Kind::apply || own.contains(k)) continue;
            if (size[k] < 3 || size[k] > most_compared) continue;
            if (const auto at = said_.find(spelled_out(k)); at != said_.end()) out[k] = at->second;
        }
        return out;
    }

    ExpressionText expression(std::size_t k) {
        if (auto at = named_.find(k); at != named_.end()) return {at->second, 4};
        const KernelNode& node = nest_->nodes[k];
        switch (node.kind) {
            case KernelNode::Kind::literal:
                if (node.dtype == DType::boolean) return {node.value != 0 ? "true" : "false", 4};
                return {spelling_ ? fmt::format("{}", node.value) : short_number(node.value), node.value < 0 ? 3 : 4};
            case KernelNode::Kind::index:
                return {spelling_ ? fmt::format("index[{}+{}]", node.value, fmt::join(node.steps, ",")) : "index", 4};
            case KernelNode::Kind::load: {
                if (kernel_.inputs[node.operand].is_flag) return {"overwrite", 4};
                const ShortSums& sums = sums_.at(nest_);
                const std::int64_t terms = sums.is_inside(k) ? sums.of(sums.inside[k])->count : 1;
                const std::string name = turned(pieces_.load(node, nest_->extents, terms), node.index, along_terms(k));
                return {spelling_ ? name + spelled_index(k) : name, 4};
            }
            case KernelNode::Kind::reduce: {
                return {reduction(node.op, reduced_axes(node.over), node.inputs[0]), 4};
            }
            case KernelNode::Kind::apply: break;
        }
        if (const ShortSum* sum = sums_[nest_].of(k)) {
            return {reduction(node.op == "add" ? "sum" : "max", reduced_axes(*sum), sum->body), 4};
        }
        if (const auto composite = composites_[nest_].find(k); composite != composites_[nest_].end())
            return {fmt::format("{}({})", composite->second.name, expression(composite->second.argument).text), 4};
        if (auto mean = mean_of(node)) return {reduction("mean", reduced_axes(KernelNode::Over::columns), *mean), 4};
        if (node.op == "mul" && node.inputs[0] == node.inputs[1]) {
            const ExpressionText base = expression(node.inputs[0]);
            return {(base.precedence < 4 ? "(" + base.text + ")" : base.text) + "^2", 4};
        }
        const Elementwise& rule = *op_def(node.op).elementwise;
        std::vector<ExpressionText> operands;
        for (std::size_t input : node.inputs) operands.push_back(expression(input));
        if (spelling_ && node.op == "cast") return {fmt::format("{}({})", name_of(node.dtype), operands[0].text), 4};
        return {fill_template(rule.formula, rule.precedence, operands, name_of(node.dtype)), rule.precedence};
    }

    std::string stored_name(const KernelStore& store) const {
        const std::string name = pieces_.store(store);
        return store.index.size() < 2 ? name : turned(name, store.index);
    }

    // "sum_C(x)"; where the axes have no names, "row_sum(x)", as kernels call the sum of each row, and "column_sum(x)".
    std::string reduction(std::string_view op, const std::string& axes, std::size_t body) {
        std::string of = expression(body).text;
        if (is_enclosed(of)) of = of.substr(1, of.size() - 2);
        if (axes == along_columns) return fmt::format("row_{}({})", op, of);
        if (axes == along_rows) return fmt::format("column_{}({})", op, of);
        return fmt::format("{}{}({})", op, axes, of);
    }

    // "(a == b)", not "(a) + (b)".
    static bool is_enclosed(std::string_view text) {
        if (!text.starts_with('(')) return false;
        int depth = 0;
        for (std::size_t k = 0; k < text.size(); ++k) {
            depth += text[k] == '(' ? 1 : text[k] == ')' ? -1 : 0;
            if (depth == 0) return k + 1 == text.size();
        }
        return false;
    }

    static constexpr const char* along_columns = "_columns";
    static constexpr const char* along_rows = "_rows";

    // "_C", "_{B,T}": the axes along which a sum goes, "" where it is of all there is.
    std::string reduced_axes(KernelNode::Over over) const {
        const std::vector<LoopSize> by_dim = sizes_of(*nest_, kernel_, sizes_);
        const auto whole = [&](std::size_t begin, std::size_t end) {
            LoopSize size{{{1, {}}}, 1};
            for (std::size_t d = begin; d < end; ++d) size = size * by_dim[d];
            return size;
        };
        const std::size_t row_dims = nest_->row_dims;
        const LoopSize rows = whole(0, row_dims), columns = whole(row_dims, by_dim.size());
        const bool along = over == KernelNode::Over::columns;
        if (over == KernelNode::Over::both || (along ? nest_->rows() : nest_->columns()) == 1) return "";
        // T by T: nobody would know which.
        const std::set<std::string> reduced = names_in(along ? columns : rows), kept = names_in(along ? rows : columns);
        const bool clear =
            std::none_of(reduced.begin(), reduced.end(), [&](const auto& n) { return kept.contains(n); });
        const std::string name =
            clear ? axis_name(along ? columns : rows, along ? nest_->columns() : nest_->rows()) : "";
        if (name.empty()) return along ? along_columns : along_rows;
        return subscript(name);
    }

    static std::set<std::string> names_in(const LoopSize& size) {
        std::set<std::string> names;
        for (const SizeTerm& term : size.formula) names.insert(term.names.begin(), term.names.end());
        return names;
    }

    // Of a sum of a handful: what the dimension is called that its terms stand along.
    std::string reduced_axes(const ShortSum& sum) const {
        for (const auto& [load, step] : sum.step) {
            const KernelNode& node = nest_->nodes[load];
            const Dims& dims = kernel_.inputs[node.operand].type.dims;
            const Dims strides = dense_strides(dims);
            for (std::size_t d = 0; d < dims.size(); ++d) {
                if (dims[d] != sum.count || strides[d] != step || sizes_.inputs.empty()) continue;
                const std::string name = axis_name({sizes_.inputs[node.operand][d], 1}, dims[d]);
                if (!name.empty()) return subscript(name);
            }
        }
        return sum.axes.front() == 0 ? along_rows : fmt::format("_{{axis {}}}", sum.axes.front());
    }

    // "" where it has none.
    std::string axis_name(const LoopSize& size, std::int64_t extent) const {
        if (!is_symbolic(size.formula)) return {};
        const std::string text = size_text(size, extent, sizes_);
        if (text == fmt::format("{}", extent)) return {};
        // What runs over several at once.
        if (size.divisor == 1 && size.formula.size() == 1 && size.formula[0].factor == 1)
            return fmt::format("{}", fmt::join(size.formula[0].names, ","));
        return text;
    }

    static std::string subscript(const std::string& axes) {
        const bool word = std::all_of(axes.begin(), axes.end(), [](unsigned char c) { return std::isalnum(c) != 0; });
        return word ? "_" + axes : "_{" + axes + "}";
    }

    // Of a load in the loop of a short sum: the dimension that its terms stand along, and where that is among the loops
    // of the nest, which are over the dimensions of the result.
    struct TermAxis {
        std::size_t dim = 0;
        double place = 0;
        std::int64_t step = 0;  // along it, from term to term
    };
    std::optional<TermAxis> along_terms(std::size_t load) const {
        const ShortSums& sums = sums_.at(nest_);
        if (!sums.is_inside(load)) return std::nullopt;
        const ShortSum& sum = *sums.of(sums.inside[load]);
        const auto at = sum.step.find(load);
        if (at == sum.step.end()) return std::nullopt;
        const Dims& dims = kernel_.inputs[nest_->nodes[load].operand].type.dims;
        const Dims strides = dense_strides(dims);
        for (std::size_t d = 0; d < dims.size(); ++d)
            if (dims[d] > 1 && strides[d] <= std::abs(at->second) && at->second % strides[d] == 0)
                return TermAxis{d, static_cast<double>(sum.axes.front()) - 0.5, at->second / strides[d]};
        return std::nullopt;
    }

    // The dimensions of a tensor that loops move along, each with the first loop that does.
    std::vector<std::pair<double, std::size_t>> moving(const AffineIndex& index,
                                                       const std::optional<TermAxis>& terms) const {
        std::vector<std::pair<double, std::size_t>> order;
        for (std::size_t d = 0; d < index.size(); ++d) {
            std::optional<double> place;
            if (terms && terms->dim == d) place = terms->place;
            for (std::size_t s = 0; s < index[d].step.size() && !place; ++s)
                if (index[d].step[s] != 0 && nest_->extents[s] > 1) place = static_cast<double>(s);
            if (place) order.emplace_back(*place, d);
        }
        return order;
    }

    // A tensor whose dimensions the loops go through in another order is transposed; of more than two, the axes are
    // those of numpy's transpose. Beside such a one a vector that has a number for each row is a column.
    std::string turned(const std::string& name, const AffineIndex& index,
                       const std::optional<TermAxis>& terms = std::nullopt) const {
        std::vector<std::pair<double, std::size_t>> order = moving(index, terms);
        if (order.size() == 1 && index.size() == 1)
            return is_of_rows(order[0].first) && transposes_ ? name + "ᵀ" : name;
        if (std::is_sorted(order.begin(), order.end())) return name;
        if (order.size() == 2) return name + "ᵀ";
        std::sort(order.begin(), order.end());
        std::string axes;
        for (const auto& [place, d] : order) axes += fmt::format(", {}", d);
        return fmt::format("transpose({}{})", name, axes);
    }

    bool is_of_rows(double loop) const {
        for (std::size_t s = 0; s < nest_->extents.size(); ++s)
            if (nest_->extents[s] > 1 && static_cast<double>(s) > loop) return true;
        return false;
    }

    // Whether the nest reads a matrix along its columns.
    bool transposes() const {
        for (std::size_t k = 0; k < nest_->nodes.size(); ++k) {
            if (nest_->nodes[k].kind != KernelNode::Kind::load) continue;
            const auto order = moving(nest_->nodes[k].index, along_terms(k));
            if (order.size() == 2 && !std::is_sorted(order.begin(), order.end())) return true;
        }
        return false;
    }

    // What stands in the text of a node.
    std::vector<std::size_t> operands_of(std::size_t k) const {
        if (const ShortSum* sum = sums_.at(nest_).of(k)) return {sum->body};
        const auto composite = composites_.at(nest_).find(k);
        return composite == composites_.at(nest_).end() ? nest_->nodes[k].inputs
                                                        : std::vector{composite->second.argument};
    }

    // By node: whether it is a part of what is stored, and not of a composite that has a name for all of it, nor of
    // what was said before.
    std::vector<bool> nodes_written(const std::map<std::size_t, std::string>& said) const {
        std::vector<bool> written(nest_->nodes.size(), false);
        for (const KernelStore& store : nest_->stores) written[store.node] = true;
        for (std::size_t k = written.size(); k-- > 0;)
            if (written[k] && !said.contains(k))
                for (std::size_t input : operands_of(k)) written[input] = true;
        return written;
    }

    // The last addition of a short sum that is a loop has the operands of all its terms.
    bool is_sum_of_two(std::size_t k) const {
        const KernelNode& node = nest_->nodes[k];
        return node.kind == KernelNode::Kind::apply && node.op == "add" && sums_.at(nest_).of(k) == nullptr;
    }

    // The gradient of this micro-step, where the node is overwrite ? gradient : what the output held + gradient.
    std::optional<std::size_t> accumulated(std::size_t k, std::size_t output) const {
        const KernelNode& node = nest_->nodes[k];
        if (node.kind != KernelNode::Kind::apply || node.op != "select" || sums_.at(nest_).of(k) != nullptr)
            return std::nullopt;
        const KernelNode& overwrite = nest_->nodes[node.inputs[0]];
        if (overwrite.kind != KernelNode::Kind::load || !kernel_.inputs[overwrite.operand].is_flag) return std::nullopt;
        const std::optional<std::size_t> step = added(node.inputs[2], output);
        return step == node.inputs[1] ? step : std::nullopt;
    }

    // What is added, where the node is what the output held and that.
    std::optional<std::size_t> added(std::size_t k, std::size_t output) const {
        if (!is_sum_of_two(k)) return std::nullopt;
        const KernelNode& node = nest_->nodes[k];
        const KernelNode& before = nest_->nodes[node.inputs[0]];
        if (before.kind != KernelNode::Kind::load || kernel_.inputs[before.operand].same_as != output ||
            kernel_.inputs[before.operand].within)
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
    std::map<const KernelNest*, std::map<std::size_t, Composite>> composites_;
    const std::vector<std::string>& inputs_;
    const std::vector<std::string>& outputs_;
    const KernelNest* nest_ = nullptr;
    bool transposes_ = false;  // the nest
    const KernelSizes& sizes_;
    PieceNames pieces_;
    std::map<std::size_t, std::string> named_;  // by node of the nest
    std::map<std::string, std::string> said_;   // names by what they stand for
    bool spelling_ = false;                     // see spelled_out
    static constexpr std::size_t most_compared = 100;
};

}  // namespace

std::vector<std::string> kernel_formula(const KernelDescription& kernel, const std::vector<std::string>& input_names,
                                        const std::vector<std::string>& output_names, const KernelSizes& sizes,
                                        const UsedNames& reserved) {
    return Formula(kernel, input_names, output_names, sizes, reserved).equations();
}

}  // namespace thunderc
