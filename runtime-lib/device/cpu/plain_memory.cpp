#include <cstring>

#include "device/menu.h"
#include "device/parallel.h"

namespace thunder {

namespace {
constexpr std::int64_t grain = 1 << 18;  // bytes a thread at least moves
}

void copy(void* dst, const void* src, std::size_t bytes, Stream&) {
    parallel_for(static_cast<std::int64_t>(bytes), grain, [&](std::int64_t begin, std::int64_t end) {
        std::memcpy(static_cast<std::byte*>(dst) + begin, static_cast<const std::byte*>(src) + begin,
                    static_cast<std::size_t>(end - begin));
    });
}

void fill_zero(void* dst, std::size_t bytes, Stream&) {
    parallel_for(static_cast<std::int64_t>(bytes), grain, [&](std::int64_t begin, std::int64_t end) {
        std::memset(static_cast<std::byte*>(dst) + begin, 0, static_cast<std::size_t>(end - begin));
    });
}

}  // namespace thunder
