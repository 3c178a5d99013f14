// SPDX-License-Identifier: Apache-2.0
// Writes a kernel for each elementwise op and each type that it takes, over elements and as the terms of sums, and some
// for what ops become beside each other: loops that g++ is to make vectors of (vectorised_test.cpp).
#include <fmt/format.h>

#include <fstream>
#include <iostream>
#include <optional>
#include <set>
#include <vector>

#include "cases.h"
#include "codegen/kernels/cpu/kernels_cpu.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/op_def.h"

namespace thunderc::testing {
namespace {

// What kernels compute in. Narrow numbers are stored alone (print_narrow); bytes may lie over anything in C++, a
// kernel's own pointers included, so that each is written before the next is read.
std::vector<DType> types_of_kernels() {
    std::vector<DType> types;
    for (const DTypeRow& row : all_dtypes())
        if (!row.cpp.empty() && !is_narrow(row.dtype) && !is_code(row.dtype) && row.dtype != DType::u8)
            types.push_back(row.dtype);
    return types;
}

std::size_t arity(const OpDef& def) {
    std::size_t count = 0;
    while (def.elementwise->code.find(fmt::format("{{{}}}", count)) != std::string_view::npos) ++count;
    return count;
}

bool takes(const OpDef& def, const std::vector<DType>& operands, const Attributes& attributes) {
    std::vector<std::optional<Type>> given;
    for (DType dtype : operands) given.push_back(Type::tensor(dtype, {4}));
    try {
        def.infer({given, attributes});
        return true;
    } catch (const ShapeError&) {
        return false;
    }
}

// A kernel of a body over arguments of these types and dimensions.
template <typename Body>
void print(std::ostream& file, const std::string& name, const std::vector<DType>& operands, const Dims& dims,
           Body&& body) {
    KernelCase c;
    c.name = name;
    Function f;
    f.name = "main";
    std::vector<Value> arguments;
    for (std::size_t k = 0; k < operands.size(); ++k)
        arguments.push_back(f.add_argument(Type::tensor(operands[k], dims), fmt::format("x{}", k)));
    f.argument_info.clear();
    Builder b(f);
    f.results = body(b, arguments);
    c.module.functions.push_back(std::move(f));
    const Module module = fused(c);
    int count = 0;
    for (const Function& function : module.functions) {
        if (!function.kind.starts_with("kernel:")) continue;
        const PrintedKernel kernel = print_kernel_cpu(describe_kernel(function), {}, "a test's ops", {}, false);
        file << fmt::format("namespace {}{} {{\n", name, count++ == 0 ? "" : fmt::format("_{}", count))
             << kernel.definition << "}\n\n";
    }
}

// As terms of sums over two dimensions, in runs of so many.
template <typename Body>
void print_sums(std::ostream& file, const std::string& name, const std::vector<DType>& operands, std::int64_t run,
                Body&& body) {
    print(file, fmt::format("{}_sum_of_{}", name, run), operands, {16, 64, run},
          [&](Builder& b, const std::vector<Value>& x) {
              std::vector<Value> results;
              for (Value y : body(b, x)) {
                  if (b.type(y).dtype != DType::f32) y = b.cast(y, DType::f32);
                  results.push_back(b.reduce_sum(y, {0, 2}));
              }
              return results;
          });
}

template <typename Body>
void print_forms(std::ostream& file, const std::string& name, const std::vector<DType>& operands, Body&& body) {
    print(file, name + "_elements", operands, {4096}, body);
    for (const std::int64_t run : {64, 32, 16}) print_sums(file, name, operands, run, body);
}

void print_op(std::ostream& file, const OpDef& def) {
    const std::vector<DType> types = types_of_kernels();
    const std::size_t count = arity(def);
    std::set<std::vector<DType>> signatures;
    for (const DType dtype : types) {
        std::vector<DType> all(count, dtype);
        signatures.insert(all);
        if (count > 1) all[0] = DType::boolean;
        signatures.insert(all);
    }
    for (const std::vector<DType>& operands : signatures) {
        for (const DType to : types) {
            Attributes attributes;
            if (def.name == "cast") attributes.set("dtype", to);
            if (def.name != "cast" && to != types[0]) continue;
            if (def.name == "cast" && to == operands[0]) continue;
            if (!takes(def, operands, attributes)) continue;
            std::string name = fmt::format("{}_op", def.name);
            for (const DType dtype : operands) name += fmt::format("_{}", name_of(dtype));
            if (def.name == "cast") name += fmt::format("_to_{}", name_of(to));
            const auto body = [&](Builder& b, const std::vector<Value>& x) {
                return std::vector<Value>{b.op(def.name, {x.begin(), x.end()}, attributes)};
            };
            print(file, name + "_elements", operands, {4096}, body);
            if (operands.back() == DType::f32) print_sums(file, name, operands, 16, body);
        }
    }
}

// What a choice tells of its result, choices in choices, conditions that are combined and kept.
void print_compositions(std::ostream& file) {
    const DType number = DType::f32, flag = DType::boolean;
    using Values = std::vector<Value>;
    print_forms(file, "relu_and_its_mask", {number}, [](Builder& b, const Values& x) {
        const Value y = b.op("relu", {x[0]});
        return Values{y, b.op("gt", {y, b.scalar(DType::f32, 0)})};
    });
    print_forms(file, "masked", {flag, number, number}, [](Builder& b, const Values& x) {
        return Values{b.mul(b.op("select", {x[0], x[1], b.scalar(DType::f32, 0)}), x[2])};
    });
    print_forms(file, "masked_twice", {flag, flag, number}, [](Builder& b, const Values& x) {
        const Value inner = b.op("select", {x[0], x[2], b.scalar(DType::f32, 0)});
        return Values{b.op("select", {x[1], b.scalar(DType::f32, 0), inner})};
    });
    print_forms(file, "masked_by_two", {flag, flag, number}, [](Builder& b, const Values& x) {
        return Values{b.op("select", {b.op("and", {x[0], b.op("not", {x[1]})}), x[2], b.scalar(DType::f32, 0)})};
    });
    print_forms(file, "greater_and_where", {number, number}, [](Builder& b, const Values& x) {
        const Value greater = b.op("or", {b.op("gt", {x[0], x[1]}), b.op("ne", {x[0], x[0]})});
        return Values{greater, b.op("select", {greater, x[0], x[1]})};
    });
    print_forms(file, "clamped_and_where", {number, number}, [](Builder& b, const Values& x) {
        const Value low = b.scalar(DType::f32, -1), high = b.scalar(DType::f32, 1);
        const Value inside = b.op("and", {b.op("ge", {x[0], low}), b.op("le", {x[0], high})});
        return Values{b.op("min", {b.op("max", {x[0], low}), high}),
                      b.op("select", {inside, x[1], b.scalar(DType::f32, 0)})};
    });
    print_forms(file, "counted", {DType::i64, number}, [](Builder& b, const Values& x) {
        const Value counts = b.op("ne", {x[0], b.scalar(DType::i64, -100)});
        return Values{b.op("select", {counts, x[1], b.scalar(DType::f32, 0)}), b.cast(counts, DType::f32)};
    });
}

// What is stored in a narrow type: computed once and stored and put side by side, and copied as it is.
void print_narrow(std::ostream& file) {
    for (const DTypeRow& row : all_dtypes()) {
        if (!is_narrow(row.dtype)) continue;
        using Values = std::vector<Value>;
        const std::vector<DType> operands(2, row.dtype);
        print(file, fmt::format("products_of_{}", row.name), operands, {64, 64}, [](Builder& b, const Values& x) {
            const Value sigmoid = b.op("sigmoid", {x[0]}), y = b.mul(b.mul(x[0], sigmoid), x[1]);
            const Value slope = b.mul(x[1], b.mul(sigmoid, b.sub(b.op("add", {x[0], x[1]}), sigmoid)));
            return Values{y, b.op("concat", {slope, y}, {{"axis", std::int64_t{1}}})};
        });
        print(file, fmt::format("copies_of_{}", row.name), operands, {64, 64}, [](Builder& b, const Values& x) {
            return Values{b.op("concat", {x[0], x[1]}, {{"axis", std::int64_t{1}}})};
        });
    }
}

int run(int argc, char** argv) {
    if (argc != 2) {
        std::cerr << "usage: print_loops FILE.cpp\n";
        return 2;
    }
    std::ofstream file(argv[1]);
    std::vector<DType> types(narrow_dtypes().begin(), narrow_dtypes().end());
    types.push_back(DType::e4m3);  // and what codes are made with
    file << kernels_cpu_prologue(types, false) << "using namespace thunder;\n\n";
    for (const OpDef* def : all_ops())
        if (def->elementwise) print_op(file, *def);
    print_compositions(file);
    print_narrow(file);
    file.close();
    return file ? 0 : 1;
}

}  // namespace
}  // namespace thunderc::testing

int main(int argc, char** argv) {
    return thunderc::testing::run(argc, argv);
}
