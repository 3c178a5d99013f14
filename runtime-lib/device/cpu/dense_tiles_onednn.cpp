// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/dense_tiles_onednn.h"

#include <algorithm>
#include <cstring>

#include "device/cpu/elements.h"
#include "device/team.h"

namespace thunder::onednn {

namespace {

// Of tiles and of the parts of their sums, but the last ones.
struct Lengths {
    std::int64_t rows = 0, columns = 0, terms = 0;
};

// Ranges of about the same length, none longer than `most`; whole vectors of a tile unit (32 numbers) but the last.
std::int64_t range_of(std::int64_t n, std::int64_t most) {
    return n <= most ? n : parts_of(parts_of(n, parts_of(n, most)), 32) * 32;
}

// Whether a part of a matrix has gaps between its rows: of rows of `width` numbers that lie `ld` apart it has `part`.
bool has_gaps(std::int64_t part, std::int64_t width, std::int64_t ld) {
    return part < width || ld != width;
}
bool gathers_a(const Product& p, const Lengths& l) {
    return p.transpose_a ? has_gaps(l.rows, p.m, p.ld_a) : has_gaps(l.terms, p.k, p.ld_a);
}
bool gathers_b(const Product& p, const Lengths& l) {
    return p.transpose_b ? has_gaps(l.terms, p.k, p.ld_b) : has_gaps(l.columns, p.n, p.ld_b);
}

// Measured on two cores with AMX: a tile of 256 to 512 rows and columns and up to a thousand terms stays in the second
// cache and is the quickest; a transposed a is the quicker the fewer terms it has. In f32 columns cost less than rows,
// and with AVX2 alone the library does not bring smaller tiles into panels (linear_onednn.cpp).
Lengths lengths_of(const Product& p, bool widened, int threads) {
    Lengths l{};
    l.terms = range_of(p.k, widened ? 512 : p.transpose_a ? 768 : 1536);
    l.columns = widened ? range_of(p.n, 768) : range_of(p.n, p.n <= 1024 ? 1024 : 512);
    // Where each tile brings b together, more rows read it.
    l.rows = range_of(p.m, widened || gathers_b(p, l) ? 512 : 256);
    const double operations = 2.0 * static_cast<double>(p.batch) * static_cast<double>(p.m) * static_cast<double>(p.n) *
                              static_cast<double>(p.k);
    // A tile is worth some 15 us of a core; of two for each thread a slower core takes fewer.
    const double least = widened ? 1.5e6 : 1e7;
    const auto wanted = static_cast<std::int64_t>(
        std::max(std::min(1.0 * threads, operations / least), std::min(2.0 * threads, operations / (4 * least))));
    constexpr std::int64_t smallest = 64;
    while (p.batch * parts_of(p.m, l.rows) * parts_of(p.n, l.columns) < wanted &&
           std::max(l.rows, l.columns) >= 2 * smallest) {
        std::int64_t& longest = l.rows >= l.columns ? l.rows : l.columns;
        longest = range_of(longest, parts_of(longest, 2));
    }
    return l;
}

std::size_t whole_lines(std::int64_t elements, DType dtype) {
    return (static_cast<std::size_t>(elements) * size_of(dtype) + 63) / 64 * 64;
}

// `rows` rows of so many elements, which lie `ld` apart, one behind the other; in f32 where they are widened.
void gather(std::byte* to, const Input& from, std::int64_t rows, std::int64_t row, std::int64_t ld,
            bool widened) noexcept {
    if (widened) {
        for (std::int64_t i = 0; i < rows; ++i)
            load_elements(reinterpret_cast<float*>(to) + i * row, from, i * ld, row);
        return;
    }
    const std::size_t bytes = static_cast<std::size_t>(row) * size_of(from.dtype);
    for (std::int64_t i = 0; i < rows; ++i)
        std::memcpy(to + static_cast<std::size_t>(i) * bytes, advanced(from, i * ld).data, bytes);
}

}  // namespace

// `direct`: tiles are written where they belong by the library, with what the product ends in.
DenseTiles::Plan DenseTiles::plan_of(const Product& p, bool widened, int threads, bool direct, Library& library) {
    const Lengths l = lengths_of(p, widened, threads);
    const DType multiplied = widened ? DType::f32 : p.a.dtype;
    Plan plan{.threads = threads, .widened = widened};
    plan.gathers_a = widened || gathers_a(p, l);
    plan.gathers_b = widened || gathers_b(p, l);
    // A sum in a narrow type would be rounded after each of its parts.
    plan.direct = direct && l.columns == p.n && p.ld_c == p.n && p.activation == Activation::none &&
                  (!p.residual || p.ld_residual == p.n) && (l.terms == p.k || (p.c.dtype == DType::f32 && !p.residual));
    if (plan.gathers_a) plan.a_bytes = whole_lines(l.rows * l.terms, multiplied);
    if (plan.gathers_b) plan.b_bytes = whole_lines(l.columns * l.terms, multiplied);
    if (!plan.direct) plan.c_bytes = whole_lines(l.rows * l.columns, DType::f32);
    for (std::int64_t batch = 0; batch < p.batch; ++batch) {
        for (std::int64_t i = 0; i < p.m; i += l.rows) {
            for (std::int64_t j = 0; j < p.n; j += l.columns) {
                const Tile tile{batch, i, j, std::min(l.rows, p.m - i), std::min(l.columns, p.n - j)};
                plan.tiles.push_back(tile);
                for (std::int64_t k = 0; k < p.k; k += l.terms) {
                    Product part{.a = p.a, .b = p.b, .transpose_a = p.transpose_a, .transpose_b = p.transpose_b};
                    part.a.dtype = part.b.dtype = multiplied;
                    part.m = tile.rows;
                    part.n = part.ld_c = tile.columns;
                    part.k = std::min(l.terms, p.k - k);
                    part.ld_a = p.transpose_a ? part.m : part.k;
                    part.ld_b = p.transpose_b ? part.k : part.n;
                    part.accumulate = k > 0;
                    if (plan.direct) {
                        part.c = p.c;
                        part.accumulate = k > 0 || p.accumulate;
                        part.residual = p.residual;
                        part.ld_residual = p.ld_residual;
                        if (k == 0) part.bias = p.bias;
                    } else {
                        part.c.dtype = DType::f32;
                    }
                    const Compiled& compiled = compiled_for(part, false, threads, library);
                    if (compiled.primitive == nullptr)
                        return plan.direct ? plan_of(p, widened, threads, false, library) : Plan{.threads = threads};
                    plan.scratchpad = std::max(plan.scratchpad, (compiled.scratchpad_bytes + 63) / 64 * 64);
                    plan.parts.push_back(
                        {&compiled, batch * p.stride_a + (p.transpose_a ? i + k * p.ld_a : i * p.ld_a + k),
                         batch * p.stride_b + (p.transpose_b ? j * p.ld_b + k : j + k * p.ld_b), part.k});
                }
            }
        }
    }
    return plan;
}

dnnl_status_t DenseTiles::compute(const Plan& plan, std::size_t at, const Product& call, std::byte* memory,
                                  std::size_t thread, dnnl_stream_t queue) noexcept {
    const Tile& tile = plan.tiles[at];
    std::byte *const a = memory, *const b = a + plan.a_bytes, *const sums = b + plan.b_bytes;
    const Output c = advanced(call.c, tile.batch * call.stride_c);
    Places places{.scratchpad = sums + plan.c_bytes};
    places.c = plan.direct ? advanced(c, tile.i * call.ld_c).data : sums;
    places.bias = call.bias.data;
    places.residual = advanced(call.residual, tile.i * call.ld_residual).data;
    const std::size_t parts = plan.parts.size() / plan.tiles.size();
    for (std::size_t p = at * parts; p < (at + 1) * parts; ++p) {
        const Part& part = plan.parts[p];
        const Input from_a = advanced(call.a, part.a), from_b = advanced(call.b, part.b);
        places.a = plan.gathers_a ? a : from_a.data;
        places.b = plan.gathers_b ? b : from_b.data;
        const std::int64_t rows_a = call.transpose_a ? part.k : tile.rows;
        const std::int64_t rows_b = call.transpose_b ? tile.columns : part.k;
        if (plan.gathers_a) gather(a, from_a, rows_a, tile.rows * part.k / rows_a, call.ld_a, plan.widened);
        if (plan.gathers_b) gather(b, from_b, rows_b, tile.columns * part.k / rows_b, call.ld_b, plan.widened);
        const dnnl_status_t status = execute(*part.compiled, places, thread, queue);
        if (status != dnnl_success) return status;
    }
    if (!plan.direct) {
        Product of_matrix = call;
        of_matrix.c = c;
        finish_tile(of_matrix, tile.i, tile.j, tile.rows, tile.columns, reinterpret_cast<const float*>(sums),
                    tile.columns);
    }
    return dnnl_success;
}

bool DenseTiles::product(const Product& call, bool widened, Library& library, Stream& stream) {
    // What is smaller is computed sooner than it is cut.
    if (!is_narrow(call.a.dtype) || std::min({call.m, call.n, call.k}) < 16) return false;
    const int threads = stream.threads();  // which memory is taken for
    Plan& plan = plans_[key_of(call, widened)];
    if (plan.threads != threads) plan = plan_of(call, widened, threads, true, library);
    if (plan.tiles.empty()) return false;
    library.provide_queues(threads);
    std::byte* memory = stream.provider_scratch(plan.bytes() * static_cast<std::size_t>(threads));
    FirstFailure failure;
    share_pieces(static_cast<std::int64_t>(plan.tiles.size()), threads, [&](std::int64_t tile, int thread) {
        const auto me = static_cast<std::size_t>(thread);
        failure.note(
            compute(plan, static_cast<std::size_t>(tile), call, memory + me * plan.bytes(), me, library.queues[me]));
    });
    failure.tell("compute a product");
    return true;
}

}  // namespace thunder::onednn
