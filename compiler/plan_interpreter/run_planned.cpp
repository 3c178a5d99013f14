// SPDX-License-Identifier: Apache-2.0
#include "compiler/plan_interpreter/run_planned.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <utility>

#include "compiler/interpreter/constant_value.h"
#include "compiler/ir/structure.h"
#include "compiler/plan_interpreter/planned_execution.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"
#include "compiler/support/lazy_check.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

}  // namespace

struct PlannedProgram::Shared {
    Module module;
    std::map<std::string, ExecutablePlan> plans;  // by function, as they are asked for
    std::vector<std::string> prefixes;            // of what belongs to parameters
};

PlannedProgram::PlannedProgram(Module planned) : shared_(std::make_shared<Shared>(Shared{std::move(planned), {}, {}})) {
    shared_->prefixes = prefixes_of_parameters(module());
    check(module().phase == Module::Phase::planned, "the module is not planned");
    for (const auto& [name, bytes] : module().arena_bytes)
        arenas_[parse_arena(name).value()].assign(static_cast<std::size_t>(bytes), std::byte{0xff});
    // Between the gradients of a flat tensor nothing is ever written: it is zero, as memory is when a program begins.
    if (auto at = arenas_.find(Arena::unit_gradients); at != arenas_.end())
        at->second.assign(at->second.size(), std::byte{0});
    arenas_[Arena::scalars].assign(static_cast<std::size_t>(step_scalars_bytes_with(loss_form(module()))),
                                   std::byte{0});
    PlannedExecution execution(*this);
    for (const Function& f : module().functions) {
        if (f.is_kernel()) continue;
        for (const Op& op : f.ops) {
            if (!is_constant_op(op)) continue;
            const Value v = op.results[0];
            const Placement& p = f.info(v).placement;
            execution.store(p.arena, p.offset, f.type(v), {}, materialize(*op.attributes.constant("value")));
        }
        for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            const Placement& p = f.info(f.arguments[k]).placement;
            if (p.arena == Arena::scalars) continue;
            for (std::size_t m = 0; m < info.names.size(); ++m) {
                const auto offset = p.offset + static_cast<std::int64_t>(m) * p.layer_stride;
                if (named_.try_emplace(info.names[m], Named{p.arena, offset, f.type(f.arguments[k]).member()}).second)
                    order_.push_back(info.names[m]);
                if (m < info.aliases.size())
                    for (const std::string& alias : info.aliases[m]) aliases_.try_emplace(alias, info.names[m]);
            }
        }
    }
}

const Module& PlannedProgram::module() const {
    return shared_->module;
}

const std::vector<std::string>& PlannedProgram::prefixes() const {
    return shared_->prefixes;
}

std::vector<std::string> PlannedProgram::names() const {
    return order_;
}

const PlannedProgram::Named* PlannedProgram::find(const std::string& name) const {
    if (auto at = named_.find(name); at != named_.end()) return &at->second;
    for (const std::string& prefix : shared_->prefixes) {
        if (!name.starts_with(prefix)) continue;
        auto alias = aliases_.find(name.substr(prefix.size()));
        if (alias == aliases_.end()) continue;
        if (auto at = named_.find(prefix + alias->second); at != named_.end()) return &at->second;
    }
    return nullptr;
}

const PlannedProgram::Named& PlannedProgram::named(const std::string& name) const {
    const Named* at = find(name);
    check(at != nullptr, [&] { return fmt::format("the program has no {}", name); });
    return *at;
}

void PlannedProgram::set(const std::string& name, const Tensor& value) {
    const Named& to = named(name);
    check(value.type.dims == to.type.dims && value.floating() == is_float(to.type.dtype),
          [&] { return fmt::format("{} is {}, {} given", name, to_string(to.type), to_string(value.type)); });
    PlannedExecution(*this).store(to.arena, to.offset, to.type, {}, value);
}

Tensor PlannedProgram::get(const std::string& name) const {
    const Named& at = named(name);
    // Loading changes nothing; the execution is written for running, which does.
    return PlannedExecution(const_cast<PlannedProgram&>(*this)).load(at.arena, at.offset, at.type, {});
}

void PlannedProgram::set_scalar(const std::string& name, double value) {
    const std::optional<std::int64_t> offset = step_scalar_offset(name);
    check(offset.has_value(), [&] { return fmt::format("there is no step scalar {}", name); });
    PlannedExecution(*this).store(Arena::scalars, *offset, Type::tensor(DType::f64, {}), {},
                                  Tensor::scalar(DType::f64, value));
}

double PlannedProgram::scalar(const std::string& name) const {
    const std::optional<std::int64_t> offset = step_scalar_offset(name);
    check(offset.has_value(), [&] { return fmt::format("there is no step scalar {}", name); });
    return PlannedExecution(const_cast<PlannedProgram&>(*this))
        .load(Arena::scalars, *offset, Type::tensor(DType::f64, {}), {})
        .at(0);
}

const ExecutablePlan& PlannedProgram::begin(const std::string& function) {
    const Function* f = module().find(function);
    check(f != nullptr && !f->argument_info.empty(),
          [&] { return fmt::format("@{} is no function of the program", function); });
    first_nan_.clear();
    nan_of_numbers_ = false;
    for (Arena arena : {Arena::scratch, Arena::saved})
        if (auto found = arenas_.find(arena); found != arenas_.end())
            std::fill(found->second.begin(), found->second.end(), std::byte{0xff});
    auto at = shared_->plans.find(function);
    if (at == shared_->plans.end()) at = shared_->plans.try_emplace(function, module(), *f).first;
    return at->second;
}

void PlannedProgram::run(const std::string& function, std::optional<std::uint64_t> seed) {
    check(!module().mesh.communicates(),
          [&] { return fmt::format("a program of {} ranks runs on all of them", module().mesh.world()); });
    PlannedExecution(*this).run(begin(function), seed);
}

// ---- steps ----------------------------------------------------------------------------------------------------------

void load_batch(PlannedProgram& program, const MicroBatch& batch) {
    for (const auto& [name, tensor] : batch)
        if (program.has(name)) program.set(name, tensor);
}

void check_numbers(const PlannedProgram& program) {
    const auto refuse = [&](const std::string& what) {
        check(program.nan_of_numbers(), [&] { return fmt::format("{}, first from {}", what, program.first_nan()); });
        Diagnostic d;
        d.message = fmt::format("{}, first from {}, whose operands are numbers", what, program.first_nan());
        d.help =
            "the model computes it of this batch and these parameters, as log(0) * 0 does: thunderc run without "
            "--planned shows what its graph gives; an exporter may have dropped a small addend (optimize=False)";
        throw UserError(std::move(d));
    };
    if (std::isnan(program.scalar("loss_sum"))) refuse("the loss is a NaN");
    for (const std::string& name : program.names())
        if (name.starts_with("grad."))
            for (double x : program.get(name).f)
                if (std::isnan(x)) refuse(name + " holds a NaN");
}

std::vector<std::pair<std::string, double>> step_scalars(const Module& composed, const PlannedOptimizer& o,
                                                         std::int64_t step) {
    const thunder::RuleInfo& rule = rule_of(composed);
    std::vector<double> options = usual_options(rule);
    for (const auto& [name, value] : o.options) {
        const auto at = std::find_if(rule.options.begin(), rule.options.end(),
                                     [&name = name](const auto& option) { return option.name == name; });
        check(at != rule.options.end(), [&] { return fmt::format("{} has no option {}", rule.name, name); });
        options[static_cast<std::size_t>(at - rule.options.begin())] = value;
    }
    std::vector<std::pair<std::string, double>> out = {{"learning_rate", o.learning_rate},
                                                       {"max_grad_norm", o.max_grad_norm},
                                                       {"decay_all", o.decay_all ? 1 : 0},
                                                       {"step", static_cast<double>(step)}};
    const std::vector<double> numbers =
        rule.step_numbers(options, {o.learning_rate, o.weight_decay, static_cast<double>(step + 1)});
    for (std::size_t k = 0; k < numbers.size(); ++k)
        out.emplace_back(rule_scalar(rule.name, rule.numbers[k]), numbers[k]);
    return out;
}

void set_step_scalars(PlannedProgram& program, const PlannedOptimizer& o, std::int64_t step) {
    for (const auto& [name, value] : step_scalars(program.module(), o, step)) program.set_scalar(name, value);
}

PlannedStep planned_gradients(PlannedProgram& program, const std::vector<MicroBatch>& batches) {
    check(!batches.empty(), "a step has at least one micro-batch");
    PlannedStep out;
    const LossForm form = loss_form(program.module());
    for (const std::string& weight : form.weights) program.set_scalar(weight, 0);
    for (const MicroBatch& batch : batches) {
        if (form.kind == LossForm::Kind::average) break;
        load_batch(program, batch);
        program.run(loss_weight_function);
    }
    std::vector<double> weights;
    for (const std::string& weight : form.weights) weights.push_back(program.scalar(weight));
    out.loss_weight = loss_divisor(form, weights, batches.size());
    program.set_scalar("dloss", 1 / out.loss_weight);
    program.set_scalar("loss_sum", 0);
    for (std::size_t m = 0; m < batches.size(); ++m) {
        load_batch(program, batches[m]);
        program.set_scalar("first_micro_step", m == 0 ? 1 : 0);
        program.set_scalar("last_micro_step", m + 1 == batches.size() ? 1 : 0);
        program.run(forward_backward_function);
        check_numbers(program);
    }
    out.loss = program.scalar("loss_sum") / out.loss_weight;
    return out;
}

PlannedStep planned_step(PlannedProgram& program, const std::vector<MicroBatch>& batches, const PlannedOptimizer& o,
                         std::int64_t step) {
    PlannedStep out = planned_gradients(program, batches);
    set_step_scalars(program, o, step);
    program.run(update_function);
    check(program.first_nan().empty(), [&] { return "a NaN comes first from " + program.first_nan(); });
    out.grad_norm = program.scalar("grad_norm");
    return out;
}

void clear_states(PlannedProgram& program) {
    const std::vector<std::string> states = optimizer_states(program.module());
    for (const std::string& name : program.names())
        if (state_of_name(states, name)) program.set(name, Tensor(program.type(name)));
}

void make_narrow_copies(PlannedProgram& program) {
    constexpr std::string_view prefix = "narrow_copy.";
    for (const std::string& name : program.names())
        if (name.starts_with(prefix)) program.set(name, program.get(name.substr(prefix.size())));
}

}  // namespace thunderc
