// SPDX-License-Identifier: Apache-2.0
// Calls of the runtime API that primitives become, run by naive loops that follow the words of
// runtime-lib/device/api.h, against the ops' references.
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <map>
#include <regex>

#include "compiler/ir/builder.h"
#include "sample_checks.h"

namespace thunderc::testing {
namespace runtime_call_test {

// The fields of a call by name: literals as numbers, tensors as what they name.
struct Fields {
    std::map<std::string, std::int64_t> numbers;
    std::map<std::string, const Tensor*> tensors;

    std::int64_t number(const std::string& name, std::int64_t otherwise) const {
        auto at = numbers.find(name);
        return at == numbers.end() ? otherwise : at->second;
    }
    double value(const std::string& tensor, std::int64_t at) const {
        const Tensor& t = *tensors.at(tensor);
        const auto k = static_cast<std::size_t>(at);
        return t.floating() ? t.f.at(k) : static_cast<double>(t.i.at(k));
    }
    std::int64_t index(std::int64_t at) const { return tensors.at("index")->i.at(static_cast<std::size_t>(at)); }
};

using Naive = std::function<void(const Fields&, std::vector<double>& out)>;

void matmul(const Fields& f, std::vector<double>& c) {
    std::int64_t m = f.number("m", 0), n = f.number("n", 0), k = f.number("k", 0);
    bool ta = f.number("transpose_a", 0) != 0, tb = f.number("transpose_b", 0) != 0;
    for (std::int64_t b = 0; b < f.number("batch", 1); ++b)
        for (std::int64_t i = 0; i < m; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
                double sum = 0;
                for (std::int64_t l = 0; l < k; ++l)
                    sum += f.value("a", b * f.number("stride_a", 0) + (ta ? l * m + i : i * k + l)) *
                           f.value("b", b * f.number("stride_b", 0) + (tb ? j * k + l : l * n + j));
                c.at(static_cast<std::size_t>(b * f.number("stride_c", 0) + i * n + j)) = sum;
            }
}

template <typename Move>
void for_each_taken(const Fields& f, const Move& move) {
    std::int64_t outer = f.number("outer", 1), entries = f.number("entries", 0), count = f.number("count", 0),
                 inner = f.number("inner", 1);
    for (std::int64_t o = 0; o < outer; ++o)
        for (std::int64_t c = 0; c < count; ++c)
            for (std::int64_t i = 0; i < inner; ++i)
                move((o * count + c) * inner + i, (o * entries + f.index(c)) * inner + i);
}

void gather(const Fields& f, std::vector<double>& y) {
    for_each_taken(f, [&](std::int64_t taken, std::int64_t entry) {
        y.at(static_cast<std::size_t>(taken)) = f.value("x", entry);
    });
}

void scatter_add(const Fields& f, std::vector<double>& y) {
    for_each_taken(f, [&](std::int64_t taken, std::int64_t entry) {
        y.at(static_cast<std::size_t>(entry)) += f.value("x", taken);
    });
}

// How many samples became calls.
int judge(const std::string& op_name, const Naive& naive) {
    const OpDef& def = op_def(op_name);
    int judged = 0;
    for (const Sample& sample : def.samples) {
        SCOPED_TRACE(op_name + ", sample " + sample.name);
        Function f;
        std::vector<Value> arguments;
        for (const SampleOperand& operand : sample.operands) arguments.push_back(f.add_argument(operand.type, "x"));
        Builder b(f);
        b.emit(op_name, arguments, sample.attributes);
        const Op& op = f.ops.back();
        RuntimeCall call = def.call(op, f);
        if (call.function.empty()) continue;
        EXPECT_EQ(call.function, op_name);
        EXPECT_NE(call.comment, "");
        std::vector<Tensor> operands = make_operands(op_name, sample);
        bool from_the_end = false;  // negative indices are for constants alone
        for (const Tensor& t : operands)
            for (std::int64_t i : t.i) from_the_end = from_the_end || i < 0;
        if (from_the_end) continue;
        Fields fields;
        for (const CallField& field : call.fields) {
            if (field.kind == CallField::Kind::operand) fields.tensors[field.name] = &operands[field.index];
            if (field.kind == CallField::Kind::literal)
                fields.numbers[field.name] = field.literal == "true"    ? 1
                                             : field.literal == "false" ? 0
                                                                        : std::stoll(field.literal);
        }
        std::vector<Type> types = {f.type(op.results[0])};
        Tensor expected = def.reference(op, operands, types)[0];
        std::vector<double> actual(static_cast<std::size_t>(expected.size()));
        naive(fields, actual);
        for (std::size_t k = 0; k < actual.size(); ++k) {
            const double want = expected.at(static_cast<std::int64_t>(k));
            if (expected.floating())
                EXPECT_NEAR(actual[k], want, 1e-12) << "element " << k;  // fp64 sums of a few terms
            else
                EXPECT_EQ(actual[k], want) << "element " << k;
        }
        ++judged;
    }
    return judged;
}

TEST(RuntimeCall, Matmul) {
    EXPECT_EQ(judge("matmul", matmul), 11);
}
TEST(RuntimeCall, Gather) {
    EXPECT_EQ(judge("gather", gather), 5);
}
TEST(RuntimeCall, ScatterAdd) {
    EXPECT_EQ(judge("scatter_add", scatter_add), 4);
}

// Whatever is looked up, and by integers of either size, is looked up by the runtime API: no kernel does it.
TEST(RuntimeCall, GatherOfEveryType) {
    for (DType data : {DType::f32, DType::bf16, DType::i64, DType::i32, DType::boolean})
        for (DType index : {DType::i64, DType::i32}) {
            Function f;
            Value x = f.add_argument(Type::tensor(data, {5, 3}), "x"),
                  i = f.add_argument(Type::tensor(index, {4}), "i");
            Builder(f).op("gather", {x, i}, {{"axis", std::int64_t{0}}});
            EXPECT_EQ(op_def("gather").call(f.ops.back(), f).function, "gather") << name_of(data) << name_of(index);
        }
}

RuntimeCall call_of(const Type& a, const Type& b_type, Function& f) {
    Value a_value = f.add_argument(a, "a"), b_value = f.add_argument(b_type, "b");
    Builder b(f);
    b.op("matmul", {a_value, b_value}, {{"transpose_a", false}, {"transpose_b", false}});
    return op_def("matmul").call(f.ops.back(), f);
}

TEST(RuntimeCall, MatmulWithOneRightSideIsOneTallProduct) {
    Function f;
    RuntimeCall call = call_of(Type::tensor(DType::f32, {2, 3, 5}), Type::tensor(DType::f32, {5, 4}), f);
    std::string text;
    for (const CallField& field : call.fields)
        text += field.name + (field.literal.empty() ? "" : "=" + field.literal) + " ";
    EXPECT_EQ(text, "c a b m=6 n=4 k=5 ");
}

TEST(RuntimeCall, MatmulThatRepeatsInPartIsDeclinedUntilDecomposed) {
    Function f;
    RuntimeCall call = call_of(Type::tensor(DType::f32, {2, 1, 3, 2}), Type::tensor(DType::f32, {2, 2, 2, 3}), f);
    EXPECT_EQ(call.function, "");
    Builder b(f);
    const Op op = f.ops.back();
    op_def("matmul").decompose(b, op);
    EXPECT_EQ(op_def("matmul").call(f.ops.back(), f).function, "matmul");
}

// A definition knows the runtime API, not the program that is printed around a call: whatever is a name there (members,
// sizes, arenas) is a field of a kind of its own.
TEST(RuntimeCall, LiteralsAreValues) {
    const std::string plain =
        "(true|false|nullptr|-?[0-9][0-9.]*(e[-+]?[0-9]+)?F?|[A-Z][A-Za-z0-9]*::[a-z][a-z0-9_]*|\"[a-z ]+\")";
    const std::string list = "(" + plain + R"(|\{)" + plain + "(, " + plain + R"()*\}))";
    const std::string member = R"(\.[A-Za-z]+ = )" + list;
    const std::regex value(plain + R"(|\{)" + member + "(, " + member + R"()*\})");
    int literals = 0;
    for (const OpDef* def : all_ops()) {
        if (!def->call) continue;
        for (const Sample& sample : def->samples) {
            Function f;
            std::vector<Value> operands;
            for (const SampleOperand& o : sample.operands)
                operands.push_back(o.absent ? Value{} : f.add_argument(o.type, "x"));
            Builder b(f);
            b.emit(def->name, operands, sample.attributes);
            for (const CallField& field : def->call(f.ops.back(), f).fields) {
                if (field.kind != CallField::Kind::literal) continue;
                ++literals;
                EXPECT_TRUE(std::regex_match(field.literal, value))
                    << def->name << ": ." << field.name << " = " << field.literal;
            }
        }
    }
    EXPECT_GT(literals, 100);
}

TEST(RuntimeCall, OptimizersWorkOnWholeArenas) {
    Function f;
    std::vector<Value> operands;
    const Sample& sample = op_def("adamw").samples.front();
    for (const SampleOperand& o : sample.operands) operands.push_back(f.add_argument(o.type, "x"));
    Builder b(f);
    b.emit("adamw", operands, sample.attributes);
    std::string text;
    for (const CallField& field : op_def("adamw").call(f.ops.back(), f).fields)
        if (field.kind == CallField::Kind::arena)
            text += field.name + ": " + std::string(name_of(field.arena)) + " " + std::to_string(field.index) + "\n";
    EXPECT_EQ(text,
              "parameters: parameters 0\ngradients: gradients 0\nstates[0]: optimizer 0\nstates[1]: optimizer 1\n");
}

}  // namespace runtime_call_test
}  // namespace thunderc::testing
