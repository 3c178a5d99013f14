// SPDX-License-Identifier: Apache-2.0
#include "cli/input_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

bool is_name(const std::string& text) {
    const auto part_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
    return !text.empty() && std::isdigit(static_cast<unsigned char>(text[0])) == 0 &&
           std::all_of(text.begin(), text.end(), part_of_name);
}

// A number, or a name that --batch, --seq and --dim bind.
std::optional<CompileOptions::InputShape::Extent> extent_of(const std::string& text) {
    CompileOptions::InputShape::Extent out;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out.value);
    if (error == std::errc() && end == text.data() + text.size() && out.value >= 0) return out;
    if (!is_name(text)) return std::nullopt;
    return CompileOptions::InputShape::Extent{0, text};
}

std::optional<CompileOptions::InputShape> shape_of(const std::string& text) {
    const std::size_t open = text.find('[');
    if (open == std::string::npos || open == 0 || text.back() != ']') return std::nullopt;
    CompileOptions::InputShape out;
    out.type = text.substr(0, open);
    const std::string inside = text.substr(open + 1, text.size() - open - 2);
    for (std::size_t at = 0; at <= inside.size() && !inside.empty();) {
        const std::size_t comma = std::min(inside.find(',', at), inside.size());
        const auto extent = extent_of(inside.substr(at, comma - at));
        if (!extent) return std::nullopt;
        out.shape.push_back(*extent);
        at = comma + 1;
    }
    return out;
}

}  // namespace

void add_input_shape(const std::string& text, CompileOptions& compile) {
    const std::size_t equals = text.find('=');
    const auto shape = equals == std::string::npos || equals == 0 ? std::nullopt : shape_of(text.substr(equals + 1));
    Diagnostic d;
    if (!shape) {
        d.message = fmt::format("--input takes NAME=TYPE[N,...], not {}", text);
        d.help = "--input image=f32[8,3,64,64], for example, or --input ids=i64[batch,seq] with --batch and --seq";
        throw UsageError(std::move(d));
    }
    if (compile.inputs.emplace(text.substr(0, equals), *shape).second) return;
    d.message = fmt::format("--input gives {} twice", text.substr(0, equals));
    d.help = "leave one of the two out";
    throw UsageError(std::move(d));
}

std::string input_shape_text(const std::string& name, const CompileOptions::InputShape& input) {
    std::string out = fmt::format("{}={}[", name, input.type);
    for (std::size_t k = 0; k < input.shape.size(); ++k)
        out += (k == 0 ? "" : ",") +
               (input.shape[k].symbol.empty() ? std::to_string(input.shape[k].value) : input.shape[k].symbol);
    return out + "]";
}

}  // namespace thunderc
