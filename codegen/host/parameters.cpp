// SPDX-License-Identifier: Apache-2.0
#include "codegen/host/parameters.h"

#include <fmt/format.h>

#include "codegen/host/collective_ranges.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Arena = Placement::Arena;

// The arguments of main that are parameters; in a sharded program a shard of each unit, in their order.
std::vector<std::size_t> parameter_arguments(const Module& planned) {
    std::vector<std::size_t> out;
    const Function& main = planned.main();
    for (std::size_t k = 0; k < main.argument_info.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::parameter) out.push_back(k);
    check(planned.units.empty() || planned.units.size() == out.size(), "a unit has no shard");
    return out;
}

void add_whole(const Function& main, std::size_t argument, std::vector<ModelParameter>& out) {
    const Value v = main.arguments[argument];
    const Placement& p = main.info(v).placement;
    out.push_back({&main.argument_info[argument], main.type(v), p.offset, p.layer_stride, -1, false});
}

}  // namespace

std::vector<ModelParameter> model_parameters(const Module& planned) {
    const Function& main = planned.main();
    const std::vector<std::size_t> arguments = parameter_arguments(planned);
    std::vector<ModelParameter> out;
    for (std::size_t k : arguments)
        if (planned.units.empty()) add_whole(main, k, out);
    for (std::size_t k = 0; k < main.argument_info.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::buffer) add_whole(main, k, out);
    int unit = 0;
    for (std::size_t u = 0; u < planned.units.size(); ++u) {
        const DType dtype = main.type(main.arguments[arguments[u]]).dtype;
        const auto size = static_cast<std::int64_t>(size_of(dtype));
        for (const ShardUnit::Tensor& t : planned.units[u].tensors) {
            const auto members = static_cast<std::int64_t>(t.info.names.size());
            out.push_back({&t.info, members > 1 ? Type::family(members, dtype, t.dims) : Type::tensor(dtype, t.dims),
                           t.offset * size, t.stride * size, unit, planned.units[u].count > 1});
        }
        unit += static_cast<int>(planned.units[u].count);
    }
    return out;
}

std::vector<ModelUnit> model_units(const Module& planned) {
    std::vector<ModelUnit> out;
    if (planned.units.empty()) return out;
    const Function& main = planned.main();
    const std::vector<std::size_t> arguments = parameter_arguments(planned);
    for (std::size_t u = 0; u < planned.units.size(); ++u) {
        const ShardUnit& unit = planned.units[u];
        const Value shard = main.arguments[arguments[u]];
        const Placement& p = main.info(shard).placement;
        for (std::int64_t i = 0; i < unit.count; ++i)
            out.push_back({unit.count == 1 ? unit.name : fmt::format("{}.{}", unit.name, i),
                           unit.elements / planned.mesh.shards, p.offset + i * p.layer_stride, main.type(shard).dtype});
    }
    return out;
}

// The op that takes v, or what lies in the place of v, out of a flat tensor. Where units lie in one place by turns, it
// is v's own that counts.
static const Op* unpacks(const Function& function, Value v) {
    const Op* out = nullptr;
    for (const Op& op : function.ops) {
        if (!is_unpack(op)) continue;
        if (op.results[0] == v) return &op;
        if (out == nullptr && function.info(op.results[0]).placement == function.info(v).placement) out = &op;
    }
    return out;
}

bool gathered_from_narrow_copies(const Module& planned, const Function& function, Value v) {
    const Placement& place = function.info(v).placement;
    if (place.arena != Arena::gathered) return false;
    const Op* piece = unpacks(function, v);
    const Value flat = piece == nullptr ? Value() : piece->operands[0];
    for (const Op& op : function.ops) {
        if (!is_collective(op, Collective::all_gather) || op.results[0] != flat) continue;
        Value shard = op.operands[0];
        const Function* f = &function;
        for (const Function& caller : planned.functions)  // of the loop whose body this is
            for (const Op& loop : caller.ops) {
                if (!is_loop_over(loop, function.name) || f != &function) continue;
                shard = outside_value(function, loop, shard);
                f = &caller;
            }
        return f->info(shard).placement.arena == Arena::narrow_copies;
    }
    return false;
}

std::string parameter_of_unit(const Module& planned, const Function& function, Value v) {
    const Placement& place = function.info(v).placement;
    if (place.arena != Arena::gathered && place.arena != Arena::unit_gradients) return "";
    const Op* piece = unpacks(function, v);
    if (piece == nullptr) return "";
    std::string unit;
    for (const Op& flat : function.ops)
        for (Value r : flat.results)
            if (r == piece->operands[0]) unit = flat.attributes.string("unit");
    for (const ShardUnit& u : planned.units) {
        if (u.name != unit) continue;
        for (const ShardUnit::Tensor& t : u.tensors)
            if (t.offset == piece->attributes.integer("offset")) return name_pattern(t.info.names);
    }
    return "";
}

}  // namespace thunderc
