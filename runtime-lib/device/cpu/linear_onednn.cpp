// SPDX-License-Identifier: Apache-2.0
// Products by oneDNN's matmul primitives. These run on one thread each: a product is cut into tiles of c, which the
// threads of the team take as they get to them (device/team.h). So no second set of threads waits beside the team's,
// and a core that is busy with other work computes fewer tiles. A tile is a whole sum: which thread computes it changes
// no bit. Products of narrow types are cut otherwise where that is quicker: dense_tiles_onednn.h.
#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/cpu/dense_tiles_onednn.h"
#include "device/cpu/elements.h"
#include "device/cpu/product_primitives_onednn.h"
#include "device/stream.h"
#include "device/team.h"

namespace thunder::onednn {

namespace {

// One execution of a primitive: a tile of c, or a piece of its sum. Where its operands begin, in elements.
struct Part {
    const Compiled* compiled = nullptr;
    std::int64_t a = 0, b = 0, c = 0, bias = 0, residual = 0;
    std::size_t packed = 0;  // where b begins in its packed form, in bytes
};

// A product as it is executed.
struct Plan {
    int threads = 0;            // of the team that it was made for
    std::vector<Part> parts{};  // of the first tile, of the second ...
    std::int64_t tiles = 0;     // 0: refused
    std::vector<Tile> places{};
    std::size_t scratchpad = 0;  // bytes for each thread
    std::size_t packed = 0;      // bytes of b in the library's order; 0: b is read where it lies
};

// A held matrix in the order of one product's primitives.
struct alignas(64) Line {
    std::byte bytes[64];
};
struct Packed {
    std::uint64_t time = 0;  // of being held, in which it was packed
    std::vector<Line> lines{};

    std::byte* data() { return reinterpret_cast<std::byte*>(lines.data()); }
};

struct Cache : ProviderCache {
    Library provider{};
    DenseTiles dense{};
    std::unordered_map<Key, Plan, KeyHash> plans{};
    std::map<std::pair<const void*, const Plan*>, Packed> packed{};
};

bool has_avx512() {
    constexpr auto wanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core);
    static const bool has = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
    return has;
}

// How a product is cut: the lengths of all but the last range of its batch, of c's rows and of c's columns.
struct Tiles {
    std::int64_t batch, rows, columns;
};

Tiles tiles_of(const Product& p, int threads, bool packed) {
    Tiles tiles{p.batch, p.m, p.n};
    const double operations = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) *
                              static_cast<double>(p.k);
    // A tile for each thread is worth some 15 us of a core; more tiles than that, of which a slower core takes fewer,
    // cost what is read for more than one of them.
    const double wanted_by_work =
        std::max(std::min(1.0 * threads, operations / 1.5e6), std::min(4.0 * threads, operations / 6e6));
    auto wanted = static_cast<std::int64_t>(wanted_by_work);
    if (packed) wanted = std::min<std::int64_t>(wanted, 2 * threads);  // few rows are read anew for each tile
    if (threads == 1 || wanted < 2) return tiles;
    tiles.batch = parts_of(p.batch, std::min(p.batch, wanted));
    // Where the library has AVX2 alone it copies operands into panels, but not for a small c: its loops without copies
    // run at half the speed over long strides of both operands, as dW = dyᵀ x has them.
    const auto copied = [](std::int64_t m, std::int64_t n) {
        return 1.0 / static_cast<double>(m) + 1.0 / static_cast<double>(n) < 0.0038;
    };
    const bool keep_panels = p.transpose_a && copied(p.m, p.n) && !has_avx512();
    constexpr std::int64_t smallest = 32;
    for (;;) {
        const std::int64_t count =
            parts_of(p.batch, tiles.batch) * parts_of(p.m, tiles.rows) * parts_of(p.n, tiles.columns);
        if (count >= wanted || std::max(tiles.rows, tiles.columns) < 2 * smallest) return tiles;
        Tiles next = tiles;
        std::int64_t& longest = next.rows >= next.columns ? next.rows : next.columns;
        longest = parts_of(parts_of(longest, 2), 16) * 16;
        if (keep_panels && count >= threads && !copied(next.rows, next.columns)) return tiles;
        tiles = next;
    }
}

// A long sum over rows of b (dx = dy W) is taken in pieces: beyond some thousand rows oneDNN's walk down a column of
// blocks loses a fifth to a half of its speed, and adding to c costs next to nothing. A sum in a narrow type is not
// taken in pieces: it would be rounded after each.
std::int64_t piece_of_sum(const Product& p) {
    constexpr std::int64_t piece = 768;
    if (p.transpose_a || p.transpose_b || p.batch != 1 || p.k < 3 * piece / 2 || is_narrow(p.c.dtype)) {
        return std::max<std::int64_t>(p.k, 1);
    }
    return parts_of(parts_of(p.k, parts_of(p.k, piece)), 64) * 64;
}

// Whether activation and residual follow a tile's sums, which lie in c: as long as it is in the core's cache.
bool finishes_tiles(const Product& p) {
    return p.activation != Activation::none && p.c.dtype == DType::f32 && !p.accumulate;
}

// The product in tiles, and each tile's sum in pieces; without tiles where the library refuses one of them. In the
// library's order a long walk down b is no slower than a short one.
Plan plan_of(const Product& p, int threads, bool packed, Cache& cache) {
    Plan plan{.threads = threads};
    const Tiles tiles = tiles_of(p, threads, packed);
    const std::int64_t piece = packed ? std::max<std::int64_t>(p.k, 1) : piece_of_sum(p);
    for (std::int64_t b = 0; b < p.batch; b += tiles.batch) {
        for (std::int64_t i = 0; i < p.m; i += tiles.rows) {
            for (std::int64_t j = 0; j < p.n; j += tiles.columns) {
                for (std::int64_t k = 0; k == 0 || k < p.k; k += piece) {
                    Product of_part = p;
                    of_part.batch = std::min(tiles.batch, p.batch - b);
                    of_part.m = std::min(tiles.rows, p.m - i);
                    of_part.n = std::min(tiles.columns, p.n - j);
                    of_part.k = std::min(piece, p.k - k);
                    if (finishes_tiles(p)) {
                        of_part.residual = {};
                        of_part.activation = Activation::none;
                    }
                    if (k > 0) {
                        of_part.bias = of_part.residual = {};
                        of_part.accumulate = true;
                    }
                    const Compiled& compiled = compiled_for(of_part, packed, threads, cache.provider);
                    if (compiled.primitive == nullptr) return {.threads = threads};
                    plan.scratchpad = std::max(plan.scratchpad, (compiled.scratchpad_bytes + 63) / 64 * 64);
                    plan.parts.push_back({.compiled = &compiled,
                                          .a = b * p.stride_a + (p.transpose_a ? i + k * p.ld_a : i * p.ld_a + k),
                                          .b = b * p.stride_b + (p.transpose_b ? j * p.ld_b + k : j + k * p.ld_b),
                                          .c = b * p.stride_c + i * p.ld_c + j,
                                          .bias = j,
                                          .residual = i * p.ld_residual + j,
                                          .packed = plan.packed});
                    plan.packed += compiled.packed_bytes;
                }
                ++plan.tiles;
                plan.places.push_back({b, i, j, std::min(tiles.rows, p.m - i), std::min(tiles.columns, p.n - j)});
            }
        }
    }
    return plan;
}

// A held matrix is worth packing where few rows read it: the library packs panels of it in each call otherwise, which
// is as much work as the products of some hundred rows.
constexpr std::int64_t few_rows = 128;

// b in the order of the plan's primitives, as it is since it is held.
const std::byte* packed_b(const Plan& plan, const Product& call, std::uint64_t time, Cache& cache) {
    Packed& packed = cache.packed[{call.b.data, &plan}];
    if (packed.time == time) return packed.data();
    packed.lines.resize(plan.packed / sizeof(Line));
    FirstFailure failure;
    share_pieces(static_cast<std::int64_t>(plan.parts.size()), plan.threads, [&](std::int64_t at, int thread) {
        const Part& part = plan.parts[static_cast<std::size_t>(at)];
        const Compiled& compiled = *part.compiled;
        if (compiled.pack == nullptr) return;
        Tensor from, to;
        void* const given = const_cast<void*>(advanced(call.b, part.b).data);
        dnnl_status_t status = dnnl_memory_create(from.out(), compiled.given_b, cache.provider.engine, given);
        if (status == dnnl_success)
            status = dnnl_memory_create(to.out(), compiled.b, cache.provider.engine, packed.data() + part.packed);
        const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
        if (status == dnnl_success)
            status = dnnl_primitive_execute(compiled.pack, cache.provider.queues[static_cast<std::size_t>(thread)], 2,
                                            arguments);
        failure.note(status);
    });
    failure.tell("pack a matrix");
    packed.time = time;
    return packed.data();
}

}  // namespace

namespace {

Cache& cache_of(Stream& stream) {
    if (stream.products() == nullptr) stream.keep_products(new Cache);
    return static_cast<Cache&>(*stream.products());
}

}  // namespace

bool widened_product(const Product& call, Stream& stream) {
    Cache& cache = cache_of(stream);
    return cache.dense.product(call, true, cache.provider, stream);
}

bool product(const Product& call, Stream& stream) {
    Cache& cache = cache_of(stream);
    const int threads = stream.threads();  // which memory is taken for
    const std::uint64_t held = call.batch == 1 && call.m <= few_rows ? stream.held(call.b.data) : 0;
    if (held == 0 && cache.dense.product(call, false, cache.provider, stream)) return true;
    Plan& plan = cache.plans[key_of(call, held != 0)];
    if (plan.threads != threads) {
        plan = plan_of(call, threads, held != 0, cache);
        cache.packed.clear();
    }
    if (plan.tiles == 0) {
        const bool plain = !call.bias && !call.residual && call.activation == Activation::none;
        return plain && reference::product(call, stream);
    }
    cache.provider.provide_queues(threads);
    std::byte* scratchpads =
        plan.scratchpad == 0 ? nullptr : stream.provider_scratch(plan.scratchpad * static_cast<std::size_t>(threads));
    const std::byte* packed = plan.packed == 0 ? nullptr : packed_b(plan, call, held, cache);
    const std::size_t parts = plan.parts.size() / static_cast<std::size_t>(plan.tiles);
    Product behind = call;  // what follows the sums
    behind.bias = {};
    FirstFailure failure;
    share_pieces(plan.tiles, threads, [&](std::int64_t tile, int thread) {
        const auto me = static_cast<std::size_t>(thread);
        for (std::size_t k = 0; k < parts; ++k) {
            const Part& part = plan.parts[static_cast<std::size_t>(tile) * parts + k];
            const Places places{
                .a = advanced(call.a, part.a).data,
                .b = part.compiled->pack != nullptr ? packed + part.packed : advanced(call.b, part.b).data,
                .c = advanced(call.c, part.c).data,
                .bias = advanced(call.bias, part.bias).data,
                .residual = advanced(call.residual, part.residual).data,
                .scratchpad = scratchpads + me * plan.scratchpad};
            failure.note(execute(*part.compiled, places, me, cache.provider.queues[me]));
        }
        if (!finishes_tiles(call)) return;
        const Tile& at = plan.places[static_cast<std::size_t>(tile)];
        finish_tile(behind, at.i, at.j, at.rows, at.columns,
                    static_cast<const float*>(advanced(call.c, at.i * call.ld_c + at.j).data), call.ld_c);
    });
    failure.tell("compute a product");
    return true;
}

}  // namespace thunder::onednn
