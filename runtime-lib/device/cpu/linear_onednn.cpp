// SPDX-License-Identifier: Apache-2.0
// Products by oneDNN's matmul primitives. A primitive is compiled for one shape, one set of strides and one epilogue
// when that product is first met, and kept in the stream with its arguments: a call sets pointers and executes.
// Primitives run on one thread each: a product is cut into tiles of c, which the threads of the team take as they get
// to them (device/team.h). So no second set of threads waits beside the team's, and a core that is busy with other work
// computes fewer tiles. A tile is a whole sum: which thread computes it changes no bit.
#include <algorithm>
#include <array>
#include <atomic>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "device/cpu/elements.h"
#include "device/cpu/onednn.h"
#include "device/cpu/products.h"
#include "device/stream.h"
#include "device/team.h"
#include "support/error.h"

namespace thunder::onednn {

namespace {

// What a primitive depends on.
struct Key {
    std::array<std::int64_t, 11> sizes;
    unsigned flags;
    bool operator==(const Key&) const = default;
};
struct Hash {
    std::size_t operator()(const Key& key) const {
        std::uint64_t hash = 1469598103934665603ULL ^ key.flags;
        for (const std::int64_t v : key.sizes) hash = (hash ^ static_cast<std::uint64_t>(v)) * 1099511628211ULL;
        return hash ^ (hash >> 29);
    }
};

// The library's name of a type, and the instructions that multiply it.
struct LibraryType {
    dnnl_data_type_t type;
    dnnl_cpu_isa_t instructions;
};
LibraryType library_type(DType dtype) {
    switch (dtype) {
        case DType::bf16: return {dnnl_bf16, dnnl_cpu_isa_avx512_core_bf16};
        case DType::f16: return {dnnl_f16, dnnl_cpu_isa_avx512_core_fp16};
        default: return {dnnl_f32, dnnl_cpu_isa_default};
    }
}
template <typename InputOrOutput>
dnnl_data_type_t type_of(const InputOrOutput& t) {
    return library_type(t ? t.dtype : DType::f32).type;
}
// f32: 0
template <typename InputOrOutput>
unsigned in_key(const InputOrOutput& t) {
    return t ? static_cast<unsigned>(t.dtype) & 3U : 0U;
}

// With `packed` of a product whose b is in the library's order.
Key key_of(const Product& p, bool packed) {
    return {{p.batch, p.m, p.n, p.k, p.ld_a, p.ld_b, p.ld_c, p.residual ? p.ld_residual : 0, p.stride_a, p.stride_b,
             p.stride_c},
            (p.transpose_a ? 1U : 0U) | (p.transpose_b ? 2U : 0U) | (p.accumulate ? 4U : 0U) | (p.bias ? 8U : 0U) |
                (p.residual ? 16U : 0U) | static_cast<unsigned>(p.activation) << 8U | in_key(p.a) << 16U |
                in_key(p.c) << 18U | in_key(p.bias) << 20U | in_key(p.residual) << 22U | (packed ? 1U << 24U : 0U)};
}

// What a thread gives a primitive; where the tensors lie is said at each call.
struct Arguments {
    Tensor a{}, b{}, c{}, scratchpad{}, bias{}, residual{};
    std::array<dnnl_exec_arg_t, 6> list{};  // these tensors, as far as there are any
    int count = 0;
};

struct Compiled {
    Primitive primitive{};  // null: not to be used
    Layout a{}, b{}, c{}, bias{}, residual{};
    // Of a product that reads b in the library's own order: what brings it there, from the given one, into so much.
    Primitive pack{};
    Layout given_b{};
    std::size_t packed_bytes = 0;
    const_dnnl_memory_desc_t scratchpad = nullptr;  // the primitive's own
    std::size_t scratchpad_bytes = 0;
    int residual_argument = 0;
    std::vector<Arguments> of_thread{};
};

// One execution of a primitive: a tile of c, or a piece of its sum. Where its operands begin, in elements.
struct Part {
    const Compiled* compiled = nullptr;
    std::int64_t a = 0, b = 0, c = 0, bias = 0, residual = 0;
    std::size_t packed = 0;  // where b begins in its packed form, in bytes
};

// A product as it is executed.
struct Plan {
    int threads = 0;             // of the team that it was made for
    std::vector<Part> parts{};   // of the first tile, of the second ...
    std::int64_t tiles = 0;      // 0: refused
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
    Engine engine{};
    std::vector<Queue> queues{};  // one for each thread
    std::unordered_map<Key, Compiled, Hash> compiled{};
    std::unordered_map<Key, Plan, Hash> plans{};
    std::map<std::pair<const void*, const Plan*>, Packed> packed{};

    Cache() { check(dnnl_engine_create(engine.out(), dnnl_cpu, 0), "start"); }
};

// oneDNN's own elementwise functions are used where they are exact; ours follow the product otherwise, so that the way
// forward and the backward pass evaluate one and the same function.
bool exact(Activation activation) {
    return activation == Activation::none || activation == Activation::relu;
}

Layout matrix(dnnl_data_type_t type, std::int64_t batch, std::int64_t rows, std::int64_t columns, std::int64_t row,
              std::int64_t column, std::int64_t stride) {
    // one matrix for the whole batch is broadcast
    const bool one = stride == 0;
    const std::int64_t sizes[] = {one ? 1 : batch, rows, columns};
    const std::int64_t strides[] = {one ? row * rows * columns : stride, row, column};
    const int first = batch == 1 ? 1 : 0;  // without a batch there are two dimensions
    Layout layout;
    check(dnnl_memory_desc_create_with_strides(layout.out(), 3 - first, sizes + first, type, strides + first),
          "describe a matrix");
    return layout;
}

Tensor argument(Arguments& arguments, int name, const_dnnl_memory_desc_t layout, const Cache& cache) {
    Tensor tensor;
    check(dnnl_memory_create(tensor.out(), layout, cache.engine, DNNL_MEMORY_NONE), "describe an argument");
    arguments.list[static_cast<std::size_t>(arguments.count++)] = {name, tensor};
    return tensor;
}

// Gives each thread of a team arguments of its own.
void provide_arguments(Compiled& compiled, int threads, const Cache& cache) {
    while (compiled.of_thread.size() < static_cast<std::size_t>(threads)) {
        Arguments& own = compiled.of_thread.emplace_back();
        own.a = argument(own, DNNL_ARG_SRC, compiled.a, cache);
        own.b = argument(own, DNNL_ARG_WEIGHTS, compiled.b, cache);
        own.c = argument(own, DNNL_ARG_DST, compiled.c, cache);
        own.scratchpad = argument(own, DNNL_ARG_SCRATCHPAD, compiled.scratchpad, cache);
        if (compiled.bias != nullptr) own.bias = argument(own, DNNL_ARG_BIAS, compiled.bias, cache);
        if (compiled.residual != nullptr)
            own.residual = argument(own, compiled.residual_argument, compiled.residual, cache);
    }
}

// What brings b from the order in which it is given to the one that the product asks for.
void compile_pack(Compiled& compiled, Layout given, const_dnnl_memory_desc_t wanted, const Cache& cache) {
    constexpr const char* describe = "describe how a matrix is packed";
    if (dnnl_memory_desc_equal(given, wanted) != 0) {
        compiled.b = std::move(given);
        return;
    }
    Description description;
    check(dnnl_reorder_primitive_desc_create(description.out(), given, cache.engine, wanted, cache.engine, nullptr),
          describe);
    check(dnnl_primitive_create(compiled.pack.out(), description), describe);
    check(dnnl_memory_desc_clone(compiled.b.out(), wanted), describe);
    compiled.packed_bytes = (dnnl_memory_desc_get_size(wanted) + 63) / 64 * 64;
    compiled.given_b = std::move(given);
}

Compiled compile(const Product& p, bool packed, const Cache& cache) {
    Compiled compiled;
    if (!exact(p.activation)) return compiled;
    // Strides are those of the whole matrix for its tiles too, also for one of a single row or column, where nothing is
    // read by them.
    Layout a =
        matrix(type_of(p.a), p.batch, p.m, p.k, p.transpose_a ? 1 : p.ld_a, p.transpose_a ? p.ld_a : 1, p.stride_a);
    Layout b =
        matrix(type_of(p.b), p.batch, p.k, p.n, p.transpose_b ? 1 : p.ld_b, p.transpose_b ? p.ld_b : 1, p.stride_b);
    Layout c = matrix(type_of(p.c), p.batch, p.m, p.n, p.ld_c, 1, p.stride_c);
    Layout bias = p.bias ? matrix(type_of(p.bias), 1, 1, p.n, p.n, 1, 0) : Layout();
    Layout residual = p.residual ? matrix(type_of(p.residual), 1, p.m, p.n, p.ld_residual, 1, 0) : Layout();

    constexpr const char* describe = "describe a product";
    PostOps after;
    check(dnnl_post_ops_create(after.out()), describe);
    if (p.activation == Activation::relu)
        check(dnnl_post_ops_append_eltwise(after, dnnl_eltwise_relu, 0.0F, 0.0F), describe);
    if (p.accumulate) check(dnnl_post_ops_append_sum(after, 1.0F, 0, dnnl_data_type_undef), describe);
    // where the residual's rows lie as far apart as c's, oneDNN reads it while it writes c
    if (p.residual) {
        if (p.ld_residual != p.ld_c) return compiled;
        check(dnnl_post_ops_append_binary(after, dnnl_binary_add, residual), describe);
    }
    const int residual_at = dnnl_post_ops_len(after) - 1;
    Attributes attributes;
    check(dnnl_primitive_attr_create(attributes.out()), describe);
    check(dnnl_primitive_attr_set_post_ops(attributes, after), describe);
    check(dnnl_primitive_attr_set_scratchpad_mode(attributes, dnnl_scratchpad_mode_user), describe);
    Description description;
    Layout any;
    if (packed) {
        const std::int64_t sizes[] = {p.k, p.n};
        check(dnnl_memory_desc_create_with_tag(any.out(), 2, sizes, type_of(p.b), dnnl_format_tag_any), describe);
    }
    if (dnnl_matmul_primitive_desc_create(description.out(), cache.engine, a, packed ? any : b, bias, c, attributes) !=
        dnnl_success)
        return compiled;
    const char* implementation = nullptr;
    check(dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, static_cast<void*>(&implementation)),
          describe);
    const bool plain = !p.bias && !p.residual && p.activation == Activation::none;
    // its generic loops are slower than a fast product and a kernel after it
    if (!plain && std::string_view(implementation).find("ref") != std::string_view::npos) return compiled;

    check(dnnl_primitive_create(compiled.primitive.out(), description), "compile a product");
    const_dnnl_primitive_desc_t own = nullptr;  // lives as long as the primitive
    check(dnnl_primitive_get_primitive_desc(compiled.primitive, &own), describe);
    compiled.scratchpad = dnnl_primitive_desc_query_md(own, dnnl_query_scratchpad_md, 0);
    compiled.scratchpad_bytes = dnnl_memory_desc_get_size(compiled.scratchpad);
    compiled.residual_argument = DNNL_ARG_ATTR_MULTIPLE_POST_OP(residual_at) | DNNL_ARG_SRC_1;
    compiled.a = std::move(a);
    if (packed)
        compile_pack(compiled, std::move(b), dnnl_primitive_desc_query_md(own, dnnl_query_weights_md, 0), cache);
    else
        compiled.b = std::move(b);
    compiled.c = std::move(c);
    compiled.bias = std::move(bias);
    compiled.residual = std::move(residual);
    return compiled;
}

Compiled& compiled_for(const Product& product, bool packed, Cache& cache) {
    const Key key = key_of(product, packed);
    auto found = cache.compiled.find(key);
    if (found == cache.compiled.end()) found = cache.compiled.emplace(key, compile(product, packed, cache)).first;
    return found->second;
}

bool has_avx512() {
    constexpr auto wanted = static_cast<unsigned>(dnnl_cpu_isa_avx512_core);
    static const bool has = (static_cast<unsigned>(dnnl_get_effective_cpu_isa()) & wanted) == wanted;
    return has;
}

std::int64_t parts_of(std::int64_t n, std::int64_t length) {
    return (n + length - 1) / length;
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
    if (p.transpose_a || p.transpose_b || p.batch != 1 || p.k < 3 * piece / 2 || is_narrow(p.c.dtype) ||
        p.activation != Activation::none) {
        return std::max<std::int64_t>(p.k, 1);
    }
    return parts_of(parts_of(p.k, parts_of(p.k, piece)), 64) * 64;
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
                    if (k > 0) {
                        of_part.bias = of_part.residual = {};
                        of_part.accumulate = true;
                    }
                    Compiled& compiled = compiled_for(of_part, packed, cache);
                    if (compiled.primitive == nullptr) return {.threads = threads};
                    provide_arguments(compiled, threads, cache);
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
            }
        }
    }
    return plan;
}

// In a piece of a loop, where nothing may be thrown: what went wrong is for who shares it to say.
dnnl_status_t execute(const Part& part, const Product& call, const std::byte* packed, std::size_t thread,
                      std::byte* scratchpad, dnnl_stream_t queue) noexcept {
    const Compiled& compiled = *part.compiled;
    const Arguments& own = compiled.of_thread[thread];
    dnnl_status_t status = dnnl_success;
    const auto set = [&](dnnl_memory_t tensor, const void* data) {
        if (status == dnnl_success) status = dnnl_memory_set_data_handle(tensor, const_cast<void*>(data));
    };
    set(own.a, advanced(call.a, part.a).data);
    set(own.b, compiled.pack != nullptr ? packed + part.packed : advanced(call.b, part.b).data);
    set(own.c, advanced(call.c, part.c).data);
    if (compiled.bias != nullptr) set(own.bias, advanced(call.bias, part.bias).data);
    if (compiled.residual != nullptr) set(own.residual, advanced(call.residual, part.residual).data);
    if (compiled.scratchpad_bytes > 0) set(own.scratchpad, scratchpad);
    if (status != dnnl_success) return status;
    return dnnl_primitive_execute(compiled.primitive, queue, own.count, own.list.data());
}

// A held matrix is worth packing where few rows read it: the library packs panels of it in each call otherwise, which
// is as much work as the products of some hundred rows.
constexpr std::int64_t few_rows = 128;

// b in the order of the plan's primitives, as it is since it is held.
const std::byte* packed_b(const Plan& plan, const Product& call, std::uint64_t time, Cache& cache) {
    Packed& packed = cache.packed[{call.b.data, &plan}];
    if (packed.time == time) return packed.data();
    packed.lines.resize(plan.packed / sizeof(Line));
    std::atomic<dnnl_status_t> failure = dnnl_success;  // the first
    share_pieces(static_cast<std::int64_t>(plan.parts.size()), plan.threads, [&](std::int64_t at, int thread) {
        const Part& part = plan.parts[static_cast<std::size_t>(at)];
        const Compiled& compiled = *part.compiled;
        if (compiled.pack == nullptr) return;
        Tensor from, to;
        void* const given = const_cast<void*>(advanced(call.b, part.b).data);
        dnnl_status_t status = dnnl_memory_create(from.out(), compiled.given_b, cache.engine, given);
        if (status == dnnl_success)
            status = dnnl_memory_create(to.out(), compiled.b, cache.engine, packed.data() + part.packed);
        const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, from}, {DNNL_ARG_TO, to}};
        if (status == dnnl_success)
            status =
                dnnl_primitive_execute(compiled.pack, cache.queues[static_cast<std::size_t>(thread)], 2, arguments);
        dnnl_status_t before = dnnl_success;
        if (status != dnnl_success) failure.compare_exchange_strong(before, status, std::memory_order_relaxed);
    });
    check(failure.load(std::memory_order_relaxed), "pack a matrix");
    packed.time = time;
    return packed.data();
}

}  // namespace

bool has_instructions(DType narrow) {
    const auto has = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
    const auto needed = static_cast<unsigned>(library_type(narrow).instructions);
    return (has & needed) == needed;
}

bool multiplies(DType narrow) {
    constexpr std::int64_t n = 16;
    const Cache cache;
    const Layout square = matrix(library_type(narrow).type, 1, n, n, n, 1, 0);
    Attributes attributes;
    check(dnnl_primitive_attr_create(attributes.out()), "describe a product");
    Description description;
    return dnnl_matmul_primitive_desc_create(description.out(), cache.engine, square, square, nullptr, square,
                                             attributes) == dnnl_success;
}

bool product(const Product& call, Stream& stream) {
    if (stream.products() == nullptr) stream.keep_products(new Cache);
    auto& cache = static_cast<Cache&>(*stream.products());
    const int threads = stream.threads();  // which memory is taken for
    const std::uint64_t held = call.batch == 1 && call.m <= few_rows ? stream.held(call.b.data) : 0;
    Plan& plan = cache.plans[key_of(call, held != 0)];
    if (plan.threads != threads) {
        plan = plan_of(call, threads, held != 0, cache);
        cache.packed.clear();
    }
    if (plan.tiles == 0) {
        const bool plain = !call.bias && !call.residual && call.activation == Activation::none;
        return plain && reference::product(call, stream);
    }
    while (cache.queues.size() < static_cast<std::size_t>(threads))
        check(dnnl_stream_create(cache.queues.emplace_back().out(), cache.engine, dnnl_stream_default_flags), "start");
    std::byte* scratchpads =
        plan.scratchpad == 0 ? nullptr : stream.provider_scratch(plan.scratchpad * static_cast<std::size_t>(threads));
    const std::byte* packed = plan.packed == 0 ? nullptr : packed_b(plan, call, held, cache);
    const std::size_t parts = plan.parts.size() / static_cast<std::size_t>(plan.tiles);
    std::atomic<dnnl_status_t> failure = dnnl_success;  // the first
    share_pieces(plan.tiles, threads, [&](std::int64_t tile, int thread) {
        const auto me = static_cast<std::size_t>(thread);
        for (std::size_t k = 0; k < parts; ++k) {
            const dnnl_status_t status = execute(plan.parts[static_cast<std::size_t>(tile) * parts + k], call, packed,
                                                 me, scratchpads + me * plan.scratchpad, cache.queues[me]);
            dnnl_status_t before = dnnl_success;
            if (status != dnnl_success) failure.compare_exchange_strong(before, status, std::memory_order_relaxed);
        }
    });
    check(failure.load(std::memory_order_relaxed), "compute a product");
    return true;
}

std::string version() {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace thunder::onednn
