#include "codegen/kernels_cpu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "codegen/kernel_formula.h"
#include "codegen/text.h"
#include "compiler/ops/op.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Kind = KernelNode::Kind;
using Over = KernelNode::Over;

std::string_view cpp_type(DType dtype) {
    switch (dtype) {
        case DType::f64: return "double";
        case DType::f32: return "float";
        case DType::i64: return "std::int64_t";
        case DType::i32: return "std::int32_t";
        case DType::boolean: return "bool";
        case DType::f16:
        case DType::bf16: break;
    }
    throw InternalError(fmt::format("kernels do not compute in {}", name_of(dtype)));
}

std::string literal_text(double value, DType dtype) {
    if (dtype == DType::boolean) return value != 0 ? "true" : "false";
    if (dtype == DType::f64) {
        if (!std::isfinite(value)) return fmt::format("static_cast<double>({})", float_literal_text(value));
        const std::string text = fmt::format("{}", value);
        return text.find_first_of(".e") == std::string::npos ? text + ".0" : text;
    }
    if (is_float(dtype)) return float_literal_text(value);
    return fmt::format("{}", static_cast<std::int64_t>(value));
}

// ---- from the description to loops: strides in place of indices, adjacent dimensions made one
// ------------------------------

struct Loops {
    Dims rows, columns;  // extents, outermost first; columns has at least one
    std::vector<KernelNode> nodes;
    std::vector<Affine> position;  // of loads: the element in memory, over rows and then columns
    std::vector<KernelStore> stores;
    std::vector<Affine> store_position;
    bool pointwise = true;

    std::int64_t row_count() const { return element_count(rows); }
    std::int64_t width() const { return element_count(columns); }
    std::size_t rank() const { return rows.size() + columns.size(); }
};

Affine memory_position(const AffineIndex& index, const Dims& dims, const Dims& strides, std::size_t rank) {
    const Dims step = strides.empty() ? dense_strides(dims) : strides;
    Affine position = constant_index(0, rank);
    for (std::size_t d = 0; d < index.size(); ++d) position = position + step[d] * index[d];
    return position;
}

Loops loops_of(const KernelDescription& kernel, const KernelNest& nest, const KernelLayouts& layouts) {
    Loops loops;
    loops.nodes = nest.nodes;
    loops.stores = nest.stores;
    loops.position.resize(nest.nodes.size());
    Dims extents = nest.extents;
    std::size_t row_dims = nest.row_dims;
    for (std::size_t k = 0; k < nest.nodes.size(); ++k) {
        const KernelNode& node = nest.nodes[k];
        loops.pointwise = loops.pointwise && node.kind != Kind::reduce;
        if (node.kind != Kind::load) continue;
        const Dims strides = layouts.inputs.empty() ? Dims{} : layouts.inputs[node.operand];
        loops.position[k] = memory_position(node.index, kernel.inputs[node.operand].type.dims, strides, extents.size());
    }
    for (const KernelStore& store : nest.stores) {
        const Dims strides = layouts.outputs.empty() ? Dims{} : layouts.outputs[store.output];
        loops.store_position.push_back(
            memory_position(store.index, kernel.outputs[store.output].type.dims, strides, extents.size()));
    }

    auto each_step = [&](auto&& visit) {
        for (std::size_t k = 0; k < loops.nodes.size(); ++k) {
            if (loops.nodes[k].kind == Kind::load) visit(loops.position[k].step);
            if (loops.nodes[k].kind == Kind::index) visit(loops.nodes[k].steps);
        }
        for (Affine& a : loops.store_position) visit(a.step);
    };
    auto remove = [&](std::size_t d) {
        each_step([d](auto& step) { step.erase(step.begin() + static_cast<std::ptrdiff_t>(d)); });
        extents.erase(extents.begin() + static_cast<std::ptrdiff_t>(d));
        if (d < row_dims) --row_dims;
    };
    for (std::size_t d = extents.size(); d-- > 0;) {
        if (extents[d] == 1) remove(d);
    }
    for (std::size_t d = extents.size(); d-- > 1;) {
        // d - 1 and d are one dimension where every access runs through both in one step.
        if (!loops.pointwise && d == row_dims) continue;
        bool one = true;
        each_step([&](auto& step) { one = one && step[d - 1] == step[d] * extents[d]; });
        if (!one) continue;
        const std::int64_t inner = extents[d];
        each_step([d](auto& step) { step[d - 1] = step[d]; });
        remove(d);
        extents[d - 1] *= inner;
    }
    if (loops.pointwise) row_dims = extents.empty() ? 0 : extents.size() - 1;
    if (row_dims == extents.size()) {
        extents.push_back(1);
        each_step([](auto& step) { step.push_back(0); });
    }
    loops.rows.assign(extents.begin(), extents.begin() + static_cast<std::ptrdiff_t>(row_dims));
    loops.columns.assign(extents.begin() + static_cast<std::ptrdiff_t>(row_dims), extents.end());
    return loops;
}

// ---- one loop nest
// ---------------------------------------------------------------------------------------------------------

// The names that stand for nodes, and those that are taken, in one block of the code and those around it.
struct Scope {
    std::map<std::size_t, std::string> names;
    std::vector<std::string> taken;
};

class NestPrinter {
  public:
    NestPrinter(const Loops& loops, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                SourceText& out)
        : loops_(loops), inputs_(inputs), outputs_(outputs), out_(out), within_rows_(needed_within_rows()) {
        scope_.taken = {"row",    "rows", "width", "begin", "end",  "stream", "c",     "i",     "n",     "partial",
                        "column", "sum",  "max",   "first", "last", "tile",   "tiles", "block", "blocks"};
        // sum and max are what reductions are called; all other names are the loops' own.
        std::erase(scope_.taken, "sum");
        std::erase(scope_.taken, "max");
        scope_.taken.insert(scope_.taken.end(), inputs.begin(), inputs.end());
        scope_.taken.insert(scope_.taken.end(), outputs.begin(), outputs.end());
        for (std::size_t d = 0; d < loops.rows.size(); ++d) {
            variables_.push_back(loops.rows.size() == 1 ? "row" : fmt::format("i{}", d));
        }
        for (std::size_t d = 0; d + 1 < loops.columns.size(); ++d) variables_.push_back(fmt::format("c{}", d));
        variables_.emplace_back("c");
    }

    // Whether the nest uses the stream, whose workspace holds partial sums.
    bool uses_stream() const { return !sums().empty(); }

    void print() {
        if (!loops_.pointwise) {
            print_rows();
        } else if (loops_.rows.empty()) {
            print_flat();
        } else if (auto dim = tiled_dimension()) {
            print_tiles(*dim);
        } else {
            print_rows();
        }
    }

  private:
    const KernelNode& node(std::size_t k) const { return loops_.nodes[k]; }
    std::size_t row_dims() const { return loops_.rows.size(); }

    // ---- which nodes, where ----

    std::vector<bool> needed_within_rows() const {
        KernelNest nest;
        nest.nodes = loops_.nodes;
        nest.stores = loops_.stores;
        return used_within_rows(nest);
    }

    // Sums over the rows, each with its place in the partial sums.
    struct Sum {
        std::size_t node;
        bool by_column;
    };
    std::vector<Sum> sums() const {
        std::vector<Sum> result;
        for (bool by_column : {true, false}) {
            for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
                if (node(k).kind != Kind::reduce || node(k).over == Over::columns) continue;
                if ((node(k).level == KernelLevel::column) == by_column) result.push_back({k, by_column});
            }
        }
        return result;
    }

    // ---- text of expressions ----

    std::string term(std::int64_t step, const std::string& variable) const {
        if (step == 1) return variable;
        if (variable == "row" && step == loops_.width()) return "row * width";
        return fmt::format("{} * {}", variable, step);
    }

    std::string sum_text(const Affine& a, std::size_t begin, std::size_t end, std::int64_t offset) const {
        std::string text;
        for (std::size_t d = begin; d < end; ++d) {
            if (a.step[d] == 0) continue;
            const std::int64_t size = std::abs(a.step[d]);
            text += text.empty() ? (a.step[d] < 0 ? "-" : "") : (a.step[d] < 0 ? " - " : " + ");
            text += term(size, variables_[d]);
        }
        if (offset != 0 || text.empty()) {
            if (text.empty()) return fmt::format("{}", offset);
            text += fmt::format(" {} {}", offset < 0 ? '-' : '+', std::abs(offset));
        }
        return text;
    }

    bool moves(const Affine& a, std::size_t begin, std::size_t end) const {
        return std::any_of(a.step.begin() + static_cast<std::ptrdiff_t>(begin),
                           a.step.begin() + static_cast<std::ptrdiff_t>(end), [](std::int64_t s) { return s != 0; });
    }

    std::string access(const std::string& base, const Affine& a) const {
        const bool by_row = moves(a, 0, row_dims()), by_column = moves(a, row_dims(), loops_.rank());
        if (by_row && by_column && !row_pointers_.empty()) {
            const std::vector<std::int64_t> steps(a.step.begin(),
                                                  a.step.begin() + static_cast<std::ptrdiff_t>(row_dims()));
            if (auto at = row_pointers_.find({base, steps}); at != row_pointers_.end()) {
                return fmt::format("{}[{}]", at->second, sum_text(a, row_dims(), loops_.rank(), a.offset));
            }
        }
        return fmt::format("{}[{}]", base, sum_text(a, 0, loops_.rank(), a.offset));
    }

    ExpressionText index_text(const KernelNode& n) const {
        const bool whole = n.value == std::floor(n.value) &&
                           std::all_of(n.steps.begin(), n.steps.end(), [](double s) { return s == std::floor(s); });
        if (whole) {
            Affine a{static_cast<std::int64_t>(n.value), {}};
            for (double s : n.steps) a.step.push_back(static_cast<std::int64_t>(s));
            const std::string text = sum_text(a, 0, a.step.size(), a.offset);
            if (n.dtype == DType::i64) return {text, text.find(' ') == std::string::npos ? 4 : 2};
            return {fmt::format("static_cast<{}>({})", cpp_type(n.dtype), text), 4};
        }
        std::string text = literal_text(n.value, n.dtype);
        for (std::size_t d = 0; d < n.steps.size(); ++d) {
            if (n.steps[d] == 0) continue;
            text += fmt::format(" + {} * static_cast<{}>({})", literal_text(n.steps[d], n.dtype), cpp_type(n.dtype),
                                variables_[d]);
        }
        return {text, 2};
    }

    ExpressionText expression(std::size_t k, const Scope& scope) const {
        if (auto at = scope.names.find(k); at != scope.names.end()) return {at->second, 4};
        const KernelNode& n = node(k);
        switch (n.kind) {
            case Kind::literal: {
                std::string text = literal_text(n.value, n.dtype);
                return {text, text.front() == '-' ? 3 : 4};
            }
            case Kind::index: return index_text(n);
            case Kind::load: return {access(inputs_[n.operand], loops_.position[k]), 4};
            case Kind::reduce: throw InternalError("a reduction is used before it is computed");
            case Kind::apply: break;
        }
        const Elementwise& rule = *op_def(n.op).elementwise;
        std::vector<ExpressionText> operands;
        for (std::size_t input : n.inputs) operands.push_back(expression(input, scope));
        return {fill_template(rule.code, rule.precedence, operands, cpp_type(n.dtype)), rule.precedence};
    }

    // ---- statements ----

    std::string name_for(std::size_t k, Scope& scope) const {
        const KernelNode& n = node(k);
        std::string wanted = n.name.empty() ? n.op : n.name;
        if (n.kind == Kind::reduce) wanted = n.op;
        if (n.kind == Kind::load) wanted = inputs_[n.operand] + (n.level == KernelLevel::row ? "_row" : "_value");
        return unique_identifier(wanted.empty() ? "t" : wanted, scope.taken);
    }

    void define(std::size_t k, Scope& scope) const {
        const std::string text = expression(k, scope).text;
        const std::string name = name_for(k, scope);
        out_.line(fmt::format("const {} {} = {};", cpp_type(node(k).dtype), name, text));
        scope.names[k] = name;
    }

    // Of an expression's text: operators and what they are applied to.
    std::size_t length(std::size_t k, const Scope& scope) const {
        if (scope.names.count(k) != 0 || node(k).kind != Kind::apply) return 1;
        std::size_t sum = 1;
        for (std::size_t input : node(k).inputs) sum += length(input, scope);
        return sum;
    }

    // Gives names to what the roots use more than once, or what would make a line too long.
    void define_shared(const std::vector<std::size_t>& roots, Scope& scope) const {
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
                const std::string placeholder = fmt::format("{{{}}}", j);
                const bool twice = code.find(placeholder) != code.rfind(placeholder);
                const bool seen = uses.count(input) != 0;
                uses[input] += twice ? 2 : 1;
                if (!seen) todo.push_back(input);
            }
        }
        // Not counted in letters, so that a program does not depend on what its tensors are called.
        constexpr std::size_t longest = 9;
        for (const auto& [k, count] : uses) {  // in the order of definition
            if (node(k).kind != Kind::apply || scope.names.count(k) != 0) continue;
            const bool root = std::find(roots.begin(), roots.end(), k) != roots.end();
            if (count >= 2 || (!root && length(k, scope) > longest)) define(k, scope);
        }
    }

    void pointer(const std::string& base, const Affine& a, bool constant, DType dtype, Scope& scope) {
        if (!moves(a, 0, row_dims()) || !moves(a, row_dims(), loops_.rank())) return;
        const std::vector<std::int64_t> steps(a.step.begin(), a.step.begin() + static_cast<std::ptrdiff_t>(row_dims()));
        if (row_pointers_.count({base, steps}) != 0) return;
        const std::string name = unique_identifier(base + "_row", scope.taken);
        out_.line(fmt::format("{}{}* {} = {} + {};", constant ? "const " : "", cpp_type(dtype), name, base,
                              sum_text(a, 0, row_dims(), 0)));
        row_pointers_[{base, steps}] = name;
    }

    void define_row_variables() {
        if (row_dims() < 2) return;
        std::int64_t inner = 1;
        std::vector<std::string> lines;
        for (std::size_t d = row_dims(); d-- > 0;) {
            std::string text = inner == 1 ? "row" : fmt::format("row / {}", inner);
            if (d > 0) text += fmt::format(" % {}", loops_.rows[d]);
            lines.push_back(fmt::format("const std::int64_t {} = {};", variables_[d], text));
            inner *= loops_.rows[d];
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

    // Scalars of the whole kernel are read once.
    void define_scalars() {
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (node(k).level != KernelLevel::scalar || node(k).finish) continue;
            if (node(k).kind == Kind::load || (node(k).kind == Kind::apply && used_above(k, KernelLevel::scalar))) {
                define(k, scope_);
            }
        }
    }

    // Whether a node of another level needs it.
    bool used_above(std::size_t k, KernelLevel level) const {
        for (const KernelNode& user : loops_.nodes) {
            if (std::find(user.inputs.begin(), user.inputs.end(), k) == user.inputs.end()) continue;
            if (user.level != level || user.kind == Kind::reduce) return true;
        }
        return false;
    }

    // ---- pointwise ----

    static std::int64_t grain(double weight) { return weight > 8 ? 4096 : 16384; }

    double weight() const {
        double total = 0;
        for (const KernelNode& n : loops_.nodes) {
            if (n.kind != Kind::apply) continue;
            total += op_def(n.op).elementwise->code.find("vec_math::") != std::string_view::npos ? 12 : 1;
        }
        return total;
    }

    // The statements of one element: shared values, then the stores. Nothing is read after the first store, so that an
    // output may lie over an input.
    void store_elements(const std::vector<std::size_t>& stores, const std::vector<Sum>& column_sums, Scope scope) {
        std::vector<std::size_t> roots;
        for (const Sum& sum : column_sums) roots.push_back(node(sum.node).inputs[0]);
        for (std::size_t s : stores) roots.push_back(loops_.stores[s].node);
        define_shared(roots, scope);
        if (stores.size() > 1) {
            for (std::size_t s : stores) {
                const std::size_t k = loops_.stores[s].node;
                if (scope.names.count(k) == 0 && node(k).kind != Kind::literal) define(k, scope);
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

    std::vector<std::size_t> all_stores() const {
        std::vector<std::size_t> stores(loops_.stores.size());
        for (std::size_t s = 0; s < stores.size(); ++s) stores[s] = s;
        return stores;
    }

    void print_flat() {
        variables_ = {"i"};
        if (loops_.width() == 1) {
            store_elements(all_stores(), {}, scope_);
            return;
        }
        out_.line(fmt::format("constexpr std::int64_t n = {};", loops_.width()));
        define_scalars();
        out_.open(fmt::format("parallel_for(n, {}, [&](std::int64_t begin, std::int64_t end) {{", grain(weight())));
        out_.line("#pragma omp simd");
        out_.open("for (std::int64_t i = begin; i < end; ++i) {");
        store_elements(all_stores(), {}, scope_);
        out_.close();
        out_.close("});");
    }

    // The row dimension along which a load is contiguous while the last dimension makes it jump.
    std::optional<std::size_t> tiled_dimension() const {
        constexpr std::int64_t far = 16;
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (node(k).kind != Kind::load) continue;
            const auto& step = loops_.position[k].step;
            if (std::abs(step.back()) < far || loops_.columns.back() < 4) continue;
            for (std::size_t d = 0; d < row_dims(); ++d) {
                if (step[d] == 1 && loops_.rows[d] >= 4) return d;
            }
        }
        return std::nullopt;
    }

    void print_tiles(std::size_t dim) {
        for (std::size_t d = 0; d < row_dims(); ++d) variables_[d] = fmt::format("i{}", d);
        out_.line("// in tiles, so that what is read across stays in L1 until it is used up");
        out_.line(
            fmt::format("constexpr std::int64_t tile = 32, rows = {}, width = {};", loops_.rows[dim], loops_.width()));
        std::int64_t others = 1;
        for (std::size_t d = 0; d < row_dims(); ++d) others *= d == dim ? 1 : loops_.rows[d];
        out_.line("constexpr std::int64_t tiles = (rows + tile - 1) / tile;");
        define_scalars();
        out_.open(fmt::format("parallel_rows({}tiles, tile * width, [&](std::int64_t begin, std::int64_t end) {{",
                              others == 1 ? "" : fmt::format("{} * ", others)));
        out_.open("for (std::int64_t block = begin; block < end; ++block) {");
        std::string rest = others == 1 ? "block" : "block % tiles";
        out_.line(fmt::format("const std::int64_t first = {} * tile, last = std::min(first + tile, rows);", rest));
        std::int64_t inner = 1;
        for (std::size_t d = row_dims(); d-- > 0;) {
            if (d == dim) continue;
            std::string text = inner == 1 ? "block / tiles" : fmt::format("block / tiles / {}", inner);
            inner *= loops_.rows[d];
            if (inner < others) text += fmt::format(" % {}", loops_.rows[d]);
            out_.line(fmt::format("const std::int64_t {} = {};", variables_[d], text));
        }
        out_.open("for (std::int64_t c_first = 0; c_first < width; c_first += tile) {");
        out_.line("const std::int64_t c_last = std::min(c_first + tile, width);");
        out_.open(fmt::format("for (std::int64_t {0} = first; {0} < last; ++{0}) {{", variables_[dim]));
        out_.line("#pragma omp simd");
        out_.open("for (std::int64_t c = c_first; c < c_last; ++c) {");
        store_elements(all_stores(), {}, scope_);
        for (int k = 0; k < 4; ++k) out_.close();
        out_.close("});");
    }

    // ---- rows ----

    std::string partial_text(std::size_t k) const {
        std::string index;
        std::int64_t inner = 1;
        for (std::size_t d = loops_.columns.size(); d-- > 0;) {
            index = term(inner, variables_[row_dims() + d]) + (index.empty() ? "" : " + " + index);
            inner *= loops_.columns[d];
        }
        if (k > 0) index += k == 1 ? " + width" : fmt::format(" + {} * width", k);
        return fmt::format("partial[{}]", index);
    }

    void open_columns() {
        for (std::size_t d = 0; d + 1 < loops_.columns.size(); ++d) {
            out_.open(fmt::format("for (std::int64_t {0} = 0; {0} < {1}; ++{0}) {{", variables_[row_dims() + d],
                                  loops_.columns[d]));
        }
    }
    void close_columns() {
        for (std::size_t d = 0; d + 1 < loops_.columns.size(); ++d) out_.close();
    }
    std::string column_extent() const {
        return loops_.columns.size() == 1 ? "width" : fmt::format("{}", loops_.columns.back());
    }

    // sum(body) over the columns of one row, as a value called `name` or added to `target`.
    void print_row_reduction(std::size_t k, const std::string& name, const std::string& target, const Scope& outer) {
        const KernelNode& n = node(k);
        const std::size_t body = n.inputs[0];
        const std::string type(cpp_type(n.dtype));
        const std::string function = fmt::format("{}<{}>", n.op == "sum" ? "row_sum" : "row_max", type);
        std::string prefix = target.empty() ? fmt::format("const {} {} = ", type, name) : target + " += ";
        const bool nested = loops_.columns.size() > 1;
        if (nested) {
            std::string start = "0";
            if (n.op != "sum") start = fmt::format("std::numeric_limits<{0}>::lowest()", type);
            if (target.empty()) out_.line(fmt::format("{} {} = {};", type, name, start));
            open_columns();
            prefix =
                target.empty() ? name + (n.op == "sum" ? " += " : " = vec_math::max(" + name + ", ") : target + " += ";
        }
        Scope scope = outer;
        SourceText trial;
        std::swap(out_, trial);
        define_shared({body}, scope);
        const std::string value = expression(body, scope).text;
        std::swap(out_, trial);
        const std::string closing = nested && n.op != "sum" ? "}));" : "});";
        const bool simple = trial.empty() && prefix.size() + value.size() + function.size() < 50;
        // A body that does not depend on the column has an unnamed one.
        const bool by_column = depends_on_column(body);
        const std::string head =
            fmt::format("{}{}({}, [&](std::int64_t{}) {{", prefix, function, column_extent(), by_column ? " c" : "");
        if (simple) {
            out_.line(fmt::format("{} return {}; {}", head, value, closing));
        } else {
            out_.open(head);
            Scope again = outer;
            define_shared({body}, again);
            out_.line(fmt::format("return {};", expression(body, again).text));
            out_.close(closing);
        }
        if (nested) close_columns();
    }

    bool depends_on_column(std::size_t k) const {
        return node(k).level == KernelLevel::element || node(k).level == KernelLevel::column;
    }

    // Everything of one row.
    void print_row(Scope scope) {
        define_row_variables();
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (node(k).kind == Kind::load && within_rows_[k]) {
                pointer(inputs_[node(k).operand], loops_.position[k], true, node(k).dtype, scope);
            }
        }
        for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
            if (node(loops_.stores[s].node).finish) continue;
            pointer(outputs_[loops_.stores[s].output], loops_.store_position[s], false,
                    node(loops_.stores[s].node).dtype, scope);
        }
        // Statistics of the row, each after those that it needs.
        std::map<std::size_t, int> uses;
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (!within_rows_[k] && node(k).kind != Kind::reduce) continue;
            for (std::size_t input : node(k).inputs) ++uses[input];
        }
        for (const KernelStore& store : loops_.stores) ++uses[store.node];
        for (std::size_t k = 0; k < loops_.nodes.size(); ++k) {
            if (!within_rows_[k] || node(k).level != KernelLevel::row) continue;
            if (node(k).kind == Kind::reduce) {
                const std::string name = name_for(k, scope);
                print_row_reduction(k, name, {}, scope);
                scope.names[k] = name;
            } else if (node(k).kind == Kind::apply && (uses[k] > 1 || used_above(k, KernelLevel::row))) {
                define(k, scope);
            } else if (node(k).kind == Kind::load && used_above(k, KernelLevel::row)) {
                define(k, scope);
            }
        }
        const std::vector<Sum> all = sums();
        std::vector<Sum> column_sums;
        for (std::size_t s = 0; s < all.size(); ++s) {
            if (all[s].by_column) column_sums.push_back(all[s]);
        }
        for (std::size_t s = column_sums.size(); s < all.size(); ++s) {
            const std::string target =
                fmt::format("partial[{}]", whole_partials_offset(column_sums.size(), s - column_sums.size()));
            if (node(all[s].node).over == Over::both) {
                print_row_reduction(all[s].node, {}, target, scope);
            } else {
                out_.line(fmt::format("{} += {};", target, expression(node(all[s].node).inputs[0], scope).text));
            }
        }
        // A statistic is stored after the last pass over what it may lie over: nothing else of its type and shape is
        // read then.
        std::vector<std::size_t> elements, statistics;
        for (std::size_t s = 0; s < loops_.stores.size(); ++s) {
            if (node(loops_.stores[s].node).finish) continue;
            const bool by_column = moves(loops_.store_position[s], row_dims(), loops_.rank());
            (by_column || loops_.pointwise ? elements : statistics).push_back(s);
        }
        for (std::size_t s : statistics) {
            const std::size_t k = loops_.stores[s].node;
            if (statistics.size() + elements.size() > 1 && scope.names.count(k) == 0 && node(k).kind != Kind::literal) {
                define(k, scope);
            }
        }
        if (!elements.empty() || !column_sums.empty()) {
            open_columns();
            out_.line("#pragma omp simd");
            out_.open(fmt::format("for (std::int64_t c = 0; c < {}; ++c) {{", column_extent()));
            store_elements(elements, column_sums, scope);
            out_.close();
            close_columns();
        }
        for (std::size_t s : statistics) {
            out_.line(fmt::format("{} = {};", access(outputs_[loops_.stores[s].output], loops_.store_position[s]),
                                  expression(loops_.stores[s].node, scope).text));
        }
        row_pointers_.clear();
    }

    // Where the k-th sum over everything stands among the partial sums, behind those of the columns.
    static std::string whole_partials_offset(std::size_t column_sums, std::size_t k) {
        if (column_sums == 0) return fmt::format("{}", k);
        const std::string base = column_sums == 1 ? "width" : fmt::format("{} * width", column_sums);
        return k == 0 ? base : fmt::format("{} + {}", base, k);
    }

    void print_finish(const std::vector<Sum>& all, std::size_t column_sums) {
        for (std::size_t s = 0; s < all.size(); ++s) {
            const bool last = s + 1 == all.size();
            const bool only = all.size() == 1;
            if (!only && !last) {
                std::string bound = all[s].by_column ? (s == 0 ? "width" : fmt::format("{} * width", s + 1))
                                                     : whole_partials_offset(column_sums, s - column_sums + 1);
                out_.open(fmt::format("{}if (column < {}) {{", s == 0 ? "" : "} else ", bound));
            } else if (!only) {
                out_.open("} else {");
            }
            Scope scope = scope_;
            scope.names[all[s].node] = "sum";
            scope.taken.emplace_back("sum");
            if (all[s].by_column) {
                const std::string flat = s == 0   ? "column"
                                         : s == 1 ? "column - width"
                                                  : fmt::format("column - {} * width", s);
                if (loops_.columns.size() == 1 && s == 0) {
                    variables_.back() = "column";
                } else {
                    std::int64_t inner = 1;
                    for (std::size_t d = loops_.columns.size(); d-- > 0;) {
                        std::string text = s == 0 || inner == 1 ? flat : "(" + flat + ")";
                        if (inner > 1) text += fmt::format(" / {}", inner);
                        if (d > 0)
                            text = fmt::format("{} % {}", s > 0 && inner == 1 ? "(" + text + ")" : text,
                                               loops_.columns[d]);
                        inner *= loops_.columns[d];
                        out_.line(fmt::format("const std::int64_t {} = {};", variables_[row_dims() + d], text));
                    }
                }
            }
            std::vector<std::size_t> stores;
            for (std::size_t k = 0; k < loops_.stores.size(); ++k) {
                if (depends_on(loops_.stores[k].node, all[s].node)) stores.push_back(k);
            }
            store_elements(stores, {}, scope);
            if (all[s].by_column && loops_.columns.size() == 1) variables_.back() = "c";
            if (!only) out_.outdent();
        }
        if (all.size() > 1) out_.line("}");
    }

    bool depends_on(std::size_t k, std::size_t on) const {
        if (k == on) return true;
        if (node(k).kind == Kind::reduce) return false;
        const auto& inputs = node(k).inputs;
        return std::any_of(inputs.begin(), inputs.end(), [&](std::size_t input) { return depends_on(input, on); });
    }

    void print_rows() {
        if (!loops_.pointwise && loops_.rows.empty() && sums().empty()) {
            if (loops_.columns.size() == 1) {
                out_.line(fmt::format("constexpr std::int64_t width = {};", loops_.width()));
            }
            define_scalars();
            print_row(scope_);
            return;
        }
        out_.line(fmt::format("constexpr std::int64_t rows = {}, width = {};", loops_.row_count(), loops_.width()));
        define_scalars();
        const std::vector<Sum> all = sums();
        const auto column_sums =
            static_cast<std::size_t>(std::count_if(all.begin(), all.end(), [](const Sum& s) { return s.by_column; }));
        if (all.empty()) {
            out_.open("parallel_rows(rows, width, [&](std::int64_t begin, std::int64_t end) {");
        } else {
            out_.open("column_reduction(");
            out_.line(fmt::format("rows, {}, stream,",
                                  column_sums == all.size()
                                      ? (all.size() == 1 ? "width" : fmt::format("{} * width", all.size()))
                                      : whole_partials_offset(column_sums, all.size() - column_sums)));
            out_.open("[&](std::int64_t begin, std::int64_t end, float* partial) {");
        }
        out_.open("for (std::int64_t row = begin; row < end; ++row) {");
        print_row(scope_);
        out_.close();
        if (all.empty()) {
            out_.close("});");
            return;
        }
        out_.close("},");
        const bool named = column_sums > 0 || all.size() > 1;
        out_.open(fmt::format("[&](std::int64_t{}, float sum) {{", named ? " column" : ""));
        print_finish(all, column_sums);
        out_.close("});");
        out_.outdent();
    }

    const Loops& loops_;
    const std::vector<std::string>& inputs_;
    const std::vector<std::string>& outputs_;
    SourceText& out_;
    std::vector<bool> within_rows_;
    Scope scope_;
    std::vector<std::string> variables_;  // of the loops: rows, then columns
    std::map<std::pair<std::string, std::vector<std::int64_t>>, std::string> row_pointers_;
};

}  // namespace

PrintedKernel print_kernel_cpu(const KernelDescription& kernel, const KernelLayouts& layouts,
                               const std::string& replaces) {
    PrintedKernel printed;
    printed.name = kernel.name;
    std::vector<std::string> taken = {"stream"}, inputs, outputs, parameters;
    for (std::size_t r = 0; r < kernel.outputs.size(); ++r) {
        outputs.push_back(unique_identifier(kernel.outputs[r].name, taken));
        printed.arguments.push_back({true, r, outputs.back()});
        parameters.push_back(fmt::format("{}* {}", cpp_type(kernel.outputs[r].type.dtype), outputs.back()));
    }
    for (std::size_t o = 0; o < kernel.inputs.size(); ++o) {
        inputs.push_back(unique_identifier(kernel.inputs[o].name, taken));
        printed.arguments.push_back({false, o, inputs.back()});
        parameters.push_back(fmt::format("const {}* {}", cpp_type(kernel.inputs[o].type.dtype), inputs.back()));
    }
    const std::string head = fmt::format("void {}({}", kernel.name, fmt::join(parameters, ", "));
    printed.comment = fmt::format("{}: {}", kernel.name, kernel_formula(kernel, inputs, outputs));
    if (!replaces.empty()) printed.comment += "\nReplaces " + replaces;

    SourceText body;
    body.indent();
    bool stream = false;
    for (const KernelNest& nest : kernel.nests) {
        const Loops loops = loops_of(kernel, nest, layouts);
        if (kernel.nests.size() > 1) body.open("{");
        NestPrinter printer(loops, inputs, outputs, body);
        printer.print();
        stream = stream || printer.uses_stream();
        if (kernel.nests.size() > 1) body.close();
    }
    SourceText declaration, definition;
    declaration.line(head + ", Stream& stream);");
    printed.declaration = declaration.str();
    definition.comment(printed.comment);
    definition.line(head + (stream ? ", Stream& stream) {" : ", Stream& /*stream*/) {"));
    definition.append_lines(body.str());
    definition.line("}");
    printed.definition = definition.str();
    return printed;
}

std::string kernels_cpu_prologue() {
    return R"(#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "device/cpu/row_reduction.h"  // row_sum, row_max: fixed trees
#include "device/cpu/vec_math.h"       // exp, tanh, ... that vectorise
#include "device/parallel.h"           // parallel_for, parallel_rows, column_reduction
#include "device/stream.h"

namespace vec_math = thunder::math;
)";
}

std::string kernels_cpu_epilogue() {
    return "";
}

}  // namespace thunderc
