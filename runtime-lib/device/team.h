// SPDX-License-Identifier: Apache-2.0
// The threads of this process that share a loop: the calling one and helpers that wait for work.
//
// A loop is cut into pieces. Each thread begins with pieces of its own, in order, so that what one loop wrote lies in
// the cache of the core that reads it in the next; who has done its pieces takes the last ones of others, so that a
// core that is busy with other work takes less. The calling thread waits for pieces that a helper has begun and for
// nothing else: a helper that is not running delays nobody. Who finds no work spins for some microseconds, then sleeps.
#pragma once

#include <cstdint>
#include <string>
#include <type_traits>

namespace thunder {

// How many threads share loops, the calling one among them: 1 until something is set.
int team_size();
void set_team_size(int threads);
// What a team has where nobody says: OMP_NUM_THREADS, or the cores that this process may use.
int default_team_size();

// Calls run(context, piece, thread) for each piece in [0, pieces) once, with thread in [0, threads), on no more threads
// than the team has; pieces of different threads run at the same time. `threads` is what the caller has memory for: the
// team's size is no such number, since another thread may set it meanwhile. What a piece throws ends the process: one
// that may fail notes it, for the caller to say behind the loop. Where the caller is a piece of a loop itself, or
// another thread has the team, the caller runs all of them, as thread 0.
void share_pieces(std::int64_t pieces, int threads, void (*run)(void* context, std::int64_t piece, int thread) noexcept,
                  void* context);

// The same of body(piece, thread).
template <typename Body>
inline void share_pieces(std::int64_t pieces, int threads, Body&& body) {
    using Function = std::remove_reference_t<Body>;
    share_pieces(
        pieces, threads,
        [](void* context, std::int64_t piece, int thread) noexcept {
            (*static_cast<Function*>(context))(piece, thread);
        },
        const_cast<std::remove_const_t<Function>*>(&body));
}
// On the whole team, for a body that has no memory of each thread.
template <typename Body>
inline void share_pieces(std::int64_t pieces, Body&& body) {
    share_pieces(pieces, team_size(), body);
}

// Tests of threads run models of which most loops are too small to be shared. THUNDER_GRAIN_DIVISOR in the environment,
// an integer, divides the work that parallel_for takes to be worth a thread's while; set_team_size reads it, once.
// Where it divides, loops are counted.
namespace detail {
inline std::int64_t grain_divisor = 1;
}
// The number that the variable says; nullptr: 1.
std::int64_t grain_divisor_of(const char* variable);
// The grain for a loop over [0, n), divided. Counts the loop if it stays on one thread for all that.
std::int64_t divided_grain(std::int64_t n, std::int64_t grain);
// Of loops of more than one element that were begun while there were several threads: those that were shared, and those
// that one thread did alone. A loop in a piece of another is part of that one.
struct LoopCounts {
    std::int64_t shared = 0, alone = 0;
};
LoopCounts loop_counts();
// A line that says them; "" where nothing is counted.
std::string describe_loops();

// In how many pieces a loop of that many units is cut, of which each is worth a thread's while: one for each thread, or
// several of a long loop, so that a slower core can take fewer.
inline std::int64_t pieces_of(std::int64_t units) {
    const std::int64_t threads = team_size();
    if (threads == 1 || units <= threads) return threads == 1 ? 1 : units;
    return units < 8 * threads ? threads : 4 * threads;
}

}  // namespace thunder
