// SPDX-License-Identifier: Apache-2.0
#include "device/timed.h"

#include <exception>
#include <vector>

namespace thunder {

RangeObserver* range_observer = nullptr;

void Timed::begin(std::string_view name, const Cost& cost, std::initializer_list<Output> results) {
    std::vector<CallResult> written;
    written.reserve(results.size());
    for (const Output& tensor : results) written.push_back({"", tensor, {}});
    begin({name, cost, written});
}

void Timed::begin(const ObservedCall& call) {
    if (!observer_->begin(call, stream_)) observer_ = nullptr;
}

void Timed::end() {
    if (std::uncaught_exceptions() == 0) observer_->end(stream_);
}

}  // namespace thunder
