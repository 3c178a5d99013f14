// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks/start_timeout.h"

#include "support/environment.h"
#include "support/text.h"

namespace thunder {

int start_timeout() {
    constexpr int most = 1'000'000;  // seconds: what follows from it are still numbers of seconds
    return static_cast<int>(number_of_environment("THUNDER_START_TIMEOUT", 1, most,
                                                  cat("it is in seconds; leave it unset for ", default_start_timeout))
                                .value_or(default_start_timeout));
}

}  // namespace thunder
