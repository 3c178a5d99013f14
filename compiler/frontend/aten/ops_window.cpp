// SPDX-License-Identifier: Apache-2.0
// Convolutions, pooling and resizing: windows over the spatial dimensions of (N, C, d…), or of one image (C, d…).
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "compiler/frontend/aten/windows.h"
#include "compiler/frontend/shared/grid_sample.h"
#include "compiler/frontend/shared/pooling.h"
#include "compiler/frontend/shared/products.h"
#include "compiler/frontend/shared/resize.h"

namespace thunderc::aten {
namespace {

Value with_channel_bias(Node& n, Value y) {
    if (!n.has("bias")) return y;
    Dims column(n.importer().type(y).dims.size(), 1);
    column[1] = n.type("bias").elements();
    return n.b().add(y, n.b().reshape(n.tensor("bias"), column));
}

// Of "convolution" one argument says whether it is transposed.
void convolution_op(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    const bool transposed = op.starts_with("conv_transpose") || n.boolean("transposed", false);
    const Dims weight = n.type("weight").dims;
    if (weight.size() < 3)
        n.fail(fmt::format("the weight of {} has no windows", n.call().target), {}, {}, to_string(n.type("weight")));
    const std::size_t spatial = weight.size() - 2;
    const Value x = with_batch_of(b, n.tensor("input"), spatial);
    const Dims dims = b.type(x).dims;
    const std::int64_t groups = n.integer("groups", 1);
    if (dims.size() != weight.size() || groups < 1 || groups > std::max<std::int64_t>(dims[1], 1) ||
        dims[1] % groups != 0 || weight[transposed ? 0 : 1] != (transposed ? dims[1] : dims[1] / groups))
        n.fail(fmt::format("the weight of {} does not fit its input", n.call().target), {},
               fmt::format("for {} in {} groups", to_string(b.type(x)), groups), to_string(n.type("weight")));
    const Dims in(dims.begin() + 2, dims.end()), size(weight.begin() + 2, weight.end());
    Window w = window_form_of(n, in, size, for_each_dimension(n, "stride", spatial, 1));
    const std::string padding = n.text("padding", "");
    Value y;
    if (transposed) {
        const Dims more = for_each_dimension(n, "output_padding", spatial, 0);
        for (std::size_t d = 0; d < spatial; ++d)
            if (more[d] < 0 || more[d] >= std::max(w.strides[d], w.dilations[d]))
                n.fail("output_padding is no smaller than the stride or the dilation");
        for (std::size_t d = 0; d < spatial; ++d)
            w.in[d] = (in[d] - 1) * w.strides[d] + w.reach(d) + more[d] - w.before[d] - w.behind[d];
        y = b.op("convolution_backward_input", {x, n.tensor("weight")},
                 {{"strides", w.strides},
                  {"dilations", w.dilations},
                  {"before", w.before},
                  {"groups", groups},
                  {"image", w.in}});
    } else {
        for (std::size_t d = 0; d < spatial; ++d) {
            if (padding == "same") {  // the larger half behind
                w.before[d] = (w.reach(d) - 1) / 2;
                w.behind[d] = w.reach(d) - 1 - w.before[d];
            }
            const std::int64_t room = in[d] + w.before[d] + w.behind[d] - w.reach(d);
            if (room < 0)
                n.fail(fmt::format("the windows of {} are larger than its input with its padding", n.call().target));
            w.out.push_back(room / w.strides[d] + 1);
        }
        y = b.op("convolution", {x, n.tensor("weight")},
                 {{"strides", w.strides},
                  {"dilations", w.dilations},
                  {"before", w.before},
                  {"groups", groups},
                  {"steps", w.out}});
    }
    n.give(as_it_came(n, with_channel_bias(n, y), n.type("input").rank()));
}

void max_pool_op(Node& n) {
    const Pooled p = pooled(n);
    const bool numbers = n.wants(1);
    const LargestOfWindow most = max_pool(n.b(), p.x, p.window, false);
    n.give(as_it_came(n, most.values, p.rank), 0);
    if (!numbers) return;
    // Of each channel by itself.
    const Window& w = p.window;
    Dims dims = n.importer().type(p.x).dims;
    const std::int64_t channel = element_count(w.in);
    const LargestOfWindow all = max_pool(n.b(), p.x, w, true);
    const Value within = n.b().op("mod", {all.numbers, n.b().scalar(DType::i64, static_cast<double>(channel))});
    n.give(as_it_came(n, within, p.rank), 1);
}

void average_pool_op(Node& n) {
    n.fractions(n.has("self") ? "self" : "input");
    const Pooled p = pooled(n);
    std::optional<double> divisor;
    if (n.has("divisor_override")) divisor = n.number("divisor_override");
    n.give(as_it_came(n, average_pool(n.b(), p.x, p.window, n.boolean("count_include_pad", true), divisor), p.rank));
}

// The shape that adaptive pooling gives: "output_size" for the last dimensions.
Dims adapted(Node& n, std::size_t spatial) {
    Dims dims = n.type("self").dims;
    const Dims size = for_each_dimension(n, "output_size", spatial, 1);
    if (dims.size() < spatial + 1) n.fail(fmt::format("{} takes rows of channels", n.call().target));
    for (const std::int64_t out : size)
        if (out < 0 || out > (std::int64_t{1} << 20)) n.fail(fmt::format("{} to {} elements", n.call().target, out));
    std::copy(size.begin(), size.end(), dims.end() - static_cast<std::ptrdiff_t>(spatial));
    return dims;
}

// Each element of the result is that of so many elements as there are between its ends: of equal windows where the
// sizes divide, else a product with the shares of each.
void adaptive_average_pool(Node& n) {
    Builder& b = n.b();
    Value v = n.fractions("self");
    const std::size_t spatial = dimensions_of(n.op());
    const Dims result = adapted(n, spatial);
    const std::size_t rank = result.size();
    // To one element each it is the mean of a channel.
    if (std::all_of(result.end() - static_cast<std::ptrdiff_t>(spatial), result.end(),
                    [](std::int64_t out) { return out == 1; })) {
        Dims axes(spatial);
        std::iota(axes.begin(), axes.end(), static_cast<std::int64_t>(rank - spatial));
        return n.give(b.op("reduce_mean", {v}, {{"axes", axes}, {"keep_dims", true}}));
    }
    for (std::size_t d = rank - spatial; d < rank; ++d) {
        Dims dims = b.type(v).dims;
        const std::int64_t in = dims[d], out = result[d];
        if (in == out) continue;
        const auto axis = static_cast<std::int64_t>(d);
        if (out > 0 && in % out == 0) {
            Dims apart = dims;
            apart[d] = out;
            apart.insert(apart.begin() + axis + 1, in / out);
            v = b.op("reduce_mean", {b.reshape(v, apart)}, {{"axes", Dims{axis + 1}}, {"keep_dims", false}});
            continue;
        }
        Tensor matrix = adaptive_shares(n, in, out, b.type(v).dtype);
        const std::int64_t outer = element_count(Dims(dims.begin(), dims.begin() + axis));
        const std::int64_t inner = element_count(Dims(dims.begin() + axis + 1, dims.end()));
        v = b.op("matmul", {b.constant(ConstExpr::dense(std::move(matrix))), b.reshape(v, {outer, in, inner})},
                 {{"transpose_a", false}, {"transpose_b", false}});
        dims[d] = out;
        v = b.reshape(v, dims);
    }
    n.give(v);
}

// Windows of equal sizes are those of a max pool. Others are made so: each is laid out as long as the longest one, its
// last element repeated, so that of equal ones the first is still the first.
void adaptive_max_pool(Node& n) {
    Builder& b = n.b();
    const std::size_t spatial = dimensions_of(n.op());
    const Dims result = adapted(n, spatial);
    Value x = with_batch_of(b, n.tensor("self"), spatial);
    const Dims dims = b.type(x).dims;
    Window w;
    std::vector<std::vector<std::int64_t>> from(spatial);  // by the element laid out, the element
    std::int64_t places = 1;
    for (std::size_t d = 0; d < spatial; ++d) {
        const std::int64_t in = dims[d + 2], out = result[result.size() - spatial + d];
        if (out < 1 || in < 1) n.fail(fmt::format("{} of {} elements to {}", n.call().target, in, out));
        std::int64_t longest = 0;
        for (std::int64_t k = 0; k < out; ++k) {
            const auto [begin, end] = adaptive_window(in, out, k);
            longest = std::max(longest, end - begin);
        }
        places *= longest;
        if (places > most_window_places)
            n.fail(fmt::format("{} of {} elements to {} is not supported", n.call().target, in, out),
                   "pool to more elements");
        for (std::int64_t k = 0; k < out; ++k) {
            const auto [begin, end] = adaptive_window(in, out, k);
            for (std::int64_t i = 0; i < longest; ++i) from[d].push_back(std::min(begin + i, end - 1));
        }
        if (in % out != 0)
            x = b.op("gather", {x, b.constant(ConstExpr::dense(Tensor::ints(from[d])))},
                     {{"axis", static_cast<std::int64_t>(d) + 2}});
        w.in.push_back(longest * out);
        w.out.push_back(out);
        w.size.push_back(longest);
    }
    w.strides = w.size;
    w.dilations = Dims(spatial, 1);
    w.before = w.behind = Dims(spatial, 0);
    const bool numbers = n.wants(1);
    const LargestOfWindow most = max_pool(b, x, w, numbers);
    n.give(b.reshape(most.values, result), 0);
    if (!numbers) return;
    constexpr std::int64_t most_numbers = std::int64_t{1} << 24U;  // of a channel: they are a constant
    if (element_count(w.in) > most_numbers)
        n.fail(fmt::format("{} with the places of {} elements is not supported", n.call().target, element_count(w.in)),
               "pool to fewer elements");
    // Of each channel by itself, of the elements as they came.
    Tensor table(Type::tensor(DType::i64, {element_count(w.in)}));
    for (std::int64_t k = 0; k < table.size(); ++k) {
        std::int64_t rest = k, stride = 1, number = 0;
        for (std::size_t d = spatial; d-- > 0; rest /= w.in[d], stride *= dims[d + 2])
            number += stride * from[d][static_cast<std::size_t>(rest % w.in[d])];
        table.i[static_cast<std::size_t>(k)] = number;
    }
    const Value within = b.op("mod", {most.numbers, b.scalar(DType::i64, static_cast<double>(table.size()))});
    const Value named =
        b.op("gather", {b.constant(ConstExpr::dense(std::move(table))), within}, {{"axis", std::int64_t{0}}});
    n.give(b.reshape(named, result), 1);
}

// What windows see as columns, (N, C places, steps), and back: added up where it came from.
void columns_op(Node& n) {
    Builder& b = n.b();
    const bool back = n.op() == "col2im";
    const Value x = n.tensor("self");
    const Dims dims = b.type(x).dims, kernel = for_each_dimension(n, "kernel_size", 2, 1);
    Dims image = dims;
    if (back) {  // (N, C places, steps) of an image (N, C, height, width)
        if (dims.size() < 2) n.fail("the columns of col2im have no dimensions");
        image.pop_back();
        image.back() /= std::max<std::int64_t>(1, element_count(kernel));
        for (const std::int64_t extent : for_each_dimension(n, "output_size", 2, 1)) image.push_back(extent);
        if (!countable(image)) n.fail("col2im gives a shape that no tensor can have", {}, {}, to_string(image));
    }
    if (image.size() < 3 || image.size() > 4)
        n.fail(fmt::format("{} takes images of two dimensions", n.call().target), {}, {}, to_string(b.type(x)));
    Window w = window_form_of(n, Dims(image.end() - 2, image.end()), kernel, for_each_dimension(n, "stride", 2, 1));
    for (std::size_t d = 0; d < 2; ++d) {
        const std::int64_t room = w.in[d] + w.before[d] + w.behind[d] - w.reach(d);
        if (room < 0) n.fail(fmt::format("the windows of {} are larger than the image", n.call().target));
        w.out.push_back(room / w.strides[d] + 1);
    }
    const std::int64_t channels = image[image.size() - 3], rows = image.size() == 4 ? image[0] : 1;
    const std::int64_t steps = element_count(w.out);
    if (back) {
        if (b.type(x).elements() != rows * channels * w.places() * steps)
            n.fail("the columns of col2im do not fit its image", {}, {}, to_string(b.type(x)));
        const Value apart = b.reshape(x, {rows, channels, w.places(), w.out[0], w.out[1]});
        return n.give(b.reshape(folded(b, apart, w), image));
    }
    const Value around = padded(b, with_batch_of(b, x, 2), w, 0);
    std::vector<Value> columns;
    w.for_each_place([&](const Dims& place) {
        columns.push_back(b.reshape(at_place(b, around, w, place), {rows, channels, 1, steps}));
    });
    const Value all = columns.size() == 1 ? columns[0] : b.op("concat", columns, {{"axis", std::int64_t{2}}});
    Dims result(dims.begin(), dims.end() - 3);
    result.insert(result.end(), {channels * w.places(), steps});
    n.give(b.reshape(all, result));
}

// ---- batch norms ----------------------------------------------------------------------------------------------------

// By the statistics of the batch, which the running ones move towards; or by these.
void batch_norm_op(Node& n) {
    Builder& b = n.b();
    const Type type = n.type("input");
    const std::string op = n.op();
    if (type.rank() < 2) n.fail("a batch norm takes rows of channels", {}, {}, to_string(type));
    const bool stored = n.has("running_mean") && n.has("running_var");
    const bool never = op == "_native_batch_norm_legit_no_training" || op == "_batch_norm_no_update";
    const bool by_the_batch =
        !never && (op.starts_with("_batch_norm_with_update") || n.boolean("training", false) || !stored);
    const double eps = n.number("eps", 1e-5), momentum = n.number("momentum", 0.1);
    const auto weight = [&](const char* name, double otherwise) {
        return n.has(name) ? n.tensor(name, type.dtype) : b.splat(Type::tensor(type.dtype, {type.dims[1]}), otherwise);
    };
    const Value w = weight("weight", 1), bias = weight("bias", 0);
    if (stored) {
        n.importer().note_statistic(n.tensor("running_mean"), false, by_the_batch);
        n.importer().note_statistic(n.tensor("running_var"), true, by_the_batch);
    }
    if (!by_the_batch) {
        n.importer().note_frozen_norm();
        Dims shape(type.dims.size(), 1);
        shape[1] = type.dims[1];
        const auto column = [&](Value v) { return b.reshape(b.cast(v, type.dtype), shape); };
        const Value scale = column(w), shift = column(bias), mean = column(n.tensor("running_mean"));
        const Value deviation = b.op("rsqrt", {b.add(column(n.tensor("running_var")), eps)});
        const Value normal = b.mul(b.sub(n.tensor("input"), mean), deviation);
        return n.give(b.add(b.mul(normal, scale), shift), 0);
    }
    const double numbers = static_cast<double>(type.elements()) / static_cast<double>(type.dims[1]);
    if (numbers < 2)
        n.fail("a batch norm in training mode has one number in each channel, of which there is no variance",
               "bind a larger batch with --batch, or export the model so", "two or more", "one");
    const std::vector<Value> results = b.emit("batch_norm", {n.tensor("input"), w, bias}, {{"eps", eps}});
    n.give(results[0], 0);
    if (n.wants(1)) n.give(results[1], 1);
    if (n.wants(2)) n.give(b.op("rsqrt", {b.add(results[2], eps)}), 2);
    if (!stored) return;
    // torch moves the variance by that of a sample.
    const Value sample = b.mul(results[2], numbers / (numbers - 1));
    MovedBuffers& moved = n.importer().moved();
    for (const auto& [k, name, towards] :
         {std::tuple(std::size_t{3}, "running_mean", results[1]), {std::size_t{4}, "running_var", sample}}) {
        const Value of = n.tensor(name);
        const ArgInfo* info = argument_info(b.function(), of);
        const bool buffer = info != nullptr && info->kind == ArgInfo::Kind::buffer;
        const bool wanted = n.wants(k);
        if (!buffer && !wanted) continue;
        const Value now = moved.average(of, towards, momentum);
        if (buffer) moved.move(of, now);
        if (wanted) n.give(now, k);
    }
}

// ---- resizing -------------------------------------------------------------------------------------------------------

constexpr std::int64_t largest_extent = std::int64_t{1} << 24U;  // of a resized dimension, each with its weights

// By a factor that is given torch samples by that, else by the sizes.
void upsampled(Node& n) {
    Builder& b = n.b();
    const std::string op = n.op();
    const Type type = n.type(n.has("self") ? "self" : "input");
    const std::size_t spatial = dimensions_of(op);
    if (type.dims.size() != spatial + 2) n.fail(fmt::format("{} takes rows of channels", op), {}, {}, to_string(type));
    if (op.find("nearest") == std::string::npos) n.fractions(n.has("self") ? "self" : "input");
    ResizeForm form;
    form.mode = op.find("nearest") != std::string::npos ? "nearest"
                : op.find("cubic") != std::string::npos ? "cubic"
                                                        : "linear";
    const bool aligned = n.boolean("align_corners", false);
    form.coordinates = form.mode == "nearest" ? (op.find("exact") != std::string::npos ? "half_pixel" : "asymmetric")
                       : aligned              ? "align_corners"
                                 : "half_pixel";  // of one element as well, unlike ONNX's pytorch_half_pixel
    form.nearest = op.find("exact") != std::string::npos ? "round_prefer_ceil" : "floor";
    form.antialias = op.ends_with("_aa");
    if (form.antialias) {
        form.exclude_outside = true;
        form.cubic = -0.5;
    }
    const std::optional<std::vector<double>> factors = n.numbers("scale_factors");
    Dims size = n.integers("output_size").value_or(Dims{});
    if (size.empty() && factors && factors->size() == spatial)  // as torch rounds: down, of the product in double
        for (std::size_t d = 0; d < spatial; ++d) {
            const double extent = static_cast<double>(type.dims[d + 2]) * (*factors)[d];
            const bool possible = extent >= 0 && extent < 0x1p40;
            size.push_back(possible ? static_cast<std::int64_t>(extent) : 0);
        }
    if (size.size() != spatial) n.fail(fmt::format("{} has no size of its result", op));
    const char* names[] = {"scales_d", "scales_h", "scales_w"};
    Value v = n.tensor(n.has("self") ? "self" : "input");
    for (std::size_t d = 0; d < spatial; ++d) {
        ResizedAxis a;
        a.in = type.dims[d + 2];
        a.out = size[d];
        if (a.in < 1 || a.out < 1) n.fail("upsampling of a dimension without elements");
        if (a.out > largest_extent) n.fail(fmt::format("upsampling to {} elements", a.out), "choose a smaller size");
        a.scale = static_cast<double>(a.out) / static_cast<double>(a.in);
        const char* name = names[3 - spatial + d];
        if (!aligned && n.has(name)) a.scale = n.number(name);
        if (!aligned && spatial == 1 && n.has("scales")) a.scale = n.number("scales");
        if (!aligned && factors && factors->size() == spatial) a.scale = (*factors)[d];
        if (!(a.scale > 0)) n.fail(fmt::format("upsampling by the factor {}", a.scale));
        if (a.scale != 1 || a.out != a.in) v = resized(b, form, a, v, d + 2);
    }
    n.give(v);
}

// Modes by their numbers: bilinear, nearest, bicubic; zeros, border, reflection.
void grid_sampler_op(Node& n) {
    const std::int64_t mode = n.integer("interpolation_mode", 0), padding = n.integer("padding_mode", 0);
    if (mode < 0 || mode > 2 || padding < 0 || padding > 2) n.fail("a grid sampler of another mode");
    GridForm form;
    form.mode = mode == 0 ? "linear" : mode == 1 ? "nearest" : "cubic";
    form.padding = padding == 0 ? "zeros" : padding == 1 ? "border" : "reflection";
    form.aligned = n.boolean("align_corners", false);
    form.clips_elements = mode == 2;
    n.give(grid_sampled(n.b(), n.tensor("input"), n.tensor("grid"), form));
}

// Where each place of a result lies: the last dimension first, from -1 to 1 between the outer edges, or the middles of
// the outer elements where they are aligned, times a matrix for each image.
void affine_grid(Node& n) {
    Builder& b = n.b();
    const Dims size = n.integers("size").value_or(Dims{}), theta = n.type("theta").dims;
    const std::size_t spatial = size.size() < 2 ? 0 : size.size() - 2;
    const Dims image(size.end() - static_cast<std::ptrdiff_t>(spatial), size.end());
    const auto columns = static_cast<std::int64_t>(spatial) + 1;
    if ((spatial != 2 && spatial != 3) || theta != Dims{size[0], columns - 1, columns})
        n.fail("the matrices of an affine grid do not fit its size", {}, fmt::format("for [{}]", to_string(size)),
               to_string(n.type("theta")));
    constexpr std::int64_t most_places = std::int64_t{1} << 22U;  // a program has them as numbers
    if (std::any_of(image.begin(), image.end(), [](std::int64_t d) { return d < 1; }) ||
        element_count(image) > most_places)
        n.fail(fmt::format("an affine grid of [{}] places", to_string(image)), "choose another size");
    const bool aligned = n.boolean("align_corners", false);
    const std::int64_t count = element_count(image);
    Tensor places(Type::tensor(n.type("theta").dtype, {1, count, columns}));
    for (std::int64_t place = 0; place < count; ++place) {
        std::int64_t rest = place;
        for (std::int64_t d = 0; d < columns - 1; ++d) {
            const std::int64_t extent = image[spatial - 1 - static_cast<std::size_t>(d)];
            const auto at = static_cast<double>(rest % extent), last = static_cast<double>(extent - 1);
            rest /= extent;
            const double edge = aligned ? 1 : last / (last + 1);
            places.f[static_cast<std::size_t>(place * columns + d)] = last == 0 ? 0 : (2 * at / last - 1) * edge;
        }
        places.f[static_cast<std::size_t>(place * columns + columns - 1)] = 1;
    }
    const Value grid =
        numpy_matmul(b, b.constant(ConstExpr::dense(std::move(places))), b.transpose(n.tensor("theta"), {0, 2, 1}));
    Dims dims{size[0]};
    dims.insert(dims.end(), image.begin(), image.end());
    dims.push_back(columns - 1);
    n.give(b.reshape(grid, dims));
}

constexpr OpImporter window_importers[] = {
    {"convolution", convolution_op},
    {"_convolution", convolution_op},
    {"_convolution_mode", convolution_op},
    {"conv1d", convolution_op},
    {"conv2d", convolution_op},
    {"conv3d", convolution_op},
    {"conv_transpose1d", convolution_op},
    {"conv_transpose2d", convolution_op},
    {"conv_transpose3d", convolution_op},
    {"max_pool1d", max_pool_op},
    {"max_pool2d", max_pool_op},
    {"max_pool3d", max_pool_op},
    {"max_pool1d_with_indices", max_pool_op},
    {"max_pool2d_with_indices", max_pool_op},
    {"max_pool3d_with_indices", max_pool_op},
    {"avg_pool1d", average_pool_op},
    {"avg_pool2d", average_pool_op},
    {"avg_pool3d", average_pool_op},
    {"adaptive_avg_pool1d", adaptive_average_pool},
    {"adaptive_avg_pool2d", adaptive_average_pool},
    {"adaptive_avg_pool3d", adaptive_average_pool},
    {"_adaptive_avg_pool2d", adaptive_average_pool},
    {"_adaptive_avg_pool3d", adaptive_average_pool},
    {"adaptive_max_pool1d", adaptive_max_pool},
    {"adaptive_max_pool2d", adaptive_max_pool},
    {"adaptive_max_pool3d", adaptive_max_pool},
    {"affine_grid_generator", affine_grid},
    {"grid_sampler", grid_sampler_op},
    {"grid_sampler_2d", grid_sampler_op},
    {"grid_sampler_3d", grid_sampler_op},
    {"im2col", columns_op},
    {"col2im", columns_op},
    {"batch_norm", batch_norm_op},
    {"native_batch_norm", batch_norm_op},
    {"_native_batch_norm_legit", batch_norm_op},
    {"_native_batch_norm_legit_functional", batch_norm_op},
    {"_native_batch_norm_legit_no_training", batch_norm_op},
    {"_batch_norm_with_update_functional", batch_norm_op},
    {"_batch_norm_no_update", batch_norm_op},
    {"upsample_nearest1d", upsampled},
    {"upsample_nearest2d", upsampled},
    {"upsample_nearest3d", upsampled},
    {"_upsample_nearest_exact1d", upsampled},
    {"_upsample_nearest_exact2d", upsampled},
    {"_upsample_nearest_exact3d", upsampled},
    {"upsample_linear1d", upsampled},
    {"upsample_bilinear2d", upsampled},
    {"upsample_trilinear3d", upsampled},
    {"upsample_bicubic2d", upsampled},
    {"_upsample_bilinear2d_aa", upsampled},
    {"_upsample_bicubic2d_aa", upsampled},
};

}  // namespace

std::span<const OpImporter> window_ops() {
    return window_importers;
}

}  // namespace thunderc::aten
