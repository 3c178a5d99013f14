// SPDX-License-Identifier: Apache-2.0
#include "optim/cuda/pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include "device/api.h"
#include "device/cuda/driver/native.h"

namespace thunder {

namespace {

struct Tables : ProviderCache {
    struct Table {
        Memory memory;
        std::int64_t count = 0;
    };
    std::map<std::pair<const ParameterSegment*, std::size_t>, Table> tables;
};

}  // namespace

PieceTable pieces_of(std::span<const ParameterSegment> segments, Stream& stream) {
    if (segments.empty()) return {};
    std::unique_ptr<ProviderCache>& kept = stream.native()->optimizer;
    if (kept == nullptr) kept = std::make_unique<Tables>();
    Tables::Table& table = static_cast<Tables&>(*kept).tables[{segments.data(), segments.size()}];
    if (table.count == 0) {
        const std::vector<std::int64_t> numbers = cut_segments(segments);
        table.memory = stream.device().allocate(numbers.size() * sizeof(std::int64_t));
        copy(table.memory.data(), numbers.data(), numbers.size() * sizeof(std::int64_t), stream);
        stream.synchronize();
        table.count = static_cast<std::int64_t>(numbers.size()) / numbers_of_piece;
    }
    return {table.memory.at<const std::int64_t>(0), table.count};
}

}  // namespace thunder
