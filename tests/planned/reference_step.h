// SPDX-License-Identifier: Apache-2.0
// The same training step twice: as planned bytes, and as values in fp64. The second's program is not rolled, not fused,
// not merged and not planned: what compose_step leaves.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "cli/tensor_file.h"
#include "compiler/frontend/frontend.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/pipeline.h"
#include "compiler/plan_interpreter/run_planned.h"
#include "compiler/planned/step_form.h"

namespace thunderc {

inline std::string fixture(const std::string& file) {
    return std::string(FIXTURES) + "/" + file;
}

// As far as `last`; to the end where it is empty. All fixtures that end in logits are classifiers.
inline Module compiled(const std::string& model, CompileOptions options, const std::string& last = "") {
    if (options.loss == "auto" && model.ends_with(".logits.onnx")) options.loss = "cross-entropy";
    std::vector<Pass> passes = pipeline(options);
    for (std::size_t k = 0; k < passes.size(); ++k)
        if (passes[k].name == last) passes.resize(k + 1);
    std::vector<PassRun> runs;
    return run_passes(import_model(fixture(model), options), passes, runs);
}

// A step's batch of a fixture as a micro-batch: "input_ids_3" is the input "input_ids" of batch 3.
inline MicroBatch batch(const std::map<std::string, Tensor>& all, int step) {
    MicroBatch out;
    const std::string suffix = "_" + std::to_string(step);
    for (const auto& [name, tensor] : all)
        if (name.ends_with(suffix)) out[name.substr(0, name.size() - suffix.size())] = tensor;
    return out;
}

// Tensors and scalars by name, and functions that read and replace them.
class ValuesProgram {
  public:
    explicit ValuesProgram(Module composed, EvaluateOptions options = {})
        : module_(std::move(composed)), options_(std::move(options)) {
        for (const Function& f : module_.functions)
            for (std::size_t k = 0; k < f.argument_info.size(); ++k) {
                const ArgInfo& info = f.argument_info[k];
                for (std::size_t m = 0; m < info.names.size(); ++m) {
                    values_.try_emplace(info.names[m], Tensor(f.type(f.arguments[k]).member()));
                    if (m < info.aliases.size())
                        for (const std::string& alias : info.aliases[m]) aliases_[alias] = info.names[m];
                }
            }
    }

    const std::map<std::string, Tensor>& values() const { return values_; }
    bool has(const std::string& name) const { return values_.contains(name); }
    void set(std::string name, Tensor t) {
        if (!has(name)) name = aliases_.at(name);
        t.type = values_.at(name).type;
        values_.at(name) = std::move(t);
    }
    void set_scalar(const std::string& name, double x) {
        if (has(name)) values_.at(name).set(0, x);
    }
    double scalar(const std::string& name) const { return values_.at(name).at(0); }

    void run(const std::string& function) {
        const Function& f = *module_.find(function);
        std::vector<Members> arguments;
        for (std::size_t k = 0; k < f.arguments.size(); ++k) {
            arguments.emplace_back();
            for (const std::string& name : f.argument_info[k].names) arguments.back().push_back(values_.at(name));
        }
        const std::vector<Members> results = evaluate(module_, f, std::span<const Members>(arguments), options_);
        for (std::size_t r = 0; r < results.size(); ++r) {
            // A result is named after the argument's value that it replaces, or after a scalar.
            std::vector<std::string> names = {f.result_names.at(r)};
            for (std::size_t k = 0; k < f.arguments.size(); ++k)
                if (f.info(f.arguments[k]).name == f.result_names[r]) names = f.argument_info[k].names;
            for (std::size_t m = 0; m < names.size(); ++m) values_[names[m]] = results[r].at(m);
        }
    }

    PlannedStep step(const std::vector<MicroBatch>& batches, const PlannedOptimizer& o, std::int64_t number) {
        PlannedStep out;
        const LossForm form = loss_form(module_);
        for (const std::string& weight : form.weights) set_scalar(weight, 0);
        auto load = [&](const MicroBatch& b) {
            for (const auto& [name, tensor] : b)
                if (has(name)) set(name, tensor);
        };
        for (const MicroBatch& b : batches) {
            if (form.kind == LossForm::Kind::average) break;
            load(b);
            run("loss_weight");
        }
        std::vector<double> weights;
        for (const std::string& weight : form.weights) weights.push_back(scalar(weight));
        out.loss_weight = loss_divisor(form, weights, batches.size());
        set_scalar("dloss", 1 / out.loss_weight);
        set_scalar("loss_sum", 0);
        for (std::size_t m = 0; m < batches.size(); ++m) {
            load(batches[m]);
            set_scalar("first_micro_step", m == 0 ? 1 : 0);
            run("forward_backward");
        }
        out.loss = scalar("loss_sum") / out.loss_weight;
        for (const auto& [name, value] : step_scalars(module_, o, number))
            if (has(name)) set_scalar(name, value);
        run("update");
        out.grad_norm = scalar("grad_norm");
        return out;
    }

  private:
    Module module_;
    EvaluateOptions options_;
    std::map<std::string, Tensor> values_;
    std::map<std::string, std::string> aliases_;  // the other names of tied parameters
};

inline double largest(const Tensor& t) {
    double out = 0;
    for (double x : t.f) out = std::max(out, std::abs(x));
    return out;
}

inline double largest_difference(const Tensor& a, const Tensor& b) {
    if (a.type.dims != b.type.dims) return HUGE_VAL;
    double out = 0;
    for (std::size_t k = 0; k < a.f.size(); ++k) {
        const double d = std::abs(a.f[k] - b.f[k]);
        out = std::isnan(d) ? HUGE_VAL : std::max(out, d);
    }
    return out;
}

}  // namespace thunderc
