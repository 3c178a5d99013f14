// SPDX-License-Identifier: Apache-2.0
#include "compiler/analysis/mask.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <vector>

#include "compiler/interpreter/constant_fold.h"
#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/op_def.h"

namespace thunderc {
namespace {

// exp(-1e4) is 0 in every type; masks that frameworks write are -1e4, the least finite value of a type, or -inf.
constexpr double masked_below = -1e4;

MaskClass other(std::string reason) {
    return {MaskClass::Kind::other, 0, std::move(reason)};
}

// s - t lies in [least, most]: what a conjunction of comparisons of positions comes down to.
struct Band {
    double least = -HUGE_VAL, most = HUGE_VAL;
};

// Narrows the band by a predicate, or by its negation; the reason where it is none about s - t.
class Reader {
  public:
    std::optional<std::string> narrow(const ConstExpr& e, bool holds) {
        if (e.kind == ConstExpr::Kind::splat) {
            if ((e.value != 0) == holds) return std::nullopt;
            return "it lets no key be read";
        }
        if (e.kind == ConstExpr::Kind::elementwise) {
            const OpDef& def = op_def(e.op_name);
            if (def.logic == Logic::negation) return narrow(*e.operands[0], !holds);
            if (def.logic == (holds ? Logic::conjunction : Logic::disjunction)) {
                auto why = narrow(*e.operands[0], holds);
                return why ? why : narrow(*e.operands[1], holds);
            }
            const bool same_truth = def.combination == Combination{1};  // whatever type it is cast to
            if (same_truth && e.operands[0]->type.dtype == DType::boolean) return narrow(*e.operands[0], holds);
            if (def.comparison && is_order(*def.comparison))
                return compare(holds ? *def.comparison : negated(*def.comparison), *e.operands[0], *e.operands[1]);
        }
        return "its predicate contains " + describe(e);
    }

    Band band() const { return band_; }

  private:
    static std::string describe(const ConstExpr& e) {
        switch (e.kind) {
            case ConstExpr::Kind::elementwise: return e.op_name;
            case ConstExpr::Kind::select: return "a select";
            case ConstExpr::Kind::dense: return "a table";
            default: return "an index";
        }
    }

    struct Linear {
        double base = 0, t = 0, s = 0;
        bool positions_only = true;  // does not depend on batch or head
    };
    static std::optional<Linear> linear(const ConstExpr& e) {
        if (e.kind == ConstExpr::Kind::splat) return Linear{e.value};
        if (e.kind != ConstExpr::Kind::affine) return std::nullopt;
        Linear out{e.base};
        const std::size_t rank = e.step.size();
        for (std::size_t d = 0; d < rank; ++d) {
            if (d + 1 == rank)
                out.s = e.step[d];
            else if (d + 2 == rank)
                out.t = e.step[d];
            else if (e.step[d] != 0)
                out.positions_only = false;
        }
        return out;
    }

    std::optional<std::string> compare(Comparison is, const ConstExpr& left, const ConstExpr& right) {
        std::optional<Linear> a = linear(left), b = linear(right);
        if (!a || !b) return "it compares " + describe(a ? right : left);
        if (!a->positions_only || !b->positions_only) return "it depends on the batch or on the head";
        const bool strict = is == Comparison::lt || is == Comparison::gt;
        if (is == Comparison::gt || is == Comparison::ge) std::swap(a, b);  // a < b or a <= b from here on
        // (b - a) = c + ct * t + cs * s, and that is > 0 or >= 0.
        double c = b->base - a->base, ct = b->t - a->t, cs = b->s - a->s;
        if (ct != -cs || cs == 0) return "it compares positions with something else than positions";
        // cs * (s - t) + c > 0; s - t is whole.
        double bound = -c / cs;
        if (cs > 0)
            band_.least = std::max(band_.least, strict ? std::floor(bound) + 1 : std::ceil(bound));
        else
            band_.most = std::min(band_.most, strict ? std::ceil(bound) - 1 : std::floor(bound));
        return std::nullopt;
    }

    Band band_;
};

MaskClass from_band(const Band& band, std::int64_t T, std::int64_t S) {
    const auto offset = static_cast<double>(S - T);
    const bool open_above = band.most >= static_cast<double>(S - 1);   // s - t is at most S - 1
    const bool open_below = band.least <= static_cast<double>(1 - T);  // and at least 1 - T
    if (open_above && open_below) return {MaskClass::Kind::none, 0, ""};
    if (band.most != offset)
        return other(open_above
                         ? "it hides earlier keys and no later ones"
                         : fmt::format("position t reads keys up to t{:+}, where t{:+} is causal", band.most, offset));
    if (open_below) return {MaskClass::Kind::causal, 0, ""};
    auto window = static_cast<std::int64_t>(offset - band.least + 1);
    if (window <= 0) return other("it lets no key be read");
    return {MaskClass::Kind::window, window, ""};
}

// Every element of every plane against what its rows say.
MaskClass from_elements(const Tensor& mask, std::int64_t T, std::int64_t S) {
    const bool additive = mask.floating();
    const std::int64_t planes = mask.size() / (T * S);
    auto readable = [&](std::int64_t k) { return additive ? mask.at(k) == 0 : mask.at(k) != 0; };
    std::int64_t visible_last = 0;  // keys that the last position reads
    for (std::int64_t s = 0; s < S; ++s) visible_last += readable((T - 1) * S + s) ? 1 : 0;
    bool all = true, causal = true, window = visible_last > 0;
    for (std::int64_t p = 0; p < planes; ++p)
        for (std::int64_t t = 0; t < T; ++t)
            for (std::int64_t s = 0; s < S; ++s) {
                const std::int64_t k = (p * T + t) * S + s;
                const double value = mask.at(k);
                const bool read = readable(k);
                if (additive && !read && !(value <= masked_below))
                    return other(fmt::format("it adds {} to a score", value));
                const bool past = s <= t + S - T;
                all = all && read;
                causal = causal && read == past;
                window = window && read == (past && s > t + S - T - visible_last);
            }
    if (all) return {MaskClass::Kind::none, 0, ""};
    if (causal) return {MaskClass::Kind::causal, 0, ""};
    if (window) return {MaskClass::Kind::window, visible_last, ""};
    return other("its elements are neither causal nor a window");
}

}  // namespace

MaskClass classify_mask(const ConstExpr& mask, std::int64_t T, std::int64_t S) {
    const Dims& dims = mask.type.dims;
    if (dims.size() < 2)
        return mask.kind == ConstExpr::Kind::splat
                   ? classify_mask(*ConstExpr::splat(Type::tensor(mask.type.dtype, {T, S}), mask.value), T, S)
                   : other("it has fewer than two dimensions");
    if (mask.type.dtype != DType::boolean && !is_float(mask.type.dtype))
        return other("it is neither boolean nor floating point");

    const ConstExpr* predicate = &mask;
    bool holds = true;  // readable where the predicate holds
    if (mask.type.dtype != DType::boolean && mask.kind == ConstExpr::Kind::splat) {
        if (mask.value == 0) return {MaskClass::Kind::none, 0, ""};
        return other(fmt::format("it adds {} to all scores", mask.value));
    }
    if (mask.type.dtype != DType::boolean && mask.kind == ConstExpr::Kind::select) {
        std::optional<double> then = splat_value(*mask.operands[1]), otherwise = splat_value(*mask.operands[2]);
        if (then && otherwise &&
            ((*then == 0 && *otherwise <= masked_below) || (*otherwise == 0 && *then <= masked_below))) {
            predicate = mask.operands[0].get();
            holds = *then == 0;
        }
    }
    std::string reason;
    if (predicate->type.dtype == DType::boolean && predicate->kind != ConstExpr::Kind::dense) {
        Reader reader;
        std::optional<std::string> why = reader.narrow(*predicate, holds);
        if (!why) {
            MaskClass c = from_band(reader.band(), T, S);
            if (c.kind != MaskClass::Kind::other) return c;
            why = c.reason;
        }
        reason = *why;
    }
    // Small enough to look at each element; which also settles predicates in unusual forms.
    Dims full(dims.begin(), dims.end() - 2);
    full.push_back(T);
    full.push_back(S);
    if (element_count(full) <= largest_dense_constant) {
        Tensor dense = broadcast_tensor(materialize(mask), full);
        MaskClass c = from_elements(dense, T, S);
        if (c.kind != MaskClass::Kind::other || reason.empty()) return c;
    }
    return other(reason.empty() ? "it is too large to be looked at element by element" : reason);
}

}  // namespace thunderc
