// SPDX-License-Identifier: Apache-2.0
// Printed, compiled kernels against the fp64 evaluator of the program before fusion.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <map>

#include "cases.h"
#include "codegen/kernels/cpu/kernels_cpu.h"
#include "compare.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/op_def.h"
#include "compiler/ir/print.h"
#include "compiler/ir/verify.h"
#include "compiler/kernels/in_place.h"
#include "device/cpu/bf16.h"
#include "kernel_table.h"

std::map<std::string, KernelCall>& kernel_table() {
    static std::map<std::string, KernelCall> table;
    return table;
}
bool list_kernel(const std::string& name, KernelCall call) {
    return kernel_table().emplace(name, call).second;
}

namespace thunderc::testing {
namespace {

// A tensor as the program would hold it, with canaries around it.
class Bytes {
  public:
    explicit Bytes(const Type& type, bool strided = false)
        : type_(type), strides_(strided ? padded_strides(type.dims) : dense_strides(type.dims)) {
        std::int64_t elements = 1;
        for (std::size_t d = 0; d < strides_.size(); ++d) elements += strides_[d] * (type.dims[d] - 1);
        data_.assign(static_cast<std::size_t>(elements) * size_of(type.dtype) + 2 * guard, std::byte{0x5a});
    }
    explicit Bytes(const Tensor& t, bool strided = false) : Bytes(t.type, strided) {
        for (std::int64_t k = 0; k < t.size(); ++k) {
            switch (type_.dtype) {
                case DType::f64: put(k, t.at(k)); break;
                case DType::f32: put(k, static_cast<float>(t.at(k))); break;
                case DType::f16:
                case DType::bf16: put(k, half_bits(type_.dtype, t.at(k))); break;
                case DType::i64: put(k, t.i[static_cast<std::size_t>(k)]); break;
                case DType::i32: put(k, static_cast<std::int32_t>(t.i[static_cast<std::size_t>(k)])); break;
                case DType::u8: put(k, static_cast<std::uint8_t>(t.i[static_cast<std::size_t>(k)])); break;
                case DType::boolean: put(k, t.at(k) != 0); break;
                default: ADD_FAILURE() << "a type that kernels do not hold";
            }
        }
    }
    void* data() { return data_.data() + guard; }
    Tensor tensor() const {
        Tensor t(type_);
        for (std::int64_t k = 0; k < t.size(); ++k) {
            switch (type_.dtype) {
                case DType::f64: t.set(k, get<double>(k)); break;
                case DType::f32: t.set(k, static_cast<double>(get<float>(k))); break;
                case DType::f16:
                case DType::bf16: t.set(k, half_value(type_.dtype, get<std::uint16_t>(k))); break;
                case DType::i64: t.i[static_cast<std::size_t>(k)] = get<std::int64_t>(k); break;
                case DType::i32: t.i[static_cast<std::size_t>(k)] = get<std::int32_t>(k); break;
                case DType::u8: t.i[static_cast<std::size_t>(k)] = get<std::uint8_t>(k); break;
                default: t.set(k, get<bool>(k) ? 1 : 0);
            }
        }
        return t;
    }
    // What lies around the tensor and between its rows.
    bool intact() const {
        Bytes blank = *this;
        const std::size_t size = size_of(type_.dtype);
        for (std::int64_t k = 0; k < type_.elements(); ++k) std::memset(blank.at(k), 0x5a, size);
        return std::all_of(blank.data_.begin(), blank.data_.end(), [](std::byte b) { return b == std::byte{0x5a}; });
    }
    std::vector<std::byte> bytes() const { return data_; }

  private:
    static constexpr std::size_t guard = 64;
    std::byte* at(std::int64_t k) {
        std::int64_t element = 0;
        const Dims dense = dense_strides(type_.dims);
        for (std::size_t d = 0; d < dense.size(); ++d) element += k / dense[d] % type_.dims[d] * strides_[d];
        return data_.data() + guard + static_cast<std::size_t>(element) * size_of(type_.dtype);
    }
    template <typename T>
    void put(std::int64_t k, T value) {
        std::memcpy(at(k), &value, sizeof(T));
    }
    template <typename T>
    T get(std::int64_t k) const {
        T value;
        std::memcpy(&value, const_cast<Bytes*>(this)->at(k), sizeof(T));
        return value;
    }
    Type type_;
    Dims strides_;
    std::vector<std::byte> data_;
};

// Runs main op by op: kernels compiled, everything else by its reference. In place: results of kernels over their
// operands wherever the description allows it.
std::vector<Tensor> run(const KernelCase& c, const Module& module, int threads, bool in_place,
                        const std::string& variant = "dense") {
    const bool strided = variant == "strided";
    thunder::Device device(threads);
    thunder::Stream stream(device);
    const Function& f = module.main();
    std::map<Value, Tensor> values;
    for (std::size_t k = 0; k < f.arguments.size(); ++k) values[f.arguments[k]] = c.arguments[k];
    for (const Op& op : f.ops) {
        std::vector<Tensor> operands;
        for (Value v : op.operands) operands.push_back(v ? values.at(v) : Tensor());
        std::vector<Type> types;
        for (Value v : op.results) types.push_back(f.type(v));
        if (op.name != "fused") {
            std::vector<Tensor> results;
            if (op.name == "constant") {
                Module one;
                Function g;
                g.name = "main";
                Builder b(g);
                g.results = {b.constant(op.attributes.constant("value"))};
                one.functions.push_back(g);
                results = evaluate(one, one.main(), std::span<const Tensor>());
            } else {
                results = op_def(op.name).reference(op, operands, types);
            }
            for (std::size_t r = 0; r < results.size(); ++r) values[op.results[r]] = results[r];
            continue;
        }
        const std::string name = op.attributes.string("kernel");
        const auto kernel = kernel_table().find(fmt::format("{}.{}.{}", variant, c.name, name));
        if (kernel == kernel_table().end()) {
            ADD_FAILURE() << "the kernel " << name << " was not printed";
            return {};
        }
        std::vector<Bytes> inputs, outputs;
        for (const Tensor& t : operands) inputs.emplace_back(t, strided);
        for (const Type& t : types) outputs.emplace_back(t, strided);
        std::vector<void*> in, out;
        for (Bytes& bytes : inputs) in.push_back(bytes.data());
        for (Bytes& bytes : outputs) out.push_back(bytes.data());
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
            Bytes& bytes = lies_over[r] == inputs.size() ? outputs[r] : inputs[lies_over[r]];
            EXPECT_TRUE(bytes.intact()) << name << " writes past its output";
            values[op.results[r]] = bytes.tensor();
        }
        for (std::size_t o = 0; o < inputs.size(); ++o) {
            EXPECT_TRUE(inputs[o].intact()) << name << " writes past an input";
            if (std::find(lies_over.begin(), lies_over.end(), o) == lies_over.end()) {
                EXPECT_EQ(inputs[o].bytes(), Bytes(operands[o], strided).bytes()) << name << " writes an input";
            }
        }
    }
    std::vector<Tensor> results;
    for (Value v : f.results) results.push_back(values.at(v));
    return results;
}

std::vector<std::vector<std::byte>> bits(const std::vector<Tensor>& tensors) {
    std::vector<std::vector<std::byte>> out;
    for (const Tensor& t : tensors) out.push_back(Bytes(t).bytes());
    return out;
}

class Kernels : public ::testing::TestWithParam<KernelCase> {};

TEST_P(Kernels, ComputeWhatTheProgramDid) {
    const KernelCase& c = GetParam();
    const Module module = fused(c);
    verify(module);
    SCOPED_TRACE(to_string(module));
    const std::vector<Tensor> expected = evaluate(c.module, c.module.main(), c.arguments);
    // fusion keeps the ops and their order: the same bits
    expect_near(evaluate(module, module.main(), c.arguments), expected, 0, "the evaluator on the fused program");
    const std::vector<Tensor> one = run(c, module, 1, false);
    expect_near(one, expected, c.tolerance, "one thread");
    EXPECT_EQ(bits(run(c, module, 3, false)), bits(one)) << "three threads give other bits";
    EXPECT_EQ(bits(run(c, module, 2, true)), bits(one)) << "in place gives other bits";
    if (!c.strided) return;
    // Other loops, hence other places where products and sums are contracted: near, but not the same bits.
    expect_near(run(c, module, 2, false, "strided"), expected, c.tolerance, "rows apart");
    expect_near(run(c, module, 2, true, "strided"), expected, c.tolerance, "rows apart, in place");
}

class NaiveKernels : public ::testing::TestWithParam<KernelCase> {};

TEST_P(NaiveKernels, RoundOnce) {
    const KernelCase& c = GetParam();
    const Module module = fused(c);
    SCOPED_TRACE(to_string(module));
    expect_near(run(c, module, 1, false, "naive"), evaluate(c.module, c.module.main(), c.arguments), c.tolerance,
                "naive");
}

INSTANTIATE_TEST_SUITE_P(Case, NaiveKernels, ::testing::ValuesIn(naive_cases()),
                         [](const auto& info) { return info.param.name; });
INSTANTIATE_TEST_SUITE_P(Case, Kernels, ::testing::ValuesIn(kernel_cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace thunderc::testing
