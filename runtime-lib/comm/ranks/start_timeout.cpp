#include "comm/ranks/start_timeout.h"

#include <charconv>
#include <cstdlib>
#include <string_view>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

int start_timeout() {
    const char* const asked = std::getenv("THUNDER_START_TIMEOUT");
    if (asked == nullptr) return default_start_timeout;
    const std::string_view text = asked;
    constexpr int most = 1'000'000;  // what follows from it are still numbers of seconds
    int seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    if (error != std::errc() || end != text.data() + text.size() || seconds < 1 || seconds > most)
        fail(cat("THUNDER_START_TIMEOUT is '", text, "': seconds from 1 to ", most, " are asked for"),
             cat("leave it unset for ", default_start_timeout, " s"));
    return seconds;
}

}  // namespace thunder
