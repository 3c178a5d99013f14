// SPDX-License-Identifier: Apache-2.0
#include "comm/nccl/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/environment.h"
#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr int most_ranks = 1 << 20;
constexpr double greeting_time = 10;  // seconds in which who has connected says who it is
constexpr char welcome = '!';         // what rank 0 answers when all have come

// What a rank says when it comes.
struct Greeting {
    std::uint64_t magic = 0x7468756e64657231;
    std::int32_t rank = 0, world = 0, kind = 0, reserved = 0;
};

const char* variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0' ? nullptr : value;
}

// A number that a person may have set by hand.
int checked_number(const char* name, int least, int most, int otherwise) {
    if (variable(name) == nullptr) return otherwise;
    return static_cast<int>(number_of_environment(name, least, most, "launchers of ranks set it").value_or(otherwise));
}

// The number that a launcher's text begins with: "2(x4)" are two tasks on each of four hosts.
int number(const char* name, int otherwise) {
    const char* value = variable(name);
    return value == nullptr ? otherwise : std::atoi(value);
}

double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// What connects, sends or receives on a socket gives up after so many seconds; 0: never.
void limit(int socket, int seconds) {
    const timeval time{seconds, 0};
    setsockopt(socket, SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    setsockopt(socket, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
}

// Somebody who has connected and did not say yet which rank it is: or never will, as what looks for open ports.
struct Caller {
    int socket = -1;
    Greeting greeting{};
    std::size_t have = 0;  // bytes of it
    double until = 0;
};

void set_option(int socket, int level, int option) {
    const int on = 1;
    setsockopt(socket, level, option, &on, sizeof on);
}

}  // namespace

Launch launched() {
    struct Launcher {
        const char *rank, *world, *local_rank, *local_world;
    };
    constexpr Launcher launchers[] = {
        {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
        {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"},
        {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE"},
        {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}};
    Launch launch;
    launch.patience = start_timeout();
    for (const Launcher& launcher : launchers) {
        if (variable(launcher.rank) == nullptr || variable(launcher.world) == nullptr) continue;
        launch.rank = checked_number(launcher.rank, 0, most_ranks, 0);
        launch.world = checked_number(launcher.world, 1, most_ranks, 1);
        if (launch.world < 1 || launch.rank < 0 || launch.rank >= launch.world)
            fail(cat(launcher.rank, " is ", launch.rank, " and ", launcher.world, " is ", launch.world),
                 "ranks are counted from 0");
        const bool here = variable("MASTER_ADDR") == nullptr;
        launch.local_rank = number(launcher.local_rank, launch.local_rank);
        launch.local_world = number(launcher.local_world, launch.local_world);
        launch.port = checked_number("MASTER_PORT", 1, 65535, launch.port);
        if (!here) {
            launch.address = variable("MASTER_ADDR");
        } else if (launch.local_world > 0 && launch.local_world != launch.world) {
            fail("the ranks are on several hosts, and MASTER_ADDR does not say which of them is rank 0's",
                 "set MASTER_ADDR to its name or address, and MASTER_PORT where 29500 is not free");
        }
        return launch;
    }
    return launch;
}

Rendezvous::Rendezvous(const Launch& launch, int kind)
    : rank_(launch.rank), sockets_(static_cast<std::size_t>(launch.world), -1) {
    if (launch.world == 1) return;
    launch.rank == 0 ? listen_for(launch, kind) : connect_to(launch, kind);
}

Rendezvous::~Rendezvous() {
    for (const int socket : sockets_)
        if (socket >= 0) close(socket);
}

void Rendezvous::listen_for(const Launch& launch, int kind) {
    const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    set_option(listener, SOL_SOCKET, SO_REUSEADDR);
    const int both = 0;  // IPv4 as well
    setsockopt(listener, IPPROTO_IPV6, IPV6_V6ONLY, &both, sizeof both);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_addr = in6addr_any;
    address.sin6_port = htons(static_cast<std::uint16_t>(launch.port));
    if (bind(listener, reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
        listen(listener, launch.world) != 0) {
        const std::string reason = std::strerror(errno);
        close(listener);
        fail(cat("rank 0 cannot listen on port ", launch.port, ": ", reason), "set MASTER_PORT to one that is free");
    }
    // Nobody is waited for alone.
    std::vector<Caller> callers;
    const double end = now() + launch.patience;
    for (int come = 1; come < launch.world && now() < end;) {
        std::vector<pollfd> ready{{listener, POLLIN, 0}};
        for (const Caller& caller : callers) ready.push_back({caller.socket, POLLIN, 0});
        poll(ready.data(), ready.size(), 100);
        std::vector<Caller> left;
        for (Caller& caller : callers) {
            auto* into = reinterpret_cast<std::byte*>(&caller.greeting) + caller.have;
            const long n = recv(caller.socket, into, sizeof(Greeting) - caller.have, MSG_DONTWAIT);
            const bool waits = n < 0 && (errno == EAGAIN || errno == EINTR);
            if (n > 0) caller.have += static_cast<std::size_t>(n);
            if (caller.have < sizeof(Greeting) && (n > 0 || waits) && now() < caller.until) {
                left.push_back(caller);
                continue;
            }
            const Greeting& said = caller.greeting;
            const bool known = caller.have == sizeof said && said.magic == Greeting{}.magic && said.kind == kind &&
                               said.world == launch.world && said.rank > 0 && said.rank < launch.world &&
                               sockets_[static_cast<std::size_t>(said.rank)] < 0;
            if (!known) {
                close(caller.socket);
                continue;
            }
            set_option(caller.socket, IPPROTO_TCP, TCP_NODELAY);
            sockets_[static_cast<std::size_t>(said.rank)] = caller.socket;
            ++come;
        }
        callers = std::move(left);
        for (int other = 0; (other = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;)
            callers.push_back({.socket = other, .until = now() + greeting_time});
    }
    for (const Caller& caller : callers) close(caller.socket);
    close(listener);
    std::string missing;
    for (int r = 1; r < launch.world; ++r)
        if (sockets_[static_cast<std::size_t>(r)] < 0) missing += cat(missing.empty() ? "" : ", ", r);
    if (!missing.empty())
        fail(cat("not all ranks have come within ", launch.patience, " s: ", missing, " of ", launch.world,
                 " are missing"),
             "start as many as WORLD_SIZE says, with the same MASTER_ADDR and MASTER_PORT; THUNDER_START_TIMEOUT gives "
             "them more seconds");
    for (int r = 1; r < launch.world; ++r) send(std::as_bytes(std::span(&welcome, 1)), r);
}

void Rendezvous::connect_to(const Launch& launch, int kind) {
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    const std::string port = cat(launch.port);
    if (const int result = getaddrinfo(launch.address.c_str(), port.c_str(), &wanted, &found); result != 0)
        fail(cat("MASTER_ADDR is ", launch.address, ": ", gai_strerror(result)), "name the host of rank 0");
    std::string reason;
    const double end = now() + launch.patience;
    while (now() < end) {
        for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
            const int other = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            limit(other, 5);
            if (other >= 0 && connect(other, at->ai_addr, at->ai_addrlen) == 0) {
                set_option(other, IPPROTO_TCP, TCP_NODELAY);
                Greeting greeting;
                greeting.rank = launch.rank;
                greeting.world = launch.world;
                greeting.kind = kind;
                char answer = 0;
                // Rank 0 closes on what it does not expect yet. It may have begun to wait for ranks just now. What
                // answers with other words is somebody else: this rank itself, where rank 0 does not listen yet and the
                // port is one of those that the system gives to who connects.
                limit(other, launch.patience + 5);
                if (::send(other, &greeting, sizeof greeting, MSG_NOSIGNAL) == static_cast<long>(sizeof greeting) &&
                    recv(other, &answer, 1, MSG_WAITALL) == 1 && answer == welcome) {
                    limit(other, 0);
                    sockets_[0] = other;
                    freeaddrinfo(found);
                    return;
                }
                reason = "it does not expect this rank";
            } else {
                reason = std::strerror(errno);
            }
            if (other >= 0) close(other);
        }
        usleep(100'000);
    }
    freeaddrinfo(found);
    fail(cat("rank 0 is not to be reached at ", launch.address, ":", launch.port, " within ", launch.patience,
             " s: ", reason),
         "MASTER_ADDR and MASTER_PORT say where it listens; THUNDER_START_TIMEOUT gives it more seconds");
}

void Rendezvous::send(std::span<const std::byte> bytes, int to) {
    while (!bytes.empty()) {
        const long n = ::send(sockets_[static_cast<std::size_t>(to)], bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail(cat("rank ", to, " is gone: its connection is closed"));
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
}

void Rendezvous::receive(std::span<std::byte> bytes, int from) {
    while (!bytes.empty()) {
        const long n = recv(sockets_[static_cast<std::size_t>(from)], bytes.data(), bytes.size(), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail(cat("rank ", from, " is gone: its connection is closed"));
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
}

long Rendezvous::send_some(std::span<const std::byte> bytes, int to) {
    const long n =
        ::send(sockets_[static_cast<std::size_t>(to)], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

long Rendezvous::receive_some(std::span<std::byte> bytes, int from) {
    const long n = recv(sockets_[static_cast<std::size_t>(from)], bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n == 0) return -1;
    return n > 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

}  // namespace thunder
