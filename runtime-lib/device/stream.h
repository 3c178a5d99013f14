// The device, its memory, its streams of work and the events between them.
//
// On a CPU the compute stream is the calling thread with its OpenMP team: a call has done its work when it returns, and
// waiting for it costs nothing. The interface is that of an asynchronous device, so that one host program serves both.
// Every file of a program reads this header: it includes little, so that programs are built in seconds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace thunder {

// Memory of the device for one arena: zeroed, aligned to 2 MiB and, where the system allows it, in huge pages. Its
// pages are first touched by the threads that will work on them.
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
    std::size_t mapped_ = 0;
};

class Device {
  public:
    // threads: of the compute stream; 0 takes what OpenMP would (OMP_NUM_THREADS, or the cores this process may use).
    // Fails with a message where the CPU lacks what the program was built for.
    explicit Device(int threads = 0);
    ~Device();
    Device(const Device&) = delete;
    Device& operator=(const Device&) = delete;

    int threads() const { return threads_; }

    // Memory for an arena; 0 bytes are allowed. Fails with the number of bytes where the system has not that much.
    Memory allocate(std::size_t bytes);

    // One line for the log: what computes, with how many threads and whose products.
    std::string describe() const;

  private:
    int threads_ = 1;
};

// A point in a stream's work that another stream can wait for. Recording again moves the point forward.
class Event {
  public:
    Event();
    ~Event();
    Event(const Event&) = delete;
    Event& operator=(const Event&) = delete;

    // Says that one more recording is on its way, and which one that is. On the thread that issues the work.
    std::uint64_t issue();
    // The last one issued: what a wait issued now has to wait for.
    std::uint64_t issued() const;
    // The stream has come to that point. On the thread that does the work.
    void complete(std::uint64_t recording);
    // Blocks the calling thread until that recording was completed; 0 is at once.
    void wait_for(std::uint64_t recording) const;

  private:
    struct Counters;
    Counters* counters_;
};

// What a library keeps for a stream: compiled products and the like. Each provider derives its own.
struct ProviderCache {
    virtual ~ProviderCache() = default;
};

class Stream {
  public:
    explicit Stream(Device& device);
    ~Stream();
    Stream(const Stream&) = delete;
    Stream& operator=(const Stream&) = delete;

    Device& device() const { return device_; }
    int threads() const { return device_.threads(); }

    void record(Event& event) { event.complete(event.issue()); }
    void wait(const Event& event) { event.wait_for(event.issued()); }
    // Returns when all work issued to this stream is done.
    void synchronize() {}

    // Workspace of the call that runs now, aligned to 64 bytes; its content is lost with the next call. It grows with
    // the first step and then stays.
    std::byte* workspace(std::size_t bytes) { return grow(workspace_, bytes); }
    // The same for the library below that call.
    std::byte* library_scratch(std::size_t bytes) { return grow(library_scratch_, bytes); }

    // One provider's cache, null until the provider gives one; the stream deletes it.
    ProviderCache* products() { return products_; }
    void keep_products(ProviderCache* cache) { products_ = cache; }

  private:
    std::byte* grow(Memory& memory, std::size_t bytes);

    Device& device_;
    Memory workspace_, library_scratch_;
    ProviderCache* products_ = nullptr;
};

}  // namespace thunder
