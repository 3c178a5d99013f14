// SPDX-License-Identifier: Apache-2.0
#include "compiler/pipeline.h"

#include <algorithm>
#include <utility>

#include "compiler/check/check_plan.h"
#include "compiler/choose_recompute.h"
#include "compiler/executors/executor.h"
#include "compiler/passes/autodiff/differentiate.h"
#include "compiler/passes/autodiff/freeze_unreached.h"
#include "compiler/passes/autodiff/remove_stops.h"
#include "compiler/passes/distributed/distribute.h"
#include "compiler/passes/distributed/schedule_collectives.h"
#include "compiler/passes/fusion/attach_epilogues.h"
#include "compiler/passes/fusion/claim.h"
#include "compiler/passes/fusion/fuse.h"
#include "compiler/passes/fusion/merge_siblings.h"
#include "compiler/passes/fusion/name_results.h"
#include "compiler/passes/fusion/quantise_in_kernels.h"
#include "compiler/passes/layers/hoist_products.h"
#include "compiler/passes/layers/keep_rotated.h"
#include "compiler/passes/layers/name_values.h"
#include "compiler/passes/layers/outline_blocks.h"
#include "compiler/passes/layers/roll_repeats.h"
#include "compiler/passes/plan/plan.h"
#include "compiler/passes/precision/exempt_layers.h"
#include "compiler/passes/precision/lower_precision.h"
#include "compiler/passes/precision/quantise_products.h"
#include "compiler/passes/raise/raise_embedding.h"
#include "compiler/passes/raise/raise_gelu.h"
#include "compiler/passes/raise/raise_grouped_linear.h"
#include "compiler/passes/raise/raise_linear.h"
#include "compiler/passes/raise/raise_norm.h"
#include "compiler/passes/raise/raise_poles.h"
#include "compiler/passes/raise/raise_rotary.h"
#include "compiler/passes/raise/raise_sdpa.h"
#include "compiler/passes/raise/raise_swiglu.h"
#include "compiler/passes/raise/use_user_functions.h"
#include "compiler/passes/recognise/add_adapters.h"
#include "compiler/passes/recognise/bound_indices.h"
#include "compiler/passes/recognise/check_outputs.h"
#include "compiler/passes/recognise/choose_init.h"
#include "compiler/passes/recognise/freeze_parameters.h"
#include "compiler/passes/recognise/lift_parameters.h"
#include "compiler/passes/recognise/lora_options.h"
#include "compiler/passes/recognise/mark_outer_matrices.h"
#include "compiler/passes/recognise/place_random.h"
#include "compiler/passes/recognise/sync_norms.h"
#include "compiler/passes/simplify/fold_constants.h"
#include "compiler/passes/simplify/hoist_sums.h"
#include "compiler/passes/simplify/join_pads.h"
#include "compiler/passes/simplify/join_pieces.h"
#include "compiler/passes/simplify/join_products.h"
#include "compiler/passes/simplify/simplify.h"
#include "compiler/passes/step/add_evaluation.h"
#include "compiler/passes/step/add_loss.h"
#include "compiler/passes/step/chunk_logits.h"
#include "compiler/passes/step/compose_function.h"
#include "compiler/passes/step/compose_step.h"
#include "compiler/passes/step/keep_statistics.h"
#include "compiler/passes/step/sink_accumulation.h"
#include "compiler/support/error.h"
#include "compiler/user_functions/user_functions.h"
#include "runtime-lib/optim/rules/info.h"

namespace thunderc {

namespace {

bool reference_only(const CompileOptions& options) {
    return gives_naive_program(options.executors);
}

class PassList {
  public:
    void add(std::string name, std::function<Module(Module, Report&)> run) {
        passes_.push_back({std::move(name), std::move(run)});
    }
    // What cannot be left out, since the passes behind it need what it makes.
    void require(std::string name, std::function<Module(Module, Report&)> run) {
        passes_.push_back({std::move(name), std::move(run), true});
    }
    std::vector<Pass> take() { return std::move(passes_); }

  private:
    std::vector<Pass> passes_;
};

// What the exporter did is undone, and patterns get their names; each pass sees what the one before left.
void add_recognition(PassList& list, const CompileOptions& o) {
    list.add("fold_constants",
             fold_constants);  // first: shapes and tables become constants, so that what is left over are parameters
    list.require("lift_parameters", [o](Module m, Report& r) {
        return lift_parameters(std::move(m), LiftOptions{o.trainable, o.constant}, r);
    });
    list.add("fold_tables", fold_constants);  // again: tables that turned out to be no parameters
    list.add("simplify", simplify_model);     // the transposes that lifting put in front of products cancel
    list.add("join_pieces", join_pieces);     // before anything is recognised: a row of a batch may be written as one
    list.require("check_outputs", check_outputs);

    list.add("raise_norm", raise_norm);
    list.add("raise_grouped_linear", raise_grouped_linear);
    list.add("raise_embedding", raise_embedding);
    list.add("raise_linear", raise_linear);
    list.add("raise_rotary", raise_rotary);  // before attention, whose layout it shares
    list.add("raise_sdpa", raise_sdpa);
    list.add("raise_swiglu", raise_swiglu);
    list.add("raise_gelu", raise_gelu);
    list.add("raise_poles", raise_poles);  // last: what is left is differentiated as it is written
}

// Functions that users bring, before anything is differentiated: the backward pass calls theirs. A naive program has
// what they are to compute, where a pattern says it.
void add_user_functions(PassList& list, const CompileOptions& o) {
    if (reference_only(o) || !o.calls_user_functions)
        list.require("expand_user_functions", expand_user_functions);
    else
        list.add("use_user_functions", use_user_functions);
}

// Layers become one function and a loop, before differentiation: one backward function, whatever the depth.
void add_layers(PassList& list, const CompileOptions& o) {
    // First: what is not trained is another product and another layer than what is.
    if (o.transform != Transform::forward) {
        list.add("freeze_parameters", [o](Module m, Report& r) {
            return freeze_parameters(std::move(m), FreezeOptions{o.freeze, o.train_only}, r);
        });
    }
    if (o.transform == Transform::train) list.add("freeze_unreached", freeze_unreached);
    if (!o.fp8.empty() && !o.fp8_skip.empty())
        list.require("exempt_layers", [o](Module m, Report& r) { return exempt_layers(std::move(m), o.fp8_skip, r); });
    if (!reference_only(o))
        list.add("merge_siblings",
                 merge_siblings);  // before differentiation, so that the backward pass is merged as well

    list.add("name_values", name_values);
    if (o.roll) {
        list.add("outline_blocks", outline_blocks);
        list.require("roll_repeats", roll_repeats);
        if (!reference_only(o)) list.add("hoist_products", hoist_products);
    }
    if (!reference_only(o) && o.transform != Transform::forward) list.add("keep_rotated", keep_rotated);
}

void add_hoist_sums(PassList& list) {
    list.add("hoist_sums", [](Module m, Report& r) {
        const HoistSumsOptions options{.collect = !m.spares_memory};
        return hoist_sums(std::move(m), options, r);
    });
}

// With what --recompute says; auto tries several ways to the end of all passes.
Module differentiate_as_asked(Module module, const CompileOptions& o, DifferentiateOptions options, Report& report) {
    if (o.recompute != recompute_auto) {
        options.keeping.policy = parse_recompute_policy(o.recompute).value();
        return differentiate(std::move(module), options, report);
    }
    std::vector<Pass> behind = pipeline(o);
    behind.erase(behind.begin(), std::find_if(behind.begin(), behind.end(), [](const Pass& pass) {
                                     return pass.name == "differentiate";
                                 }) + 1);
    return differentiate_within_budget(std::move(module), o, std::move(options), behind, report);
}

LogitsChunk chunk_of_logits(const CompileOptions& o) {
    return parse_logits_chunk(o.logits_chunk).value();
}

// Who computes what, and where it lies.
void add_emission(PassList& list, const CompileOptions& o) {
    const bool naive = reference_only(o);
    if (!naive) list.add("attach_epilogues", attach_epilogues);
    // The optimizer works on whole arenas in any program: what it does to them is not what a naive program is compared
    // for, and nothing else does it, whatever the list of executors says.
    std::vector<std::string> executors = o.executors;
    if (std::find(executors.begin(), executors.end(), "optimizer") == executors.end())
        executors.insert(executors.begin(), "optimizer");
    list.require("claim", [executors](Module m, Report& r) { return claim(std::move(m), executors, r); });
    list.add("simplify_claimed", simplify);
    if (!naive && !o.fp8.empty()) list.add("quantise_in_kernels", quantise_in_kernels);
    list.require("fuse", [naive](Module m, Report& r) { return fuse(std::move(m), FuseOptions{!naive}, r); });
    list.add("name_results", name_results);

    // Several ranks: blocks and kernels are done, and collectives stand around their calls.
    if (o.transform == Transform::train && o.mesh.communicates()) {
        list.require("distribute", [o](Module m, Report& r) {
            return distribute(std::move(m), DistributeOptions{o.mesh, o.bucket_bytes, o.reshard}, r);
        });
        list.add("schedule_collectives", schedule_collectives);
    }

    // ---- the boundary: from here on values lie in memory ----
    list.require("plan", plan);
    list.add("check_plan",
             check_plan);  // changes nothing: what the planner gave is looked at by who knows nothing of it
}

std::vector<Pass> training_program(const CompileOptions& o) {
    PassList list;
    add_recognition(list, o);
    if (o.lora) {  // of layers as they are written, before the loss, which may be of one that is asked for
        list.require("add_adapters",
                     [lora = parse_lora(*o.lora)](Module m, Report& r) { return add_adapters(std::move(m), lora, r); });
    }
    list.require("add_loss",
                 [o](Module m, Report& r) { return add_loss(std::move(m), o.loss, r, o.mesh.communicates()); });
    list.add("bound_indices",
             bound_indices);  // what is left is what a program computes: each index is shown to be inside
    list.require("place_random", [o](Module m, Report& r) {
        return o.draws ? place_random(std::move(m), {.step = true, .dropout = o.dropout}, r) : m;
    });
    list.add("simplify_raised", simplify);
    list.add("choose_init", choose_init);  // by what the model is, whoever computes it
    if (thunder::find_rule(o.optimizer)->steps_matrices()) list.require("mark_outer_matrices", mark_outer_matrices);
    if (!user_functions().empty()) add_user_functions(list, o);
    if (o.mesh.world() > 1)  // behind what a program shares with its reference, which is one rank
        list.require("sync_norms", [o](Module m, Report& r) {
            return sync_norms(std::move(m), SyncOptions{o.mesh.world(), o.sync_batch_norm}, r);
        });
    list.add("keep_statistics", keep_statistics);
    add_layers(list, o);
    list.add("add_evaluation", [o](Module m, Report& r) {
        EvaluationOptions options;
        options.function = !reference_only(o);
        // What the backward pass gathers first may begin in the forward pass of a step.
        options.of_its_own =
            (o.mesh.has_shards() && o.reshard == "always") ||
            (can_chunk_logits(o.executors) && may_chunk_logits(m.main(), chunk_of_logits(o), compute_dtype(o, m)));
        options.token_accuracy = o.token_accuracy;
        return add_evaluation(std::move(m), options, r);
    });

    list.require("forget_statistics", forget_statistics);
    list.require("differentiate", [o](Module m, Report& r) { return differentiate_as_asked(std::move(m), o, {}, r); });
    list.require("remove_stops", remove_stops);  // they have done their work
    list.require("compose_step", [o](Module m, Report& r) {
        return compose_step(std::move(m), StepOptions{o.optimizer, o.coded_states()}, r);
    });
    if (!reference_only(o)) {
        list.add("join_pads", join_pads);          // gradients of the merged products, side by side
        list.add("join_products", join_products);  // gradients of weights that are read again and again
        add_hoist_sums(list);                      // and of those that the steps of a loop share
    }
    list.add("sink_accumulation", sink_accumulation);
    list.add("simplify_step", simplify);
    // before epilogues: what they add to a product is of the product's type by then
    list.add("lower_precision", [o](Module m, Report& r) {
        PrecisionOptions options;
        options.compute = compute_dtype(o, m);
        options.master = o.master != "none";
        options.gradient = parse_dtype(o.grad_dtype).value();
        options.optimizer = o.coded_states() ? DType::f32 : parse_dtype(o.optim_dtype).value();
        options.gathered = o.mesh.has_shards();
        options.compute_given = o.dtype != "auto";
        return lower_precision(std::move(m), options, r);
    });
    if (!o.fp8.empty()) {
        list.require("quantise_products", [o](Module m, Report& r) {
            Fp8Options options;
            options.compute = compute_dtype(o, m);
            options.recipe = parse_fp8_recipe(o.fp8).value();
            options.weight_gradients = o.fp8_wgrad == "fp8";
            options.ranks = o.mesh.communicates();
            options.keep_weights = o.keeps_fp8_weights();
            return quantise_products(std::move(m), options, r);
        });
    }

    if (can_chunk_logits(o.executors))
        list.add("chunk_logits",
                 [o](Module m, Report& r) { return chunk_logits(std::move(m), chunk_of_logits(o), r); });

    add_emission(list, o);
    return list.take();
}

std::vector<Pass> function_library(const CompileOptions& o) {
    PassList list;
    add_recognition(list, o);
    list.add("bound_indices", bound_indices);  // the graph's results stay what they are: no loss is added
    list.require("place_random", [o](Module m, Report& r) {
        return o.draws ? place_random(std::move(m), {.step = false, .dropout = o.dropout}, r) : m;
    });
    list.add("simplify_raised", simplify);
    list.add("choose_init", choose_init);  // by what the model is, whoever computes it
    if (!user_functions().empty()) add_user_functions(list, o);
    add_layers(list, o);

    if (o.transform == Transform::vjp) {
        list.require("differentiate", [o](Module m, Report& r) {
            DifferentiateOptions options;
            options.wanted = wants_gradient;
            options.cotangent_for_each_result = true;
            return differentiate_as_asked(std::move(m), o, std::move(options), r);
        });
    }
    list.require("remove_stops", remove_stops);  // whether or not there was something to stop
    const std::string name(name_of(o.transform));
    list.require("compose_function", [name](Module m, Report& r) { return compose_function(std::move(m), name, r); });
    if (!reference_only(o)) {
        list.add("join_pads", join_pads);
        list.add("join_products", join_products);
        add_hoist_sums(list);
    }
    list.add("simplify_function", simplify);

    add_emission(list, o);
    return list.take();
}

}  // namespace

std::string_view name_of(Transform transform) {
    constexpr std::string_view names[] = {"train", "forward", "vjp"};
    return names[static_cast<std::size_t>(transform)];
}

DType compute_dtype(const CompileOptions& options, const Module& module) {
    return options.dtype == "auto" ? stored_dtype(module) : parse_dtype(options.dtype).value();
}

std::vector<Pass> pipeline(const CompileOptions& options) {
    return options.transform == Transform::train ? training_program(options) : function_library(options);
}

}  // namespace thunderc
