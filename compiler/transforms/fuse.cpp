#include "compiler/transforms/fuse.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "compiler/analysis/kernel_description.h"
#include "compiler/analysis/views.h"
#include "compiler/ir/print.h"
#include "compiler/ops/op.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr int none = -1;

bool has_dense_part(const ConstExpr& expr) {
    if (expr.kind == ConstExpr::Kind::dense) return expr.type.elements() != 1;
    return std::any_of(expr.operands.begin(), expr.operands.end(),
                       [](const ConstPtr& operand) { return has_dense_part(*operand); });
}

// Recomputed by whoever reads it, at no cost: index arithmetic.
bool is_free(const Op& op) {
    if (op.name == "constant") return !has_dense_part(*op.attributes.constant("value"));
    return is_view(op);
}

// What kernels are made of.
bool is_work(const Op& op, const Function& function) {
    const OpDef& def = op_def(op.name);
    if (op.results.size() != 1 || !function.type(op.results[0]).is_tensor()) return false;
    for (Value v : op.operands) {
        if (!v || !function.type(v).is_tensor()) return false;
    }
    if (function.type(op.results[0]).elements() == 0) return false;
    return (def.level == OpLevel::primitive && def.elementwise.has_value()) || op.name == "reduce_sum" ||
           op.name == "reduce_max" || op.name == "concat" || op.name == "pad";
}

// A kernel function made of ops of a function, and how the two meet.
struct Extracted {
    Function function;
    std::vector<Value> operands;  // values of the surrounding function
    std::vector<Value> results;
    Provenance provenance;
    std::string composite;  // what most of its ops were part of; "" where they were part of none
};

struct Group {
    std::vector<int> ops;  // indices into the function's ops, ascending; empty: merged into another
    std::optional<KernelDescription> description;
    double cost = 0;
    std::string why;  // there is no description
};

// What a kernel costs, in bytes of memory traffic: what it moves, what it computes (half a byte's time for an operation
// of a vectorised loop), and its start on all threads.
double cost_of(const KernelDescription& kernel) {
    constexpr double bytes_per_operation = 0.5, bytes_per_start = 8192;
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

class FunctionFusion {
  public:
    FunctionFusion(const Module& module, const Function& function, const FuseOptions& options, Report& report)
        : module_(module), f_(function), uses_(function), options_(options), report_(report) {}

    // The function with its groups called as kernels. `kernel_name` is asked for the name of each kernel function.
    Function run(const std::function<std::string(Extracted&)>& kernel_name) {
        classify();
        describe_all();
        if (options_.fuse) {
            merge_producers();
            merge_siblings();
            report_declined();
        }
        return rebuild(kernel_name);
    }

  private:
    const Op& op(int k) const { return f_.ops[static_cast<std::size_t>(k)]; }
    int definition(Value v) const { return uses_.definition[v.index]; }

    // ---- what is a kernel's work, what is a view, what belongs to others ----

    void classify() {
        group_of_.assign(f_.ops.size(), none);
        apart_.assign(f_.ops.size(), false);
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const bool work = is_work(f_.ops[k], f_) && !is_free(f_.ops[k]);
            if (work || must_copy(static_cast<int>(k))) {
                group_of_[k] = static_cast<int>(groups_.size());
                groups_.push_back({{static_cast<int>(k)}, std::nullopt, 0, {}});
            }
        }
    }

    // Each op is a kernel by itself, if need be with some of its views in memory.
    void describe_all() {
        for (std::size_t g = 0; g < groups_.size(); ++g) {  // groups are added on the way
            if (groups_[g].ops.empty()) continue;
            describe(groups_[g]);
            if (!groups_[g].description) keep_views_apart(static_cast<int>(g));
        }
        bytes_apart_.assign(f_.ops.size(), 0);
        for (const Group& group : groups_) {
            if (group.ops.empty()) continue;
            check(group.description.has_value(),
                  fmt::format("the op {} is no kernel: {}", op(group.ops.front()).name, group.why));
            bytes_apart_[static_cast<std::size_t>(group.ops.front())] = bytes_moved(*group.description);
        }
    }

    // For a kernel that reads a reshape which is not affine in its index space: the reshape stays outside of the
    // kernel, where it is the same memory seen with other dimensions. What it reads has to be dense for that.
    void keep_views_apart(int g) {
        std::set<int> views;
        std::vector<int> todo = groups_[static_cast<std::size_t>(g)].ops;
        while (!todo.empty()) {
            const int k = todo.back();
            todo.pop_back();
            if (op(k).name == "reshape") views.insert(k);
            for (Value v : op(k).operands) {
                if (v && is_transparent(definition(v)) && op(definition(v)).name != "constant")
                    todo.push_back(definition(v));
            }
        }
        for (int k : views) {  // in order: what a later one reads has its layout by then
            const Value from = op(k).operands[0];
            const auto layout = layout_of(from);
            if (!layout || !is_dense(*layout, f_.type(from).dims)) {
                const int view = definition(from);
                group_of_[static_cast<std::size_t>(view)] = static_cast<int>(groups_.size());
                groups_.push_back({{view}, std::nullopt, 0, {}});
            }
            apart_[static_cast<std::size_t>(k)] = true;
            const int own = group_of_[static_cast<std::size_t>(k)];
            if (own != none) groups_[static_cast<std::size_t>(own)].ops.clear();  // no copy is needed any more
            group_of_[static_cast<std::size_t>(k)] = none;
        }
        if (!groups_[static_cast<std::size_t>(g)].ops.empty()) describe(groups_[static_cast<std::size_t>(g)]);
    }

    bool is_transparent(int k) const {
        const auto index = static_cast<std::size_t>(k);
        return k >= 0 && group_of_[index] == none && !apart_[index] && is_free(op(k));
    }

    // The memory that a view reads, and how; none where it needs a copy somewhere on the way.
    std::optional<ViewLayout> layout_of(Value v) const {
        const int k = definition(v);
        if (k < 0 || !is_view(op(k)) || group_of_[static_cast<std::size_t>(k)] != none)
            return dense_layout(f_.type(v).dims);
        auto operand = layout_of(op(k).operands[0]);
        if (!operand) return std::nullopt;
        return view_layout(f_, op(k), *operand);
    }

    // Whether a view has to become memory of its own: somebody else than a kernel reads it, and cannot follow its
    // strides.
    bool must_copy(int k) const {
        if (!is_view(op(k)) || !f_.type(op(k).results[0]).is_tensor() || f_.type(op(k).results[0]).elements() == 0)
            return false;
        const Value v = op(k).results[0];
        const auto layout = layout_of(v);
        const Dims& dims = f_.type(v).dims;
        if (layout && is_dense(*layout, dims)) return false;
        if (uses_.is_result[v.index]) return true;
        for (int user : uses_.users[v.index]) {
            const Op& reader = op(user);
            if (is_free(reader) || is_work(reader, f_)) continue;
            const OpDef& def = op_def(reader.name);
            if (!layout || !def.call) return true;
            const MenuCall call = def.call(reader, f_);
            for (std::size_t o = 0; o < reader.operands.size(); ++o) {
                if (reader.operands[o] != v) continue;
                const bool strided = std::any_of(call.fields.begin(), call.fields.end(), [&](const CallField& field) {
                    return field.kind == CallField::Kind::operand && field.index == o && !field.stride_field.empty() &&
                           row_stride(*layout, dims, field.row_dims).has_value();
                });
                if (!strided) return true;
            }
        }
        return false;
    }

    // ---- groups ----

    // Whether anything outside of the group reads the value, views of it included.
    bool escapes(Value v, int group) const {
        if (uses_.is_result[v.index]) return true;
        for (int user : uses_.users[v.index]) {
            const int of = group_of_[static_cast<std::size_t>(user)];
            if (of == group && of != none) continue;
            if (!is_transparent(user)) return true;
            for (Value result : op(user).results) {
                if (escapes(result, group)) return true;
            }
        }
        return false;
    }

    Extracted extract(const std::vector<int>& members, int group) const {
        Extracted out;
        std::map<Value, Value> moved;
        Builder builder(out.function);
        bool first = true;
        std::function<Value(Value)> import = [&](Value v) {
            if (auto at = moved.find(v); at != moved.end()) return at->second;
            const int k = definition(v);
            Value here;
            if (is_transparent(k)) {
                std::vector<Value> operands;
                for (Value operand : op(k).operands) operands.push_back(import(operand));
                here = builder.clone(op(k), operands, f_).front();
            } else {
                here = out.function.add_argument(f_.type(v), f_.info(v).name);
                out.operands.push_back(v);
            }
            moved[v] = here;
            return here;
        };
        std::vector<std::pair<std::string, int>> composites;
        for (int k : members) {
            const std::string whole = op(k).attributes.string("part_of", "");
            auto at =
                std::find_if(composites.begin(), composites.end(), [&](const auto& c) { return c.first == whole; });
            if (at == composites.end()) at = composites.insert(at, {whole, 0});
            if (!whole.empty()) ++at->second;
            std::vector<Value> operands;
            for (Value operand : op(k).operands) operands.push_back(import(operand));
            moved[op(k).results[0]] = builder.clone(op(k), operands, f_).front();
            out.provenance = first ? op(k).provenance : merge(out.provenance, op(k).provenance);
            first = false;
        }
        out.function.argument_info.clear();
        for (Op& one : out.function.ops) one.attributes.erase("part_of");
        const auto most = std::max_element(composites.begin(), composites.end(),
                                           [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most != composites.end()) out.composite = most->first;
        for (int k : members) {
            const Value v = op(k).results[0];
            if (!escapes(v, group)) continue;
            out.function.results.push_back(moved[v]);
            out.results.push_back(v);
        }
        return out;
    }

    void describe(Group& group) const {
        const int id = static_cast<int>(&group - groups_.data());
        const Extracted extracted = extract(group.ops, id);
        group.why.clear();
        group.description = try_describe_kernel(extracted.function, &group.why);
        group.cost = group.description ? cost_of(*group.description) : 0;
    }

    // Ops that read a result of the op, and where it is in a group, of any op of the group.
    void successors(int k, std::vector<int>& out) const {
        auto add = [&](int member) {
            for (Value v : op(member).results) {
                out.insert(out.end(), uses_.users[v.index].begin(), uses_.users[v.index].end());
            }
        };
        const int group = group_of_[static_cast<std::size_t>(k)];
        if (group == none) {
            add(k);
        } else {
            for (int member : groups_[static_cast<std::size_t>(group)].ops) add(member);
        }
    }

    // Whether something that depends on one of the groups is needed by one of them: they cannot be one then. Views and
    // constants that kernels copy do not stand between.
    bool interleaved(int a, int b) const {
        std::vector<int> todo;
        std::set<int> seen_ops, seen_groups;
        auto inside = [&](int k) {
            const int g = group_of_[static_cast<std::size_t>(k)];
            return g == a || g == b;
        };
        // First level: leaves the two groups, through views that kernels would copy, and anything else.
        auto leave = [&](int member) {
            std::vector<int> front{member};
            while (!front.empty()) {
                const int k = front.back();
                front.pop_back();
                for (Value v : op(k).results) {
                    for (int user : uses_.users[v.index]) {
                        if (inside(user)) continue;
                        if (is_transparent(user)) {
                            front.push_back(user);
                        } else {
                            todo.push_back(user);
                        }
                    }
                }
            }
        };
        for (int g : {a, b}) {
            for (int member : groups_[static_cast<std::size_t>(g)].ops) leave(member);
        }
        while (!todo.empty()) {
            const int k = todo.back();
            todo.pop_back();
            if (inside(k)) return true;
            if (!seen_ops.insert(k).second) continue;
            const int g = group_of_[static_cast<std::size_t>(k)];
            if (g != none && !seen_groups.insert(g).second) continue;
            successors(k, todo);
        }
        return false;
    }

    bool try_merge(int a, int b, double least_saving) {
        if (a == b || interleaved(a, b)) return false;
        Group& first = groups_[static_cast<std::size_t>(a)];
        Group& second = groups_[static_cast<std::size_t>(b)];
        if (!first.description || !second.description) return false;
        Group merged;
        std::merge(first.ops.begin(), first.ops.end(), second.ops.begin(), second.ops.end(),
                   std::back_inserter(merged.ops));
        for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = a;
        const Extracted extracted = extract(merged.ops, a);
        merged.description = try_describe_kernel(extracted.function, &merged.why);
        const double before = first.cost + second.cost;
        if (merged.description) {
            merged.cost = cost_of(*merged.description);
            if (merged.cost <= before * (1 - least_saving)) {
                first = std::move(merged);
                second = Group{};
                return true;
            }
            merged.why = "it would cost more in recomputation than it saves in memory traffic";
        }
        for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = b;
        declined_[{std::min(a, b), std::max(a, b)}] = merged.why;
        return false;
    }

    // The groups whose results an op reads, through views, the nearest first.
    std::vector<int> producers(int k) const {
        std::vector<int> ops;
        std::vector<Value> todo(op(k).operands.begin(), op(k).operands.end());
        while (!todo.empty()) {
            const Value v = todo.back();
            todo.pop_back();
            const int d = definition(v);
            if (d < 0) continue;
            if (is_transparent(d)) {
                todo.insert(todo.end(), op(d).operands.begin(), op(d).operands.end());
            } else if (group_of_[static_cast<std::size_t>(d)] != none) {
                ops.push_back(d);
            }
        }
        std::sort(ops.rbegin(), ops.rend());
        std::vector<int> groups;
        for (int d : ops) {
            const int g = group_of_[static_cast<std::size_t>(d)];
            if (std::find(groups.begin(), groups.end(), g) == groups.end()) groups.push_back(g);
        }
        return groups;
    }

    void merge_producers() {
        for (bool changed = true; changed;) {
            changed = false;
            for (std::size_t k = 0; k < f_.ops.size(); ++k) {
                if (group_of_[k] == none) continue;
                for (int producer : producers(static_cast<int>(k))) {
                    changed = try_merge(producer, group_of_[k], 0) || changed;
                }
            }
        }
    }

    // Kernels that read the same tensor, and neither needs the other.
    void merge_siblings() {
        for (bool changed = true; changed;) {
            changed = false;
            std::map<Value, std::vector<int>> readers;
            for (std::size_t g = 0; g < groups_.size(); ++g) {
                if (groups_[g].ops.empty()) continue;
                for (Value v : extract(groups_[g].ops, static_cast<int>(g)).operands) {
                    if (f_.type(v).elements() > 1) readers[v].push_back(static_cast<int>(g));
                }
            }
            std::set<std::pair<int, int>> tried;
            for (const auto& [v, groups] : readers) {
                for (std::size_t i = 0; i < groups.size() && !changed; ++i) {
                    for (std::size_t j = i + 1; j < groups.size() && !changed; ++j) {
                        if (!tried.insert({groups[i], groups[j]}).second) continue;
                        constexpr double worthwhile = 0.05;
                        changed = try_merge(groups[i], groups[j], worthwhile);
                    }
                }
                if (changed) break;
            }
        }
    }

    void report_declined() {
        std::set<std::pair<int, int>> said;
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const int g = group_of_[k];
            if (g == none) continue;
            for (int producer : producers(static_cast<int>(k))) {
                if (producer == g || !said.insert({producer, g}).second) continue;
                const auto why = declined_.find({std::min(producer, g), std::max(producer, g)});
                report_.declined("fuse", where(g),
                                 fmt::format("not with the kernel of {} that it reads: {}", where(producer),
                                             why == declined_.end() ? "another op stands between them" : why->second));
            }
        }
    }

    // The module that the group belongs to, or the value that it computes where none is known.
    std::string where(int group) const {
        const std::vector<int>& ops = groups_[static_cast<std::size_t>(group)].ops;
        for (auto k = ops.rbegin(); k != ops.rend(); ++k) {
            if (!op(*k).provenance.scope.empty()) return op(*k).provenance.scope;
        }
        return f_.info(op(ops.back()).results[0]).name;
    }

    // ---- the function anew ----

    Function rebuild(const std::function<std::string(Extracted&)>& kernel_name) {
        Function out;
        out.name = f_.name;
        out.kind = f_.kind;
        out.scope = f_.scope;
        out.module_class = f_.module_class;
        out.argument_info = f_.argument_info;
        out.result_names = f_.result_names;
        std::map<Value, Value> moved;
        for (Value v : f_.arguments) {
            moved[v] = out.add_value(f_.type(v), f_.info(v).name);
            out.arguments.push_back(moved[v]);
        }
        // A kernel's call stands where the last of its ops stood, or as soon after as what it reads is there.
        std::vector<bool> needed = needed_ops(), done(f_.ops.size(), false);
        std::vector<Extracted> extracted(groups_.size());
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            if (!groups_[g].ops.empty()) extracted[g] = extract(groups_[g].ops, static_cast<int>(g));
        }
        Builder builder(out);
        std::function<void(int)> place = [&](int k) {
            if (done[static_cast<std::size_t>(k)]) return;
            const int g = group_of_[static_cast<std::size_t>(k)];
            const std::vector<Value>& operands =
                g == none ? op(k).operands : extracted[static_cast<std::size_t>(g)].operands;
            for (Value v : operands) {
                if (v && definition(v) >= 0) place(definition(v));
            }
            std::vector<Value> here;
            for (Value v : operands) here.push_back(v ? moved.at(v) : Value{});
            if (g == none) {
                done[static_cast<std::size_t>(k)] = true;
                const std::vector<Value> results = builder.clone(op(k), here, f_);
                out.ops.back().attributes.erase("part_of");
                for (std::size_t r = 0; r < results.size(); ++r) moved[op(k).results[r]] = results[r];
                return;
            }
            Extracted& kernel = extracted[static_cast<std::size_t>(g)];
            for (int member : groups_[static_cast<std::size_t>(g)].ops) done[static_cast<std::size_t>(member)] = true;
            builder.set_provenance(kernel.provenance);
            std::vector<Type> types;
            std::vector<std::string> names;
            for (Value v : kernel.results) {
                types.push_back(f_.type(v));
                names.push_back(f_.info(v).name);
            }
            const std::string name = kernel_name(kernel);
            const std::vector<Value> results = builder.emit_typed("fused", here, {{"kernel", name}}, types, names);
            for (std::size_t r = 0; r < results.size(); ++r) moved[kernel.results[r]] = results[r];
            const Group& group = groups_[static_cast<std::size_t>(g)];
            std::int64_t apart = 0;
            for (int member : group.ops) apart += bytes_apart_[static_cast<std::size_t>(member)];
            report_.done("fuse", where(g),
                         fmt::format("{}: {} ops in one kernel that moves {} bytes; apart they move {}", name,
                                     group.ops.size(), bytes_moved(*group.description), apart));
        };
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const int g = group_of_[k];
            const bool last = g == none || groups_[static_cast<std::size_t>(g)].ops.back() == static_cast<int>(k);
            if (needed[k] && last) place(static_cast<int>(k));
        }
        for (Value v : f_.results) out.results.push_back(moved.at(v));
        return out;
    }

    // Ops whose results are still read, now that kernels have their own views and constants.
    std::vector<bool> needed_ops() const {
        std::vector<bool> needed(f_.ops.size(), false);
        std::vector<int> todo;
        std::set<int> seen_groups;
        auto need = [&](Value v) {
            if (v && definition(v) >= 0) todo.push_back(definition(v));
        };
        for (Value v : f_.results) need(v);
        while (!todo.empty()) {
            const int k = todo.back();
            todo.pop_back();
            if (needed[static_cast<std::size_t>(k)]) continue;
            const int g = group_of_[static_cast<std::size_t>(k)];
            needed[static_cast<std::size_t>(k)] = true;
            if (g == none) {
                for (Value v : op(k).operands) need(v);
                continue;
            }
            if (!seen_groups.insert(g).second) continue;
            const auto& members = groups_[static_cast<std::size_t>(g)].ops;
            for (int member : members) needed[static_cast<std::size_t>(member)] = true;
            for (Value v : extract(members, g).operands) need(v);
        }
        return needed;
    }

    const Module& module_;
    const Function& f_;
    const Uses uses_;
    const FuseOptions& options_;
    Report& report_;
    std::vector<int> group_of_;  // by op; none: no kernel's
    std::vector<Group> groups_;
    std::vector<bool> apart_;                // by op: a view that kernels do not take in
    std::vector<std::int64_t> bytes_apart_;  // by op: what it alone would move
    std::map<std::pair<int, int>, std::string> declined_;
};

// ---- kernel functions of the module
// ----------------------------------------------------------------------------------------

// A name made of words.
std::string snake_case(std::string_view text) {
    std::string out;
    for (char c : text) {
        const bool letter = std::isalnum(static_cast<unsigned char>(c)) != 0;
        if (letter) {
            out += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
        } else if (!out.empty() && out.back() != '_') {
            out += '_';
        }
    }
    while (!out.empty() && out.back() == '_') out.pop_back();
    return out;
}

// The last part of a module path that is no number: "input_layernorm" of "model.layers.0.input_layernorm".
std::string scope_leaf(const std::string& scope) {
    std::size_t end = scope.size();
    while (end > 0) {
        const std::size_t dot = scope.rfind('.', end - 1);
        const std::size_t begin = dot == std::string::npos ? 0 : dot + 1;
        const std::string part = scope.substr(begin, end - begin);
        if (!part.empty() && std::isalpha(static_cast<unsigned char>(part.front())) != 0) return snake_case(part);
        if (dot == std::string::npos) break;
        end = dot;
    }
    return {};
}

// The ops that say most about a kernel: a reduction, what is costly, what comes last.
std::string dominant_ops(const Function& kernel) {
    std::string last, costly, reduction;
    for (const Op& op : kernel.ops) {
        if (op.name == "constant" || is_view(op)) continue;
        last = op.name;
        if (op.name.starts_with("reduce_")) reduction = op.name.substr(7);
        const auto& rule = op_def(op.name).elementwise;
        if (rule && rule->code.find("vec_math::") != std::string_view::npos) costly = op.name;
    }
    if (last.empty()) {
        for (const Op& op : kernel.ops) last = op.name;
        return last;
    }
    if (last.starts_with("reduce_")) last.clear();
    std::vector<std::string> words;
    for (const std::string& word : {last, costly, reduction}) {
        if (!word.empty() && std::find(words.begin(), words.end(), word) == words.end()) words.push_back(word);
    }
    return fmt::format("{}", fmt::join(words, "_"));
}

std::string what_of(const std::string& kind) {
    if (kind == "row_reduction") return "rows";
    if (kind == "column_reduction") return "columns";
    if (kind == "reduction") return "all";
    return "elements";
}

class KernelTable {
  public:
    explicit KernelTable(const Module& module) : module_(module) {
        for (const Function& f : module.functions) taken_.insert(f.name);
    }

    // The name of the kernel function; an equal one that is there already is taken.
    std::string add(Extracted& kernel) {
        Function canonical = kernel.function;
        for (ValueInfo& info : canonical.values) info.name = "v";
        canonical.name.clear();
        PrintOptions options;
        options.provenance = false;
        const std::string key = to_string(canonical, options);
        if (auto at = known_.find(key); at != known_.end()) return at->second;

        Function function = kernel.function;
        const KernelDescription description = describe_kernel(function);
        function.kind = "kernel:" + description.kind;
        function.scope = kernel.provenance.scope;
        const std::string leaf = scope_leaf(kernel.provenance.scope);
        std::string wanted, second;
        if (!kernel.composite.empty()) {
            // rms_norm_forward beside rms_norm_backward; where another kernel has that name, with the module's before
            // it. A part of what the menu has a call for does not take the call's name.
            const OpDef* whole = find_op(kernel.composite);
            const bool called = whole != nullptr && whole->call;
            const bool both = find_op(kernel.composite + "_backward") != nullptr;
            wanted = kernel.composite + (called ? "_" + dominant_ops(function) : both ? "_forward" : "");
            second = leaf.empty() ? wanted : leaf + "_" + wanted;
        } else {
            // Without a module's name a single word would be an operator of C++ or a function of its library.
            wanted = dominant_ops(function);
            wanted = leaf.empty()     ? wanted + "_" + what_of(description.kind)
                     : leaf == wanted ? leaf
                                      : leaf + "_" + wanted;
            second = wanted;
        }
        function.name = wanted;
        if (!taken_.insert(function.name).second) {
            function.name = second;
            for (int k = 2; !taken_.insert(function.name).second; ++k) function.name = fmt::format("{}_{}", second, k);
        }
        known_[key] = function.name;
        functions_.push_back(std::move(function));
        return functions_.back().name;
    }

    std::vector<Function>& functions() { return functions_; }

  private:
    const Module& module_;
    std::set<std::string> taken_;
    std::map<std::string, std::string> known_;  // printed form without names -> name
    std::vector<Function> functions_;
};

}  // namespace

Module fuse(Module module, const FuseOptions& options, Report& report) {
    KernelTable kernels(module);
    std::vector<Function> functions;
    for (const Function& function : module.functions) {
        if (!function.kind.empty()) {
            functions.push_back(function);
            continue;
        }
        FunctionFusion fusion(module, function, options, report);
        functions.push_back(fusion.run([&](Extracted& kernel) { return kernels.add(kernel); }));
    }
    for (Function& kernel : kernels.functions()) functions.push_back(std::move(kernel));
    module.functions = std::move(functions);
    return module;
}

}  // namespace thunderc
