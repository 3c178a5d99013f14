// SPDX-License-Identifier: Apache-2.0
// Where the text calls the functions of blocks.cpp: for each layer of a loop, or once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "compiler/ir/module.h"
#include "compiler/ir/structure.h"

namespace thunderc {

// One call of a block. Where ranks communicate in a loop, its body is a function of kind "loop" that holds the call
// between collectives and is printed in the for statement; else the loop calls the block itself.
struct BlockCall {
    const Function* caller = nullptr;  // whose text has the loop or the call; nullptr: nobody calls it
    const Op* loop = nullptr;          // over the layers; nullptr: it is called once
    const Function* body = nullptr;    // of kind "loop"; nullptr: there is none between the loop and the block
    const Op* call = nullptr;          // in the body, or of the caller that has no loop

    enum class Role : std::uint8_t { carried, layer, shared };
    // What an argument or a result of the block is outside of it: a value of the caller, or of the loop's body where it
    // is made there.
    struct Outside {
        Role role = Role::shared;
        const Function* function = nullptr;
        Value value;
    };
    Outside argument(std::size_t k) const;
    Outside result(std::size_t r) const;
};

BlockCall block_call(const CallSites& calls, const std::string& block);
// The block that a loop's body calls: the body itself, where that is no function of kind "loop".
const Function& block_of(const Module& module, const Function& body);

}  // namespace thunderc
