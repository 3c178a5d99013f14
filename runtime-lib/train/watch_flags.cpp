// SPDX-License-Identifier: Apache-2.0
#include "train/flags.h"

namespace thunder {

void add_watch_flags(std::vector<Flag>& flags) {
    const auto add = [&](std::string name, std::string argument, std::string help, auto set) {
        flags.push_back({{std::move(name), std::move(argument), std::move(help), "Output"}, set});
    };
    add("tensorboard", "DIR", "write what --log has as an event file in this folder, which TensorBoard shows",
        [](Options& o, const std::string& value, const Place& place) {
            if (value.empty()) place.reject(value, "a name");
            o.tensorboard = value;
        });
    add("peak-tflops", "X",
        "what one rank's device computes at most, in 10^12 operations a second of the products' type: the log and the "
        "live line say which part of it products take (default: known of common GPUs)",
        [](Options& o, const std::string& value, const Place& place) {
            o.peak_tflops = real(value, place, 0, "a number above 0", true);
        });
}

}  // namespace thunder
