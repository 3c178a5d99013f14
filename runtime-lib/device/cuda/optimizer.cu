// AdamW, SGD, the gradient's norm and the step's scalars.
#include <algorithm>
#include <map>
#include <vector>

#include "device/cuda/call.h"
#include "device/cuda/kernels/optimizer.cuh"
#include "device/cuda/launch.h"

namespace thunder {

namespace {

using bundled::Piece;

// The segments of an optimizer, cut into pieces for the blocks of a grid; on the device, made when they are first met.
struct Pieces : ProviderCache {
    struct Table {
        Memory memory;
        std::int64_t count = 0;
    };
    std::map<const ParameterSegment*, Table> tables;
};

const Pieces::Table& pieces_of(std::span<const ParameterSegment> segments, Stream& stream) {
    std::unique_ptr<ProviderCache>& kept = stream.native()->optimizer;
    if (kept == nullptr) kept = std::make_unique<Pieces>();
    Pieces::Table& table = static_cast<Pieces&>(*kept).tables[segments.data()];
    if (table.memory.data() != nullptr || segments.empty()) return table;
    std::vector<Piece> pieces;
    for (const ParameterSegment& s : segments) {
        for (std::int64_t begin = s.begin; begin < s.end; begin += bundled::piece_elements)
            pieces.push_back({begin, std::min(begin + bundled::piece_elements, s.end), s.decay ? 1 : 0});
    }
    table.count = static_cast<std::int64_t>(pieces.size());
    table.memory = stream.device().allocate(pieces.size() * sizeof(Piece));
    copy(table.memory.data(), pieces.data(), pieces.size() * sizeof(Piece), stream);
    stream.synchronize();
    return table;
}

}  // namespace

void adamw(const AdamW& call, Stream& stream) {
    issue("adamw", call, stream, [&] {
        const Pieces::Table& pieces = pieces_of(call.segments, stream);
        launch("adamw", bundled::bundled_adamw, pieces.count, 256, stream, call.parameters, call.gradients,
               call.first_moments, call.second_moments, pieces.memory.at<const Piece>(0), call.scalars);
    });
}

void sgd(const Sgd& call, Stream& stream) {
    issue("sgd", call, stream, [&] {
        const Pieces::Table& pieces = pieces_of(call.segments, stream);
        launch("sgd", bundled::bundled_sgd, pieces.count, 256, stream, call.parameters, call.gradients,
               call.momentum_buffers, pieces.memory.at<const Piece>(0), call.scalars);
    });
}

void global_norm(StepScalars* scalars, const float* gradients, std::int64_t elements, Stream& stream) {
    const GlobalNorm call{scalars, gradients, elements};
    issue("global_norm", call, stream, [&] {
        constexpr std::int64_t leaf = 16384;
        const std::int64_t leaves = (elements + leaf - 1) / leaf;
        auto* sums = reinterpret_cast<double*>(
            stream.workspace(static_cast<std::size_t>(std::max<std::int64_t>(leaves, 1)) * sizeof(double)));
        launch("squares", bundled::bundled_squares, leaves, 256, stream, sums, gradients, elements);
        launch("clip_factor", bundled::bundled_clip_factor, 1, 512, stream, &scalars->grad_norm, &scalars->clip_factor,
               &scalars->max_grad_norm, sums, leaves);
    });
}

void begin_micro_step(StepScalars* scalars, Gradient gradient, Stream& stream) {
    launch("begin_micro_step", bundled::bundled_begin_micro_step, 1, 32, stream, &scalars->first_micro_step,
           gradient == Gradient::overwrite);
}

void seed_loss(StepScalars* scalars, Stream& stream) {
    launch("seed_loss", bundled::bundled_seed_loss, 1, 32, stream, &scalars->dloss, &scalars->loss_weight);
}

}  // namespace thunder
