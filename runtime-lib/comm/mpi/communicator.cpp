// SPDX-License-Identifier: Apache-2.0
// The ranks that mpirun or srun started.
#include "comm/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <limits>
#include <mutex>
#include <thread>

#include "comm/mpi/mpi_call.h"
#include "comm/mpi/ranks.h"
#include "comm/mpi/stream_thread.h"
#include "comm/ranks/config_check.h"
#include "comm/ranks/start_timeout.h"
#include "comm/ranks/watchdog.h"
#include "support/environment.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

std::vector<std::unique_ptr<Channel>> channels;

// An error of one rank ends it at once: the launcher then ends the others, and they tell where they stand. One that has
// nothing to say lets the rank go first that has.
void end_rank(int exit_code, bool printed) {
    std::fflush(nullptr);
    if (!printed) sleep(1);
    _exit(exit_code);
}

// MPI_Init waits for ranks that never come, for ever: another program under the same launcher, a host that hangs. While
// this lives, a thread ends the process when the time is up in which all ranks have to come.
class StartLimit {
  public:
    StartLimit() {
        thread_ = std::thread([this, patience = start_timeout()] {
            std::unique_lock lock(mutex_);
            if (ended_.wait_for(lock, std::chrono::seconds(patience), [this] { return over_; })) return;
            std::fprintf(stderr,
                         "error: not all ranks have come to MPI_Init within %d s\n"
                         "help: mpirun and srun have to start this program alone, on hosts that answer; "
                         "THUNDER_START_TIMEOUT gives it more seconds\n",
                         patience);
            end_rank(1, true);
        });
    }
    StartLimit(const StartLimit&) = delete;
    StartLimit& operator=(const StartLimit&) = delete;
    ~StartLimit() {
        {
            const std::lock_guard lock(mutex_);
            over_ = true;
        }
        ended_.notify_all();
        thread_.join();
    }

  private:
    std::mutex mutex_;
    std::condition_variable ended_;
    bool over_ = false;
    std::thread thread_;
};

// Beats are small messages that MPI delivers while nobody waits.
class MpiPost : public Post {
  public:
    MpiPost(MPI_Comm comm, int world) : comm_(comm), boxes_(static_cast<std::size_t>(world)) {
        for (int r = 0; r < world; ++r) expect(r);
    }
    MpiPost(const MpiPost&) = delete;
    MpiPost& operator=(const MpiPost&) = delete;
    ~MpiPost() override {
        for (Box& box : boxes_) {
            MPI_Cancel(&box.receiving);
            MPI_Wait(&box.receiving, MPI_STATUS_IGNORE);
            if (box.sending != MPI_REQUEST_NULL) MPI_Request_free(&box.sending);
        }
    }

    void send(int to, const Beat& beat) override {
        Box& box = boxes_[static_cast<std::size_t>(to)];
        int done = 1;
        if (box.sending != MPI_REQUEST_NULL) MPI_Test(&box.sending, &done, MPI_STATUS_IGNORE);
        if (done == 0) return;  // the last one is under way still
        box.out = beat;
        MPI_Isend(&box.out, sizeof box.out, MPI_BYTE, to, 0, comm_, &box.sending);
    }

    bool receive(int from, Beat& beat) override {
        Box& box = boxes_[static_cast<std::size_t>(from)];
        int done = 0;
        MPI_Test(&box.receiving, &done, MPI_STATUS_IGNORE);
        if (done == 0) return false;
        beat = box.in;
        expect(from);
        return true;
    }

  private:
    struct Box {
        Beat in, out;
        MPI_Request receiving = MPI_REQUEST_NULL, sending = MPI_REQUEST_NULL;
    };

    void expect(int from) {
        Box& box = boxes_[static_cast<std::size_t>(from)];
        MPI_Irecv(&box.in, sizeof box.in, MPI_BYTE, from, 0, comm_, &box.receiving);
    }

    MPI_Comm comm_;
    std::vector<Box> boxes_;
};

class Mpi : public Communicator {
  public:
    Mpi() {
        event_log();  // its first lane is this thread's
        int provided = 0;
        {
            const StartLimit limit;
            check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
        }
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        host_ = copy_of(MPI_COMM_WORLD);
        posts_ = copy_of(MPI_COMM_WORLD);
        MPI_Comm_size(host_, &world_);
        MPI_Comm_rank(host_, &rank_);
        set_failure_policy(rank_ > 0 ? cat("rank ", rank_, ": ") : "", end_rank);
        if (provided < MPI_THREAD_MULTIPLE) {
            fail("this MPI does not let several threads call it",
                 "Open MPI and MPICH do, where they are built with threads");
        }
        if (const auto ranks = world_ > 1 ? std::nullopt
                                          : number_of_environment("WORLD_SIZE", 0, std::numeric_limits<int>::max(),
                                                                  "launchers of ranks set it; unset it for one rank");
            ranks.value_or(1) > 1) {
            fail(cat("WORLD_SIZE is ", *ranks, ", and MPI knows of one rank alone"),
                 cat("MPI's ranks are started by mpirun -np ", *ranks, " or srun -n ", *ranks,
                     "; environment variables alone start programs that were built with -DCOMM=nccl"));
        }
        sharing_ = count_sharing();
    }

    ~Mpi() override {
        if (std::uncaught_exceptions() > 0) {  // others may never come to the end
            static_cast<void>(watchdog_.release());
            static_cast<void>(post_.release());
            return;
        }
        for (const auto& channel : channels)
            for (MpiGroup& group : channel->groups)
                if (group.comm != MPI_COMM_NULL) MPI_Comm_free(&group.comm);
        channels.clear();
        watchdog_.reset();
        post_.reset();
        MPI_Comm_free(&posts_);
        MPI_Comm_free(&host_);
        MPI_Finalize();
        set_failure_policy("", nullptr);
    }

    int world() const override { return world_; }
    int rank() const override { return rank_; }
    int ranks_on_these_cores() const override { return sharing_; }

    void all_reduce_sum(std::span<float> values, const char* what) override {
        std::vector<float> all(values.size() * static_cast<std::size_t>(world_));
        all_gather(std::as_bytes(values), std::as_writable_bytes(std::span(all)), what);
        for (std::size_t i = 0; i < values.size(); ++i) {
            values[i] = all[i];
            for (std::size_t r = 1; r < static_cast<std::size_t>(world_); ++r) values[i] += all[r * values.size() + i];
        }
    }

    void broadcast(std::span<std::byte> bytes, int root, const char* what) override {
        run("broadcast", what, bytes.size(), [&](MPI_Request& request) {
            check_mpi(MPI_Ibcast(bytes.data(), count_of(bytes.size()), MPI_BYTE, root, host_, &request), "MPI_Ibcast");
        });
    }

    void all_gather(std::span<const std::byte> mine, std::span<std::byte> all, const char* what) override {
        run("all-gather", what, all.size(), [&](MPI_Request& request) {
            check_mpi(MPI_Iallgather(mine.data(), count_of(mine.size()), MPI_BYTE, all.data(), count_of(mine.size()),
                                     MPI_BYTE, host_, &request),
                      "MPI_Iallgather");
        });
    }

    void barrier(const char* what) override {
        run("barrier", what, 0,
            [&](MPI_Request& request) { check_mpi(MPI_Ibarrier(host_, &request), "MPI_Ibarrier"); });
    }

    void send(std::span<const std::byte> bytes, int to, const char* what) override {
        run("send", what, bytes.size(), [&](MPI_Request& request) {
            check_mpi(MPI_Isend(bytes.data(), count_of(bytes.size()), MPI_BYTE, to, 0, host_, &request), "MPI_Isend");
        });
    }

    void receive(std::span<std::byte> bytes, int from, const char* what) override {
        run("receive", what, bytes.size(), [&](MPI_Request& request) {
            check_mpi(MPI_Irecv(bytes.data(), count_of(bytes.size()), MPI_BYTE, from, 0, host_, &request), "MPI_Irecv");
        });
    }

    std::vector<std::unique_ptr<Stream>> make_streams(Device& device, const Mesh& mesh,
                                                      std::span<const std::string_view> names) override {
        std::vector<std::unique_ptr<Stream>> streams;
        if (names.empty()) return streams;
        add_channel(mesh, event_log().main(), nullptr);
        for (const std::string_view name : names) {
            Lane& lane = event_log().add(std::string(name));
            streams.push_back(std::make_unique<Stream>(device, new StreamThread(lane)));
            add_channel(mesh, lane, streams.back().get());
        }
        return streams;
    }

    void check_config(const ProgramSpec& program, const Options& options, const std::string& checkpoint) override {
        if (world_ > 1) thunder::check_config(*this, program, options, checkpoint);
    }

    void watch(const WatchdogOptions& options) override {
        timeline_ = options.timeline;
        if (const char* slow = std::getenv("THUNDER_SLOW_TRANSPORT")) slow_down(slow);
        if (options.chaos != 0) event_log().set_chaos(options.chaos * 4096 + static_cast<std::uint64_t>(rank_));
        barrier("the start");
        zero_ = EventLog::now();  // ranks' clocks are compared by it
        if (!timeline_.empty()) event_log().set_timeline(true);
        if (world_ == 1) return;
        post_ = std::make_unique<MpiPost>(posts_, world_);
        watchdog_ = std::make_unique<Watchdog>(event_log(), rank_, world_, *post_, options);
    }

    void note_progress(std::int64_t step) override {
        event_log().step.store(step, std::memory_order_relaxed);
        event_log().progress.fetch_add(1, std::memory_order_relaxed);
    }

    void finish() override {
        for (const auto& channel : channels)
            if (channel->stream != nullptr) channel->stream->synchronize();
        if (!timeline_.empty()) write_timeline();
        barrier("the end");
        watchdog_.reset();
    }

  private:
    // "LATENCY,BANDWIDTH" in microseconds and MB/s: what a collective takes at least. For tests and measurements.
    static void slow_down(const char* text) {
        double latency = 0, bandwidth = 0;
        if (std::sscanf(text, "%lf,%lf", &latency, &bandwidth) != 2 || latency < 0 || bandwidth < 0)
            fail(cat("THUNDER_SLOW_TRANSPORT is ", text, ": expected MICROSECONDS,MB_PER_SECOND"));
        event_log().set_slow_transport({latency * 1e-6, bandwidth * 1e6});
    }

    // One file of all ranks' spans, which pass through rank 0 one rank after the other.
    void write_timeline() {
        std::string text = event_log().trace_events(rank_, zero_);
        event_log().set_timeline(false);
        const std::uint64_t mine = text.size();
        std::vector<std::uint64_t> sizes(static_cast<std::size_t>(world_));
        all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(sizes)), "the timeline");
        if (rank_ != 0) return send(std::as_bytes(std::span(text)), 0, "the timeline");
        AtomicFile file(timeline_);
        const auto write = [&](std::string_view part) { file.write(part.data(), part.size()); };
        write("{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n");
        write(text);
        for (int r = 1; r < world_; ++r) {
            text.resize(sizes[static_cast<std::size_t>(r)]);
            receive(std::as_writable_bytes(std::span(text)), r, "the timeline");
            write(",\n");
            write(text);
        }
        write("\n]}\n");
        file.commit();
    }

    static MPI_Comm copy_of(MPI_Comm comm) {
        MPI_Comm copy = MPI_COMM_NULL;
        check_mpi(MPI_Comm_dup(comm, &copy), "MPI_Comm_dup");
        return copy;
    }

    static int count_of(std::size_t bytes) {
        if (bytes > (std::size_t{1} << 30U)) fail("more than 1 GiB at once between ranks");
        return static_cast<int>(bytes);
    }

    template <typename Start>
    void run(const char* kind, const char* what, std::size_t bytes, Start&& start) {
        event_log().run(event_log().main(), {kind, what, -1, bytes}, [&] {
            MPI_Request request = MPI_REQUEST_NULL;
            start(request);
            wait_for(request);
        });
    }

    void add_channel(const Mesh& mesh, Lane& lane, Stream* stream) {
        auto channel = std::make_unique<Channel>();
        channel->stream = stream;
        channel->lane = &lane;
        const int replica = mesh.replica_of(rank_), shard = mesh.shard_of(rank_);
        const auto add = [&](Group which, int color) {
            MpiGroup& group = channel->groups[static_cast<std::size_t>(which)];
            check_mpi(MPI_Comm_split(host_, color, rank_, &group.comm), "MPI_Comm_split");
            MPI_Comm_size(group.comm, &group.size);
            MPI_Comm_rank(group.comm, &group.rank);
        };
        add(Group::world, 0);
        add(Group::shard, replica);
        add(Group::replica, shard);
        channels.push_back(std::move(channel));
    }

    // The ranks of this host that may run on some of this one's cores, with it: a launcher may have given each its own.
    int count_sharing() const {
        MPI_Comm local = MPI_COMM_NULL;
        check_mpi(MPI_Comm_split_type(host_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &local),
                  "MPI_Comm_split_type");
        int size = 1;
        MPI_Comm_size(local, &size);
        cpu_set_t mine;
        CPU_ZERO(&mine);
        sched_getaffinity(0, sizeof mine, &mine);
        std::vector<cpu_set_t> all(static_cast<std::size_t>(size));
        check_mpi(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, local),
                  "MPI_Allgather");
        MPI_Comm_free(&local);
        return static_cast<int>(std::count_if(all.begin(), all.end(), [&](cpu_set_t& theirs) {
            cpu_set_t both;
            CPU_AND(&both, &mine, &theirs);
            return CPU_COUNT(&both) > 0;
        }));
    }

    int world_ = 1, rank_ = 0, sharing_ = 1;
    MPI_Comm host_ = MPI_COMM_NULL, posts_ = MPI_COMM_NULL;
    std::unique_ptr<MpiPost> post_;
    std::unique_ptr<Watchdog> watchdog_;
    std::string timeline_;
    double zero_ = 0;  // in seconds
};

}  // namespace

EventLog& event_log() {
    static auto* const of_this_process = new EventLog;  // threads write into it as long as there are any
    return *of_this_process;
}

Channel& channel_of(Stream& stream) {
    const Stream* wanted = stream.native() == nullptr ? nullptr : &stream;
    for (const auto& channel : channels)
        if (channel->stream == wanted) return *channel;
    fail("a collective is issued on a stream that no ranks communicate on");
}

std::unique_ptr<Communicator> make_communicator() {
    return std::make_unique<Mpi>();
}

}  // namespace thunder
