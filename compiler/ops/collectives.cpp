// What ranks give each other. One program runs on every rank, on that rank's own values; the results of a collective
// depend on the operands of all ranks of its group.
//
// Before plan: a start gives its results and a token, and the results may be read behind the `await` of that token
// alone. After plan there are no tokens: `all_reduce` and its like run on a stream, and events say who waits.
//
// Attributes: `group`, among whom; `ranks`, how many; `what` is sent and `reason`, why it stands where it stands, as
// generated text says them; in the body of a loop, `layers`: it works on so many layers at once, where the last of them
// is done.
#include <fmt/format.h>

#include "compiler/ops/multi_tensor.h"
#include "compiler/ops/op.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

OpDef collective(std::string name, std::string summary, std::function<std::vector<Type>(const InferInput&)> infer) {
    OpDef def;
    def.name = std::move(name);
    def.level = OpLevel::structural;
    def.summary = std::move(summary);
    def.infer = std::move(infer);
    return def;
}

std::int64_t group_size(const InferInput& in) {
    const std::int64_t ranks = in.attributes.integer("ranks");
    require(ranks >= 1, fmt::format("a group of {} ranks", ranks));
    require(!in.attributes.string("group").empty(), "a group has a name");
    return ranks;
}

// The last operand, which the host knows: where it is there and false, nothing is sent.
void require_enabled(const InferInput& in) {
    const std::size_t last = in.operands.size() - 1;
    if (in.has(last)) require_flag(in, last, "enabled");
}

std::vector<Type> all_reduce_types(const InferInput& in) {
    group_size(in);
    require(in.operands.size() >= 2, "tensors and a flag expected");
    require_enabled(in);
    std::vector<Type> types;
    for (std::size_t k = 0; k + 1 < in.operands.size(); ++k) {
        require(in.operand(k).kind != Type::Kind::token && is_float(in.operand(k).dtype),
                fmt::format("operand {} is {}", k, to_string(in.operand(k))));
        types.push_back(in.operand(k));
    }
    return types;
}

std::vector<Type> with_token(std::vector<Type> types) {
    types.push_back(Type::token());
    return types;
}

}  // namespace

std::vector<OpDef> define_collectives() {
    std::vector<OpDef> defs;
    defs.push_back(collective("all_reduce_start",
                              "(tensors ..., enabled) -> (tensors ..., token): begins the sum of each tensor over the "
                              "ranks of a group, in f32 and in the order of ranks; the tensors themselves where "
                              "`enabled` is false.",
                              [](const InferInput& in) { return with_token(all_reduce_types(in)); }));
    defs.push_back(collective("await",
                              "(tensors ..., tokens ...) -> (tensors ...): what collectives gave, when they are done.",
                              [](const InferInput& in) {
                                  std::vector<Type> types;
                                  std::size_t tokens = 0;
                                  for (std::size_t k = 0; k < in.operands.size(); ++k) {
                                      const bool token = in.operand(k).kind == Type::Kind::token;
                                      require(token || tokens == 0, "tensors stand before tokens");
                                      tokens += token ? 1 : 0;
                                      if (!token) types.push_back(in.operand(k));
                                  }
                                  require(tokens > 0, "there is no token");
                                  return types;
                              }));
    defs.push_back(collective("all_reduce",
                              "After plan: (tensors ..., enabled) -> (tensors ...), each in the place of its operand; "
                              "the tensors lie behind each other and are sent as one.",
                              all_reduce_types));
    return defs;
}

}  // namespace thunderc
