// SPDX-License-Identifier: Apache-2.0
// A fault is planted behind a pass, in what one decision of it has made; the search names that decision. Without the
// decision what is faulty is not there, and neither is the fault.
//
// A search is made of planned programs that are run in memory, from recorded parameters on recorded batches; in full of
// programs that are built as well. In short there are one of each kind, and few programs to build.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "cli/bisection.h"
#include "cli/tensor_file.h"
#include "cli/training_program.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/plan_interpreter/run_planned.h"
#include "compiler/support/error.h"
#include "tests/support/full_form.h"

namespace thunderc {
namespace faults_test {

std::string fixture(const std::string& file) {
    return std::string(FIXTURES) + "/" + file;
}

// The first place that a fault fits in the program with all decisions; others that look alike stay as they are.
struct Place {
    std::string module, value;
    bool operator==(const Place&) const = default;
};

void say(const std::string& line) {
    printf("%s\n", line.c_str());
}

class Faults : public ::testing::Test {
  protected:
    static constexpr int steps = 2;  // the second one after an update

    static ModelOptions model(const std::string& file, const std::string& dtype, const std::string& fp8 = "") {
        ModelOptions out;
        out.model = fixture(file);
        out.compile.dtype = dtype;
        out.compile.fp8 = fp8;
        out.finish();
        out.silent = true;
        return out;
    }

    // Changes the op for which `fits`, in the first function that has one, after the pass.
    void plant(ModelOptions& model, const std::string& pass, std::function<bool(const Function&, const Op&)> fits,
               std::function<void(Module&, Function&, std::size_t)> change) {
        model.planted = [this, pass, fits, change](Module& module, const std::string& behind) {
            if (behind != pass) return;
            for (Function& f : module.functions)
                for (std::size_t k = 0; k < f.ops.size(); ++k) {
                    if (!fits(f, f.ops[k])) continue;
                    const Place here{f.ops[k].provenance.scope, f.info(f.ops[k].results.back()).name};
                    if (place_.value.empty()) place_ = here;
                    if (here != place_) continue;
                    change(module, f, k);
                    return;
                }
        };
    }

    // Of a planned program that is run in memory, as far as it comes.
    static Steps planned_steps(const ModelOptions& model, const std::map<std::string, Tensor>& parameters,
                               double rounding = 0, int draw = 0) {
        PlannedProgram program(compile(model).module);
        std::uint64_t state = static_cast<std::uint64_t>(draw) + 1;
        for (auto [name, tensor] : parameters) {
            for (double& x : tensor.f) {  // as a search rounds them
                state = state * 6364136223846793005U + 1442695040888963407U;
                x *= 1 + rounding * (static_cast<double>(state >> 33) * 0x1p-30 - 1);
            }
            program.set(name, tensor);
        }
        clear_states(program);
        make_narrow_copies(program);
        const auto all = read_safetensors(model.model.parent_path() / "batch.safetensors");
        Steps out;
        for (int s = 0; s < steps; ++s) {
            MicroBatch batch;
            const std::string suffix = "_" + std::to_string(s);
            for (const auto& [name, tensor] : all)
                if (name.ends_with(suffix)) batch[name.substr(0, name.size() - suffix.size())] = tensor;
            try {
                const PlannedStep step = planned_step(program, {batch}, {}, s);
                out.push_back({step.loss, step.grad_norm});
            } catch (const InternalError&) {  // what came of it is no number
                break;
            }
        }
        return out;
    }

    // The search with planned programs in the place of built ones. The reference has no decision and no fault.
    static Bisection found_in_memory(const ModelOptions& model, double rounding) {
        const auto with = [&](std::size_t decisions) {
            ModelOptions limited = model;
            limited.compile.decisions = decisions;
            return limited;
        };
        ModelOptions naive = with(0);
        naive.planted = {};
        naive.compile.dtype = "f32";
        naive.compile.fp8.clear();
        const auto parameters = read_safetensors(model.model.parent_path() / "params.safetensors");
        StepBounds bounds(planned_steps(naive, parameters), std::nullopt);
        for (int k = 0; rounding > 0 && k < StepBounds::draws; ++k)
            bounds.add_moved(planned_steps(naive, parameters, rounding, k));
        Bisection out;
        out.decisions = decisions_of(model);
        out.found = first_departure(out.decisions.size(), [&](std::size_t decisions) {
            return bounds.departure(planned_steps(with(decisions), parameters));
        });
        if (!out.found || out.found->decisions == 0) return out;
        ModelOptions without = model;
        without.compile.without_decision = out.found->decisions;
        out.without = bounds.departure(planned_steps(without, parameters));
        const auto files = [](const ModelOptions& options) {
            return training_program(options, {.devices = {"cpu"}}, {}, false).files;
        };
        out.line = differing_line(files(model), files(without), out.decisions[out.found->decisions - 1]);
        return out;
    }

    static Bisection found_by_building(const ModelOptions& model) {
        BisectionOptions search;
        search.steps = steps;
        search.for_cmake = {"-DTHUNDERC_RUNTIME=" RUNTIME_FOLDER, "-DCMAKE_CXX_FLAGS=" PROGRAM_FLAGS,
                            "-G" CMAKE_GENERATOR};
        return bisect(model, search, say);
    }

    // The decision is one of this pass and kind, in the place of the fault, and the line one of blocks.cpp.
    void expect(const Bisection& bisection, const std::string& pass, const std::string& what, const std::string& text,
                const std::string& file, const std::string& call) const {
        EXPECT_FALSE(place_.value.empty()) << "the fault fits nowhere";
        ASSERT_TRUE(bisection.found.has_value()) << "the program with the fault does not depart";
        const std::size_t number = bisection.found->decisions;
        ASSERT_GT(number, 0U) << bisection.found->departure.what;
        const CountedDecision& decision = bisection.decisions[number - 1];
        say(to_string(decision));
        say("  " + bisection.found->departure.what);
        say("  " + bisection.line);
        EXPECT_EQ(decision.pass, pass);
        EXPECT_EQ(decision.what, what);
        EXPECT_NE(decision.text.find(text), std::string::npos) << decision.text;
        EXPECT_FALSE(bisection.without.has_value()) << bisection.without->what;
        EXPECT_TRUE(bisection.line.starts_with(file)) << bisection.line;
        EXPECT_NE(bisection.line.find(call), std::string::npos) << bisection.line;
    }

    // `text` is of where the fault was planted, which the search has found out by then.
    void expect_both(const ModelOptions& model, double rounding, const std::string& pass, const std::string& what,
                     const std::function<std::string()>& text, const std::string& file, const std::string& call) {
        const Bisection planned = found_in_memory(model, rounding);
        expect(planned, pass, what, text(), file, call);
        if (full_form) expect(found_by_building(model), pass, what, text(), file, call);
    }

    Place place_;
};

// A product ends in another activation than the model's.
TEST_F(Faults, AWrongEpilogue) {
    ModelOptions gpt2 = model("gpt2/noopt.loss.onnx", "f32");
    plant(
        gpt2, "attach_epilogues",
        [](const Function&, const Op& op) {
            return op.name == "linear" && op.attributes.string("activation", "none") != "none";
        },
        [](Module&, Function& f, std::size_t k) { f.ops[k].attributes.set("activation", std::string("relu")); });
    expect_both(
        gpt2, 0, "attach_epilogues", "activation", [] { return "gelu"; }, "blocks.cpp:", "linear_forward({");
}

TEST_F(Faults, NoneWhereNothingIsPlanted) {
    struct Case {
        const char *file, *dtype, *fp8;
        DType rounds;
    };
    for (const auto& [file, dtype, fp8, rounds] :
         {Case{"gpt2/noopt.loss.onnx", "f32", "", DType::f32}, Case{"llama2/noopt.logits.onnx", "f32", "", DType::f32},
          Case{"gpt2/noopt.loss.onnx", "bf16", "", DType::bf16},
          Case{"llama2/noopt.logits.onnx", "bf16", "", DType::bf16},
          Case{"llama2/noopt.logits.onnx", "bf16", "current", DType::e4m3}}) {
        if (!full_form && std::string(file) + dtype != "gpt2/noopt.loss.onnxbf16") continue;
        SCOPED_TRACE(std::string(file) + " " + dtype + " " + fp8);
        const ModelOptions options = model(file, dtype, fp8);
        const Bisection planned = found_in_memory(options, rounds == DType::f32 ? 0 : rounding_of(rounds));
        EXPECT_FALSE(planned.found.has_value()) << planned.found->departure.what;
        if (!full_form) continue;
        const Bisection built = found_by_building(options);
        EXPECT_FALSE(built.found.has_value()) << built.found->departure.what;
    }
}

// Of programs that are built, in every form of the tests: a product of a small model ends in another activation.
TEST_F(Faults, OfAProgramThatIsBuilt) {
    ModelOptions mlp = model("mlp/noopt.loss.onnx", "f32");
    mlp.compile.decisions = 2;  // among the first ones alone, so that few programs are built
    plant(
        mlp, "attach_epilogues",
        [](const Function&, const Op& op) {
            return op.name == "linear" && op.attributes.string("activation", "none") == "tanh";
        },
        [](Module&, Function& f, std::size_t k) { f.ops[k].attributes.set("activation", std::string("relu")); });
    expect(found_by_building(mlp), "attach_epilogues", "activation", "tanh", "model.cpp:", "linear_relu(");
}

#ifdef THUNDERC_FULL

// An executor is given another scale than the model's.
TEST_F(Faults, AnExecutorsAttribute) {
    ModelOptions gpt2 = model("gpt2/noopt.loss.onnx", "f32");
    plant(
        gpt2, "claim", [](const Function&, const Op& op) { return op.name == "sdpa"; },
        [](Module&, Function& f, std::size_t k) {
            Attributes& attributes = f.ops[k].attributes;
            attributes.set("scale", 4 * attributes.number("scale", 1.0));
        });
    expect_both(
        gpt2, 0, "claim", "sdpa", [] { return "attention"; }, "blocks.cpp:", "attention_forward({");
}

// What a product reads is rounded once too often: to whole numbers.
TEST_F(Faults, AWrongCast) {
    ModelOptions gpt2 = model("gpt2/noopt.loss.onnx", "bf16");
    plant(
        gpt2, "lower_precision",
        [](const Function& f, const Op& op) {
            return op.name == "linear" && f.type(op.operands[0]).dtype == DType::bf16 &&
                   f.info(op.results[0]).name == "c_fc";
        },
        [](Module&, Function& f, std::size_t k) {
            Type type = f.type(f.ops[k].operands[0]);
            Op back;
            back.name = "cast";
            back.attributes.set("dtype", type.dtype);
            back.results = {f.add_value(type, "twice_rounded")};
            type.dtype = DType::i32;
            Op whole = back;
            whole.operands = {f.ops[k].operands[0]};
            whole.attributes.set("dtype", DType::i32);
            whole.results = {f.add_value(type, "whole")};
            back.operands = whole.results;
            f.ops[k].operands[0] = back.results[0];
            f.ops.insert(f.ops.begin() + static_cast<std::ptrdiff_t>(k), {whole, back});
        });
    expect_both(
        gpt2, rounding_of(DType::bf16), "lower_precision", "linear", [this] { return "bf16 for " + place_.value; },
        "blocks.cpp:", ".x = twice_rounded");
}

// A product of FP8 takes the scale of what it multiplies for that of its weight.
TEST_F(Faults, ASwappedScale) {
    ModelOptions llama = model("llama2/noopt.logits.onnx", "bf16", "current");
    plant(
        llama, "quantise_products", [](const Function&, const Op& op) { return op.name == "fp8_linear"; },
        [](Module&, Function& f, std::size_t k) { f.ops[k].operands[3] = f.ops[k].operands[2]; });
    expect_both(
        llama, rounding_of(DType::e4m3), "quantise_products", "quantise_products",
        [this] { return "for " + place_.value; }, "blocks.cpp:", "fp8_product({");
}

// A fused kernel subtracts where it is to add.
TEST_F(Faults, AWrongSumInAKernel) {
    ModelOptions llama = model("llama2/noopt.logits.onnx", "f32");
    const auto sum_of = [](const Module& module, const Op& op) -> std::string {
        const Function& kernel = *module.find(called_kernel(op));
        std::size_t work = 0;
        bool sum = false;
        for (const Op& inner : kernel.ops) {
            work += inner.operands.empty() ? 0 : 1;
            sum = sum || inner.name == "add";
        }
        return sum && work > 3 ? kernel.name : "";
    };
    llama.planted = [this, sum_of](Module& module, const std::string& behind) {
        if (behind != "fuse") return;
        for (const Function& f : module.functions) {
            for (const Op& op : f.ops) {
                if (!is_kernel_call(op)) continue;
                const std::string kernel = sum_of(module, op);
                const Place here{f.name, f.info(op.results.back()).name};
                if (kernel.empty()) continue;
                if (place_.value.empty()) place_ = here;
                if (here != place_) continue;
                for (Op& inner : module.find(kernel)->ops)
                    if (inner.name == "add") {
                        inner.name = "sub";
                        return;
                    }
            }
        }
    };
    expect_both(
        llama, 0, "fuse", "fuse", [this] { return "that give " + place_.value + " of @" + place_.module; },
        "model.cpp:", "norm");
}

#endif

}  // namespace faults_test
}  // namespace thunderc
