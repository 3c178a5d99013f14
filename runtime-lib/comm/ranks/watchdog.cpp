// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks/watchdog.h"

#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>

#include "support/text.h"

namespace thunder {

namespace {

constexpr double pause = 0.05;   // seconds between looks
constexpr double between = 0.5;  // seconds between beats
// A rank that lives beats, whatever it does. One that has not for so long is gone or stands still.
constexpr double silence = 20;
// What a rank that a signal came to waits before it says where it stands: mpirun's SIGKILL comes a second after its
// SIGTERM. srun and torchrun, which start ranks of GPUs, wait for half a minute; there it is not known whether a rank
// computes or waits, and steps may be long.
constexpr double patience_of_mpirun = 0.4, patience_of_managers = 5;
// Of the time between two looks no more counts as waiting: this process was suspended, and so were others, or its beats
// have not been read.
constexpr double longest_pause = 1;

std::string position_text(const Lane& lane, const Lane::Position& position) {
    return cat(position.activity, ", number ", position.number, " of stream ", lane.name());
}

std::string seconds_text(double seconds) {
    return cat(digits("%.1f", seconds), " s");
}

}  // namespace

std::string where_it_stands(const EventLog& event_log) {
    const std::int64_t step = event_log.step.load(std::memory_order_relaxed);
    const std::string of_step = step < 0 ? std::string(", before the first step") : cat(", in step ", step);
    std::string places, last;
    double newest = -1;
    for (const auto& lane : event_log.lanes()) {
        const Lane::Position position = lane->position();
        const std::string time = seconds_text(EventLog::now() - position.since);
        if (position.inside || position.on_device) {
            places += cat(places.empty() ? "" : ", and ", position.inside ? "in " : "at ",
                          position_text(*lane, position), ", for ", time);
        } else if (position.number > 0 && position.since > newest) {
            newest = position.since;
            last = cat("in no collective, the last was ", position_text(*lane, position), ", ", time, " ago");
        }
    }
    if (places.empty()) places = last.empty() ? "before the first collective" : last;
    return places + of_step;
}

Watchdog::Watchdog(EventLog& event_log, int rank, int world, Post& post, const WatchdogOptions& options)
    : event_log_(event_log), rank_(rank), world_(world), post_(post), options_(options) {
    peers_.resize(static_cast<std::size_t>(world));
    looked_ = EventLog::now();
    // Signals are the main thread's.
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    thread_ = std::thread([this] { watch(); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Watchdog::~Watchdog() {
    stops_ = true;
    thread_.join();
}

void Watchdog::watch() {
    while (!stops_) {
        const double now = EventLog::now();
        awake_ += std::min(now - looked_, longest_pause);
        looked_ = now;
        listen();
        tell();
        judge();
        look_for_signals();
        if (const std::string error = post_.error(); !error.empty()) end(error);
        usleep(static_cast<useconds_t>(pause * 1e6));
    }
}

void Watchdog::tell() {
    const double now = EventLog::now();
    if (now - told_ < between) return;
    told_ = now;
    Beat beat;
    beat.step = event_log_.step.load(std::memory_order_relaxed);
    beat.progress = event_log_.progress.load(std::memory_order_relaxed);
    const auto& lanes = event_log_.lanes();
    for (std::size_t i = 0; i < std::min(lanes.size(), Beat::lanes); ++i) {
        const Lane::Position position = lanes[i]->position();
        beat.numbers[i] = position.number;
        if (position.inside || position.on_device) beat.inside |= 1U << i;
        if (position.on_device) beat.progress += position.number;
    }
    std::snprintf(beat.where, sizeof beat.where, "%s", where_it_stands(event_log_).c_str());
    peers_[static_cast<std::size_t>(rank_)] = {beat, awake_};
    if (rank_ != 0) return post_.send(0, beat);
    for (int r = 1; r < world_; ++r) post_.send(r, beat);
}

void Watchdog::listen() {
    const int first = rank_ == 0 ? 1 : 0, last = rank_ == 0 ? world_ : 1;
    for (int r = first; r < last; ++r) {
        Beat beat;
        while (post_.receive(r, beat)) {
            if (beat.ends) {
                // Rank 0 has said why.
                print_where();
                end("");
            }
            peers_[static_cast<std::size_t>(r)] = {beat, awake_};
        }
    }
}

void Watchdog::judge() {
    const double quiet = std::min(silence, options_.hang_timeout);
    const int first = rank_ == 0 ? 1 : 0, last = rank_ == 0 ? world_ : 1;
    std::string silent;
    for (int r = first; r < last; ++r) {
        const Peer& peer = peers_[static_cast<std::size_t>(r)];
        if (awake_ - peer.heard < quiet) continue;
        silent += cat(silent.empty() ? "" : "; ", "rank ", r, " has given no sign of life for ",
                      seconds_text(awake_ - peer.heard));
        if (peer.beat.where[0] != '\0') silent += cat("; in its last it stood ", peer.beat.where);
    }
    if (!silent.empty()) end(silent);
    if (rank_ != 0) return;
    std::uint64_t progress = 0;
    bool waits = false;
    for (const Peer& peer : peers_) {
        progress += peer.beat.progress;
        waits = waits || peer.beat.inside != 0 || event_log_.asynchronous;
    }
    if (progress != progress_ || !waits) {
        progress_ = progress;
        moved_ = awake_;
    }
    if (awake_ - moved_ >= options_.hang_timeout)
        end(cat("no rank got on for ", seconds_text(awake_ - moved_), lagging()));
}

// Ranks that have not begun what others wait in.
std::string Watchdog::lagging() const {
    std::string text;
    for (int r = 0; r < world_; ++r) {
        const Beat& beat = peers_[static_cast<std::size_t>(r)].beat;
        bool behind = false;
        for (std::size_t i = 0; i < Beat::lanes; ++i)
            behind = behind || std::any_of(peers_.begin(), peers_.end(), [&](const Peer& other) {
                         return (other.beat.inside >> i & 1U) != 0 && other.beat.numbers[i] > beat.numbers[i];
                     });
        if (behind) text += cat(text.empty() ? ": " : "; ", "rank ", r, " lags, it stands ", beat.where);
    }
    return text.empty() ? ", and none lags" : text;
}

// A launcher ends the others where a rank is gone: SIGTERM, and soon SIGKILL. Where this one waits for that rank, it
// says so in between. One that a signal came to for another reason, and that goes on to the end of its step, does not.
void Watchdog::look_for_signals() {
    if (printed_ || options_.interrupted == nullptr || options_.interrupted() == 0) return;
    const double now = EventLog::now();
    const std::uint64_t progress = event_log_.progress.load(std::memory_order_relaxed);
    const auto& lanes = event_log_.lanes();
    const bool waits = event_log_.asynchronous || std::any_of(lanes.begin(), lanes.end(),
                                                              [](const auto& lane) { return lane->position().inside; });
    if (signalled_ == 0 || progress != own_progress_ || !waits) {
        signalled_ = now;
        own_progress_ = progress;
    }
    if (now - signalled_ < (event_log_.asynchronous ? patience_of_managers : patience_of_mpirun)) return;
    printed_ = true;
    print_where();
}

void Watchdog::print_where() const {
    std::fprintf(stderr, "rank %d: stands %s\n", rank_, where_it_stands(event_log_).c_str());
}

void Watchdog::end(const std::string& why) {
    if (!why.empty()) {
        std::fprintf(stderr, "%serror: %s\n", rank_ == 0 ? "" : cat("rank ", rank_, ": ").c_str(), why.c_str());
        print_where();
    }
    if (rank_ == 0) {
        Beat last;
        last.ends = true;
        for (int r = 1; r < world_; ++r) post_.send(r, last);
        const double until = EventLog::now() + 1;  // for the others to hear of it
        while (EventLog::now() < until) {
            Beat beat;
            for (int r = 1; r < world_; ++r)
                while (post_.receive(r, beat)) {
                }
            usleep(static_cast<useconds_t>(pause * 1e6));
        }
    }
    post_.abort();
    std::fflush(nullptr);
    _exit(1);
}

}  // namespace thunder
