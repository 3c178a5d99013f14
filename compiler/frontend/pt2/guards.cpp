// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/pt2/guards.h"

#include <fmt/format.h>

#include <charconv>
#include <system_error>

#include "compiler/frontend/pt2/shape_expression.h"

namespace thunderc::pt2_frontend {
namespace {

std::optional<bool> compare(std::string_view op, std::int64_t a, std::int64_t b) {
    if (op == "<=") return a <= b;
    if (op == ">=") return a >= b;
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    if (op == "<") return a < b;
    return a > b;
}

}  // namespace

Guard read_guard(std::string_view code,
                 const std::function<std::optional<std::int64_t>(std::string_view, std::size_t)>& size) {
    constexpr std::string_view begin = "L['", between = "'].size()[";
    Guard out;
    std::string numbers;  // the code with numbers for sizes
    bool known = true;
    std::size_t at = 0;
    while (at < code.size()) {
        const std::size_t next = code.find(begin, at), name = next + begin.size();
        const std::size_t name_end = next == std::string_view::npos ? next : code.find(between, name);
        const std::size_t digits = name_end + between.size();
        const std::size_t close = name_end == std::string_view::npos ? name_end : code.find(']', digits);
        if (close == std::string_view::npos) break;
        std::size_t dimension = 0;
        const auto parsed = std::from_chars(code.data() + digits, code.data() + close, dimension);
        const std::string_view input = code.substr(name, name_end - name);
        const std::optional<std::int64_t> value = size(input, dimension);
        known = known && parsed.ec == std::errc() && parsed.ptr == code.data() + close && value;
        const std::string_view before = code.substr(at, next - at);
        out.text += fmt::format("{}{}.size({})", before, input, dimension);
        numbers += fmt::format("{}{}", before, value.value_or(0));
        at = close + 1;
    }
    out.text += code.substr(at);
    numbers += code.substr(at);
    if (!known) return out;
    for (const std::string_view op : {" <= ", " >= ", " == ", " != ", " < ", " > "}) {
        const std::size_t here = numbers.find(op);
        if (here == std::string::npos) continue;
        const std::optional<std::int64_t> left = evaluate(std::string_view(numbers).substr(0, here), {}),
                                          right = evaluate(std::string_view(numbers).substr(here + op.size()), {});
        if (left && right) out.holds = compare(op.substr(1, op.size() - 2), *left, *right);
        return out;
    }
    return out;
}

}  // namespace thunderc::pt2_frontend
