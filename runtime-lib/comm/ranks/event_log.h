// SPDX-License-Identifier: Apache-2.0
// What this rank's streams do: for messages when a run ends early, for --timeline, and where --chaos and a slow
// transport come between.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "device/stream_observer.h"

namespace thunder {

// A collective, as messages and timelines name it.
struct Activity {
    const char* kind = "";  // "all-reduce"
    const char* what = "";  // "gradients of layer 3"
    int layer = -1;
    std::uint64_t bytes = 0;  // that this rank sends; it receives as many

    std::string text() const;  // "all-reduce of gradients of layer 3"
};

// One stream's part of it. Written by the thread that does the stream's work, read by the one that watches.
class Lane {
  public:
    explicit Lane(std::string name) : name_(std::move(name)) {}

    struct Position {
        std::uint64_t number = 0;  // of collectives begun
        bool inside = false;       // the last one is not done
        bool on_device = false;    // it is not known whether it is: a device came to it
        std::string activity;      // that one: who named it may be gone
        double since = 0;          // when it began or ended, in seconds
    };
    struct Span {
        std::string name;
        double begin, end;  // in microseconds
        std::uint64_t bytes;
    };

    const std::string& name() const { return name_; }
    Position position() const;

    // A collective begins and ends.
    void enter(const Activity& activity);
    void leave();
    // Of a stream that works behind this process's back: its position is what it writes into the word when it comes to
    // a collective, (how many these were) << 16 | milestone_of(the last one).
    void follow(const volatile std::uint64_t* word) { word_ = word; }
    std::uint16_t milestone_of(const Activity& activity);
    // A part of the timeline that is no collective.
    void open(const char* name);
    void close();

    const std::vector<Span>& spans() const { return spans_; }
    // A long run's timeline is that of its first steps: more would fill the memory, and no viewer opens it.
    static constexpr std::size_t most_spans = std::size_t{1} << 18U;

  private:
    friend class EventLog;
    void add(std::string name, double begin, std::uint64_t bytes);

    std::string name_;
    mutable std::mutex mutex_;
    mutable Position position_;
    const volatile std::uint64_t* word_ = nullptr;
    std::map<std::string, std::uint16_t> numbers_;  // of milestones
    std::vector<std::string> milestones_;           // by number
    std::vector<Span> spans_;
    std::vector<std::pair<const char*, double>> open_;
    std::uint64_t random_ = 0;  // of --chaos; 0: off
};

// An artificial transport: what a collective takes at least.
struct SlowTransport {
    double latency = 0;    // seconds
    double bandwidth = 0;  // bytes a second; 0: as it is
};

class EventLog : public StreamObserver {
  public:
    EventLog();
    ~EventLog() override;
    EventLog(const EventLog&) = delete;
    EventLog& operator=(const EventLog&) = delete;

    // The lane of what the main thread does: computing, and the few numbers between steps.
    Lane& main() { return *lanes_.front(); }
    // One more, for a stream. Before its thread starts.
    Lane& add(std::string name);
    // The calling thread works on this one from now on.
    static void work_on(Lane& lane);

    const std::vector<std::unique_ptr<Lane>>& lanes() const { return lanes_; }

    // From now on threads sleep at random places, and nothing else changes: results must not.
    void set_chaos(std::uint64_t seed);
    void set_timeline(bool on);
    bool has_timeline() const { return timeline_; }
    void set_slow_transport(const SlowTransport& slow) { slow_ = slow; }

    // Runs a collective on a lane.
    template <typename Body>
    void run(Lane& lane, const Activity& activity, Body&& body) {
        disturb(lane);
        lane.enter(activity);
        const double began = now();
        body();
        delay(began, activity.bytes);
        if (timeline_) note(lane, activity, began);
        lane.leave();
        progress.fetch_add(1, std::memory_order_relaxed);
    }

    // Streams work behind this process's back, and when they do not get on nobody may be inside of a collective.
    bool asynchronous = false;

    std::atomic<std::int64_t> step{-1};      // the one that is trained
    std::atomic<std::uint64_t> progress{0};  // grows with each collective and each micro-step

    // For the chrome trace: the spans of all lanes as JSON objects with commas between, of process `rank`.
    std::string trace_events(int rank, double zero) const;

    static double now();  // seconds, steady

    void begin(const char* name) override;
    void end() override;
    void order() override;

  private:
    void disturb(Lane& lane);
    void delay(double began, std::uint64_t bytes) const;
    void note(Lane& lane, const Activity& activity, double began);

    std::vector<std::unique_ptr<Lane>> lanes_;
    bool timeline_ = false;
    std::atomic<std::uint64_t> elsewhere_{0};  // of --chaos, on threads that have no lane
    SlowTransport slow_;
};

}  // namespace thunder
