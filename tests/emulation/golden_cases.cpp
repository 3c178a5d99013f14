// SPDX-License-Identifier: Apache-2.0
#include "golden_cases.h"

#include <fmt/format.h>

#include <memory>
#include <random>
#include <string>

#include "codegen/host/kernel_table.h"
#include "compiler/frontend/frontend.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/builder.h"
#include "compiler/pipeline.h"

namespace thunderc::testing {
namespace {

struct Golden {
    std::string name, graph;
    Transform transform = Transform::train;
    std::int64_t batch = 0, seq = 0;  // 0: as exported
    std::string dtype = "f32";
};

// The programs of tests/goldens; then the same models where the sizes are odd, so that rows and elements are no
// multiple of a warp, a vector or a block.
std::vector<Golden> goldens() {
    return {
        {"llama2", "llama2/noopt.logits.onnx"},
        {"mlp", "mlp/dynamo.logits.onnx"},
        {"mlp_vjp", "mlp/dynamo.logits.onnx", Transform::vjp},
        {"odd", "odd/tides.loss.onnx"},
        {"llama2_bf16", "llama2/noopt.logits.onnx", Transform::train, 0, 0, "bf16"},
        {"llama2_bf16_3_7", "llama2/dyn.logits.onnx", Transform::train, 3, 7, "bf16"},
        {"llama2_f16", "llama2/noopt.logits.onnx", Transform::train, 0, 0, "f16"},
        {"llama2_f16_3_7", "llama2/dyn.logits.onnx", Transform::train, 3, 7, "f16"},
        {"llama2_3_7", "llama2/dyn.logits.onnx", Transform::train, 3, 7},
        {"llama2_1_1", "llama2/dyn.logits.onnx", Transform::train, 1, 1},
        {"llama2_13_5", "llama2/dyn.loss.onnx", Transform::train, 13, 5},
        {"mlp_37", "mlp/dyn.loss.onnx", Transform::train, 37},
    };
}

}  // namespace

// Numbers that every function of a kernel takes: positive, where a kernel may take a root or a logarithm of one.
Tensor kernel_numbers(const Type& type, std::mt19937_64& engine, double low) {
    std::uniform_real_distribution<double> uniform(low, 1.5);
    Tensor t(type);
    for (std::int64_t k = 0; k < t.size(); ++k) {
        const double value = uniform(engine);
        t.set(k, type.dtype == DType::boolean ? (value > (low + 1.5) / 2 ? 1 : 0)
                 : is_float(type.dtype)       ? static_cast<double>(static_cast<float>(value))
                                              : std::floor(value * 4));
    }
    round_to_dtype(t);
    return t;
}

namespace {

bool wants_positive(const Function& f) {
    return std::any_of(f.ops.begin(), f.ops.end(), [](const Op& op) {
        return op.name == "sqrt" || op.name == "rsqrt" || op.name == "log" || op.name == "pow";
    });
}

}  // namespace

std::vector<KernelCase> kernels_of_program(const std::string& name, const Module& module, std::uint64_t seed) {
    std::vector<KernelCase> cases;
    for (const Function& kernel : module.functions) {
        if (!kernel.kind.starts_with("kernel:")) continue;
        KernelCase c;
        c.name = fmt::format("{}_{}", name, kernel.name);
        c.module.name = c.name;
        c.fuse = false;  // it is one kernel already
        Function f;
        f.name = "main";
        Op op;
        op.name = "fused";
        op.attributes.set("kernel", kernel.name);
        std::mt19937_64 engine(cases.size() + seed);
        for (std::size_t k = 0; k < kernel.arguments.size(); ++k) {
            const Type& type = kernel.type(kernel.arguments[k]);
            op.operands.push_back(f.add_argument(type, fmt::format("x{}", k)));
            c.arguments.push_back(kernel_numbers(type, engine, wants_positive(kernel) ? 0.1 : -1.5));
        }
        f.argument_info.clear();
        for (Value v : kernel.results) op.results.push_back(f.add_value(kernel.type(v), "y"));
        f.results = op.results;
        f.ops.push_back(std::move(op));
        c.module.functions.push_back(std::move(f));
        c.module.functions.push_back(kernel);
        cases.push_back(std::move(c));
    }
    return cases;
}

std::vector<KernelCase> golden_cases() {
    std::vector<KernelCase> cases;
    for (const Golden& golden : goldens()) {
        CompileOptions options;
        options.transform = golden.transform;
        options.batch = golden.batch;
        options.seq = golden.seq;
        options.dtype = golden.dtype;
        if (std::string(golden.graph).find(".logits.") != std::string::npos) options.loss = "cross-entropy";
        std::vector<PassRun> runs;
        struct Program {
            Module module;
            Symbols symbols{module};
        };
        const auto program = std::make_shared<const Program>(
            run_passes(import_model(std::string(FIXTURES) + "/" + golden.graph, options), pipeline(options), runs));
        for (KernelCase& c : kernels_of_program(golden.name, program->module, cases.size() + 1)) {
            c.symbols = program->symbols.all();
            c.sizes = kernel_sizes(program->symbols, *program->module.find(c.module.functions.back().name));
            c.program = program;
            cases.push_back(std::move(c));
        }
    }
    return cases;
}

}  // namespace thunderc::testing
