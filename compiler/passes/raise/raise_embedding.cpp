// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/raise/raise_embedding.h"

#include <utility>

#include "compiler/passes/pattern.h"
#include "compiler/passes/rewrite.h"

namespace thunderc {
namespace {

// Ids base, base + 1, … along one dimension, all of the table.
bool counts_up(const ConstExpr& ids, std::int64_t entries) {
    if (ids.kind != ConstExpr::Kind::affine || ids.base < 0 ||
        ids.base + static_cast<double>(ids.type.elements()) > static_cast<double>(entries))
        return false;
    for (std::size_t d = 0; d < ids.step.size(); ++d)
        if (ids.type.dims[d] != 1 && (ids.step[d] != 1 || ids.type.dims[d] != ids.type.elements())) return false;
    return true;
}

void raise_embedding_in(Function& f, Report& report) {
    Rewriter rewriter(f);
    Definitions d(f, rewriter.old_ops());
    Builder& b = rewriter.builder();
    for (const Op& op : rewriter.old_ops()) {
        if (op.name != "gather" || !d.is_parameter(op.operands[0])) {
            rewriter.keep(op);
            continue;
        }
        const Type& table = d.type(op.operands[0]);
        const Type& ids = d.type(op.operands[1]);
        const char* why = table.rank() != 2         ? "the table is not a matrix"
                          : axis_of(op, table) != 0 ? "rows are not taken along dimension 0"
                          : !is_integer(ids.dtype)  ? "the ids are not integers"
                                                    : nullptr;
        if (why != nullptr) {
            report.declined("embedding", where(op.provenance), why);
            rewriter.keep(op);
            continue;
        }
        b.set_provenance(op.provenance);
        Value weight = rewriter.now(op.operands[0]), y;
        ConstPtr known = d.constant(op.operands[1]);
        Attributes attributes;
        if (op.attributes.has("padding_idx")) attributes.set("padding_idx", op.attributes.integer("padding_idx"));
        auto begin = known ? static_cast<std::int64_t>(known->base) : 0;
        // A row in the middle of them that is to have no gradient would make three slices of one.
        const std::int64_t padding = op.attributes.integer("padding_idx", -1);
        const bool pads = padding >= begin && padding < begin + ids.elements();
        if (known && !pads && counts_up(*known, table.dims[0])) {
            y = b.reshape(b.slice(weight, 0, begin, begin + ids.elements()), d.type(op.results[0]).dims);
            report.done("embedding", where(op.provenance), "a slice of the table: the ids are consecutive");
        } else {
            y = b.emit("embedding", {weight, rewriter.now(op.operands[1])}, std::move(attributes))[0];
            report.done("embedding", where(op.provenance), replaced_text(op.provenance));
        }
        rewriter.replace(op, std::vector<Value>{y});
    }
    rewriter.finish();
}

}  // namespace

Module raise_embedding(Module module, Report& report) {
    for (Function& f : module.functions)
        if (f.kind.empty()) raise_embedding_in(f, report);
    return module;
}

}  // namespace thunderc
