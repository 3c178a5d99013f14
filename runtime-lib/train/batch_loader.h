// SPDX-License-Identifier: Apache-2.0
// Micro-batches on their way from where they are read to the device. While the device works on one, a thread may read
// the next, where reading takes long enough for that: what is read, and in which step an error is told of, does not
// depend on it.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <optional>
#include <thread>

#include "data/batch_source.h"
#include "device/stream.h"
#include "train/in_flight.h"

namespace thunder {

class BatchLoader {
  public:
    struct Request {
        BatchSource* source = nullptr;
        std::int64_t step = 0, position = 0, micro_step = 0;  // as in BatchSource::load

        bool operator==(const Request&) const = default;
    };

    BatchLoader(const ProgramSpec& program, const BatchCut& cut);
    BatchLoader(const BatchLoader&) = delete;
    BatchLoader& operator=(const BatchLoader&) = delete;
    ~BatchLoader();

    void allocate(Device& device);
    std::size_t staging_bytes() const { return 2 * staged_[0].memory.bytes(); }

    // What was read ahead is not asked for, and nothing is being read: the source may begin elsewhere.
    void forget();

    // Puts the micro-batch into the batch arena. `next` is the one that is asked for behind it, where that is known.
    void load(const Request& now, const std::optional<Request>& next, std::byte* arena, Stream& stream);

  private:
    enum class Ahead : std::uint8_t { when_slow, always, never };

    void read(const Request& request, std::byte* to) const;
    void wait_for_reader();
    void read_ahead(const Request& next);
    void run_reader();

    const ProgramSpec& program_;
    BatchCut cut_;
    Ahead ahead_ = Ahead::when_slow;
    std::array<Staged, 2> staged_;
    std::size_t next_ = 0;  // of these
    double read_ms_ = 0;    // that the last one took

    // What both threads know of. Only while `reading_` is false does the first one touch source or memory.
    std::thread reader_;
    std::mutex mutex_;
    std::condition_variable changed_;
    bool ends_ = false, reading_ = false;
    std::optional<Request> ahead_of_;  // what is read, or was read and is not asked for yet; into staged_[next_]
    std::exception_ptr failure_;       // of reading it
};

}  // namespace thunder
