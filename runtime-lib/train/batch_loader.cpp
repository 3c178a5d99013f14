// SPDX-License-Identifier: Apache-2.0
#include "train/batch_loader.h"

#include <cstdlib>
#include <string_view>
#include <utility>

#include "device/api.h"
#include "support/clock.h"

namespace thunder {

namespace {

// Handing a batch from thread to thread takes some 20 microseconds of this.
constexpr double slow_ms = 0.2;

}  // namespace

BatchLoader::BatchLoader(const ProgramSpec& program, const BatchCut& cut) : program_(program), cut_(cut) {
    // For tests and measurements.
    const char* const asked = std::getenv("THUNDER_READ_AHEAD");
    if (asked != nullptr && std::string_view(asked) == "always") ahead_ = Ahead::always;
    if (asked != nullptr && std::string_view(asked) == "never") ahead_ = Ahead::never;
}

BatchLoader::~BatchLoader() {
    if (!reader_.joinable()) return;
    {
        const std::lock_guard lock(mutex_);
        ends_ = true;
    }
    changed_.notify_all();
    reader_.join();
}

void BatchLoader::allocate(Device& device) {
    for (Staged& staged : staged_)
        staged.memory = device.allocate_staging(program_.arena_bytes[static_cast<std::size_t>(Arena::batch)]);
}

void BatchLoader::forget() {
    wait_for_reader();
    ahead_of_.reset();
    failure_ = nullptr;
}

void BatchLoader::load(const Request& now, const std::optional<Request>& next, std::byte* arena, Stream& stream) {
    wait_for_reader();
    Staged& staged = staged_[next_];
    const bool is_there = std::exchange(ahead_of_, std::nullopt) == now;
    const std::exception_ptr failure = std::exchange(failure_, nullptr);
    if (is_there) {
        if (failure) std::rethrow_exception(failure);
    } else {
        staged.taken.synchronize();
        const double began = steady_ms();
        read(now, staged.memory.data());
        read_ms_ = steady_ms() - began;
    }
    copy(arena, staged.memory.data(), staged.memory.bytes(), stream);
    stream.record(staged.taken);
    next_ = (next_ + 1) % staged_.size();
    const bool worth_it = ahead_ == Ahead::always || (ahead_ == Ahead::when_slow && read_ms_ > slow_ms);
    // Where the device has not taken what that memory held, the host is ahead of it anyway.
    if (next && worth_it && staged_[next_].taken.is_complete()) read_ahead(*next);
}

void BatchLoader::read(const Request& request, std::byte* to) const {
    request.source->load(request.step, request.position, request.micro_step,
                         {to, program_.arena_bytes[static_cast<std::size_t>(Arena::batch)]});
    if (program_.sample_numbers < 0) return;
    auto* numbers = reinterpret_cast<std::int64_t*>(to + program_.sample_numbers);
    for (std::int64_t row = 0; row < cut_.batch; ++row)
        numbers[row] = request.position + cut_.first_row(request.micro_step) + row;
}

void BatchLoader::wait_for_reader() {
    if (!reader_.joinable()) return;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return !reading_; });
}

void BatchLoader::read_ahead(const Request& next) {
    {
        const std::lock_guard lock(mutex_);
        ahead_of_ = next;
        reading_ = true;
    }
    if (!reader_.joinable()) reader_ = std::thread([this] { run_reader(); });
    changed_.notify_all();
}

void BatchLoader::run_reader() {
    std::unique_lock lock(mutex_);
    for (;;) {
        changed_.wait(lock, [&] { return reading_ || ends_; });
        if (ends_) return;
        lock.unlock();
        const double began = steady_ms();
        std::exception_ptr failure;
        try {
            read(*ahead_of_, staged_[next_].memory.data());
        } catch (...) {
            failure = std::current_exception();
        }
        lock.lock();
        read_ms_ = steady_ms() - began;
        failure_ = failure;
        reading_ = false;
        changed_.notify_all();
    }
}

}  // namespace thunder
