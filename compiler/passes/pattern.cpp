// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/ir/op_def.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// Merges neighbours that form one run, and leaves out atoms of one element.
std::vector<ViewAtom> canonical(const std::vector<ViewAtom>& atoms) {
    std::vector<ViewAtom> out;
    for (const ViewAtom& atom : atoms) {
        if (atom.size == 1) continue;
        if (!out.empty() && out.back().stride == atom.stride * atom.size)
            out.back() = {out.back().size * atom.size, atom.stride};
        else
            out.push_back(atom);
    }
    return out;
}

// The atoms of a reshaped view; nullopt where a boundary of the new shape falls inside an atom in a way that does not
// divide it.
std::optional<std::vector<std::vector<ViewAtom>>> regroup(const std::vector<std::vector<ViewAtom>>& from,
                                                          const Dims& to) {
    std::vector<ViewAtom> flat;
    for (const auto& group : from)
        for (const ViewAtom& atom : group)
            if (atom.size != 1) flat.push_back(atom);
    std::vector<std::vector<ViewAtom>> out(to.size());
    std::size_t next = 0;
    for (std::size_t d = 0; d < to.size(); ++d) {
        std::int64_t want = to[d];
        while (want > 1) {
            if (next == flat.size()) return std::nullopt;
            ViewAtom& atom = flat[next];
            if (want % atom.size == 0) {
                out[d].push_back(atom);
                want /= atom.size;
                ++next;
            } else if (atom.size % want == 0) {
                std::int64_t rest = atom.size / want;
                out[d].push_back({want, atom.stride * rest});
                atom.size = rest;
                want = 1;
            } else {
                return std::nullopt;
            }
        }
        if (want != 1) return std::nullopt;  // a dimension of no elements
        out[d] = canonical(out[d]);
    }
    return next == flat.size() ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<std::vector<std::vector<ViewAtom>>> step(const Op& op, const std::vector<std::vector<ViewAtom>>& in,
                                                       const Dims& from, const Dims& to) {
    const OpDef& def = op_def(op.name);
    if (!def.view) return in;  // a product with a scalar
    const ViewIndex view = def.view(op.attributes, from, to);
    if (view.kind == ViewIndex::Kind::regrouped) return regroup(in, to);
    std::vector<std::vector<ViewAtom>> out(to.size());
    for (std::size_t d = 0; d < to.size(); ++d)
        if (to[d] != 1) out[d] = {{to[d], 0}};  // repeated
    for (std::size_t d = 0; d < from.size(); ++d)
        if (const auto& [axis, begin, step] = view.axes[d]; step != 0) out[axis] = in[d];
    return out;
}

// A view of all elements.
bool is_whole_view(const Op& op, const Dims& from, const Dims& to) {
    const OpDef& def = op_def(op.name);
    return def.view && def.view(op.attributes, from, to).kind != ViewIndex::Kind::cut;
}

}  // namespace

Provenance Matched::provenance() const {
    Provenance out;
    for (const Op* op : ops_) out = merge(out, op->provenance);
    return out;
}

std::string replaced_text(const Provenance& provenance) {
    std::string out;
    for (const std::string& op : provenance.node_ops) out += (out.empty() ? "from " : ", ") + op;
    return out;
}

std::string where(const Provenance& provenance) {
    if (!provenance.scope.empty() || provenance.nodes.empty()) return provenance.scope;
    return provenance.nodes.back();
}

Provenance place(const Provenance& provenance) {
    return {provenance.scope, provenance.module_class, {}, {}};
}

double shortest(double value) {
    const auto single = static_cast<float>(value);
    return single == value ? std::strtod(fmt::format("{}", single).c_str(), nullptr) : value;
}

Definitions::Definitions(const Function& function, const std::vector<Op>& ops)
    : function_(&function),
      definition_(function.values.size(), nullptr),
      uses_(function.values.size(), 0),
      user_(function.values.size(), nullptr),
      parameter_(function.values.size(), false) {
    types_.reserve(function.values.size());
    for (const ValueInfo& info : function.values) types_.push_back(info.type);
    for (const Op& op : ops) {
        for (Value v : op.results) definition_[v.index] = &op;
        for (Value v : op.operands)
            if (v) {
                ++uses_[v.index];
                user_[v.index] = &op;
            }
    }
    for (Value v : function.results)
        if (v) {
            ++uses_[v.index];
            user_[v.index] = nullptr;
        }
    for (std::size_t k = 0; k < function.arguments.size(); ++k)
        parameter_[function.arguments[k].index] =
            function.argument_info.empty() || function.argument_info[k].kind == ArgInfo::Kind::parameter;
}

const Op* Definitions::op(Value v) const {
    return v ? definition_[v.index] : nullptr;
}

const Op* Definitions::op(Value v, std::string_view name) const {
    const Op* found = op(v);
    return found != nullptr && found->name == name ? found : nullptr;
}

const Op* Definitions::only_user(Value v) const {
    return single_use(v) ? user_[v.index] : nullptr;
}

ConstPtr Definitions::constant(Value v) const {
    const Op* found = op(v, "constant");
    return found != nullptr ? found->attributes.constant("value") : nullptr;
}

std::optional<double> Definitions::splat(Value v) const {
    ConstPtr expr = constant(v);
    return expr ? splat_value(*expr) : std::nullopt;
}

Value Definitions::uncast(Value v, Matched& matched) const {
    for (const Op* cast = op(v, "cast");
         cast != nullptr && is_float(type(cast->operands[0]).dtype) && is_float(type(v).dtype); cast = op(v, "cast")) {
        matched.add(cast);
        v = cast->operands[0];
    }
    return v;
}

std::optional<Scaled> Definitions::scaled(Value v, Matched& matched) const {
    const Op* found = op(v);
    if (found == nullptr) return std::nullopt;
    std::optional<Scaled> out;
    if (found->name == "neg") {
        out = Scaled{found->operands[0], -1};
    } else if (found->name == "mul" || found->name == "div") {
        Value a = found->operands[0], b = found->operands[1];
        if (std::optional<double> by = splat(b))
            out = Scaled{a, found->name == "mul" ? *by : 1 / *by};
        else if (std::optional<double> left = splat(a); left && found->name == "mul")
            out = Scaled{b, *left};
    }
    // A constant of more dimensions would have changed the shape.
    if (!out || type(out->x) != type(v)) return std::nullopt;
    matched.add(found);
    return out;
}

// No pattern has more; a graph that squares again and again would have 2^n.
constexpr std::size_t most_factors = 64;

Product Definitions::product(Value v) const {
    Product out;
    std::vector<Value> open = {v};
    while (!open.empty()) {
        Value next = open.back();
        open.pop_back();
        if (std::optional<Scaled> s = scaled(next, out.matched)) {
            out.constant *= s->by;
            open.push_back(s->x);
        } else if (const Op* mul = op(next, "mul"); mul != nullptr && out.factors.size() + open.size() < most_factors &&
                                                    type(mul->operands[0]) == type(mul->operands[1])) {
            out.matched.add(mul);
            open.push_back(mul->operands[1]);
            open.push_back(mul->operands[0]);
        } else {
            out.factors.push_back(next);
        }
    }
    return out;
}

bool Definitions::is_parameter(Value v) const {
    Matched passed;
    v = uncast(v, passed);
    return parameter_[v.index] || op(v, "member") != nullptr;
}

std::size_t axis_of(const Op& op, const Type& type) {
    std::optional<std::int64_t> axis = normalize_axis(op.attributes.integer("axis"), type.rank());
    check(axis.has_value(), "the axis of " + op.name + " is out of range");
    return static_cast<std::size_t>(*axis);
}

View view_of(const Definitions& definitions, Value v) {
    // Back to the first value that is no view; then forward again, as far as the atoms can follow.
    std::vector<const Op*> chain;
    std::vector<double> factors;
    Value at = v;
    for (const Op* op = definitions.op(at); op != nullptr && !op->operands.empty(); op = definitions.op(at)) {
        Matched ignored;
        double factor = 1;
        if (std::optional<Scaled> s = definitions.scaled(at, ignored)) {
            factor = s->by;
            at = s->x;
        } else if (is_whole_view(*op, definitions.type(op->operands[0]).dims, definitions.type(at).dims)) {
            at = op->operands[0];
        } else {
            break;
        }
        chain.push_back(op);
        factors.push_back(factor);
    }
    View view;
    auto start = [&](Value base) {
        view = {};
        view.base = base;
        const Dims& dims = definitions.type(base).dims;
        const Dims strides = dense_strides(dims);
        for (std::size_t d = 0; d < dims.size(); ++d)
            view.dims.push_back(dims[d] == 1 ? std::vector<ViewAtom>{} : std::vector<ViewAtom>{{dims[d], strides[d]}});
    };
    start(at);
    for (std::size_t k = chain.size(); k-- > 0;) {
        const Op& op = *chain[k];
        Matched ignored;
        Value from = at;
        at = op.results[0];
        auto dims = step(op, view.dims, definitions.type(from).dims, definitions.type(at).dims);
        if (!dims) {
            start(at);  // a copy is needed here: what follows is a view of that copy
            continue;
        }
        view.dims = std::move(*dims);
        view.scale *= factors[k];
        view.matched.add(&op);
    }
    return view;
}

std::int64_t size_of(const std::vector<ViewAtom>& atoms) {
    std::int64_t size = 1;
    for (const ViewAtom& atom : atoms) size *= atom.size;
    return size;
}

Value materialise(Builder& b, Value base, const std::vector<std::vector<ViewAtom>>& groups, const Dims& dims) {
    struct Placed {
        ViewAtom atom;
        std::size_t position = 0;
    };
    std::vector<Placed> atoms;
    for (const auto& group : groups)
        for (const ViewAtom& atom : group) atoms.push_back({atom, atoms.size()});
    std::stable_sort(atoms.begin(), atoms.end(),
                     [](const Placed& x, const Placed& y) { return x.atom.stride > y.atom.stride; });
    std::int64_t expected = b.type(base).elements();
    Dims sizes, permutation(atoms.size());
    for (std::size_t k = 0; k < atoms.size(); ++k) {
        sizes.push_back(atoms[k].atom.size);
        expected /= atoms[k].atom.size;
        if (atoms[k].atom.stride != expected) return {};
        permutation[atoms[k].position] = static_cast<std::int64_t>(k);
    }
    if (expected != 1) return {};
    if (std::is_sorted(permutation.begin(), permutation.end())) return b.reshape(base, dims);
    return b.reshape(b.transpose(b.reshape(base, sizes), permutation), dims);
}

}  // namespace thunderc
