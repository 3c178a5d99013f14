// SPDX-License-Identifier: Apache-2.0
#include "compiler/check/gradient_check.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "compiler/ir/function_tools.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// SplitMix64 (Steele, Lea and Flood, 2014): small, and the same everywhere, which <random>'s distributions are not.
class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t bits() {
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
        z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
        return z ^ (z >> 31);
    }
    double uniform() { return static_cast<double>(bits() >> 11) * 0x1p-53; }
    std::int64_t below(std::int64_t n) { return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(n)); }
    double normal() {  // Box and Muller, 1958
        double radius = std::sqrt(-2 * std::log(1 - uniform()));
        return radius * std::cos(2 * 3.14159265358979323846 * uniform());
    }

  private:
    std::uint64_t state_;
};

double value_of(const ArgInfo& info, const Type& type, std::int64_t index, Random& random) {
    const bool integer = !is_float(type.dtype);
    const ArgInfo::Ids ids = info.ids_at(type, index);
    const bool one_is_fine = !integer || ids.entries < 0 || ids.entries > 1;
    if (info.kind == ArgInfo::Kind::scalar || (info.source == "ones" && one_is_fine)) return 1;
    if (info.source == sample_numbers_source) return static_cast<double>(index);
    if (info.source == "positions") {
        const std::int64_t position = index % (type.dims.empty() ? 1 : type.dims.back());
        return static_cast<double>(ids.entries > 0 ? position % ids.entries : position);
    }
    if (integer && ids.entries > 0) {
        if (ids.ignore_index != 0 && random.below(8) == 0) return static_cast<double>(ids.ignore_index);
        return static_cast<double>(random.below(ids.entries));
    }
    if (integer) return static_cast<double>(random.below(2));
    if (info.kind != ArgInfo::Kind::parameter) return random.normal();
    if (type.rank() <= 1) return 1 + 0.3 * random.normal();
    return random.normal() / std::sqrt(static_cast<double>(type.dims.back()));
}

struct Point {  // one element of one parameter
    std::size_t argument, member;
    std::int64_t index;
};

class Checker {
  public:
    Checker(const Module& module, std::span<const Members> arguments)
        : module_(module), arguments_(arguments.begin(), arguments.end()), loss_(module.main()) {
        loss_.results.resize(1);
        loss_.result_names.clear();
        remove_dead_ops(loss_);
        const Function& main = module.main();
        for (std::size_t k = 0; k < main.arguments.size(); ++k) {
            const ArgInfo& info = main.argument_info.at(k);
            if (info.kind == ArgInfo::Kind::scalar && info.names == std::vector<std::string>{"dloss"})
                scale_ = arguments[k].at(0).at(0);
            if (info.kind == ArgInfo::Kind::parameter && info.trainable && is_float(main.type(main.arguments[k]).dtype))
                trainable_.push_back(k);
        }
        std::vector<Members> results = evaluate(module, main, arguments_);
        check(results.size() > trainable_.size(), "a gradient is missing");
        gradients_.assign(results.end() - static_cast<std::ptrdiff_t>(trainable_.size()), results.end());
        for (const Members& members : gradients_)
            for (const Tensor& t : members)
                for (double x : t.f) norm_ += x * x;
        norm_ = std::sqrt(norm_);
        EvaluateOptions keep;
        keep.at_stop = [this](Tensor& t) { stopped_.push_back(t); };
        evaluate(module_, loss_, std::span<const Members>(arguments_), keep);
    }

    std::vector<GradientCheck> run(const GradientCheckOptions& options) {
        std::vector<GradientCheck> out;
        Random random(options.seed);
        for (std::int64_t d = 0; d < options.directions; ++d) {
            std::vector<Members> direction = gradients_;
            double length = 0;
            for (Members& members : direction)
                for (Tensor& t : members)
                    for (double& x : t.f) {
                        x = random.normal();
                        length += x * x;
                    }
            length = std::sqrt(length);
            double actual = 0;
            for (std::size_t p = 0; p < direction.size(); ++p)
                for (std::size_t m = 0; m < direction[p].size(); ++m)
                    for (std::size_t k = 0; k < direction[p][m].f.size(); ++k) {
                        direction[p][m].f[k] /= length;
                        actual += direction[p][m].f[k] * gradients_[p][m].f[k];
                    }
            out.push_back(compare(fmt::format("direction {}", d), direction, actual, options.step));
        }
        const Function& main = module_.main();
        for (std::size_t p = 0; p < trainable_.size(); ++p)
            for (std::size_t m = 0; m < gradients_[p].size(); ++m) {
                const std::int64_t size = gradients_[p][m].size();
                const bool all = options.elements >= size;
                for (std::int64_t k = 0; k < std::min(options.elements, size); ++k) {
                    std::vector<Members> direction = gradients_;
                    for (Members& members : direction)
                        for (Tensor& t : members) std::fill(t.f.begin(), t.f.end(), 0.0);
                    const std::int64_t index = all ? k : drawn(gradients_[p][m], k % 2 == 0, random);
                    direction[p][m].set(index, 1);
                    const std::string& name = main.argument_info[trainable_[p]].names.at(m);
                    out.push_back(compare(fmt::format("{}[{}]", name, index), direction, gradients_[p][m].at(index),
                                          options.step));
                }
            }
        return out;
    }

  private:
    // An element; `telling`: of those whose gradient is not 0, where there are any. Of the rows of an embedding that no
    // id names little is learnt, but a 0 may be wrong too.
    static std::int64_t drawn(const Tensor& gradient, bool telling, Random& random) {
        const auto zeros = std::count(gradient.f.begin(), gradient.f.end(), 0.0);
        const std::int64_t others = gradient.size() - zeros;
        if (!telling || others == 0) return random.below(gradient.size());
        std::int64_t before = random.below(others), index = 0;
        while (gradient.f[static_cast<std::size_t>(index)] == 0 || before-- > 0) ++index;
        return index;
    }

    double loss_at(const std::vector<Members>& direction, double step) {
        std::vector<Members> arguments = arguments_;
        for (std::size_t p = 0; p < trainable_.size(); ++p)
            for (std::size_t m = 0; m < direction[p].size(); ++m)
                for (std::size_t k = 0; k < direction[p][m].f.size(); ++k)
                    arguments[trainable_[p]][m].f[k] += step * direction[p][m].f[k];
        EvaluateOptions hold;
        std::size_t next = 0;
        hold.at_stop = [&](Tensor& t) { t = stopped_.at(next++); };
        return scale_ * evaluate(module_, loss_, std::span<const Members>(arguments), hold).at(0).at(0).at(0);
    }

    // Fourth order: (8 (f(h) - f(-h)) - (f(2h) - f(-2h))) / 12h.
    double slope(const std::vector<Members>& direction, double h) {
        return (8 * (loss_at(direction, h) - loss_at(direction, -h)) -
                (loss_at(direction, 2 * h) - loss_at(direction, -2 * h))) /
               (12 * h);
    }

    // Second order, to one side: (-3 f(0) + 4 f(h) - f(2h)) / 2h; h < 0 for the other.
    double one_sided(const std::vector<Members>& direction, double h) {
        return (-3 * loss_at(direction, 0) + 4 * loss_at(direction, h) - loss_at(direction, 2 * h)) / (2 * h);
    }

    // What one rounding of the loss changes in a slope.
    double rounding_of_slope(const std::vector<Members>& direction, double h) {
        return 0x1p-52 * std::abs(loss_at(direction, 0)) / h;
    }

    double size(double a, double b) const { return std::abs(a) + std::abs(b) + 1e-4 * norm_ + 1e-300; }

    void set_expected(GradientCheck& c, double expected) const {
        c.expected = expected;
        c.error = std::abs(c.actual - expected) / size(c.actual, expected);
    }

    // The slopes to both sides where they differ, by as much at a smaller step: curvature would make that less.
    std::optional<std::pair<double, double>> kink(const std::vector<Members>& direction, double h) {
        const double right = one_sided(direction, h), left = one_sided(direction, -h);
        const double near_right = one_sided(direction, h / refinement),
                     near_left = one_sided(direction, -h / refinement);
        const double jump = std::abs(near_right - near_left);
        const double rounding = 16 * rounding_of_slope(direction, h / refinement);
        if (jump < 1e-4 * size(near_right, near_left) + rounding || jump < std::abs(right - left) / 2)
            return std::nullopt;
        return std::minmax(near_left, near_right);
    }

    GradientCheck compare(std::string what, const std::vector<Members>& direction, double actual, double h) {
        GradientCheck out;
        out.what = std::move(what);
        out.actual = actual;
        double before = slope(direction, h);
        set_expected(out, before);
        constexpr double settled = 1e-7;
        if (out.error <= settled) return out;
        double agreement = HUGE_VAL;
        for (int k = 0; k < refinements; ++k) {
            h /= refinement;
            const double finer = slope(direction, h);
            // Slopes that agree because rounding hides every change of the loss say nothing.
            const double change = std::abs(finer - before) + rounding_of_slope(direction, h);
            // Of the two that agree best either may be the better one: the finer by truncation, the other by rounding.
            const double nearest = std::abs(finer - actual) < std::abs(before - actual) ? finer : before;
            if (change < agreement) set_expected(out, nearest);
            agreement = std::min(agreement, change);
            before = finer;
        }
        if (out.error <= settled) return out;
        if (auto sides = kink(direction, h * refinement * refinement)) {
            out.kink = true;
            set_expected(out, std::clamp(actual, sides->first, sides->second));
        }
        return out;
    }

    // Of a step of 1e-4 the last is 3e-9, where cancellation leaves some seven digits of a loss of about 1.
    static constexpr int refinements = 5;
    static constexpr double refinement = 8;

    const Module& module_;
    std::vector<Members> arguments_;
    Function loss_;
    double scale_ = 1, norm_ = 0;
    std::vector<std::size_t> trainable_;  // arguments
    std::vector<Members> gradients_;      // of these
    std::vector<Tensor> stopped_;         // what stops of the gradient give, in the order in which they are evaluated
};

}  // namespace

std::vector<Members> random_arguments(const Function& main, std::uint64_t seed) {
    Random random(seed);
    std::vector<Members> out;
    for (std::size_t a = 0; a < main.arguments.size(); ++a) {
        const Type& type = main.type(main.arguments[a]);
        const ArgInfo& info = main.argument_info.at(a);
        out.emplace_back();
        for (std::int64_t m = 0; m < (type.is_family() ? type.count : 1); ++m) {
            Tensor t(type.member());
            for (std::int64_t k = 0; k < t.size(); ++k) t.set(k, value_of(info, type, k, random));
            out.back().push_back(std::move(t));
        }
    }
    return out;
}

std::vector<GradientCheck> check_gradients(const Module& module, std::span<const Members> arguments,
                                           const GradientCheckOptions& options) {
    return Checker(module, arguments).run(options);
}

}  // namespace thunderc
