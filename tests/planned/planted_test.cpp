// SPDX-License-Identifier: Apache-2.0
// Faults planted in sound plans: what the checker passes has to give the same numbers when it is executed.
#include <algorithm>
#include <functional>
#include <random>

#include "compiler/check/check_plan.h"
#include "compiler/ir/print.h"
#include "compiler/support/error.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace planted_test {

using Arena = Placement::Arena;

// Gradients and loss of one micro-batch, by name; empty where a NaN came out.
std::map<std::string, Tensor> executed(const Module& planned, const std::string& model) {
    PlannedProgram program(planned);
    for (const auto& [name, tensor] : read_safetensors(fixture(model + "/params.safetensors")))
        program.set(name, tensor);
    std::map<std::string, Tensor> out;
    try {
        planned_gradients(program, {batch(read_safetensors(fixture(model + "/batch.safetensors")), 0)});
    } catch (const InternalError&) {
        return {};
    }
    out["loss"] = Tensor::scalar(DType::f64, program.scalar("loss_sum"));
    for (const std::string& name : program.names())
        if (name.starts_with("grad.")) out[name] = program.get(name);
    return out;
}

bool equal_bits(const std::map<std::string, Tensor>& a, const std::map<std::string, Tensor>& b) {
    return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& entry) {
               auto other = b.find(entry.first);
               return other != b.end() && other->second.f == entry.second.f;
           });
}

// A change of one number of a plan.
struct Fault {
    std::string what;
    std::function<void(Module&)> plant;
};

// A value is moved with all that views it: the fault of a planner, not of a view.
void move_value(Function& f, Value v, std::int64_t by) {
    for (std::uint32_t k = 0; k < f.values.size(); ++k) {
        Value at{k};
        while (at != v && f.info(at).placement.view_of) at = f.info(at).placement.view_of;
        if (at == v) f.values[k].placement.offset += by;
    }
}

std::vector<Fault> faults(const Module& m) {
    std::vector<Fault> out;
    for (std::size_t index = 0; index < m.functions.size(); ++index) {
        const Function& f = m.functions[index];
        if (!f.kind.empty()) continue;
        std::vector<Value> owners;
        for (const Op& op : f.ops)
            for (Value v : op.results) {
                const Placement& p = f.info(v).placement;
                if (!p.view_of && (p.arena == Arena::scratch || p.arena == Arena::saved)) owners.push_back(v);
            }
        for (Value v : owners) {
            const Placement& p = f.info(v).placement;
            std::vector<std::int64_t> places = {p.offset + 64, p.offset - 64};
            for (Value w : owners)
                if (f.info(w).placement.arena == p.arena) places.push_back(f.info(w).placement.offset);
            std::sort(places.begin(), places.end());
            places.erase(std::unique(places.begin(), places.end()), places.end());
            for (std::int64_t place : places) {
                if (place == p.offset || place < 0) continue;
                out.push_back(
                    {"@" + f.name + ": %" + f.info(v).name + " at " + std::to_string(place),
                     [index, v, by = place - p.offset](Module& m) { move_value(m.functions[index], v, by); }});
            }
            if (!f.type(v).is_family()) continue;
            for (std::int64_t by : {-64, 64})
                out.push_back({"@" + f.name + ": layers of %" + f.info(v).name + " every " + std::to_string(by) +
                                   " bytes further",
                               [index, v, by](Module& m) { m.functions[index].info(v).placement.layer_stride += by; }});
        }
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            const Attributes& a = f.ops[k].attributes;
            for (std::int64_t by : {-64, 64}) {
                if (a.has("scratch"))
                    out.push_back({"the scratch memory of a layer of @" + f.name + ", " + std::to_string(by),
                                   [index, k, by](Module& m) {
                                       Attributes& a = m.functions[index].ops[k].attributes;
                                       a.set("scratch", a.integer("scratch") + by);
                                   }});
                for (const char* number : {"carry_base", "carry_stride"})
                    for (std::size_t c = 0; a.has(number) && c < a.integers(number).size(); ++c)
                        out.push_back({std::string(number) + " of @" + f.name + ", " + std::to_string(by),
                                       [index, k, by, number, c](Module& m) {
                                           Attributes& a = m.functions[index].ops[k].attributes;
                                           std::vector<std::int64_t> numbers = a.integers(number);
                                           numbers[c] += by;
                                           a.set(number, numbers);
                                       }});
            }
        }
    }
    return out;
}

void expect_found_or_harmless(const std::string& model, const CompileOptions& options, std::size_t most) {
    const Module sound = compiled(model + "/dynamo.logits.onnx", options);
    const std::map<std::string, Tensor> expected = executed(sound, model);
    ASSERT_FALSE(expected.empty());
    std::vector<Fault> all = faults(sound);
    std::shuffle(all.begin(), all.end(), std::mt19937(7));
    if (all.size() > most) all.resize(most);
    std::size_t found = 0, harmless = 0;
    for (const Fault& fault : all) {
        Module broken = sound;
        fault.plant(broken);
        if (!plan_violations(broken).empty()) {
            ++found;
            continue;
        }
        ++harmless;
        EXPECT_TRUE(equal_bits(executed(broken, model), expected)) << fault.what << " was not found";
    }
    // Places are dense: few moves are harmless, and some are, or the checker refuses everything.
    EXPECT_GT(found, all.size() / 2);
    EXPECT_GT(harmless, 0U);
}

TEST(Planted, InAProgramWithoutLoops) {
    expect_found_or_harmless("mlp", {}, 400);
}

TEST(Planted, InALoopOfLayers) {
    expect_found_or_harmless("llama2", {}, 400);
}

TEST(Planted, InALoopOfLayersThatAreComputedAgain) {
    CompileOptions options;
    options.recompute = "block";
    expect_found_or_harmless("llama2", options, 200);
}

}  // namespace planted_test
}  // namespace thunderc
