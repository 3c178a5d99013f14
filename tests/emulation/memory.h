// SPDX-License-Identifier: Apache-2.0
// Memory of the emulated GPU: every access is looked at before it happens.
#pragma once

#include <compare>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "machine.h"

namespace thunder::emulation {

// An array that kernels work on, and for each of its elements who used it last.
class Allocation {
  public:
    // A block's own, which nobody has written.
    Allocation(std::string name, std::size_t count, std::size_t element);
    // The host's, at most aligned to `alignment` bytes, which every operand of a kernel is. `written`: it has values.
    Allocation(std::string name, std::size_t count, std::size_t element, bool written, std::size_t alignment);
    ~Allocation();
    Allocation(const Allocation&) = delete;
    Allocation& operator=(const Allocation&) = delete;

    // The one that a pointer of the host points into; null: none.
    static Allocation* find(const void* pointer);

    std::byte* data() const { return data_; }
    std::size_t bytes() const { return bytes_; }
    // From the host.
    void set_written(bool written);
    void set_written(std::size_t element, bool written) { elements_[element].has_value = written; }
    bool written() const;  // all of it
    bool written(std::size_t element) const { return elements_[element].has_value; }

    // What the running thread is about to do with the elements of `size` bytes from `address` on, through a parameter
    // of its kernel. Throws Fault.
    void read(std::uintptr_t address, std::size_t count, std::size_t size, int parameter);
    void write(std::uintptr_t address, std::size_t count, std::size_t size, int parameter);
    void update(std::uintptr_t address, std::size_t size, int parameter);  // read and write, atomically
    void ask(std::uintptr_t address, std::size_t size) const;              // to come into a cache

  private:
    struct Element {
        Moment written, read;
        bool has_value = false;
        bool atomic = false;  // the last write; in this block's epoch or launch others may have written so, too
        // Who else read it: in the launch of `read`, its epoch, its epoch of the warp.
        bool other_blocks = false, other_warps = false, other_lanes = false;
        // The parameters, as bits, that it was read and written through in a launch.
        std::uint64_t launch = 0, readers = 0, writers = 0;
    };
    struct Range {
        std::size_t begin, end;
    };
    Range check(const char* verb, std::uintptr_t address, std::size_t count, std::size_t size) const;
    void check_writers(const char* verb, std::size_t k, const Moment& now, bool atomic) const;
    void check_readers(const char* verb, std::size_t k, const Moment& now) const;
    void check_parameters(const char* verb, std::size_t k, const Moment& now, int parameter, bool writes);
    std::string element_text(std::size_t k) const;

    std::string name_;
    std::size_t bytes_, element_;
    bool global_;
    std::vector<std::byte> storage_;
    std::byte* data_ = nullptr;
    std::vector<Element> elements_;
};

// An array of the host that a test fills and hands to kernels.
template <typename T>
class Buffer {
  public:
    // Values that a kernel reads.
    Buffer(const std::string& name, const std::vector<T>& values) : Buffer(name, values.size(), true) {
        if (!values.empty()) std::memcpy(allocation_.data(), values.data(), values.size() * sizeof(T));
    }
    // Of `count` elements that nobody has written.
    Buffer(const std::string& name, std::size_t count) : Buffer(name, count, false) {}

    T* data() { return reinterpret_cast<T*>(allocation_.data()); }
    std::size_t size() const { return allocation_.bytes() / sizeof(T); }
    T operator[](std::size_t k) { return data()[k]; }
    std::vector<T> values() { return std::vector<T>(data(), data() + size()); }
    bool written() const { return allocation_.written(); }

  private:
    Buffer(const std::string& name, std::size_t count, bool written)
        : allocation_(name, count, sizeof(T), written, 16) {}
    Allocation allocation_;
};

enum class Space { global, aliased, shared };

template <typename T, Space S>
class Pointer;

// What *pointer is where the pointer may write: a value when it is read, a write when it is assigned to.
template <typename T, Space S>
class Reference {
  public:
    explicit Reference(Pointer<T, S> at) : at_(at) {}
    Reference(const Reference&) = default;
    operator T() const { return at_.read(); }  // NOLINT(google-explicit-constructor): it stands for the value
    Reference& operator=(T value) {
        at_.write(value);
        return *this;
    }
    Reference& operator=(const Reference& other) { return *this = static_cast<T>(other); }
    Reference& operator+=(T value) { return *this = static_cast<T>(*this) + value; }
    Reference& operator-=(T value) { return *this = static_cast<T>(*this) - value; }
    Reference& operator*=(T value) { return *this = static_cast<T>(*this) * value; }

  private:
    Pointer<T, S> at_;
};

// A pointer into one array: it may point anywhere, and may be used inside of the array.
template <typename T, Space S>
class Pointer {
  public:
    using Value = std::remove_const_t<T>;
    static constexpr Space space = S;

    Pointer() = default;
    Pointer(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as of a plain pointer
    Pointer(Allocation& in, std::uintptr_t address) : in_(&in), address_(address) {}
    // The host's pointer, as the argument of a kernel.
    Pointer(T* raw)  // NOLINT(google-explicit-constructor): as of a plain pointer
        requires(S != Space::shared)
        : in_(Allocation::find(raw)), address_(reinterpret_cast<std::uintptr_t>(raw)) {}
    Pointer(Buffer<Value>& buffer)  // NOLINT(google-explicit-constructor): as an array becomes a pointer
        requires(S != Space::shared)
        : Pointer(buffer.data()) {}
    // To const.
    template <typename U>
    requires std::same_as<const U, T> Pointer(
        const Pointer<U, S>& other)  // NOLINT(google-explicit-constructor): as of a plain pointer
        : in_(other.allocation()), address_(other.address()), parameter_(other.parameter()) {}

    Allocation* allocation() const { return in_; }
    std::uintptr_t address() const { return address_; }
    int parameter() const { return parameter_; }
    void set_parameter(int parameter) { parameter_ = parameter; }
    explicit operator bool() const { return address_ != 0; }

    template <std::integral I>
    Pointer operator+(I n) const {
        Pointer p = *this;
        p.address_ += static_cast<std::uintptr_t>(n) * sizeof(T);
        return p;
    }
    template <std::integral I>
    Pointer operator-(I n) const {
        Pointer p = *this;
        p.address_ -= static_cast<std::uintptr_t>(n) * sizeof(T);
        return p;
    }
    template <std::integral I>
    Pointer& operator+=(I n) {
        return *this = *this + n;
    }
    Pointer& operator++() { return *this += 1; }
    bool operator==(const Pointer& other) const { return address_ == other.address_; }

    template <std::integral I>
    auto operator[](I n) const {
        return *(*this + n);
    }
    auto operator*() const {
        if constexpr (std::is_const_v<T>)
            return read();
        else
            return Reference<T, S>(*this);
    }

    Value read() const {
        Value value;
        read(&value, 1);
        return value;
    }
    void write(const Value& value) const { write(&value, 1); }
    // `count` elements in one access, which has to be aligned to its size.
    void read(Value* values, std::size_t count) const {
        target("reads").read(address_, count, sizeof(T), parameter_);
        std::memcpy(static_cast<void*>(values), reinterpret_cast<const void*>(address_), count * sizeof(T));
    }
    void write(const Value* values, std::size_t count) const requires(!std::is_const_v<T>) {
        target("writes").write(address_, count, sizeof(T), parameter_);
        std::memcpy(reinterpret_cast<void*>(address_), static_cast<const void*>(values), count * sizeof(T));
    }
    void ask() const { target("asks for").ask(address_, sizeof(T)); }
    // change(value) replaces the value, atomically; gives the one before.
    template <typename Change>
    Value update(Change&& change) const requires(!std::is_const_v<T>) {
        target("updates").update(address_, sizeof(T), parameter_);
        Value before;
        std::memcpy(static_cast<void*>(&before), reinterpret_cast<const void*>(address_), sizeof(T));
        const Value after = change(before);
        std::memcpy(reinterpret_cast<void*>(address_), static_cast<const void*>(&after), sizeof(T));
        return before;
    }

  private:
    Allocation& target(const char* verb) const {
        if (in_ == nullptr)
            Machine::instance().fault(std::string(verb) +
                                      (address_ == 0 ? " through a null pointer" : " memory that no array lies in"));
        return *in_;
    }

    Allocation* in_ = nullptr;
    std::uintptr_t address_ = 0;
    int parameter_ = -1;  // of the kernel; -1: none, a shared array
};

}  // namespace thunder::emulation
