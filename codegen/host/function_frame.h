// SPDX-License-Identifier: Apache-2.0
// What the printers of a function's statements share. A part of functions.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "codegen/host/functions.h"

namespace thunderc {

// What a function's values are called where its statements stand.
struct FunctionPrinter::Frame {
    const Function& f;
    const std::vector<std::string>& names;
    bool entry = false;                        // a member of Model, or what stands in one
    std::map<Value, std::string> expressions;  // of values that are no local pointer: "saved.qkv"
    const Op* loop = nullptr;                  // whose body this is, printed in its for statement
    const Frame* outside = nullptr;            // of the function that has this loop
    std::span<const Op> part = f.ops;          // of its ops: those that are printed
};

// "arenas_.scratch"; in blocks.cpp "arenas.scratch".
std::string arena_text(bool entry, Placement::Arena arena);
// "at<float>(arenas_.scratch, offset::x)"
std::string at_arena(DType dtype, const std::string& base, const std::string& offset);
// The piece of scratch memory that a block works in.
std::string scratch_text(bool entry, const Function& block);
// Scopes in comments: without the wrapper of the layer, "self_attn.{q,k,v}_proj" would be ideal; the leaf is what helps
// most.
std::string leaf_scope(const Function& f, const std::string& scope);
// "arenas_", and "arenas" in blocks.cpp.
const char* arenas_name(bool entry);

}  // namespace thunderc
