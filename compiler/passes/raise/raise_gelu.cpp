// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_gelu.h"

#include <cmath>
#include <numbers>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// Exporters write constants as f32, and sometimes as products of f32, or in a narrow type, of which bf16 has the fewest
// digits.
bool about(double value, double expected, DType dtype) {
    return std::abs(value - expected) <= (is_narrow(dtype) ? rounding_of(DType::bf16) : 1e-5) * std::abs(expected);
}

// The y of y + 1.
std::optional<Value> minus_one(const Definitions& d, Value v, Matched& matched) {
    const Op* add = d.op(v, "add");
    if (add == nullptr) return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k)
        if (d.splat(add->operands[k]) == 1.0) {
            matched.add(add);
            return add->operands[1 - k];
        }
    return std::nullopt;
}

// How often x is a factor of v, and the constant beside; nullopt where there is anything else.
struct Monomial {
    double constant = 1;
    int degree = 0;
};

std::optional<Monomial> monomial(const Definitions& d, Value v, Value x, Matched& matched) {
    Product p;
    if (v == x) return Monomial{1, 1};
    p = d.product(v);
    Monomial out{p.constant, 0};
    for (Value factor : p.factors) {
        if (factor == x) {
            ++out.degree;
            continue;
        }
        const Op* pow = d.op(factor, "pow");
        std::optional<double> exponent = pow != nullptr ? d.splat(pow->operands[1]) : std::nullopt;
        if (!exponent || pow->operands[0] != x || (*exponent != 2 && *exponent != 3)) return std::nullopt;
        matched.add(pow);
        out.degree += static_cast<int>(*exponent);
    }
    matched.add(p.matched);
    return out;
}

// Whether v is √(2/π) (x + 0.044715 x³), factored in any way.
bool is_tanh_argument(const Definitions& d, Value v, Value x, Matched& matched) {
    const DType dtype = d.type(x).dtype;
    Product p = d.product(v);
    int degree = 0;  // of x outside the sum
    const Op* sum = nullptr;
    for (Value factor : p.factors) {
        const Op* add = d.op(factor, "add");
        if (factor == x)
            ++degree;
        else if (add != nullptr && sum == nullptr)
            sum = add;
        else
            return false;
    }
    if (sum == nullptr || degree > 1) return false;
    Matched m;
    double linear = 0, cubic = 0;
    for (Value term : sum->operands) {
        std::optional<double> constant = d.splat(term);
        std::optional<Monomial> t = constant ? Monomial{*constant, 0} : monomial(d, term, x, m);
        if (!t) return false;
        if (t->degree + degree == 1)
            linear += t->constant;
        else if (t->degree + degree == 3)
            cubic += t->constant;
        else
            return false;
    }
    const double scale = std::sqrt(2 / std::numbers::pi);
    if (!about(p.constant * linear, scale, dtype) || !about(p.constant * cubic, scale * 0.044715, dtype)) return false;
    matched.add(m);
    matched.add(p.matched);
    matched.add(sum);
    return true;
}

struct GeluMatch {
    Value x;
    const Op* curve = nullptr;  // erf or tanh
    Matched matched;
};

std::optional<GeluMatch> match_gelu(const Definitions& d, Value v) {
    Product p = d.product(v);
    const DType dtype = d.type(v).dtype;
    if (p.factors.size() != 2 || !about(p.constant, 0.5, dtype)) return std::nullopt;
    for (std::size_t k = 0; k < 2; ++k) {
        GeluMatch m;
        m.x = p.factors[k];
        m.matched.add(p.matched);
        std::optional<Value> inner = minus_one(d, p.factors[1 - k], m.matched);
        const Op* curve = inner ? d.op(*inner) : nullptr;
        if (curve == nullptr || d.type(m.x) != d.type(v)) continue;
        m.matched.add(curve);
        m.curve = curve;
        if (curve->name == "erf") {
            std::optional<Monomial> argument = monomial(d, curve->operands[0], m.x, m.matched);
            if (argument && argument->degree == 1 && about(argument->constant, std::numbers::sqrt2 / 2, dtype))
                return m;
        } else if (curve->name == "tanh" && is_tanh_argument(d, curve->operands[0], m.x, m.matched)) {
            return m;
        }
    }
    return std::nullopt;
}

void raise_gelu_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    Definitions d(f, rewriter.old_ops());
    Builder& b = rewriter.builder();
    std::set<const Op*> raised;
    for (const Op& op : rewriter.old_ops()) {
        std::optional<GeluMatch> m = op.name == "mul" || op.name == "div" ? match_gelu(d, op.results[0]) : std::nullopt;
        if (!m) {
            rewriter.keep(op);
            continue;
        }
        raised.insert(m->curve);
        Provenance provenance = m->matched.provenance();
        b.set_provenance(provenance);
        Value y = b.op("gelu", {rewriter.now(m->x)},
                       {{"approximate", std::string(m->curve->name == "tanh" ? "tanh" : "none")}});
        rewriter.replace(op, std::vector<Value>{y});
        report.done("gelu", where(provenance), replaced_text(provenance));
    }
    for (const Op& op : rewriter.old_ops())
        if (op.name == "erf" && !raised.contains(&op))
            report.declined("gelu", where(op.provenance), "erf is not part of x / 2 (1 + erf(x / √2))");
    rewriter.finish();
}

}  // namespace

Module raise_gelu(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_gelu_in(f, report);
    return module;
}

}  // namespace thunderc
