// Products by oneDNN's matmul primitives. A primitive is compiled for one shape, one set of strides and one epilogue
// when that product is first met, and kept in the stream with its arguments: a call sets pointers and executes.
// This is the library's C interface: with its C++ header this file takes more than twice the time to compile.
#include <oneapi/dnnl/dnnl.h>

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "device/cpu/elements.h"
#include "device/cpu/products.h"
#include "device/stream.h"
#include "support/error.h"

namespace thunder::onednn {

namespace {

void check(dnnl_status_t status, const char* what) {
    if (status != dnnl_success)
        fail(std::string("oneDNN could not ") + what + ": its status is " + std::to_string(status));
}

// Something of oneDNN's that its owner destroys; null until a function that makes one was given out().
template <typename T, dnnl_status_t (*destroy)(T)>
class Owned {
  public:
    Owned() = default;
    Owned(Owned&& other) noexcept : it_(std::exchange(other.it_, nullptr)) {}
    Owned& operator=(Owned&& other) noexcept {
        std::swap(it_, other.it_);
        return *this;
    }
    ~Owned() {
        if (it_ != nullptr) destroy(it_);
    }
    operator T() const { return it_; }
    T* out() { return &it_; }

  private:
    T it_ = nullptr;
};
using Engine = Owned<dnnl_engine_t, dnnl_engine_destroy>;
using Queue = Owned<dnnl_stream_t, dnnl_stream_destroy>;
using Layout = Owned<dnnl_memory_desc_t, dnnl_memory_desc_destroy>;
using Tensor = Owned<dnnl_memory_t, dnnl_memory_destroy>;
using PostOps = Owned<dnnl_post_ops_t, dnnl_post_ops_destroy>;
using Attributes = Owned<dnnl_primitive_attr_t, dnnl_primitive_attr_destroy>;
using Description = Owned<dnnl_primitive_desc_t, dnnl_primitive_desc_destroy>;
using Primitive = Owned<dnnl_primitive_t, dnnl_primitive_destroy>;

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

template <typename InputOrOutput>
bool is_bf16(const InputOrOutput& t) {
    return t && t.dtype == DType::bf16;
}
template <typename InputOrOutput>
dnnl_data_type_t type_of(const InputOrOutput& t) {
    return is_bf16(t) ? dnnl_bf16 : dnnl_f32;
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
    Primitive primitive{};  // null: not to be used
    Tensor a{}, b{}, c{}, scratchpad{}, bias{}, residual{};
    std::size_t scratchpad_bytes = 0;
    std::array<dnnl_exec_arg_t, 6> arguments{};  // these tensors, as far as there are any
    int argument_count = 0;
};

struct Cache : ProviderCache {
    Engine engine{};
    Queue queue{};
    std::unordered_map<Key, Compiled, Hash> compiled{};

    Cache() {
        check(dnnl_engine_create(engine.out(), dnnl_cpu, 0), "start");
        check(dnnl_stream_create(queue.out(), engine, dnnl_stream_default_flags), "start");
    }
};

// oneDNN's own elementwise functions are used where they are exact; ours follow the product otherwise, so that the way
// forward and the way back evaluate one and the same function.
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

// One of the arguments of a product that is being compiled; where it lies is said at each call.
Tensor argument(Compiled& compiled, int name, const_dnnl_memory_desc_t layout, const Cache& cache) {
    Tensor tensor;
    check(dnnl_memory_create(tensor.out(), layout, cache.engine, DNNL_MEMORY_NONE), "describe an argument");
    compiled.arguments[static_cast<std::size_t>(compiled.argument_count++)] = {name, tensor};
    return tensor;
}

Compiled compile(const Product& p, const Cache& cache) {
    Compiled compiled;
    if (!exact(p.activation)) return compiled;
    // A matrix of one row or column may have any stride there; oneDNN is given the plain one.
    const Layout a =
        matrix(type_of(p.a), p.batch, p.m, p.k, p.transpose_a ? 1 : p.ld_a, p.transpose_a ? p.ld_a : 1, p.stride_a);
    const Layout b =
        matrix(type_of(p.b), p.batch, p.k, p.n, p.transpose_b ? 1 : p.ld_b, p.transpose_b ? p.ld_b : 1, p.stride_b);
    const Layout c = matrix(type_of(p.c), p.batch, p.m, p.n, p.ld_c, 1, p.stride_c);
    const Layout bias = p.bias ? matrix(type_of(p.bias), 1, 1, p.n, p.n, 1, 0) : Layout();
    const Layout residual = p.residual ? matrix(type_of(p.residual), 1, p.m, p.n, p.ld_residual, 1, 0) : Layout();

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
    if (dnnl_matmul_primitive_desc_create(description.out(), cache.engine, a, b, bias, c, attributes) != dnnl_success)
        return compiled;
    const char* implementation = nullptr;
    check(dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, static_cast<void*>(&implementation)),
          describe);
    const bool plain = !p.bias && !p.residual && p.activation == Activation::none;
    // its generic loops are slower than a fast product and a kernel after it
    if (!plain && std::string_view(implementation).find("ref") != std::string_view::npos) return compiled;

    const const_dnnl_memory_desc_t scratchpad = dnnl_primitive_desc_query_md(description, dnnl_query_scratchpad_md, 0);
    compiled.scratchpad_bytes = dnnl_memory_desc_get_size(scratchpad);
    compiled.a = argument(compiled, DNNL_ARG_SRC, a, cache);
    compiled.b = argument(compiled, DNNL_ARG_WEIGHTS, b, cache);
    compiled.c = argument(compiled, DNNL_ARG_DST, c, cache);
    compiled.scratchpad = argument(compiled, DNNL_ARG_SCRATCHPAD, scratchpad, cache);
    if (p.bias) compiled.bias = argument(compiled, DNNL_ARG_BIAS, bias, cache);
    if (p.residual) {
        compiled.residual =
            argument(compiled, DNNL_ARG_ATTR_MULTIPLE_POST_OP(residual_at) | DNNL_ARG_SRC_1, residual, cache);
    }
    check(dnnl_primitive_create(compiled.primitive.out(), description), "compile a product");
    return compiled;
}

void set_data(dnnl_memory_t tensor, const void* data) {
    check(dnnl_memory_set_data_handle(tensor, const_cast<void*>(data)), "take an argument");
}

bool execute(const Product& call, Stream& stream) {
    if (stream.products() == nullptr) stream.keep_products(new Cache);
    auto& cache = static_cast<Cache&>(*stream.products());
    const Key key = key_of(call);
    auto found = cache.compiled.find(key);
    if (found == cache.compiled.end()) found = cache.compiled.emplace(key, compile(call, cache)).first;
    const Compiled& compiled = found->second;
    if (compiled.primitive == nullptr) {
        const bool plain = !call.bias && !call.residual && call.activation == Activation::none;
        return plain && reference::product(call, stream);
    }
    set_data(compiled.a, call.a.data);
    set_data(compiled.b, call.b.data);
    set_data(compiled.c, call.c.data);
    if (call.bias) set_data(compiled.bias, call.bias.data);
    if (call.residual) set_data(compiled.residual, call.residual.data);
    if (compiled.scratchpad_bytes > 0)
        set_data(compiled.scratchpad, stream.provider_scratch(compiled.scratchpad_bytes));
    check(dnnl_primitive_execute(compiled.primitive, cache.queue, compiled.argument_count, compiled.arguments.data()),
          "compute a product");
    return true;
}

// A long sum over rows of b (dx = dy W) is taken in pieces: beyond some thousand rows oneDNN's walk down a column of
// blocks loses a fifth to a half of its speed, and adding to c costs next to nothing.
constexpr std::int64_t piece = 768;

}  // namespace

bool has_bf16_instructions() {
    const auto has = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
    const auto needed = static_cast<unsigned>(dnnl_cpu_isa_avx512_core_bf16);
    return (has & needed) == needed;
}

bool multiplies_bf16() {
    constexpr std::int64_t n = 16;
    const Cache cache;
    const Layout square = matrix(dnnl_bf16, 1, n, n, n, 1, 0);
    Attributes attributes;
    check(dnnl_primitive_attr_create(attributes.out()), "describe a product");
    Description description;
    return dnnl_matmul_primitive_desc_create(description.out(), cache.engine, square, square, nullptr, square,
                                             attributes) == dnnl_success;
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
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace thunder::onednn
