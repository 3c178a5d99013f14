// SPDX-License-Identifier: Apache-2.0
#include "memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <map>
#include <utility>

namespace thunder::emulation {
namespace {

// Arrays of the host by where they end.
std::map<std::uintptr_t, Allocation*>& arrays() {
    static std::map<std::uintptr_t, Allocation*> map;
    return map;
}

constexpr std::size_t widest = 16;  // bytes that one thread reads or writes at once

std::uintptr_t number(const void* pointer) {
    return reinterpret_cast<std::uintptr_t>(pointer);
}

std::string text(const Moment& m, const Moment& now) {
    if (m.block != now.block) return fmt::format("thread {} of block {}", m.thread, m.block);
    return fmt::format("thread {}", m.thread);
}

}  // namespace

Allocation::Allocation(std::string name, std::size_t count, std::size_t element)
    : name_(std::move(name)),
      bytes_(count * element),
      element_(element),
      global_(false),
      storage_(bytes_ + widest),
      elements_(count) {
    data_ = storage_.data() + (widest - number(storage_.data()) % widest) % widest;
}

Allocation::Allocation(std::string name, std::size_t count, std::size_t element, bool written, std::size_t alignment)
    : name_(std::move(name)),
      bytes_(count * element),
      element_(element),
      global_(true),
      storage_(bytes_ + 3 * alignment),
      elements_(count) {
    // Not by chance aligned to more than is promised, and never where another array ends.
    data_ = storage_.data() + (2 * alignment - number(storage_.data()) % (2 * alignment)) % (2 * alignment) + alignment;
    set_written(written);
    if (bytes_ > 0) arrays()[number(data_) + bytes_] = this;
}

Allocation::~Allocation() {
    if (global_ && bytes_ > 0) arrays().erase(number(data_) + bytes_);
}

Allocation* Allocation::find(const void* pointer) {
    const auto at = arrays().upper_bound(number(pointer));
    if (at == arrays().end() || number(pointer) < number(at->second->data_)) return nullptr;
    return at->second;
}

void Allocation::set_written(bool written) {
    for (Element& e : elements_) e.has_value = written;
}

bool Allocation::written() const {
    return std::all_of(elements_.begin(), elements_.end(), [](const Element& e) { return e.has_value; });
}

std::string Allocation::element_text(std::size_t k) const {
    return fmt::format("element {} of {}", k, name_);
}

Allocation::Range Allocation::check(const char* verb, std::uintptr_t address, std::size_t count,
                                    std::size_t size) const {
    const Machine& machine = Machine::instance();
    const auto offset = static_cast<std::int64_t>(address - number(data_));
    const std::size_t bytes = count * size;
    const std::int64_t first = offset >= 0
                                   ? offset / static_cast<std::int64_t>(size)
                                   : (offset - static_cast<std::int64_t>(size) + 1) / static_cast<std::int64_t>(size);
    const std::string which =
        count == 1 ? fmt::format("element {}", first)
                   : fmt::format("elements {} to {}", first, first + static_cast<std::int64_t>(count) - 1);
    if (offset < 0 || static_cast<std::size_t>(offset) + bytes > bytes_)
        machine.fault(fmt::format("{} {} of {}, which has {}", verb, which, name_, bytes_ / size));
    if (bytes > widest)
        machine.fault(fmt::format("{} {} of {} at once, {} bytes; {} are possible", verb, which, name_, bytes, widest));
    if (address % bytes != 0)
        machine.fault(fmt::format("{} {} of {} at once: not aligned to {} bytes", verb, which, name_, bytes));
    if (global_ && !machine.has_waited())
        machine.fault(fmt::format("{} {} of {} before wait_for_previous_kernel()", verb, which, name_));
    const auto begin = static_cast<std::size_t>(offset);
    return {begin / element_, (begin + bytes + element_ - 1) / element_};
}

// A write, or a read, of what another thread wrote when nothing orders the two. Whether the thread of an atomic write
// is the only one that wrote so is not known: nothing but another atomic goes without a barrier.
void Allocation::check_writers(const char* verb, std::size_t k, const Moment& now, bool atomic) const {
    const Element& e = elements_[k];
    const bool same_epoch =
        e.written.launch == now.launch && e.written.block == now.block && e.written.epoch == now.epoch;
    if (atomic && e.atomic) return;
    if (e.written.ordered_before(now) && !(e.atomic && same_epoch)) return;
    const bool me = e.written.block == now.block && e.written.thread == now.thread;
    Machine::instance().fault(fmt::format("{} {}, which {} writes: no barrier stands between them", verb,
                                          element_text(k), me ? "another thread" : text(e.written, now)));
}

// A write of what another thread read when nothing orders the two.
void Allocation::check_readers(const char* verb, std::size_t k, const Moment& now) const {
    const Element& e = elements_[k];
    if (e.read.launch != now.launch) return;
    const bool ordered = !e.other_blocks && e.read.block == now.block &&
                         (e.read.epoch != now.epoch ||
                          (!e.other_warps && e.read.warp() == now.warp() &&
                           (e.read.warp_epoch != now.warp_epoch || (!e.other_lanes && e.read.thread == now.thread))));
    if (ordered) return;
    const bool me = e.read.block == now.block && e.read.thread == now.thread;
    Machine::instance().fault(fmt::format("{} {}, which {} reads: no barrier stands between them", verb,
                                          element_text(k), me ? "another thread" : text(e.read, now)));
}

// A compiler may keep what a Global parameter reads in registers, or in a cache that sees no writes.
void Allocation::check_parameters(const char* verb, std::size_t k, const Moment& now, int parameter, bool writes) {
    if (parameter < 0) return;
    Element& e = elements_[k];
    if (e.launch != now.launch) {
        e.launch = now.launch;
        e.readers = e.writers = 0;
    }
    const std::uint64_t me = std::uint64_t{1} << parameter, exclusive = Machine::instance().exclusive();
    const std::uint64_t others = (writes ? e.readers | e.writers : e.writers) & ~me;
    if (others != 0 && ((exclusive & (others | me)) != 0))
        Machine::instance().fault(fmt::format(
            "{} {} through parameter {}, which parameter {} {}: one of them is Global", verb, element_text(k),
            parameter, std::countr_zero(others), (e.writers & others) != 0 ? "writes" : "reads"));
    (writes ? e.writers : e.readers) |= me;
}

void Allocation::read(std::uintptr_t address, std::size_t count, std::size_t size, int parameter) {
    const Range range = check("reads", address, count, size);
    const Moment now = Machine::instance().now();
    for (std::size_t k = range.begin; k < range.end; ++k) {
        Element& e = elements_[k];
        check_parameters("reads", k, now, parameter, false);
        check_writers("reads", k, now, false);
        if (!e.has_value) Machine::instance().fault(fmt::format("reads {}, which nobody has written", element_text(k)));
        const bool launch = e.read.launch == now.launch, block = launch && e.read.block == now.block;
        const bool epoch = block && e.read.epoch == now.epoch, warp = epoch && e.read.warp() == now.warp();
        const bool warp_epoch = warp && e.read.warp_epoch == now.warp_epoch;
        e.other_blocks = launch && (e.other_blocks || !block);
        e.other_warps = epoch && (e.other_warps || !warp);
        e.other_lanes = warp_epoch && (e.other_lanes || e.read.thread != now.thread);
        e.read = now;
    }
}

void Allocation::ask(std::uintptr_t address, std::size_t size) const {
    check("asks for", address, 1, size);
}

void Allocation::write(std::uintptr_t address, std::size_t count, std::size_t size, int parameter) {
    const Range range = check("writes", address, count, size);
    const Moment now = Machine::instance().now();
    for (std::size_t k = range.begin; k < range.end; ++k) {
        Element& e = elements_[k];
        check_parameters("writes", k, now, parameter, true);
        check_writers("writes", k, now, false);
        check_readers("writes", k, now);
        e.written = now;
        e.has_value = true;
        e.atomic = false;
    }
}

void Allocation::update(std::uintptr_t address, std::size_t size, int parameter) {
    const Range range = check("updates", address, 1, size);
    const Moment now = Machine::instance().now();
    for (std::size_t k = range.begin; k < range.end; ++k) {
        Element& e = elements_[k];
        check_parameters("updates", k, now, parameter, true);
        check_writers("updates", k, now, true);
        check_readers("updates", k, now);
        if (!e.has_value)
            Machine::instance().fault(fmt::format("updates {}, which nobody has written", element_text(k)));
        e.written = now;
        e.atomic = true;
    }
}

}  // namespace thunder::emulation
