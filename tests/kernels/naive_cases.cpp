// Sums that a rounding on the way would show in.
#include <fmt/format.h>

#include <cmath>
#include <random>

#include "cases.h"
#include "compiler/ir/builder.h"

namespace thunderc::testing {
namespace {

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
    return {};
}

std::vector<KernelCase> naive_cases() {
    std::vector<KernelCase> cases = cast_cases();
    // No extent is among those of up to 8 elements, which are added as terms of an expression.
    for (const Dims& dims : {Dims{700}, Dims{9, 40}, Dims{10, 9, 11, 12}})
        for (const bool fuse : {false, true}) cases.push_back(exact_sums(dims, fuse));
    return cases;
}

}  // namespace thunderc::testing
