// SPDX-License-Identifier: Apache-2.0
// Operands of batch_norm that it does not read: the running statistics that its own ones move (keep_statistics), by
// which a model that is not being trained is normalised. And the attribute that says of how many ranks its rows are.
#pragma once

#include <cstddef>

namespace thunderc {

inline constexpr const char *batch_norm_name = "batch_norm", *batch_norm_ranks = "ranks",
                            *sum_over_ranks_name = "sum_over_ranks";
inline constexpr std::size_t batch_norm_running_mean = 3, batch_norm_running_variance = 4, batch_norm_operands = 5;

}  // namespace thunderc
