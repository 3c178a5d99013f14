// SPDX-License-Identifier: Apache-2.0
// The program that torch.export traced, as far as the dynamo exporter keeps it: its signature in the graph's metadata,
// and in each node's the call that the node was made of. What the exporter's optimizer merged, renamed, evaluated or
// dropped afterwards is still told apart by them.
#pragma once

#include <onnx/onnx_pb.h>

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thunderc::onnx_frontend {

// What a node says of the call that it was made of stands under this key.
inline constexpr std::string_view traced_call_key = "pkg.torch.onnx.fx_node";

// "%addmm : [num_users=1] = call_function[target=torch.ops.aten.addmm.default](args = (%p_bias, %view, %p_weight),
// kwargs = {beta: 2})"
struct TracedCall {
    std::string result;                  // "addmm"
    std::string target;                  // "aten.addmm.default"
    std::vector<std::string> arguments;  // as text: "%p_bias", "[16]", "1e-05"
    std::vector<std::pair<std::string, std::string>> keywords;
    int users = -1;  // calls and outputs of the traced program that read the result; -1 where it does not say

    // The argument of that position, or of that name; empty where it is not given.
    std::string argument(std::size_t position, std::string_view name) const;
    // The values that the arguments mention, without the "%"; in order, once for each mention.
    std::vector<std::string> mentions() const;
};
std::optional<TracedCall> parse_traced_call(std::string_view text);  // nullopt where it is none
std::optional<TracedCall> traced_call(const onnx::NodeProto& node);

// The function of that call, "aten.max.dim"; "" where the exporter does not say. ONNX has one operator for functions of
// torch that have the same values, and other gradients where these have a kink.
std::string traced_function(const onnx::NodeProto& node);

// What a tensor of the traced program is: a parameter; a buffer or a tensor that tracing lifted out of the code.
enum class TracedInput : std::uint8_t { unknown, parameter, constant };
// By how the traced call of `node` names its operand, the initializer `name`: "%p_model_norm_weight".
TracedInput traced_input(const onnx::NodeProto& node, std::string_view name);

// The signature: "p_norm_weight: PARAMETER target='norm.weight'". Names are the framework's.
class TracedProgram {
  public:
    explicit TracedProgram(const onnx::GraphProto& graph);

    TracedInput input(std::string_view name) const;
    const std::vector<std::string>& parameters() const { return parameters_; }  // in the order of the signature
    const std::vector<std::string>& constants() const { return constants_; }
    // The parameter that an argument of a call is ("%p_norm_weight"); nullptr: none.
    const std::string* parameter(std::string_view argument) const;
    // Whether an argument of a call is a buffer, or a tensor that tracing lifted: "%b_mask".
    bool constant(std::string_view argument) const;
    // Whether calls name an argument of the program by it: "p_norm_weight", "x".
    bool is_input(std::string_view value) const;
    // What calls name the parameter or the constant by: "p_norm_weight".
    std::string traced_name(const std::string& name) const;
    // The parameters that the traced node took, in the order of the call; once each.
    std::vector<std::string> read_by(const onnx::NodeProto& node) const;
    // The values that it took and that the traced program computed: "view_2".
    std::vector<std::string> values_read_by(const onnx::NodeProto& node) const;
    const std::vector<std::string>& outputs() const { return outputs_; }
    // Buffers and parameters that it changes ("getitem_3: BUFFER_MUTATION target='bn.running_mean'"): what was exported
    // does not.
    const std::vector<std::string>& changed() const { return changed_; }

  private:
    std::map<std::string, std::string, std::less<>> parameter_by_name_;  // "p_norm_weight" -> "norm.weight"
    std::map<std::string, std::string, std::less<>> constant_by_name_;   // the same
    std::set<std::string, std::less<>> inputs_of_user_;
    std::map<std::string, TracedInput, std::less<>> inputs_;  // by the framework's name
    std::vector<std::string> parameters_, constants_, outputs_, changed_;
};

}  // namespace thunderc::onnx_frontend
