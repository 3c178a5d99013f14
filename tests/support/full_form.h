// SPDX-License-Identifier: Apache-2.0
// How long sweeps are: in their long form in what tests/run.sh --full builds; few under sanitizers, which take ten
// times as long and look for what any count shows.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

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

// Of the counts 1 to 200 those of the test `first` of ten: all of them in the long form, else a quarter, those around
// 16, 64, 128 and 200 among them; under sanitizers one, in the tenth test 200.
inline std::vector<int> counts_of(int first) {
    if (short_form) return {first == 10 ? 200 : first};
    std::vector<int> out;
    for (int count = first; count <= 200; count += 10) {
        const int tens = (count - 1) / 10;
        if (full_form || tens == 0 || tens == 1 || tens == 6 || tens == 12 || tens == 19) out.push_back(count);
    }
    return out;
}

// Of a sweep's cases all in the long form, else those of these names, one of each kind. Throws where no case has one.
template <typename Cases>
auto in_short(const Cases& cases, std::initializer_list<std::string_view> names) {
    std::vector<std::decay_t<decltype(*std::begin(cases))>> out;
    for (const std::string_view name : names)
        if (std::none_of(std::begin(cases), std::end(cases), [&](const auto& c) { return name == c.name; }))
            throw std::invalid_argument("no case is called " + std::string(name));
    for (const auto& c : cases)
        if (full_form || std::find(names.begin(), names.end(), std::string_view(c.name)) != names.end())
            out.push_back(c);
    return out;
}

}  // namespace thunderc
