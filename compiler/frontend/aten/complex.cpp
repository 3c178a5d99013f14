// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/aten/complex.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>

#include "compiler/frontend/shared/angles.h"

namespace thunderc::aten {
namespace {

struct Parts {
    Value real, imaginary;  // none: a real operand has no such part
};

Parts parts_of(const Binding& binding) {
    if (binding.kind == Binding::Kind::complex) return {binding.items[0].value, binding.items[1].value};
    return {binding.value, {}};
}

// An operand by its name: complex, real, or a number.
Parts operand(Node& n, std::string_view name) {
    const Argument* given = n.argument(name);
    const Binding value = given == nullptr ? Binding{} : n.importer().resolve(*given);
    if (value.kind == Binding::Kind::complex) return parts_of(value);
    return {n.operand(name, DType::f32), {}};  // of integers too
}

[[noreturn]] void refuse(Node& n) {
    n.fail(fmt::format("{} of complex numbers is not supported", n.call().target),
           "compute with real numbers: torch.view_as_real gives pairs of them");
}

// The operand of a call that has one.
Parts complex_operand(Node& n) {
    const Parts x = operand(n, "self");
    if (!x.imaginary) refuse(n);  // another argument is complex
    return x;
}

std::pair<Parts, Parts> two_operands(Node& n) {
    const Parts x = operand(n, "self"), y = operand(n, "other");
    if (!x.imaginary && !y.imaginary) refuse(n);
    return {x, y};
}

Value sum(Builder& b, Value x, Value y) {
    return !x ? y : !y ? x : b.add(x, y);
}

Value difference(Builder& b, Value x, Value y) {
    return !y ? x : !x ? b.neg(y) : b.sub(x, y);
}

// (a + ib)(c + id) = ac - bd + i(ad + bc)
Parts product(Builder& b, const Parts& x, const Parts& y) {
    if (!x.imaginary && y.imaginary) return product(b, y, x);
    if (!y.imaginary) return {b.mul(x.real, y.real), b.mul(x.imaginary, y.real)};
    return {b.sub(b.mul(x.real, y.real), b.mul(x.imaginary, y.imaginary)),
            b.add(b.mul(x.real, y.imaginary), b.mul(x.imaginary, y.real))};
}

Value squared_size(Builder& b, const Parts& x) {
    return b.add(b.mul(x.real, x.real), b.mul(x.imaginary, x.imaginary));
}

void give(Node& n, const Parts& z) {
    n.give(complex_of(z.real, z.imaginary));
}

void multiplied(Node& n) {
    const auto [x, y] = two_operands(n);
    give(n, product(n.b(), x, y));
}

// x / y = x conj(y) / |y|²
void divided(Node& n) {
    Builder& b = n.b();
    const auto [x, y] = two_operands(n);
    if (!y.imaginary) return give(n, {b.div(x.real, y.real), b.div(x.imaginary, y.real)});
    const Parts z = product(b, x, {y.real, b.neg(y.imaginary)});
    const Value size = squared_size(b, y);
    give(n, {b.div(z.real, size), b.div(z.imaginary, size)});
}

void added(Node& n) {
    Builder& b = n.b();
    const auto [x, y] = two_operands(n);
    if (n.has("alpha") && n.number("alpha") != 1) n.fail(fmt::format("{} with a factor", n.call().target));
    const bool less = n.op() == "sub";
    // A part that one operand lacks has the other's shape, and not that of both.
    const Dims dims = broadcast(b.type(x.real).dims, b.type(y.real).dims).value_or(b.type(x.real).dims);
    const Value imaginary = less ? difference(b, x.imaginary, y.imaginary) : sum(b, x.imaginary, y.imaginary);
    give(n, {less ? b.sub(x.real, y.real) : b.add(x.real, y.real), b.broadcast_to(imaginary, dims)});
}

void negated(Node& n) {
    const Parts x = complex_operand(n);
    give(n, {n.b().neg(x.real), n.b().neg(x.imaginary)});
}

void conjugate(Node& n) {
    const Parts x = complex_operand(n);
    give(n, {x.real, n.b().neg(x.imaginary)});
}

void real_part(Node& n) {
    n.give(complex_operand(n).real);
}

void imaginary_part(Node& n) {
    n.give(complex_operand(n).imaginary);
}

void size_of(Node& n) {
    Builder& b = n.b();
    n.give(b.op("sqrt", {squared_size(b, complex_operand(n))}, {{"flat_at_zero", true}}));
}

void angle_of(Node& n) {
    const Parts x = complex_operand(n);
    n.give(angle_of_point(n.b(), x.imaginary, x.real));
}

void exponential(Node& n) {
    Builder& b = n.b();
    const Parts x = complex_operand(n);
    const Value size = b.op("exp", {x.real});
    give(n, {b.mul(size, b.op("cos", {x.imaginary})), b.mul(size, b.op("sin", {x.imaginary}))});
}

// In the last dimension, side by side.
void as_real(Node& n) {
    Builder& b = n.b();
    const Parts x = complex_operand(n);
    Dims column = b.type(x.real).dims;
    column.push_back(1);
    n.give(b.op("concat", {b.reshape(x.real, column), b.reshape(x.imaginary, column)},
                {{"axis", static_cast<std::int64_t>(column.size()) - 1}}));
}

// What is complex stays so, in f32.
void itself(Node& n) {
    const Parts x = complex_operand(n);
    if (const std::optional<ScalarType> type = n.scalar_type("dtype");
        type && *type != ScalarType::c64 && *type != ScalarType::c128 && *type != ScalarType::c32)
        n.fail("the imaginary parts of complex numbers are dropped", "write it with x.real");
    give(n, x);
}

void squared(Node& n) {
    const Parts x = complex_operand(n);
    give(n, product(n.b(), x, x));
}

// 1 / z = conj(z) / |z|²
void reciprocal_of(Node& n) {
    Builder& b = n.b();
    const Parts x = complex_operand(n);
    const Value size = squared_size(b, x);
    give(n, {b.div(x.real, size), b.neg(b.div(x.imaginary, size))});
}

struct ComplexImporter {
    std::string_view op;
    void (*import)(Node&);
};

constexpr ComplexImporter computed_of_complex[] = {
    {"mul", multiplied},
    {"div", divided},
    {"add", added},
    {"sub", added},
    {"neg", negated},
    {"_conj", conjugate},
    {"conj", conjugate},
    {"_conj_physical", conjugate},
    {"conj_physical", conjugate},
    {"resolve_conj", itself},
    {"real", real_part},
    {"imag", imaginary_part},
    {"abs", size_of},
    {"angle", angle_of},
    {"exp", exponential},
    {"square", squared},
    {"reciprocal", reciprocal_of},
    {"view_as_real", as_real},
    {"to", itself},
    {"_to_copy", itself},
};

// What moves elements and computes nothing, or adds them up: each part by itself.
constexpr std::string_view moves_parts[] = {
    "sum",
    "mean",
    "cumsum",
    "where",
    "mT",
    "swapdims",
    "view",
    "_unsafe_view",
    "reshape",
    "flatten",
    "unflatten",
    "unsqueeze",
    "squeeze",
    "transpose",
    "permute",
    "t",
    "expand",
    "expand_as",
    "broadcast_to",
    "slice",
    "select",
    "narrow",
    "index",
    "index_select",
    "clone",
    "contiguous",
    "alias",
    "detach",
    "cat",
    "concat",
    "stack",
    "split",
    "split_with_sizes",
    "chunk",
    "unbind",
    "repeat",
    "flip",
    "roll",
    "lift_fresh_copy",
    "movedim",
    "gather",
    "swapaxes",
};

// Those among them that put tensors together: a real one has zeros for its imaginary part.
constexpr std::string_view joins_operands[] = {"cat", "concat", "stack", "where"};
// Linear in each of two operands: (a + ib)(c + id) = ac - bd + i(ad + bc), whatever kind of product it is.
constexpr std::string_view products_of_two[] = {"matmul", "mm", "bmm", "mv", "dot", "outer", "einsum"};

bool is_one_of(std::string_view op, std::span<const std::string_view> list) {
    return std::find(list.begin(), list.end(), op) != list.end();
}

bool is_complex(const Binding& binding) {
    return binding.kind == Binding::Kind::complex;
}

}  // namespace

Binding complex_of(Value real, Value imaginary) {
    Binding out;
    out.kind = Binding::Kind::complex;
    out.items = {Binding::of(real), Binding::of(imaginary)};
    out.writes = std::make_shared<int>(0);
    return out;
}

Binding complex_of_pairs(Builder& b, Value pairs) {
    Dims dims = b.type(pairs).dims;
    const std::int64_t last = static_cast<std::int64_t>(dims.size()) - 1;
    dims.pop_back();
    return complex_of(b.reshape(b.slice(pairs, last, 0, 1), dims), b.reshape(b.slice(pairs, last, 1, 2), dims));
}

void import_complex(Node& n, const OpImporter& importer, std::unordered_map<std::string, Binding>& names) {
    const std::string op = n.op();
    const Call& call = n.call();
    if (op.starts_with("fft_") || op.starts_with("_fft_")) return importer.import(n);
    if (written_by(call) == nullptr) {
        for (const ComplexImporter& one : computed_of_complex)
            if (one.op == op) return one.import(n);
    }
    const bool bilinear = is_one_of(op, products_of_two);
    if (written_by(call) != nullptr || (!bilinear && !is_one_of(op, moves_parts))) refuse(n);
    std::vector<std::string> operands;
    const auto collect = [&](const Argument& argument, std::vector<std::string>& to) {
        if (argument.kind == Argument::Kind::name) to.push_back(argument.text);
        for (const Argument& item : argument.items)
            if (item.kind == Argument::Kind::name) to.push_back(item.text);
    };
    for (const NamedArgument& argument : call.arguments)
        if (argument.name != "condition") collect(argument.value, operands);
    const auto results = [&] {  // once there are: an open list is as long as what is given
        std::vector<std::string> out;
        for (const Argument& result : call.results) {
            collect(result, out);
            for (std::size_t k = 0; is_open(result) && names.contains(item_of(result, k)); ++k)
                out.push_back(item_of(result, k));
        }
        return out;
    };
    std::map<std::string, Binding> whole;  // of the operands that are given another value, what they are
    for (const std::string& name : operands) {
        const Binding& is = n.importer().find(name);
        if (is_complex(is) || (is.kind == Binding::Kind::tensor && is_one_of(op, joins_operands)))
            whole.emplace(name, is);
    }
    const auto part_of = [&](const Binding& of, std::size_t part) {
        if (is_complex(of)) return of.items[part];
        return part == 0 ? of : Binding::of(n.b().splat(n.importer().type(of.value), 0));
    };
    const auto imported = [&] {
        importer.import(n);
        std::vector<Value> out;
        for (const std::string& name : results()) {
            const auto given = names.find(name);
            if (given == names.end() || given->second.kind != Binding::Kind::tensor)
                n.fail(fmt::format("{} of complex numbers does not give {}", call.target, name),
                       "the program is damaged: save it again");
            out.push_back(given->second.value);
        }
        return out;
    };
    const auto restore = [&] {
        for (auto& [name, binding] : whole) names[name] = binding;
    };
    if (bilinear && operands.size() != 2)
        n.fail(fmt::format("{} of complex numbers takes two operands", call.target), "multiply two at a time");
    if (bilinear && operands[0] == operands[1])
        n.fail(fmt::format("{} of complex numbers with themselves is not supported", call.target),
               "multiply x with x.clone()");
    std::array<std::vector<Value>, 2> parts;
    if (bilinear && whole.size() == 2) {
        Builder& b = n.b();
        const auto of_parts = [&](std::size_t first, std::size_t second) {
            names[operands[0]] = part_of(whole.at(operands[0]), first);
            names[operands[1]] = part_of(whole.at(operands[1]), second);
            return imported().at(0);
        };
        const Value ac = of_parts(0, 0), bd = of_parts(1, 1), ad = of_parts(0, 1), bc = of_parts(1, 0);
        parts = {std::vector{b.sub(ac, bd)}, std::vector{b.add(ad, bc)}};
    } else {
        for (std::size_t part = 0; part < 2; ++part) {
            for (const auto& [name, binding] : whole) names[name] = part_of(binding, part);
            parts[part] = imported();
        }
    }
    restore();
    const std::vector<std::string> given = results();
    for (std::size_t k = 0; k < given.size(); ++k) names[given[k]] = complex_of(parts[0][k], parts[1][k]);
}

}  // namespace thunderc::aten
