// SPDX-License-Identifier: Apache-2.0
#include "machine.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "fiber.h"
#include "memory.h"

namespace thunder::emulation {
namespace {

constexpr int max_threads = 1024;                    // of a block, on every GPU there is
constexpr std::int64_t max_blocks = 2147483647;      // of a grid's first dimension
constexpr std::size_t max_shared_bytes = 48 * 1024;  // that a block can declare; more has to be asked for at the launch

std::string text(const Location& where) {
    std::string_view file = where.file_name();
    file.remove_prefix(file.rfind('/') + 1);
    return fmt::format("{}:{}", file, where.line());
}

bool same(const Location& a, const Location& b) {
    return a.line() == b.line() && a.column() == b.column() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

}  // namespace

bool Moment::ordered_before(const Moment& now) const {
    if (launch != now.launch) return true;
    if (block != now.block) return false;
    if (thread == now.thread || epoch != now.epoch) return true;
    return warp() == now.warp() && warp_epoch != now.warp_epoch;
}

Machine::Machine() : scheduler_(std::make_unique<Fiber>()) {}
Machine::~Machine() = default;

Machine& Machine::instance() {
    static thread_local Machine machine;
    return machine;
}

void Machine::launch(std::string_view kernel, std::int64_t blocks, int threads, const std::function<void()>& thread,
                     std::uint64_t exclusive) {
    kernel_ = kernel;
    current_ = -1;
    if (threads < 1 || threads > max_threads)
        fault(fmt::format("is launched with {} threads in a block; 1 to {} are possible", threads, max_threads));
    if (blocks < 1 || blocks > max_blocks)
        fault(fmt::format("is launched with {} blocks; 1 to {} are possible", blocks, max_blocks));
    ++launch_;
    exclusive_ = exclusive;
    engine_.seed(seed_);
    body_ = &thread;
    blocks_ = blocks;
    threads_.resize(static_cast<std::size_t>(threads));
    warps_.resize(static_cast<std::size_t>((threads + warp_size - 1) / warp_size));
    std::vector<std::int64_t> order;
    for (std::int64_t block = blocks; block-- > 0;) order.push_back(block);
    shuffle_order(order);
    for (; !order.empty(); order.pop_back()) {
        block_ = order.back();
        run_block();
    }
}

// The last comes first. Fisher and Yates, so that a seed means the same with every library.
void Machine::shuffle_order(std::vector<std::int64_t>& order) {
    if (seed_ == 0) return;
    for (std::size_t k = order.size(); k > 1; --k) std::swap(order[k - 1], order[engine_() % k]);
}

void Machine::run_block() {
    epoch_ = 0;
    at_barrier_ = ended_ = 0;
    shared_.clear();
    std::fill(threads_.begin(), threads_.end(), Thread{});
    std::fill(warps_.begin(), warps_.end(), Warp{});
    ready_.clear();
    make_ready(0, threads());
    while (!ready_.empty() && !failure_) {
        current_ = static_cast<int>(ready_.back());
        ready_.pop_back();
        Thread& thread = threads_[static_cast<std::size_t>(current_)];
        if (thread.fiber == nullptr) {
            if (idle_.empty()) {
                fibers_.push_back(std::make_unique<Fiber>([this](Fiber& fiber) {
                    for (;;) {
                        run_threads(fiber);
                        idle_.push_back(&fiber);
                        fiber.switch_to(*scheduler_);
                    }
                }));
                idle_.push_back(fibers_.back().get());
            }
            thread.fiber = idle_.back();
            idle_.pop_back();
        }
        scheduler_->switch_to(*thread.fiber);
    }
    current_ = -1;
    if (!failure_ && ended_ < threads()) {
        try {
            diverged();
        } catch (...) {
            failure_ = std::current_exception();
        }
    }
    if (!failure_) return;
    // Threads that were left where they waited hold nothing but their stacks.
    idle_.clear();
    fibers_.clear();
    shared_.clear();
    std::rethrow_exception(std::exchange(failure_, nullptr));
}

// The thread that was given, and others for as long as those whose turn it is have not begun: no switch between them.
void Machine::run_threads(Fiber& fiber) {
    for (;;) {
        try {
            (*body_)();
            if (!has_waited()) fault("ends without wait_for_previous_kernel()");
        } catch (...) {
            failure_ = std::current_exception();
            return;
        }
        threads_[static_cast<std::size_t>(current_)].state = State::ended;
        ++ended_;
        if (ready_.empty() || threads_[static_cast<std::size_t>(ready_.back())].fiber != nullptr) return;
        current_ = static_cast<int>(ready_.back());
        ready_.pop_back();
        threads_[static_cast<std::size_t>(current_)].fiber = &fiber;
    }
}

// Threads from `begin` to `end` may go on, in their order or in another one.
void Machine::make_ready(int begin, int end) {
    std::vector<std::int64_t> order;
    for (int t = end; t-- > begin;) order.push_back(t);
    shuffle_order(order);
    for (const std::int64_t t : order) threads_[static_cast<std::size_t>(t)].state = State::ready;
    ready_.insert(ready_.begin(), order.begin(), order.end());
}

void Machine::wait(State state, const Location& where) {
    Thread& thread = threads_[static_cast<std::size_t>(current_)];
    thread.state = state;
    thread.where = where;
    if (state == State::at_barrier) {
        if (++at_barrier_ == threads()) {
            for (const Thread& other : threads_)
                if (!same(other.where, where)) diverged();
            at_barrier_ = 0;
            ++epoch_;
            make_ready(0, threads());
        }
    } else {
        const int first = current_ / warp_size * warp_size;
        Warp& warp = warps_[static_cast<std::size_t>(current_ / warp_size)];
        if (first + warp_size > threads())
            fault(fmt::format("{}: its warp has {} of {} lanes", what_it_does(current_), threads() - first, warp_size));
        if (++warp.waiting == warp_size) {
            for (int lane = 0; lane < warp_size; ++lane) {
                const Thread& other = threads_[static_cast<std::size_t>(first + lane)];
                if (other.state != state || !same(other.where, where)) diverged();
            }
            warp.waiting = 0;
            if (state == State::at_warp_barrier) ++warp.epoch;
            make_ready(first, first + warp_size);
        }
    }
    Fiber& fiber = *thread.fiber;
    fiber.switch_to(*scheduler_);
}

void Machine::barrier(const Location& where) {
    wait(State::at_barrier, where);
}

void Machine::warp_barrier(const Location& where) {
    wait(State::at_warp_barrier, where);
}

void Machine::shuffle(void* value, std::size_t bytes, int source, const Location& where) {
    if (source < 0 || source >= warp_size)
        fault(fmt::format("takes the value of lane {} of a warp, at {}", source, text(where)));
    const auto me = static_cast<std::size_t>(current_);
    Warp& warp = warps_[me / warp_size];
    Thread& thread = threads_[me];
    auto& values = warp.values[thread.shuffles++ % 2];
    std::memcpy(values[me % warp_size].data(), value, bytes);
    wait(State::at_shuffle, where);
    std::memcpy(value, values[static_cast<std::size_t>(source)].data(), bytes);
}

Allocation& Machine::shared(const char* name, std::size_t count, std::size_t element, const Location& where) {
    for (const SharedArray& array : shared_)
        if (array.name == name && same(array.where, where) && array.function == where.function_name())
            return *array.allocation;
    std::size_t total = count * element;
    for (const SharedArray& array : shared_) total += array.allocation->bytes();
    if (total > max_shared_bytes)
        fault(fmt::format("declares {} bytes of shared memory, with {} at {}; {} are possible", total, name,
                          text(where), max_shared_bytes));
    shared_.push_back({name, where.function_name(), where,
                       std::make_unique<Allocation>(fmt::format("the shared array {}", name), count, element)});
    return *shared_.back().allocation;
}

Moment Machine::now() const {
    const Warp& warp = warps_[static_cast<std::size_t>(current_ / warp_size)];
    return {launch_, block_, epoch_, warp.epoch, current_};
}

void Machine::fault(const std::string& what) const {
    if (current_ < 0) throw Fault(fmt::format("kernel {}: {}", kernel_, what));
    throw Fault(fmt::format("kernel {}, block {}, thread {}: {}", kernel_, block_, current_, what));
}

std::string Machine::what_it_does(int thread) const {
    const Thread& t = threads_[static_cast<std::size_t>(thread)];
    switch (t.state) {
        case State::at_barrier: return fmt::format("waits at the barrier of {}", text(t.where));
        case State::at_warp_barrier: return fmt::format("waits at the warp's barrier of {}", text(t.where));
        case State::at_shuffle: return fmt::format("waits at the shuffle of {}", text(t.where));
        case State::ended: return "has ended";
        case State::ready: break;
    }
    return "runs";
}

// Nobody can go on, or the threads that wait for each other do so in different places: names two of them.
void Machine::diverged() const {
    int one = -1;
    for (int t = 0; t < threads() && one < 0; ++t) {
        const State state = threads_[static_cast<std::size_t>(t)].state;
        if (state != State::ended && state != State::ready) one = t;
    }
    const Thread& waits = threads_[static_cast<std::size_t>(one)];
    const bool block = waits.state == State::at_barrier;
    const int begin = block ? 0 : one / warp_size * warp_size, end = block ? threads() : begin + warp_size;
    for (int t = begin; t < end; ++t) {
        const Thread& other = threads_[static_cast<std::size_t>(t)];
        if (other.state == waits.state && same(other.where, waits.where)) continue;
        throw Fault(fmt::format("kernel {}, block {}: divergent {}: thread {} {}, thread {} {}", kernel_, block_,
                                block ? "barrier" : "warp", one, what_it_does(one), t, what_it_does(t)));
    }
    // This warp has come together, so one whose lanes have not is the cause.
    throw Fault(fmt::format("kernel {}, block {}: the threads wait for each other", kernel_, block_));
}

}  // namespace thunder::emulation
