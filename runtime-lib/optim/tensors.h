// SPDX-License-Identifier: Apache-2.0
// Optimizers' steps of every tensor as a whole (adafactor.h), on any device.
#pragma once

#include "optim/matrix_scratch.h"
#include "optim/update.h"

namespace thunder {

// A tensor and what its step goes by. Matrices, of which a tensor of more than two dimensions is several, have states
// of their rows and of their columns. The scratch holds the direction, of the tensor's shape, then numbers in double:
// what the direction is multiplied with; the mean of each matrix's rows; sums of columns over some rows; and sums of
// squares of leaves, of the parameter's and of the direction's.
struct TensorStep {
    const OptimizerUpdate& call;
    const ParameterSegment& of;
    bool factored = of.rows > 0;
    std::int64_t elements = of.end - of.begin, columns = factored ? of.columns : elements,
                 rows = factored ? of.rows : 1, matrices = elements / (rows * columns),
                 chunks = (rows + tensor_chunk - 1) / tensor_chunk, leaves = (elements + tensor_leaf - 1) / tensor_leaf;
    float* x = call.scratch;
    double *way = reinterpret_cast<double*>(x + (elements + 15) / 16 * 16), *means = way + 1,
           *partial = means + matrices, *squares_of_parameter = partial + (factored ? matrices * chunks * columns : 0),
           *squares_of_x = squares_of_parameter + leaves;

    // Where a state begins in its arena.
    std::int64_t state(int k) const { return of.begin + of.shift[k]; }
};

// A device has this.
template <typename Rule>
void step_tensor(const TensorStep& step, Stream& stream);

}  // namespace thunder
