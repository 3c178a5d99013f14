// Products by oneDNN's matmul primitives. A primitive is compiled for one shape, one set of strides and one epilogue
// when that product is first met, and kept in the stream with its arguments: a call sets pointers and executes.
#include <algorithm>
#include <array>
#include <cstdlib>
#include <oneapi/dnnl/dnnl.hpp>
#include <string_view>
#include <unordered_map>

#include "device/cpu/elements.h"
#include "device/cpu/products.h"
#include "device/stream.h"

namespace thunder::onednn {

namespace {

using dnnl::memory;

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

template <typename Tensor>
bool is_bf16(const Tensor& t) {
    return t && t.dtype == DType::bf16;
}
template <typename Tensor>
memory::data_type type_of(const Tensor& t) {
    return is_bf16(t) ? memory::data_type::bf16 : memory::data_type::f32;
}

Key key_of(const Product& p) {
    return {{p.batch, p.m, p.n, p.k, p.ld_a, p.ld_b, p.ld_c, p.residual ? p.ld_residual : 0, p.stride_a, p.stride_b,
             p.stride_c},
            (p.transpose_a ? 1U : 0U) | (p.transpose_b ? 2U : 0U) | (p.accumulate ? 4U : 0U) | (p.bias ? 8U : 0U) |
                (p.residual ? 16U : 0U) | static_cast<unsigned>(p.activation) << 8U | (is_bf16(p.a) ? 1U << 16U : 0U) |
                (is_bf16(p.c) ? 1U << 17U : 0U) | (is_bf16(p.bias) ? 1U << 18U : 0U) |
                (is_bf16(p.residual) ? 1U << 19U : 0U)};
}

struct Compiled {
    bool usable = false;
    dnnl::matmul primitive;
    memory a, b, c, bias, residual, scratchpad;
    std::unordered_map<int, memory> arguments;
    std::size_t scratchpad_bytes = 0;
};

struct Cache : ProviderCache {
    dnnl::engine engine{dnnl::engine::kind::cpu, 0};
    dnnl::stream stream{engine};
    std::unordered_map<Key, Compiled, Hash> compiled;
};

// oneDNN's own elementwise functions are used where they are exact; ours follow the product otherwise, so that the way
// forward and the way back evaluate one and the same function.
bool exact(Activation activation) {
    return activation == Activation::none || activation == Activation::relu;
}

memory::desc matrix(memory::data_type type, std::int64_t batch, std::int64_t rows, std::int64_t columns,
                    std::int64_t row, std::int64_t column, std::int64_t stride) {
    if (batch == 1) return {{rows, columns}, type, memory::dims{row, column}};
    // one matrix for the whole batch is broadcast
    if (stride == 0) return {{1, rows, columns}, type, memory::dims{row * rows * columns, row, column}};
    return {{batch, rows, columns}, type, memory::dims{stride, row, column}};
}

Compiled compile(const Product& p, Cache& cache) {
    Compiled compiled;
    if (!exact(p.activation)) return compiled;
    // A matrix of one row or column may have any stride there; oneDNN is given the plain one.
    const memory::desc a =
        matrix(type_of(p.a), p.batch, p.m, p.k, p.transpose_a ? 1 : p.ld_a, p.transpose_a ? p.ld_a : 1, p.stride_a);
    const memory::desc b =
        matrix(type_of(p.b), p.batch, p.k, p.n, p.transpose_b ? 1 : p.ld_b, p.transpose_b ? p.ld_b : 1, p.stride_b);
    const memory::desc c = matrix(type_of(p.c), p.batch, p.m, p.n, p.ld_c, 1, p.stride_c);
    const memory::desc bias = p.bias ? memory::desc({1, p.n}, type_of(p.bias), memory::dims{p.n, 1}) : memory::desc();
    const memory::desc residual =
        p.residual ? matrix(type_of(p.residual), 1, p.m, p.n, p.ld_residual, 1, 0) : memory::desc();

    dnnl::post_ops after;
    if (p.activation == Activation::relu) after.append_eltwise(dnnl::algorithm::eltwise_relu, 0.0F, 0.0F);
    if (p.accumulate) after.append_sum(1.0F);
    // where the residual's rows lie as far apart as c's, oneDNN reads it while it writes c
    if (p.residual) {
        if (p.ld_residual != p.ld_c) return compiled;
        after.append_binary(dnnl::algorithm::binary_add, residual);
    }
    const int residual_at = after.len() - 1;
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(after);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    dnnl::matmul::primitive_desc description;
    try {
        description = p.bias ? dnnl::matmul::primitive_desc(cache.engine, a, b, bias, c, attributes)
                             : dnnl::matmul::primitive_desc(cache.engine, a, b, c, attributes);
    } catch (const dnnl::error&) {
        return compiled;
    }
    const std::string implementation = description.impl_info_str();
    const bool plain = !p.bias && !p.residual && p.activation == Activation::none;
    // its generic loops are slower than a fast product and a kernel after it
    if (!plain && implementation.find("ref") != std::string::npos) return compiled;

    compiled.primitive = dnnl::matmul(description);
    compiled.a = memory(a, cache.engine, nullptr);
    compiled.b = memory(b, cache.engine, nullptr);
    compiled.c = memory(c, cache.engine, nullptr);
    compiled.scratchpad_bytes = description.scratchpad_desc().get_size();
    compiled.scratchpad = memory(description.scratchpad_desc(), cache.engine, nullptr);
    compiled.arguments = {{DNNL_ARG_SRC, compiled.a},
                          {DNNL_ARG_WEIGHTS, compiled.b},
                          {DNNL_ARG_DST, compiled.c},
                          {DNNL_ARG_SCRATCHPAD, compiled.scratchpad}};
    if (p.bias) {
        compiled.bias = memory(bias, cache.engine, nullptr);
        compiled.arguments.insert({DNNL_ARG_BIAS, compiled.bias});
    }
    if (p.residual) {
        compiled.residual = memory(residual, cache.engine, nullptr);
        compiled.arguments.insert({DNNL_ARG_ATTR_MULTIPLE_POST_OP(residual_at) | DNNL_ARG_SRC_1, compiled.residual});
    }
    compiled.usable = true;
    return compiled;
}

bool execute(const Product& call, Stream& stream) {
    if (stream.products() == nullptr) stream.keep_products(new Cache);
    auto& cache = static_cast<Cache&>(*stream.products());
    const Key key = key_of(call);
    auto found = cache.compiled.find(key);
    if (found == cache.compiled.end()) found = cache.compiled.emplace(key, compile(call, cache)).first;
    Compiled& compiled = found->second;
    if (!compiled.usable) {
        const bool plain = !call.bias && !call.residual && call.activation == Activation::none;
        return plain && reference::product(call, stream);
    }
    // memory handles are shared with the arguments' copies
    compiled.a.set_data_handle(const_cast<void*>(call.a.data));
    compiled.b.set_data_handle(const_cast<void*>(call.b.data));
    compiled.c.set_data_handle(call.c.data);
    if (call.bias) compiled.bias.set_data_handle(const_cast<void*>(call.bias.data));
    if (call.residual) compiled.residual.set_data_handle(const_cast<void*>(call.residual.data));
    if (compiled.scratchpad_bytes > 0)
        compiled.scratchpad.set_data_handle(stream.provider_scratch(compiled.scratchpad_bytes));
    compiled.primitive.execute(cache.stream, compiled.arguments);
    return true;
}

// A long sum over rows of b (dx = dy W) is taken in pieces: beyond some thousand rows oneDNN's walk down a column of
// blocks loses a fifth to a half of its speed, and adding to c costs next to nothing.
constexpr std::int64_t piece = 768;

}  // namespace

bool native_bf16() {
    static const bool native = [] {
        const char* asked = std::getenv("THUNDER_BF16");
        if (asked != nullptr && std::string_view(asked) == "native") return true;
        if (asked != nullptr && std::string_view(asked) == "emulated") return false;
        const auto has = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
        const auto needed = static_cast<unsigned>(dnnl::cpu_isa::avx512_core_bf16);
        return (has & needed) == needed;
    }();
    return native;
}

bool product(const Product& call, Stream& stream) {
    // a sum in bf16 is not taken in pieces: it would be rounded after each
    if (call.transpose_a || call.transpose_b || call.batch != 1 || call.k < 3 * piece / 2 || is_bf16(call.c) ||
        call.activation != Activation::none) {
        return execute(call, stream);
    }
    const std::int64_t pieces = (call.k + piece - 1) / piece;
    const std::int64_t length = ((call.k + pieces - 1) / pieces + 63) / 64 * 64;
    for (std::int64_t from = 0; from < call.k; from += length) {
        Product part = call;
        part.a = advanced(part.a, from);
        part.b = advanced(part.b, from * call.ld_b);
        part.k = std::min(length, call.k - from);
        if (from > 0) {
            part.bias = {};
            part.residual = {};
            part.accumulate = true;
        }
        // what may be refused is refused by the first piece, before anything was written
        if (!execute(part, stream)) return false;
    }
    return true;
}

std::string version() {
    const dnnl::version_t* v = dnnl::version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace thunder::onednn
