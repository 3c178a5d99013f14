// SPDX-License-Identifier: Apache-2.0
// Memory and streams of the emulated GPU. A workspace has exactly the bytes that a launcher asked for, and nothing in
// it is written, each time it is asked for.
#include <map>
#include <memory>
#include <utility>

#include "device/timed.h"
#include "memory.h"

namespace thunder {
namespace {

std::map<std::byte*, std::unique_ptr<emulation::Allocation>>& workspaces() {
    static std::map<std::byte*, std::unique_ptr<emulation::Allocation>> map;
    return map;
}

}  // namespace

Memory::Memory(Memory&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}

Memory& Memory::operator=(Memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

Memory::~Memory() {
    if (data_ != nullptr) workspaces().erase(data_);
}

Device::Device(int threads) : threads_(threads) {}
Device::~Device() = default;

Memory Device::allocate(std::size_t bytes) {
    // Floats are its elements, as of every partial sum.
    auto allocation =
        std::make_unique<emulation::Allocation>("the stream's workspace", (bytes + 3) / 4, 4, false, std::size_t{64});
    Memory memory;
    memory.data_ = allocation->data();
    memory.bytes_ = bytes;
    workspaces()[memory.data_] = std::move(allocation);
    return memory;
}

// Nobody looks on here: a device without options has no profiler.
void Timed::begin(std::string_view, const Cost&, std::initializer_list<Output>) {}
void Timed::begin(const ObservedCall&) {}
void Timed::end() {}

Stream::Stream(Device& device, Turn) : device_(device) {}
Stream::~Stream() = default;

std::byte* Stream::grow(Memory& memory, std::size_t bytes) {
    memory = Memory();
    memory = device_.allocate(bytes);
    return memory.data();
}

}  // namespace thunder
