// SPDX-License-Identifier: Apache-2.0
// What is said of a graph that is written in ONNX's own text form: the whole text of the message.
#pragma once

#include <gtest/gtest.h>
#include <onnx/defs/parser.h>
#include <onnx/onnx_pb.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "compiler/frontend/frontend.h"
#include "compiler/pipeline.h"
#include "compiler/support/error.h"

namespace thunderc::tests {
namespace fs = std::filesystem;

inline const std::string other_form =
    "help: the operator is supported in other forms only, or the graph breaks ONNX's rules here: "
    "onnx.checker.check_model(..., full_check=True) says which\n";
inline const std::string damaged = "help: the graph is damaged: export the model again\n";

inline onnx::ModelProto model(const std::string& graph, int opset = 20) {
    onnx::ModelProto out;
    const std::string text =
        "<ir_version: 10, opset_import: [\"\" : " + std::to_string(opset) + ", \"f\" : 1]> " + graph;
    onnx::OnnxParser parser(text.c_str());
    const auto status = parser.Parse(out);
    EXPECT_TRUE(status.IsOK()) << status.ErrorMessage() << "\n" << graph;
    return out;
}

class Graphs : public testing::Test {
  protected:
    Graphs() : folder_(fs::temp_directory_path() / ("thunderc-graphs-" + std::to_string(::getpid()))) {
        fs::create_directories(folder_);
    }
    ~Graphs() override { fs::remove_all(folder_); }

    std::string error_of(const onnx::ModelProto& graph, const CompileOptions& options = {}) const {
        std::ofstream(folder_ / "model.onnx", std::ios::binary) << graph.SerializeAsString();
        try {
            std::vector<PassRun> runs;
            run_passes(import_model(folder_ / "model.onnx", options), pipeline(options), runs);
        } catch (const UserError& error) {
            std::string text = error.diagnostic().text();
            for (std::size_t at; (at = text.find(folder_.string() + "/")) != std::string::npos;)
                text.erase(at, folder_.string().size() + 1);
            return text;
        } catch (const std::exception& error) {
            return error.what();
        }
        return "no error";
    }
    void expect(const onnx::ModelProto& graph, const std::string& text, const CompileOptions& options = {}) const {
        EXPECT_EQ(error_of(graph, options), "error: " + text) << graph.graph().ShortDebugString();
    }
    // One node of f32[2,3] `x`, with other operands before it.
    void expect_node(const std::string& node, const std::string& text, int opset = 20,
                     const std::string& before = {}) const {
        CompileOptions mse;
        mse.loss = "mse";
        expect(model("g (float[2,3] x) => (float[a,b] z) {" + before + " z = " + node + " }", opset), text, mse);
    }

    fs::path folder_;
};

}  // namespace thunderc::tests
