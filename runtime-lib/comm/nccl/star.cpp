#include "comm/nccl/star.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr int patience = 60;  // seconds in which all ranks have to come

// What a rank says when it comes.
struct Greeting {
    std::uint64_t magic = 0x7468756e64657231;
    std::int32_t rank = 0, world = 0, kind = 0, reserved = 0;
};

const char* variable(const char* name) {
    const char* value = std::getenv(name);
    return value == nullptr || *value == '\0' ? nullptr : value;
}

int number(const char* name, int otherwise) {
    const char* value = variable(name);
    return value == nullptr ? otherwise : std::atoi(value);
}

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
    for (const Launcher& launcher : launchers) {
        if (variable(launcher.rank) == nullptr || variable(launcher.world) == nullptr) continue;
        launch.rank = number(launcher.rank, 0);
        launch.world = number(launcher.world, 1);
        if (launch.world < 1 || launch.rank < 0 || launch.rank >= launch.world)
            fail(cat(launcher.rank, " is ", launch.rank, " and ", launcher.world, " is ", launch.world),
                 "ranks are counted from 0");
        const bool here = variable("MASTER_ADDR") == nullptr;
        launch.local_rank = number(launcher.local_rank, launch.rank);
        launch.local_world = number(launcher.local_world, here ? launch.world : 1);
        launch.port = number("MASTER_PORT", launch.port);
        if (!here) {
            launch.address = variable("MASTER_ADDR");
        } else if (launch.local_world != launch.world) {
            fail("the ranks are on several hosts, and MASTER_ADDR does not say which of them is rank 0's",
                 "set MASTER_ADDR to its name or address, and MASTER_PORT where 29500 is not free");
        }
        return launch;
    }
    return launch;
}

Star::Star(const Launch& launch, int kind) : rank_(launch.rank), sockets_(static_cast<std::size_t>(launch.world), -1) {
    if (launch.world == 1) return;
    launch.rank == 0 ? listen_for(launch, kind) : connect_to(launch, kind);
}

Star::~Star() {
    for (const int socket : sockets_)
        if (socket >= 0) close(socket);
}

void Star::listen_for(const Launch& launch, int kind) {
    const int listener = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
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
    for (int come = 1; come < launch.world;) {
        pollfd ready{listener, POLLIN, 0};
        if (poll(&ready, 1, patience * 1000) <= 0) {
            std::string missing;
            for (int r = 1; r < launch.world; ++r)
                if (sockets_[static_cast<std::size_t>(r)] < 0) missing += cat(missing.empty() ? "" : ", ", r);
            close(listener);
            fail(
                cat("not all ranks have come within ", patience, " s: ", missing, " of ", launch.world, " are missing"),
                "start as many as WORLD_SIZE says, with the same MASTER_ADDR and MASTER_PORT");
        }
        const int other = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
        if (other < 0) continue;
        Greeting greeting;
        greeting.magic = 0;
        const bool whole = recv(other, &greeting, sizeof greeting, MSG_WAITALL) == static_cast<long>(sizeof greeting);
        const bool known = whole && greeting.magic == Greeting{}.magic && greeting.kind == kind &&
                           greeting.world == launch.world && greeting.rank > 0 && greeting.rank < launch.world &&
                           sockets_[static_cast<std::size_t>(greeting.rank)] < 0;
        if (!known) {
            close(other);
            continue;
        }
        set_option(other, IPPROTO_TCP, TCP_NODELAY);
        sockets_[static_cast<std::size_t>(greeting.rank)] = other;
        ++come;
    }
    close(listener);
    for (int r = 1; r < launch.world; ++r) send({reinterpret_cast<const std::byte*>("!"), 1}, r);
}

void Star::connect_to(const Launch& launch, int kind) {
    addrinfo wanted{}, *found = nullptr;
    wanted.ai_socktype = SOCK_STREAM;
    const std::string port = cat(launch.port);
    if (const int result = getaddrinfo(launch.address.c_str(), port.c_str(), &wanted, &found); result != 0)
        fail(cat("MASTER_ADDR is ", launch.address, ": ", gai_strerror(result)), "name the host of rank 0");
    std::string reason;
    for (int tries = 0; tries < 10 * patience; ++tries) {
        for (const addrinfo* at = found; at != nullptr; at = at->ai_next) {
            const int other = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
            if (other >= 0 && connect(other, at->ai_addr, at->ai_addrlen) == 0) {
                set_option(other, IPPROTO_TCP, TCP_NODELAY);
                Greeting greeting;
                greeting.rank = launch.rank;
                greeting.world = launch.world;
                greeting.kind = kind;
                char answer = 0;
                // Rank 0 answers when all have come, and closes on what it does not expect yet.
                if (::send(other, &greeting, sizeof greeting, MSG_NOSIGNAL) == static_cast<long>(sizeof greeting) &&
                    recv(other, &answer, 1, MSG_WAITALL) == 1) {
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
    fail(cat("rank 0 is not to be reached at ", launch.address, ":", launch.port, " within ", patience, " s: ", reason),
         "MASTER_ADDR and MASTER_PORT say where it listens");
}

void Star::send(std::span<const std::byte> bytes, int to) {
    while (!bytes.empty()) {
        const long n = ::send(sockets_[static_cast<std::size_t>(to)], bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail(cat("rank ", to, " is gone: its connection is closed"));
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
}

void Star::receive(std::span<std::byte> bytes, int from) {
    while (!bytes.empty()) {
        const long n = recv(sockets_[static_cast<std::size_t>(from)], bytes.data(), bytes.size(), 0);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) fail(cat("rank ", from, " is gone: its connection is closed"));
        bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
}

long Star::send_some(std::span<const std::byte> bytes, int to) {
    const long n =
        ::send(sockets_[static_cast<std::size_t>(to)], bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    return n >= 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

long Star::receive_some(std::span<std::byte> bytes, int from) {
    const long n = recv(sockets_[static_cast<std::size_t>(from)], bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (n == 0) return -1;
    return n > 0 ? n : errno == EAGAIN || errno == EINTR ? 0 : -1;
}

}  // namespace thunder
