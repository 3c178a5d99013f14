// SPDX-License-Identifier: Apache-2.0
// Products of tensors as numpy and PyTorch have them.
#pragma once

#include "compiler/ir/builder.h"

namespace thunderc {

// numpy's matmul: vectors are matrices of one row or column, which goes again. Of tensors of one dimension or more.
Value numpy_matmul(Builder& b, Value x, Value y);

}  // namespace thunderc
