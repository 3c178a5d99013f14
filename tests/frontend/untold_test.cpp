// SPDX-License-Identifier: Apache-2.0
// What a graph does not tell that has no calls of torch: it is asked for, or said. The graphs are in ONNX's own text
// form.
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <fstream>

#include "compiler/passes/recognise/lift_parameters.h"
#include "tests/frontend/fixture.h"

namespace thunderc {
namespace untold_test {

using Lines = std::vector<std::string>;

// What exporters call nodes, and who wrote the file.
struct Exporter {
    std::string node_prefix = "/", producer;
};

// What the compiler warns of; or its error alone.
Lines said(const std::string& graph, const CompileOptions& options = {}, const Exporter& exporter = {}) {
    onnx::ModelProto model;
    const std::string text = "<ir_version: 10, opset_import: [\"\" : 20]> " + graph;
    onnx::OnnxParser parser(text.c_str());
    const auto status = parser.Parse(model);
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage();
    // (The text has no names with dots or slashes.)
    const auto dotted = [](std::string& name) {
        if (const std::size_t at = name.find("_weight"); at != std::string::npos) name[at] = '.';
    };
    for (auto& tensor : *model.mutable_graph()->mutable_initializer()) dotted(*tensor.mutable_name());
    for (auto& node : *model.mutable_graph()->mutable_node()) {
        node.set_name(exporter.node_prefix + node.op_type());
        for (auto& name : *node.mutable_input()) dotted(name);
    }
    model.set_producer_name(exporter.producer);
    const std::filesystem::path path =
        std::filesystem::temp_directory_path() / ("thunderc-untold-" + std::to_string(::getpid()) + ".onnx");
    std::ofstream(path, std::ios::binary) << model.SerializeAsString();
    Report report;
    LiftOptions lift;
    lift.trainable = options.trainable;
    lift.constant = options.constant;
    const std::string error = error_of([&] { lift_parameters(import_model(path, options, report), lift, report); });
    std::filesystem::remove(path);
    if (error != "no error") return {error};
    Lines out;
    for (const Note& note : report.notes)
        if (note.kind == Note::Kind::warning) out.push_back(note.what + ", " + note.where + ": " + note.text);
    return out;
}

// Of each graph of TorchScript's exporter.
const Lines calls_are_gone = {
    "untraced, detach() and dropout: the graph keeps no calls of torch, as exports with dynamo=False do not: what "
    "changes no number is not in it, nor is dropout in eval() mode. Where the model has such, export with "
    "dynamo=True, optimize=False"};

// A parameter of one number at the model's root has a name like any other value's.
const std::string scaled =
    "g (float[3,4] x) => (float loss) <float[4,2] fc_weight = {1,2,3,4,5,6,7,8}, float scale = {2.5}> { "
    "a = MatMul(x, fc_weight) b = Mul(a, scale) c = Tanh(b) loss = ReduceMean <keepdims = 0> (c) }";

TEST(Untold, ANumberWithANameIsAskedFor) {
    EXPECT_EQ(said(scaled), Lines{"error: nothing says whether scale is a parameter or a constant\n"
                                  "  found: scale [], operand of mul, node /Mul\n"
                                  "help: --trainable '^scale$' if it is to be trained, --constant '^scale$' if not\n"});
    CompileOptions options;
    for (std::vector<std::string>* answer : {&options.trainable, &options.constant}) {
        *answer = {"^scale$"};
        EXPECT_EQ(said(scaled, options), calls_are_gone);
        answer->clear();
    }
}

// The exporter of before modules had names calls nodes "Mul_7", and the file is PyTorch's all the same.
TEST(Untold, ANumberOfAnOldExportIsAskedFor) {
    EXPECT_EQ(said(scaled, {}, {"n_", "pytorch"}),
              Lines{"error: nothing says whether scale is a parameter or a constant\n"
                    "  found: scale [], operand of mul, node n_Mul\n"
                    "help: --trainable '^scale$' if it is to be trained, --constant '^scale$' if not\n"});
    CompileOptions options;
    options.constant = {"^scale$"};
    EXPECT_EQ(said(scaled, options, {"n_", "pytorch"}), calls_are_gone);
    // Whoever writes a graph by hand gives its numbers names as well.
    EXPECT_EQ(said(scaled, {}, {"n_", ""}), Lines{});
}

TEST(Untold, ANumberWithAnExportersNameIsAConstantUnlessItWasFolded) {
    const auto called = [](const std::string& name, const std::string& node_prefix) {
        std::string graph = scaled;
        for (std::size_t at = graph.find("scale"); at != std::string::npos; at = graph.find("scale", at + name.size()))
            graph.replace(at, 5, name);
        return said(graph, {}, {node_prefix, "pytorch"});
    };
    for (const char* node_prefix : {"/", "n_"}) {
        EXPECT_EQ(called("val_7", node_prefix), calls_are_gone);
        EXPECT_TRUE(called("scale7", node_prefix).at(0).starts_with("error: nothing says whether scale7 is a param"));
    }
}

// What TorchScript's exporter folds may be made of a parameter, `2 * g`, and has the name of what reads it, or none.
TEST(Untold, ANumberThatWasFoldedIsAskedFor) {
    const auto asked = [](const char* file) {
        Report report;
        return error_of([&] { lift_parameters(import_model(fixture(file), {}, report), {}, report); });
    };
    EXPECT_EQ(asked("evaluated/torchscript.onnx"),
              "error: nothing says whether 2 tensors are parameters or constants\n"
              "  found: g [], operand of mul, node /Mul; onnx::Mul_26 [], operand of mul, node /Mul_2\n"
              "help: --trainable '^(g|onnx::Mul_26)$' if they are to be trained, --constant '^(g|onnx::Mul_26)$' if "
              "not; or export with do_constant_folding=False, which keeps what the model has\n");
    EXPECT_EQ(asked("evaluated/torchscript_old.onnx"),
              "error: nothing says whether 2 tensors are parameters or constants\n"
              "  found: g [], operand of mul, node Mul_1; 28 [], operand of mul, node Mul_4\n"
              "help: --trainable '^(g|28)$' if they are to be trained, --constant '^(g|28)$' if not; or export with "
              "do_constant_folding=False, which keeps what the model has\n");
}

std::string table(const std::string& shape) {
    return "g (int64[" + shape + "] ids) => (float[" + shape +
           ",2] logits) <float[3,2] tok_weight = {1,2,3,4,5,6}> { e = Gather(tok_weight, ids) logits = Tanh(e) }";
}

TEST(Untold, AnEmbeddingMayHaveARowOfPadding) {
    EXPECT_EQ(said(table("2,3")), Lines{"untraced, tok.weight: the graph keeps no calls of torch, as exports with "
                                        "dynamo=False do not: a padding_idx of an embedding, whose row gets no "
                                        "gradient, is not in it, nor are detach() and dropout. Where the model has "
                                        "such, export with dynamo=True, optimize=False"});
}

// Names of the model's own dimensions that contradict what the flags mean.
TEST(Untold, TheBatchIsTheFirstDimension) {
    CompileOptions options;
    EXPECT_EQ(said(table("seq,batch")).front(),
              "error: dynamic dimensions are not bound: seq (dimension 0 of the input ids), batch (dimension 1 of the "
              "input ids)\n"
              "help: add --dim seq=N --dim batch=N\n");
    options.batch = 2;
    EXPECT_EQ(said(table("seq,batch"), options).front(),
              "error: --batch 2 would bind the dimension seq of the input ids\n"
              "  expected: the batch in dimension 0\n"
              "  found: seq in dimension 0\n"
              "help: export a model whose inputs have the batch first (forward(self, x): return self.model(x.T)); if "
              "the names mean nothing, bind the dimensions by them: --dim batch=N --dim seq=N\n");
    options.batch = 0;
    options.seq = 3;
    EXPECT_EQ(said(table("T,batch_size"), options).front(),
              "error: --seq 3 would bind the dimension batch_size of the input ids\n"
              "  expected: positions in dimension 1\n"
              "  found: batch_size in dimension 1\n"
              "help: export a model whose inputs have the batch first (forward(self, x): return self.model(x.T)); if "
              "the names mean nothing, bind the dimensions by them: --dim T=N --dim batch_size=N\n");
    options.seq = 0;
    options.dims = {{"seq", 3}, {"batch", 2}};
    EXPECT_EQ(said(table("seq,batch"), options).back(),
              "batch, ids: its dimensions are named as if the batch were the second: a program takes the first for the "
              "batch, of which micro-steps and ranks have their parts, and cuts windows of tokens along the second");
    options.dims = {};
    options.batch = 2;
    options.seq = 3;
    for (const char* shape : {"batch,seq", "B,T", "s0,s1", "batch_seq,seq"})
        EXPECT_EQ(said(table(shape), options).size(), 1U) << shape;  // of the embedding
}

}  // namespace untold_test
}  // namespace thunderc
