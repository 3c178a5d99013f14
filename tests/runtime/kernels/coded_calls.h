// SPDX-License-Identifier: Apache-2.0
// The runtime's calls that step parameters whose states are codes of 8 bits, on any device.
#pragma once

#include <limits>
#include <optional>

#include "coded_numbers.h"
#include "optim/state_layout.h"
#include "update_calls.h"

namespace thunder {

// By code, of the recorded numbers, which are sorted.
inline std::vector<double> numbers_by_code(bool signs) {
    if (!signs) return numbers_without_signs;
    std::vector<double> out(numbers_with_signs.begin() + 127, numbers_with_signs.end());  // 0 to 1
    for (std::size_t k = 126; k < 127; --k) out.push_back(numbers_with_signs[k]);
    return out;
}

// A matrix of so many elements, whose states are codes in an arena of their own; `first` of its elements in the arenas
// of parameters and gradients.
template <template <typename> typename Memory>
struct CodedMatrix {
    const RuleInfo& rule;
    std::int64_t first, elements;
    StateLayout layout;
    std::vector<ParameterSegment> segments;
    std::unique_ptr<Memory<std::uint8_t>> arena;

    CodedMatrix(const RuleInfo& of, std::int64_t begin, std::int64_t count) : rule(of), first(begin), elements(count) {
        const SteppedTensor tensor = {.begin = first, .shape = {elements}, .coded = true};
        layout = lay_out_states(rule, {&tensor, 1}, first + elements, 4);
        arena =
            std::make_unique<Memory<std::uint8_t>>(std::vector<std::uint8_t>(static_cast<std::size_t>(layout.bytes)));
        segments = {segment(0, elements)};
    }
    // Elements [from, to) of it.
    ParameterSegment segment(std::int64_t from, std::int64_t to) const {
        ParameterSegment s{first + from, first + to, true};
        s.coded = true;
        s.first = from;
        for (std::size_t k = 0; k < rule.states.size(); ++k) {
            s.codes[k] = layout.begins[0][k] + from;
            s.scales[k] = layout.scales[0][k] / 4 + from / rules::block_elements;
        }
        return s;
    }
    std::vector<std::uint8_t> codes(std::size_t state) const {
        const std::vector<std::uint8_t> all = arena->values();
        const auto first_code = all.begin() + layout.begins[0][state];
        return {first_code, first_code + elements};
    }
    std::vector<float> scales(std::size_t state) const {
        const std::vector<std::uint8_t> all = arena->values();
        std::vector<float> out(static_cast<std::size_t>(blocks_of_codes(elements)));
        std::memcpy(out.data(), all.data() + layout.scales[0][state], out.size() * sizeof(float));
        return out;
    }
    std::vector<double> numbers(std::size_t state) const {
        const std::vector<double> known = numbers_by_code(rule.signs[state]);
        const std::vector<std::uint8_t> stored = codes(state);
        const std::vector<float> of_blocks = scales(state);
        std::vector<double> out;
        for (std::size_t i = 0; i < stored.size(); ++i)
            out.push_back(known[stored[i]] * static_cast<double>(of_blocks[i / rules::block_elements]));
        return out;
    }
    void step(Memory<float>& p, const std::vector<float>& gradient, const std::vector<double>& numbers, float clip,
              Stream& stream) {
        Memory<float> g(gradient);
        StepScalars given;
        std::copy(numbers.begin(), numbers.end(), given.rule);
        given.clip_factor = clip;
        Memory<float> scalars(as_floats(given));
        OptimizerUpdate call{.parameters = p.data(),
                             .gradients = g.data(),
                             .segments = segments,
                             .scalars = reinterpret_cast<const StepScalars*>(scalars.data())};
        for (std::size_t k = 0; k < rule.states.size(); ++k) call.states[k] = reinterpret_cast<float*>(arena->data());
        update_of(rule.name)(call, stream);
    }
};

inline float coded_start(std::int64_t k) {
    return static_cast<float>((5 * k + 7) % 13 - 6) / 8;
}
inline float coded_gradient(std::int64_t k, std::int64_t step) {  // from 0
    return static_cast<float>((37 * k + 53 * step) * (step + 7) % 101 - 50) / 64 *
           std::ldexp(1.0F, -static_cast<int>(k % 14));
}
inline std::vector<float> coded_gradients(std::int64_t first, std::int64_t elements, std::int64_t step) {
    std::vector<float> out(static_cast<std::size_t>(first + elements + 3), 77);
    for (std::int64_t k = 0; k < elements; ++k) out[static_cast<std::size_t>(first + k)] = coded_gradient(k, step);
    return out;
}
template <template <typename> typename Memory>
std::unique_ptr<Memory<float>> coded_starts(std::int64_t first, std::int64_t elements) {
    std::vector<float> out(static_cast<std::size_t>(first + elements + 3), 55);
    for (std::int64_t k = 0; k < elements; ++k) out[static_cast<std::size_t>(first + k)] = coded_start(k);
    return std::make_unique<Memory<float>>(out);
}

// Each step from what codes and scales say before it, by the rule in double: parameters to roundings of f32, scales the
// largest magnitude, and codes the number that is nearest, where two are as near to roundings either.
template <template <typename> typename Memory>
void expect_coded_steps(const RuleInfo& rule, Stream& stream) {
    constexpr std::int64_t first = 5, elements = 3 * rules::block_elements + 70;
    constexpr float clip = 0.5;
    CodedMatrix<Memory> matrix(rule, first, elements);
    const auto p = coded_starts<Memory>(first, elements);
    const std::size_t states = rule.states.size();
    for (int step = 0; step < 4; ++step) {
        SCOPED_TRACE(rule.name + ", step " + std::to_string(step));
        const std::vector<float> before = p->values();
        std::vector<std::vector<double>> kept;
        for (std::size_t k = 0; k < states; ++k) kept.push_back(matrix.numbers(k));
        const std::vector<float> gradient = coded_gradients(first, elements, step);
        const std::vector<double> numbers =
            rule.step_numbers(usual_options(rule), {0.01, 0.1, static_cast<double>(step + 1)});
        matrix.step(*p, gradient, numbers, clip, stream);
        const std::vector<float> after = p->values();
        for (std::size_t i = 0; i < elements; ++i) {
            double expected = before[first + i], state[rules::most_states] = {};
            for (std::size_t k = 0; k < states; ++k) state[k] = kept[k][i];
            rule.element(expected, static_cast<double>(clip * gradient[first + i]), state, numbers, true);
            const double moved = std::abs(expected - before[first + i]);
            ASSERT_NEAR(after[first + i], expected, 0x1p-23 + 4e-6 * moved) << i;
            for (std::size_t k = 0; k < states; ++k) kept[k][i] = state[k];
        }
        EXPECT_EQ(after[first - 1], 55);
        EXPECT_EQ(after[first + elements], 55);
        for (std::size_t k = 0; k < states; ++k) {
            SCOPED_TRACE(rule.states[k]);
            const std::vector<double> known = numbers_by_code(rule.signs[k]);
            const std::vector<std::uint8_t> codes = matrix.codes(k);
            const std::vector<float> scales = matrix.scales(k);
            for (std::size_t i = 0; i < elements; ++i) {
                const std::size_t block = i / rules::block_elements * rules::block_elements;
                double largest = 0;
                for (std::size_t j = block; j < std::min<std::size_t>(block + rules::block_elements, elements); ++j)
                    largest = std::max(largest, std::abs(kept[k][j]));
                ASSERT_NEAR(scales[i / rules::block_elements], largest, 2e-6 * largest);
                double nearest = std::numeric_limits<double>::infinity();
                for (const double number : known)
                    if (rule.signs[k] || number > 0 || kept[k][i] == 0)
                        nearest = std::min(nearest, std::abs(number * largest - kept[k][i]));
                ASSERT_LE(std::abs(known[codes[i]] * largest - kept[k][i]), nearest + 4e-6 * std::abs(kept[k][i]))
                    << i << ": " << kept[k][i] << " of " << largest << " as " << known[codes[i]];
            }
        }
    }
}

// A block is of the parameter's own elements: the same bits wherever the parameter lies, and in shards of it.
template <template <typename> typename Memory>
void expect_coded_shards(const RuleInfo& rule, Stream& stream) {
    constexpr std::int64_t elements = 5 * rules::block_elements + 9, cut = 2 * rules::block_elements;
    CodedMatrix<Memory> whole(rule, 0, elements), cut_in_two(rule, 7, elements);
    cut_in_two.segments = {cut_in_two.segment(0, cut), cut_in_two.segment(cut, elements)};
    const auto p = coded_starts<Memory>(0, elements), q = coded_starts<Memory>(7, elements);
    for (int step = 0; step < 3; ++step) {
        const auto numbers = rule.step_numbers(usual_options(rule), {0.01, 0.1, static_cast<double>(step + 1)});
        whole.step(*p, coded_gradients(0, elements, step), numbers, 1, stream);
        cut_in_two.step(*q, coded_gradients(7, elements, step), numbers, 1, stream);
    }
    const std::vector<float> a = p->values(), b = q->values();
    EXPECT_TRUE(std::equal(a.begin(), a.begin() + elements, b.begin() + 7)) << rule.name;
    for (std::size_t k = 0; k < rule.states.size(); ++k) {
        EXPECT_EQ(whole.codes(k), cut_in_two.codes(k)) << rule.name;
        EXPECT_EQ(whole.scales(k), cut_in_two.scales(k)) << rule.name;
    }
}

// A skipped step moves nothing; what is no number is seen in its block, and in no other; a block of zeros stays one.
template <template <typename> typename Memory>
void expect_coded_corners(const RuleInfo& rule, Stream& stream) {
    constexpr std::int64_t block = rules::block_elements, elements = 3 * block;
    CodedMatrix<Memory> matrix(rule, 0, elements);
    const auto p = coded_starts<Memory>(0, elements);
    const auto numbers = rule.step_numbers(usual_options(rule), {0.01, 0, 1});
    std::vector<float> gradient = coded_gradients(0, elements, 1);
    std::fill(gradient.begin() + block, gradient.begin() + 2 * block, 0.0F);
    gradient[2 * block + 3] = std::numeric_limits<float>::quiet_NaN();
    const std::vector<float> before = p->values();
    matrix.step(*p, gradient, numbers, -1, stream);
    EXPECT_EQ(p->values(), before) << rule.name;
    matrix.step(*p, gradient, numbers, 1, stream);
    for (std::size_t k = 0; k < rule.states.size(); ++k) {
        const std::vector<float> scales = matrix.scales(k);
        const std::vector<std::uint8_t> codes = matrix.codes(k);
        EXPECT_TRUE(scales[0] > 0 && std::isfinite(scales[0])) << rule.name;
        EXPECT_EQ(scales[1], 0) << rule.name;
        EXPECT_TRUE(std::all_of(codes.begin() + block, codes.begin() + 2 * block, [](int c) { return c == 0; }))
            << rule.name;
        EXPECT_TRUE(std::isnan(scales[2])) << rule.name;
    }
}

// A hundred steps beside torchao's, which keeps states so too: no further from fp64 than these are. Where a second
// moment is too small for any number but 0, torchao's is 0 and ours is not.
template <template <typename> typename Memory>
void expect_coded_trajectory(const CodedTrajectory& t, Stream& stream) {
    constexpr std::int64_t elements = 64 * 64;
    const RuleInfo& rule = *find_rule(t.rule);
    CodedMatrix<Memory> matrix(rule, 0, elements);
    const auto p = coded_starts<Memory>(0, elements);
    std::vector<double> exact(elements), states(elements * rule.states.size());
    for (std::int64_t k = 0; k < elements; ++k) exact[static_cast<std::size_t>(k)] = coded_start(k);
    for (int step = 0; step < 100; ++step) {
        const auto numbers = rule.step_numbers(t.options, {0.01, t.weight_decay, static_cast<double>(step + 1)});
        const std::vector<float> gradient = coded_gradients(0, elements, step);
        matrix.step(*p, gradient, numbers, 1, stream);
        for (std::size_t k = 0; k < elements; ++k)
            rule.element(exact[k], gradient[k], &states[k * rule.states.size()], numbers, true);
    }
    for (std::size_t k = 0; k < t.exact.size(); ++k) ASSERT_NEAR(exact[k], t.exact[k], 1e-12) << "the rule itself";
    const std::vector<float> after = p->values();
    double squares = 0;
    for (std::size_t k = 0; k < elements; ++k) squares += (after[k] - exact[k]) * (after[k] - exact[k]);
    const double distance = std::sqrt(squares / elements);
    EXPECT_LE(distance, t.distance) << rule.name;
    EXPECT_GT(distance, 1e-4) << "these are no codes of 8 bits";
}

}  // namespace thunder
