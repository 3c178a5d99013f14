// SPDX-License-Identifier: Apache-2.0
// Executes a planned module in process, on real arena bytes.
//
// Every value is stored where the plan puts it, in its own type, and read back from there: an op reads its operands'
// bytes, is computed by its reference in fp64 (kernels by the evaluator), and its results are rounded as they are
// stored. Memory is poisoned (NaN for floats) at the start of a function, and a tensor's bytes when it was read for the
// last time; so a plan that gives bytes away too early, or reads what nothing wrote, shows as NaN in the results.
//
//     PlannedProgram program(module);
//     program.set("model.norm.weight", tensor);          // parameters, states, inputs by name
//     program.set_scalar("dloss", 0.25);
//     program.run("forward_backward");
//     program.get("grad.model.norm.weight");
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/tensor.h"

namespace thunderc {

struct ExecutablePlan;

// Copies share the module, and have memory of their own.
class PlannedProgram {
  public:
    // Keeps a copy of the module; writes its constants. All other memory is poison.
    explicit PlannedProgram(Module planned);

    const Module& module() const;
    // Names of what set and get take, in the order of the entry functions' arguments: parameters, "grad.<parameter>",
    // states, inputs. A tied parameter answers to all its names.
    const std::vector<std::string>& prefixes() const;  // prefixes_of_parameters
    std::vector<std::string> names() const;
    bool has(const std::string& name) const { return find(name) != nullptr; }
    const Type& type(const std::string& name) const { return named(name).type; }

    void set(const std::string& name, const Tensor& value);
    Tensor get(const std::string& name) const;
    // Fields of StepScalars.
    void set_scalar(const std::string& name, double value);
    double scalar(const std::string& name) const;

    bool has_function(const std::string& name) const { return module().find(name) != nullptr; }
    // In the order of the list; with a seed, in another order that the module's streams and events permit.
    void run(const std::string& function, std::optional<std::uint64_t> seed = std::nullopt);
    // What a run begins with: memory that lives no longer than the function is poisoned. Its actions.
    const ExecutablePlan& begin(const std::string& function);

    // "@function, op" of the first op that gave a NaN in the last run; "" where none did. A sum that a first micro-step
    // throws away may be one: what it would be added to is poison.
    const std::string& first_nan() const { return first_nan_; }
    // Whether that came of numbers, as 0 * inf does, and not of bytes that nobody wrote.
    bool nan_of_numbers() const { return nan_of_numbers_; }

  private:
    friend class PlannedExecution;

    struct Named {
        Placement::Arena arena = Placement::Arena::unplaced;
        std::int64_t offset = 0;
        Type type;
    };
    const Named* find(const std::string& name) const;
    const Named& named(const std::string& name) const;  // throws InternalError

    struct Shared;  // the module, and what was made of its functions
    std::shared_ptr<Shared> shared_;
    std::map<Placement::Arena, std::vector<std::byte>> arenas_;
    std::map<std::string, Named> named_;
    std::map<std::string, std::string> aliases_;  // other names of parameters
    std::vector<std::string> order_;
    std::string first_nan_;
    bool nan_of_numbers_ = false;  // its operands held none
};

// What the runtime's trainer does in a step: the loss's weight over all micro-batches, then forward_backward for each,
// then the update.
struct PlannedStep {
    double loss = 0;
    double loss_weight = 0;  // what loss_sum was divided by
    double grad_norm = 0;
};
struct PlannedOptimizer {
    double learning_rate = 1e-3, weight_decay = 0.1;
    std::map<std::string, double> options = {};  // of the module's rule; usual ones where it does not say
    double max_grad_norm = 0;                    // 0: no clipping
    bool decay_all = false;
};
using MicroBatch = std::map<std::string, Tensor>;  // inputs by name

// Loss and gradients alone. Throws InternalError where one of them is no number.
PlannedStep planned_gradients(PlannedProgram& program, const std::vector<MicroBatch>& batches);
// The whole step number `step`, from 0; states must be zero before the first.
PlannedStep planned_step(PlannedProgram& program, const std::vector<MicroBatch>& batches,
                         const PlannedOptimizer& optimizer, std::int64_t step);
// Parts of both, which a step on several ranks is made of as well.
void load_batch(PlannedProgram& program, const MicroBatch& batch);
void check_numbers(const PlannedProgram& program);  // the loss and the gradients
void set_step_scalars(PlannedProgram& program, const PlannedOptimizer& optimizer, std::int64_t step);
// What these are, by the names of the scalars.
std::vector<std::pair<std::string, double>> step_scalars(const Module& composed, const PlannedOptimizer& optimizer,
                                                         std::int64_t step);
// Sets every optimizer state to zero.
void clear_states(PlannedProgram& program);
// narrow copies of the parameters, as the trainer makes them before the first step; nothing where there are none.
void make_narrow_copies(PlannedProgram& program);

}  // namespace thunderc
