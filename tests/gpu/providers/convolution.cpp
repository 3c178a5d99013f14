// SPDX-License-Identifier: Apache-2.0
// Convolutions on a GPU, forward and both gradients, by cuDNN and as products of rows, against plain loops in fp64 on
// the CPU. Then what layers of ResNet-50 take. Prints a line for each; exits with 1 where numbers differ, where cuDNN
// declines a case that it has to take, or where a second run has other bits.
//
//   convolution [--no-cudnn]
#include "device/cuda/convolution/convolution.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "support/error.h"
#include "tensors.h"

using namespace thunder;
using namespace providers;

namespace {

struct Case {
    const char* name;
    ConvolutionForm form;
    bool must_cudnn;  // a graph of cuDNN's has to be found
};

// Windows of one element and of many, strides that leave elements out, gaps, padding of one side alone, groups, one
// channel in each, one and three dimensions.
const Case cases[] = {
    {"3 x 3", {4, 16, 24, 1, {1, 13, 11}, {1, 13, 11}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}, true},
    {"1 x 1", {3, 32, 8, 1, {1, 9, 9}, {1, 9, 9}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}}, true},
    {"7 x 7, every second", {2, 3, 16, 1, {1, 32, 32}, {1, 16, 16}, {1, 7, 7}, {1, 2, 2}, {1, 1, 1}, {0, 3, 3}}, true},
    {"1 x 1, every second", {2, 16, 32, 1, {1, 15, 15}, {1, 8, 8}, {1, 1, 1}, {1, 2, 2}, {1, 1, 1}, {0, 0, 0}}, true},
    {"elements that no window sees",
     {2, 8, 8, 1, {1, 12, 12}, {1, 4, 4}, {1, 2, 2}, {1, 3, 3}, {1, 1, 1}, {0, 0, 0}},
     true},
    {"gaps", {2, 8, 8, 1, {1, 20, 20}, {1, 16, 16}, {1, 3, 3}, {1, 1, 1}, {1, 4, 4}, {0, 2, 2}}, true},
    {"four groups", {2, 16, 32, 4, {1, 10, 10}, {1, 10, 10}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}, true},
    {"a channel in each group",
     {2, 32, 32, 32, {1, 14, 14}, {1, 14, 14}, {1, 7, 7}, {1, 1, 1}, {1, 1, 1}, {0, 3, 3}},
     true},
    {"padding behind alone", {2, 8, 8, 1, {1, 10, 10}, {1, 10, 10}, {1, 2, 2}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}}, false},
    {"one dimension", {2, 8, 16, 1, {1, 1, 50}, {1, 1, 25}, {1, 1, 3}, {1, 1, 2}, {1, 1, 1}, {0, 0, 1}}, true},
    {"three dimensions", {2, 4, 8, 1, {6, 7, 8}, {6, 7, 8}, {3, 3, 3}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, true},
};

// Sums of f32: the unit of the last place, 2^-24, grows at most with the square root of the 2,000 products of the
// longest sum where errors are independent, here to 3e-6; transforms of tiles (Winograd's, F(4, 3) at most) lose one
// digit more.
constexpr double tolerance = 3e-5;

Doubles drawn(const Tensor& to, std::int64_t n, std::mt19937& generator, Stream& stream) {
    std::normal_distribution<float> normal;
    std::vector<float> numbers(static_cast<std::size_t>(n));
    for (float& x : numbers) x = normal(generator);
    to.set(numbers.data(), stream);
    return {numbers.begin(), numbers.end()};
}

// Calls body(element of x, of the weight, of y) for each product of the sums, of some images and filters in turn.
template <typename Body>
void for_each_product(const ConvolutionForm& f, Body&& body) {
    const std::int64_t depth = f.C / f.groups, filters = f.M / f.groups, places = count(f.window);
    for (std::int64_t n = 0; n < f.N; ++n)
        for (std::int64_t m = 0; m < f.M; ++m)
            for (std::int64_t s = 0; s < f.steps(); ++s)
                for (std::int64_t k = 0; k < places; ++k) {
                    std::int64_t step = s, place = k, element = 0, size = 1;
                    bool inside = true;
                    for (std::size_t d = 3; d-- > 0;) {
                        const std::int64_t i =
                            step % f.out[d] * f.strides[d] + place % f.window[d] * f.dilations[d] - f.before[d];
                        inside = inside && i >= 0 && i < f.in[d];
                        element += i * size;
                        step /= f.out[d], place /= f.window[d], size *= f.in[d];
                    }
                    if (!inside) continue;
                    for (std::int64_t c = 0; c < depth; ++c)
                        body((n * f.C + m / filters * depth + c) * count(f.in) + element, (m * depth + c) * places + k,
                             (n * f.M + m) * f.steps() + s);
                }
}

struct Provider {
    const char* name;
    std::function<bool(const ConvolutionForward&, Stream&)> forward;
    std::function<bool(const ConvolutionBackwardInput&, Stream&)> input;
    std::function<bool(const ConvolutionBackwardWeight&, Stream&)> weight;
};

// A form's tensors on the GPU, and its calls.
struct Calls {
    Calls(const ConvolutionForm& f, Device& device)
        : elements{f.N * f.C * count(f.in), f.M * f.depth(), f.N * f.M * f.steps()},
          x(device, bytes(0)),
          weight(device, bytes(1)),
          y(device, bytes(2)),
          dx(device, bytes(0)),
          dweight(device, bytes(1)),
          dy(device, bytes(2)),
          bias(device, static_cast<std::size_t>(f.M) * sizeof(float)),
          dbias(device, static_cast<std::size_t>(std::max(f.C, f.M)) * sizeof(float)) {
        const auto in = [](const Tensor& t) { return providers::input(t.at(), DType::f32); };
        const auto out = [](const Tensor& t) { return providers::output(t.at(), DType::f32); };
        forward = {.y = out(y), .x = in(x), .weight = in(weight), .form = f};
        backward_input = {.dx = out(dx), .dy = in(dy), .weight = in(weight), .form = f};
        backward_weight = {.dweight = out(dweight), .dy = in(dy), .x = in(x), .form = f};
        // The same with all that follows: residuals are the cotangents, which have the sizes.
        finished = forward;
        finished.bias = in(bias);
        finished.residual = in(dy);
        finished_input = backward_input;
        finished_input.bias = in(dbias);
        finished_input.residual = in(x);
    }
    std::size_t bytes(std::size_t k) const { return static_cast<std::size_t>(elements[k]) * sizeof(float); }

    std::array<std::int64_t, 3> elements;               // of x, the weight, y
    Tensor x, weight, y, dx, dweight, dy, bias, dbias;  // dbias: as long as a bias of x, too
    ConvolutionForward forward, finished;
    ConvolutionBackwardInput backward_input, finished_input;
    ConvolutionBackwardWeight backward_weight;
};

bool check(const Case& c, const Provider& provider, bool must, Device& device, Stream& stream) {
    std::mt19937 generator(7);
    Calls calls(c.form, device);
    const Doubles x = drawn(calls.x, calls.elements[0], generator, stream),
                  weight = drawn(calls.weight, calls.elements[1], generator, stream),
                  dy = drawn(calls.dy, calls.elements[2], generator, stream);
    const Doubles bias = drawn(calls.bias, c.form.M, generator, stream),
                  input_bias = drawn(calls.dbias, std::max(c.form.C, c.form.M), generator, stream);
    Doubles y(dy.size()), dx(x.size()), dweight(weight.size());
    for_each_product(c.form, [&](std::int64_t i, std::int64_t k, std::int64_t s) {
        y[s] += x[i] * weight[k];
        dx[i] += dy[s] * weight[k];
        dweight[k] += dy[s] * x[i];
    });
    const std::int64_t steps = c.form.steps(), elements = count(c.form.in);
    Doubles finished = y, finished_input = dx, dbias(static_cast<std::size_t>(c.form.M));
    for (std::size_t k = 0; k < y.size(); ++k) {
        const auto m = static_cast<std::size_t>(static_cast<std::int64_t>(k) / steps % c.form.M);
        finished[k] += bias[m] + dy[k];
        dbias[m] += dy[k];
    }
    for (std::size_t k = 0; k < dx.size(); ++k)
        finished_input[k] +=
            input_bias[static_cast<std::size_t>(static_cast<std::int64_t>(k) / elements % c.form.C)] + x[k];
    const auto with_relu = [](Doubles numbers, const Doubles& residual) {
        for (std::size_t k = 0; k < numbers.size(); ++k)
            numbers[k] = std::max(numbers[k] - residual[k], 0.0) + residual[k];
        return numbers;
    };
    Doubles twice = dweight;
    for (double& number : twice) number *= 2;
    // What is not written is seen.
    for (const Tensor* t : {&calls.y, &calls.dx, &calls.dweight}) {
        const std::vector<float> nan(t->get<float>(stream).size(), NAN);
        t->set(nan.data(), stream);
    }
    const auto numbers = [&](const Tensor& t) {
        const std::vector<float> all = t.get<float>(stream);
        return Doubles(all.begin(), all.end());
    };
    bool good = true;
    std::string line;
    const auto one = [&](const char* name, const std::function<bool()>& call, const Tensor& made,
                         const Doubles& expected, bool repeats) {
        line += std::string(line.empty() ? "" : ", ") + name;
        if (!call()) {
            line += " is not taken";
            good = good && !must;
            return;
        }
        const Doubles first = numbers(made);
        const double error = distance(expected, first);
        bool same = true;
        if (repeats) {
            call();
            same = numbers(made) == first;
        }
        char text[64];
        std::snprintf(text, sizeof text, " %.1e%s", error, same ? "" : " (other bits in a second run)");
        line += text;
        good = good && error < tolerance && same;
    };
    one(
        "y", [&] { return provider.forward(calls.forward, stream); }, calls.y, y, true);
    one(
        "dx", [&] { return provider.input(calls.backward_input, stream); }, calls.dx, dx, true);
    one(
        "dw", [&] { return provider.weight(calls.backward_weight, stream); }, calls.dweight, dweight, true);
    one(
        "y + b + r", [&] { return provider.forward(calls.finished, stream); }, calls.y, finished, true);
    one(
        "dx + b + r", [&] { return provider.input(calls.finished_input, stream); }, calls.dx, finished_input, true);
    calls.finished.activation = calls.finished_input.activation = Activation::relu;
    one(
        "relu(y + b) + r", [&] { return provider.forward(calls.finished, stream); }, calls.y, with_relu(finished, dy),
        true);
    one(
        "relu(dx + b) + r", [&] { return provider.input(calls.finished_input, stream); }, calls.dx,
        with_relu(finished_input, x), true);
    calls.backward_weight.dbias = providers::output(calls.dbias.at(), DType::f32);
    one(
        "dw, db", [&] { return provider.weight(calls.backward_weight, stream); }, calls.dweight, dweight, true);
    {
        Doubles made = numbers(calls.dbias);
        made.resize(dbias.size());
        const double error = distance(dbias, made);
        good = good && error < tolerance;
        char text[32];
        std::snprintf(text, sizeof text, " %.1e", error);
        line += text;
    }
    calls.backward_weight.dbias = {};
    calls.backward_weight.mode = WriteMode::add;
    one(
        "dw added", [&] { return provider.weight(calls.backward_weight, stream); }, calls.dweight, twice, false);
    std::printf("%s %s, %s: %s\n", good ? "ok  " : "FAIL", provider.name, c.name, line.c_str());
    return good;
}

void time_layer(const char* name, const ConvolutionForm& f, const Provider& provider, Device& device, Stream& stream) {
    std::mt19937 generator(7);
    Calls calls(f, device);
    drawn(calls.x, calls.elements[0], generator, stream);
    drawn(calls.weight, calls.elements[1], generator, stream);
    drawn(calls.dy, calls.elements[2], generator, stream);
    const double flops = 2.0 * static_cast<double>(calls.elements[2]) * static_cast<double>(f.depth());
    const auto of = [&](const auto& pass, const auto& call) {
        const double ms = milliseconds([&] { pass(call, stream); }, stream);
        char text[64];
        std::snprintf(text, sizeof text, "%.3f ms (%.0f TFLOP/s)", ms, flops / ms / 1e9);
        return std::string(text);
    };
    std::printf("%s, %s: forward %s, dx %s, dw %s\n", provider.name, name, of(provider.forward, calls.forward).c_str(),
                of(provider.input, calls.backward_input).c_str(), of(provider.weight, calls.backward_weight).c_str());
}

int run(bool with_cudnn) {
    Device device;
    Stream stream(device);
    const Provider rows{
        "rows", [](const ConvolutionForward& c, Stream& s) { return convolution_by_rows(c, 0, s), true; },
        [](const ConvolutionBackwardInput& c, Stream& s) { return convolution_by_rows(c, 0, s), true; },
        [](const ConvolutionBackwardWeight& c, Stream& s) { return convolution_by_rows(c, 0, s), true; }};
    const Provider cudnn{
        "cuDNN", [](const ConvolutionForward& c, Stream& s) { return cudnn_convolution(c, false, 0, s); },
        [](const ConvolutionBackwardInput& c, Stream& s) { return cudnn_convolution(c, false, 0, s); },
        [](const ConvolutionBackwardWeight& c, Stream& s) { return cudnn_convolution(c, false, 0, s); }};
    bool good = true;
    for (const Case& c : cases) {
        if (with_cudnn) good = check(c, cudnn, c.must_cudnn, device, stream) && good;
        good = check(c, rows, true, device, stream) && good;
    }
    const std::pair<const char*, ConvolutionForm> layers[] = {
        {"64 images of 64 x 56 x 56, 3 x 3",
         {64, 64, 64, 1, {1, 56, 56}, {1, 56, 56}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}},
        {"64 images of 256 x 14 x 14, 3 x 3",
         {64, 256, 256, 1, {1, 14, 14}, {1, 14, 14}, {1, 3, 3}, {1, 1, 1}, {1, 1, 1}, {0, 1, 1}}},
        {"64 images of 256 x 56 x 56, 1 x 1 to 64",
         {64, 256, 64, 1, {1, 56, 56}, {1, 56, 56}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {0, 0, 0}}}};
    DeviceOptions rounding;
    rounding.tf32 = true;
    Device other(rounding);
    Stream its(other);
    for (const auto& [name, form] : layers) {
        time_layer(name, form, rows, device, stream);
        if (!with_cudnn) continue;
        time_layer(name, form, cudnn, device, stream);
        time_layer(name, form, {"cuDNN, --tf32", cudnn.forward, cudnn.input, cudnn.weight}, other, its);
    }
    return good ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
    try {
        return run(argc < 2 || std::strcmp(argv[1], "--no-cudnn") != 0);
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}
