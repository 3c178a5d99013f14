// SPDX-License-Identifier: Apache-2.0
#include "train/world.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <numeric>

#include "device/cpu/narrow.h"
#include "optim/state_layout.h"
#include "program/transfer.h"
#include "support/text.h"

namespace thunder {

// ---- what a rank holds ---------------------------------------------------------------------------------------------

Piece piece_of(const ProgramSpec& program, const ParameterSpec& parameter, int rank) {
    const auto width = size_of(parameter.dtype);
    const auto begin = static_cast<std::int64_t>(parameter.offset / width),
               count = static_cast<std::int64_t>(parameter.bytes / width);
    if (parameter.unit < 0) return {0, count, begin};
    const UnitSpec& unit = program.units[static_cast<std::size_t>(parameter.unit)];
    const std::int64_t shard_begin = program.mesh.shard_of(rank) * unit.elements;
    const std::int64_t from = std::clamp(shard_begin, begin, begin + count),
                       to = std::clamp(shard_begin + unit.elements, begin, begin + count);
    return {from - begin, to - from, static_cast<std::int64_t>(unit.offset / width) + from - shard_begin};
}

// ---- as one --------------------------------------------------------------------------------------------------------

void World::check_mesh() const {
    const int made_for = program_.mesh.world(), running = communicator_.world();
    if (made_for == running) return;
    fail_as_one(cat(program_.name, " was generated for ", count_text(static_cast<std::uint64_t>(made_for), "rank"),
                    ", and ", running, running == 1 ? " is" : " are", " running"),
                made_for == 1 ? "start it by itself, without mpirun or srun"
                              : cat("start it with mpirun -np ", made_for, " or srun -n ", made_for,
                                    "; thunderc train makes a program for another number"));
}

void World::fail_as_one(const std::string& message, const std::string& help) const {
    if (!is_first()) fail_quietly(1);
    fail(message, help);
}

void World::end_together(const std::optional<Error>& failure) const {
    const auto mine = static_cast<std::byte>(failure ? std::max(failure->exit_code(), 1) : 0);
    std::vector<std::byte> all(static_cast<std::size_t>(communicator_.world()));
    communicator_.all_gather({&mine, 1}, all, "errors");
    const auto first = std::find_if(all.begin(), all.end(), [](std::byte code) { return code != std::byte{0}; });
    if (first == all.end()) return;
    if (first - all.begin() == rank_) throw Error(*failure);
    fail_quietly(static_cast<int>(*first));
}

// ---- files ---------------------------------------------------------------------------------------------------------

namespace {

// As a file has numbers of floating point: divided where that is asked (not by 0), and in its type.
std::vector<std::byte> converted(std::span<const std::byte> numbers, DType from, float by, DType to) {
    std::vector<std::byte> out(numbers.size() / size_of(from) * size_of(to));
    with_float(from, [&]<typename From>(From*) {
        with_float(to, [&]<typename To>(To*) {
            for (std::size_t k = 0; k < numbers.size() / sizeof(From); ++k) {
                From x{};
                std::memcpy(&x, numbers.data() + k * sizeof x, sizeof x);
                const To y = narrowed<To>(by != 0 ? to_float(x) / by : to_float(x));
                std::memcpy(out.data() + k * sizeof y, &y, sizeof y);
            }
        });
    });
    return out;
}

DType dtype_in_file(const HeldTensor& tensor) {
    return tensor.divided_by != 0 ? DType::f32 : tensor.stored.value_or(tensor.as.dtype);
}

}  // namespace

Piece World::part_of(const HeldTensor& tensor, int rank) const {
    Piece part = piece_of(program_, *tensor.parameter, rank);
    const auto& shape = tensor.as.shape;
    switch (tensor.part) {
        case HeldTensor::Part::elements: break;
        case HeldTensor::Part::blocks:
            part = {part.first / rules::block_elements, blocks_of_codes(part.count), 0};
            break;
        case HeldTensor::Part::whole:
            part = {0, std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>()), 0};
            break;
    }
    return part;
}

std::byte* World::place_of(const HeldTensor& tensor, std::int64_t first) const {
    const auto width = static_cast<std::int64_t>(size_of(tensor.as.dtype));
    std::byte* const begin =
        tensor.arena + (tensor.begins ? *tensor.begins : piece_of(program_, *tensor.parameter, rank_).at * width);
    return begin + (first - part_of(tensor, rank_).first) * width;
}

void World::save(const std::string& path, std::vector<HeldTensor> tensors,
                 std::span<const std::pair<std::string, std::string>> metadata, Stream& stream) const {
    std::sort(tensors.begin(), tensors.end(),
              [](const HeldTensor& a, const HeldTensor& b) { return a.as.name < b.as.name; });
    constexpr std::int64_t at_once = 1 << 20;  // elements
    std::optional<SafetensorsWriter> writer;
    if (is_first()) {
        std::vector<TensorToWrite> announced;
        for (const HeldTensor& tensor : tensors) {
            announced.push_back(tensor.as);
            announced.back().dtype = dtype_in_file(tensor);
        }
        writer.emplace(path, announced, metadata);
    }
    std::vector<std::byte> host;
    for (const HeldTensor& tensor : tensors) {
        const std::size_t width = size_of(tensor.as.dtype);
        const ParameterSpec& parameter = *tensor.parameter;
        // The ranks of the first copy, in the order of their shards.
        const int holders = parameter.unit < 0 ? 1 : program_.mesh.shards;
        for (int holder = 0; holder < holders; ++holder) {
            const Piece piece = part_of(tensor, holder);
            if (!is_first() && rank_ != holder) continue;
            for (std::int64_t done = 0; done < piece.count; done += at_once) {
                host.resize(static_cast<std::size_t>(std::min(at_once, piece.count - done)) * width);
                if (rank_ == holder)
                    from_device(host.data(), place_of(tensor, piece.first + done), host.size(), stream);
                if (rank_ == holder && !is_first()) communicator_.send(host, 0, tensor.as.name.c_str());
                if (is_first() && holder != 0) communicator_.receive(host, holder, tensor.as.name.c_str());
                if (!is_first()) continue;
                if (dtype_in_file(tensor) != tensor.as.dtype || tensor.divided_by != 0)
                    host = converted(host, tensor.as.dtype, tensor.divided_by, dtype_in_file(tensor));
                writer->append(host.data(), host.size());
            }
        }
    }
    if (is_first()) writer->commit();
}

void World::load(std::span<const TensorPart> parts, const HeldTensor& tensor, Stream& stream) const {
    const Piece piece = part_of(tensor, rank_);
    for (const TensorPart& part : parts) {
        const std::int64_t begin = std::max(piece.first, part.first),
                           end = std::min(piece.first + piece.count, part.first + part.count);
        if (begin >= end) continue;
        load_elements(*part.file, *part.tensor, tensor.as.dtype, static_cast<std::size_t>(begin - part.first),
                      static_cast<std::size_t>(end - begin), place_of(tensor, begin), stream);
    }
    gets_on();
    if (on_read_) on_read_(static_cast<std::size_t>(piece.count) * size_of(tensor.as.dtype));
}

}  // namespace thunder
