// SPDX-License-Identifier: Apache-2.0
#include "device/cpu/product_primitives_onednn.h"

#include <string>
#include <string_view>
#include <utility>

#include "device/cpu/elements.h"

namespace thunder::onednn {

namespace {

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

}  // namespace

Key key_of(const Product& p, bool packed) {
    return {{p.batch, p.m, p.n, p.k, p.ld_a, p.ld_b, p.ld_c, p.residual ? p.ld_residual : 0, p.stride_a, p.stride_b,
             p.stride_c},
            (p.transpose_a ? 1U : 0U) | (p.transpose_b ? 2U : 0U) | (p.accumulate ? 4U : 0U) | (p.bias ? 8U : 0U) |
                (p.residual ? 16U : 0U) | static_cast<unsigned>(p.activation) << 8U | in_key(p.a) << 16U |
                in_key(p.c) << 18U | in_key(p.bias) << 20U | in_key(p.residual) << 22U | (packed ? 1U << 24U : 0U)};
}

namespace {

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

Tensor argument(Arguments& arguments, int name, const_dnnl_memory_desc_t layout, const Engine& engine) {
    Tensor tensor;
    check(dnnl_memory_create(tensor.out(), layout, engine, DNNL_MEMORY_NONE), "describe an argument");
    arguments.list[static_cast<std::size_t>(arguments.count++)] = {name, tensor};
    return tensor;
}

// Gives each thread of a team arguments of its own.
void provide_arguments(Compiled& compiled, int threads, const Engine& engine) {
    while (compiled.of_thread.size() < static_cast<std::size_t>(threads)) {
        Arguments& own = compiled.of_thread.emplace_back();
        own.a = argument(own, DNNL_ARG_SRC, compiled.a, engine);
        own.b = argument(own, DNNL_ARG_WEIGHTS, compiled.b, engine);
        own.c = argument(own, DNNL_ARG_DST, compiled.c, engine);
        own.scratchpad = argument(own, DNNL_ARG_SCRATCHPAD, compiled.scratchpad, engine);
        if (compiled.bias != nullptr) own.bias = argument(own, DNNL_ARG_BIAS, compiled.bias, engine);
        if (compiled.residual != nullptr)
            own.residual = argument(own, compiled.residual_argument, compiled.residual, engine);
    }
}

// What brings b from the order in which it is given to the one that the product asks for.
void compile_pack(Compiled& compiled, Layout given, const_dnnl_memory_desc_t wanted, const Engine& engine) {
    constexpr const char* describe = "describe how a matrix is packed";
    if (dnnl_memory_desc_equal(given, wanted) != 0) {
        compiled.b = std::move(given);
        return;
    }
    Description description;
    check(dnnl_reorder_primitive_desc_create(description.out(), given, engine, wanted, engine, nullptr), describe);
    check(dnnl_primitive_create(compiled.pack.out(), description), describe);
    check(dnnl_memory_desc_clone(compiled.b.out(), wanted), describe);
    compiled.packed_bytes = (dnnl_memory_desc_get_size(wanted) + 63) / 64 * 64;
    compiled.given_b = std::move(given);
}

Compiled compile(const Product& p, bool packed, const Engine& engine) {
    Compiled compiled;
    if (p.activation != Activation::none) return compiled;
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
    if (dnnl_matmul_primitive_desc_create(description.out(), engine, a, packed ? any : b, bias, c, attributes) !=
        dnnl_success)
        return compiled;
    const char* implementation = nullptr;
    check(dnnl_primitive_desc_query(description, dnnl_query_impl_info_str, 0, static_cast<void*>(&implementation)),
          describe);
    const bool plain = !p.bias && !p.residual;
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
        compile_pack(compiled, std::move(b), dnnl_primitive_desc_query_md(own, dnnl_query_weights_md, 0), engine);
    else
        compiled.b = std::move(b);
    compiled.c = std::move(c);
    compiled.bias = std::move(bias);
    compiled.residual = std::move(residual);
    return compiled;
}

}  // namespace

Library::Library() {
    check(dnnl_engine_create(engine.out(), dnnl_cpu, 0), "start");
}

void Library::provide_queues(int threads) {
    while (queues.size() < static_cast<std::size_t>(threads))
        check(dnnl_stream_create(queues.emplace_back().out(), engine, dnnl_stream_default_flags), "start");
}

const Compiled& compiled_for(const Product& product, bool packed, int threads, Library& library) {
    const Key key = key_of(product, packed);
    auto found = library.compiled.find(key);
    if (found == library.compiled.end())
        found = library.compiled.emplace(key, compile(product, packed, library.engine)).first;
    if (found->second.primitive != nullptr) provide_arguments(found->second, threads, library.engine);
    return found->second;
}

dnnl_status_t execute(const Compiled& compiled, const Places& places, std::size_t thread,
                      dnnl_stream_t queue) noexcept {
    const Arguments& own = compiled.of_thread[thread];
    dnnl_status_t status = dnnl_success;
    const auto set = [&](dnnl_memory_t tensor, const void* data) {
        if (status == dnnl_success) status = dnnl_memory_set_data_handle(tensor, const_cast<void*>(data));
    };
    set(own.a, places.a);
    set(own.b, places.b);
    set(own.c, places.c);
    if (compiled.bias != nullptr) set(own.bias, places.bias);
    if (compiled.residual != nullptr) set(own.residual, places.residual);
    if (compiled.scratchpad_bytes > 0) set(own.scratchpad, places.scratchpad);
    if (status != dnnl_success) return status;
    return dnnl_primitive_execute(compiled.primitive, queue, own.count, own.list.data());
}

bool has_instructions(DType narrow) {
    const auto has = static_cast<unsigned>(dnnl_get_effective_cpu_isa());
    const auto needed = static_cast<unsigned>(library_type(narrow).instructions);
    return (has & needed) == needed;
}

bool multiplies(DType narrow) {
    constexpr std::int64_t n = 16;
    const Library library;
    const Layout square = matrix(library_type(narrow).type, 1, n, n, n, 1, 0);
    Attributes attributes;
    check(dnnl_primitive_attr_create(attributes.out()), "describe a product");
    Description description;
    return dnnl_matmul_primitive_desc_create(description.out(), library.engine, square, square, nullptr, square,
                                             attributes) == dnnl_success;
}

std::string version() {
    const dnnl_version_t* v = dnnl_version();
    return "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
}

}  // namespace thunder::onednn
