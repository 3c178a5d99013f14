// SPDX-License-Identifier: Apache-2.0
// Writes a run's checkpoints: each rank its share of the tensors into a file of its own, in a folder that the first
// rank makes, and that gets its name when all files and the manifest are on the disk.
//
// In the background, a step waits while the state is copied into memory of the host; a thread writes it from there.
// What ranks tell one another with each step says when all of them have written: only then is there a manifest. A
// checkpoint waits for the one before it, and so does the end of the run.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/shares.h"
#include "device/stream.h"
#include "support/error.h"
#include "support/file.h"
#include "train/options.h"
#include "train/world.h"

namespace thunder {

class Communicator;
class Console;

class CheckpointWriter {
  public:
    // What a rank tells the others.
    struct Told {
        enum State : std::uint64_t { nothing, at_work, done, failed } state = nothing;
        std::uint64_t bytes = 0, checksum = 0;  // of its file
    };

    CheckpointWriter(const ProgramSpec& program, const Options& options, Communicator& communicator, const World& world,
                     Console& console);
    ~CheckpointWriter();
    CheckpointWriter(const CheckpointWriter&) = delete;
    CheckpointWriter& operator=(const CheckpointWriter&) = delete;

    // From before the folder is looked at until the end nobody else writes there.
    void lock();
    // Before memory is taken; on all ranks. Fails where one of them does not see the folder. Decides whether
    // checkpoints are written in the background: as asked, else where a rank's copy and `planned` bytes of the host
    // take no more than half of the memory that there is.
    void prepare(const OptimizerStates& states, const WeightAverage& average, std::uint64_t planned);
    // Of the host, for copies of the state.
    std::size_t staging_bytes() const { return background_ ? mine_ : 0; }
    // Arenas are there.
    void allocate(Device& device, const TrainingArenas& arenas, const OptimizerStates& states,
                  const WeightAverage& average);

    // Begins the checkpoint of this step, or writes it where `waits` says that nothing goes on beside. On all ranks.
    // When it is there, and before others are removed, of which that of the step `spared` is none, `is_there` is called
    // on the first rank.
    void write(const Progress& progress, Stream& stream, bool waits, std::int64_t spared = -1,
               std::function<void()> is_there = {});
    // Between two calls of `write` ranks exchange what this gives, with each step, and hear what all gave. Fails on all
    // ranks where one could not write.
    Told told() const;
    void hear(std::span<const Told> all);
    // Waits for what is being written. On all ranks.
    void finish();
    // This rank fails: what its thread is about ends before the process does, and others may have the folder.
    void abandon();

  private:
    enum class Stage : std::uint8_t { idle, writing, committing };

    bool writes() const { return !options_.checkpoint.empty() && !options_.eval_only; }
    void join();
    void check_folder_is_seen() const;
    void make_shares(const TrainingArenas& arenas, const OptimizerStates& states, const WeightAverage& average);
    void stage(Stream& stream);
    void write_file(const std::function<void(const Share&, std::int64_t done, std::span<std::byte>&)>& read);
    void commit(std::span<const Told> all) const;
    void start(std::function<void()> work);
    // World::together; what was begun is removed where it fails.
    void together(const std::function<void()>& body);

    const ProgramSpec& program_;
    const Options& options_;
    Communicator& communicator_;
    const World& world_;
    Console& console_;
    const WeightAverage* average_ = nullptr;
    std::optional<FolderLock> lock_;  // of the first rank

    std::vector<HeldTensor> tensors_;  // by name
    std::vector<Share> shares_;        // of all ranks
    std::size_t mine_ = 0;             // bytes of this rank's
    bool background_ = false;
    Memory staging_;
    Event staged_;

    Stage stage_ = Stage::idle;
    std::string path_;                             // of the checkpoint that is being written
    std::map<std::string, std::string> metadata_;  // of it
    std::int64_t spared_ = -1;
    std::function<void()> is_there_;
    Told file_;  // this rank's
    std::vector<Told> heard_;

    // The thread touches path_, metadata_, file_, heard_, failure_ and the staging memory while it is at work, and the
    // thread that trains none of them: its start and its end, which is_busy_ tells of, order both.
    std::thread thread_;
    std::atomic<bool> is_busy_ = false;
    std::optional<Error> failure_;
};

}  // namespace thunder
