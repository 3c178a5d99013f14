// SPDX-License-Identifier: Apache-2.0
#include "device/stream.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "device/call_observer.h"
#include "device/check_cpu.h"
#include "device/cpu/native.h"
#include "device/cpu/products.h"
#include "device/parallel.h"
#include "device/profiler.h"
#include "device/stream_observer.h"
#include "support/error.h"
#include "support/host_memory.h"

namespace thunder {

namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;
constexpr std::size_t page = 4096;

std::size_t round_up(std::size_t n, std::size_t to) {
    return (n + to - 1) / to * to;
}

}  // namespace

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)),
      bytes_(std::exchange(other.bytes_, 0)),
      mapped_(std::exchange(other.mapped_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
}

Memory::~Memory() {
    if (data_ != nullptr) munmap(data_, mapped_);
}

Device::Device(const DeviceOptions& options)
    : threads_(options.threads > 0 ? options.threads : default_team_size()), options_(options) {
    check_cpu();
    set_team_size(threads_);
    if (options_.profile) profiler_ = make_clock_profiler().release();
    observe(nullptr);
}

Device::Device(int threads)
    : Device([&] {
          DeviceOptions options;
          options.threads = threads;
          return options;
      }()) {}
Device::~Device() {
    delete profiler_;
}

void Device::check_room(std::size_t bytes, const std::string& plan, const std::string& help) {
    check_host_memory(host_memory(), bytes, plan, help);
}

Memory Device::allocate_staging(std::size_t bytes) {
    return allocate(bytes);
}

bool Device::is_gpu() const {
    return false;
}

int Device::multiprocessors() const {
    return 0;
}

Memory Device::allocate(std::size_t bytes) {
    Memory memory;
    if (bytes == 0) return memory;
    // Small arenas take plain pages: a huge page for each of them would be waste.
    const std::size_t alignment = bytes >= huge_page ? huge_page : page;
    const std::size_t length = round_up(bytes, alignment);
    void* mapping = mmap(nullptr, length + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapping == MAP_FAILED) {
        fail("the device has no room for an arena of " + std::to_string(bytes) + " bytes: " + std::strerror(errno),
             "a smaller --batch or --seq, or --recompute, needs less");
    }
    // Cut the mapping to an aligned start; what stands before and behind goes back.
    auto* base = static_cast<std::byte*>(mapping);
    const std::size_t before =
        round_up(reinterpret_cast<std::uintptr_t>(base), alignment) - reinterpret_cast<std::uintptr_t>(base);
    if (before > 0) munmap(base, before);
    if (alignment - before > 0) munmap(base + before + length, alignment - before);
    base += before;
#ifdef MADV_HUGEPAGE
    if (alignment == huge_page) madvise(base, length, MADV_HUGEPAGE);  // a wish; refused is no error
#endif
    // Pages are zero when the system first gives them; who touches a page decides which memory node it lies on.
    parallel_for(static_cast<std::int64_t>(length / page), 64, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t i = first; i < last; ++i)
            *reinterpret_cast<volatile char*>(base + static_cast<std::size_t>(i) * page) = 0;
    });
    memory.data_ = base;
    memory.bytes_ = bytes;
    memory.mapped_ = length;
    return memory;
}

std::string Device::describe() const {
    const unsigned features = built_for();
    std::string text = "cpu, " + std::to_string(threads()) + (threads() == 1 ? " thread" : " threads");
    if ((features & cpu_avx512f) != 0) {
        text += ", AVX-512";
    } else if ((features & cpu_avx2) != 0) {
        text += ", AVX2";
    } else if ((features & cpu_avx) != 0) {
        text += ", AVX";
    }
    return text;
}

std::string Device::describe_products() const {
    return products_provider();
}

std::string Device::describe_products_of(DType narrow) const {
    return narrow_provider(narrow);
}

// What a core computes depends on its clock, which depends on what is computed.
double Device::peak_flops(DType) const {
    return 0;
}

std::string Device::describe_attention() const {
    return "";
}

// ---- streams and events --------------------------------------------------------------------------------------------

StreamObserver* stream_observer = nullptr;

Event::Event() : native_(new Native) {}
Event::~Event() {
    native_->release();
}

std::uint64_t Event::issue() {
    return native_->issued.fetch_add(1, std::memory_order_relaxed) + 1;
}

std::uint64_t Event::issued() const {
    return native_->issued.load(std::memory_order_relaxed);
}

void Event::complete(std::uint64_t recording) {
    native_->complete(recording);
}

void Event::Native::wait_for(std::uint64_t recording) const {
    if (has_come_to(recording)) return;
    if (stream_observer != nullptr) stream_observer->begin("waits");
    for (;;) {
        const std::uint64_t seen = completed.load(std::memory_order_acquire);
        if (seen >= recording) break;
        completed.wait(seen, std::memory_order_acquire);
    }
    if (stream_observer != nullptr) stream_observer->end();
}

void Event::wait_for(std::uint64_t recording) const {
    native_->wait_for(recording);
}

bool Event::is_complete() const {
    return native_->has_come_to(issued());
}

void Event::synchronize() const {
    wait_for(issued());
}

Stream::Stream(Device& device, Turn) : device_(device) {}
Stream::~Stream() {
    delete native_;
    delete products_;
    delete convolutions_;
}

void Stream::record(Event& event) {
    if (native_ != nullptr) return native_->record(event);
    if (stream_observer != nullptr) stream_observer->order();
    event.complete(event.issue());
}

void Stream::wait(const Event& event) {
    if (native_ != nullptr) return native_->wait(event);
    if (stream_observer != nullptr) stream_observer->order();
    event.wait_for(event.issued());
}

void Stream::synchronize() {
    if (native_ != nullptr) native_->synchronize();
}

// Issuing is doing: there is nothing to capture.
Graph::Graph() = default;
Graph::~Graph() = default;
bool Graph::replay(Stream&) {
    return false;
}
bool Graph::begin(Stream&) {
    return false;
}
void Graph::end(Stream&) {}

Range::Range(const char* name) {
    if (stream_observer != nullptr) stream_observer->begin(name);
    if (range_observer != nullptr) range_observer->begin_range(name);
}
Range::~Range() {
    if (range_observer != nullptr) range_observer->end_range();
    if (stream_observer != nullptr) stream_observer->end();
}

std::byte* Stream::grow(Memory& memory, std::size_t bytes) {
    if (bytes > memory.bytes()) {
        memory = Memory();  // the old one goes first: nothing in it is kept
        memory = device_.allocate(bytes);
    }
    return memory.data();
}

}  // namespace thunder
