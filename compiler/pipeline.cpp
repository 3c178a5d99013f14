#include "compiler/pipeline.h"

#include <algorithm>
#include <utility>

#include "compiler/analysis/check_plan.h"
#include "compiler/support/error.h"
#include "compiler/transforms/add_loss.h"
#include "compiler/transforms/attach_epilogues.h"
#include "compiler/transforms/bound_indices.h"
#include "compiler/transforms/choose_init.h"
#include "compiler/transforms/claim.h"
#include "compiler/transforms/compose_step.h"
#include "compiler/transforms/differentiate.h"
#include "compiler/transforms/fold_constants.h"
#include "compiler/transforms/freeze_parameters.h"
#include "compiler/transforms/fuse.h"
#include "compiler/transforms/join_pads.h"
#include "compiler/transforms/lift_parameters.h"
#include "compiler/transforms/merge_siblings.h"
#include "compiler/transforms/name_values.h"
#include "compiler/transforms/outline_blocks.h"
#include "compiler/transforms/plan.h"
#include "compiler/transforms/raise_embedding.h"
#include "compiler/transforms/raise_gelu.h"
#include "compiler/transforms/raise_linear.h"
#include "compiler/transforms/raise_norm.h"
#include "compiler/transforms/raise_rotary.h"
#include "compiler/transforms/raise_sdpa.h"
#include "compiler/transforms/raise_swiglu.h"
#include "compiler/transforms/roll_repeats.h"
#include "compiler/transforms/simplify.h"
#include "compiler/transforms/sink_accumulation.h"

namespace thunderc {

namespace {

bool reference_only(const CompileOptions& options) {
    return !options.executors.empty() && options.executors.front() == "reference";
}

}  // namespace

std::vector<Pass> pipeline(const CompileOptions& o) {
    std::vector<Pass> passes;
    auto add = [&passes](std::string name, std::function<Module(Module, Report&)> run) {
        passes.push_back({std::move(name), std::move(run)});
    };
    const bool naive = reference_only(o);

    // ---- what the exporter did is undone ----
    add("fold_constants",
        fold_constants);  // first: shapes and tables become constants, so that what is left over are parameters
    add("lift_parameters", [o](Module m, Report& r) {
        return lift_parameters(std::move(m), LiftOptions{o.trainable, o.constant}, r);
    });
    add("fold_tables", fold_constants);  // again: tables that turned out to be no parameters
    add("simplify", simplify);           // the transposes that lifting put in front of products cancel

    // ---- named patterns; each pass sees what the one before left ----
    add("raise_norm", raise_norm);
    add("raise_embedding", raise_embedding);
    add("raise_linear", raise_linear);
    add("raise_rotary", raise_rotary);  // before attention, whose layout it shares
    add("raise_sdpa", raise_sdpa);
    add("raise_swiglu", raise_swiglu);
    add("raise_gelu", raise_gelu);
    add("add_loss", [o](Module m, Report& r) { return add_loss(std::move(m), o.loss, r); });
    add("bound_indices", bound_indices);  // what is left is what a program computes: each index is shown to be inside
    add("simplify_raised", simplify);
    add("choose_init", choose_init);

    // ---- layers become one function and a loop, before differentiation: one backward function, whatever the depth
    // ----
    if (!naive)
        add("merge_siblings", merge_siblings);  // before differentiation, so that the way back is merged as well

    add("name_values", name_values);
    if (o.roll) {
        add("outline_blocks", outline_blocks);
        add("roll_repeats", roll_repeats);
    }

    // ---- training ----
    add("freeze_parameters", [o](Module m, Report& r) { return freeze_parameters(std::move(m), o.freeze, r); });
    add("differentiate", [o](Module m, Report& r) {
        DifferentiateOptions options;
        options.recompute = parse_recompute_policy(o.recompute).value();
        return differentiate(std::move(m), options, r);
    });
    add("compose_step", [o](Module m, Report& r) { return compose_step(std::move(m), StepOptions{o.optimizer}, r); });
    if (!naive) add("join_pads", join_pads);  // gradients of the merged products, side by side
    add("sink_accumulation", sink_accumulation);
    add("simplify_step", simplify);

    // ---- who computes what ----
    if (!naive) add("attach_epilogues", attach_epilogues);
    // The optimizer works on whole arenas in any program: what it does to them is not what a naive program is compared
    // for.
    std::vector<std::string> executors = o.executors;
    if (naive) executors.insert(executors.begin(), "optimizer");
    add("claim", [executors](Module m, Report& r) { return claim(std::move(m), executors, r); });
    add("simplify_claimed", simplify);
    add("fuse", [naive](Module m, Report& r) { return fuse(std::move(m), FuseOptions{!naive}, r); });

    // ---- the boundary: from here on values lie in memory ----
    add("plan", plan);
    add("check_plan", check_plan);  // changes nothing: what the planner gave is looked at by who knows nothing of it
    return passes;
}

}  // namespace thunderc
