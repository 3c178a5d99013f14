#pragma once

namespace thunderc {

inline constexpr const char* version = "0.1.0";

}  // namespace thunderc
