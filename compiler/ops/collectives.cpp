// SPDX-License-Identifier: Apache-2.0
// What ranks give each other. One program runs on every rank, on that rank's own values; the results of a collective
// depend on the operands of all ranks of its group.
//
// Before plan: a start gives its results and a token, and the results may be read behind the `await` of that token
// alone. After plan there are no tokens: `all_reduce` and its like run on a stream, and events say who waits.
//
// A flat tensor holds parameters one behind the other, as a ShardUnit says; a shard is a piece of it of equal length
// for each rank of a group.
//
// Attributes: `group`, among whom; `ranks`, how many; `what` is sent and `reason`, why it stands where it stands, as
// generated text says them; in the body of a loop, `layers`: it works on so many layers at once, where the last of them
// is done.
#include "compiler/ops/collectives.h"

#include <fmt/format.h>

#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/multi_tensor.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

constexpr std::string_view kinds[] = {"all_reduce", "all_gather", "reduce_scatter"};  // in Collective's order

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

// (shard, enabled) -> (flat)
std::vector<Type> all_gather_types(const InferInput& in) {
    require(in.operands.size() == 2, "a shard and a flag expected");
    require_enabled(in);
    const Type& shard = in.operand(0);
    require(shard.is_tensor() && shard.rank() == 1 && is_float(shard.dtype), "the shard is " + to_string(shard));
    return {Type::tensor(shard.dtype, {shard.dims[0] * group_size(in)})};
}

// (flat, shard before, first) -> (shard)
std::vector<Type> reduce_scatter_types(const InferInput& in) {
    require(in.operands.size() == 3, "a flat tensor, a shard and a flag expected");
    const Type &flat = in.operand(0), &shard = in.operand(1);
    require(
        shard.is_tensor() && shard.rank() == 1 && flat == Type::tensor(shard.dtype, {shard.dims[0] * group_size(in)}),
        fmt::format("the flat tensor is {}, the shard {}", to_string(flat), to_string(shard)));
    require_flag(in, 2, "first");
    return {shard};
}

// A parameter in a flat tensor; with `count` a family of them, `stride` elements apart.
std::vector<Type> unpack_types(const InferInput& in) {
    const Type& flat = in.operand(0);
    require(in.operands.size() == 1 && flat.is_tensor() && flat.rank() == 1, "a flat tensor expected");
    const Dims dims = in.attributes.integers("dims");
    const std::int64_t count = in.attributes.integer("count", 1);
    const std::int64_t end =
        in.attributes.integer("offset") + (count - 1) * in.attributes.integer("stride", 0) + element_count(dims);
    require(count >= 1 && in.attributes.integer("offset") >= 0 && end <= flat.dims[0],
            fmt::format("[{}] ends at element {} of {}", to_string(dims), end, to_string(flat)));
    return {count > 1 ? Type::family(count, flat.dtype, dims) : Type::tensor(flat.dtype, dims)};
}

// The flat tensor of `elements` in which the operands lie at `offsets`, members `strides` apart; the rest is zero.
std::vector<Type> pack_types(const InferInput& in) {
    const std::vector<std::int64_t> offsets = in.attributes.integers("offsets");
    const std::vector<std::int64_t> strides = in.attributes.integers("strides");
    require(!in.operands.empty() && offsets.size() == in.operands.size() && strides.size() == offsets.size(),
            "an offset and a stride for each tensor expected");
    for (std::size_t k = 0; k < offsets.size(); ++k) {
        const Type& t = in.operand(k);
        require(t.dtype == in.operand(0).dtype, "tensors of one type expected");
        const std::int64_t end = offsets[k] + (t.is_family() ? t.count - 1 : 0) * strides[k] + t.elements();
        require(offsets[k] >= 0 && end <= in.attributes.integer("elements"),
                fmt::format("tensor {} ends at element {}", k, end));
    }
    return {Type::tensor(in.operand(0).dtype, {in.attributes.integer("elements")})};
}

std::vector<Type> with_token(std::vector<Type> types) {
    types.push_back(Type::token());
    return types;
}

}  // namespace

std::optional<Collective> collective_of(const Op& op) {
    const OpDef& def = op_def(op.name);
    return def.starts_collective ? std::nullopt : def.collective;
}

std::optional<Collective> start_of(const Op& op) {
    const OpDef& def = op_def(op.name);
    return def.starts_collective ? def.collective : std::nullopt;
}

std::string_view name_of(Collective kind) {
    return kinds[static_cast<std::size_t>(kind)];
}

bool is_collective(const Op& op) {
    return collective_of(op).has_value();
}

bool is_collective(const Op& op, Collective kind) {
    return collective_of(op) == kind;
}

bool is_start(const Op& op, Collective kind) {
    return start_of(op) == kind;
}

Value flag_of(const Op& op) {
    if (is_event(op)) return op.operands.empty() ? Value{} : op.operands.front();
    return is_collective(op) && !is_collective(op, Collective::reduce_scatter) ? op.operands.back() : Value{};
}

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
    defs.push_back(collective(
        "all_gather_start",
        "(shard, enabled) -> (flat, token): begins to put the shards of a group side by side, in the order of ranks; "
        "where `enabled` is false, what it gave before.",
        [](const InferInput& in) { return with_token(all_gather_types(in)); }));
    defs.push_back(collective("all_gather", "After plan: (shard, enabled) -> (flat).", all_gather_types));
    defs.push_back(collective("reduce_scatter_start",
                              "(flat, before, first) -> (shard, token): begins the sum of the flat tensors of a group, "
                              "in f32 and in the order "
                              "of ranks; each rank has its shard of it, added to `before` unless `first`.",
                              [](const InferInput& in) { return with_token(reduce_scatter_types(in)); }));
    defs.push_back(collective("reduce_scatter",
                              "After plan: (flat, before, first) -> (shard), in the place of `before`.",
                              reduce_scatter_types));
    defs.push_back(collective("unpack",
                              "The tensor of `dims` at element `offset` of a flat one; with `count` a family, `stride` "
                              "elements apart. A view.",
                              unpack_types));
    defs.push_back(
        collective("pack",
                   "The flat tensor of `elements` in which the operands lie at `offsets`, members of families "
                   "`strides` apart. They are written there.",
                   pack_types));
    defs.push_back(collective("unwritten", "A flat tensor of `elements` whose content nobody uses: memory to write to.",
                              [](const InferInput& in) {
                                  require(in.operands.empty(), "no operand expected");
                                  return std::vector<Type>{
                                      Type::tensor(in.attributes.dtype("dtype"), {in.attributes.integer("elements")})};
                              }));
    defs.push_back(collective("begin_ahead",
                              "What the loop over `body`, which comes later in this function, runs ahead of its first "
                              "iterations begins here; without it, directly before the loop. Changes no value.",
                              [](const InferInput& in) {
                                  require(in.operands.empty(), "no operand expected");
                                  require(!in.attributes.string("body").empty(), "a loop's body has a name");
                                  return std::vector<Type>{};
                              }));
    for (OpDef& def : defs)
        for (Collective kind : {Collective::all_reduce, Collective::all_gather, Collective::reduce_scatter}) {
            if (!def.name.starts_with(name_of(kind))) continue;
            def.collective = kind;
            def.starts_collective = def.name != name_of(kind);
        }
    return defs;
}

}  // namespace thunderc
