// SPDX-License-Identifier: Apache-2.0
#include "train/updates.h"

#include <algorithm>

#include "device/api.h"
#include "optim/rules/codes.h"
#include "optim/update_share.h"

namespace thunder {

namespace {

// Elements [begin, end) of a segment that has them.
ParameterSegment cut(const ParameterSegment& segment, std::int64_t begin, std::int64_t end) {
    ParameterSegment out = segment;
    const std::int64_t further = begin - segment.begin;
    out.begin = begin;
    out.end = end;
    out.first += further;
    if (!segment.coded) return out;
    for (std::int64_t& codes : out.codes) codes += further;
    for (std::int64_t& scales : out.scales) scales += further / rules::block_elements;
    return out;
}

}  // namespace

std::vector<std::vector<ParameterSegment>> cut_into_parts(std::span<const UpdateRange> ranges,
                                                          std::span<const ParameterSegment> segments) {
    std::int64_t count = 0;
    for (const UpdateRange& range : ranges) count = std::max(count, range.part + range.layers);
    std::vector<std::vector<ParameterSegment>> parts(static_cast<std::size_t>(count));
    // Segments keep their order, of kinds first: those of the part as a whole is that of the arena within each kind.
    for (const ParameterSegment& s : segments)
        for (const UpdateRange& range : ranges)
            for (std::int64_t layer = 0; layer < range.layers; ++layer) {
                const std::int64_t begin = std::max(s.begin, range.begin + layer * range.stride),
                                   end = std::min(s.end, range.end + layer * range.stride);
                if (begin < end) parts[static_cast<std::size_t>(range.part + layer)].push_back(cut(s, begin, end));
            }
    return parts;
}

void Updates::begin(const ProgramSpec& program, TrainingArenas& arenas, std::size_t scalar_bytes, bool beside,
                    Stream& compute) {
    compute_ = &compute;
    segments_ = arenas.segments;
    scalars_ = arenas.scalars;
    scalar_bytes_ = scalar_bytes;
    arenas.updates = this;
    if (!beside || program.update_parts.empty()) return;
    Device& device = compute.device();
    if (device.is_gpu()) own_.emplace(device, Stream::Turn::behind);
    parts_ = cut_into_parts(program.update_parts, segments_);
    done_.resize(parts_.size());
    kept_scalars_ = device.allocate(scalar_bytes);
}

void Updates::update() {
    running_ = false;
    if (parts_.empty()) return graph_.run(*compute_, [this] { step_({segments_, scalars_}, *compute_); });
    copy(kept_scalars_.data(), scalars_, scalar_bytes_, *compute_);
    pending_ = true;
}

void Updates::run(const MicroStep& micro_step) {
    running_ = micro_step.updates;
    // Whether there is an update or not: the bits of a product may depend on it, and are those of an uninterrupted run.
    if (own_ && micro_step.mode == WriteMode::overwrite)
        compute_->leave(compute_->device().multiprocessors() / share_of_update);
    if (!running_) return;
    Stream& stream = own_ ? *own_ : *compute_;
    compute_->record(fork_);
    stream.wait(fork_);
    for (std::size_t k = 0; k < parts_.size(); ++k) {
        if (!parts_[k].empty()) step_({parts_[k], kept_scalars_.at<const StepScalars>(0)}, stream);
        stream.record(done_[k]);
    }
}

void Updates::flush() {
    if (take()) step_({segments_, kept_scalars_.at<const StepScalars>(0)}, *compute_);
}

void wait_for_update(const TrainingArenas& arenas, std::int64_t part, Stream& stream) {
    if (arenas.updates != nullptr) arenas.updates->wait(static_cast<std::size_t>(part), stream);
}

void wait_for_updates(const TrainingArenas& arenas, Stream& stream) {
    if (arenas.updates != nullptr) arenas.updates->wait(stream);
}

}  // namespace thunder
