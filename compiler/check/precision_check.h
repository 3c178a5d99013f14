// SPDX-License-Identifier: Apache-2.0
// What rounding costs a training step: each op by itself, and the loss and the gradients of the whole.
//
// Evaluated are the functions of a step behind the passes that choose types and kernels, and before the planner: what
// an op gives is rounded where its type says so, and what a kernel holds inside is of the types that it has there.
// Sums of products and of reductions are exact here, since each executor adds them up in an order of its own: in f32
// that is off by some 2^-24 of a sum, of which no narrow type sees anything.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/module.h"

namespace thunderc {

// Tensors by the framework's names: parameters, buffers, inputs.
using NamedTensors = std::map<std::string, Tensor>;

// What a step gives for one micro-batch.
struct StepResult {
    double loss = 0;
    NamedTensors gradients;  // by parameter

    bool finite() const;  // all of it
};

// The ops of forward_backward, and of what it calls, that come of one place of the model and do the same.
struct OpError {
    std::string op;     // "linear", or the kernel's name
    std::string where;  // the module, "model.layers.{0..1}.mlp"; "" at the root
    // The narrowest type of floating point or of codes that the op gives. What a kernel stores in it, its other results
    // are made of as it is stored, so that none can be much nearer than that.
    DType dtype = DType::f32;
    std::int64_t calls = 0;
    // Of the result that is furthest off, over all calls: the root of the sum of squares of what it is off by, over
    // that of what fp64 gives for the same operands. Infinite where a number has become none.
    double error = 0;
    double rounded_once = 0;  // the same of what fp64 gives, rounded once to the type

    // The distance of 1 to the next number of the type.
    double epsilon() const;
    // error / rounded_once, which counts as an eighth of an epsilon at least: numbers that need no rounding, or a
    // single one that has been rounded by little, are no yardstick.
    double ratio() const;
    // What has been lost beyond one rounding, of which the error would be the root of the sum of both squares.
    double excess() const;
};

// Watches evaluations of one module that round, and computes each op once more in fp64, of the same operands.
class OpWatch {
  public:
    // Which has to live as long.
    explicit OpWatch(const Module& module) : module_(module) {}

    EvaluateOptions options();  // which rounds, and is watched
    // Of all that has been watched: the largest excess() first, then the largest error. What only moves numbers, and
    // what gives integers or booleans, is left out.
    std::vector<OpError> errors() const;

  private:
    struct Sums {  // of squares, over all calls of one result of an op
        DType dtype = DType::f32;
        double exact = 0, off = 0, off_once = 0;

        void add(const Tensor& actual, const Tensor& in_double);  // rounded_once to `dtype`
    };
    struct Row {
        std::int64_t calls = 0;
        std::vector<Sums> results;  // of floating point, in order
    };
    std::vector<Members> in_double(const Function& f, const Op& op) const;
    void compare(const Function& f, const Op& op, std::span<const Members> results);

    const Module& module_;
    std::vector<Members> operands_;  // of the op that runs
    // By op, module, and for what is quantised the type: one op quantises x and its gradient, to types of their own.
    std::map<std::tuple<std::string, std::string, std::string>, Row> rows_;
};

// A step on one micro-batch.
class StepEvaluation {
  public:
    // `composed` is what compose_step leaves, or a pass behind it up to name_results, and has to live as long. What the
    // step takes and `tensors` do not have is what it is when a run starts. Rounds as the types say, or not at all.
    StepEvaluation(const Module& composed, const NamedTensors& tensors, bool rounds);

    // The gradients are those of the loss times `loss_scale`, divided by it in the end.
    StepResult run(double loss_scale = 1);
    // The same with forward_backward watched.
    StepResult run(double loss_scale, OpWatch& watch);
    // Scales of FP8 follow from the amaxes of the last run, as at the end of a step.
    void update_scales();
    bool has_scales() const;

  private:
    StepResult run(double loss_scale, const EvaluateOptions& options);
    std::vector<Members> arguments_of(const Function& f) const;
    void evaluate_and_keep(const Function& f, const EvaluateOptions& options);
    void set_scalar(const std::string& name, double value);

    const Module& module_;
    bool rounds_;
    NamedTensors values_;
};

// How far a step is from the same in fp64, each relative to what it is there.
struct StepError {
    double loss = 0;
    double gradients = 0;  // all as one vector: the norm of the difference over the norm
    // The same of each parameter's; of a gradient that is nothing in fp64 but what fp64 rounds there is none.
    std::map<std::string, double> parameters;
};
StepError step_error(const StepResult& actual, const StepResult& exact);

// A program in narrow types, beside fp64 and a yardstick.
struct PrecisionReport {
    struct Measure {
        std::string name;        // "loss", "all gradients", or the parameter's
        double error = 0;        // root mean square over all batches
        double yardstick = 0;    // the same of the yardstick
        double least = 0;        // what the yardstick counts at least: it may have been rounded by little
        double counted() const;  // of the yardstick: itself, or the least
        double ratio() const;    // error / counted()
    };
    std::vector<OpError> ops;
    Measure loss, gradients;
    std::vector<Measure> parameters;  // the largest ratio first
    double loss_scale = 1;            // of the program, the least over all batches
};

// `composed` is a step before its types are chosen, `program` the same behind name_results with products of `low`, and
// `yardstick` what autocast_step gives. Each of so many batches is random, with random parameters. Where `low` has less
// range than f32 the loss is scaled by 2^16 or the largest power of two below with which nothing overflows, in either.
// Throws UserError where the step itself gives no number.
PrecisionReport compare_precision(const Module& composed, const Module& program, const Module& yardstick, DType low,
                                  std::uint64_t seed, std::int64_t batches);

}  // namespace thunderc
