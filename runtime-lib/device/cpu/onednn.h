// SPDX-License-Identifier: Apache-2.0
// What oneDNN makes and its owner destroys. This is the library's C interface: with its C++ header a file takes more
// than twice the time to compile.
#pragma once

#include <oneapi/dnnl/dnnl.h>

#include <atomic>
#include <string>
#include <utility>

#include "support/error.h"

namespace thunder::onednn {

inline void check(dnnl_status_t status, const char* what) {
    if (status != dnnl_success)
        fail(std::string("oneDNN could not ") + what + ": its status is " + std::to_string(status));
}

// Of what the pieces of a loop do, where nothing may be thrown: the first that went wrong is told of behind the loop.
class FirstFailure {
  public:
    void note(dnnl_status_t status) noexcept {
        dnnl_status_t before = dnnl_success;
        if (status != dnnl_success) status_.compare_exchange_strong(before, status, std::memory_order_relaxed);
    }
    void tell(const char* what) const { check(status_.load(std::memory_order_relaxed), what); }

  private:
    std::atomic<dnnl_status_t> status_ = dnnl_success;
};

// Something of oneDNN's that its owner destroys; null until a function that makes one was given out().
template <typename T, dnnl_status_t (*destroy)(T)>
class Owned {
  public:
    Owned() = default;
    Owned(Owned&& other) noexcept : it_(std::exchange(other.it_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(it_, other.it_);
        return *this;
    }
    ~Owned() {
        if (it_ != nullptr) destroy(it_);
    }
    operator T() const { return it_; }
    T* out() { return &it_; }

  private:
    T it_ = nullptr;
};
using Engine = Owned<dnnl_engine_t, dnnl_engine_destroy>;
using Queue = Owned<dnnl_stream_t, dnnl_stream_destroy>;
using Layout = Owned<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
using Tensor = Owned<dnnl_memory_t, dnnl_memory_destroy>;
using PostOps = Owned<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using Attributes = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using Description = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;

}  // namespace thunder::onednn
