// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/add_adapters.h"

#include "compiler/support/error.h"
#include "tests/passes/equal_programs.h"
#include "tests/passes/pass_test.h"

namespace thunderc {
namespace add_adapters_test {

using testing::module_of;

// An embedding, two layers, of which one is stored (in, out), a norm's weight, and a head.
const char* const model = R"(
func @main(%ids: i64[2,3] input "ids" {batched}, %e: f32[7,4] parameter "embed.weight",
    %q: f32[6,4] parameter "layers.0.attn.q_proj.weight", %c: f32[6,4] parameter "layers.0.mlp.c_proj.weight",
    %b: f32[4] parameter "layers.0.mlp.c_proj.bias", %n: f32[4] parameter "norm.weight",
    %h: f32[7,4] parameter "head.weight") -> (%logits) {
  %x = embedding(%e, %ids) : f32[2,3,4] at "embed" "Embedding"
  %y = linear(%x, %q) : f32[2,3,6] at "model.layers.0.attn.q_proj" "Linear"
  %t = transpose(%c) {permutation = [1, 0]} : f32[4,6] at "layers.0.mlp.c_proj"
  %z = linear(%y, %t, %b) : f32[2,3,4] at "layers.0.mlp.c_proj" "Conv1D"
  %s = mul(%z, %n) : f32[2,3,4] at "norm"
  %logits = linear(%s, %h) : f32[2,3,7] at "head" "Linear"
}
)";

struct Added {
    Module module;
    Report report;
};

Added added(const std::string& options, const std::string& text = model) {
    Added out;
    out.module = add_adapters(module_of(text), parse_lora(options), out.report);
    verify(out.module);
    return out;
}

std::string message(const std::string& options, const std::string& text = model) {
    try {
        added(options, text);
    } catch (const UsageError& error) {
        return error.diagnostic().text();
    }
    return "";
}

std::string trained(const Module& m) {
    std::string names;
    for (const ArgInfo& info : m.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter && info.trainable) names += info.names[0] + "\n";
    return names;
}

TEST(AddAdapters, BesideEveryLayerButTheHead) {
    const Added a = added("r=2,alpha=3");
    EXPECT_EQ(text_of(a.module), text_of(module_of(R"(
func @main(%ids: i64[2,3] input "ids" {batched}, %e: f32[7,4] parameter "embed.weight" {frozen},
    %q: f32[6,4] parameter "layers.0.attn.q_proj.weight" {frozen},
    %c: f32[6,4] parameter "layers.0.mlp.c_proj.weight" {frozen},
    %b: f32[4] parameter "layers.0.mlp.c_proj.bias" {frozen}, %n: f32[4] parameter "norm.weight" {frozen},
    %h: f32[7,4] parameter "head.weight" {frozen},
    %qa: f32[2,4] parameter "base_model.model.layers.0.attn.q_proj.lora_A.weight" {adapter, init = uniform},
    %qb: f32[6,2] parameter "base_model.model.layers.0.attn.q_proj.lora_B.weight" {adapter, init = zeros},
    %ca: f32[2,6] parameter "base_model.model.layers.0.mlp.c_proj.lora_A.weight" {adapter, init = uniform},
    %cb: f32[4,2] parameter "base_model.model.layers.0.mlp.c_proj.lora_B.weight" {adapter, init = zeros})
    -> (%logits) {
  %x = embedding(%e, %ids) : f32[2,3,4]
  %y = linear(%x, %q) : f32[2,3,6]
  %ya = linear(%x, %qa) : f32[2,3,2]
  %k = constant() {value = <f32[] splat 1.5>} : f32[]
  %yl = mul(%ya, %k) : f32[2,3,2]
  %yb = linear(%yl, %qb) : f32[2,3,6]
  %y2 = add(%y, %yb) : f32[2,3,6]
  %t = transpose(%c) {permutation = [1, 0]} : f32[4,6]
  %z = linear(%y2, %t, %b) : f32[2,3,4]
  %za = linear(%y2, %ca) : f32[2,3,2]
  %k2 = constant() {value = <f32[] splat 1.5>} : f32[]
  %zl = mul(%za, %k2) : f32[2,3,2]
  %zb = linear(%zl, %cb) : f32[2,3,4]
  %z2 = add(%z, %zb) : f32[2,3,4]
  %s = mul(%z2, %n) : f32[2,3,4]
  %logits = linear(%s, %h) : f32[2,3,7]
}
)")));
    const Adapters expected = {.rank = 2,
                               .alpha = 3,
                               .dropout = 0,
                               .rank_stabilized = false,
                               .transposed = true,
                               .targets = {"c_proj", "q_proj"},
                               .saved = {}};
    EXPECT_EQ(a.module.adapters, expected);
    EXPECT_EQ(notes(a.report),
              "done adapter at layers.0.attn.q_proj: rank 2, scale 1.5\n"
              "done adapter at layers.0.mlp.c_proj: rank 2, scale 1.5\n");
}

TEST(AddAdapters, OfWhatIsAskedFor) {
    const Added a = added("r=2,alpha=2,targets=q_proj");
    EXPECT_EQ(trained(a.module),
              "base_model.model.layers.0.attn.q_proj.lora_A.weight\n"
              "base_model.model.layers.0.attn.q_proj.lora_B.weight\n");
    // A scale of 1 is none.
    EXPECT_EQ(std::count_if(a.module.main().ops.begin(), a.module.main().ops.end(),
                            [](const Op& op) { return op.name == "mul"; }),
              1);
    EXPECT_FALSE(a.module.adapters->transposed);
    // The head is asked for by name alone; whole paths and their last parts are found, pieces of words are not.
    EXPECT_EQ(added("targets=head|attn\\.q_proj").module.adapters->targets,
              (std::vector<std::string>{"head", "q_proj"}));
    EXPECT_EQ(added("targets=layers\\.[0-9]\\.mlp\\..*").module.adapters->targets, std::vector<std::string>{"c_proj"});
    EXPECT_EQ(message("targets=proj"),
              "error: --lora: targets=proj finds no module\n"
              "help: it is a regular expression of a module's whole path or of its last parts; modules with matrices "
              "are embed, head, layers.0.attn.q_proj, layers.0.mlp.c_proj\n");
}

TEST(AddAdapters, RankStabilisedWithDropout) {
    const Added a = added("r=4,alpha=6,rslora,dropout=0.25,targets=head");
    const std::string text = text_of(a.module);
    for (const char* op : {"unplaced_dropout(%v_13) {of_adapter = true, rate = 0.25}", "<f32[] splat 3.0>"})
        EXPECT_NE(text.find(op), std::string::npos) << text;
}

TEST(AddAdapters, ModulesThatAreTrainedWhole) {
    const Added a = added("r=2,targets=q_proj,modules_to_save=head|norm");
    EXPECT_EQ(trained(a.module),
              "norm.weight\nhead.weight\nbase_model.model.layers.0.attn.q_proj.lora_A.weight\n"
              "base_model.model.layers.0.attn.q_proj.lora_B.weight\n");
    EXPECT_EQ(a.module.adapters->saved, (std::vector<std::string>{"head", "norm"}));
    EXPECT_EQ(message("targets=q_proj,modules_to_save=nothing"),
              "error: --lora: modules_to_save=nothing finds no module with parameters\n"
              "help: modules with parameters are embed, head, layers, layers.0, layers.0.attn, layers.0.attn.q_proj, "
              "layers.0.mlp, layers.0.mlp.c_proj and 1 more\n");
    EXPECT_EQ(message("modules_to_save=mlp"),
              "error: --lora: layers.0.mlp.c_proj would get an adapter, and be trained whole with layers.0.mlp\n"
              "help: make targets or modules_to_save narrower: the one or the other\n");
}

// The paths that tell modules apart from others of the same name.
TEST(AddAdapters, ShortPaths) {
    const char* const two = R"(
func @main(%x: f32[2,4] input "x" {batched}, %a: f32[4,4] parameter "h.0.attn.c_proj.weight",
    %b: f32[4,4] parameter "h.0.mlp.c_proj.weight", %c: f32[4,4] parameter "h.1.attn.c_proj.weight",
    %d: f32[4,4] parameter "h.1.mlp.c_proj.weight") -> (%v) {
  %y = linear(%x, %a) : f32[2,4] at "h.0.attn.c_proj"
  %z = linear(%y, %b) : f32[2,4] at "h.0.mlp.c_proj"
  %u = linear(%z, %c) : f32[2,4] at "h.1.attn.c_proj"
  %v = linear(%u, %d) : f32[2,4] at "h.1.mlp.c_proj"
}
)";
    EXPECT_EQ(added("targets=mlp\\.c_proj", two).module.adapters->targets, std::vector<std::string>{"mlp.c_proj"});
    EXPECT_EQ(added("targets=h\\.1\\.attn\\.c_proj", two).module.adapters->targets,
              std::vector<std::string>{"h.1.attn.c_proj"});
    EXPECT_EQ(added("targets=c_proj", two).module.adapters->targets, std::vector<std::string>{"c_proj"});
}

// Layers that share a weight share its adapter; the head that is the table gets one of its own, which is said.
TEST(AddAdapters, SharedWeights) {
    const char* const shared = R"(
func @main(%ids: i64[2,3] input "ids" {batched}, %e: f32[7,4] parameter "embed.weight" {alias 0 = ["head.weight"]},
    %w: f32[4,4] parameter "layer.weight") -> (%logits) {
  %x = embedding(%e, %ids) : f32[2,3,4] at "embed"
  %y = linear(%x, %w) : f32[2,3,4] at "layer"
  %z = linear(%y, %w) : f32[2,3,4] at "layer"
  %logits = linear(%z, %e) : f32[2,3,7] at "head"
}
)";
    EXPECT_EQ(trained(added("r=2", shared).module),
              "base_model.model.layer.lora_A.weight\nbase_model.model.layer.lora_B.weight\n");
    const Added head = added("r=2,targets=head", shared);
    EXPECT_EQ(trained(head.module), "base_model.model.head.lora_A.weight\nbase_model.model.head.lora_B.weight\n");
    EXPECT_EQ(notes(head.report),
              "warning adapter of a tied weight at head: the weight is embed.weight as well: merging the adapter into "
              "one of them needs a checkpoint that does not tie them\n"
              "done adapter at head: rank 2, scale 4\n");
    EXPECT_EQ(message("targets=layer,modules_to_save=head", shared),
              "error: --lora: modules_to_save=head finds head, whose weight is embed.weight as well\n"
              "help: let it find both, which stay one tensor, or neither\n");
    EXPECT_EQ(added("targets=layer,modules_to_save=head|embed", shared).module.adapters->saved,
              (std::vector<std::string>{"embed", "head"}));
}

TEST(AddAdapters, RefusesWhatIsNoLinearLayer) {
    const std::string help =
        "help: adapters stand beside linear layers: make the expression narrower; modules_to_save=REGEX trains any "
        "module whole\n";
    EXPECT_EQ(message("targets=embed|q_proj"),
              "error: --lora: targets=embed|q_proj finds embed, which is an embedding\n" + help);
    EXPECT_EQ(message("targets=norm"),
              "error: --lora: targets=norm finds norm, which is no linear layer, but of mul\n" + help);
    EXPECT_EQ(message("r=1", R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[4,3] parameter "head.weight") -> (%y) {
  %y = linear(%x, %w) : f32[2,4] at "head"
}
)"),
              "error: --lora: the model has no linear layer beside its head\n"
              "help: targets=REGEX says which layers get adapters, the head too\n");
    EXPECT_EQ(message("r=1", R"(
func @main(%x: f32[2,3] input "x" {batched}, %w: f32[4,3] parameter "q.lora_A.weight") -> (%y) {
  %y = linear(%x, %w) : f32[2,4] at "q.lora_A"
}
)"),
              "error: --lora: the model has adapters of its own: q.lora_A.weight\n"
              "help: --train-only lora_ trains those; to add new ones, export the model without them\n");
}

// ---- the option -----------------------------------------------------------------------------------------------------

std::string option_message(const std::string& text) {
    try {
        parse_lora(text);
    } catch (const UsageError& error) {
        return error.diagnostic().message;
    }
    return "";
}

TEST(LoraOptions, AreRead) {
    LoraOptions rank_alone;
    rank_alone.rank = 16;
    EXPECT_EQ(parse_lora("r=16"), rank_alone);
    EXPECT_EQ(parse_lora("r=16,alpha=32,rslora,dropout=0.1,targets=all-linear").scale(), 8);
    const LoraOptions both = parse_lora("targets=q{1,2}|[r,s]_proj,alpha=0.5,modules_to_save=a,b");
    EXPECT_EQ(both.targets, "q{1,2}|[r,s]_proj");
    EXPECT_EQ(both.modules_to_save, "a,b");
    EXPECT_EQ(both.alpha, 0.5);
}

TEST(LoraOptions, AreRefused) {
    EXPECT_EQ(option_message("rank=4"), "--lora: there is no rank");
    EXPECT_EQ(option_message("r=4,"), "--lora: an entry is empty");
    EXPECT_EQ(option_message("r"), "--lora: r has no value");
    EXPECT_EQ(option_message("r=0"), "--lora: r is 0: a whole number above 0");
    EXPECT_EQ(option_message("r=4.5"), "--lora: r is 4.5: a whole number above 0");
    EXPECT_EQ(option_message("alpha=-1"), "--lora: alpha is -1: a number above 0");
    EXPECT_EQ(option_message("dropout=1"), "--lora: dropout is 1: a rate from 0 to below 1");
    EXPECT_EQ(option_message("rslora=1"), "--lora: rslora takes no value");
    EXPECT_EQ(option_message("r=4,r=8"), "--lora: r is given twice");
    EXPECT_EQ(option_message("targets="), "--lora: targets is empty");
    EXPECT_EQ(option_message("targets=("), "--lora: targets is \"(\", which is not a regular expression");
}

}  // namespace add_adapters_test
}  // namespace thunderc
