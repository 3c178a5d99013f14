// SPDX-License-Identifier: Apache-2.0
// Values of the traced program in whose place another of equal numbers stands: the exporter's optimizer makes one of
// initializers that are equal, and then of calls that are the same of the same. A teacher that begins as its student
// is gone so, with its weights:
//
//     traced: %linear(%x, %p_student_weight), %linear_1(%x, %b_teacher_weight), %sub(%linear, %linear_1)
//     graph:  Sub(linear, linear), whose call says %linear_1
//
// A call that was dropped since it gives its operand as it was (clone, detach) looks the same, but for one thing: it
// read what stands there. Of each value the trace says how many calls read it (num_users); where all of them are left,
// what stands for something else was merged.
#pragma once

#include <onnx/onnx_pb.h>

#include <set>
#include <string>
#include <vector>

#include "compiler/frontend/onnx/traced_program.h"

namespace thunderc::onnx_frontend {

struct MergedValues {
    struct Merged {
        std::string value, instead;  // as traced: "linear_1", "linear"
        std::string scope;           // of the module that made the latter: "student"
    };
    // Made of parameters, what stands there. Harmless where both were made of the same.
    std::vector<Merged> certain;
    std::vector<Merged> possible;  // or one was made of the other
    // Buffers and tensors that tracing lifted, by the signature, which no operator has that is left. (Those that common
    // models register are never trained towards: masks and tables of positions.)
    std::vector<std::string> gone;
};

// Of a graph in which parameters have been put together and back (tie_parameters.h, restore_parameters.h).
// `standing_in`: initializers that are a parameter under another name.
MergedValues find_merged(const onnx::GraphProto& graph, const TracedProgram& traced,
                         const std::set<std::string>& standing_in);

}  // namespace thunderc::onnx_frontend
