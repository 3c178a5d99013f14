// SPDX-License-Identifier: Apache-2.0
#include "device/team.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <vector>

#include "support/error.h"

namespace thunder {

namespace {

// Long enough for the next kernel of a step to find helpers awake, short enough to leave the core to others.
constexpr std::chrono::microseconds patience{30};

inline void relax() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
}

// Waits until word is no longer `value`: awake for a while, then asleep.
std::uint32_t wait_for_change(const std::atomic<std::uint32_t>& word, std::uint32_t value) {
    const auto end = std::chrono::steady_clock::now() + patience;
    do {
        for (int i = 0; i < 32; ++i) {  // the clock is asked now and then alone
            if (const std::uint32_t now = word.load(std::memory_order_acquire); now != value) return now;
            relax();
        }
    } while (std::chrono::steady_clock::now() < end);
    word.wait(value, std::memory_order_acquire);
    return word.load(std::memory_order_acquire);
}

// The pieces that a thread has still to do, [begin, end), and the loop that they are of, in one word: taking a piece is
// one exchange of it. A word that is still what it was has pieces that nobody took, so its loop is not done, and what
// the loop was given is still there.
constexpr int bits = 14;
constexpr std::int64_t most_pieces = (std::int64_t{1} << bits) - 1;
struct Pieces {
    std::uint64_t loop, begin, end;

    static Pieces of(std::uint64_t word) {
        return {word >> (2 * bits), word >> bits & static_cast<std::uint64_t>(most_pieces),
                word & static_cast<std::uint64_t>(most_pieces)};
    }
    std::uint64_t word() const { return loop << (2 * bits) | begin << bits | end; }
};

using Run = void (*)(void* context, std::int64_t piece, int thread) noexcept;

// Of a thread that is doing a piece, or a helper.
thread_local bool occupied = false;

constexpr int most_threads = 4096;  // what --threads takes

// OpenMP binds the first thread of a process to one place (OMP_PROC_BIND, OMP_PLACES) as soon as it is loaded, and a
// thread has what its maker was bound to: so that helpers do not all share that one, each goes where OpenMP would have
// put thread `me` of a team of `threads`. Where OpenMP binds nobody, or all to one place, nothing is done.
void bind_helper(int me, int threads) {
    const omp_proc_bind_t wanted = omp_get_proc_bind();
    const int places = omp_get_num_places();
    if (places <= 1 || wanted == omp_proc_bind_false || wanted == omp_proc_bind_master) return;
    const int step = wanted == omp_proc_bind_spread ? std::max(1, places / threads) : 1;
    // a team larger than the places fills each evenly
    const int place = threads > places ? static_cast<int>(std::int64_t{me} * places / threads) : me * step % places;
    std::vector<int> cores(static_cast<std::size_t>(omp_get_place_num_procs(place)));
    omp_get_place_proc_ids(place, cores.data());
    if (cores.empty()) return;
    const int most = 1 + *std::max_element(cores.begin(), cores.end());
    cpu_set_t* set = CPU_ALLOC(static_cast<std::size_t>(most));
    if (set == nullptr) return;
    const std::size_t bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(most));
    CPU_ZERO_S(bytes, set);
    for (const int core : cores) CPU_SET_S(static_cast<std::size_t>(core), bytes, set);
    sched_setaffinity(0, bytes, set);  // where it may not: the thread stays where it is
    CPU_FREE(set);
}

// The one team of the process. Its helpers sleep until the process ends, so it is never destroyed.
class Team {
  public:
    void resize(int threads);
    int size() const { return size_.load(std::memory_order_relaxed); }
    // On at most so many threads. False where somebody else has the team.
    bool share(std::int64_t pieces, int most, Run run, void* context);

  private:
    struct alignas(64) Slot {
        std::atomic<std::uint64_t> pieces{0};
    };

    void work(int me);
    bool take(Slot& slot, int me, bool last, Run& run, void*& context, std::int64_t& piece);

    std::mutex lent_;  // held by who has the team
    std::atomic<int> size_{1};
    int helpers_ = 0;

    // the loop
    std::atomic<Run> run_{nullptr};
    std::atomic<void*> context_{nullptr};
    std::atomic<int> threads_{0};
    std::uint64_t loop_ = 0;
    std::array<Slot, most_threads> slots_{};

    alignas(64) std::atomic<std::uint32_t> begun_{0};  // loops so far: what helpers wait for
    alignas(64) std::atomic<std::uint32_t> left_{0};   // pieces that are not done: what the caller waits for
};

Team& team() {
    static Team* const of_this_process = new Team;
    return *of_this_process;
}

void Team::resize(int threads) {
    const std::lock_guard lock(lent_);
    threads = std::clamp(threads, 1, most_threads);
    for (; helpers_ < threads - 1; ++helpers_) {
        try {
            std::thread([this, threads, me = helpers_ + 1, seen = begun_.load(std::memory_order_relaxed)]() mutable {
                occupied = true;
                bind_helper(me, threads);
                omp_set_num_threads(1);  // a library that is called in a piece starts no threads of its own
                for (;;) {
                    seen = wait_for_change(begun_, seen);
                    work(me);
                }
            }).detach();
        } catch (const std::system_error& error) {
            fail("the system starts no more than " + std::to_string(helpers_ + 1) +
                     " threads for this process: " + error.what(),
                 "--threads " + std::to_string(helpers_ + 1) + " asks for no more");
        }
    }
    size_.store(threads, std::memory_order_relaxed);
}

bool Team::take(Slot& slot, int me, bool last, Run& run, void*& context, std::int64_t& piece) {
    std::uint64_t word = slot.pieces.load(std::memory_order_acquire);
    for (;;) {
        const Pieces there = Pieces::of(word);
        if (there.begin >= there.end) return false;
        run = run_.load(std::memory_order_acquire);
        context = context_.load(std::memory_order_acquire);
        if (me >= threads_.load(std::memory_order_acquire)) return false;  // of a larger team before
        Pieces rest = there;
        piece = static_cast<std::int64_t>(last ? --rest.end : rest.begin++);
        if (slot.pieces.compare_exchange_weak(word, rest.word(), std::memory_order_acq_rel, std::memory_order_acquire))
            return true;
    }
}

void Team::work(int me) {
    const int threads = threads_.load(std::memory_order_acquire);
    Run run = nullptr;
    void* context = nullptr;
    std::int64_t piece = 0;
    for (int k = 0; k < threads; ++k) {
        Slot& slot = slots_[static_cast<std::size_t>((me + k) % threads)];
        while (take(slot, me, k > 0, run, context, piece)) {
            run(context, piece, me);
            if (left_.fetch_sub(1, std::memory_order_acq_rel) == 1) left_.notify_all();
        }
    }
}

bool Team::share(std::int64_t pieces, int most, Run run, void* context) {
    const std::unique_lock lock(lent_, std::try_to_lock);
    if (!lock.owns_lock()) return false;
    const int threads = std::min(size(), most);
    run_.store(run, std::memory_order_release);
    context_.store(context, std::memory_order_release);
    threads_.store(threads, std::memory_order_release);
    left_.store(static_cast<std::uint32_t>(pieces), std::memory_order_release);
    ++loop_;
    for (int t = 0; t < threads; ++t) {
        const Pieces own{loop_, static_cast<std::uint64_t>(pieces * t / threads),
                         static_cast<std::uint64_t>(pieces * (t + 1) / threads)};
        slots_[static_cast<std::size_t>(t)].pieces.store(own.word(), std::memory_order_release);
    }
    begun_.fetch_add(1, std::memory_order_release);
    begun_.notify_all();
    occupied = true;
    work(0);
    occupied = false;
    for (std::uint32_t left = left_.load(std::memory_order_acquire); left != 0;) left = wait_for_change(left_, left);
    return true;
}

// Loops that were shared, and that were not, where they are counted.
std::atomic<std::int64_t> shared{0}, alone{0};

void count(std::atomic<std::int64_t>& loops) {
    if (detail::grain_divisor > 1) loops.fetch_add(1, std::memory_order_relaxed);
}

}  // namespace

int team_size() {
    return team().size();
}

std::int64_t grain_divisor_of(const char* variable) {
    if (variable == nullptr) return 1;
    const std::string_view text = variable;
    std::int64_t divisor = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), divisor);
    if (error != std::errc() || end != text.data() + text.size() || divisor < 1)
        fail(std::string("THUNDER_GRAIN_DIVISOR is '") + variable + "', which is no integer from 1",
             "leave it unset: it is for tests of threads, which share small loops as large ones are shared");
    return divisor;
}

std::int64_t divided_grain(std::int64_t n, std::int64_t grain) {
    grain = std::max<std::int64_t>(1, grain / detail::grain_divisor);
    if (n > 1 && n <= grain && !occupied && team_size() > 1) count(alone);
    return grain;
}

LoopCounts loop_counts() {
    return {shared.load(std::memory_order_relaxed), alone.load(std::memory_order_relaxed)};
}

std::string describe_loops() {
    if (detail::grain_divisor == 1) return "";
    const LoopCounts counts = loop_counts();
    return "loops: " + std::to_string(counts.shared) + " shared, " + std::to_string(counts.alone) +
           " on one thread alone\n";
}

void set_team_size(int threads) {
    static std::once_flag read;
    std::call_once(read, [] { detail::grain_divisor = grain_divisor_of(std::getenv("THUNDER_GRAIN_DIVISOR")); });
    default_team_size();
    omp_set_num_threads(1);
    team().resize(threads);
}

int default_team_size() {
    static const int of_openmp = omp_get_max_threads();  // before anything was set
    return of_openmp;
}

void share_pieces(std::int64_t pieces, int threads, Run run, void* context) {
    if (pieces <= 0) return;
    if (pieces > 1 && !occupied && std::min(threads, team_size()) > 1) {
        if (pieces <= most_pieces) {
            if (team().share(pieces, threads, run, context)) return count(shared);
        } else {
            struct Whole {
                std::int64_t pieces;
                Run run;
                void* context;
            } whole{pieces, run, context};
            const auto several = [](void* of, std::int64_t part, int thread) noexcept {
                const Whole& it = *static_cast<Whole*>(of);
                for (std::int64_t i = it.pieces * part / most_pieces; i < it.pieces * (part + 1) / most_pieces; ++i)
                    it.run(it.context, i, thread);
            };
            if (team().share(most_pieces, threads, several, &whole)) return count(shared);
        }
        count(alone);  // somebody else has the team
    }
    const bool before = occupied;
    occupied = true;
    for (std::int64_t i = 0; i < pieces; ++i) run(context, i, 0);
    occupied = before;
}

}  // namespace thunder
