// SPDX-License-Identifier: Apache-2.0
// A sum over the ranks in the middle of a layer: what a batch norm of all ranks' rows is made of.
#include "compiler/ops/batch_norm.h"
#include "compiler/ops/composite.h"
#include "compiler/ops/dense.h"
#include "compiler/ops/rules.h"

namespace thunderc {
namespace {

OpDef sum_over_ranks() {
    OpDef def;
    def.name = sum_over_ranks_name;
    def.level = OpLevel::primitive;
    def.summary = "The sum of what all `ranks` have, on each of them: a few numbers that a layer waits for.";
    def.formula =
        "y = Σ x of all ranks; dx = Σ dy of all ranks. Where ranks are no matter, all have the same x: y = ranks x";
    def.source = "torch.distributed.nn.functional.all_reduce, as SyncBatchNorm has it";
    def.infer = [](const InferInput& in) {
        require_operands(in, 1);
        const Type& x = tensor_operand(in, 0);
        require(x.dtype == DType::f32, "x is " + to_string(x) + ": numbers of f32 expected");
        require(in.attributes.integer("ranks") > 1, "one rank has nothing to add");
        return std::vector<Type>{x};
    };
    def.reference = [](const Op& op, std::span<const Tensor> operands, std::span<const Type>) {
        Tensor y = operands[0];
        const auto ranks = static_cast<double>(op.attributes.integer("ranks"));
        for (std::int64_t k = 0; k < y.size(); ++k) y.set(k, y.at(k) * ranks);
        return std::vector<Tensor>{y};
    };
    def.vjp = [](const VjpInput& in) {
        return VjpResult{in.b.op(sum_over_ranks_name, {in.cotangent()}, in.op.attributes)};
    };
    def.call = [](const Op& op, const Function& f) {
        return RuntimeCall{"all_reduce",
                           {result_field("buffer", 0), literal_field("elements", f.type(op.results[0]).elements()),
                            literal_field("group", std::string("Group::world")),
                            literal_field("what", std::string("\"sums of a batch norm\""))},
                           "the sum over all ranks",
                           "comm/collectives.h",
                           "what ranks say to each other"};
    };
    def.in_place = {{0, 0}};
    def.linear_in = {0};
    def.rows = {.kind = Rows::Kind::by_element};
    def.precision = {.kind = Precision::Kind::island, .why = "sums of statistics"};
    def.smooth = "it is linear";
    def.result_names = {"of_all_ranks"};
    def.samples = {{"two", {f32({5})}, {{"ranks", std::int64_t{2}}}},
                   {"many", {f32({2, 3})}, {{"ranks", std::int64_t{8}}}}};
    def.errors = {{{f32_type({2})}, {{"ranks", std::int64_t{1}}}, "one rank has nothing to add"},
                  {{i64_type({2})}, {{"ranks", std::int64_t{2}}}, "x is i64[2]: numbers of f32 expected"}};
    return def;
}

}  // namespace

std::vector<OpDef> define_sum_over_ranks() {
    return {sum_over_ranks()};
}

}  // namespace thunderc
