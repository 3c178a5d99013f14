// SPDX-License-Identifier: Apache-2.0
// The device, its memory, its streams of work and the events between them.
//
// On a CPU the compute stream is the calling thread with its team (device/team.h): a call has done its work when it
// returns, and waiting for it costs nothing. Streams on which ranks communicate are threads (comm/). On a GPU calls are
// put into a queue and return at once. The interface is that of the asynchronous one, so that one host program serves
// both: memory of the device is reached through streams alone (copy and fill_zero in api.h), never by following a
// pointer. Every file of a program reads this header: it includes little, so that programs are built in seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <vector>

#include "device/types.h"

namespace thunder {

// Memory of the device for one arena, zeroed; on a CPU aligned to 2 MiB and, where the system allows it, in huge pages,
// first touched by the threads that will work on it. Or memory of the host for copies (Device::allocate_staging).
class Memory {
  public:
    Memory() = default;
    Memory(Memory&& other) noexcept;
    Memory& operator=(Memory&& other) noexcept;
    Memory(const Memory&) = delete;
    Memory& operator=(const Memory&) = delete;
    ~Memory();

    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }

    // The typed pointer at a byte offset: arena.at<float>(4096).
    template <typename T>
    T* at(std::size_t offset) const {
        return reinterpret_cast<T*>(data_ + offset);
    }

  private:
    friend class Device;
    std::byte* data_ = nullptr;
    std::size_t bytes_ = 0;
    std::size_t mapped_ = 0;  // bytes that the host sees; 0: a GPU's memory
};

// How the backward pass of attention adds what several blocks of a GPU have of one gradient: in a fixed order, the same
// bits in every run; as they come, which is quicker; or in order where there is memory for it.
enum class SumsOfAttention { automatic, deterministic, fast };

// What the command line says of the device.
struct DeviceOptions {
    int threads = 0;  // of the host; 0: OMP_NUM_THREADS, or the cores this process may use

    bool profile = false;  // each call is timed, by itself

    // of a GPU
    bool graphs = true;       // a step is captured once and replayed
    bool early_start = true;  // a kernel may begin while the last blocks of the one before it still run
    bool tf32 = false;        // f32 products round their factors to 10 bits of mantissa
    bool autotune = false;    // the fastest of several plans of each product is looked for at start
    std::string folder{};     // of the program: what autotuning finds is kept there
    SumsOfAttention attention_backward = SumsOfAttention::automatic;
};

class CallObserver;  // device/call_observer.h
class Profiler;      // device/profiler.h

class Device {
  public:
    // Fails with a message where the machine lacks what the program was built for.
    explicit Device(const DeviceOptions& options);
    explicit Device(int threads = 0);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    int threads() const { return threads_; }
    const DeviceOptions& options() const { return options_; }

    // Fails where the device has less memory than a program of that many bytes takes; `plan` says what they are, on one
    // line, and `help` what takes less. Nothing is taken yet.
    void check_room(std::size_t bytes, const std::string& plan, const std::string& help);
    // Memory for an arena; 0 bytes are allowed. Fails with the number of bytes where the system has not that much.
    Memory allocate(std::size_t bytes);
    // Memory of the host that a stream copies from or to while the host goes on.
    Memory allocate_staging(std::size_t bytes);

    bool is_gpu() const;
    int multiprocessors() const;  // of a GPU; else 0
    // For the log, on one line: what computes, with how many threads.
    std::string describe() const;
    // Whose products the runtime API's calls have, and how those of narrow types are computed: both decided when the
    // program starts.
    std::string describe_products() const;
    std::string describe_products_of(DType narrow) const;
    // Whose attention; "" where the device has one alone, or the program came without it.
    std::string describe_attention() const;
    // FLOP/s of matrix products that read this type, at most; 0: not known.
    double peak_flops(DType products) const;
    // Who is told of each call, from now on; null: nobody, or with --profile what times them. On the thread that
    // computes, between calls.
    void observe(CallObserver* observer);
    CallObserver* observer() const { return __atomic_load_n(&observer_, __ATOMIC_RELAXED); }
    // With --profile the table of what was timed, else "".
    std::string profile_report() const;

    struct Native;
    Native* native() const { return native_; }  // what the device's own files keep

  private:
    int threads_ = 1;
    DeviceOptions options_;
    Native* native_ = nullptr;
    Profiler* profiler_ = nullptr;
    CallObserver* observer_ = nullptr;
};

// A point in a stream's work that another stream can wait for. Recording again moves the point forward.
class Event {
  public:
    Event();
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    // Whether the stream has come to the last recording. At once where there is none.
    bool is_complete() const;
    // The host waits until it has.
    void synchronize() const;

    // Streams that are threads of this process share what follows.
    // Says that one more recording is on its way, and which one that is. On the thread that issues the work.
    std::uint64_t issue();
    // The last one issued: what a wait issued now has to wait for.
    std::uint64_t issued() const;
    // The stream has come to that point. On the thread that does the work.
    void complete(std::uint64_t recording);
    // Blocks the calling thread until that recording was completed; 0 is at once.
    void wait_for(std::uint64_t recording) const;

    struct Native;
    Native* native() const { return native_; }

  private:
    Native* native_;
};

// What a library keeps for a stream: compiled products and the like. Each provider derives its own.
struct ProviderCache {
    virtual ~ProviderCache() = default;
};

class Stream {
  public:
    struct Native;
    // Of a GPU's streams: one that runs behind takes the multiprocessors that others leave.
    enum class Turn { ahead, behind };

    explicit Stream(Device& device, Turn turn = Turn::ahead);
    // One whose work is done by what is given, which the stream deletes.
    Stream(Device& device, Native* native) : device_(device), native_(native) {}
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    Device& device() const { return device_; }
    int threads() const { return device_.threads(); }

    void record(Event& event);
    void wait(const Event& event);
    // Returns when all work issued to this stream is done.
    void synchronize();

    // Workspace of the call that runs now, aligned to 64 bytes; its content is lost with the next call. It grows with
    // the first step and then stays.
    std::byte* workspace(std::size_t bytes) { return grow(workspace_, bytes); }
    // The same for the library below that call.
    std::byte* provider_scratch(std::size_t bytes) { return grow(provider_scratch_, bytes); }
    // Of both, as they are now.
    std::size_t workspace_bytes() const { return workspace_.bytes() + provider_scratch_.bytes(); }

    // One provider's cache, null until the provider gives one; the stream deletes it.
    ProviderCache* products() { return products_; }
    void keep_products(ProviderCache* cache) { products_ = cache; }
    ProviderCache* convolutions() { return convolutions_; }
    void keep_convolutions(ProviderCache* cache) { convolutions_ = cache; }

    // Products of this stream leave so many of a GPU's multiprocessors to one that runs behind; 0: none.
    void leave(int multiprocessors) { left_ = multiprocessors; }
    int left() const { return left_; }

    // Matrices that stay as they are for a while (HeldMatrices). Which time of being held this one is in, counted from
    // 1 for all of them; 0: it may change.
    std::uint64_t held(const void* matrix) const {
        for (const Held& h : held_)
            if (h.matrix == matrix) return h.time;
        return 0;
    }
    void hold(std::initializer_list<const void*> matrices) {
        held_.reserve(held_.size() + matrices.size());  // all or none
        for (const void* matrix : matrices) held_.push_back({matrix, ++times_held_});
    }
    void release(std::size_t last) { held_.resize(held_.size() - last); }

    Native* native() const { return native_; }

  private:
    struct Held {
        const void* matrix;
        std::uint64_t time;
    };

    std::byte* grow(Memory& memory, std::size_t bytes);

    Device& device_;
    int left_ = 0;
    Memory workspace_, provider_scratch_;
    ProviderCache *products_ = nullptr, *convolutions_ = nullptr;
    std::vector<Held> held_;
    std::uint64_t times_held_ = 0;
    Native* native_ = nullptr;
};

// While it lives nothing is written to these matrices: products that read them again and again, as in a loop over time
// steps, may keep them in an order of their own.
class HeldMatrices {
  public:
    HeldMatrices(std::initializer_list<const void*> matrices, Stream& stream)
        : stream_(stream), count_(matrices.size()) {
        stream_.hold(matrices);
    }
    ~HeldMatrices() { stream_.release(count_); }
    HeldMatrices(const HeldMatrices&) = delete;
    HeldMatrices& operator=(const HeldMatrices&) = delete;

  private:
    Stream& stream_;
    std::size_t count_;
};

// A part of a step that is issued in the same way each time. On a CPU issuing it is doing it. On a GPU the second time
// is captured as a graph (the first lets libraries make their plans and take their memory), which later times replay:
// what the part is given by value must be the same each time.
class Graph {
  public:
    Graph();
    ~Graph();
    Graph(const Graph&) = delete;
    Graph& operator=(const Graph&) = delete;

    template <typename Issue>
    void run(Stream& stream, Issue&& issue) {
        if (replay(stream)) return;
        const bool capturing = begin(stream);
        issue();
        if (capturing) end(stream);
    }

  private:
    bool replay(Stream& stream);
    bool begin(Stream& stream);
    void end(Stream& stream);

    struct Native;
    Native* native_ = nullptr;
};

// Names what is issued in its lifetime, for a GPU's profilers: a block, or a phase of the step.
class Range {
  public:
    explicit Range(const char* name);
    ~Range();
    Range(const Range&) = delete;
    Range& operator=(const Range&) = delete;
};

}  // namespace thunder
