// SPDX-License-Identifier: Apache-2.0
// Casts between all types that kernels compute in, and sums that a rounding on the way would show in.
#include <fmt/format.h>

#include <cmath>
#include <random>
#include <stdexcept>

#include "cases.h"
#include "compiler/ir/builder.h"

namespace thunderc::testing {
namespace {

std::vector<DType> computed_dtypes() {
    std::vector<DType> out;
    for (const DTypeRow& row : all_dtypes())
        if (!row.cpp.empty() && !is_code(row.dtype)) out.push_back(row.dtype);
    return out;
}

// In range and out of it, on both sides of where each integer ends, and no numbers at all; all but the last ones have
// the digits of a bf16.
std::vector<double> awkward_numbers(DType dtype) {
    if (dtype == DType::boolean) return {0, 1};
    if (dtype == DType::u8) return {0, 1, 2, 7, 127, 128, 255};
    if (dtype == DType::i32) return {0, 1, -1, 2, -7, 0x1p24, -0x1p24, 0x1p31 - 1, -0x1p31};
    if (dtype == DType::i64)
        return {0, 1, -1, 2, -7, 0x1p31 - 1, 0x1p31, -0x1p31, -0x1p31 - 1, 0x1p53, 0x1p63, -0x1p63};
    std::vector<double> numbers = {0,          -0.0,   0.5,     -0.5,     0.99609375, 1,         -1,        1.5,
                                   -2.5,       255,    -7.5,    0x1.8p30, 0x1p31,     -0x1p31,   -0x1.1p31, 0x1.8p31,
                                   0x1p32,     0x1p40, 0x1p62,  -0x1p62,  0x1.fep62,  0x1p63,    -0x1p63,   0x1.02p63,
                                   -0x1.02p63, 0x1p64, 0x1p100, -0x1p100, INFINITY,   -INFINITY, NAN};
    std::erase_if(numbers, [&](double x) { return std::isfinite(x) && rounded_to(dtype, x) != x; });
    if (!is_narrow(dtype)) numbers.insert(numbers.end(), {16777215, -8388607.5, 2147483520, 0x1.fffffep62});
    if (dtype == DType::f64) numbers.insert(numbers.end(), {2147483647.5, -2147483648.5, 0x1.fffffffffffffp62, 1e300});
    return numbers;
}

KernelCase empty_case(std::string name) {
    KernelCase c;
    c.name = std::move(name);
    c.module.name = c.name;
    return c;
}

void finish(KernelCase& c, Function f) {
    f.name = "main";
    c.module.functions.push_back(std::move(f));
}

// Main calls the kernel with the case's argument.
void call_kernel(KernelCase& c, Function f) {
    Function main;
    const Value argument = main.add_argument(c.arguments.front().type, "x");
    main.argument_info.clear();
    std::vector<Type> types;
    std::vector<std::string> names;
    for (const Value y : f.results) {
        types.push_back(f.type(y));
        names.push_back(fmt::format("y{}", names.size()));
    }
    Builder caller(main);
    main.results = caller.emit_typed("fused", {argument}, {{"kernel", f.name}}, types, names);
    finish(c, std::move(main));
    c.module.functions.push_back(std::move(f));
}

KernelCase casts_of(DType from) {
    KernelCase c = empty_case(fmt::format("casts_of_{}", name_of(from)));
    const std::vector<double> numbers = awkward_numbers(from);
    Tensor x(Type::tensor(from, {static_cast<std::int64_t>(numbers.size())}));
    for (std::size_t k = 0; k < numbers.size(); ++k) x.set(static_cast<std::int64_t>(k), numbers[k]);
    c.arguments = {x};
    // A kernel as it is printed: fusion would make floats of all that is bf16 at its edge.
    Function f;
    f.name = "casts";
    f.kind = "kernel:pointwise";
    const Value v = f.add_argument(x.type, "x");
    f.argument_info.clear();
    Builder b(f);
    for (const DType to : computed_dtypes()) {
        if (to == from) continue;
        const Value y = b.cast(v, to);
        f.results.push_back(y);
        // Within an expression it is of its type too: no fraction of a float is left in an integer, no 2 in a boolean.
        if (is_integer(to)) f.results.push_back(b.div(y, b.scalar(to, 2)));
        if (to == DType::boolean) f.results.push_back(b.op("eq", {y, b.op("not", {b.op("not", {y})})}));
    }
    call_kernel(c, std::move(f));
    return c;
}

// What no operand gives: a number, one that counts, what stands around a tensor and beside one. Each stored as it is,
// and where an element is chosen.
KernelCase constants_of(DType dtype) {
    KernelCase c = empty_case(fmt::format("constants_of_{}", name_of(dtype)));
    const Type type = Type::tensor(dtype, {3, 5});
    Tensor x(type);
    for (std::int64_t k = 0; k < x.size(); ++k) x.set(k, dtype == DType::boolean ? k % 2 : k);
    c.arguments = {x};
    Function f;
    f.name = "constants";
    f.kind = "kernel:pointwise";
    const Value v = f.add_argument(type, "x");
    f.argument_info.clear();
    Builder b(f);
    const Value one = b.constant(ConstExpr::splat(type, 1));
    f.results = {one, b.op("pad", {v}, {{"low", Dims{1, 0}}, {"high", Dims{0, 2}}, {"value", 1.0}}),
                 b.op("concat", {v, one}, {{"axis", std::int64_t{0}}})};
    if (dtype != DType::boolean) {
        const Value counts = b.constant(ConstExpr::affine(type, 2, {5, 1}));
        f.results.push_back(counts);
        f.results.push_back(b.op("concat", {counts, v}, {{"axis", std::int64_t{1}}}));
        const Value chosen = b.op("not", {b.cast(v, DType::boolean)});
        f.results.push_back(b.op("select", {chosen, one, v}));
        f.results.push_back(b.op("select", {chosen, counts, v}));
    }
    call_kernel(c, std::move(f));
    return c;
}

// Whole numbers that a float holds and a double holds the sums of: what is expected is exact, and is rounded once.
KernelCase exact_sums(const Dims& dims, bool fuse) {
    KernelCase c = empty_case(fmt::format("exact_sums_{}_{}", fmt::join(dims, "_"), fuse ? "fused" : "apart"));
    c.fuse = fuse;
    c.tolerance = 1e-30;
    std::mt19937_64 engine(5);
    Tensor x(Type::tensor(DType::f32, dims));
    for (double& value : x.f) {
        const auto digits = static_cast<double>(static_cast<std::int64_t>(engine() % 0x1ffffff) - 0xffffff);
        value = std::ldexp(digits, static_cast<int>(engine() % 7));
    }
    c.arguments = {x};
    Function f;
    const Value v = f.add_argument(x.type, "x");
    f.argument_info.clear();
    Builder b(f);
    for (std::size_t some = 1; some < std::size_t{1} << dims.size(); ++some) {
        Dims axes;
        for (std::size_t d = 0; d < dims.size(); ++d)
            if ((some >> d & 1) != 0) axes.push_back(static_cast<std::int64_t>(d));
        f.results.push_back(b.reduce_sum(v, axes));
    }
    finish(c, std::move(f));
    return c;
}

}  // namespace

std::vector<KernelCase> cast_cases() {
    std::vector<KernelCase> cases;
    for (const DType from : computed_dtypes()) cases.push_back(casts_of(from));
    for (const DType dtype : computed_dtypes()) cases.push_back(constants_of(dtype));
    return cases;
}

std::vector<KernelCase> naive_cases() {
    std::vector<KernelCase> cases = cast_cases();
    // No extent is among those of up to 8 elements, which are added as terms of an expression.
    for (const Dims& dims : {Dims{700}, Dims{9, 40}, Dims{10, 9, 11, 12}})
        for (const bool fuse : {false, true}) cases.push_back(exact_sums(dims, fuse));
    return cases;
}

}  // namespace thunderc::testing
