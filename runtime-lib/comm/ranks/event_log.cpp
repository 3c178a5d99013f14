// SPDX-License-Identifier: Apache-2.0
#include "comm/ranks/event_log.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <utility>

#include "support/json.h"
#include "support/philox.h"
#include "support/text.h"

namespace thunder {

namespace {

thread_local Lane* lane_of_thread = nullptr;

void sleep_for(double seconds) {
    if (seconds > 0) usleep(static_cast<useconds_t>(seconds * 1e6));
}

std::uint64_t next(std::uint64_t& state) {  // splitmix64
    std::uint64_t z = state += 0x9e3779b97f4a7c15U;
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
}

}  // namespace

std::string Activity::text() const {
    std::string text = cat(kind, " of ", what);
    if (layer >= 0) text += cat(", layer ", layer);
    return text;
}

// ---- a lane --------------------------------------------------------------------------------------------------------

Lane::Position Lane::position() const {
    const std::lock_guard lock(mutex_);
    if (word_ == nullptr) return position_;
    const std::uint64_t word = *word_;
    if (position_.number != word >> 16U) {
        position_.number = word >> 16U;
        position_.on_device = true;
        position_.activity = milestones_.at(word & 0xffffU);
        position_.since = EventLog::now();
    }
    return position_;
}

std::uint16_t Lane::milestone_of(const Activity& activity) {
    std::string text = activity.text();
    const std::lock_guard lock(mutex_);
    if (const auto known = numbers_.find(text); known != numbers_.end()) return known->second;
    // A program of more collectives than there are numbers tells its last ones not apart.
    const std::size_t last = 0xffff, number = std::min(milestones_.size(), last);
    if (number == last) text = "a collective";
    if (number == milestones_.size()) milestones_.push_back(text);
    numbers_.emplace(std::move(text), static_cast<std::uint16_t>(number));
    return static_cast<std::uint16_t>(number);
}

void Lane::enter(const Activity& activity) {
    std::string text = activity.text();
    const std::lock_guard lock(mutex_);
    ++position_.number;
    position_.inside = true;
    position_.activity.swap(text);
    position_.since = EventLog::now();
}

void Lane::leave() {
    const std::lock_guard lock(mutex_);
    position_.inside = false;
    position_.since = EventLog::now();
}

void Lane::open(const char* name) {
    open_.emplace_back(name, EventLog::now());
}

void Lane::close() {
    if (open_.empty()) return;  // it began before anybody looked
    const auto [name, began] = open_.back();
    open_.pop_back();
    add(name, began, 0);
}

void Lane::add(std::string name, double begin, std::uint64_t bytes) {
    if (spans_.size() < most_spans) spans_.push_back({std::move(name), begin * 1e6, EventLog::now() * 1e6, bytes});
}

// ---- all of them ---------------------------------------------------------------------------------------------------

EventLog::EventLog() {
    add("compute");
    work_on(main());
}

EventLog::~EventLog() {
    if (stream_observer == this) stream_observer = nullptr;
}

Lane& EventLog::add(std::string name) {
    lanes_.push_back(std::make_unique<Lane>(std::move(name)));
    return *lanes_.back();
}

void EventLog::work_on(Lane& lane) {
    lane_of_thread = &lane;
}

void EventLog::set_chaos(std::uint64_t seed) {
    // Each lane draws from a sequence of its own: what it draws does not depend on how threads take turns.
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        std::uint64_t mixed = seed * 1000003 + i + 1;
        lanes_[i]->random_ = next(mixed) | 1U;
    }
    elsewhere_ = lanes_.front()->random_;
    stream_observer = this;
}

void EventLog::set_timeline(bool on) {
    timeline_ = on;
    if (on) stream_observer = this;
}

// One time in four, up to 3 ms: about what a step of a small model takes.
void EventLog::disturb(Lane& lane) {
    if (lane.random_ == 0) return;
    const std::uint64_t drawn = next(lane.random_);
    if (drawn % 4 == 0) sleep_for(static_cast<double>(drawn / 4 % 3000) * 1e-6);
}

void EventLog::delay(double began, std::uint64_t bytes) const {
    double least = slow_.latency;
    if (slow_.bandwidth > 0) least += static_cast<double>(bytes) / slow_.bandwidth;
    sleep_for(began + least - now());
}

void EventLog::note(Lane& lane, const Activity& activity, double began) {
    lane.add(activity.text(), began, activity.bytes);
}

void EventLog::begin(const char* name) {
    if (timeline_ && lane_of_thread != nullptr) lane_of_thread->open(name);
}

void EventLog::end() {
    if (timeline_ && lane_of_thread != nullptr) lane_of_thread->close();
}

void EventLog::order() {
    if (lane_of_thread != nullptr) return disturb(*lane_of_thread);
    // A thread of CUDA's, within a stream.
    if (std::uint64_t drawn = elsewhere_.fetch_add(2, std::memory_order_relaxed); drawn != 0)
        if (drawn = next(drawn); drawn % 4 == 0) sleep_for(static_cast<double>(drawn / 4 % 3000) * 1e-6);
}

double EventLog::now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU (Trace Event Format): "X" is a
// complete event, "i" a moment, "M" names processes and threads; times in microseconds.
std::string EventLog::trace_events(int rank, double zero) const {
    std::string out = cat(R"({"name":"process_name","ph":"M","pid":)", rank, R"(,"args":{"name":"rank )", rank, "\"}}");
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
        const Lane& lane = *lanes_[i];
        out += cat(",\n", R"({"name":"thread_name","ph":"M","pid":)", rank, ",\"tid\":", i, R"(,"args":{"name":)",
                   json_quote(lane.name()), "}}");
        for (const Lane::Span& span : lane.spans()) {
            out += cat(",\n{\"name\":", json_quote(span.name), R"(,"ph":"X","pid":)", rank, ",\"tid\":", i,
                       ",\"ts\":", digits("%.1f", span.begin - zero * 1e6),
                       ",\"dur\":", digits("%.1f", span.end - span.begin));
            if (span.bytes > 0) out += cat(",\"args\":{\"bytes\":", span.bytes, "}");
            out += "}";
        }
        if (lane.spans().size() == Lane::most_spans)
            out += cat(",\n", R"({"name":"what comes behind is left out","ph":"i","s":"t","pid":)", rank,
                       ",\"tid\":", i, ",\"ts\":", digits("%.1f", lane.spans().back().end - zero * 1e6), "}");
    }
    return out;
}

}  // namespace thunder
