// Around each call of the menu on a GPU: what is wrong in it is told with the call, its tensors and their shapes, and
// --profile times it.
#pragma once

#ifdef THUNDER_EMULATION
#include "emulation/call.h"  // in the tests
#else

#include <exception>
#include <string>

#include "device/cuda/native.h"
#include "device/menu.h"
#include "support/error.h"

namespace thunder {

// "y f32 (16, 48) = x f32 (16, 16) weight f32 (48, 16)"
std::string describe(const LinearForward& call);
std::string describe(const LinearBackwardInput& call);
std::string describe(const LinearBackwardWeight& call);
std::string describe(const Matmul& call);
std::string describe(const AttentionForward& call);
std::string describe(const AttentionBackward& call);
std::string describe(const EmbeddingForward& call);
std::string describe(const EmbeddingBackward& call);
std::string describe(const CrossEntropyForward& call);
std::string describe(const CrossEntropyBackward& call);
std::string describe(const Gather& call);
std::string describe(const ScatterAdd& call);

// What they move and compute at least.
Cost cost_of(const LinearForward& call);
Cost cost_of(const LinearBackwardInput& call);
Cost cost_of(const LinearBackwardWeight& call);
Cost cost_of(const Matmul& call);
Cost cost_of(const AttentionForward& call);
Cost cost_of(const AttentionBackward& call);
Cost cost_of(const EmbeddingForward& call);
Cost cost_of(const EmbeddingBackward& call);
Cost cost_of(const CrossEntropyForward& call);
Cost cost_of(const CrossEntropyBackward& call);
Cost cost_of(const Gather& call);
Cost cost_of(const ScatterAdd& call);

// Times what is issued in its lifetime.
class Timed {
  public:
    Timed(const std::string& name, const Cost& cost, Stream& stream) : stream_(stream) {
        profiler_ = stream.device().native()->profiler.get();
        if (profiler_ != nullptr) profiler_->begin(name, cost, stream_of(stream));
    }
    ~Timed() noexcept(false) {
        if (profiler_ != nullptr && std::uncaught_exceptions() == 0) profiler_->end(stream_of(stream_));
    }
    Timed(const Timed&) = delete;
    Timed& operator=(const Timed&) = delete;

  private:
    Stream& stream_;
    Profiler* profiler_;
};

// Does `body`, which issues the call.
template <typename Call, typename Body>
void issue(const char* name, const Call& call, Stream& stream, Body&& body) {
    try {
        if (stream.device().native()->profiler == nullptr) {
            body();
            return;
        }
        Cost cost = cost_of(call);
        if (cost.arithmetic == Cost::Arithmetic::f32 && stream.device().options().tf32)
            cost.arithmetic = Cost::Arithmetic::tf32;
        const Timed timed(std::string(name) + " " + describe(call), cost, stream);
        body();
    } catch (const Error& error) {
        fail(std::string(name) + " " + describe(call) + ": " + error.message(), error.help());
    }
}

}  // namespace thunder

#endif
