// SPDX-License-Identifier: Apache-2.0
// The lines of Python that ran between two calls, as far as the stack traces of the nodes tell them.
//
//     k = self.key(x).view(B, T, H, D).transpose(1, 2)       line 8, of the node that gives k
//     v = self.value(x).view(B, T, H, D).transpose(1, 2)     line 9, of another node
//     scores = q @ k.transpose(-2, -1)                        line 10, of the node that reads it
//
// Each line is known, and calls nothing that could stop a gradient: no detach() stands between. A line that left no
// node is not known, be it a comment or `k = k.detach()`.
#pragma once

#include <onnx/onnx_pb.h>

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thunderc::onnx_frontend {

// The modules from the root to the one that made the call.
struct ModulePath {
    std::vector<std::string> scopes, classes;
};
std::optional<ModulePath> module_path(const onnx::NodeProto& node);

class LinesOfCode {
  public:
    explicit LinesOfCode(const onnx::GraphProto& graph);

    // Whether all code that ran from the call of `from` to that of `to`, which reads its result, is known to stop no
    // gradient. False where it is not known, or where a loop may have led from the one to the other.
    bool nothing_between(const onnx::NodeProto& from, const onnx::NodeProto& to) const;

  private:
    struct Frame {
        std::string file, function, code;
        int line = -1;  // -1 where the trace does not say
        bool operator==(const Frame&) const = default;
    };
    struct Call {
        std::vector<Frame> frames;  // the innermost last
        ModulePath path;
        std::string key;  // of the line in this call of its module
        std::string target;
    };

    static std::vector<Frame> frames_of(const onnx::NodeProto& node);
    // The frame of the function that is `common` modules deep; -1 where that is not certain.
    static int frame_at(const Call& call, std::size_t common);
    bool ran_once(const onnx::NodeProto& node) const;
    bool is_harmless(std::string_view code, const std::string& scope) const;
    bool is_module_of_torch(std::string_view chain, const std::string& scope) const;

    std::map<const onnx::NodeProto*, Call> calls_;
    std::map<std::pair<std::string, int>, std::string> lines_;  // by file; "" where two texts are told
    std::map<std::string, std::map<std::string, std::set<std::string>>> results_;  // by Call::key and target
    std::map<std::string, std::vector<const onnx::NodeProto*>> readers_;           // by value
    std::set<std::string, std::less<>> torch_modules_;  // scopes of modules that run no code but torch's
};

}  // namespace thunderc::onnx_frontend
