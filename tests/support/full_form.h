// Whether sweeps run in their long form: what tests/run.sh --full builds.
#pragma once

namespace thunderc {

#ifdef THUNDERC_FULL
inline constexpr bool full_form = true;
#else
inline constexpr bool full_form = false;
#endif

}  // namespace thunderc
