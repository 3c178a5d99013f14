// SPDX-License-Identifier: Apache-2.0
// The runtime API: the closed list of calls that a generated program makes, beside its own kernels. One contract, a
// provider on each device; what is saved and how it is laid out belongs to the contract, workspace and packed weights
// do not.
//
// What computes in floating point takes f32 and narrow types, adds up in f32, and rounds once what is narrow. On every
// device (call_types.h checks it):
//
//   products, also   factors are of one type, the result is of theirs or f32; a residual and pre_activation are of the
//   of convolutions  result's type, a bias is of that or f32, its gradient of dy's or f32
//   attention        q, k, v, out, and their gradients are of one type; lse is f32
//   embedding        y is of the table's type; the table's gradient of dy's, or f32
//   cross entropy    dlogits are of the type of logits; loss, dloss and lse are f32
//   gather           any one type
//   scatter_add      f32
//   FP8              numbers are e4m3 or e5m2, not both factors of a product e5m2; scales and amaxes are f32; what is
//                    quantised, and a product, is of floating point; its residual is of its type, a bias of that or f32
//
// All tensors are dense and row-major unless a row stride (ld_…, in elements) is given; 0 stands for "dense". Calls
// are asynchronous on `stream`; on a CPU the compute stream is the calling thread with its OpenMP team.
#pragma once

#include <array>

#include "device/types.h"

namespace thunder {

class Stream;

// ---- linear: y = x Wᵀ, the weight as the framework keeps it, (out, in) ----------------------------------------------

enum class Activation : std::uint8_t { none, relu, gelu, gelu_tanh, silu, tanh };

struct LinearForward {
    Output y{};        // (rows, out)
    Input x{};         // (rows, in)
    Input weight{};    // (out, in)
    Input bias{};      // (out), added before the activation
    Input residual{};  // (rows, out), added after it; may be the same memory as y
    Activation activation = Activation::none;
    Output pre_activation{};  // (rows, out): what the activation reads, kept for the backward pass. Of bf16 the
                              // activation reads it before or after it is rounded, as the provider has it
    std::int64_t rows = 0, in = 0, out = 0;
    std::int64_t ld_y = 0, ld_x = 0, ld_residual = 0;
};
void linear_forward(const LinearForward& call, Stream& stream);

struct LinearBackwardInput {
    Output dx{};     // (rows, in): dx = dy W, or dx += dy W
    Input dy{};      // (rows, out)
    Input weight{};  // (out, in)
    WriteMode mode = WriteMode::overwrite;
    Input residual{};  // (rows, in), added to the product; may be the same memory as dx
    std::int64_t rows = 0, in = 0, out = 0;
    std::int64_t ld_dx = 0, ld_dy = 0, ld_residual = 0;
};
void linear_backward_input(const LinearBackwardInput& call, Stream& stream);

struct LinearBackwardWeight {
    Output dweight{};                       // (out, in): dyᵀ x
    Output dbias{};                         // (out): column sums of dy
    Input dy{};                             // (rows, out)
    Input x{};                              // (rows, in)
    WriteMode mode = WriteMode::overwrite;  // for dweight and dbias alike
    std::int64_t rows = 0, in = 0, out = 0;
    std::int64_t ld_dy = 0, ld_x = 0;
};
void linear_backward_weight(const LinearBackwardWeight& call, Stream& stream);

// ---- grouped linear: each row by the matrix that its id names
// ---------------------------------------------------------

// y[i] = W[ids[i]] x[i]. Rows of one group are one product, whatever their order; none is left out.
struct GroupedLinear {
    Output y{};              // (rows, out)
    Input x{};               // (rows, in)
    Input weight{};          // (groups, out, in), or (groups, in, out) where transpose
    Input ids{};             // (rows) i64 or i32, below groups
    bool transpose = false;  // y[i] = x[i] W[ids[i]]: as the gradient of x is of the layer that is not transposed
    std::int64_t rows = 0, groups = 0, in = 0, out = 0;
};
void grouped_linear(const GroupedLinear& call, Stream& stream);

// dW[e] is the sum over the rows with that id, dy[i]ᵀ x[i]; of a group without rows 0.
struct GroupedLinearBackwardWeight {
    Output dweight{};  // (groups, out, in), or (groups, in, out) where transpose
    Input dy{};        // (rows, out)
    Input x{};         // (rows, in)
    Input ids{};       // (rows) i64 or i32, below groups
    WriteMode mode = WriteMode::overwrite;
    bool transpose = false;
    std::int64_t rows = 0, groups = 0, in = 0, out = 0;
};
void grouped_linear_backward_weight(const GroupedLinearBackwardWeight& call, Stream& stream);

// ---- matmul: batched general product, the fallback for products that are no linear layer ----------------------------

// c[b] = op(a[b]) op(b[b]); op transposes where asked. A batch stride of 0 repeats one matrix.
struct Matmul {
    Output c{};  // (batch, m, n)
    Input a{};   // (batch, m, k), or (batch, k, m) where transpose_a
    Input b{};   // (batch, k, n), or (batch, n, k) where transpose_b
    bool transpose_a = false, transpose_b = false;
    WriteMode mode = WriteMode::overwrite;
    std::int64_t batch = 1, m = 0, n = 0, k = 0;
    std::int64_t stride_a = 0, stride_b = 0, stride_c = 0;  // elements between matrices of the batch
};
void matmul(const Matmul& call, Stream& stream);

// ---- convolutions ---------------------------------------------------------------------------------------------------

// Depth, height and width, the first ones 1 (before: 0) where there are fewer dimensions.
using Sizes = std::array<std::int64_t, 3>;

constexpr std::int64_t count(const Sizes& sizes) {
    return sizes[0] * sizes[1] * sizes[2];
}

// The sums of y[n, m, s] are over c and k, of x[n, c, s * strides + k * dilations - before] weight[m, c, k], x being 0
// beyond its elements: s of `out`, the steps of the window, k of `window`, c the C / groups channels of m's group.
struct ConvolutionForm {
    std::int64_t N = 0, C = 0, M = 0, groups = 1;  // images, channels, filters: of all groups
    Sizes in{}, out{}, window{};
    Sizes strides{1, 1, 1}, dilations{1, 1, 1}, before{};

    std::int64_t steps() const { return count(out); }
    // Products in the sum of one element of y.
    std::int64_t depth() const { return C / groups * count(window); }
};

// y = activation(sums + bias) + residual
struct ConvolutionForward {
    Output y{};      // (N, M, out)
    Input x{};       // (N, C, in)
    Input weight{};  // (M, C / groups, window)
    Input bias{};    // (M)
    Activation activation = Activation::none;
    Input residual{};  // (N, M, out); not the memory of y
    ConvolutionForm form{};
};
void convolution_forward(const ConvolutionForward& call, Stream& stream);

// dx = activation(sums + bias) + residual, the sums of dx[n, c, i] being over m, s, k with s * strides + k * dilations
// - before = i, of dy[n, m, s] weight[m, c, k]: the gradient of the input, or a transposed convolution.
struct ConvolutionBackwardInput {
    Output dx{};     // (N, C, in)
    Input dy{};      // (N, M, out)
    Input weight{};  // (M, C / groups, window)
    Input bias{};    // (C)
    Activation activation = Activation::none;
    Input residual{};  // (N, C, in); not the memory of dx
    ConvolutionForm form{};
};
void convolution_backward_input(const ConvolutionBackwardInput& call, Stream& stream);

// dweight[m, c, k] = sum over n, s of dy[n, m, s] x[n, c, s * strides + k * dilations - before].
struct ConvolutionBackwardWeight {
    Output dweight{};                       // (M, C / groups, window)
    Output dbias{};                         // (M): sums of dy over n and s
    Input dy{};                             // (N, M, out)
    Input x{};                              // (N, C, in)
    WriteMode mode = WriteMode::overwrite;  // for dweight and dbias alike
    ConvolutionForm form{};
};
void convolution_backward_weight(const ConvolutionBackwardWeight& call, Stream& stream);

// ---- attention: softmax(scale q kᵀ + mask) v, never (T, T) in memory ------------------------------------------------

// q: (B, T, NH, HS), k and v: (B, S, KVH, HS); the heads of one position are adjacent, ld_… is the distance between
// positions. Query head h reads key head h / (NH / KVH). lse: (B, NH, T), the log-sum-exp of each row of scores.
struct AttentionForward {
    Output out{};  // (B, T, NH, HS)
    Output lse{};  // (B, NH, T) f32
    Input q{}, k{}, v{};
    Input padding{};          // (B, S) boolean: true where a key may be read; null: all may
    bool causal = false;      // position t reads keys s <= t + (S - T)
    std::int64_t window = 0;  // with causal: and s > t + (S - T) - window; 0: no window
    // Dropout of the probabilities, where there is a seed: what RandomBernoulli draws with p = kept for a row (NH, T,
    // S) of each sequence says which stay, divided by kept.
    Input seed{}, draw{};  // one i64 each
    Input numbers{};       // (B) i64
    double kept = 1;
    float scale = 1.0F;
    std::int64_t B = 0, T = 0, S = 0, NH = 0, KVH = 0, HS = 0;
    std::int64_t ld_out = 0, ld_q = 0, ld_k = 0, ld_v = 0;
};
void attention_forward(const AttentionForward& call, Stream& stream);

struct AttentionBackward {
    Output dq{}, dk{}, dv{};            // like q, k, v; overwritten
    Input dout{};                       // (B, T, NH, HS)
    Input q{}, k{}, v{}, out{}, lse{};  // as forward left them
    Input padding{};
    bool causal = false;
    std::int64_t window = 0;
    Input seed{}, draw{}, numbers{};
    double kept = 1;
    float scale = 1.0F;
    std::int64_t B = 0, T = 0, S = 0, NH = 0, KVH = 0, HS = 0;
    std::int64_t ld_dq = 0, ld_dk = 0, ld_dv = 0, ld_dout = 0;
    std::int64_t ld_q = 0, ld_k = 0, ld_v = 0, ld_out = 0;
};
void attention_backward(const AttentionBackward& call, Stream& stream);

// ---- embedding -----------------------------------------------------------------------------------------------------

struct EmbeddingForward {
    Output y{};      // (rows, width)
    Input weight{};  // (entries, width)
    Input ids{};     // (rows) i64 or i32, checked by the loader
    std::int64_t rows = 0, entries = 0, width = 0;
};
void embedding_forward(const EmbeddingForward& call, Stream& stream);

// dweight[id] is the sum over the rows with that id, in row order: the same bits at any thread count.
struct EmbeddingBackward {
    Output dweight{};                       // (entries, width)
    Input dy{};                             // (rows, width)
    Input ids{};                            // (rows)
    WriteMode mode = WriteMode::overwrite;  // overwrite: rows that no id names become 0
    std::int64_t rows = 0, entries = 0, width = 0;
};
void embedding_backward(const EmbeddingBackward& call, Stream& stream);

// ---- cross entropy -------------------------------------------------------------------------------------------------

// *loss = sum over rows with a label other than ignore_index of log_sum_exp(logits[row]) - logits[row][label];
// lse (rows) f32 is kept for the backward pass.
struct CrossEntropyForward {
    Output loss{};   // one f32
    Output lse{};    // (rows) f32
    Input logits{};  // (rows, classes)
    Input labels{};  // (rows) i64
    std::int64_t ignore_index = -100;
    std::int64_t rows = 0, classes = 0;
};
void cross_entropy_forward(const CrossEntropyForward& call, Stream& stream);

// dlogits = (softmax(logits) - one_hot(label)) * *dloss, 0 in ignored rows. May be written in place over the logits.
struct CrossEntropyBackward {
    Output dlogits{};  // (rows, classes)
    Input logits{}, labels{}, lse{};
    Input dloss{};  // one f32, on the device
    std::int64_t ignore_index = -100;
    std::int64_t rows = 0, classes = 0;
};
void cross_entropy_backward(const CrossEntropyBackward& call, Stream& stream);

// A linear layer whose outputs are logits, and their cross entropy, `chunk` rows at a time: the logits of all rows are
// never in memory. losses[i] is the sum over chunk i. Where there are dx or dweight, each chunk's gradients are made
// before the next chunk's logits.
struct LinearCrossEntropy {
    Output losses{};                        // (rows / chunk) f32
    Output dx{};                            // (rows, in), of the type of x
    Output dweight{};                       // (classes, in)
    Output dbias{};                         // (classes): column sums of the logits' gradient
    Output logits{};                        // (chunk, classes), of the type of x: memory of the call
    Output lse{};                           // (chunk) f32: memory of the call
    Input x{};                              // (rows, in)
    Input weight{};                         // (classes, in)
    Input bias{};                           // (classes)
    Input labels{};                         // (rows) i64
    Input dloss{};                          // one f32, on the device
    WriteMode mode = WriteMode::overwrite;  // for dweight and dbias alike
    std::int64_t ignore_index = -100;
    std::int64_t chunk = 0, rows = 0, in = 0, classes = 0;  // rows is a multiple of chunk
};
void linear_cross_entropy(const LinearCrossEntropy& call, Stream& stream);

// ---- indexed access that is no embedding ---------------------------------------------------------------------------

// y[o, i, :] = x[o, index[i], :]: numpy's take along one axis, seen as (outer, entries, inner).
struct Gather {
    Output y{};     // (outer, count, inner), of any type
    Input x{};      // (outer, entries, inner)
    Input index{};  // (count) i64 or i32
    std::int64_t outer = 1, entries = 0, count = 0, inner = 1;
};
void gather(const Gather& call, Stream& stream);

// y[o, index[i], :] += x[o, i, :] in the order of i, after y was filled with 0.
struct ScatterAdd {
    Output y{};     // (outer, entries, inner)
    Input x{};      // (outer, count, inner)
    Input index{};  // (count) i64 or i32
    std::int64_t outer = 1, entries = 0, count = 0, inner = 1;
};
void scatter_add(const ScatterAdd& call, Stream& stream);

// ---- numbers that are drawn -----------------------------------------------------------------------------------------

// y[r, i] = a number of [0, 1), a multiple of 2^-24, drawn by Philox4x32-10 for place i of the row that is called
// numbers[r]: word i % 4 of philox({i / 4, numbers[r]}, {draw, seed}), of seed and draw the lower 32 bits. The same
// whoever draws it, and where.
struct RandomUniform {
    Output y{};       // (rows, width) f32
    Input seed{};     // one i64: of the run
    Input draw{};     // one i64: which of the program's draws it is
    Input numbers{};  // (rows) i64
    std::int64_t rows = 0, width = 0;
};
void random_uniform(const RandomUniform& call, Stream& stream);

// Whether such a number is below p.
struct RandomBernoulli {
    Output y{};       // (rows, width) bool
    Input seed{};     // one i64: of the run
    Input draw{};     // one i64: which of the program's draws it is
    Input numbers{};  // (rows) i64
    std::int64_t rows = 0, width = 0;
    double p = 1;
};
void random_bernoulli(const RandomBernoulli& call, Stream& stream);

// ---- FP8: numbers of eight bits, and a scale for each tensor
// -----------------------------------------------------------

// In one pass over x: q = x * *scale, rounded, what is too large becoming the largest number; the same transposed,
// since FP8 products of GPUs read the dimension that they sum along as the inner one; and the amax, the largest |x|.
struct Fp8Quantise {
    Output q{};             // (rows, width)
    Output q_transposed{};  // (width, rows); either may be null
    Output amax{};          // one f32: becomes the largest |x| where that is larger. A NaN counts for nothing
    Output inverse{};       // one f32: 1 / *scale, by which a product is to be multiplied
    Output own_scale{};     // one f32: instead of `scale`, one that follows from this amax (current scaling)
    Input x{};              // (rows, width)
    Input scale{};          // one f32
    WriteMode mode = WriteMode::overwrite;  // add: nothing is done, all stays as an earlier micro-step has made it
    std::int64_t rows = 0, width = 0;
    std::int64_t ld_x = 0;
};
void fp8_quantise(const Fp8Quantise& call, Stream& stream);

// What is left of that where the kernel that made x has written q = x * *scale and, of each row, the largest |x|: the
// codes transposed, and what the scales need.
struct Fp8Finish {
    Output q_transposed{};             // (width, rows); may be null
    Output amax{};                     // one f32: becomes the largest of `maxima` where that is larger; may be null
    Output inverse{};                  // one f32: 1 / *scale
    Input q{};                         // (rows, width)
    Input maxima{};                    // (rows) f32, with an amax
    Input scale{};                     // one f32
    std::int64_t rows = 0, width = 0;  // width: of a copy
};
void fp8_finish(const Fp8Finish& call, Stream& stream);

// c = (a bᵀ) * (*inverse_a * *inverse_b) + bias + residual, or c += it: numbers are multiplied as they are and added up
// in f32. A linear layer's products are all of this form: y = x Wᵀ; dx = dy W, of the transposed copy of W; dW = dyᵀ x,
// of those of both.
struct Fp8Product {
    Output c{};                      // (m, n)
    Input a{};                       // (m, k)
    Input b{};                       // (n, k)
    Input inverse_a{}, inverse_b{};  // one f32 each
    WriteMode mode = WriteMode::overwrite;
    Input bias{};      // (n)
    Input residual{};  // (m, n); may be the same memory as c
    std::int64_t m = 0, n = 0, k = 0;
};
void fp8_product(const Fp8Product& call, Stream& stream);

// Recipes of blocks: e4m3 alone, and a scale for each block of a copy, by which its codes are to be multiplied. Copies
// are quantised apart where blocks are parts of a row: those of the transposed one are parts of columns of x.
enum class Fp8Blocks : std::uint8_t {
    rows_of_128,     // scales are f32
    squares_of_128,  // the same, of 128 rows: the transposed copy has the same codes
    rows_of_32,      // scales are e8m0: OCP's MX
};

// Both copies in one pass. Scales are dense: a row of them for each row of blocks; blocks at the ends are smaller.
struct Fp8QuantiseBlocks {
    Output q{};                  // (rows, width)
    Output scales{};             // of its blocks
    Output q_transposed{};       // (width, rows); either copy may be null
    Output scales_transposed{};  // of its blocks
    Input x{};                   // (rows, width)
    Fp8Blocks blocks = Fp8Blocks::rows_of_128;
    bool powers_of_two = true;              // of scales in f32
    float least_amax = 0;                   // the same: a smaller amax counts as this
    WriteMode mode = WriteMode::overwrite;  // add: nothing is done, as above
    std::int64_t rows = 0, width = 0;
    std::int64_t ld_x = 0;
};
void fp8_quantise_blocks(const Fp8QuantiseBlocks& call, Stream& stream);

// c = a bᵀ of what the codes mean, or c += it: the sum over k of (a * its block's scale) * (b * its block's scale).
struct Fp8BlockProduct {
    Output c{};                    // (m, n)
    Input a{};                     // (m, k)
    Input b{};                     // (n, k)
    Input scales_a{}, scales_b{};  // of their blocks
    Fp8Blocks blocks_a = Fp8Blocks::rows_of_128, blocks_b = Fp8Blocks::rows_of_128;
    WriteMode mode = WriteMode::overwrite;
    Input bias{};      // (n)
    Input residual{};  // (m, n); may be the same memory as c
    std::int64_t m = 0, n = 0, k = 0;
};
void fp8_block_product(const Fp8BlockProduct& call, Stream& stream);

// *amax becomes the largest |x| where that is larger; a NaN counts for nothing. For what is quantised by its own amax.
struct Fp8Amax {
    Output amax{};  // one f32
    Input x{};      // (rows, width)
    std::int64_t rows = 0, width = 0;
    std::int64_t ld_x = 0;
};
void fp8_amax(const Fp8Amax& call, Stream& stream);

// Current scaling: a scale follows from the amax of the tensor that it is of. The amax is 0 after it, for the next one.
struct Fp8CurrentScales {
    Output scale{};              // (tensors) f32
    Output amax{};               // (tensors) f32
    float largest = 448.F;       // what an amax is to become by the scale
    bool powers_of_two = false;  // a scale is the largest one below that: it changes no digit
    float least_amax = 0;        // a smaller one counts as this
    std::int64_t tensors = 0;
};
void fp8_current_scales(const Fp8CurrentScales& call, Stream& stream);

// Delayed scaling: a scale follows from amaxes of before, so that a tensor is quantised in the pass that makes it. Of
// each tensor: history[0] is the amax since the last update, of one rank, and 0 after this one; from the oldest at 1 to
// the latest at the end are those of earlier updates. Where amaxes lie by themselves, for ranks to compare all at once,
// they are 0 after it as well. A tensor that nothing was quantised of since then, whose amax is 0, stays as it is.
// device/fp8_recipe.h has the rule, docs/numerics.md whose it is.
struct Fp8UpdateScales {
    Output scale{};         // (tensors) f32: 1 at first
    Output history{};       // (tensors, length) f32: 0 at first
    Output amax{};          // (tensors) f32: instead of history[0], and of all ranks; null: history[0] is it
    bool latest = false;    // the scale follows from the latest amax alone, not from the largest one there is
    float largest = 448.F;  // what that amax is to become by the scale
    std::int64_t tensors = 0, length = 0;
};
void fp8_update_scales(const Fp8UpdateScales& call, Stream& stream);

// ---- plain memory --------------------------------------------------------------------------------------------------

// bytes from src to dst; the two do not overlap.
void copy(void* dst, const void* src, std::size_t bytes, Stream& stream);
void fill_zero(void* dst, std::size_t bytes, Stream& stream);
// dst = src between f32 and a narrow type, rounded to nearest, ties to even.
void convert(const Output& dst, const Input& src, std::int64_t elements, Stream& stream);

}  // namespace thunder
