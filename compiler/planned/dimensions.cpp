// SPDX-License-Identifier: Apache-2.0
#include "compiler/planned/dimensions.h"

#include <algorithm>
#include <optional>
#include <set>
#include <sstream>
#include <tuple>

#include "compiler/analysis/views.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/ops/linear.h"
#include "compiler/planned/parameter_arenas.h"
#include "compiler/support/error.h"

namespace thunderc {

// Walks over the module until nothing more is found to be the same.
class Dimensions::Finder {
  public:
    Finder(Dimensions& d, const Module& module) : d_(d), module_(module) {}

    void run() {
        for (const Function& f : module_.functions) {
            std::vector<Id>& first = d_.first_[&f];
            for (const ValueInfo& info : f.values) {
                first.push_back(static_cast<Id>(d_.extents_.size()));
                for (std::int64_t extent : info.type.dims) fresh(extent);
            }
        }
        same_places();
        // What a walk finds in a function that is called may say more about its callers, and the other way round.
        constexpr int most_walks = 8;
        for (int walk = 0; walk < most_walks; ++walk) {
            changed_ = false;
            for (const Function& f : module_.functions)
                for (const Op& op : f.ops) visit(f, op);
            same_parts();
            if (!changed_) break;
        }
    }

  private:
    Id fresh(std::int64_t extent) {
        d_.extents_.push_back(extent);
        d_.parent_.push_back(static_cast<Id>(d_.parent_.size()));
        return d_.parent_.back();
    }

    void unify(Id a, Id b) {
        if (a == none || b == none) return;
        a = d_.root(a), b = d_.root(b);
        if (a == b || d_.extent(a) != d_.extent(b)) return;
        if (b < a) std::swap(a, b);
        d_.parent_[static_cast<std::size_t>(b)] = a;
        if (auto parts = d_.parts_.find(b); parts != d_.parts_.end()) {
            std::vector<Parts> moved = std::move(parts->second);
            d_.parts_.erase(parts);
            for (Parts& p : moved) made_of(a, std::move(p));
        }
        changed_ = true;
    }

    // Equal parts in equal places are one; those of another kind are kept beside them.
    void made_of(Id whole, Parts parts) {
        whole = d_.root(whole);
        for (Parts& known : d_.parts_[whole]) {
            if (known.product != parts.product || known.ids.size() != parts.ids.size()) continue;
            bool same = true;
            for (std::size_t k = 0; k < parts.ids.size(); ++k)
                same = same && d_.extent(known.ids[k]) == d_.extent(parts.ids[k]);
            if (!same) continue;
            const std::vector<Id> ids = known.ids;
            for (std::size_t k = 0; k < ids.size(); ++k) unify(ids[k], parts.ids[k]);
            return;
        }
        if (std::find(parts.ids.begin(), parts.ids.end(), whole) != parts.ids.end()) return;
        d_.parts_[whole].push_back(std::move(parts));
        changed_ = true;
    }

    // A parameter, its gradient and the optimizer's state lie at the same offset of their arenas; an input lies in one
    // place for all functions that read it, and what a function library gives in that of the argument for it.
    void same_places() {
        using Arena = Placement::Arena;
        const ParameterArenas arenas(module_);
        std::map<std::tuple<Arena, std::int64_t, std::int64_t>, std::pair<const Function*, Value>> known;
        for (const Function& f : module_.functions) {
            for (std::uint32_t k = 0; k < f.values.size(); ++k) {
                const Placement& p = f.values[k].placement;
                const Value v{k};
                const bool own = p.arena == Arena::batch || p.arena == Arena::results;
                const bool parameter = p.arena == Arena::parameters || p.arena == Arena::gradients ||
                                       p.arena == Arena::optimizer || p.arena == Arena::narrow_copies;
                // Of a sharded model, the tensors that lie in units.
                const bool unit = p.arena == Arena::gathered || p.arena == Arena::unit_gradients;
                if (unit) {
                    const auto [at, is_new] = known.try_emplace({p.arena, p.offset, p.layer_stride}, std::pair(&f, v));
                    if (!is_new) unify_all(f, v, *at->second.first, at->second.second);
                    continue;
                }
                if (!own && !parameter) continue;
                const std::optional<std::int64_t> element =
                    own ? std::nullopt : arenas.element(p.arena, p.offset, f.values[k].type.dtype);
                const auto size = static_cast<std::int64_t>(size_of(f.values[k].type.dtype));
                // Of several arenas, that of gradients stands for all in which an element is the same parameter's.
                const auto [at, is_new] =
                    known.try_emplace({element ? Arena::gradients : p.arena, element.value_or(p.offset),
                                       element ? p.layer_stride / size : p.layer_stride},
                                      std::pair(&f, v));
                if (!is_new) unify_all(f, v, *at->second.first, at->second.second);
            }
        }
    }

    Id at(const Function& f, Value v, std::size_t axis) const { return d_.of(f, v, axis); }
    std::size_t rank(const Function& f, Value v) const { return f.type(v).dims.size(); }

    void unify_all(const Function& f, Value v, const Function& g, Value w) {
        if (!v || !w || rank(f, v) != rank(g, w)) return;
        for (std::size_t d = 0; d < rank(f, v); ++d) unify(at(f, v, d), at(g, w, d));
    }

    void unify_parts(const Function& f, Value family, Value whole) {
        for (std::size_t d = 0; d < rank(f, family); ++d) unify(at(f, family, d), at(f, whole, d + 1));
    }

    void visit(const Function& f, const Op& op) {
        if (is_loop(op)) return call(f, op, callee(module_, op));
        if (is_function_call(op)) return call(f, op, callee(module_, op));
        if (is_kernel_call(op)) return call(f, op, *module_.find(called_kernel(op)));
        if (is_constant_op(op)) return;
        if (is_family_op(op) || is_member_op(op) || is_copy(op)) {
            for (Value v : op.operands) unify_all(f, v, f, op.results[0]);
            return;
        }
        if (is_stack(op)) return unify_parts(f, op.operands[0], op.results[0]);
        if (is_unstack(op)) return unify_parts(f, op.results[0], op.operands[0]);
        const OpDef& def = op_def(op.name);
        if (def.level == OpLevel::primitive && def.elementwise) return elementwise(f, op);
        const std::optional<ViewIndex> view = view_index(f, op);
        if (view && view->kind == ViewIndex::Kind::regrouped) return reshape(f, op);
        // Flat tensors of several ranks have sizes of their own.
        if (op.attributes.has("group") && !is_collective(op, Collective::all_reduce)) return;
        if (def.reduction) return reduce(f, op);
        if (view && view->kind == ViewIndex::Kind::cut) return slice(f, op);
        if (view && view->kind == ViewIndex::Kind::repeated) return elementwise(f, op);
        if (view) {
            for (std::size_t d = 0; d < view->axes.size(); ++d)
                unify(at(f, op.results[0], view->axes[d].axis), at(f, op.operands[0], d));
            return;
        }
        if (op.name == "concat") return concat(f, op);
        if (op.name == "pad") return unify_all(f, op.operands[0], f, op.results[0]);
        if (def.call) return runtime_call(f, op, def);
    }

    // Operands and arguments have the same order, and so have results.
    void call(const Function& f, const Op& op, const Function& callee) {
        for (std::size_t k = 0; k < op.operands.size() && k < callee.arguments.size(); ++k)
            unify_all(f, op.operands[k], callee, callee.arguments[k]);
        for (std::size_t r = 0; r < op.results.size() && r < callee.results.size(); ++r)
            unify_all(f, op.results[r], callee, callee.results[r]);
    }

    void elementwise(const Function& f, const Op& op) {
        const Value y = op.results[0];
        for (Value v : op.operands) {
            if (!v || rank(f, v) > rank(f, y)) continue;
            const std::size_t shift = rank(f, y) - rank(f, v);
            const bool whole = f.type(v).dims == f.type(y).dims;
            for (std::size_t d = 0; d < rank(f, v); ++d) {
                // Among tensors of other shapes 1 stands for a dimension that is not there.
                if (whole || f.type(v).dims[d] != 1) unify(at(f, v, d), at(f, y, d + shift));
            }
        }
    }

    void reduce(const Function& f, const Op& op) {
        const std::size_t n = rank(f, op.operands[0]);
        std::vector<bool> reduced(n, false);
        for (std::int64_t axis : op.attributes.integers("axes"))
            reduced[static_cast<std::size_t>(*normalize_axis(axis, static_cast<std::int64_t>(n)))] = true;
        const bool keep = op.attributes.boolean("keep_dims", false);
        for (std::size_t d = 0, to = 0; d < n; ++d) {
            if (!reduced[d]) unify(at(f, op.operands[0], d), at(f, op.results[0], to));
            if (!reduced[d] || keep) ++to;
        }
    }

    // Dimensions that are the same from the left or from the right stay; what lies between is folded or unfolded.
    void reshape(const Function& f, const Op& op) {
        const Value x = op.operands[0], y = op.results[0];
        const Dims &from = f.type(x).dims, &to = f.type(y).dims;
        std::size_t a = 0, b = 0, a_end = from.size(), b_end = to.size();
        for (; a < a_end && b < b_end && from[a] == to[b]; ++a, ++b) unify(at(f, x, a), at(f, y, b));
        for (; a < a_end && b < b_end && from[a_end - 1] == to[b_end - 1]; --a_end, --b_end)
            unify(at(f, x, a_end - 1), at(f, y, b_end - 1));
        while (a < a_end && b < b_end) {
            // The shortest pieces that hold equally many elements.
            std::vector<Id> left{at(f, x, a)}, right{at(f, y, b)};
            std::int64_t l = from[a++], r = to[b++];
            while (l != r) {
                if (l < r && a < a_end) {
                    l *= from[a];
                    left.push_back(at(f, x, a++));
                } else if (r < l && b < b_end) {
                    r *= to[b];
                    right.push_back(at(f, y, b++));
                } else {
                    return;
                }
            }
            std::erase_if(left, [this](Id id) { return d_.extent(id) == 1; });
            std::erase_if(right, [this](Id id) { return d_.extent(id) == 1; });
            if (left.size() == 1 && right.size() == 1) {
                unify(left[0], right[0]);
            } else if (left.size() == 1 && right.size() > 1) {
                made_of(left[0], {true, right});
            } else if (right.size() == 1 && left.size() > 1) {
                made_of(right[0], {true, left});
            }
        }
    }

    std::size_t axis_of(const Function& f, const Op& op) const {
        return static_cast<std::size_t>(
            *normalize_axis(op.attributes.integer("axis"), static_cast<std::int64_t>(rank(f, op.results[0]))));
    }

    // A slice that is one of the parts that lie side by side has that part's size.
    void slice(const Function& f, const Op& op) {
        const std::size_t axis = axis_of(f, op);
        for (std::size_t d = 0; d < rank(f, op.results[0]); ++d)
            if (d != axis) unify(at(f, op.operands[0], d), at(f, op.results[0], d));
        const Id whole = at(f, op.operands[0], axis), part = at(f, op.results[0], axis);
        if (d_.extent(whole) == d_.extent(part)) return unify(whole, part);
        std::optional<Id> same;
        for (const Parts& parts : d_.made_of(whole)) {
            if (parts.product) continue;
            std::int64_t begin = 0;
            for (Id id : parts.ids) {
                if (begin == op.attributes.integer("begin") && d_.extent(id) == d_.extent(part)) same = id;
                begin += d_.extent(id);
            }
        }
        if (same) unify(*same, part);
        // Slices that leave nothing out are parts, too: the halves that a rotation works on.
        auto& pieces = pieces_[{&f, op.operands[0].index, axis}];
        if (op.attributes.integer("step") != 1 || d_.extent(part) == 0) return;  // an empty one leads nowhere
        pieces.try_emplace(op.attributes.integer("begin"), op.attributes.integer("end"), part);
        std::vector<Id> ids;
        std::int64_t end = 0;
        for (auto at = pieces.find(0); at != pieces.end() && end < d_.extent(whole); at = pieces.find(end)) {
            end = at->second.first;
            ids.push_back(d_.root(at->second.second));
        }
        if (end == d_.extent(whole)) made_of(whole, {false, ids});
    }

    // What is made of the same parts is the same.
    void same_parts() {
        std::map<std::pair<bool, std::vector<Id>>, Id> known;
        std::vector<std::pair<Id, Id>> same;
        for (const auto& [whole, all] : d_.parts_)
            for (const Parts& parts : all) {
                std::vector<Id> ids = parts.ids;
                for (Id& id : ids) id = d_.root(id);
                const auto [at, is_new] = known.try_emplace({parts.product, std::move(ids)}, whole);
                if (!is_new) same.emplace_back(at->second, whole);
            }
        for (const auto& [a, b] : same) unify(a, b);
    }

    void concat(const Function& f, const Op& op) {
        const std::size_t axis = axis_of(f, op);
        std::vector<Id> ids;
        for (Value v : op.operands) {
            for (std::size_t d = 0; d < rank(f, v); ++d)
                if (d != axis) unify(at(f, v, d), at(f, op.results[0], d));
            ids.push_back(at(f, v, axis));
        }
        if (ids.size() > 1) made_of(at(f, op.results[0], axis), {false, ids});
    }

    // What the call names so is the product of several dimensions.
    void fold(const Op& op, const std::string& name, std::vector<Id> parts) {
        Id& folded = d_.calls_.try_emplace({&op, name}, none).first->second;
        if (folded == none) {
            std::int64_t extent = 1;
            for (Id id : parts) extent *= d_.extent(id);
            folded = fresh(extent);
        }
        if (d_.extent(folded) > 1) made_of(folded, {true, std::move(parts)});
    }

    // By the shapes that the call gives to its tensors.
    void runtime_call(const Function& f, const Op& op, const OpDef& def) {
        const RuntimeCall call = def.call(op, f);
        std::map<std::string, Id> here;
        std::vector<Id> rows;
        auto same = [&](const std::string& name, Id id) {
            auto [at, is_new] = here.emplace(name, id);
            if (!is_new) unify(at->second, id);
        };
        for (const CallField& field : call.fields) {
            if (field.shape.empty()) continue;
            const Value v = field.kind == CallField::Kind::operand  ? op.operands.at(field.index)
                            : field.kind == CallField::Kind::result ? op.results.at(field.index)
                                                                    : Value{};
            if (!v) continue;
            std::istringstream words(field.shape);
            std::vector<std::string> names;
            for (std::string word; words >> word;) names.push_back(word);
            std::size_t leading = 0;
            if (names.front() == "...") {
                names.erase(names.begin());
                if (rank(f, v) < names.size()) continue;
                leading = rank(f, v) - names.size();
                if (rows.empty())
                    for (std::size_t d = 0; d < leading; ++d) rows.push_back(at(f, v, d));
                if (rows.size() == leading)
                    for (std::size_t d = 0; d < leading; ++d) unify(rows[d], at(f, v, d));
            }
            if (!names.empty() &&
                names.back().ends_with("...")) {  // "rows width...": the dimensions from there on are the call's width
                if (rank(f, v) < names.size()) continue;
                std::vector<Id> behind;
                for (std::size_t d = names.size() - 1; d < rank(f, v); ++d) behind.push_back(at(f, v, d));
                names.back().resize(names.back().size() - 3);
                if (behind.size() > 1) fold(op, names.back(), std::move(behind));
                if (behind.size() != 1) names.pop_back();
                leading = 0;
            } else if (rank(f, v) != leading + names.size()) {
                continue;
            }
            for (std::size_t d = 0; d < names.size(); ++d)
                if (extent_is(call, names[d], f.type(v).dims[leading + d])) same(names[d], at(f, v, leading + d));
        }
        if (rows.size() == 1) same("rows", rows[0]);
        if (rows.size() > 1) fold(op, "rows", rows);
        for (const std::vector<Value>& side_by_side : adjacent_values(op)) {
            std::vector<Id> ids;
            for (Value v : side_by_side) {
                ids.push_back(at(f, v, 0));
                for (std::size_t d = 1; d < rank(f, v); ++d) unify(at(f, v, d), at(f, side_by_side[0], d));
            }
            if (auto out = here.find("out"); out != here.end()) made_of(out->second, {false, ids});
        }
        for (const auto& [name, id] : here) {
            if (d_.calls_.emplace(std::pair(&op, name), id).second) d_.named_.push_back({name, id});
        }
    }

    // Whether the tensor's extent is the call's size of that name: of several products the first weight has fewer rows.
    static bool extent_is(const RuntimeCall& call, const std::string& name, std::int64_t extent) {
        for (const CallField& field : call.fields)
            if (field.kind == CallField::Kind::literal && field.name == name)
                return field.literal == std::to_string(extent);
        return true;
    }

    Dimensions& d_;
    const Module& module_;
    bool changed_ = false;
    // Of a value's axis: slices by where they begin, each with its end and size.
    std::map<std::tuple<const Function*, std::uint32_t, std::size_t>,
             std::map<std::int64_t, std::pair<std::int64_t, Id>>>
        pieces_;
};

Dimensions::Dimensions(const Module& module) {
    Finder(*this, module).run();
}

Dimensions::Id Dimensions::root(Id id) const {
    Id at = id;
    while (parent_[static_cast<std::size_t>(at)] != at) at = parent_[static_cast<std::size_t>(at)];
    while (parent_[static_cast<std::size_t>(id)] != at) {
        const Id next = parent_[static_cast<std::size_t>(id)];
        parent_[static_cast<std::size_t>(id)] = at;
        id = next;
    }
    return at;
}

Dimensions::Id Dimensions::of(const Function& function, Value v, std::size_t axis) const {
    const auto first = first_.find(&function);
    check(first != first_.end(), "a function of another module");
    check(axis < function.type(v).dims.size(), "a dimension past the last");
    return root(first->second[v.index] + static_cast<Id>(axis));
}

std::vector<Dimensions::Parts> Dimensions::made_of(Id id) const {
    const auto at = parts_.find(root(id));
    return at == parts_.end() ? std::vector<Parts>{} : at->second;
}

Dimensions::Id Dimensions::of_call(const Function&, const Op& op, const std::string& name) const {
    const auto at = calls_.find({&op, name});
    return at == calls_.end() ? none : root(at->second);
}

}  // namespace thunderc
