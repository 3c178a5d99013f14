// SPDX-License-Identifier: Apache-2.0
// Writes a C++ file with one loop for each elementwise op and combination of element types in its samples.
#include <iostream>
#include <set>

#include "elementwise_code.h"

namespace thunderc::testing {
namespace {

std::string replaced(std::string text, const std::string& what, const std::string& by) {
    for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + by.size()))
        text.replace(at, what.size(), by);
    return text;
}

void print() {
    std::cout << "#include <algorithm>\n#include <cmath>\n\n#include \"device/cpu/vec_math.h\"\n#include "
                 "\"device/fp8.h\"\n#include \"elementwise_code.h\"\n\n"
                 "namespace thunderc::testing {\nnamespace {\nnamespace vec_math = thunder::vec_math;\n"
                 "using thunder::fp8_magnitude;\n\n";
    std::set<std::string> done;
    for (const OpDef* def : all_ops()) {
        for (const Sample& sample : def->samples) {
            if (!def->elementwise) continue;
            std::string name = signature(*def, sample);
            if (name.empty() || !done.insert(name).second) continue;
            std::vector<DType> types = element_types(*def, sample);
            const Elementwise& rule = *def->elementwise;
            const bool call = !is_float(types.back()) && !rule.integer_code.empty();
            std::string result = cpp_type(types.back()), code(call ? rule.integer_code : rule.code);
            std::cout << "void " << name
                      << "(const std::vector<const void*>& operands, void* result, std::int64_t count) {\n";
            for (std::size_t k = 0; k + 1 < types.size(); ++k) {
                std::string x = "x" + std::to_string(k);
                std::cout << "    const auto* " << x << " = static_cast<const " << cpp_type(types[k]) << "*>(operands["
                          << k << "]);\n";
                code = replaced(code, "{" + std::to_string(k) + "}", x + "[i]");
            }
            code = replaced(code, "{t}", result);
            std::cout << "    auto* y = static_cast<" << result
                      << "*>(result);\n    for (std::int64_t i = 0; i < count; ++i) y[i] = " << code << ";\n}\n";
        }
    }
    std::cout << "\n}  // namespace\n\nconst std::vector<ElementwiseEntry>& elementwise_entries() {\n    static const "
                 "std::vector<ElementwiseEntry> entries = {\n";
    for (const std::string& name : done) std::cout << "        {\"" << name << "\", " << name << "},\n";
    std::cout << "    };\n    return entries;\n}\n\n}  // namespace thunderc::testing\n";
}

}  // namespace
}  // namespace thunderc::testing

int main() {
    thunderc::testing::print();
    return std::cout.good() ? 0 : 1;
}
