// SPDX-License-Identifier: Apache-2.0
// What thunderc says when a model, an option or the disk is at fault: the whole text and the exit status; and that
// nothing is left behind. What it does not catch is a bug: status 3.
#include "tests/errors/errors.h"

#include "compiler/losses/losses.h"

namespace thunderc::tests {
namespace {

TEST_F(Errors, OfFilesThatAreNoModels) {
    expect_failure(
        "train none.onnx -o out",
        "there is no file none.onnx\nhelp: give the path of an exported model, e.g. model.pt2 or model.onnx");
    for (const char* command : {"inspect", "trace", "plan"})
        expect_failure(
            std::string(command) + " none.onnx",
            "there is no file none.onnx\nhelp: give the path of an exported model, e.g. model.pt2 or model.onnx");
    write_file(folder_ / "notes.txt", "These are notes, and no model of anything.\n");
    expect_failure("train notes.txt -o out",
                   "notes.txt is no model: neither an ONNX file nor an archive of torch.export.save or torch.jit.save\n"
                   "help: export the model: torch.export.save(torch.export.export(model, args), \"model.pt2\"), or "
                   "torch.onnx.export(model, args, \"model.onnx\", dynamo=True, optimize=False)");
    write_file(folder_ / "empty.onnx", "");
    expect_failure("train empty.onnx -o out", "empty.onnx is empty\nhelp: export the model again");
    fs::create_directory(folder_ / "folder.onnx");
    expect_failure(
        "train folder.onnx -o out",
        "folder.onnx is a folder, not a model file\nhelp: give the path of the exported model inside it, e.g. "
        "model.pt2 or model.onnx");
    fs::create_directory(folder_ / "llama");
    write_file(folder_ / "llama/config.json", "{}");
    expect_failure("train llama -o out",
                   "llama is a folder of Hugging Face: weights and a configuration, and no graph of a model\n"
                   "help: export the model: python -m thunderc.export llama -o model.pt2 (docs/python.md)");
}

TEST_F(Errors, OfTruncatedModels) {
    const std::string whole = read_file(fs::path(FIXTURES) / "mlp/dynamo.logits.onnx");
    write_file(folder_ / "cut.onnx", whole.substr(0, whole.size() - 1838));
    expect_failure("train cut.onnx -o out",
                   "cut.onnx is truncated: at least 1832 bytes are missing at its end\nhelp: copy or export the model "
                   "again");
    // Cut anywhere, it is refused, and never a crash.
    for (std::size_t length : {std::size_t{1}, std::size_t{2}, std::size_t{9}, std::size_t{100}, whole.size() / 2,
                               whole.size() - 20, whole.size() - 1}) {
        write_file(folder_ / "cut.onnx", whole.substr(0, length));
        const Outcome outcome = thunderc("train cut.onnx -o out");
        EXPECT_EQ(outcome.status, 1) << length << ": " << outcome.err;
        EXPECT_FALSE(fs::exists(folder_ / "out")) << length;
    }
}

TEST_F(Errors, OfExternalData) {
    fs::copy_file(folder_ / "fixtures/frontend/external.onnx", folder_ / "external.onnx");
    const std::string data = read_file(folder_ / "fixtures/frontend/external.onnx.data");
    write_file(folder_ / "external.onnx.data", data.substr(0, 20));
    expect_failure("train external.onnx -o out --loss mse",
                   "the external file external.onnx.data is too short: layer.weight needs 48 bytes at offset 0, the "
                   "file has 20\nhelp: copy or export the file again");
    fs::remove(folder_ / "external.onnx.data");
    expect_failure("train external.onnx -o out --loss mse --constant layer.weight",
                   "the constant layer.weight is in the external file external.onnx.data, which is missing\nhelp: put "
                   "the file beside the model: constants are compiled into the program");
    // Weights may come later; the program says so when it starts.
    const Outcome outcome = thunderc("train external.onnx -o out --loss mse --quiet");
    EXPECT_EQ(outcome.status, 0);
    EXPECT_EQ(outcome.err,
              "note: the weights are not there (external.onnx.data): the program starts from random ones, or from "
              "--init\n");
    EXPECT_FALSE(fs::exists(folder_ / "out/weights.safetensors"));
}

TEST_F(Errors, OfGraphs) {
    const std::string train = "train fixtures/frontend/", out = ".onnx -o out";
    expect_failure(train + "unknown_operator" + out,
                   "the operator Sofmax is not supported\n  node: node_7\n  module: model.mlp\n  operator: Sofmax\n"
                   "help: did you mean Softmax?");
    expect_failure(
        train + "unknown_domain" + out,
        "the operator FancyOp of the domain com.example is not supported\n  node: fancy\n  operator: FancyOp\n"
        "help: express it by other operators in the model, or export it as a model-local function; "
        "a function of your own can compute such an operator: --user-executor FILE");
    expect_failure(train + "opset_12" + out,
                   "the model is of opset 12, which is not supported\n  expected: opset 13 to 28\n  found: opset 12\n"
                   "help: export with torch.onnx.export(..., opset_version=20)");
    expect_failure(train + "layer_norm_before_17" + out,
                   "the operator LayerNormalization is not supported in opset 16\n  node: norm\n  operator: "
                   "LayerNormalization\nhelp: export with another opset_version, 20 for example");
    expect_failure(
        train + "data_dependent" + out,
        "the shape of Expand depends on the model's data; shapes are fixed when compiling\n  node: expand\n  "
        "operator: Expand\nhelp: export the model so that its shapes follow from the shapes of its inputs "
        "alone");
    expect_failure(train + "bad_reshape" + out,
                   "Reshape changes the number of elements\n  node: view\n  operator: Reshape\n  expected: 6 elements: "
                   "[2,3]\n  found: [4,2]\nhelp: where the exported shapes are baked in, leave --batch and --seq out");
    expect_failure(train + "string_input" + out,
                   "the input x is of type STRING, which is not supported\nhelp: export the model in float32");
    expect_failure(
        train + "unbounded_ids" + out + " --loss cross-entropy",
        "an index of Gather cannot be shown to lie inside its table embed.weight f32[11,6]\n  node: embed\n  module: "
        "embed\n  "
        "operator: Gather\n  expected: 0 to 10\n  found: any number\nhelp: limit it in the model "
        "(index.clamp(0, 10)), or let it be an input of the graph, which is checked while batches are loaded");
    expect_failure(train + "if_constant" + out + " --loss mse",
                   "there is nothing to train: no trainable parameter reaches the loss\nhelp: freeze fewer (--freeze, "
                   "--train-only), or say with --trainable which tensors are parameters");
}

TEST_F(Errors, OfDimensions) {
    const std::string dynamic = "train fixtures/llama2/dyn.logits.onnx -o out ",
                      fixed = "train fixtures/llama2/dynamo.logits.onnx -o out ";
    expect_failure(dynamic,
                   "dynamic dimensions are not bound: batch (dimension 0 of the input input_ids), seq (dimension 1 of "
                   "the input input_ids)\nhelp: add --batch N --seq N",
                   2);
    expect_failure(dynamic + "--batch 2",
                   "the dynamic dimension seq (dimension 1 of the input input_ids) is not bound\nhelp: add --seq N", 2);
    expect_failure("train fixtures/frontend/three_symbols.onnx -o out --batch 2 --seq 3",
                   "the dynamic dimension channels (dimension 2 of the input x) is not bound\nhelp: add --dim "
                   "channels=N",
                   2);
    expect_failure(
        dynamic + "--batch 2 --dim sequence=8",
        "--dim sequence=8: the model has no dynamic dimension of that name\nhelp: its dynamic dimensions are: "
        "batch, seq",
        2);
    expect_failure(dynamic + "--dim batch=2 --batch 4 --seq 8",
                   "the dimension batch is bound twice: --batch 4 and --dim batch=2\nhelp: leave one of the two out",
                   2);
    expect_failure(
        fixed + "--batch 3",
        "--batch 3 does not match the model, which was exported with a static shape\n  expected: 2 in "
        "dimension 0 of the input input_ids\n  found: 3\nhelp: leave --batch out, or export with dynamic axes "
        "(dynamic_shapes={...})",
        2);
    expect_failure(
        fixed + "--seq 7",
        "--seq 7 does not match the model, which was exported with a static shape\n  expected: 8 in dimension "
        "1 of the input input_ids\n  found: 7\nhelp: leave --seq out, or export with dynamic axes "
        "(dynamic_shapes={...})",
        2);
    expect_failure(fixed + "--dim batch=2",
                   "--dim batch=2: the model has no dynamic dimension of that name\nhelp: all dimensions of this model "
                   "are static: leave --dim out",
                   2);
}

TEST_F(Errors, OfLosses) {
    expect_failure("train fixtures/llama2/dynamo.logits.onnx -o out --loss none",
                   "training needs a loss, and the model ends in none\n  expected: a scalar result\n  found: logits "
                   "f32[2,8,48]\nhelp: use --loss " +
                       loss_names() + ", or export a model that ends in its loss");
    // What a result of numbers is for is asked.
    std::string offered;
    for (const AddedLoss& loss : added_losses())
        offered += "--loss " + loss.name + " (" +
                   (loss.name == "cosine-embedding"                      ? "other_embeddings f32[4,5], signs f32[4]"
                    : loss.name == "cross-entropy" || loss.name == "nll" ? "labels i64[4]"
                                                                         : "labels f32[4,5]") +
                   "), ";
    expect_failure("train fixtures/mlp/dynamo.logits.onnx -o out",
                   "the model ends in logits, which has no loss yet: it may be scores of classes, or numbers\n"
                   "  expected: token ids and scores [batch, positions, classes], where a cross entropy is added, or "
                   "--loss\n"
                   "  found: logits f32[4,5]\n"
                   "help: say what it is trained with: " +
                       offered + "as thunderc train --help describes them, or export the model with its loss");
    expect_failure("train fixtures/llama2/dynamo.loss.onnx -o out --loss cross-entropy",
                   "--loss cross-entropy is given, but the model ends in a loss of its own, loss\nhelp: leave --loss "
                   "out, or export the model without its loss");
}

TEST_F(Errors, OfPrecision) {
    const std::string train = "train fixtures/llama2/noopt.logits.onnx -o out ";
    expect_failure(
        train + "--master none",
        "--master none is for a step in bf16, and this one is in f32\nhelp: add --dtype bf16, or leave it out", 2);
    expect_failure(train + "--grad-dtype bf16 --optim-dtype bf16",
                   "--grad-dtype bf16 and --optim-dtype bf16 are for a step in bf16, and this one is in f32\nhelp: add "
                   "--dtype bf16, or leave them out",
                   2);
    expect_failure(
        train + "--dtype f32 --optim-dtype bf16",
        "--optim-dtype bf16 is for a step in bf16, and this one is in f32\nhelp: instead of --dtype f32 give "
        "--dtype bf16, or leave it out",
        2);
}

TEST_F(Errors, OfFp8) {
    const std::string train = "train fixtures/llama2/noopt.logits.onnx -o out ", bf16 = train + "--dtype bf16 ";
    expect_failure(train + "--fp8 delayed",
                   "--fp8 is for a step in bf16, and this one is in f32\nhelp: add --dtype bf16, or leave --fp8 out",
                   2);
    expect_failure(
        bf16 + "--fp8 tensorwise",
        "--fp8: tensorwise is not among delayed, current, blockwise, mxfp8\nhelp: thunderc train --help shows "
        "what it takes",
        2);
    expect_failure(bf16 + "--fp8 delayed --arch sm_80",
                   "--fp8 delayed: sm_80 has no such products\nhelp: GPUs from sm_89 on have: add one to --arch, or "
                   "leave --fp8 out",
                   2);
    expect_failure(
        bf16 + "--fp8 mxfp8 --arch sm_90a,sm_80",
        "--fp8 mxfp8: sm_90a, sm_80 have no such products\nhelp: GPUs from sm_100 on have: add one to --arch, "
        "or leave --fp8 out",
        2);
    expect_failure(bf16 + "--fp8 mxfp8",
                   "--fp8: no linear layer of the model's blocks can be quantised: 16 rows are no multiple of 32\n"
                   "  module: model.layers.{0..1}.self_attn.{q,k,v}_proj\nhelp: leave --fp8 out; docs/numerics.md says "
                   "which layers are taken");
    expect_failure(bf16 + "--fp8 delayed --fp8-skip '('",
                   "--fp8-skip \"(\" is not a regular expression\nhelp: for example: --fp8-skip 'mlp\\.down_proj$', or "
                   "first=1,last=2",
                   2);
    expect_failure(bf16 + "--fp8 delayed --fp8-skip first=0",
                   "--fp8-skip \"first=0\": first=0 is no number of layers\nhelp: for example: --fp8-skip "
                   "first=1,last=2",
                   2);
    expect_failure(bf16 + "--fp8 delayed --fp8-skip lm_heads",
                   "--fp8-skip: 'lm_heads' names no linear layer\nhelp: thunderc inspect lists the modules; for "
                   "example: --fp8-skip 'mlp\\.down_proj$', or first=1,last=2");
    expect_failure(bf16 + "--fp8 delayed --fp8-weights once --fsdp 2",
                   "--fp8-weights once is not for --fsdp and --hsdp\nhelp: no rank keeps whole weights there: "
                   "leave it away",
                   2);
    const char* none = " is about --fp8, which is not given\nhelp: add --fp8 delayed, for example, or leave it away";
    for (const std::string flag : {"--fp8-skip lm_head", "--fp8-weights each", "--fp8-wgrad bf16"})
        expect_failure(bf16 + flag, flag.substr(0, flag.find(' ')) + none, 2);
}

TEST_F(Errors, OfLogitsInChunks) {
    const std::string train = "train fixtures/llama2/dynamo.logits.onnx -o out --logits-chunk ";
    for (const std::string rows : {"0", "-4", "4.5", "all"})
        expect_failure(train + rows,
                       "--logits-chunk: " + rows +
                           " is not auto, whole, or a number of rows from 1 on\nhelp: thunderc train --help shows what "
                           "it takes",
                       2);
    for (const std::string executors : {"reference", "products,fused", "cross_entropy,fused"})
        expect_failure(train + "4 --executors " + executors,
                       "--logits-chunk is about what the executors products and cross_entropy compute, not both of "
                       "which --executors names\nhelp: leave --logits-chunk away, or name both",
                       2);
}

TEST_F(Errors, OfChosenParameters) {
    const std::string train = "train fixtures/llama2/dynamo.logits.onnx -o out ";
    for (const std::string flag : {"--freeze", "--train-only"})
        expect_failure(train + flag + " no_such",
                       flag +
                           " no_such matches no parameter\nhelp: the parameters are model.embed_tokens.weight, "
                           "model.layers.{0..1}.input_layernorm.weight, model.layers.{0..1}.self_attn.q_proj.weight, "
                           "model.layers.{0..1}.self_attn.k_proj.weight, model.layers.{0..1}.self_attn.v_proj.weight, "
                           "model.layers.{0..1}.self_attn.o_proj.weight, "
                           "model.layers.{0..1}.post_attention_layernorm.weight, "
                           "model.layers.{0..1}.mlp.gate_proj.weight and 6 more",
                       2);
    expect_failure(train + "--freeze layers.0 --train-only self_attn.q_proj",
                   "--freeze and --train-only both match model.layers.0.self_attn.q_proj.weight\nhelp: --train-only "
                   "alone freezes all others; make one of the two expressions narrower",
                   2);
    expect_failure(train + "--freeze '.*'",
                   "there is nothing to train: no trainable parameter reaches the loss\nhelp: freeze fewer (--freeze, "
                   "--train-only), or say with --trainable which tensors are parameters");
    const std::string lists = "\nhelp: thunderc inspect lists parameters, and constants with the reason why they are";
    expect_failure(train + "--trainable no_such", "--trainable no_such matches no tensor of the graph" + lists);
    expect_failure(train + "--constant no_such", "--constant no_such matches no tensor of the graph" + lists);
    // Each of several.
    expect_failure(train + "--trainable embed --trainable no_such",
                   "--trainable no_such matches no tensor of the graph" + lists);
    // What the exporter lost is named.
    expect_failure(
        "train fixtures/evaluated/teacher_of_parameters.onnx -o out --freeze ^teacher",
        "--freeze ^teacher matches no parameter that the graph has\n  found: teacher.weight, teacher.bias of "
        "the model, which the exporter's optimizer merged, folded or dropped\nhelp: torch.onnx.export(..., "
        "optimize=False) keeps every parameter under its name",
        2);
    expect_failure(
        train + "--constant q_proj --trainable q_proj",
        "both --constant and --trainable match model.layers.0.self_attn.q_proj.weight\nhelp: make one of the "
        "two expressions narrower");
    for (const std::string flag : {"--freeze", "--train-only", "--trainable", "--constant"})
        expect_failure(
            train + flag + " '('",
            flag + " \"(\" is not a regular expression\nhelp: for example: " + flag + " 'model\\.layers\\.[0-9]+\\..*'",
            2);
}

TEST_F(Errors, OfTheCommandLine) {
    const std::string model = "fixtures/mlp/dynamo.logits.onnx", train = "train " + model + " -o out ",
                      help = "\nhelp: thunderc train --help shows what it takes",
                      of_program =
                          "; how a program trains (--steps, --lr, --data) is said to the program: out/build/train "
                          "--help";
    expect_failure(train + "--recompte block", "unknown option --recompte\nhelp: did you mean --recompute?", 2);
    expect_failure(train + "--recompte=block", "unknown option --recompte\nhelp: did you mean --recompute?", 2);
    expect_failure(train + "--foo", "unknown option --foo" + help + of_program,
                   2);  // near to nothing, though as short as --out
    expect_failure(train + "-x", "unknown option -x" + help + of_program, 2);
    expect_failure(train + "--lr 3", "unknown option --lr" + help + of_program, 2);
    expect_failure(train + "--recompute all", "--recompute: all is not among none, selective, block, auto" + help, 2);
    for (const char* budget : {"abc", "0", "0GB", "-1GB", "78", "78x"})
        expect_failure(
            train + "--recompute auto --memory-budget " + budget,
            std::string("--memory-budget: ") + budget + " is no size above 0 with its unit, as 78GB or 24GiB" + help,
            2);
    const std::string of_auto = " is of --recompute auto alone, and --recompute is ",
                      write_auto = "\nhelp: write --recompute auto, or leave it away";
    expect_failure(train + "--recompute block --memory-budget 1GB", "--memory-budget" + of_auto + "block" + write_auto,
                   2);
    expect_failure(train + "--machine h100", "--machine" + of_auto + "none" + write_auto, 2);
    expect_failure(train + "--loss cross-entropy --recompute auto --memory-budget 1kB",
                   "the program needs at least 10.5 kB of memory, whatever it computes again\n  expected: 1.0 kB, of "
                   "--memory-budget\n  found: 9.2 kB of parameters, gradients and states, 1.3 kB of activations and "
                   "all else\nhelp: --fsdp N, --optim-dtype 8bit, --batch smaller and --grad-accum larger, "
                   "--logits-chunk ROWS, or a larger budget");
    expect_failure(train + "--loss hinge",
                   "there is no loss called hinge\nhelp: --loss takes auto, none, " + loss_names(), 2);
    expect_failure(train + "--loss mse:delta=2",
                   "--loss mse has no option delta\nhelp: it takes none: leave away what is behind the colon", 2);
    expect_failure(train + "--loss ''", "--loss: the text is empty" + help, 2);
    expect_failure(train + "--loss cross-entropy:class_weights=1,2",
                   "class_weights of --loss cross-entropy has 2 numbers, and logits has 5 classes\n  expected: 5 "
                   "numbers\n  found: logits f32[4,5]\nhelp: give one for each class, in their order, and 1 for those "
                   "that count as they are");
    expect_failure(train + "--batch 0", "--batch: 0 is not a whole number of at least 1" + help, 2);
    expect_failure(train + "--seq 1.5", "--seq: 1.5 is not a whole number of at least 1" + help, 2);
    expect_failure(train + "--grad-accum -1", "--grad-accum: -1 is not a whole number from 1 to 1000000" + help, 2);
    for (const char* bad : {"0", "-1", "inf", "nan", "1e39", "on", "8x"})
        expect_failure(train + "--loss-scale " + bad,
                       std::string("--loss-scale: ") + bad +
                           " is not auto, off, dynamic or a number above 0 that a float has" + help,
                       2);
    expect_failure(train + "--batch", "--batch takes a value" + help, 2);
    expect_failure(train + "--batch 99999999999999999999",
                   "--batch: 99999999999999999999 is not a whole number of at least 1" + help, 2);
    expect_failure(train + "--batch 4 --batch 4", "--batch is given more than once" + help, 2);
    expect_failure(train + "-o again", "--out is given more than once" + help, 2);
    for (const std::string flag : {"--executors", "--freeze", "--train-only", "--trainable", "--constant"})
        expect_failure(train + flag + " ''", flag + ": the text is empty" + help, 2);
    for (const char* flag : {"--device", "--arch", "--recompute"})
        expect_failure(train + flag + " ''", flag + std::string(": the text is empty") + help, 2);
    expect_failure("train " + model + " -o ''", "--out: the text is empty" + help, 2);
    expect_failure("train '' -o out", "model: the text is empty" + help, 2);
    for (const std::string dims : {"n=4 --dim n=5", "n=4,m=2,n=5"})
        expect_failure(train + "--dim " + dims, "--dim binds n twice, to 4 and to 5\nhelp: leave one of the two out",
                       2);
    for (const char* dim : {"seq", "seq=", "seq=0", "seq=8x", "=8", "seq=9223372036854775808"})
        expect_failure(train + "--dim " + dim,
                       "--dim takes NAME=N, not " + std::string(dim) + "\nhelp: --dim seq=256, for example", 2);
    expect_failure(
        train + "--loss cross-entropy --executors onednn",
        "there is no executor onednn\nhelp: executors are products, convolutions, attention, cross_entropy, embedding, "
        "optimizer, fused, reference",
        2);
    expect_failure("train " + model, "--out is required" + help, 2);
    expect_failure("train -o out", "model is required" + help, 2);
    expect_failure(train + "two.onnx", "one argument too many: two.onnx" + help, 2);
    expect_failure("TRAIN " + model + " -o out", "unknown command TRAIN\nhelp: did you mean train?", 2);
    const std::string data = "\nhelp: thunderc data --help shows what it takes",
                      pack = "\nhelp: thunderc data pack --help shows what it takes";
    expect_failure("data", "a command is missing" + data, 2);
    expect_failure("data pck", "unknown command pck\nhelp: did you mean pack?", 2);
    expect_failure("data pack a.txt", "--out is required" + pack, 2);
    expect_failure("data pack a.txt -o c.bin --ot c.bin", "unknown option --ot\nhelp: did you mean --out?", 2);
    const std::string verify = "verify --loss cross-entropy " + model,
                      verify_help = "\nhelp: thunderc verify --help shows what it takes";
    expect_failure(verify + " --tolerance nan", "--tolerance: nan is not a number above 0" + verify_help, 2);
    expect_failure(verify + " --seed -1", "--seed: -1 is not a whole number of at least 0" + verify_help, 2);
    expect_failure(verify + " --elements 0 --directions 0",
                   "--directions 0 and --elements 0 leave nothing to compare\nhelp: leave one of the two out", 2);
    expect_failure(verify + " --dtype bf17", "--dtype: bf17 is not among auto, f32, f16, bf16" + verify_help, 2);
    expect_failure(verify + " --dtype f32 --fp8 current",
                   "--fp8 is for a step in bf16, and this one is in f32\nhelp: add --dtype bf16, or leave --fp8 out",
                   2);
    for (const std::string option : {"--json", "--factor 3", "--rows 3", "--batches 2"})
        expect_failure(verify + " " + option,
                       option.substr(0, option.find(' ')) +
                           " is about what the types of a program cost, and none is "
                           "given\nhelp: add --dtype bf16, f16 or f32, or leave it away",
                       2);
    expect_failure(verify + " --fp8 current --factor 3",
                   "--fp8 is about what the types of a program cost, and none is given\nhelp: add --dtype bf16, or "
                   "leave it away",
                   2);
    // What a pass behind the gradients refuses is not passed over.
    expect_failure(
        verify + " --master none",
        "--master none is for a step in bf16, and this one is in f32\nhelp: add --dtype bf16, or leave it out", 2);
    for (const std::string option : {"--grad-dtype", "--optim-dtype"})
        expect_failure(verify + " " + option + " bf16",
                       option +
                           " bf16 is for a step in bf16, and this one is in f32\nhelp: add --dtype bf16, or leave "
                           "it out",
                       2);
    expect_failure(
        verify + " --dtype bf16 --batches 100000000",
        "verify --dtype evaluates each op by plain loops in double: 5.1e+12 operations of products here, 1e+12 "
        "at most\nhelp: make it smaller with --batch, --seq and --dim, or with fewer --batches; where the "
        "model itself is larger, export one of fewer layers and narrower ones: rounding is the same");
    const std::string timeline = "plan --loss cross-entropy " + model + " --machine h100 --timeline no_such/t.json";
    EXPECT_EQ(thunderc(timeline).err,
              "error: no_such/t.json cannot be written: No such file or directory\nhelp: choose another file for "
              "--timeline, in a folder that exists and has room\n");
    expect_failure("trian " + model + " -o out", "unknown command trian\nhelp: did you mean train?", 2);
    expect_failure("--verion", "unknown option --verion\nhelp: did you mean --version?", 2);
    const Outcome trace = thunderc("trace --loss cross-entropy " + model + " --after fold");
    EXPECT_EQ(trace.status, 2);
    EXPECT_EQ(trace.err.substr(0, trace.err.find(',')), "error: there is no pass fold\nhelp: the passes are import");
}

TEST_F(Errors, OfTransforms) {
    const std::string emit = "emit fixtures/mlp/dynamo.logits.onnx -o out --transform ",
                      help = "\nhelp: supported are forward, vjp, and forward,vjp, which is vjp";
    expect_failure(emit + "jvp", "--transform jvp: jvp is not supported" + help, 2);
    expect_failure(emit + "forward,vmap=4", "--transform forward,vmap=4: vmap=4 is not supported" + help, 2);
    expect_failure(emit + "vjp,vjp", "--transform vjp,vjp: vjp of vjp is not supported" + help, 2);
    expect_failure(emit + "vjp,forward", "--transform vjp,forward: forward of vjp is not supported" + help, 2);
    expect_failure(emit + "vjp,", "--transform vjp,: a transform has no name" + help, 2);
    expect_failure("emit fixtures/mlp/dynamo.logits.onnx",
                   "--out is required\nhelp: thunderc emit --help shows what it takes", 2);
    // What is said of models and folders is what train says; a folder is replaced where either of the two wrote it.
    expect_failure(
        "emit none.onnx -o out",
        "there is no file none.onnx\nhelp: give the path of an exported model, e.g. model.pt2 or model.onnx");
    EXPECT_EQ(thunderc(emit + "vjp").status, 0);
    EXPECT_EQ(thunderc(emit + "forward,vjp --diff").status, 0);
    EXPECT_EQ(thunderc(emit + "forward --diff").status, 1);
    EXPECT_EQ(thunderc("train fixtures/mlp/dynamo.logits.onnx --loss cross-entropy -o out").status, 0);
    EXPECT_EQ(thunderc(emit + "forward").status, 0);
    EXPECT_FALSE(fs::exists(folder_ / "out/train.json"));
}

}  // namespace
}  // namespace thunderc::tests
