// SPDX-License-Identifier: Apache-2.0
// Operators of numbers that are known when a program is written: what they give has as many elements as these say.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/frontend/onnx/importer.h"
#include "compiler/ops/dense.h"

namespace thunderc::onnx_frontend {
namespace {

constexpr const char* bind_or_mask =
    "the result has as many elements as the numbers say: give the input by --bind where it is one, or let the model "
    "compute with a mask instead, as torch.where does";

Tensor known_tensor(Node& n) {
    std::optional<Tensor> x = n.known(0);
    if (!x)
        n.fail(fmt::format("{} of what depends on the model's data is not supported", n.proto().op_type()),
               bind_or_mask);
    return *std::move(x);
}

// The indices of the elements that are not 0, one row for each dimension.
void non_zero(Node& n) {
    const Tensor x = known_tensor(n);
    std::vector<std::int64_t> found;
    for (std::int64_t k = 0; k < x.size(); ++k)
        if (x.at(k) != 0) found.push_back(k);
    const Dims strides = dense_strides(x.type.dims);
    Tensor out(Type::tensor(DType::i64, {x.type.rank(), std::ssize(found)}));
    for (std::size_t d = 0; d < strides.size(); ++d)
        for (std::size_t k = 0; k < found.size(); ++k)
            out.i[d * found.size() + k] = found[k] / strides[d] % x.type.dims[d];
    n.output_constant(0, std::move(out));
}

// Slices of x along its axis, each once, with where each was first, which each place has and how often.
void unique(Node& n) {
    const Tensor x = known_tensor(n);
    const bool flat = n.attribute("axis") == nullptr;
    const std::size_t axis = flat ? 0 : static_cast<std::size_t>(n.axis(n.integer("axis", 0), x.type.rank()));
    const Dims dims = flat ? Dims{x.size()} : x.type.dims;
    const std::int64_t slices = dims[axis],
                       inner = element_count(Dims(dims.begin() + static_cast<std::ptrdiff_t>(axis) + 1, dims.end())),
                       outer = element_count(Dims(dims.begin(), dims.begin() + static_cast<std::ptrdiff_t>(axis)));
    const auto element = [&](std::int64_t slice, std::int64_t k) {  // of its outer * inner
        return static_cast<std::size_t>((k / inner * slices + slice) * inner + k % inner);
    };
    const auto compare = [&](std::int64_t a, std::int64_t b) {
        for (std::int64_t k = 0; k < outer * inner; ++k) {
            const std::size_t at = element(a, k), other = element(b, k);
            // What is no number is behind all that are.
            const auto before = [&](std::size_t one, std::size_t two) {
                if (!x.floating()) return x.i[one] < x.i[two];
                return x.f[one] < x.f[two] || (std::isnan(x.f[two]) && !std::isnan(x.f[one]));
            };
            if (before(at, other)) return -1;
            if (before(other, at)) return 1;
        }
        return 0;
    };
    std::vector<std::int64_t> order(static_cast<std::size_t>(slices));
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) { return compare(a, b) < 0; });
    struct Group {
        std::int64_t first = 0;
        std::vector<std::int64_t> members;
    };
    std::vector<Group> groups;
    for (const std::int64_t slice : order) {
        if (groups.empty() || compare(groups.back().first, slice) != 0) groups.push_back({slice, {}});
        groups.back().members.push_back(slice);
    }
    if (n.integer("sorted", 1) == 0)
        std::sort(groups.begin(), groups.end(), [](const Group& a, const Group& b) { return a.first < b.first; });
    Dims kept = dims;
    kept[axis] = std::ssize(groups);
    Tensor values(Type::tensor(x.type.dtype, kept)), firsts(Type::tensor(DType::i64, {std::ssize(groups)}));
    Tensor inverse(Type::tensor(DType::i64, {slices})), counts = firsts;
    for (std::size_t g = 0; g < groups.size(); ++g) {
        for (std::int64_t k = 0; k < outer * inner; ++k) {
            const auto to = static_cast<std::size_t>(
                (k / inner * std::ssize(groups) + static_cast<std::int64_t>(g)) * inner + k % inner);
            if (x.floating())
                values.f[to] = x.f[element(groups[g].first, k)];
            else
                values.i[to] = x.i[element(groups[g].first, k)];
        }
        firsts.i[g] = groups[g].first;
        counts.i[g] = std::ssize(groups[g].members);
        for (const std::int64_t slice : groups[g].members)
            inverse.i[static_cast<std::size_t>(slice)] = static_cast<std::int64_t>(g);
    }
    n.output_constant(0, std::move(values), n.narrow(0));
    n.output_constant(1, std::move(firsts));
    n.output_constant(2, std::move(inverse));
    n.output_constant(3, std::move(counts));
}

// Triangles over the bins of a spectrum, equally far apart on the mel scale (HTK's, 2595 log10(1 + f / 700)), as ONNX's
// reference has them.
void mel_weight_matrix(Node& n) {
    constexpr std::int64_t most = std::int64_t{1} << 24;
    const std::int64_t bins = n.integer(0, "number of bins"), length = n.integer(1, "length of the DFT"),
                       rate = n.integer(2, "sample rate");
    const std::optional<Tensor> low = n.known(3), high = n.known(4);
    if (!low || !high || low->size() != 1 || high->size() != 1)
        n.fail("the edges of MelWeightMatrix depend on the model's data; they are fixed when compiling",
               "give them by --bind where they are inputs");
    if (bins < 1 || length < 1 || rate < 1 || bins > most / length)
        n.fail(fmt::format("MelWeightMatrix of {} bins, of a DFT of {} at a rate of {}", bins, length, rate));
    const auto mel = [](double hertz) { return 2595 * std::log10(1 + hertz / 700); };
    const double from = mel(low->at(0)), step = (mel(high->at(0)) - from) / static_cast<double>(bins + 2);
    const std::int64_t rows = length / 2 + 1;
    std::vector<std::int64_t> edge;
    for (std::int64_t k = 0; k < bins + 2; ++k) {
        const double hertz = 700 * (std::pow(10.0, (static_cast<double>(k) * step + from) / 2595) - 1);
        const double at = std::floor(static_cast<double>(length + 1) * hertz / static_cast<double>(rate));
        if (!(at >= 0) || at > static_cast<double>(rows))
            n.fail("the edges of MelWeightMatrix lie outside of the spectrum", {}, {}, fmt::format("bin {}", at));
        edge.push_back(static_cast<std::int64_t>(at));
    }
    const auto dtype = static_cast<std::int32_t>(n.integer("output_datatype", 1));
    Tensor out(Type::tensor(n.importer().dtype(dtype, "MelWeightMatrix"), {rows, bins}));
    const auto put = [&](std::int64_t row, std::int64_t column, double value) {
        if (row < rows) out.set(row * bins + column, value);
    };
    for (std::int64_t k = 0; k < bins; ++k) {
        const auto at = static_cast<std::size_t>(k);
        const std::int64_t lower = edge[at], middle = edge[at + 1], upper = edge[at + 2];
        if (lower == middle) put(middle, k, 1);
        for (std::int64_t row = lower; row <= middle && lower < middle; ++row)
            put(row, k, static_cast<double>(row - lower) / static_cast<double>(middle - lower));
        for (std::int64_t row = middle; row < upper; ++row)
            put(row, k, static_cast<double>(upper - row) / static_cast<double>(upper - middle));
    }
    n.output_constant(0, std::move(out));
}

constexpr OpImporter known_importers[] = {
    {"NonZero", 13, last_opset, non_zero, own},
    {"Unique", 13, last_opset, unique, own},
    {"MelWeightMatrix", 17, last_opset, mel_weight_matrix, own},
};

}  // namespace

std::span<const OpImporter> known_ops() {
    return known_importers;
}

}  // namespace thunderc::onnx_frontend
