// SPDX-License-Identifier: Apache-2.0
// What a header says of a call: the members of the struct that it takes, in order.
//
//     struct SwishForward {
//         float* y = nullptr;        // (rows, C)
//         const float* x = nullptr;
//         std::int64_t rows = 0, C = 0;
//     };
//     void swish_forward(const SwishForward& call, thunder::Stream& stream);
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace thunderc {

// Of "Output dq{}", "std::int64_t rows = 0": what stands last in front of the initial value, for each member.
std::vector<std::string> struct_members(std::string_view body);

// What stands between the two; empty where one is missing.
std::string_view text_between(std::string_view text, std::string_view begin, std::string_view end);

// The name of the struct that `void function(const STRUCT& ...` takes; empty where the header has none.
std::string struct_of_call(std::string_view header, std::string_view function);
// The text between `struct NAME {` and the line `};`; empty where the header has none.
std::string_view struct_body(std::string_view header, std::string_view name);

}  // namespace thunderc
