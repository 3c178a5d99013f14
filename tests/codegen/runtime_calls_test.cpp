// SPDX-License-Identifier: Apache-2.0
// A compiler takes every combination of fields that a call can have: of each op with a call, whichever of its optional
// operands there are, with each activation, kept or not, with rows apart or not. The text is made by what prints it.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "codegen/host/call_members.h"
#include "compiler/ir/module.h"
#include "compiler/ir/op_def.h"

namespace thunderc {
namespace runtime_calls_test {
namespace fs = std::filesystem;

// The op on some of the sample's operands; none where its shape rule says that it needs the others.
std::optional<RuntimeCall> call_of(const OpDef& def, const Sample& sample, unsigned left_out, const Attributes& given) {
    Function f;
    Op op;
    op.name = def.name;
    op.attributes = given;
    std::vector<std::optional<Type>> types;
    for (std::size_t k = 0; k < sample.operands.size(); ++k) {
        const bool absent = sample.operands[k].absent || (left_out >> k & 1U) != 0;
        op.operands.push_back(absent ? Value{} : f.add_argument(sample.operands[k].type, "x"));
        types.push_back(absent ? std::nullopt : std::optional(sample.operands[k].type));
    }
    while (!types.empty() && !types.back()) {
        types.pop_back();
        op.operands.pop_back();
    }
    try {
        for (const Type& type : def.infer({types, op.attributes})) op.results.push_back(f.add_value(type, "y"));
    } catch (const ShapeError&) {
        return std::nullopt;
    }
    return def.call(op, f);
}

TEST(RuntimeCalls, AreTakenByACompilerInEveryCombination) {
    std::set<std::string> lines;
    std::set<std::string> headers = {"device/api.h"};
    for (const OpDef* def : all_ops()) {
        // What several ranks do for a norm is printed as one call, not as these.
        if (!def->call || def->name == "sum_of_squares" || def->name == "norm_of_squares") continue;
        for (const Sample& sample : def->samples) {
            std::vector<Attributes> all = {sample.attributes};
            if (def->name == "linear")
                for (const char* activation : {"none", "relu", "gelu", "gelu_tanh", "silu", "tanh"})
                    for (bool keep : {false, true})
                        all.push_back({{"activation", std::string(activation)}, {"keep_pre_activation", keep}});
            for (const Attributes& attributes : all)
                // An optimizer has all of its operands.
                for (unsigned left_out = 0; left_out < (def->optimizer ? 1U : 1U << sample.operands.size());
                     ++left_out) {
                    const std::optional<RuntimeCall> call = call_of(*def, sample, left_out, attributes);
                    if (!call || call->function.empty()) continue;
                    if (!call->header.empty()) headers.insert(call->header);
                    for (bool strided : {false, true}) {
                        std::vector<std::pair<std::string, std::string>> values;
                        for (const CallField& field : call->fields) {
                            const bool literal = field.kind == CallField::Kind::literal;
                            const bool number = field.kind == CallField::Kind::elements;
                            values.emplace_back(field.name, literal ? field.literal : number ? "8" : "{}");
                            if (strided && !field.stride_field.empty()) values.emplace_back(field.stride_field, "8");
                        }
                        lines.insert(call_text(*call, values));
                    }
                }
        }
    }
    EXPECT_GT(lines.size(), 200U);
    const fs::path file = fs::path(testing::TempDir()) / "runtime_calls.cpp";
    std::ofstream out(file);
    for (const std::string& header : headers) out << "#include \"" << header << "\"\n";
    out << "using namespace thunder;\nvoid calls(Stream& stream);\nvoid calls(Stream& stream) {\n";
    for (const std::string& line : lines) out << "    " << line << "\n";
    out << "}\n";
    out.close();
    const std::string command = fmt::format(
        "{} -std=c++20 -fsyntax-only -Wall -Wextra -Werror "
        "-I '{}/../../runtime-lib' '{}'",
        CXX_COMPILER, FIXTURES, file.string());
    EXPECT_EQ(std::system(command.c_str()), 0) << command;
    fs::remove(file);
}

}  // namespace runtime_calls_test
}  // namespace thunderc
