// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/call_formula.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <set>

namespace thunderc {
namespace {

// Characters of a formula that stands in the text of a function, in all its equations. In the names of the call, which
// are longer than a kernel's, it may take more: who reads on finds the names that he knows.
constexpr std::size_t longest = 350, longest_in_kernels_names = 250;

bool in_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// "scalars->loss_sum" for "&arenas_.scalars->loss_sum".
std::string short_name(const std::string& text) {
    if (!text.starts_with('&')) return text;
    const std::size_t dot = text.find('.');
    return dot == std::string::npos ? text : text.substr(dot + 1);
}

// Words and the dots and arrows between them: no sum, which would have to be told apart from the formula's own.
bool is_name(const std::string& text) {
    for (std::size_t k = 0; k < text.size(); ++k) {
        if (text.compare(k, 2, "->") == 0)
            ++k;
        else if (!in_name(text[k]) && text[k] != '.')
            return false;
    }
    return !text.empty();
}

bool mentions(const std::string& equation, const std::string& name) {
    for (std::size_t at = equation.find(name); at != std::string::npos; at = equation.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        const bool begins = at == 0 || (!in_name(equation[at - 1]) && equation[at - 1] != '.');
        if (begins && (end == equation.size() || !in_name(equation[end]))) return true;
    }
    return false;
}

std::size_t size_of(const std::vector<std::string>& equations) {
    std::size_t size = 0;
    for (const std::string& equation : equations) size += equation.size() + 2;
    return size;
}

}  // namespace

CallFormula call_formula(const KernelTable& kernels, const Function& caller, const Op& fused,
                         const std::vector<PassedArgument>& inputs, const std::vector<PassedArgument>& outputs) {
    std::vector<std::string> read, given;
    std::set<std::pair<std::string, Value>> tensors;
    std::set<std::string> names;
    bool clear = true;  // each name is one tensor, whole
    for (std::size_t k = 0; k < inputs.size(); ++k) {
        read.push_back(short_name(inputs[k].text));
        clear = clear && !inputs[k].part && is_name(read.back());
        if (tensors.emplace(read.back(), fused.operands[k]).second) clear = names.insert(read.back()).second && clear;
    }
    for (const PassedArgument& output : outputs) {
        given.push_back(short_name(output.text));
        clear = clear && !output.part && is_name(given.back());
    }
    if (clear) {
        std::vector<std::string> lines = kernels.formula(caller, fused, read, given);
        // x = x + d is clear alone; with another equation of x, nobody sees which reads the old one.
        for (const std::string& name : given)
            clear = clear && (!names.contains(name) || std::count_if(lines.begin(), lines.end(), [&](const auto& line) {
                                                           return mentions(line, name);
                                                       }) == 1);
        if (clear && size_of(lines) <= longest) return {std::move(lines), false};
    }
    std::vector<std::string> lines = kernels.formula(caller, fused);
    if (size_of(lines) <= longest_in_kernels_names) return {std::move(lines), true};
    // A list of what is computed from what would be the call once more.
    return {{lines.size() == 1 ? "the kernel's text begins with its equation"
                               : fmt::format("the kernel's text begins with its {} equations", lines.size())},
            false};
}

}  // namespace thunderc
