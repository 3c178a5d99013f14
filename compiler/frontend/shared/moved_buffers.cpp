// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/moved_buffers.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "compiler/support/error.h"

namespace thunderc {

ArgInfo* argument_info(Function& function, Value v) {
    const auto at = std::find(function.arguments.begin(), function.arguments.end(), v);
    return at == function.arguments.end()
               ? nullptr
               : &function.argument_info[static_cast<std::size_t>(at - function.arguments.begin())];
}

Value MovedBuffers::average(Value of, Value towards, double share) {
    Builder& b = *builder_;
    const ArgInfo* info = argument_info(b.function(), of);
    const bool buffer = info != nullptr && info->kind == ArgInfo::Kind::buffer;
    const auto at = now_.find(of);
    const Value kept = b.mul(at == now_.end() ? of : at->second, 1 - share);
    if (buffer) moving_ops_.insert(kept);
    return b.add(kept, b.mul(b.cast(towards, b.type(of).dtype), share));
}

void MovedBuffers::end() {
    Function& main = builder_->function();
    const auto refuse = [](const std::string& name, const Provenance& provenance) {
        Diagnostic d;
        d.message = fmt::format("the model reads the running statistic {}, which its batch norm moves", name);
        d.node = provenance.nodes.empty() ? "" : provenance.nodes.front();
        d.module = provenance.scope;
        d.help =
            "call eval() of the module of that statistic before the export: it stays as it is then, and may be read";
        throw UserError(std::move(d));
    };
    std::vector<bool> read(main.values.size(), false);  // on the way to what the model gives
    for (Value v : main.results) read[v.index] = true;
    for (auto op = main.ops.rbegin(); op != main.ops.rend(); ++op)
        if (std::any_of(op->results.begin(), op->results.end(), [&](Value v) { return read[v.index]; }))
            for (Value v : op->operands)
                if (v) read[v.index] = true;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const auto at = now_.find(main.arguments[k]);
        if (at == now_.end()) continue;
        const std::string& name = main.argument_info[k].names.front();
        if (std::find(main.results.begin(), main.results.end(), at->first) != main.results.end()) refuse(name, {});
        for (const Op& op : main.ops)
            if (std::find(op.operands.begin(), op.operands.end(), at->first) != op.operands.end() &&
                read[op.results.front().index] && !moving_ops_.contains(op.results.front()))
                refuse(name, op.provenance);
        main.results.push_back(at->second);
        main.result_names.push_back(name);
    }
}

}  // namespace thunderc
