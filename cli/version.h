// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace thunderc {

inline constexpr const char* version = "0.1.0";

}  // namespace thunderc
