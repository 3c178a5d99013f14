// SPDX-License-Identifier: Apache-2.0
// Ranks with a GPU each: NCCL for what a step communicates, sockets for the rest.
#include "comm/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "comm/nccl/local_rank.h"
#include "comm/nccl/ranks.h"
#include "comm/nccl/rendezvous.h"
#include "comm/ranks/config_check.h"
#include "comm/ranks/watchdog.h"
#include "device/cuda/driver/stream_of.h"
#include "device/stream.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

std::vector<std::unique_ptr<Channel>> channels;
std::atomic<bool> ends{false};  // this rank: what others do is no news any more

template <typename Visit>
void each_comm(Visit&& visit) {
    for (const auto& channel : channels)
        for (NcclGroup& group : channel->groups)
            if (group.comm != nullptr) visit(group.comm);
}

// What waits in a collective for this rank is not left there. The process ends behind it, and in any case within a few
// seconds: ncclCommAbort waits for kernels. Who comes to NCCL's calls later waits for that end.
void abort_comms(int exit_code) {
    ends = true;
    std::thread([exit_code] {
        sleep(3);
        _exit(exit_code);
    }).detach();
    std::unique_lock calls(nccl_calls(), std::defer_lock);
    // Somebody aborts already, or is in a call that does not return.
    if (!calls.try_lock_for(std::chrono::seconds(1))) return;
    each_comm([](ncclComm_t& comm) { nccl().comm_abort(std::exchange(comm, nullptr)); });
    static_cast<void>(calls.release());
}

void end_rank(int exit_code, bool printed) {
    ends = true;
    std::fflush(nullptr);
    if (!printed) sleep(1);
    abort_comms(exit_code);
    _exit(exit_code);
}

class RendezvousPost : public Post {
  public:
    explicit RendezvousPost(const Launch& launch) : rank_(launch.rank), rendezvous_(launch, 1) {
        boxes_.resize(static_cast<std::size_t>(launch.world));
    }

    void send(int to, const Beat& beat) override {
        Box& box = boxes_[static_cast<std::size_t>(to)];
        if (box.left == 0) {
            box.out = beat;
            box.left = sizeof box.out;
        }
        const auto bytes = std::as_bytes(std::span(&box.out, 1)).last(box.left);
        const long n = rendezvous_.send_some(bytes, to);
        if (n < 0) return lost(to);
        box.left -= static_cast<std::size_t>(n);
    }

    bool receive(int from, Beat& beat) override {
        Box& box = boxes_[static_cast<std::size_t>(from)];
        const auto bytes = std::as_writable_bytes(std::span(&box.in, 1)).subspan(box.have);
        const long n = rendezvous_.receive_some(bytes, from);
        if (n < 0) lost(from);
        if (n > 0) box.have += static_cast<std::size_t>(n);
        if (box.have < sizeof box.in) return false;
        box.have = 0;
        beat = box.in;
        return true;
    }

    // Errors that NCCL met in its own threads, and connections that were closed.
    std::string error() override {
        if (ends) return "";
        std::string text = lost_;
        const std::unique_lock calls(nccl_calls(), std::try_to_lock);
        if (!calls.owns_lock()) return text;
        each_comm([&](ncclComm_t& comm) {
            ncclResult_t state = ncclSuccess;
            const ncclResult_t asked = nccl().comm_get_async_error(comm, &state);
            if (asked != ncclSuccess) state = asked;
            if (state != ncclSuccess && state != ncclInProgress && text.empty())
                text = cat("NCCL fails: ", nccl().get_error_string(state));
        });
        return text;
    }

    void abort() override { abort_comms(1); }

  private:
    struct Box {
        Beat in, out;
        std::size_t have = 0, left = 0;
    };

    void lost(int other) {
        if (lost_.empty()) lost_ = cat("rank ", other, " is gone: its connection is closed");
    }

    int rank_;
    Rendezvous rendezvous_;
    std::vector<Box> boxes_;
    std::string lost_;
};

class NcclRanks : public Communicator {
  public:
    NcclRanks() : launch_(launched()) {
        event_log().asynchronous = true;
        set_failure_policy(launch_.rank > 0 ? cat("rank ", launch_.rank, ": ") : "", end_rank);
        numbers_ = std::make_unique<Rendezvous>(launch_, 0);
        find_neighbours(launch_, *numbers_);
        choose_gpu(launch_);
        // Several communicators work at once, which NCCL calls safe where their kernels start in the order in which the
        // host issued them: that is the same on all ranks.
        setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "1", 0);
        post_ = std::make_unique<RendezvousPost>(launch_);
        watch_start();
    }

    ~NcclRanks() override {
        if (std::uncaught_exceptions() > 0) {  // others may never come to the end
            static_cast<void>(watchdog_.release());
            static_cast<void>(post_.release());
            return;
        }
        watchdog_.reset();
        each_comm([](ncclComm_t& comm) { nccl().comm_destroy(comm); });
        channels.clear();
        set_failure_policy("", nullptr);
    }

    int world() const override { return launch_.world; }
    int rank() const override { return launch_.rank; }
    int ranks_on_these_cores() const override { return std::max(1, launch_.local_world); }

    void all_reduce_sum(std::span<float> values, const char* what) override {
        std::vector<float> all(values.size() * static_cast<std::size_t>(world()));
        all_gather(std::as_bytes(values), std::as_writable_bytes(std::span(all)), what);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = all[i];
            for (std::size_t r = 1; r < static_cast<std::size_t>(world()); ++r) values[i] += all[r * values.size() + i];
        }
    }

    void broadcast(std::span<std::byte> bytes, int root, const char* what) override {
        run("broadcast", what, bytes.size(), [&] {
            if (root != 0 && rank() == root) numbers_->send(bytes, 0);
            if (root != 0 && rank() == 0) numbers_->receive(bytes, root);
            if (rank() != 0) numbers_->receive(bytes, 0);
            for (int r = 1; rank() == 0 && r < world(); ++r) numbers_->send(bytes, r);
        });
    }

    void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override {
        run("all-gather", what, all.size(), [&] {
            if (rank() != 0) {
                numbers_->send(mine, 0);
                return numbers_->receive(all, 0);
            }
            std::copy(mine.begin(), mine.end(), all.begin());
            for (int r = 1; r < world(); ++r)
                numbers_->receive(all.subspan(static_cast<std::size_t>(r) * mine.size(), mine.size()), r);
            for (int r = 1; r < world(); ++r) numbers_->send(all, r);
        });
    }

    void barrier(const char* what) override {
        std::byte mine{};
        std::vector<std::byte> all(static_cast<std::size_t>(world()));
        all_gather({&mine, 1}, all, what);
    }

    void send(std::span<const std::byte> bytes, int to, const char* what) override {
        run("send", what, bytes.size(), [&] { numbers_->send(bytes, to); });
    }

    void receive(std::span<std::byte> bytes, int from, const char* what) override {
        run("receive", what, bytes.size(), [&] { numbers_->receive(bytes, from); });
    }

    std::vector<std::unique_ptr<Stream>> make_streams(Device& device, const Mesh& mesh,
                                                      std::span<const std::string_view> names) override {
        std::vector<std::unique_ptr<Stream>> streams;
        if (names.empty() || mesh.world() != world()) return streams;  // the trainer refuses such a world
        event_log().run(event_log().main(), {"opening", "the GPU"}, [&] {
            Stream first(device);
            stream_of(first);
        });
        mesh_ = mesh;
        watchdog_.reset();  // it reads the event log's lanes
        add_channel(device, "compute on the GPU", nullptr);
        for (const std::string_view name : names) {
            streams.push_back(std::make_unique<Stream>(device));
            add_channel(device, name, streams.back().get());
        }
        watch_start();
        return streams;
    }

    void check_config(const ProgramSpec& program, const Options& options, const std::string& checkpoint) override {
        if (world() > 1) thunder::check_config(*this, program, options, checkpoint);
    }

    void watch(const WatchdogOptions& options) override {
        if (!options.timeline.empty())
            fail("--timeline shows the streams of CPUs", "nsys profile shows those of GPUs, with named ranges");
        if (options.chaos != 0) event_log().set_chaos(options.chaos * 4096 + static_cast<std::uint64_t>(rank()));
        barrier("the start");
        watchdog_.reset();
        watchdog_ = std::make_unique<Watchdog>(event_log(), rank(), world(), *post_, options);
    }

    void note_progress(std::int64_t step) override {
        event_log().step.store(step, std::memory_order_relaxed);
        event_log().progress.fetch_add(1, std::memory_order_relaxed);
    }

    void finish() override {
        for (const auto& channel : channels)
            if (channel->stream != nullptr) channel->stream->synchronize();
        barrier("the end");
        watchdog_.reset();
        barrier("the end");  // nobody closes a connection that another watches still
    }

  private:
    template <typename Body>
    void run(const char* kind, const char* what, std::size_t bytes, Body&& body) {
        event_log().run(event_log().main(), {kind, what, -1, bytes}, body);
    }

    // Until it is known what --hang-timeout says: nobody waits for ever for a rank that does not get that far.
    void watch_start() {
        watchdog_ = std::make_unique<Watchdog>(event_log(), rank(), world(), *post_,
                                               WatchdogOptions{.hang_timeout = 5.0 * launch_.patience});
    }

    static void add_channel(Device& device, std::string_view name, Stream* stream) {
        auto channel = std::make_unique<Channel>();
        channel->stream = stream;
        channel->lane = &event_log().add(std::string(name));
        channel->place = device.allocate_staging(sizeof(std::uint64_t));
        channel->lane->follow(channel->place.at<std::uint64_t>(0));
        channels.push_back(std::move(channel));
    }

  public:
    const Mesh& mesh() const { return mesh_; }

    // When a collective is issued that is the first of its stream and group: what a schedule does not use is not made.
    // All ranks issue the same in the same order, so they come here together. It is the first run of a part of the
    // step, which no graph captures.
    void make_group(Channel& channel, Group which, Stream& on) {
        const auto member = [&](int other) {
            return which == Group::world ||
                   (which == Group::shard && mesh_.replica_of(other) == mesh_.replica_of(rank())) ||
                   (which == Group::replica && mesh_.shard_of(other) == mesh_.shard_of(rank()));
        };
        std::vector<int> members;
        for (int r = 0; r < world(); ++r)
            if (member(r)) members.push_back(r);
        // What other communicators do is done before a new one touches the GPU's memory.
        on.synchronize();
        for (const auto& other : channels)
            if (other->stream != nullptr) other->stream->synchronize();
        bool others = false;
        each_comm([&](ncclComm_t&) { others = true; });
        int version = 0;
        check_nccl(nccl().get_version(&version), "ncclGetVersion");
        if (others && version < ordered_since)
            fail(cat("NCCL ", version / 10000, ".", version / 100 % 100,
                     " cannot order what several communicators do on a GPU"),
                 "install NCCL 2.26 or newer");
        // The first rank of each group names it; all hear of all names.
        ncclUniqueId mine{};
        if (members.front() == rank()) check_nccl(nccl().get_unique_id(&mine), "ncclGetUniqueId");
        std::vector<ncclUniqueId> all(static_cast<std::size_t>(world()));
        all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)), "NCCL's names");
        NcclGroup made;
        made.size = static_cast<int>(members.size());
        made.rank = static_cast<int>(std::find(members.begin(), members.end(), rank()) - members.begin());
        run("making", "a communicator of NCCL", 0, [&] {
            check_nccl(
                nccl().comm_init_rank(&made.comm, made.size, all[static_cast<std::size_t>(members.front())], made.rank),
                "ncclCommInitRank");
        });
        const std::lock_guard calls(nccl_calls());
        channel.groups[static_cast<std::size_t>(which)] = made;
    }

  private:
    static constexpr int ordered_since = 22600;  // NCCL_LAUNCH_ORDER_IMPLICIT

    Mesh mesh_{};
    Launch launch_;
    std::unique_ptr<Rendezvous> numbers_;
    std::unique_ptr<RendezvousPost> post_;
    std::unique_ptr<Watchdog> watchdog_;
};

NcclRanks* ranks_of_this_process = nullptr;

}  // namespace

EventLog& event_log() {
    static auto* const of_this_process = new EventLog;  // threads write into it as long as there are any
    return *of_this_process;
}

Channel& channel_of(Stream& stream) {
    for (const auto& channel : channels)
        if (channel->stream == &stream) return *channel;
    if (channels.empty()) fail("a collective is issued, and there are no ranks");
    return *channels.front();
}

const NcclGroup& group_of(Channel& channel, Group which, Stream& stream) {
    NcclGroup& group = channel.groups[static_cast<std::size_t>(which)];
    if (group.comm == nullptr) ranks_of_this_process->make_group(channel, which, stream);
    return group;
}

const Mesh& mesh_of_ranks() {
    return ranks_of_this_process->mesh();
}

std::timed_mutex& nccl_calls() {
    static auto* const of_this_process = new std::timed_mutex;  // threads ask as long as there are any
    return *of_this_process;
}

std::unique_ptr<Communicator> make_communicator() {
    auto ranks = std::make_unique<NcclRanks>();
    ranks_of_this_process = ranks.get();
    return ranks;
}

}  // namespace thunder
