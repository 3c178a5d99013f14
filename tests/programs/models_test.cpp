// SPDX-License-Identifier: Apache-2.0
// Models of many kinds (tests/fixtures/models) train as PyTorch did for ten steps: loss and gradient norm of each,
// gradients of the first, parameters and statistics after the last; on one rank, and two of them on two. Programs are
// compiled quickly, since there are many.
#include <gtest/gtest.h>

#include "tests/programs/pytorch_numbers.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace models_test {

struct Case {
    const char *name, *model, *graph, *options;
    int ranks = 1;
};

std::ostream& operator<<(std::ostream& out, const Case& c) {
    return out << c.model << "/" << c.graph << " " << c.options;
}

const Case cases[] = {
    // Programs of torch.export, in which nothing has to be asked for.
    {"resnet_eval_ep", "resnet_eval", "ep_dyn.logits", "--batch 4"},
    {"resnet_train_ep", "resnet_train", "ep.logits", ""},
    {"convnext_ep", "convnext", "ep.logits", ""},
    {"vit_ep", "vit", "ep_dyn.logits", "--batch 4"},
    {"unet_ep", "unet", "ep.loss", ""},
    {"vae_ep", "vae", "ep.loss", ""},
    {"clip_ep", "clip", "ep.loss", ""},
    {"whisper_ep", "whisper", "ep.logits", ""},
    {"bert_ep", "bert", "ep.logits", ""},
    {"mamba_ep", "mamba", "ep.loss", ""},
    {"gpt_heads_ep", "gpt_heads", "ep.loss", ""},
    {"llama_complex_ep", "llama_complex", "ep.loss", ""},
    {"transformer_ep", "transformer", "ep.loss", ""},
    {"t5_ep", "t5", "ep.loss", ""},
    {"lstm_masked_ep", "lstm_masked", "ep.logits", ""},
    {"gru_ep", "gru", "ep.logits", ""},
    {"gru_cells_ep", "gru_cells", "ep.loss", ""},
    {"mixtral_ep", "mixtral", "ep.loss", ""},
    {"experts_ep", "experts", "ep.loss", ""},
    {"dlrm_ep", "dlrm", "ep.loss", ""},
    {"graph_net_ep", "graph_net", "ep.loss", ""},
    // TorchScript, traced and scripted.
    {"resnet_train_ts", "resnet_train", "ts.logits", ""},
    {"resnet_train_script", "resnet_train", "script.logits", "--input 'image=f32[4,3,12,12]'"},
    {"resnet_eval_ts_dp2", "resnet_eval", "ts.logits", "--batch 2 --dp 2", 2},
    {"vit_ts", "vit", "ts.logits", ""},
    {"vit_ts_fsdp2", "vit", "ts.logits", "--batch 2 --fsdp 2", 2},
    {"gru_script", "gru", "script.logits", "--input 'x=f32[4,6,5]'"},
    {"gru_cells_script", "gru_cells", "script.loss", "--input 'x=f32[4,6,5]' --input 'y=f32[batch,6,4]' --batch 4"},
    {"unet_script", "unet", "script.loss", "--input 'image=f32[4,2,8,8]' --input 'target=i64[4,8,8]'"},
    {"gpt_heads_ts", "gpt_heads", "ts.loss", ""},
    {"bert_ts", "bert", "ts.logits", ""},
    {"llama_complex_ts", "llama_complex", "ts.loss", ""},  // a buffer of complex numbers
    {"mamba_ts", "mamba", "ts.loss", ""},
    {"experts_ts", "experts", "ts.loss", ""},
    {"transformer_ts", "transformer", "ts.loss", ""},
    {"resnet_eval_noopt", "resnet_eval", "noopt_dyn.logits", "--batch 4"},
    {"resnet_eval_legacy", "resnet_eval", "legacy.logits", ""},
    {"resnet_eval_dp2", "resnet_eval", "noopt_dyn.logits", "--batch 2 --dp 2", 2},
    {"resnet_eval_fsdp2", "resnet_eval", "noopt_dyn.logits", "--batch 2 --fsdp 2", 2},
    {"resnet_train_noopt", "resnet_train", "noopt.logits", ""},
    {"resnet_train_legacy", "resnet_train", "legacy.logits", ""},
    {"convnext_noopt", "convnext", "noopt.logits", ""},
    {"convnext_legacy", "convnext", "legacy.logits", ""},
    {"vit_noopt", "vit", "noopt_dyn.logits", "--batch 4"},
    {"vit_dynamo", "vit", "dynamo_dyn.logits", "--batch 4"},
    {"vit_legacy", "vit", "legacy.logits", ""},
    {"vit_dp2", "vit", "noopt_dyn.logits", "--batch 2 --dp 2", 2},
    {"vit_fsdp2", "vit", "noopt_dyn.logits", "--batch 2 --fsdp 2", 2},
    {"unet_noopt", "unet", "noopt.loss", ""},
    // The exporter's optimizer evaluated the weights of norms of groups.
    {"unet_dynamo", "unet", "dynamo.loss", ""},
    {"unet_legacy", "unet", "legacy.loss", ""},
    {"vae_dynamo", "vae", "dynamo.loss", ""},
    {"vae_legacy", "vae", "legacy.loss", ""},
    {"clip_noopt", "clip", "noopt.loss", ""},
    // A parameter of one number, which TorchScript does not tell from a number of the code.
    {"clip_legacy", "clip", "legacy.loss", "--trainable ^logit_scale$"},
    // Its positions are frozen in the model, which no export tells.
    {"whisper_noopt", "whisper", "noopt.logits", "--freeze embed_positions"},
    {"whisper_legacy", "whisper", "legacy.logits", "--freeze embed_positions"},
    {"t5_noopt", "t5", "noopt.loss", ""},
    {"t5_legacy", "t5", "legacy.loss", ""},
    {"bert_noopt", "bert", "noopt.logits", ""},
    {"bert_legacy", "bert", "legacy.logits", ""},
    // torch.export does not take packed sequences.
    {"lstm_packed_legacy", "lstm_packed", "legacy.logits", ""},
    {"lstm_packed_dyn", "lstm_packed", "legacy_dyn.logits", "--batch 4"},
    {"lstm_masked_noopt", "lstm_masked", "noopt.logits", ""},
    {"lstm_masked_legacy", "lstm_masked", "legacy.logits", ""},
    {"gru_noopt", "gru", "noopt.logits", ""},
    {"gru_legacy", "gru", "legacy.logits", ""},
    {"gru_cells_dynamo", "gru_cells", "dynamo.loss", ""},
    {"gru_cells_legacy", "gru_cells", "legacy.loss", ""},
    {"mamba_noopt", "mamba", "noopt.loss", ""},
    {"mamba_legacy", "mamba", "legacy.loss", ""},
    {"experts_noopt", "experts", "noopt.loss", ""},
    {"mixtral_noopt", "mixtral", "noopt.loss", ""},
    {"mixtral_dynamo", "mixtral", "dynamo.loss", ""},
    {"gpt_heads_noopt", "gpt_heads", "noopt.loss", ""},
    // TorchScript tells buffers by nothing.
    {"gpt_heads_legacy", "gpt_heads", "legacy.loss", "--constant tril$"},
    {"transformer_noopt", "transformer", "noopt.loss", ""},
    {"transformer_legacy", "transformer", "legacy.loss", ""},
    {"dlrm_dynamo", "dlrm", "dynamo.loss", ""},
    {"dlrm_legacy", "dlrm", "legacy.loss", ""},
    {"graph_net_noopt", "graph_net", "noopt.loss", ""},
    // The exporter's optimizer evaluated the ones and zeros that sums are added to.
    {"graph_net_dynamo", "graph_net", "dynamo.loss", "--constant ^val_"},
};

class Models : public testing::TestWithParam<Case> {};

TEST_P(Models, WithPyTorch) {
    const Case& c = GetParam();
    const GeneratedProgram program(c.name, std::string("models/") + c.model, c.graph, c.options, "train", c.ranks,
                                   Cpu::native, Compiled::quickly);
    // TorchScript's exporter runs the model once, which moves its statistics in the file.
    expect_pytorchs_numbers(program,
                            std::string(c.graph).starts_with("legacy") ? "--init params.safetensors" : std::string());
}

INSTANTIATE_TEST_SUITE_P(Programs, Models,
                         testing::ValuesIn(in_short(cases, {"resnet_train_ep", "gru_script", "unet_dynamo",
                                                            "lstm_packed_dyn", "llama_complex_ep", "mixtral_dynamo"})),
                         [](const auto& info) { return std::string(info.param.name); });

}  // namespace models_test
}  // namespace thunderc::tests
