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

// Attributes that only fusion reads.
void forget_origin(Op& op) {
    op.attributes.erase("part_of");
    op.attributes.erase("recomputed");
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
    std::vector<Value> operands;  // what the kernel reads
    double cost = 0;
    std::string why;  // there is no description
    int version = 0;  // counts what was merged into it
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

    void group() {
        classify();
        describe_all();
        if (!options_.fuse) return;
        collect_readers();
        merge_producers();
        merge_siblings();
    }

    // The function with values computed again by the kernels that read them, where that moves fewer bytes than keeping
    // them in memory does; none where there is no such value. One value of a kernel at a time: the next one may depend
    // on it.
    std::optional<Function> with_recomputed_values() const {
        if (!options_.fuse) return std::nullopt;
        std::vector<Recomputed> values;
        std::set<int> groups;
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            if (group_of_[k] == none || is_recomputed(static_cast<int>(k)) || groups.count(group_of_[k]) != 0) continue;
            if (auto value = worth_recomputing(static_cast<int>(k))) {
                groups.insert(group_of_[k]);
                values.push_back(std::move(*value));
            }
        }
        if (values.empty()) return std::nullopt;
        return recompute(values);
    }

    // The function with its groups called as kernels. `kernel_name` is asked for the name of each kernel function.
    Function run(const std::function<std::string(Extracted&)>& kernel_name) {
        if (options_.fuse) report_declined();
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
                begin_group(static_cast<int>(k));
            }
        }
    }

    void begin_group(int k) {
        group_of_[static_cast<std::size_t>(k)] = static_cast<int>(groups_.size());
        groups_.emplace_back();
        groups_.back().ops = {k};
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
                begin_group(view);
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
        for (Op& one : out.function.ops) forget_origin(one);
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
        group.operands = extracted.operands;
        group.cost = group.description ? cost_of(*group.description) : 0;
    }

    // The ops that read a result, through views that kernels take in.
    void collect_readers() {
        readers_.assign(f_.ops.size(), {});
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            if (is_transparent(static_cast<int>(k))) continue;
            std::vector<int> todo{static_cast<int>(k)};
            while (!todo.empty()) {
                const int one = todo.back();
                todo.pop_back();
                for (Value v : op(one).results) {
                    for (int user : uses_.users[v.index]) (is_transparent(user) ? todo : readers_[k]).push_back(user);
                }
            }
        }
    }

    // Whether something that depends on one of the groups is needed by one of them: they cannot be one then.
    bool interleaved(int a, int b) {
        ++walk_;
        seen_.resize(f_.ops.size(), 0);
        std::vector<int> todo;
        auto leave = [&](int k) {  // towards what reads op k, and where that is in a kernel, any result of the kernel
            for (int reader : readers_[static_cast<std::size_t>(k)]) {
                if (seen_[static_cast<std::size_t>(reader)] == walk_) continue;
                seen_[static_cast<std::size_t>(reader)] = walk_;
                todo.push_back(reader);
            }
        };
        for (int g : {a, b}) {
            for (int member : groups_[static_cast<std::size_t>(g)].ops) {
                for (int reader : readers_[static_cast<std::size_t>(member)]) {
                    const int of = group_of_[static_cast<std::size_t>(reader)];
                    if (of == a || of == b || seen_[static_cast<std::size_t>(reader)] == walk_) continue;
                    seen_[static_cast<std::size_t>(reader)] = walk_;
                    todo.push_back(reader);
                }
            }
        }
        while (!todo.empty()) {
            const int k = todo.back();
            todo.pop_back();
            const int g = group_of_[static_cast<std::size_t>(k)];
            if (g != none && (g == a || g == b)) return true;
            if (g == none) {
                leave(k);
            } else {
                for (int member : groups_[static_cast<std::size_t>(g)].ops) leave(member);
            }
        }
        return false;
    }

    bool try_merge(int a, int b, double least_saving) {
        if (a == b) return false;
        Group& first = groups_[static_cast<std::size_t>(a)];
        Group& second = groups_[static_cast<std::size_t>(b)];
        // What did not fit does not fit the second time.
        auto& tried = tried_[{std::min(a, b), std::max(a, b)}];
        const std::pair<int, int> versions{groups_[static_cast<std::size_t>(std::min(a, b))].version,
                                           groups_[static_cast<std::size_t>(std::max(a, b))].version};
        if (tried.why.empty() || tried.versions != versions) {
            tried.versions = versions;
            tried.why = "another op stands between them";
            if (interleaved(a, b)) return false;
            Group merged;
            std::merge(first.ops.begin(), first.ops.end(), second.ops.begin(), second.ops.end(),
                       std::back_inserter(merged.ops));
            for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = a;
            const Extracted extracted = extract(merged.ops, a);
            merged.operands = extracted.operands;
            merged.description = try_describe_kernel(extracted.function, &merged.why);
            if (merged.description) {
                merged.cost = cost_of(*merged.description);
                if (merged.cost <= (first.cost + second.cost) * (1 - least_saving)) {
                    merged.version = first.version + second.version + 1;
                    first = std::move(merged);
                    second = Group{};
                    return true;
                }
                merged.why = "it would cost more in recomputation than it saves in memory traffic";
            }
            for (int k : second.ops) group_of_[static_cast<std::size_t>(k)] = b;
            tried.why = merged.why;
        }
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
                // What is computed again belongs to who reads it, not to where its operands come from.
                const std::vector<int>& own = groups_[static_cast<std::size_t>(group_of_[k])].ops;
                if (std::all_of(own.begin(), own.end(), [&](int one) { return is_recomputed(one); })) continue;
                for (int producer : producers(static_cast<int>(k))) {
                    changed = try_merge(producer, group_of_[k], 0) || changed;
                }
            }
        }
    }

    // What all ops of a group were part of; "" where they were part of several things.
    std::string composite_of(int group) const {
        std::string whole;
        for (int k : groups_[static_cast<std::size_t>(group)].ops) {
            const std::string part_of = op(k).attributes.string("part_of", "");
            if (part_of.empty() || (!whole.empty() && whole != part_of)) return {};
            whole = part_of;
        }
        return whole;
    }

    // Kernels that read the same tensor, and neither needs the other.
    void merge_siblings() {
        for (bool changed = true; changed;) {
            changed = false;
            std::map<Value, std::vector<int>> readers;
            for (std::size_t g = 0; g < groups_.size(); ++g) {
                for (Value v : groups_[g].operands) {
                    if (f_.type(v).elements() > 1) readers[v].push_back(static_cast<int>(g));
                }
            }
            for (const auto& [v, groups] : readers) {
                for (std::size_t i = 0; i < groups.size(); ++i) {
                    for (std::size_t j = i + 1; j < groups.size(); ++j) {
                        if (groups_[static_cast<std::size_t>(groups[i])].ops.empty())
                            break;  // merged into another by now
                        if (groups_[static_cast<std::size_t>(groups[j])].ops.empty()) continue;
                        // Parts of the same composite belong together: queries and keys are rotated by one kernel.
                        const std::string whole = composite_of(groups[i]);
                        const bool same = !whole.empty() && whole == composite_of(groups[j]);
                        changed = try_merge(groups[i], groups[j], same ? 0 : 0.05) || changed;
                    }
                }
            }
        }
    }

    // ---- values that are cheaper to compute again ----

    bool is_recomputed(int k) const { return op(k).attributes.has("recomputed"); }

    // Whether the value is memory whatever becomes of `of`, a value of the same group.
    bool in_memory_without(Value v, int group, Value of) const {
        const int k = definition(v);
        if (k < 0 || group_of_[static_cast<std::size_t>(k)] != group) return !is_transparent(k);
        if (v == of) return false;
        return escapes(v, group);
    }

    // The ops that compute a value from what is in memory anyway: pointwise, cheap and few. False where there are none
    // such.
    bool cheap_ops(Value v, int group, Value of, std::set<int>& ops) const {
        constexpr std::size_t most = 6;
        const int k = definition(v);
        if (k >= 0 && is_transparent(k)) {
            ops.insert(k);
        } else if (in_memory_without(v, group, of)) {
            return true;
        } else {
            const auto& rule = op_def(op(k).name).elementwise;
            if (!rule || rule->code.find("vec_math::") != std::string_view::npos) return false;
            ops.insert(k);
        }
        if (ops.size() > 2 * most) return false;
        const auto& operands = op(k).operands;
        return std::all_of(operands.begin(), operands.end(), [&](Value o) { return cheap_ops(o, group, of, ops); });
    }

    struct Recomputed {
        Value value;
        int group;          // that computes it
        std::set<int> ops;  // … by these, in order
    };

    std::optional<Recomputed> worth_recomputing(int k) const {
        const int group = group_of_[static_cast<std::size_t>(k)];
        const Value v = op(k).results[0];
        if (uses_.is_result[v.index]) return std::nullopt;
        std::set<int> readers;  // groups
        for (int user : uses_.users[v.index]) {
            const int of = group_of_[static_cast<std::size_t>(user)];
            if (of == none) return std::nullopt;
            if (of != group) readers.insert(of);
        }
        if (readers.empty()) return std::nullopt;
        Recomputed result{v, group, {}};
        if (!cheap_ops(v, group, v, result.ops)) return std::nullopt;
        // What the readers would have to read in its place.
        std::set<Value> sources;
        for (int one : result.ops) {
            for (Value o : op(one).operands) {
                if (definition(o) < 0 || result.ops.count(definition(o)) == 0) sources.insert(o);
            }
        }
        auto bytes = [this](Value o) { return static_cast<std::int64_t>(f_.type(o).bytes()); };
        std::int64_t saved = bytes(v);
        for (int reader : readers) {
            std::set<Value> more = sources;
            for (Value o : groups_[static_cast<std::size_t>(reader)].operands) more.erase(o);
            saved += bytes(v);
            for (Value o : more) saved -= bytes(o);
        }
        if (saved <= 0) return std::nullopt;
        return result;
    }

    Function recompute(const std::vector<Recomputed>& values) const {
        Function out = f_;
        out.ops.clear();
        Builder builder(out);
        std::map<Value, const Recomputed*> wanted;
        for (const Recomputed& one : values) wanted[one.value] = &one;
        std::map<std::pair<Value, int>, Value> copies;  // by value and the group that reads it
        for (std::size_t j = 0; j < f_.ops.size(); ++j) {
            const int reader = group_of_[j];
            std::vector<Value> operands = f_.ops[j].operands;
            for (Value& operand : operands) {
                const auto at = wanted.find(operand);
                if (at == wanted.end() || at->second->group == reader) continue;
                Value& copy = copies[{operand, reader}];
                if (!copy) {
                    std::map<Value, Value> moved;
                    for (int c : at->second->ops) {
                        std::vector<Value> from = op(c).operands;
                        for (Value& o : from) {
                            if (moved.count(o) != 0) o = moved[o];
                        }
                        moved[op(c).results[0]] = builder.clone(op(c), from, f_).front();
                        out.ops.back().attributes.set("recomputed", true);
                    }
                    copy = moved.at(operand);
                }
                operand = copy;
            }
            out.ops.push_back(f_.ops[j]);
            out.ops.back().operands = std::move(operands);
        }
        return out;
    }

    void report_declined() {
        std::set<std::pair<int, int>> said;
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            const int g = group_of_[k];
            if (g == none) continue;
            for (int producer : producers(static_cast<int>(k))) {
                if (producer == g || !said.insert({producer, g}).second) continue;
                const auto tried = tried_.find({std::min(producer, g), std::max(producer, g)});
                report_.declined(
                    "fuse", where(g),
                    fmt::format("not with the kernel of {} that it reads: {}", where(producer),
                                tried == tried_.end() ? "another op stands between them" : tried->second.why));
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
                forget_origin(out.ops.back());
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
    struct Tried {
        std::pair<int, int> versions;
        std::string why;
    };
    std::map<std::pair<int, int>, Tried> tried_;  // pairs that did not become one
    std::vector<std::vector<int>> readers_;       // by op, through views
    std::vector<int> seen_;                       // by op: the last walk that came by
    int walk_ = 0;
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

// Names of a composite's kernel that several modules share say nothing of the first one:
// "post_attention_layernorm_weight" is "weight", the module's own output "y", the gradients of these "dweight" and
// "dy".
void drop_module_names(Extracted& kernel) {
    std::set<std::string> leaves;
    for (const Op& op : kernel.function.ops) leaves.insert(scope_leaf(op.provenance.scope));
    leaves.erase("");
    std::set<Value> arguments(kernel.function.arguments.begin(), kernel.function.arguments.end());
    for (std::size_t k = 0; k < kernel.function.values.size(); ++k) {
        ValueInfo& info = kernel.function.values[k];
        std::string name = info.name;
        std::replace(name.begin(), name.end(), '.', '_');
        const bool argument = arguments.count(Value{static_cast<std::uint32_t>(k)}) != 0;
        for (const std::string& leaf : leaves) {
            const std::size_t at = name.find(leaf);
            if (at == std::string::npos) continue;
            const std::string before = name.substr(0, at), after = name.substr(at + leaf.size());
            if (before.empty() && after.empty()) {
                name = argument ? "x" : "y";
            } else if (before == "d" && after.empty()) {
                name = argument ? "dy" : "dx";
            } else if ((before.empty() || before == "d" || before == "grad_" || before.back() == '_') &&
                       after.starts_with("_")) {
                name = (before == "d" || before.starts_with("grad_") ? "d" : "") + after.substr(1);
            }
            if (name != info.name && !name.empty()) info.name = name;
            break;
        }
    }
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

        if (!kernel.composite.empty()) drop_module_names(kernel);
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
        Function current = function;
        constexpr int most_rounds = 8;
        for (int round = 0;; ++round) {
            FunctionFusion fusion(module, current, options, report);
            fusion.group();
            std::optional<Function> next;
            if (round < most_rounds) next = fusion.with_recomputed_values();
            if (!next) {
                functions.push_back(fusion.run([&](Extracted& kernel) { return kernels.add(kernel); }));
                break;
            }
            current = std::move(*next);
        }
    }
    for (Function& kernel : kernels.functions()) functions.push_back(std::move(kernel));
    module.functions = std::move(functions);
    return module;
}

}  // namespace thunderc
