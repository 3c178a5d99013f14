// SPDX-License-Identifier: Apache-2.0
#include "checkpoint/shares.h"

namespace thunder {

std::vector<Share> share_out(const ProgramSpec& program, const World& world, std::span<const HeldTensor> tensors) {
    const Mesh& mesh = program.mesh;
    std::vector<std::int64_t> load(static_cast<std::size_t>(mesh.world()));
    std::vector<Share> shares;
    for (std::size_t t = 0; t < tensors.size(); ++t) {
        const HeldTensor& tensor = tensors[t];
        const bool everywhere = tensor.parameter->unit < 0 || tensor.part == HeldTensor::Part::whole;
        for (int shard = 0; shard < (everywhere ? 1 : mesh.shards); ++shard) {
            const Piece piece = world.part_of(tensor, shard);
            if (piece.count == 0) continue;
            int writer = everywhere ? 0 : shard;
            const int step = everywhere ? 1 : mesh.shards;
            for (int rank = writer; rank < mesh.world() && !tensor.parameter->moves; rank += step)
                if (load[static_cast<std::size_t>(rank)] < load[static_cast<std::size_t>(writer)]) writer = rank;
            load[static_cast<std::size_t>(writer)] += piece.count * static_cast<std::int64_t>(size_of(tensor.as.dtype));
            shares.push_back({t, writer, piece.first, piece.count});
        }
    }
    return shares;
}

std::size_t bytes_of(std::span<const Share> shares, std::span<const HeldTensor> tensors, int rank) {
    std::size_t bytes = 0;
    for (const Share& share : shares)
        if (share.rank == rank)
            bytes += static_cast<std::size_t>(share.count) * size_of(tensors[share.tensor].as.dtype);
    return bytes;
}

}  // namespace thunder
