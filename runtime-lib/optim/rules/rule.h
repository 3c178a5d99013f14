// SPDX-License-Identifier: Apache-2.0
// What the rule of an optimizer is written in. Each rule is a struct in a file of its own beside this one; list.h is
// the one list of them. What it says is all that anyone knows of an optimizer: loops over arenas on CPUs and GPUs, the
// evaluator of the compiler, the options of a program and its checkpoints are made of it. A rule has
//
//     name, title, formula, source   what --optimizer calls it, what people call it, what it computes, who says so
//     States<T>                      what it keeps of a parameter, zero at the start: a number for each element, beside
//                                    it, unless shapes_of_matrices says something else
//     stored_states                  what checkpoints call these, in the same order
//     never_negative                 whether each of these never is, where one never is: codes.h
//     Options<T>, options            what a run may choose, and what its command line says of each of them
//     Numbers<T>, numbers()          what is the same for all elements in a step, computed on the host in double
//     usual_weight_decay             where a run does not choose it
//     decay_where()                  turns weight decay off in the numbers of a tensor that has none; this and the one
//                                    before come from one of the two kinds of decay below
//     element()                      the update of one element: T is float in programs, double in the compiler's
//                                    evaluator, and an expression where the compiler writes the update as ops
//
// An element needs nothing of others: a rank that has a shard of a parameter steps it with the same shard of its
// states. A rule that steps some matrices as wholes says besides how, in matrix() and what that is made of (muon.h),
// and in shapes_of_matrices which states it keeps of them; one that steps each tensor as a whole says it in tensor(),
// and has no element() (adafactor.h). They are for ranks that have all of a parameter.
//
// NVRTC compiles this, without any header of the standard library. The compiler includes these files too, by a path of
// its own: they include one another as neighbours.
#pragma once

#ifndef __CUDACC_RTC__
#include <cmath>
#endif

#ifdef __CUDACC__
#define THUNDER_RULE static __host__ __device__ __forceinline__
#define THUNDER_RULE_CONSTANT constexpr __host__ __device__  // what is known when a kernel is compiled
#else
#define THUNDER_RULE static inline __attribute__((always_inline))
#define THUNDER_RULE_CONSTANT constexpr
#endif

// A struct of so many T, and their names in its order.
#define THUNDER_FIELDS(Type, ...) \
    template <typename T>         \
    struct Type {                 \
        T __VA_ARGS__;            \
    };                            \
    static constexpr const char* names_of_##Type = #__VA_ARGS__
#define THUNDER_NO_FIELDS(Type) \
    template <typename T>       \
    struct Type {};             \
    static constexpr const char* names_of_##Type = ""

namespace thunder::rules {

// Of a number that a run may choose.
enum class Range : unsigned char {
    not_negative,
    positive,  // above 0
    fraction,  // from 0 to below 1
    flag,      // 0 or 1: given or not
};
struct Option {
    double usual;  // where it is not given
    Range range;
    const char* help;
};

// What a state of a parameter is shaped as. Where it lies follows from that: state_layout.h.
enum class StateShape : unsigned char {
    as_parameter,
    rows,     // as the parameter without its last dimension
    columns,  // as the parameter without the last dimension but one
    scalar,
    none,  // there is no such state of it
};

// How a parameter is stepped: element by element, or as a whole, which rules do otherwise with matrices than with
// vectors and numbers.
enum class Stepped : unsigned char { by_element, vector, matrix };

// What the host knows of a step.
struct Step {
    double learning_rate, weight_decay;
    double number;  // from 1
};

// ---- what element() may call, beside + - * / -----------------------------------------------------------------------

THUNDER_RULE float root(float x) {
    return sqrtf(x);
}
THUNDER_RULE double root(double x) {
    return sqrt(x);
}
// 1, -1, or x where x is neither more nor less than 0.
template <typename T>
THUNDER_RULE T sign(T x) {
    return x > T(0) ? T(1) : x < T(0) ? T(-1) : x;
}
THUNDER_RULE double at_least(double x, double least) {
    return x > least ? x : least;
}
THUNDER_RULE float at_least(float x, float least) {
    return x > least ? x : least;
}
template <typename T>
THUNDER_RULE T where(bool condition, T yes, T no) {
    return condition ? yes : no;
}

// ---- the two kinds of weight decay ---------------------------------------------------------------------------------

// It is a part of the gradient, and the rule adds it: as of torch's optimizers, it is off unless a run asks for it.
struct CoupledDecay {
    static constexpr double usual_weight_decay = 0;
    template <typename Numbers, typename Flag>
    THUNDER_RULE void decay_where(Flag decays, Numbers& n) {
        n.weight_decay = where(decays, n.weight_decay, decltype(n.weight_decay)(0));
    }
};
// It takes a part of the parameter itself, beside the step: `kept` is what it leaves. What large models are trained
// with.
struct DecoupledDecay {
    static constexpr double usual_weight_decay = 0.1;
    template <typename Numbers, typename Flag>
    THUNDER_RULE void decay_where(Flag decays, Numbers& n) {
        n.kept = where(decays, n.kept, decltype(n.kept)(1));
    }
};

// ---- for those who run rules ---------------------------------------------------------------------------------------

// How many fields a struct of THUNDER_FIELDS has.
template <template <typename> typename Fields>
inline constexpr int count = static_cast<int>(sizeof(Fields<double>) / sizeof(double));
template <typename Rule>
inline constexpr int states = count<Rule::template States>;
// Whether a rule has matrix().
template <typename Rule>
inline constexpr bool steps_matrices = requires {
    Rule::by_element;
};
// Whether a rule has tensor(), and no element().
template <typename Rule>
inline constexpr bool steps_tensors = requires {
    Rule::steps_every_tensor;
};
// Whether a rule keeps other states of matrices, and of vectors that it steps as wholes, than by elements.
template <typename Rule>
inline constexpr bool has_shapes_of_matrices = requires {
    Rule::shapes_of_matrices;
};
template <typename Rule>
inline constexpr bool has_shapes_of_vectors = requires {
    Rule::shapes_of_vectors;
};
// Whether a state may be negative.
template <typename Rule>
inline constexpr bool has_signs = !requires {
    Rule::never_negative;
};
template <typename Rule, int k>
THUNDER_RULE_CONSTANT bool state_has_sign() {
    if constexpr (has_signs<Rule>)
        return true;
    else
        return !Rule::never_negative[k];
}
// More than this many have no place in calls and in StepScalars.
inline constexpr int most_states = 3, most_numbers = 12;

template <int... k>
struct Indices {};
template <int n, int... k>
struct IndicesBelow : IndicesBelow<n - 1, n - 1, k...> {};
template <int... k>
struct IndicesBelow<0, k...> {
    using type = Indices<k...>;
};

template <template <typename> typename Fields, typename T, typename From, int... k>
THUNDER_RULE Fields<T> fields_of([[maybe_unused]] From from, Indices<k...>) {
    return {static_cast<T>(from[k])...};
}
// The fields in their order, from an array: Fields<T> of its numbers, or Fields<T&>, which refers to them.
template <template <typename> typename Fields, typename T, typename From>
THUNDER_RULE Fields<T> fields_of(From from) {
    return fields_of<Fields, T>(from, typename IndicesBelow<count<Fields>>::type());
}

}  // namespace thunder::rules
