// SPDX-License-Identifier: Apache-2.0
// Kernels for GPUs, as they are printed, on the emulated GPU: against the fp64 evaluator and against those for CPUs.
#include <gtest/gtest.h>

#include <cstring>
#include <map>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/kernels/in_place.h"
#include "device/cuda/device.h"
#include "emulation/machine.h"
#include "emulation/memory.h"
#include "golden_cases.h"
#include "random_cases.h"
#include "tests/kernels/cases.h"
#include "tests/kernels/compare.h"
#include "tests/kernels/kernel_table.h"
#include "variants.h"

std::map<std::string, KernelCall>& kernel_table() {
    static std::map<std::string, KernelCall> table;
    return table;
}
bool list_kernel(const std::string& name, KernelCall call) {
    return kernel_table().emplace(name, call).second;
}

namespace thunderc::testing {
namespace {

// A tensor in the emulated GPU's memory: what is not an element of it, between its rows, has no value.
class Operand {
  public:
    Operand(const std::string& name, const Type& type, const Variant& variant)
        : type_(type),
          strides_(variant.strided ? padded_strides(type.dims) : dense_strides(type.dims)),
          allocation_(name, extent(), size_of(type.dtype), false, variant.aligned ? 16 : size_of(type.dtype)) {}
    Operand(const std::string& name, const Tensor& t, const Variant& variant) : Operand(name, t.type, variant) {
        for (std::int64_t k = 0; k < t.size(); ++k) {
            switch (type_.dtype) {
                case DType::f64: put(k, t.at(k)); break;
                case DType::f32: put(k, static_cast<float>(t.at(k))); break;
                case DType::bf16:
                case DType::f16: put(k, half_bits(type_.dtype, t.at(k))); break;
                case DType::i64: put(k, t.i[static_cast<std::size_t>(k)]); break;
                case DType::i32: put(k, static_cast<std::int32_t>(t.i[static_cast<std::size_t>(k)])); break;
                case DType::u8: put(k, static_cast<std::uint8_t>(t.i[static_cast<std::size_t>(k)])); break;
                case DType::boolean: put(k, t.at(k) != 0); break;
                default: ADD_FAILURE() << "a type that kernels do not hold";
            }
            allocation_.set_written(element(k), true);
        }
    }
    void* data() { return allocation_.data(); }
    Tensor tensor() const {
        Tensor t(type_);
        for (std::int64_t k = 0; k < t.size(); ++k) {
            switch (type_.dtype) {
                case DType::f64: t.set(k, get<double>(k)); break;
                case DType::f32: t.set(k, static_cast<double>(get<float>(k))); break;
                case DType::bf16:
                case DType::f16: t.set(k, half_value(type_.dtype, get<std::uint16_t>(k))); break;
                case DType::i64: t.i[static_cast<std::size_t>(k)] = get<std::int64_t>(k); break;
                case DType::i32: t.i[static_cast<std::size_t>(k)] = get<std::int32_t>(k); break;
                case DType::u8: t.i[static_cast<std::size_t>(k)] = get<std::uint8_t>(k); break;
                default: t.set(k, get<bool>(k) ? 1 : 0);
            }
        }
        return t;
    }
    // Every element has a value, and nothing else.
    bool whole() const {
        std::vector<bool> inside(extent(), false);
        for (std::int64_t k = 0; k < type_.elements(); ++k) inside[element(k)] = true;
        for (std::size_t e = 0; e < inside.size(); ++e)
            if (allocation_.written(e) != inside[e]) return false;
        return true;
    }
    std::vector<std::byte> bytes() const { return {allocation_.data(), allocation_.data() + allocation_.bytes()}; }

  private:
    std::size_t extent() const {
        std::int64_t elements = type_.elements() == 0 ? 0 : 1;
        for (std::size_t d = 0; d < strides_.size(); ++d) elements += strides_[d] * (type_.dims[d] - 1);
        return static_cast<std::size_t>(elements);
    }
    std::size_t element(std::int64_t k) const {
        std::int64_t element = 0;
        const Dims dense = dense_strides(type_.dims);
        for (std::size_t d = 0; d < dense.size(); ++d) element += k / dense[d] % type_.dims[d] * strides_[d];
        return static_cast<std::size_t>(element);
    }
    template <typename T>
    void put(std::int64_t k, T value) {
        std::memcpy(allocation_.data() + element(k) * sizeof(T), &value, sizeof(T));
    }
    template <typename T>
    T get(std::int64_t k) const {
        T value;
        std::memcpy(&value, allocation_.data() + element(k) * sizeof(T), sizeof(T));
        return value;
    }
    Type type_;
    Dims strides_;
    thunder::emulation::Allocation allocation_;
};

std::vector<Tensor> constant(const Op& op) {
    Module one;
    Function g;
    g.name = "main";
    Builder b(g);
    g.results = {b.constant(op.attributes.constant("value"))};
    one.functions.push_back(g);
    return evaluate(one, one.main(), std::span<const Tensor>());
}

// Runs main op by op: kernels on a device, everything else by its reference. In place: results of kernels over their
// operands wherever the description allows it.
std::vector<Tensor> run(const KernelCase& c, const Module& module, const std::string& device_name,
                        const Variant& variant, bool in_place) {
    thunder::Device device(1);
    thunder::Stream stream(device);
    const bool gpu = device_name == "gpu";
    const Function& f = module.main();
    std::map<Value, Tensor> values;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) values[f.arguments[k]] = c.arguments[k];
    for (const Op& op : f.ops) {
        std::vector<Tensor> operands;
        for (Value v : op.operands) operands.push_back(v ? values.at(v) : Tensor());
        std::vector<Type> types;
        for (Value v : op.results) types.push_back(f.type(v));
        if (op.name != "fused") {
            const std::vector<Tensor> results =
                op.name == "constant" ? constant(op) : op_def(op.name).reference(op, operands, types);
            for (std::size_t r = 0; r < results.size(); ++r) values[op.results[r]] = results[r];
            continue;
        }
        const std::string name = op.attributes.string("kernel");
        const auto kernel = kernel_table().find(device_name + "." + variant.name + "." + c.name + "." + name);
        if (kernel == kernel_table().end()) {
            ADD_FAILURE() << "the kernel " << name << " was not printed";
            return {};
        }
        std::vector<std::unique_ptr<Operand>> inputs, outputs;
        for (std::size_t k = 0; k < operands.size(); ++k)
            inputs.push_back(std::make_unique<Operand>("operand " + std::to_string(k), operands[k], variant));
        for (std::size_t k = 0; k < types.size(); ++k)
            outputs.push_back(std::make_unique<Operand>("result " + std::to_string(k), types[k], variant));
        std::vector<void*> in, out;
        for (const auto& operand : inputs) in.push_back(operand->data());
        for (const auto& result : outputs) out.push_back(result->data());
        std::vector<std::size_t> lies_over(outputs.size(), inputs.size());
        if (in_place) {
            std::vector<bool> taken(inputs.size(), false);
            for (const auto& [r, o] : in_place_pairs(describe_kernel(*module.find(name)))) {
                if (lies_over[r] != inputs.size() || taken[o]) continue;
                lies_over[r] = o;
                taken[o] = true;
                out[r] = in[o];
            }
        }
        kernel->second(out.data(), in.data(), stream);
        for (std::size_t r = 0; r < outputs.size(); ++r) {
            const Operand& result = lies_over[r] == inputs.size() ? *outputs[r] : *inputs[lies_over[r]];
            if (gpu) {
                EXPECT_TRUE(result.whole()) << name << " leaves something of result " << r << " or writes beside it";
            }
            values[op.results[r]] = result.tensor();
        }
        for (std::size_t o = 0; o < inputs.size(); ++o) {
            if (std::find(lies_over.begin(), lies_over.end(), o) == lies_over.end()) {
                EXPECT_EQ(inputs[o]->bytes(), Operand("", operands[o], variant).bytes()) << name << " writes an input";
            }
        }
    }
    std::vector<Tensor> results;
    for (Value v : f.results) results.push_back(values.at(v));
    return results;
}

bool same_bits(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
    if (a.size() != b.size()) return false;
    for (std::size_t r = 0; r < a.size(); ++r)
        if (Operand("", a[r], {}).bytes() != Operand("", b[r], {}).bytes()) return false;
    return true;
}

// The evaluator's numbers, where rounding to f32 is all that may differ: sums in another order and polynomials of 2 to
// 3 ulp, as on CPUs, and so within the case's own tolerance.
void check(const KernelCase& c, bool has_cpu_version) {
    const Module module = kernels_of(c);
    SCOPED_TRACE(to_string(module));
    const std::vector<Tensor> expected = evaluate(module, module.main(), c.arguments);
    // Fusion keeps the ops and their order: the same bits.
    if (c.module.functions.size() == 1)
        expect_near(evaluate(c.module, c.module.main(), c.arguments), expected, 0, "the program before fusion");
    thunder::emulation::Machine& machine = thunder::emulation::Machine::instance();
    for (const Variant& variant : variants(c)) {
        machine.set_seed(0);
        std::vector<Tensor> first;
        try {
            first = run(c, module, "gpu", variant, false);
            expect_near(first, expected, c.tolerance, variant.name);
            for (const std::uint64_t seed : {1, 2}) {
                machine.set_seed(seed);
                EXPECT_TRUE(same_bits(run(c, module, "gpu", variant, false), first))
                    << variant.name << ": another order of threads gives other bits";
            }
            EXPECT_TRUE(same_bits(run(c, module, "gpu", variant, true), first))
                << variant.name << ": in place gives other bits";
        } catch (const thunder::emulation::Fault& fault) {
            FAIL() << variant.name << ": " << fault.what();
        }
        if (!has_cpu_version) continue;
        // Each is within the tolerance of the evaluator; in a narrow type they may round to neighbours.
        expect_near(first, run(c, module, "cpu", variant, false), 2 * c.tolerance, variant.name + ", that for CPUs",
                    0x1.01p1);
    }
}

#ifdef RANDOM_KERNELS
class RandomKernels : public ::testing::TestWithParam<KernelCase> {};
TEST_P(RandomKernels, ComputeWhatTheGraphDid) {
    check(GetParam(), true);
}
INSTANTIATE_TEST_SUITE_P(Case, RandomKernels, ::testing::ValuesIn(random_cases()),
                         [](const auto& info) { return info.param.name; });
#else
class PrintedKernels : public ::testing::TestWithParam<KernelCase> {};
TEST_P(PrintedKernels, ComputeWhatTheProgramDid) {
    check(GetParam(), false);
}
INSTANTIATE_TEST_SUITE_P(Case, PrintedKernels, ::testing::ValuesIn(kernel_cases()),
                         [](const auto& info) { return info.param.name; });

class GoldenKernels : public ::testing::TestWithParam<KernelCase> {};
TEST_P(GoldenKernels, AreThoseForCpus) {
    check(GetParam(), true);
}
INSTANTIATE_TEST_SUITE_P(Case, GoldenKernels, ::testing::ValuesIn(golden_cases()),
                         [](const auto& info) { return info.param.name; });
#endif

}  // namespace
}  // namespace thunderc::testing
