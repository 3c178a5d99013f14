// The ranks that mpirun or srun started.
#include "comm/communicator.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>

#include "comm/mpi/mpi_call.h"
#include "comm/mpi/ranks.h"
#include "comm/ranks/stream_thread.h"
#include "support/error.h"
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

class Mpi : public Communicator {
  public:
    Mpi() {
        journal();  // its first lane is this thread's
        int provided = 0;
        check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
        MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
        host_ = copy_of(MPI_COMM_WORLD);
        MPI_Comm_size(host_, &world_);
        MPI_Comm_rank(host_, &rank_);
        set_failure_policy(rank_ > 0 ? cat("rank ", rank_, ": ") : "", end_rank);
        if (provided < MPI_THREAD_MULTIPLE) {
            fail("this MPI does not let several threads call it",
                 "Open MPI and MPICH do, where they are built with threads");
        }
        if (const char* ranks = std::getenv("WORLD_SIZE"); world_ == 1 && ranks != nullptr && std::atoi(ranks) > 1) {
            fail(cat("WORLD_SIZE is ", ranks, ", and MPI knows of one rank alone"),
                 cat("MPI's ranks are started by mpirun -np ", ranks, " or srun -n ", ranks,
                     "; environment variables alone start programs that were built with -DCOMM=nccl"));
        }
        sharing_ = count_sharing();
    }

    ~Mpi() override {
        if (std::uncaught_exceptions() > 0) return;  // others may never come to the end
        for (const auto& channel : channels)
            for (MpiGroup& group : channel->groups)
                if (group.comm != MPI_COMM_NULL) MPI_Comm_free(&group.comm);
        channels.clear();
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
        add_channel(mesh, journal().main(), nullptr);
        for (const std::string_view name : names) {
            Lane& lane = journal().add(std::string(name));
            streams.push_back(std::make_unique<Stream>(device, new StreamThread(lane)));
            add_channel(mesh, lane, streams.back().get());
        }
        return streams;
    }

  private:
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
        journal().run(journal().main(), {kind, what, -1, bytes}, [&] {
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
    MPI_Comm host_ = MPI_COMM_NULL;
};

}  // namespace

Journal& journal() {
    static auto* const of_this_process = new Journal;  // threads write into it as long as there are any
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
