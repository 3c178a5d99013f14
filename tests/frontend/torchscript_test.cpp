// SPDX-License-Identifier: Apache-2.0
// TorchScript archives: what is read of them, and that it is the same model as the program of torch.export.
#include "compiler/ir/print.h"
#include "compiler/passes/pass_manager.h"
#include "compiler/pipeline.h"
#include "tests/frontend/torchscript_archive.h"

namespace thunderc {
namespace torchscript_test {

std::string imported(const Entries& entries, const CompileOptions& options) {
    const TemporaryFile file("script.pt");
    write_zip(file.path(), entries);
    const Module module = import_model(file.path(), options);
    verify(module);
    return to_string(module.main(), {.provenance = false});
}

// The body of main, of a model of x f32[2, 2] with a weight of 2 by 3 and a bias of 3.
std::string body(const std::string& methods, const std::string& more = "") {
    const std::string text = imported(script_of(methods, more), with_input("x", "f32", {2, 2}));
    const std::size_t begin = text.find("{\n"), end = text.rfind('}');
    return text.substr(begin + 2, end - begin - 2);
}

std::string forward(const std::string& lines) {
    return "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    weight = self.weight\n" + lines;
}

// The module after a pass, without what says where it came from.
std::string after(const std::string& pass, const std::string& file) {
    CompileOptions options;
    if (file.starts_with("models/") && file.find("logits") != std::string::npos) options.loss = "cross-entropy";
    std::vector<PassRun> runs;
    std::string text;
    PassOptions watch;
    watch.after = [&](const Module& module, const PassRun& run) {
        if (run.name == pass) text = to_string(module.main(), {.provenance = false});
    };
    run_passes(import_model(fixture(file), options), pipeline(options), runs, watch);
    return text;
}

// To the letter: as it is imported with the names of nodes, scopes and classes; of others, whose code asks for sizes as
// it runs, after recognition.
TEST(TorchScript, IsTheModelOfTheProgramOfTorchExport) {
    EXPECT_EQ(to_string(import_model(fixture("mlp/ts.logits.pt"), {}).main()),
              to_string(import_model(fixture("mlp/ep.logits.pt2"), {}).main()));
    for (const std::string model : {"llama2", "llama2_tied", "models/resnet_train", "models/bert"}) {
        const std::string text = after("simplify_raised", model + "/ts.logits.pt");
        ASSERT_FALSE(text.empty());
        EXPECT_EQ(text, after("simplify_raised", model + "/ep.logits.pt2")) << model;
    }
    EXPECT_EQ(after("simplify_raised", "models/mamba/ts.loss.pt"),
              after("simplify_raised", "models/mamba/ep.loss.pt2"));
}

TEST(TorchScript, MethodsAreInlinedAndLoopsUnrolled) {
    EXPECT_EQ(body(forward("    y = torch.matmul(x, weight)\n"
                           "    for i in range(self.n):\n"
                           "      y = (self).more(y, i, )\n"
                           "    return y\n"
                           "  def more(self: __torch__.M,\n"
                           "    x: Tensor,\n"
                           "    k: int,\n"
                           "    scale: float=0.5) -> Tensor:\n"
                           "    if torch.eq(k, 1):\n"
                           "      y = torch.mul(x, scale)\n"
                           "    else:\n"
                           "      y = torch.add(x, self.bias, alpha=1)\n"
                           "    return y\n")),
              R"(  %matmul = matmul(%x, %weight) {transpose_a = false, transpose_b = false} : f32[2,3]
  %add = add(%matmul, %bias) : f32[2,3]
  %constant = constant() {value = <f32[] splat 0.5>} : f32[]
  %mul = mul(%add, %constant) : f32[2,3]
  %add_1 = add(%mul, %bias) : f32[2,3]
)");
}

}  // namespace torchscript_test
}  // namespace thunderc
