// SPDX-License-Identifier: Apache-2.0
// What every call begins with: whoever looks on at calls one by one is told of it and of its end. --profile times them
// so, --numerics looks at what they wrote.
#pragma once

#include <initializer_list>
#include <string_view>

#include "device/call_observer.h"
#include "device/stream.h"

namespace thunder {

// The call is what is issued in its lifetime; what other calls do within it is part of it.
class Timed {
  public:
    Timed(std::string_view name, const Cost& cost, Stream& stream) : Timed(name, cost, {}, stream) {}
    // A kernel, with what it writes.
    Timed(std::string_view name, const Cost& cost, std::initializer_list<Output> results, Stream& stream)
        : observer_(stream.device().observer()), stream_(stream) {
        if (observer_ != nullptr) begin(name, cost, results);
    }
    Timed(const ObservedCall& call, Stream& stream) : observer_(stream.device().observer()), stream_(stream) {
        if (observer_ != nullptr) begin(call);
    }
    // Nobody is told.
    explicit Timed(Stream& stream) : stream_(stream) {}
    ~Timed() noexcept(false) {
        if (observer_ != nullptr) end();
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

  private:
    void begin(std::string_view name, const Cost& cost, std::initializer_list<Output> results);
    void begin(const ObservedCall& call);
    void end();

    CallObserver* observer_ = nullptr;
    Stream& stream_;
};

}  // namespace thunder
