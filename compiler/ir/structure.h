// SPDX-License-Identifier: Apache-2.0
// The structural ops by what they are, and what their attributes say. Their names stand here and where they are defined
// and built (compiler/ops/structural.cpp, compiler/ops/collectives.cpp), nowhere else.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "compiler/ir/module.h"

namespace thunderc {

// ---- values --------------------------------------------------------------------------------------------------------

bool is_constant_op(const Op& op);  // a lazy constant
bool is_family_op(const Op& op);    // a family of its operands
bool is_member_op(const Op& op);    // one of a family
bool is_unstack(const Op& op);      // a family of a tensor's parts along axis 0
bool is_stack(const Op& op);        // the tensor of which a family's members are those parts
bool is_copy(const Op& op);         // the operand in memory of its own

// Whether it says which tensors are members of which family, and computes nothing: one of the four above.
bool arranges_members(const Op& op);

// ---- functions -----------------------------------------------------------------------------------------------------

bool is_function_call(const Op& op);  // one call of a function
bool is_loop(const Op& op);           // a call for each layer
bool runs_function(const Op& op);     // one or the other
bool is_kernel_call(const Op& op);    // a call of a kernel function

// The name of the function that a call or a loop runs (or that begins ahead of one), and of the kernel of a kernel
// call.
std::string called_function(const Op& op);
std::string called_kernel(const Op& op);
// The function that a call or a loop runs; InternalError where there is none.
const Function& callee(const Module& module, const Op& op);
// How many calls and loops run a function.
std::size_t call_count(const Module& module, std::string_view function);

// Who calls each function, or loops over it: found once for a module that stays as it is.
class CallSites {
  public:
    struct Site {
        const Function* caller = nullptr;
        const Op* op = nullptr;
    };
    explicit CallSites(const Module& module);
    // In the module's order.
    const std::vector<Site>& of(const std::string& function) const;

  private:
    std::unordered_map<std::string, std::vector<Site>> sites_;
};

// ---- loops ---------------------------------------------------------------------------------------------------------

bool is_loop_over(const Op& op, std::string_view body);
// The name of what runs for each layer; also of an op that begins ahead of such a loop.
std::string loop_body(const Op& op);
std::int64_t loop_count(const Op& loop);     // layers
std::size_t loop_carried(const Op& loop);    // operands and results that one layer hands to the next: the first ones
std::size_t loop_per_layer(const Op& loop);  // operands behind these that are families, a member for each layer
bool loop_reversed(const Op& loop);          // the last layer first

// ---- between ranks and streams -------------------------------------------------------------------------------------

bool is_start(const Op& op);        // before plan: begins a collective; the last result is its token
bool is_await(const Op& op);        // before plan: what was begun is there
bool is_begin_ahead(const Op& op);  // what a loop's body does ahead of its iterations begins here

// Order between streams, after plan.
bool is_record(const Op& op);
bool is_wait(const Op& op);
bool is_event(const Op& op);  // record or wait

// Units of parameters: tensors to a flat one and back, and memory that a collective will write.
bool is_pack(const Op& op);
bool is_unpack(const Op& op);
bool is_unwritten(const Op& op);

}  // namespace thunderc
