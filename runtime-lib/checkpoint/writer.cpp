// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/writer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <utility>

#include "checkpoint/folder.h"
#include "checkpoint/manifest.h"
#include "checkpoint/safetensors.h"
#include "comm/communicator.h"
#include "device/api.h"
#include "program/transfer.h"
#include "support/file.h"
#include "support/host_memory.h"
#include "support/text.h"
#include "train/average.h"
#include "watch/console.h"

namespace thunder {

namespace {

constexpr std::int64_t elements_at_once = 1 << 20;  // elements that are on their way to a file

}  // namespace

CheckpointWriter::CheckpointWriter(const ProgramSpec& program, const Options& options, Communicator& communicator,
                                   const World& world, Console& console)
    : program_(program), options_(options), communicator_(communicator), world_(world), console_(console) {}

CheckpointWriter::~CheckpointWriter() {
    join();
}

void CheckpointWriter::join() {
    if (thread_.joinable()) thread_.join();
}

void CheckpointWriter::abandon() {
    join();
    lock_.reset();
}

// ---- before the first step -----------------------------------------------------------------------------------------

void CheckpointWriter::lock() {
    if (!writes() || !world_.is_first()) return;
    check_folder(options_.checkpoint);
    lock_.emplace(options_.checkpoint);
    if (const std::string& why = lock_->not_locked(); !why.empty())
        console_.line(cat("note: ", options_.checkpoint, " cannot be locked (", why,
                          "): see to it that no other run writes there"));
}

void CheckpointWriter::prepare(const OptimizerStates& states, const WeightAverage& average, std::uint64_t planned) {
    if (!writes()) return;
    check_folder_is_seen();
    make_shares({}, states, average);
    if (options_.checkpoint_every == 0 || options_.checkpoint_async == Options::Background::off) return;
    const std::uint64_t available =
        host_memory().available / static_cast<std::uint64_t>(communicator_.ranks_on_these_cores());
    const bool fits = available == 0 || planned + mine_ <= available / 2;
    const bool wanted = options_.checkpoint_async == Options::Background::on || fits;
    std::vector<std::byte> all(static_cast<std::size_t>(communicator_.world()));
    const std::byte vote{static_cast<unsigned char>(wanted ? 1 : 0)};
    communicator_.all_gather({&vote, 1}, all, "whether checkpoints are written in the background");
    background_ = std::all_of(all.begin(), all.end(), [](std::byte one) { return one != std::byte{0}; });
    if (!background_)
        console_.line(cat("note: steps wait while checkpoints are written: a copy of what they hold, ",
                          bytes_text(mine_),
                          ", would take more than half of the memory with the rest; --checkpoint-async on takes it"));
}

// Ranks write side by side into one folder. A name that nobody has asked for is no name that a network's file system
// remembers as missing.
void CheckpointWriter::check_folder_is_seen() const {
    if (world_.is_alone()) return;
    char name[64] = {};
    const auto now = std::chrono::steady_clock::now().time_since_epoch().count();
    std::snprintf(name, sizeof name, ".seen-%ld-%lld", static_cast<long>(getpid()), static_cast<long long>(now));
    communicator_.broadcast(std::as_writable_bytes(std::span(name)), 0, "a file's name");
    const std::string file = join_path(options_.checkpoint, name);
    world_.together([&] {
        if (world_.is_first()) AtomicFile(file).commit();
    });
    std::optional<Error> failure;
    try {
        world_.together([&] {
            if (!is_file(file))
                fail(cat("what rank 0 wrote into the folder ", options_.checkpoint, " is not there"),
                     "ranks write their parts of a checkpoint into one folder: name one that all hosts share");
        });
    } catch (const Error& error) {
        failure = error;
    }
    if (world_.is_first()) unlink(file.c_str());
    if (failure) throw Error(*failure);
}

void CheckpointWriter::make_shares(const TrainingArenas& arenas, const OptimizerStates& states,
                                   const WeightAverage& average) {
    average_ = &average;
    tensors_ = tensors_of(program_, arenas, states, average.decay() > 0 ? &average : nullptr);
    std::sort(tensors_.begin(), tensors_.end(),
              [](const HeldTensor& a, const HeldTensor& b) { return a.as.name < b.as.name; });
    shares_ = share_out(program_, world_, tensors_);
    mine_ = bytes_of(shares_, tensors_, world_.rank());
}

void CheckpointWriter::allocate(Device& device, const TrainingArenas& arenas, const OptimizerStates& states,
                                const WeightAverage& average) {
    if (!writes()) return;
    make_shares(arenas, states, average);
    staging_ = device.allocate_staging(staging_bytes());
}

// ---- one checkpoint ------------------------------------------------------------------------------------------------

void CheckpointWriter::write(const Progress& progress, Stream& stream, bool waits, std::int64_t spared,
                             std::function<void()> is_there) {
    finish();
    spared_ = spared;
    is_there_ = std::move(is_there);
    path_ = checkpoint_path(options_.checkpoint, progress.step);
    metadata_ = checkpoint_metadata(program_, *average_, progress);
    together([&] {
        if (world_.is_first()) begin_checkpoint(path_);
    });
    stage_ = Stage::writing;
    if (background_ && !waits) {
        stage(stream);
        start([this] {
            staged_.synchronize();
            std::size_t at = 0;
            write_file([&](const Share&, std::int64_t, std::span<std::byte>& part) {
                part = {staging_.data() + at, part.size()};
                at += part.size();
            });
            if (world_.is_alone()) commit(std::span(&file_, 1));
        });
        return;
    }
    std::vector<std::byte> host;
    together([&] {
        write_file([&](const Share& share, std::int64_t done, std::span<std::byte>& part) {
            host.resize(part.size());
            from_device(host.data(), world_.place_of(tensors_[share.tensor], share.first + done), host.size(), stream);
            part = host;
        });
        if (world_.is_alone()) commit(std::span(&file_, 1));
    });
    finish();
}

// The one thing that a step waits for.
void CheckpointWriter::stage(Stream& stream) {
    std::size_t at = 0;
    for (const Share& share : shares_) {
        if (share.rank != world_.rank()) continue;
        const HeldTensor& tensor = tensors_[share.tensor];
        const std::size_t bytes = static_cast<std::size_t>(share.count) * size_of(tensor.as.dtype);
        copy(staging_.data() + at, world_.place_of(tensor, share.first), bytes, stream);
        at += bytes;
    }
    stream.record(staged_);
}

// This rank's file. `read` sets the portion that it is given, of so many bytes, to where the elements are.
void CheckpointWriter::write_file(
    const std::function<void(const Share&, std::int64_t done, std::span<std::byte>&)>& read) {
    file_ = {Told::done, 0, 0};
    std::vector<TensorToWrite> announced;
    for (const Share& share : shares_) {
        if (share.rank != world_.rank()) continue;
        announced.push_back(tensors_[share.tensor].as);
        std::int64_t all = 1;
        for (const std::int64_t extent : announced.back().shape) all *= extent;
        if (share.count != all) announced.back().shape = {share.count};
    }
    if (announced.empty()) return;
    const std::pair<std::string, std::string> metadata[] = {
        {"format", std::string(part_format)}, {"step", metadata_.at("step")}, {std::string(checksum_key), ""}};
    SafetensorsWriter writer(join_path(aside_of(path_), rank_file_name(world_.rank())), announced, metadata);
    for (const Share& share : shares_) {
        if (share.rank != world_.rank()) continue;
        const std::size_t width = size_of(tensors_[share.tensor].as.dtype);
        for (std::int64_t done = 0; done < share.count; done += elements_at_once) {
            std::span<std::byte> part(static_cast<std::byte*>(nullptr),
                                      static_cast<std::size_t>(std::min(elements_at_once, share.count - done)) * width);
            read(share, done, part);
            writer.append(part.data(), part.size());
        }
    }
    writer.commit();
    file_ = {Told::done, writer.bytes(), writer.checksum()};
}

// All files are on the disk; on the first rank.
void CheckpointWriter::commit(std::span<const Told> all) const {
    Manifest manifest;
    manifest.metadata = metadata_;
    std::vector<std::size_t> file_of(all.size());
    for (std::size_t rank = 0; rank < all.size(); ++rank) {
        if (all[rank].bytes == 0) continue;
        file_of[rank] = manifest.files.size();
        manifest.files.push_back(
            {rank_file_name(static_cast<int>(rank)), all[rank].bytes, checksum_text(all[rank].checksum)});
    }
    for (const HeldTensor& tensor : tensors_)
        manifest.tensors.push_back({tensor.as.name, std::string(stored_name(tensor.as.dtype)), tensor.as.shape, {}});
    for (const Share& share : shares_)
        manifest.tensors[share.tensor].parts.push_back(
            {file_of[static_cast<std::size_t>(share.rank)], share.first, share.count});
    commit_checkpoint(path_, manifest);
    if (is_there_) is_there_();
    prune_checkpoints(options_.checkpoint, options_.keep, options_.keep_every, spared_);
}

// ---- in the background ---------------------------------------------------------------------------------------------

void CheckpointWriter::start(std::function<void()> work) {
    join();
    is_busy_.store(true, std::memory_order_relaxed);
    thread_ = std::thread([this, work = std::move(work)] {
        try {
            work();
        } catch (const Error& error) {
            failure_ = error;
        } catch (const std::exception& error) {
            failure_ = Error(error.what());
        }
        is_busy_.store(false, std::memory_order_release);
    });
}

CheckpointWriter::Told CheckpointWriter::told() const {
    if (stage_ == Stage::idle) return {};
    if (is_busy_.load(std::memory_order_acquire)) return {Told::at_work, 0, 0};
    if (failure_) return {Told::failed, 0, 0};
    return {Told::done, file_.bytes, file_.checksum};
}

void CheckpointWriter::hear(std::span<const Told> all) {
    if (stage_ == Stage::idle) return;
    const auto are = [&](Told::State state) {
        return std::count_if(all.begin(), all.end(), [&](const Told& one) { return one.state == state; });
    };
    if (are(Told::failed) == 0 && are(Told::done) < std::ssize(all)) return;
    join();
    together([&] {
        if (failure_) throw Error(*failure_);
    });
    if (stage_ == Stage::committing || world_.is_alone()) {
        stage_ = Stage::idle;
        console_.line(cat("checkpoint ", path_));
        return;
    }
    stage_ = Stage::committing;
    heard_.assign(all.begin(), all.end());
    if (world_.is_first()) start([this] { commit(heard_); });
}

void CheckpointWriter::finish() {
    std::vector<Told> all(static_cast<std::size_t>(communicator_.world()));
    while (stage_ != Stage::idle) {
        join();
        const Told mine = told();
        communicator_.all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(all)),
                                 "whether a checkpoint is written");
        hear(all);
    }
}

void CheckpointWriter::together(const std::function<void()>& body) {
    try {
        world_.together(body);
    } catch (...) {
        stage_ = Stage::idle;
        join();
        if (world_.is_first()) give_up_checkpoint(path_);
        throw;
    }
}

}  // namespace thunder
