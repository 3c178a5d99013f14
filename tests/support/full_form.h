// SPDX-License-Identifier: Apache-2.0
// How long sweeps are: in their long form in what tests/run.sh --full builds; few under sanitizers, which take ten
// times as long and look for what any count shows.
#pragma once

namespace thunderc {

#ifdef THUNDERC_FULL
inline constexpr bool full_form = true;
#else
inline constexpr bool full_form = false;
#endif

#if defined(__SANITIZE_ADDRESS__) && !defined(THUNDERC_FULL)
inline constexpr bool short_form = true;
#else
inline constexpr bool short_form = false;
#endif

}  // namespace thunderc
