// SPDX-License-Identifier: Apache-2.0
// A GPU for tests: runs the blocks of a kernel one after another, the threads of a block as fibers of one CPU thread.
//
// A fiber runs until it waits for others (a barrier, a shuffle) or ends, so a run is deterministic. The order in which
// threads and blocks get their turns is the natural one or, with a seed, a permutation: what depends on it shows. What
// a GPU leaves undefined is a fault, which ends the launch with one message:
//
//   - barriers and shuffles that not every thread of the block, or lane of the warp, comes to
//   - accesses outside of an array, or misaligned ones (memory.h)
//   - accesses of different threads to one element that nothing orders, at least one of them a write
//   - reads of what nobody wrote
//   - accesses to device memory by a thread that has not waited for the kernel before, and threads that never do
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <source_location>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace thunder::emulation {

// A kernel did what a GPU leaves undefined.
class Fault : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

using Location = std::source_location;

inline constexpr int warp_size = 32;

class Fiber;
class Allocation;

// When an access happened: accesses of one launch are ordered where one thread made both, or where both are of one
// block and a barrier stands between them; of one warp, its own barriers count as well.
struct Moment {
    std::uint64_t launch = 0;  // 0: never
    std::int64_t block = 0;
    std::uint32_t epoch = 0;       // barriers of the block before it
    std::uint32_t warp_epoch = 0;  // barriers of the warp before it
    int thread = 0;

    int warp() const { return thread / warp_size; }
    bool ordered_before(const Moment& now) const;
};

class Machine {
  public:
    Machine();
    ~Machine();
    Machine(const Machine&) = delete;
    Machine& operator=(const Machine&) = delete;

    // The machine of this thread of the host.
    static Machine& instance();

    // 0: threads in their natural order; anything else permutes threads and blocks.
    void set_seed(std::uint64_t seed) { seed_ = seed; }

    // Runs `thread` for every thread of every block. `exclusive`: parameters, as bits, that no other one may overlap
    // where either is written. Throws Fault.
    void launch(std::string_view kernel, std::int64_t blocks, int threads, const std::function<void()>& thread,
                std::uint64_t exclusive = 0);

    // ---- asked by the thread that runs ----
    bool running() const { return current_ >= 0; }
    int thread_index() const { return current_; }
    int threads() const { return static_cast<int>(threads_.size()); }
    std::int64_t block_index() const { return block_; }
    std::int64_t block_count() const { return blocks_; }
    Moment now() const;
    std::uint64_t exclusive() const { return exclusive_; }
    // Throws Fault: which kernel, block and thread, and what it did.
    [[noreturn]] void fault(const std::string& what) const;

    void wait_for_previous_kernel() { threads_[static_cast<std::size_t>(current_)].has_waited = true; }
    bool has_waited() const { return threads_[static_cast<std::size_t>(current_)].has_waited; }
    void barrier(const Location& where);
    // Orders the memory accesses of a warp.
    void warp_barrier(const Location& where);
    // Gives `value` to the warp and takes the value that `source` gave: all lanes come to it.
    void shuffle(void* value, std::size_t bytes, int source, const Location& where);
    // The block's array that is declared there; made by the first thread that comes by.
    Allocation& shared(const char* name, std::size_t count, std::size_t element, const Location& where);

  private:
    friend class Fiber;
    enum class State { ready, at_barrier, at_warp_barrier, at_shuffle, ended };
    struct Thread {
        State state = State::ready;
        Location where;
        Fiber* fiber = nullptr;  // null: it has not begun
        std::uint32_t shuffles = 0;
        bool has_waited = false;  // for the kernel before
    };
    struct Warp {
        int waiting = 0;
        std::uint32_t epoch = 0;
        // Two sets: nobody gives to the next shuffle but one before all have taken from this one.
        std::array<std::array<std::array<std::byte, 16>, warp_size>, 2> values{};
    };
    struct SharedArray {
        std::string name, function;
        Location where;
        std::unique_ptr<Allocation> allocation;
    };

    void run_block();
    void run_threads(Fiber& fiber);  // on a fiber: the thread it was given, then fresh ones
    void wait(State state, const Location& where);
    void make_ready(int begin, int end);
    void shuffle_order(std::vector<std::int64_t>& order);
    [[noreturn]] void diverged() const;
    std::string what_it_does(int thread) const;

    std::uint64_t seed_ = 0, launch_ = 0, exclusive_ = 0;
    std::mt19937_64 engine_;
    std::string kernel_;
    const std::function<void()>* body_ = nullptr;
    std::int64_t blocks_ = 0, block_ = 0;
    int current_ = -1;
    std::uint32_t epoch_ = 0;
    int at_barrier_ = 0, ended_ = 0;
    std::vector<Thread> threads_;
    std::vector<Warp> warps_;
    std::vector<SharedArray> shared_;
    std::vector<std::int64_t> ready_;  // those that may go on, the next one last
    std::vector<std::unique_ptr<Fiber>> fibers_;
    std::vector<Fiber*> idle_;
    std::unique_ptr<Fiber> scheduler_;
    std::exception_ptr failure_;
};

}  // namespace thunder::emulation
