// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "rule.h"

namespace thunder::rules {

// The second moment of a matrix is kept as the means of its rows and of its columns. Each tensor is stepped as a whole:
// by a part of its own size, and no further than the mean of its steps lets it.
struct Adafactor : DecoupledDecay {
    static constexpr const char *name = "adafactor", *title = "Adafactor";
    static constexpr const char* formula =
        "g = clip_factor gradient; a = max(eps2, rms(p)) min(learning_rate, 1 / sqrt(step)); w = step^-beta2_decay; "
        "p (1 - learning_rate weight_decay) where it decays; of two or more dimensions r = r + w (mean of g g along "
        "rows - r), c = c + w (mean of g g along columns - c), v = r c / max(mean of r, eps1), of all else v = v + w "
        "(g "
        "g - v); u = g / sqrt(max(v, eps1^2)); p - a u / max(1, rms(u) / update_clip)";
    static constexpr const char* source =
        "torch.optim.Adafactor; Shazeer and Stern, Adafactor: Adaptive Learning Rates with Sublinear Memory Cost, 2018";
    static constexpr double usual_weight_decay = 0;

    THUNDER_FIELDS(States, row, column, variance);
    static constexpr const char* stored_states = "row_var, col_var, variance";
    static constexpr bool steps_every_tensor = true;
    static constexpr StateShape shapes_of_matrices[] = {StateShape::rows, StateShape::columns, StateShape::none};
    static constexpr StateShape shapes_of_vectors[] = {StateShape::none, StateShape::none, StateShape::as_parameter};

    THUNDER_FIELDS(Options, beta2_decay, eps1, eps2, update_clip);
    static constexpr Option options[] = {
        {0.8, Range::not_negative,
         "Adafactor's second moments go by step^-X of what is new; torch's beta2_decay is -X"},
        {1.1920928955078125e-07, Range::not_negative,
         "Adafactor's least root of a second moment: that of f32, as torch has it"},
        {1e-3, Range::not_negative, "Adafactor's least size of a tensor, by which its steps go"},
        {1, Range::positive, "Adafactor's largest root of the mean square of a step: torch's d"}};

    THUNDER_FIELDS(Numbers, part, rate, eps1, eps1_squared, eps2, update_clip, kept);
    THUNDER_RULE Numbers<double> numbers(const Options<double>& o, const Step& step) {
        const double most = 1 / sqrt(step.number);
        return {.part = pow(step.number, -o.beta2_decay),
                .rate = step.learning_rate < most ? step.learning_rate : most,
                .eps1 = o.eps1,
                .eps1_squared = o.eps1 * o.eps1,
                .eps2 = o.eps2,
                .update_clip = o.update_clip,
                .kept = 1 - step.learning_rate * step.weight_decay};
    }

    // ---- of tensors or of numbers
    template <typename X, typename N>
    THUNDER_RULE X followed(X moment, X squares, const Numbers<N>& n) {
        return moment + n.part * (squares - moment);
    }
    // Of the estimate of the second moment.
    template <typename X, typename N>
    THUNDER_RULE X direction(X g, X estimate, const Numbers<N>& n) {
        return g / root(at_least(estimate, n.eps1_squared));
    }
    // What u is multiplied with, from the roots of the mean squares of the parameter and of u.
    template <typename N>
    THUNDER_RULE N way(N of_parameter, N of_direction, const Numbers<N>& n) {
        return n.rate * at_least(of_parameter, n.eps2) / at_least(of_direction / n.update_clip, N(1));
    }

#ifndef __CUDACC_RTC__
    // All of it, of X that has means along rows and columns.
    template <typename X, typename N>
    static void tensor(X& p, const X& g, States<X&> s, const Numbers<N>& n, bool matrix) {
        const X squares = g * g;
        X estimate = squares;
        if (matrix) {
            s.row = followed(s.row, X(mean_of_rows(squares)), n);
            s.column = followed(s.column, X(mean_of_columns(squares)), n);
            const X mean = at_least(mean_of_rows(s.row), n.eps1);
            estimate = along_rows(s.row) * along_columns(s.column) / along_rows(along_rows(mean));
        } else {
            s.variance = followed(s.variance, squares, n);
            estimate = s.variance;
        }
        const X u = direction(g, estimate, n);
        const N by = way(rms(p), rms(u), n);
        p = n.kept * p - by * u;
    }
#endif
};

}  // namespace thunder::rules
