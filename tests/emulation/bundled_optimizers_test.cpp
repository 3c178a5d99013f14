// The runtime's own optimizers for GPUs, and the scalars of a step, on the emulated GPU: against the formulas in
// double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "device/menu.h"
#include "emulation/bundled.h"
#include "optim/adamw.h"
#include "optim/cuda/pieces.h"
#include "optim/global_norm.h"
#include "optim/sgd.h"

namespace thunder {

// What the emulated device has of the host's calls.
PieceTable pieces_of(std::span<const ParameterSegment> segments, Stream&) {
    static std::unique_ptr<emulation::Buffer<std::int64_t>> numbers;  // of the call that runs
    const std::vector<std::int64_t> cut = cut_segments(segments);
    numbers = std::make_unique<emulation::Buffer<std::int64_t>>("pieces", cut);
    return {numbers->data(), static_cast<std::int64_t>(cut.size()) / numbers_of_piece};
}

namespace {

// StepScalars in the memory of the emulated device.
struct ScalarsOnDevice {
    explicit ScalarsOnDevice(const StepScalars& scalars) : bytes("scalars", sizeof scalars / sizeof(float)) {
        std::memcpy(bytes.data(), &scalars, sizeof scalars);
        emulation::Allocation::find(bytes.data())->set_written(true);
    }
    StepScalars* get() { return reinterpret_cast<StepScalars*>(bytes.data()); }
    Buffer<float> bytes;
};

StepScalars some_scalars() {
    StepScalars s;
    s.learning_rate = 0.01;
    s.beta1 = 0.9;
    s.beta2 = 0.99;
    s.eps = 1e-6;
    s.weight_decay = 0.1;
    s.momentum = 0.8;
    s.bias_correction1 = 1 - 0.9 * 0.9;
    s.bias_correction2_sqrt = std::sqrt(1 - 0.99 * 0.99);
    s.max_grad_norm = 1;
    s.clip_factor = 0.5F;
    s.loss_weight = 8;
    return s;
}

const ParameterSegment segments[] = {{0, 37, true}, {64, 20000, false}, {20003, 20010, true}};

// f32: a few roundings of numbers of size 1; what is stored as bf16 is rounded once more, by up to 2^-8 of itself.
template <typename T>
constexpr double rounding = std::is_same_v<T, float> ? 1e-6 : 0x1.001p-8;
template <typename T>
constexpr double size = std::is_same_v<T, float> ? 1 : 1e-6 / rounding<T>;

template <typename T>
std::vector<double> widened(const std::vector<T>& values) {
    std::vector<double> out;
    for (const T x : values) out.push_back(static_cast<double>(wide(x)));
    return out;
}

// Shadows are the parameters of `p`, rounded.
template <typename P>
void expect_shadows(Buffer<bf16>& shadows, Buffer<P>& p, const std::vector<float>& before) {
    const std::vector<bf16> got = shadows.values();
    const std::vector<P> stored = p.values();
    std::size_t next = 0;
    for (const ParameterSegment& segment : segments) {
        for (; next < static_cast<std::size_t>(segment.begin); ++next)
            ASSERT_EQ(wide(got[next]), wide(to_bf16(before[next]))) << "written between segments at " << next;
        for (; next < static_cast<std::size_t>(segment.end); ++next)
            ASSERT_EQ(wide(got[next]), wide(to_bf16(wide(stored[next])))) << "at " << next;
    }
}

struct BundledOptimizers : Bundled {
    template <typename P, typename G, typename S>
    void check_adamw(bool shadowed) {
        const StepScalars s = some_scalars();
        ScalarsOnDevice scalars(s);
        const std::vector<P> p0 = stored<P>(random(20032));
        const std::vector<G> g0 = stored<G>(random(20032));
        const std::vector<S> m0 = stored<S>(random(20032));
        std::vector<float> squares = random(20032);
        for (float& v : squares) v = std::abs(v);
        const std::vector<S> v0 = stored<S>(squares);
        const std::vector<float> old = random(20032);
        Buffer<P> p("p", p0);
        Buffer<G> g("g", g0);
        Buffer<S> m("m", m0), v("v", v0);
        Buffer<bf16> shadows("shadows", rounded(old));
        adamw({.parameters = p.data(),
               .gradients = g.data(),
               .first_moments = m.data(),
               .second_moments = v.data(),
               .shadows = shadowed ? Output(shadows.data()) : Output(),
               .segments = segments,
               .scalars = scalars.get()},
              stream);
        std::vector<double> p1 = widened(p0), m1 = widened(m0), v1 = widened(v0);
        for (const ParameterSegment& segment : segments) {
            for (auto i = static_cast<std::size_t>(segment.begin); i < static_cast<std::size_t>(segment.end); ++i) {
                const double gradient = 0.5 * static_cast<double>(wide(g0[i]));
                m1[i] += (1 - s.beta1) * (gradient - m1[i]);
                v1[i] = s.beta2 * v1[i] + (1 - s.beta2) * gradient * gradient;
                if (segment.decay) p1[i] *= 1 - s.learning_rate * s.weight_decay;
                p1[i] -=
                    s.learning_rate / s.bias_correction1 * m1[i] / (std::sqrt(v1[i]) / s.bias_correction2_sqrt + s.eps);
            }
        }
        expect_close(p.values(), p1, rounding<P>, size<P>, "p");
        expect_close(m.values(), m1, rounding<S>, size<S>, "m");
        expect_close(v.values(), v1, rounding<S>, size<S>, "v");
        if (shadowed) expect_shadows(shadows, p, old);
    }

    template <typename P, typename G, typename S>
    void check_sgd(bool momentum, bool shadowed) {
        const StepScalars s = some_scalars();
        ScalarsOnDevice scalars(s);
        const std::vector<P> p0 = stored<P>(random(20032));
        const std::vector<G> g0 = stored<G>(random(20032));
        const std::vector<S> b0 = stored<S>(random(20032));
        const std::vector<float> old = random(20032);
        Buffer<P> p("p", p0);
        Buffer<G> g("g", g0);
        Buffer<S> b("b", b0);
        Buffer<bf16> shadows("shadows", rounded(old));
        sgd({.parameters = p.data(),
             .gradients = g.data(),
             .momentum_buffers = momentum ? Output(b.data()) : Output(),
             .shadows = shadowed ? Output(shadows.data()) : Output(),
             .segments = segments,
             .scalars = scalars.get()},
            stream);
        std::vector<double> p1 = widened(p0), b1 = widened(b0);
        for (const ParameterSegment& segment : segments) {
            for (auto i = static_cast<std::size_t>(segment.begin); i < static_cast<std::size_t>(segment.end); ++i) {
                double step = 0.5 * static_cast<double>(wide(g0[i])) + (segment.decay ? s.weight_decay * p1[i] : 0);
                if (momentum) step = b1[i] = s.momentum * b1[i] + step;
                p1[i] -= s.learning_rate * step;
            }
        }
        expect_close(p.values(), p1, rounding<P>, size<P>, "p");
        expect_close(b.values(), b1, rounding<S>, size<S>, "b");
        if (shadowed) expect_shadows(shadows, p, old);
    }

    template <typename T>
    void check_norm(const std::vector<float>& gradients) {
        ScalarsOnDevice scalars(some_scalars());
        const std::vector<T> g0 = stored<T>(gradients);
        Buffer<T> g("g", g0);
        global_norm(scalars.get(), g.data(), static_cast<std::int64_t>(g0.size()), stream);
        double sum = 0;
        for (const T x : g0) sum += static_cast<double>(wide(x)) * static_cast<double>(wide(x));
        EXPECT_NEAR(scalars.get()->grad_norm, std::sqrt(sum), 1e-6 * std::sqrt(sum));
        EXPECT_NEAR(scalars.get()->clip_factor, std::min(1.0, 1 / (std::sqrt(sum) + 1e-6)), 1e-6);
    }
};

TEST_F(BundledOptimizers, AdamW) {
    check_adamw<float, float, float>(false);
    check_adamw<float, float, float>(true);
    check_adamw<float, bf16, float>(true);
    check_adamw<float, float, bf16>(true);
    check_adamw<float, bf16, bf16>(true);
    check_adamw<bf16, float, float>(false);
    check_adamw<bf16, bf16, bf16>(false);
}

TEST_F(BundledOptimizers, SgdWithAndWithoutMomentum) {
    for (const bool momentum : {false, true}) {
        check_sgd<float, float, float>(momentum, false);
        check_sgd<float, float, float>(momentum, true);
        check_sgd<float, bf16, bf16>(momentum, true);
        check_sgd<bf16, bf16, float>(momentum, false);
        check_sgd<bf16, bf16, bf16>(momentum, false);
    }
}

TEST_F(BundledOptimizers, GlobalNormAndClipping) {
    for (const std::int64_t elements : {5, 16384, 50001}) {
        check_norm<float>(random(elements));
        check_norm<bf16>(random(elements));
    }
}

TEST_F(Bundled, ScalarsOfAStep) {
    ScalarsOnDevice scalars(some_scalars());
    begin_micro_step(scalars.get(), Gradient::add, stream);
    EXPECT_FALSE(scalars.get()->first_micro_step);
    begin_micro_step(scalars.get(), Gradient::overwrite, stream);
    EXPECT_TRUE(scalars.get()->first_micro_step);
    seed_loss(scalars.get(), stream);
    EXPECT_EQ(scalars.get()->dloss, 0.125F);
}

}  // namespace
}  // namespace thunder
