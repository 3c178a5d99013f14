// SPDX-License-Identifier: Apache-2.0
#include <regex>

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
    add("numerics", "FILE",
        "of every step that --numerics-every divides, write a line of JSON for each tensor of its first micro-step, "
        "and "
        "for each gradient: the largest and the least magnitude, shares of underflow and overflow, NaNs, norms",
        [](Options& o, const std::string& value, const Place& place) {
            if (value.empty()) place.reject(value, "a name");
            o.numerics = value;
        });
    add("numerics-every", "N", "which steps those are (default: 100)",
        [](Options& o, const std::string& value, const Place& place) {
            o.numerics_every = integer(value, place, 1, "a whole number of 1 or more");
        });
    add("numerics-tensors", "REGEX",
        "of results of products, and of what is quantised, whose names it finds: the ratio of signal to noise, each "
        "element computed again in double from the same operands (4096 of them)",
        [](Options& o, const std::string& value, const Place& place) {
            try {
                o.numerics_tensors = (static_cast<void>(std::regex(value)), value);
            } catch (const std::regex_error&) {
                place.reject(value, "a regular expression");
            }
        });
    add("peak-tflops", "X",
        "what one rank's device computes at most, in 10^12 operations a second of the products' type: the log and the "
        "live line say which part of it products take (default: known of common GPUs)",
        [](Options& o, const std::string& value, const Place& place) {
            o.peak_tflops = real(value, place, 0, "a number above 0", true);
        });
}

}  // namespace thunder
