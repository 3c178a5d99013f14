// SPDX-License-Identifier: Apache-2.0
#include "data/token_roles.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "program/inputs.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::string_view role_names[] = {"tokens", "next_tokens", "ones", "positions", "documents"};

std::string role_of(const InputSpec& input, const Options& options) {
    for (const auto& [name, role] : options.map) {
        if (name == input.name) return role;
    }
    return std::string(input.source);
}

bool fits(const InputSpec& input, TokenRole role) {
    const bool integers = input.dtype == DType::i64 || input.dtype == DType::i32;
    const std::size_t rank = input.shape.size();
    if (role == TokenRole::ones) return !is_narrow(input.dtype);
    if (role == TokenRole::positions) return integers && !input.shape.empty();
    if (role == TokenRole::documents && (input.dtype == DType::boolean || input.dtype == DType::f32))
        return input.batched && rank > 2 && input.shape[rank - 1] == input.shape[rank - 2];
    return integers && input.batched && rank == 2;
}

// "tokens|next_tokens|ones|positions": those that can feed it.
std::string roles_for(const InputSpec& input) {
    std::string text;
    for (std::size_t k = 0; k < std::size(role_names); ++k)
        if (fits(input, static_cast<TokenRole>(k))) text += cat(text.empty() ? "" : "|", role_names[k]);
    return text.empty() ? "..." : text;
}

std::string type_text(DType dtype) {
    return dtype == DType::boolean ? "boolean" : name_of(dtype);
}

// Of what is the same in every window; tokens are looked at as they are read.
void check_range(const InputSpec& input, TokenRole role, std::uint64_t length) {
    const bool ones = role == TokenRole::ones;
    if (!ones && role != TokenRole::positions && role != TokenRole::documents) return;
    const auto count = static_cast<std::int64_t>(input.bytes / size_of(input.dtype));
    for (std::int64_t i = 0; i < count; ++i) {
        const IdRange ids = ids_at(input, i);
        if (ids.holds(ones ? 1 : i % static_cast<std::int64_t>(length))) continue;
        fail(cat("the input ", input.name, " takes ",
                 ones ? "ones"
                      : cat(role == TokenRole::positions ? "positions" : "documents", " up to ",
                            static_cast<std::int64_t>(length) - 1),
                 ", and its numbers go from 0 to ", ids.entries - 1),
             ones ? "--feed FILE, with numbers in that range"
                  : "write the program with a smaller --seq, or --feed FILE with numbers in that range");
    }
}

}  // namespace

std::span<const std::string_view> token_role_names() {
    return role_names;
}

bool takes_no_label(const InputSpec& input) {
    return input.ignore_index != 0;
}

TokenRoles choose_token_roles(const ProgramSpec& program, const Options& options) {
    if (std::none_of(program.inputs.begin(), program.inputs.end(),
                     [](const InputSpec& input) { return fits(input, TokenRole::tokens); }))
        fail(cat("none of the inputs of ", program.name,
                 " takes the tokens of --data, which are whole numbers [batch, positions]"),
             "--feed FILE has batches of any numbers");
    std::string inputs, example;  // all that nothing is said of
    for (const InputSpec& input : program.inputs) {
        if (!role_of(input, options).empty()) continue;
        inputs += cat(inputs.empty() ? "" : ", ", input.name, " ", shape_text(input.shape));
        example += cat(example.empty() ? "--map " : ",", input.name, "=", roles_for(input));
    }
    if (!inputs.empty()) fail(cat("--data does not say what is fed to ", inputs), cat(example, "; or --feed FILE"));
    TokenRoles roles;
    for (const InputSpec& input : program.inputs) {
        const std::string name = role_of(input, options);
        example = cat("--map ", input.name, "=", roles_for(input), "; or --feed FILE");
        const auto found = std::find(std::begin(role_names), std::end(role_names), name);
        const auto role = static_cast<TokenRole>(found - std::begin(role_names));
        if (found == std::end(role_names) || !fits(input, role)) {
            fail(cat("the input ", input.name, " is ", shape_text(input.shape), " of type ", type_text(input.dtype),
                     ": ", name, " cannot feed it"),
                 example);
        }
        roles.of.push_back(role);
        if (role == TokenRole::ones) continue;
        const auto length = static_cast<std::uint64_t>(input.shape.back());
        if (roles.length != 0 && length != roles.length) {
            fail(cat("the input ", input.name, " ", shape_text(input.shape), " does not have the ", roles.length,
                     " positions of the inputs before it"),
                 example);
        }
        roles.length = length;
    }
    if (roles.length == 0) fail("none of the inputs takes tokens", "--map INPUT=tokens, or --feed FILE");
    for (std::size_t i = 0; i < roles.of.size(); ++i) check_range(program.inputs[i], roles.of[i], roles.length);
    return roles;
}

}  // namespace thunder
