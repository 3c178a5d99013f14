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

// What the compiler warns of; or its error alone.
Lines said(const std::string& graph, const CompileOptions& options = {}) {
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
        node.set_name("/" + node.op_type());
        for (auto& name : *node.mutable_input()) dotted(name);
    }
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

// A parameter of one number at the model's root has a name like any other value's.
const std::string scaled =
    "g (float[3,4] x) => (float loss) <float[4,2] fc_weight = {1,2,3,4,5,6,7,8}, float scale = {2.5}> { "
    "a = MatMul(x, fc_weight) b = Mul(a, scale) c = Tanh(b) loss = ReduceMean <keepdims = 0> (c) }";

TEST(Untold, ANumberWithANameIsAskedFor) {
    EXPECT_EQ(said(scaled), Lines{"error: nothing says whether scale is a parameter or a constant\n"
                                  "  found: scale [], operand of mul\n"
                                  "help: --trainable '^scale$' if it is to be trained, --constant '^scale$' if not\n"});
    CompileOptions options;
    for (std::string* answer : {&options.trainable, &options.constant}) {
        *answer = "^scale$";
        EXPECT_EQ(said(scaled, options), Lines{});
        answer->clear();
    }
}

TEST(Untold, ANumberWithAnExportersNameIsAConstant) {
    const auto called = [](const std::string& name) {
        std::string graph = scaled;
        for (std::size_t at = graph.find("scale"); at != std::string::npos; at = graph.find("scale", at + name.size()))
            graph.replace(at, 5, name);
        return said(graph);
    };
    EXPECT_EQ(called("val_7"), Lines{});
    EXPECT_TRUE(called("scale7").at(0).starts_with("error: nothing says whether scale7 is a parameter"));
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
