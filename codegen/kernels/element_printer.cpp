// SPDX-License-Identifier: Apache-2.0
#include "codegen/kernels/element_printer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "compiler/analysis/result_names.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;

std::string literal_text(double value, DType dtype) {
    if (dtype == DType::boolean) return value != 0 ? "true" : "false";
    if (dtype == DType::f64) {
        if (!std::isfinite(value)) return fmt::format("static_cast<double>({})", float_literal_text(value));
        const std::string text = fmt::format("{}", value);
        return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    if (is_float(dtype)) return float_literal_text(value);
    if (value <= -0x1p63) return "std::numeric_limits<std::int64_t>::min()";
    if (value >= 0x1p63) return "std::numeric_limits<std::int64_t>::max()";
    return fmt::format("{}", static_cast<std::int64_t>(value));
}

// A float as a narrow number.
ExpressionText rounded(const std::string& text, DType narrow) {
    return {fmt::format("to_{}({})", scalar_type(narrow), text), 4};
}

}  // namespace

std::string_view scalar_type(DType dtype) {
    const std::string_view type = row_of(dtype).cpp;
    check(!type.empty(), fmt::format("kernels do not compute in {}", name_of(dtype)));
    return type;
}

namespace {

UsedNames names_of_loops(const KernelDescription& kernel, const std::vector<std::string>& sizes) {
    UsedNames used({"stream",
                    "timed",
                    "row",
                    "rows",
                    "width",
                    "begin",
                    "end",
                    "c",
                    "i",
                    "n",
                    "block",
                    "tile",
                    "tiles",
                    "first",
                    "last",
                    "column",
                    "partial",
                    "c_first",
                    "c_last",
                    "row_sum",
                    "row_max",
                    "RowSum",
                    "RowMax",
                    "parallel_for",
                    "parallel_rows",
                    "column_reduction",
                    "to_float",
                    "quantised",
                    "fp8_magnitude",
                    "vec_math",
                    "std",
                    "thunder",
                    "Stream",
                    "WriteMode",
                    "Timed"});
    for (const DTypeRow& row : all_dtypes()) {
        if (is_narrow(row.dtype)) used.add(fmt::format("to_{}", row.name));
        if (is_narrow(row.dtype) || is_quantised(row.dtype)) used.add(std::string(row.name));
    }
    // Loops over rows and over columns are numbered, a loop for each dimension at most, and one for what GPUs cut.
    std::size_t rank = 1;
    for (const KernelNest& nest : kernel.nests) rank = std::max(rank, nest.extents.size());
    for (std::size_t d = 0; d <= rank; ++d) used.add({fmt::format("i{}", d), fmt::format("c{}", d)});
    used.add(sizes);
    if (!sizes.empty()) used.add({"b", "t", "s", "h"});  // indices over B, T, S and heads
    return used;
}

// What device.h, and the schedules on GPUs, call by these names.
void add_names_of_gpus(UsedNames& used) {
    used.add({"partials",
              "load",
              "store",
              "barrier",
              "warp_barrier",
              "lane",
              "warp",
              "thread_index",
              "block_index",
              "block_count",
              "warp_sum",
              "warp_max",
              "warp_reduce",
              "block_sum",
              "block_max",
              "block_reduce",
              "atomic_add",
              "Add",
              "Greater",
              "Word",
              "math",
              "launch",
              "Vec",
              "Global",
              "Aliased",
              "part",
              "e",
              "w",
              "p",
              "b",
              "shared",
              "totals",
              "sums",
              "chunk",
              "tile_rows",
              "tile_columns",
              "line"});
}

}  // namespace

UsedNames kernel_names(const KernelDescription& kernel, const std::vector<std::string>& sizes) {
    UsedNames used = names_of_loops(kernel, sizes);
    used.add("sum");  // what a sum over the rows hands on
    return used;
}

UsedNames kernel_names_cuda(const KernelDescription& kernel, const std::vector<std::string>& sizes) {
    UsedNames used = kernel_names(kernel, sizes);
    add_names_of_gpus(used);
    return used;
}

UsedNames value_names_taken(const KernelDescription& kernel, const std::vector<std::string>& sizes) {
    UsedNames used = names_of_loops(kernel, sizes);
    add_names_of_gpus(used);
    return used;
}

ElementPrinter::ElementPrinter(const Loops& loops, const std::vector<std::string>& inputs,
                               const std::vector<std::string>& outputs, SourceText& out)
    : loops_(loops), inputs_(inputs), outputs_(outputs), out_(out), composites_(composites_of(loops.nodes)) {
    // All names of loops; sum and max are what reductions are called.
    scope_.taken.add({"row", "rows", "next", "width", "begin", "end", "stream", "c", "i", "n", "partial", "column",
                      "first", "last", "tile", "tiles", "block", "blocks"});
    scope_.taken.add(loops.sizes.names);
    scope_.taken.add(inputs);
    scope_.taken.add(outputs);
    for (std::size_t d = 0; d < loops.rows.size(); ++d) {
        // What has letters for its loops has names for the steps of its addresses.
        std::string letter = loops.input_steps.empty() ? "" : index_letter(loops.row_sizes[d]);
        if (std::find(variables_.begin(), variables_.end(), letter) != variables_.end()) letter.clear();
        if (letter.empty()) letter = fmt::format("i{}", d);
        variables_.push_back(loops.rows.size() == 1 ? "row" : letter);
    }
    scope_.taken.add(variables_);
    for (std::size_t o = 0; o < loops.input_steps.size(); ++o) step_names_[inputs[o]] = &loops.input_steps[o];
    for (std::size_t r = 0; r < loops.output_steps.size(); ++r) step_names_[outputs[r]] = &loops.output_steps[r];
    for (std::size_t d = 0; d + 1 < loops.columns.size(); ++d) variables_.push_back(fmt::format("c{}", d));
    variables_.emplace_back("c");
}

bool ElementPrinter::is_written(std::size_t operand) const {
    return std::find(outputs_.begin(), outputs_.end(), inputs_[operand]) != outputs_.end();
}

bool ElementPrinter::moves(const Affine& a, std::size_t begin, std::size_t end) const {
    return std::any_of(a.step.begin() + static_cast<std::ptrdiff_t>(begin),
                       a.step.begin() + static_cast<std::ptrdiff_t>(end), [](std::int64_t s) { return s != 0; });
}

bool ElementPrinter::used_above(std::size_t k, KernelLevel level) const {
    for (const KernelNode& user : loops_.nodes) {
        if (std::find(user.inputs.begin(), user.inputs.end(), k) == user.inputs.end()) continue;
        if (user.level != level || user.kind == Kind::reduce) return true;
    }
    return false;
}

std::string ElementPrinter::term(std::int64_t step, const std::string& variable, const std::string& base) const {
    if (step == 1) return variable;
    if ((variable == "row" || variable == "next") && step == loops_.width()) return variable + " * width";
    return fmt::format("{} * {}", variable, step_name(step, base).value_or(fmt::format("{}", step)));
}

std::optional<std::string> ElementPrinter::step_name(std::int64_t step, const std::string& base) const {
    if (const auto names = step_names_.find(base); names != step_names_.end())
        if (const auto at = names->second->steps.find(step); at != names->second->steps.end()) return at->second;
    return std::nullopt;
}

namespace {

// So many in the dimensions behind d, one of which may be left out.
std::string count_within(std::size_t d, std::size_t but, const Dims& extents, const std::vector<LoopSize>& sizes,
                         const KernelSizes& names) {
    LoopSize inner{{{1, {}}}, 1};
    std::int64_t number = 1;
    for (std::size_t e = 0; e < extents.size(); ++e) {
        if (e == but || (d != ElementPrinter::none && e <= d)) continue;
        inner = inner * sizes[e];
        number *= extents[e];
    }
    return size_factor(inner, number, names);
}

}  // namespace

std::string ElementPrinter::rows_within(std::size_t d, std::size_t but) const {
    return count_within(d, but, loops_.rows, loops_.row_sizes, loops_.sizes);
}

std::string ElementPrinter::columns_within(std::size_t d) const {
    return count_within(d, none, loops_.columns, loops_.column_sizes, loops_.sizes);
}

std::string ElementPrinter::sum_text(const Affine& a, std::size_t begin, std::size_t end, std::int64_t offset,
                                     const std::string& base) const {
    std::string text;
    for (std::size_t d = begin; d < end; ++d) {
        if (a.step[d] == 0) continue;
        const std::int64_t size = std::abs(a.step[d]);
        text += text.empty() ? (a.step[d] < 0 ? "-" : "") : (a.step[d] < 0 ? " - " : " + ");
        // A line of the transpose of what the loops run over is as long as they have rows.
        const bool line = d >= row_dims() && row_dims() == 1 && a.step[0] == 1 && size == loops_.row_count();
        text += line && !step_name(size, base) ? variables_[d] + " * rows" : term(size, variables_[d], base);
    }
    if (offset != 0 || text.empty()) {
        std::string number = fmt::format("{}", std::abs(offset));
        if (const auto names = step_names_.find(base); offset > 0 && names != step_names_.end())
            if (const auto at = names->second->offsets.find(offset); at != names->second->offsets.end())
                number = at->second;
        if (text.empty()) return (offset < 0 ? "-" : "") + number;
        text += fmt::format(" {} {}", offset < 0 ? '-' : '+', number);
    }
    return text;
}

// Neighbours in a column of it lie side by side in memory, those in a row of it do not.
bool ElementPrinter::walks_columns(const Affine& a) const {
    std::int64_t along = 0, across = 0;
    for (std::size_t d = 0; d < row_dims(); ++d)
        if (a.step[d] != 0) across = std::abs(a.step[d]);
    for (std::size_t d = row_dims(); d < loops_.rank(); ++d)
        if (a.step[d] != 0) along = std::abs(a.step[d]);
    return across != 0 && across < along;
}

std::string ElementPrinter::access(const std::string& base, const Affine& a, const std::string& first) const {
    const auto with_first = [&first](std::string index) {
        if (first.empty()) return index;
        if (index == "0") return first;
        if (first.find(' ') == std::string::npos) return index + " + " + first;  // a step of one stands last
        return index.front() == '-' ? fmt::format("{} - {}", first, index.substr(1)) : first + " + " + index;
    };
    const bool by_row = moves(a, 0, row_dims()), by_column = moves(a, row_dims(), loops_.rank());
    if (by_row && by_column && !row_pointers_.empty()) {
        const std::vector<std::int64_t> steps(a.step.begin(), a.step.begin() + static_cast<std::ptrdiff_t>(row_dims()));
        if (auto at = row_pointers_.find({base, steps}); at != row_pointers_.end()) {
            return fmt::format("{}[{}]", at->second,
                               with_first(sum_text(a, row_dims(), loops_.rank(), a.offset, base)));
        }
    }
    return fmt::format("{}[{}]", base, with_first(sum_text(a, 0, loops_.rank(), a.offset, base)));
}

std::string ElementPrinter::load_text(std::size_t k, const Scope& scope) const {
    const std::string& base = inputs_[node(k).operand];
    if (scope.sum != nullptr)
        if (const auto at = scope.sum->step.find(k); at != scope.sum->step.end())
            return access(base, loops_.position[k], term_of_sum(k, at->second, scope.term));
    return access(base, loops_.position[k]);
}

std::string ElementPrinter::term_of_sum(std::size_t k, std::int64_t step, const std::string& variable) const {
    const std::string& base = inputs_[node(k).operand];
    const bool line = loops_.columns.size() == 1 && loops_.position[k].step.back() == 1 && step == loops_.width();
    if (!line || step == 1 || step_name(step, base)) return term(step, variable, base);
    return fmt::format("{} * {}", variable, loops_.pointwise && loops_.rows.empty() ? "n" : "width");
}

ExpressionText ElementPrinter::index_text(const KernelNode& n) const {
    const bool whole = n.value == std::floor(n.value) &&
                       std::all_of(n.steps.begin(), n.steps.end(), [](double s) { return s == std::floor(s); });
    if (whole) {
        Affine a{static_cast<std::int64_t>(n.value), {}};
        for (double s : n.steps) a.step.push_back(static_cast<std::int64_t>(s));
        const std::string text = sum_text(a, 0, a.step.size(), a.offset);
        if (n.dtype == DType::i64) return {text, text.find(' ') == std::string::npos ? 4 : 2};
        return {fmt::format("static_cast<{}>({})", scalar_type(n.dtype), text), 4};
    }
    std::string text = literal_text(n.value, n.dtype);
    for (std::size_t d = 0; d < n.steps.size(); ++d) {
        if (n.steps[d] == 0) continue;
        text += fmt::format(" + {} * static_cast<{}>({})", literal_text(n.steps[d], n.dtype), scalar_type(n.dtype),
                            variables_[d]);
    }
    return {text, 2};
}

ExpressionText ElementPrinter::expression(std::size_t k, const Scope& scope) const {
    if (auto at = scope.names.find(k); at != scope.names.end()) return {at->second, 4};
    const KernelNode& n = node(k);
    switch (n.kind) {
        case Kind::literal: {
            if (is_narrow(n.dtype)) return rounded(literal_text(n.value, DType::f32), n.dtype);
            std::string text = literal_text(n.value, n.dtype);
            return {text, text.front() == '-' ? 3 : 4};
        }
        case Kind::index: {
            if (!is_narrow(n.dtype)) return index_text(n);
            KernelNode wide = n;
            wide.dtype = DType::f32;
            return rounded(index_text(wide).text, n.dtype);
        }
        case Kind::load:
            if (is_flag(n)) return {inputs_[n.operand] + " == WriteMode::overwrite", 1};
            // A bool in memory is read by a function, without which g++ makes no vectors of the loop (vec_math.h).
            return {n.dtype == DType::boolean ? fmt::format("vec_math::is_set({})", load_text(k, scope))
                                              : load_text(k, scope),
                    4};
        case Kind::reduce: throw InternalError("a reduction is used before it is computed");
        case Kind::apply: break;
    }
    check(loops_.short_sums.of(k) == nullptr, "a short sum is used before it is computed");
    const Elementwise& rule = *op_def(n.op).elementwise;
    std::vector<ExpressionText> operands;
    for (std::size_t input : n.inputs) operands.push_back(expression(input, scope));
    if (is_mean(n)) operands[1] = {"width", 4};
    if (n.op == "cast") {
        // Of a narrow number its float is cast, and only a float becomes one.
        ExpressionText& from = operands[0];
        DType dtype = node(n.inputs[0]).dtype;
        if (is_narrow(dtype)) from = {fmt::format("to_float({})", from.text), 4}, dtype = DType::f32;
        if (is_narrow(n.dtype)) {
            if (dtype != DType::f32) from = {fmt::format("static_cast<float>({})", from.text), 4};
            return rounded(from.text, n.dtype);
        }
        if (n.dtype == dtype) return from;
        if (dtype == DType::boolean)
            return {fmt::format("vec_math::number<{}>({})", scalar_type(n.dtype), from.text), 4};
        if (is_float(dtype) && is_integer(n.dtype))  // static_cast has no result for what does not fit
            return {fmt::format("vec_math::to_integer<{}>({})", scalar_type(n.dtype), from.text), 4};
    }
    return applied(rule, k, operands);
}

ExpressionText ElementPrinter::applied(const Elementwise& rule, std::size_t k,
                                       const std::vector<ExpressionText>& operands) const {
    const KernelNode& n = node(k);
    std::string_view call;
    if (!is_float(n.dtype)) call = rule.integer_code;
    if (!rule.branchless_code.empty() && node(n.inputs[0]).level > KernelLevel::row) call = rule.branchless_code;
    const int precedence = call.empty() ? rule.precedence : 4;
    return {fill_template(call.empty() ? rule.code : call, precedence, operands, scalar_type(n.dtype)), precedence};
}

bool ElementPrinter::is_mean(const KernelNode& n) const {
    if (n.op != "div" || loops_.columns.size() != 1) return false;
    const KernelNode &sum = node(n.inputs[0]), &count = node(n.inputs[1]);
    return sum.kind == Kind::reduce && sum.op == "sum" && sum.over == KernelNode::Over::columns &&
           count.kind == Kind::literal && count.value == static_cast<double>(loops_.width());
}

bool ElementPrinter::is_named(std::size_t k) const {
    if (composites_.contains(k)) return true;
    const KernelNode& n = node(k);
    return n.kind == Kind::apply && n.op != "cast" && !is_named_after_op(n.name);
}

std::string ElementPrinter::partial_text(std::size_t k) const {
    std::string index;
    std::int64_t inner = 1;
    for (std::size_t d = loops_.columns.size(); d-- > 0;) {
        index = term(inner, variables_[row_dims() + d]) + (index.empty() ? "" : " + " + index);
        inner *= loops_.columns[d];
    }
    if (k > 0) index += k == 1 ? " + width" : fmt::format(" + {} * width", k);
    return fmt::format("partial[{}]", index);
}

// gate of gate_up_proj; x1 of x where a definition calls it so and nothing else is known.
std::string ElementPrinter::piece_read(std::size_t load, const std::string& part) const {
    const std::string& name = loops_.load_names[load];
    return name == inputs_[node(load).operand] && !part.empty() ? part : name;
}

std::string ElementPrinter::name_for(std::size_t k, Scope& scope) const {
    const KernelNode& n = node(k);
    const bool single = n.level == KernelLevel::scalar || (n.level == KernelLevel::row && loops_.rows.empty());
    const std::string at = single                        ? "_value"
                           : n.level == KernelLevel::row ? "_of_row"
                           : variables_.back() == "i"    ? "_i"
                                                         : "_c";
    if (is_flag(n)) return scope.taken.unique("overwrite");
    if (n.kind == Kind::load && loops_.load_names[k] == inputs_[n.operand] && n.part.empty())
        return scope.taken.unique(inputs_[n.operand] + (is_written(n.operand) ? "_before" : at));
    if (n.kind == Kind::load) return scope.taken.unique(piece_read(k, n.part));
    if (!n.part.empty()) return scope.taken.unique(piece_read(n.inputs[0], n.part));
    // What is stored is an element of the tensor that it is stored in, or of a piece of it; so is what has the tensor's
    // name, of another type or computed again.
    for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
        const KernelStore& store = loops_.stores[s];
        const bool piece = loops_.store_names[s] != outputs_[store.output];
        const bool rounded = piece && node(store.node).op == "cast" && node(store.node).inputs[0] == k;
        if (store.node != k && !rounded) continue;
        if (piece) return scope.taken.unique(loops_.store_names[s]);
        if (store.piece.empty()) return scope.taken.unique(outputs_[store.output] + at);
    }
    std::string wanted = identifier(n.name);
    const auto is_tensor = [&](const std::vector<std::string>& names) {
        return std::find(names.begin(), names.end(), wanted) != names.end();
    };
    if (is_tensor(inputs_) || is_tensor(outputs_)) wanted += at;
    return scope.taken.unique(wanted);
}

void ElementPrinter::define(std::size_t k, Scope& scope) const {
    if (const ShortSum* sum = loops_.short_sums.of(k)) return define_short_sum(k, *sum, scope);
    const std::string text = expression(k, scope).text;
    const std::string name = name_for(k, scope);
    out_.line(fmt::format("const {} {} = {};", scalar_type(node(k).dtype), name, text));
    scope.names[k] = name;
}

void ElementPrinter::define_short_sum(std::size_t k, const ShortSum& sum, Scope& scope) const {
    const KernelNode& n = node(k);
    const Elementwise& rule = *op_def(n.op).elementwise;
    const bool adds = n.op == "add";
    const bool in_double = loops_.double_sums && adds && is_float(n.dtype);
    const std::string type(in_double ? "double" : scalar_type(n.dtype));
    const std::string name = name_for(k, scope);
    const std::string total = in_double ? scope.taken.unique(name + "_in_double") : name;
    std::string start = is_float(n.dtype) && !in_double ? "0.0F" : "0";
    if (!adds)
        start = is_float(n.dtype) ? fmt::format("-std::numeric_limits<{}>::infinity()", type)
                                  : fmt::format("std::numeric_limits<{}>::lowest()", type);
    out_.line(fmt::format("{} {} = {};", type, total, start));
    if (!term_hint_.empty()) out_.line(term_hint_);
    Scope inner = scope;
    inner.sum = &sum;
    inner.term = inner.taken.unique("r");
    out_.open(fmt::format("for ({0} {1} = 0; {1} < {2}; ++{1}) {{", term_type_, inner.term, sum.count));
    for (const auto& [load, step] : sum.step)
        if (const auto at = held_.find(load); at != held_.end())
            inner.names[load] = fmt::format("{}[{}][e]", at->second, inner.term);
    define_shared({sum.body}, inner);
    const ExpressionText term = expression(sum.body, inner);
    if (adds && is_float(n.dtype)) {
        out_.line(fmt::format("{} += {};", total, term.text));
    } else {
        out_.line(fmt::format("{} = {};", total, applied(rule, k, {{total, 4}, term}).text));
    }
    out_.close();
    if (in_double) out_.line(fmt::format("const {0} {1} = static_cast<{0}>({2});", scalar_type(n.dtype), name, total));
    scope.names[k] = name;
}

std::size_t ElementPrinter::length(std::size_t k, const Scope& scope) const {
    if (scope.names.count(k) != 0 || node(k).kind != Kind::apply) return 1;
    std::size_t sum = 1;
    for (std::size_t input : node(k).inputs) sum += length(input, scope);
    return sum;
}

void ElementPrinter::define_shared(const std::vector<std::size_t>& roots, Scope& scope) const {
    std::map<std::size_t, int> uses;
    std::vector<std::size_t> todo = roots;
    for (std::size_t root : roots) ++uses[root];
    while (!todo.empty()) {
        const std::size_t k = todo.back();
        todo.pop_back();
        if (scope.names.count(k) != 0 || node(k).kind != Kind::apply) continue;
        const std::string_view code = op_def(node(k).op).elementwise->code;
        for (std::size_t j = 0; j < node(k).inputs.size(); ++j) {
            const std::size_t input = node(k).inputs[j];
            // A text that names its operand twice would compute it twice.
            const std::string slot = fmt::format("{{{}}}", j);
            const bool twice = code.find(slot) != code.rfind(slot);
            const bool seen = uses.count(input) != 0;
            uses[input] += twice ? 2 : 1;
            if (!seen) todo.push_back(input);
        }
    }
    // Not counted in letters, so that a program does not depend on what its tensors are called.
    constexpr std::size_t longest = 9;
    for (const auto& [k, count] : uses) {  // in the order of definition
        if (scope.names.count(k) != 0) continue;
        const bool root = std::find(roots.begin(), roots.end(), k) != roots.end();
        if (!node(k).part.empty() && !root) define(k, scope);
        if (node(k).kind != Kind::apply || scope.names.count(k) != 0) continue;
        if (count >= 2 || loops_.short_sums.of(k) != nullptr || (!root && (is_named(k) || length(k, scope) > longest)))
            define(k, scope);
    }
}

void ElementPrinter::define_scalars() {
    for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
        if (node(k).level != KernelLevel::scalar || node(k).finish || loops_.short_sums.is_inside(k)) continue;
        if (node(k).kind == Kind::load || loops_.short_sums.of(k) != nullptr ||
            (node(k).kind == Kind::apply && used_above(k, KernelLevel::scalar))) {
            define(k, scope_);
        }
    }
}

void ElementPrinter::define_row_variables() const {
    if (row_dims() < 2) return;
    std::vector<std::string> lines;
    for (std::size_t d = row_dims(); d-- > 0;) {
        std::string text = d + 1 == row_dims() ? "row" : fmt::format("row / {}", rows_within(d));
        if (d > 0) text += fmt::format(" % {}", size_factor(loops_.row_sizes[d], loops_.rows[d], loops_.sizes));
        lines.push_back(fmt::format("const std::int64_t {} = {};", variables_[d], text));
    }
    // Only those that an address or an index is made of.
    for (std::size_t d = 0; d < row_dims(); ++d) {
        bool used = false;
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (node(k).kind == Kind::load) used = used || loops_.position[k].step[d] != 0;
            if (node(k).kind == Kind::index) used = used || node(k).steps[d] != 0;
        }
        for (const Affine& a : loops_.store_position) used = used || a.step[d] != 0;
        if (used) out_.line(lines[row_dims() - 1 - d]);
    }
}

void ElementPrinter::pointer(const std::string& base, const Affine& a, bool constant, DType dtype, Scope& scope) {
    if (!moves(a, 0, row_dims()) || !moves(a, row_dims(), loops_.rank())) return;
    const std::vector<std::int64_t> steps(a.step.begin(), a.step.begin() + static_cast<std::ptrdiff_t>(row_dims()));
    if (row_pointers_.count({base, steps}) != 0) return;
    const std::string name = scope.taken.unique(base + (walks_columns(a) ? "_column" : "_row"));
    out_.line(fmt::format("{}{}* {} = {} + {};", constant ? "const " : "", scalar_type(dtype), name, base,
                          sum_text(a, 0, row_dims(), 0, base)));
    row_pointers_[{base, steps}] = name;
}

void ElementPrinter::store_elements(const std::vector<std::size_t>& stores, const std::vector<RowSum>& column_sums,
                                    Scope scope) const {
    std::vector<std::size_t> roots;
    for (const RowSum& sum : column_sums) roots.push_back(node(sum.node).inputs[0]);
    for (std::size_t s : stores) roots.push_back(loops_.stores[s].node);
    define_shared(roots, scope);
    if (stores.size() > 1) {
        for (std::size_t s : stores) {
            const std::size_t k = loops_.stores[s].node;
            const bool converts = node(k).op == "cast" && scope.names.count(node(k).inputs[0]) != 0;
            if (scope.names.count(k) == 0 && node(k).kind != Kind::literal && !converts) define(k, scope);
        }
    }
    for (std::size_t s = 0; s < column_sums.size(); ++s) {
        out_.line(
            fmt::format("{} += {};", partial_text(s), expression(node(column_sums[s].node).inputs[0], scope).text));
    }
    for (std::size_t s : stores) {
        const KernelStore& store = loops_.stores[s];
        out_.line(fmt::format("{} = {};", access(outputs_[store.output], loops_.store_position[s]),
                              expression(store.node, scope).text));
    }
}

}  // namespace thunderc
