// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/gemm/product_key.h"

#include "support/text.h"

namespace thunder {

std::uint32_t reduction_schemes(DType result) {
    return is_narrow(result) ? sums_in_f32 : sums_in_any;
}

std::string ProductKey::text() const {
    std::string out = cat(flags, " ", schemes);
    for (const std::int64_t size : sizes) out += cat(" ", size);
    return left == 0 ? out : cat(out, " ", left);
}

std::size_t HashOfKey::operator()(const ProductKey& key) const {
    std::uint64_t hash = 1469598103934665603ULL ^ key.flags ^ (std::uint64_t{key.schemes} << 32);
    for (const std::int64_t v : key.sizes) hash = (hash ^ static_cast<std::uint64_t>(v)) * 1099511628211ULL;
    hash = (hash ^ static_cast<std::uint64_t>(key.left)) * 1099511628211ULL;
    return hash ^ (hash >> 29);
}

std::uint32_t alignment_of(const void* p) {
    const auto address = reinterpret_cast<std::uintptr_t>(p) | 256;
    return static_cast<std::uint32_t>(__builtin_ctzll(address));
}

ProductKey key_of(const Product& p, bool tf32, int left) {
    std::uint64_t flags = 0;
    int at = 0;
    const auto put = [&](std::uint64_t value, int bits) {
        flags |= value << at;
        at += bits;
    };
    put(tf32 ? 1 : 0, 1);
    put(p.transpose_a ? 1 : 0, 1);
    put(p.transpose_b ? 1 : 0, 1);
    put(p.fast_sums ? 1 : 0, 1);
    put(!p.addend ? 0 : p.addend.data == p.c.data ? 1 : 2, 2);
    put(p.bias ? 1 : 0, 1);
    put(p.pre_activation ? 1 : 0, 1);
    put(static_cast<std::uint32_t>(p.activation), 3);
    const auto type = [](const auto& t) { return t ? static_cast<std::uint32_t>(t.dtype) : 0U; };  // f32: 0
    for (const std::uint32_t its : {type(p.a), type(p.b), type(p.c), type(p.bias)}) put(its, 4);
    put(alignment_of(p.a.data), 4);
    put(alignment_of(p.b.data), 4);
    put(alignment_of(p.c.data), 4);
    put(p.addend ? alignment_of(p.addend.data) : 8, 4);
    return {{p.batch, p.m, p.n, p.k, p.ld_a, p.ld_b, p.ld_c, p.addend ? p.ld_addend : 0, p.stride_a, p.stride_b,
             p.stride_c},
            flags,
            reduction_schemes(p.c.dtype),
            left};
}

}  // namespace thunder
