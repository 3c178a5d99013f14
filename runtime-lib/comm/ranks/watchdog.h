// SPDX-License-Identifier: Apache-2.0
// Looks after the ranks of a run: a thread beside the others, which hears of all of them, tells where they stand when
// they do not get on, and ends the run then. Without it a rank would wait for ever for one that is gone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "comm/communicator.h"
#include "comm/ranks/event_log.h"

namespace thunder {

// A sign of life, of fixed size.
struct Beat {
    static constexpr std::size_t lanes = 8;

    std::int64_t step = -1;
    std::uint64_t progress = 0;                  // grows with whatever the rank gets done
    std::array<std::uint64_t, lanes> numbers{};  // of the last collective that each of its streams began
    std::uint32_t inside = 0;                    // bit i: stream i is in it still, or may be
    bool ends = false;                           // from rank 0: the run is over
    char where[467] = "";                        // where the rank stands; or why the run is over
};

// How beats get to other ranks: rank 0's to all, theirs to rank 0. Never waits.
class Post {
  public:
    virtual ~Post() = default;
    virtual void send(int to, const Beat& beat) = 0;
    virtual bool receive(int from, Beat& beat) = 0;  // one that has come since
    // What has failed behind this process's back; "": nothing.
    virtual std::string error() { return ""; }
    // The run ends: what others wait for is given up.
    virtual void abort() {}
};

class Watchdog {
  public:
    Watchdog(EventLog& event_log, int rank, int world, Post& post, const WatchdogOptions& options);
    Watchdog(const Watchdog&) = delete;
    Watchdog& operator=(const Watchdog&) = delete;
    ~Watchdog();

  private:
    struct Peer {
        Beat beat;
        double heard = 0;  // when, by awake_
    };

    void watch();
    void tell();
    void listen();
    void judge();
    void look_for_signals();
    std::string lagging() const;
    [[noreturn]] void end(const std::string& why);
    void print_where() const;

    EventLog& event_log_;
    int rank_, world_;
    Post& post_;
    WatchdogOptions options_;
    std::vector<Peer> peers_;                       // by rank; of others than rank 0 only rank 0's
    double looked_ = 0, told_ = 0, signalled_ = 0;  // when, in seconds
    // Seconds that this thread has watched, by which others' silence is measured: while a run is suspended, nobody
    // beats.
    double awake_ = 0;
    double moved_ = 0;            // when a rank got on, by awake_
    std::uint64_t progress_ = 0;  // of all ranks
    std::uint64_t own_progress_ = 0;
    bool printed_ = false;
    std::atomic<bool> stops_{false};
    std::thread thread_;
};

// Where this rank stands: "in all-reduce of gradients, number 57 of stream reduce, for 3.1 s, in step 12". "at", not
// "in", where a device has come to it and may have done it since.
std::string where_it_stands(const EventLog& event_log);

}  // namespace thunder
