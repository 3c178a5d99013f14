// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/step/chunk_logits.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ops/composite.h"
#include "compiler/ops/cross_entropy.h"
#include "compiler/ops/linear.h"
#include "compiler/ops/linear_cross_entropy.h"
#include "compiler/planned/step_form.h"

namespace thunderc {
namespace {

using namespace linear_cross_entropy;  // the places of operands and results

std::optional<std::size_t> definition(const Uses& uses, Value v) {
    const std::int32_t d = uses.definition[v.index];
    return d < 0 ? std::nullopt : std::optional(static_cast<std::size_t>(d));
}

// v, or what it is a view of with the same last dimension: rows that are counted otherwise.
Value behind_views(const Function& f, const Uses& uses, Value v) {
    while (const std::optional<std::size_t> d = definition(uses, v)) {
        if (f.ops[*d].name != "reshape") break;
        const Value from = f.ops[*d].operands[0];
        if (f.type(from).dims.empty() || last_dim(f.type(from).dims) != last_dim(f.type(v).dims)) break;
        v = from;
    }
    return v;
}

// The linear layer whose outputs are these logits, where it does nothing else.
std::optional<std::size_t> head_of(const Function& f, const Uses& uses, Value logits) {
    const std::optional<std::size_t> at = definition(uses, behind_views(f, uses, logits));
    if (!at || f.ops[*at].name != "linear") return std::nullopt;
    const Op& layer = f.ops[*at];
    const bool plain = linear_products(layer.operands.size()) == 1 && !has_operand(layer, linear_residual) &&
                       layer.attributes.string("activation", "none") == "none" && layer.results.size() == 1;
    return plain ? at : std::nullopt;
}

// The ops around one loss, by their places in the function.
struct Head {
    std::size_t linear = 0, loss = 0;
    std::optional<std::size_t> dlogits, dx, dweight;
    std::vector<std::size_t> ops;  // all of them, with the views between
    std::int64_t chunk = 0;
};

// How the gradients of the weight and the bias go on from what is before.
struct Accumulation {
    std::vector<Value> before;
    Value first;
    std::vector<Value> after;      // what they become
    std::vector<Value> others;     // terms that are added to the first of them
    std::vector<std::size_t> ops;  // that do it now
};

class Chunker {
  public:
    Chunker(Function& f, const LogitsChunk& chunk, Report& report) : f_(f), uses_(f), chunk_(chunk), report_(report) {}

    // Whether there was a head, which is one op by now: what is known of the function is to be found anew.
    bool run() {
        for (std::size_t k = 0; k < f_.ops.size(); ++k) {
            if (f_.ops[k].name != "cross_entropy") continue;
            const Type& logits = f_.type(f_.ops[k].operands[0]);
            const std::int64_t row_bytes = logits.dims[1] * static_cast<std::int64_t>(size_of(logits.dtype));
            const std::optional<std::int64_t> rows = chunk_.of(logits.dims[0], row_bytes);
            if (!rows) {
                if (chunk_.rows > 0 && *chunk_.rows < logits.dims[0])
                    decline(k, fmt::format("{} rows are made of no equal chunks of {} to {} rows", logits.dims[0],
                                           *chunk_.rows / 2 + 1, *chunk_.rows));
                continue;
            }
            Head head;
            head.loss = k;
            head.chunk = *rows;
            if (const std::string why = find(head); !why.empty()) {
                decline(k, why);
                continue;
            }
            if (!report_.may("chunk_logits", where(k),
                             fmt::format("{} of @{}", f_.info(op(k).operands[0]).name, f_.name)))
                continue;
            replace(head);
            return true;
        }
        return false;
    }

  private:
    const Op& op(std::size_t k) const { return f_.ops[k]; }

    std::string where(std::size_t k) const {
        const std::string& scope = op(k).provenance.scope;
        return scope.empty() ? "@" + f_.name : scope;
    }

    void decline(std::size_t k, const std::string& why) {
        // What was asked for is not left out in silence.
        if (chunk_.rows && f_.name == forward_backward_function)
            report_.warning("chunk_logits", where(k),
                            fmt::format("--logits-chunk {}: logits stay whole: {}", *chunk_.rows, why));
        else
            report_.declined("chunk_logits", where(k), why);
    }

    std::optional<std::size_t> definition(Value v) const { return thunderc::definition(uses_, v); }
    Value behind_views(Value v) const { return thunderc::behind_views(f_, uses_, v); }

    // The ops that read v or a view of it; the views are added to `ops`. False: it leaves the function.
    bool readers(Value v, std::set<std::size_t>& out, std::vector<std::size_t>& ops) const {
        if (uses_.is_result[v.index]) return false;
        for (const std::int32_t user : uses_.users[v.index]) {
            const auto k = static_cast<std::size_t>(user);
            if (op(k).name != "reshape") {
                out.insert(k);
            } else if (last_dim(f_.type(op(k).results[0]).dims) != last_dim(f_.type(v).dims)) {
                return false;
            } else {
                ops.push_back(k);
                if (!readers(op(k).results[0], out, ops)) return false;
            }
        }
        return true;
    }

    bool depends(Value v, std::size_t on) const {
        std::vector<Value> open = {v};
        std::set<std::size_t> seen;
        while (!open.empty()) {
            const Value at = open.back();
            open.pop_back();
            const std::optional<std::size_t> d = at ? definition(at) : std::nullopt;
            if (!d || !seen.insert(*d).second) continue;
            if (*d == on) return true;
            open.insert(open.end(), op(*d).operands.begin(), op(*d).operands.end());
        }
        return false;
    }

    // Fills in what stands around the loss; why nothing can be done, "": it can.
    std::string find(Head& head) const {
        const Op& loss = op(head.loss);
        const std::optional<std::size_t> linear = head_of(f_, uses_, loss.operands[0]);
        if (!linear) return "the logits are not those of a linear layer that does nothing else";
        head.linear = *linear;
        const Op& layer = op(*linear);
        const Value product = layer.results[0];
        head.ops = {head.linear, head.loss};
        std::set<std::size_t> of_logits;
        if (!readers(product, of_logits, head.ops)) return "the logits are read elsewhere as well";
        of_logits.erase(head.loss);
        std::set<std::size_t> of_lse;
        std::vector<std::size_t> views;
        if (!readers(loss.results[1], of_lse, views) || !views.empty() || of_lse != of_logits || of_lse.size() > 1)
            return "the logits are read by more than the loss and its gradient";
        if (of_logits.empty()) return "";
        return find_gradients(head, *of_logits.begin());
    }

    std::string find_gradients(Head& head, std::size_t at) const {
        const Op &loss = op(head.loss), &layer = op(head.linear), &gradient = op(at);
        if (gradient.name != "cross_entropy_backward" || gradient.operands[1] != loss.operands[1] ||
            ignored_label(gradient.attributes) != ignored_label(loss.attributes))
            return "the logits are read by more than the loss and its gradient";
        if (depends(gradient.operands[3], head.loss)) return "the gradient depends on the loss";
        head.dlogits = at;
        head.ops.push_back(at);
        std::set<std::size_t> of_gradient;
        if (!readers(gradient.results[0], of_gradient, head.ops))
            return "the logits' gradient is read elsewhere as well";
        for (const std::size_t k : of_gradient) {
            const Op& reader = op(k);
            const Type& x = f_.type(layer.operands[0]);
            const bool input =
                reader.name == "linear_backward_input" && !head.dx && reader.operands[1] == layer.operands[1] &&
                backward_input_products(reader.operands.size()) == 1 && !has_operand(reader, backward_input_residual) &&
                f_.type(reader.results[0]).dtype == x.dtype;
            const bool weight = reader.name == "linear_backward_weight" && !head.dweight &&
                                behind_views(reader.operands[1]) == behind_views(layer.operands[0]) &&
                                reader.operands.size() == backward_weight_before &&
                                reader.results.size() == (reader.attributes.boolean("bias", false) ? 2 : 1);
            if (!input && !weight) return "the logits' gradient is read by more than the head's own products";
            (input ? head.dx : head.dweight) = k;
            head.ops.push_back(k);
        }
        // By itself it costs no digits: each chunk would round what it adds.
        if (head.dweight && !chunk_.rows && f_.type(op(*head.dweight).results[0]).dtype != DType::f32)
            return "the gradient of the head's weight is narrow: --logits-chunk with a number of rows has chunks that "
                   "each round it";
        return head.dx ? "" : "the head's input has no gradient";
    }

    // The one op that reads v, where it is called that; nullopt else.
    std::optional<std::size_t> only_reader(Value v, std::string_view name) const {
        if (!uses_.single_user(v)) return std::nullopt;
        const auto k = static_cast<std::size_t>(uses_.users[v.index][0]);
        return op(k).name == name ? std::optional(k) : std::nullopt;
    }

    // What adds the weight's gradients to those before; none where they go elsewhere.
    Accumulation accumulation(const Op& product) const {
        Accumulation out;
        for (Value v : product.results) {
            while (const std::optional<std::size_t> sum = only_reader(v, "add")) {
                const std::vector<Value>& terms = op(*sum).operands;
                if (terms[0] == terms[1] || f_.type(terms[0]) != f_.type(terms[1]) || !out.before.empty()) return {};
                out.others.push_back(terms[0] == v ? terms[1] : terms[0]);
                out.ops.push_back(*sum);
                v = op(*sum).results[0];
            }
            const std::optional<std::size_t> last = only_reader(v, "accumulate_gradient");
            if (!last || op(*last).operands[1] != v) return {};
            if (out.first && op(*last).operands[2] != out.first) return {};
            out.first = op(*last).operands[2];
            // An argument: so it is there before the loss is.
            if (definition(op(*last).operands[0]) || definition(out.first)) return {};
            out.before.push_back(op(*last).operands[0]);
            out.after.push_back(op(*last).results[0]);
            out.ops.push_back(*last);
        }
        return out;
    }

    void replace(const Head& head) {
        const Op loss = op(head.loss), layer = op(head.linear);
        const Type x = f_.type(layer.operands[0]);
        std::set<std::size_t> gone(head.ops.begin(), head.ops.end());
        std::map<Value, Value> stands_for;
        std::optional<Op> dweight_op;
        Accumulation gradients;
        if (head.dweight) {
            dweight_op = op(*head.dweight);
            gradients = accumulation(*dweight_op);
            gone.insert(gradients.ops.begin(), gradients.ops.end());
        }
        std::map<Value, std::size_t> products_that_add;  // other terms of a gradient
        for (const Value other : gradients.others)
            if (const std::optional<std::size_t> d = definition(other); d && adds(op(*d), other))
                products_that_add[other] = *d;

        std::vector<Op> ops = std::exchange(f_.ops, {});
        Builder b(f_);
        b.set_provenance(layer.provenance);
        Attributes attributes{{"chunk", head.chunk}};
        if (loss.attributes.has("ignore_index"))
            attributes.set("ignore_index", loss.attributes.integer("ignore_index"));
        std::vector<Value> operands = {b.reshape(layer.operands[0], {row_count(x.dims), last_dim(x.dims)}),
                                       layer.operands[1], loss.operands[1], operand_or_none(layer, linear_bias(0))};
        if (head.dlogits) {
            operands.push_back(ops[*head.dlogits].operands[3]);
            if (dweight_op) {
                attributes.set("weight_gradient", true);
                for (const char* name : {"bias", "dtype"})
                    if (const Attribute* given = dweight_op->attributes.find(name)) attributes.set(name, *given);
                operands.insert(operands.end(), gradients.before.begin(), gradients.before.end());
                if (gradients.first) operands.push_back(gradients.first);
            }
        } else if (!operands.back()) {
            operands.pop_back();
        }
        const std::vector<Value> made =
            b.emit(head.dlogits ? gradients_op : losses_op, operands, attributes, f_.info(loss.results[0]).name);
        const auto takes = [&](Value old, Value by) {
            stands_for[old] = by;
            f_.info(by).name = std::exchange(f_.info(old).name, "");
        };
        // Memory is called after what is in it: the logits of a chunk, the gradient of the head's input.
        f_.info(made[1]).name = std::exchange(f_.info(layer.results[0]).name, "");
        b.set_provenance(loss.provenance);
        const Value sum = b.reduce_sum(made[0], {0});
        f_.info(made[0]).name = unique_value_name(f_, f_.info(loss.results[0]).name + "_of_chunks");
        takes(loss.results[0], sum);
        if (head.dx) {
            const Value old = ops[*head.dx].results[0];
            f_.info(made[dx]).name = std::exchange(f_.info(old).name, "");
            stands_for[old] = b.reshape(made[dx], f_.type(old).dims);
        }
        std::vector<Op> head_ops = std::exchange(f_.ops, {});
        std::vector<Op> sums;
        if (dweight_op) {
            for (std::size_t r = 0; r < dweight_op->results.size(); ++r) {
                if (gradients.before.empty()) {
                    takes(dweight_op->results[r], made[dweight + r]);
                    continue;
                }
                Value total = made[dweight + r];
                for (std::size_t k = 0; r == 0 && k < gradients.others.size(); ++k) {
                    const Value other = gradients.others[k];
                    if (const auto at = products_that_add.find(other); at != products_that_add.end()) {
                        ops[at->second].operands.push_back(total);
                        total = other;
                    } else {
                        b.set_provenance(dweight_op->provenance);
                        total = b.add(total, other);
                    }
                }
                takes(gradients.after[r], total);
            }
            sums = std::exchange(f_.ops, {});
        }
        for (std::size_t k = 0; k < ops.size(); ++k) {
            if (k == head.loss) f_.ops.insert(f_.ops.end(), head_ops.begin(), head_ops.end());
            if (!gone.contains(k)) f_.ops.push_back(std::move(ops[k]));
        }
        f_.ops.insert(f_.ops.end(), sums.begin(), sums.end());
        substitute(f_, stands_for);
        order_by_dependencies(f_);
        remove_dead_ops(f_);
        report_.done("chunk_logits", layer.provenance.scope,
                     fmt::format("the loss and its gradients in {} chunks of {} rows", row_count(x.dims) / head.chunk,
                                 head.chunk));
    }

    // Whether the product that gives v, which nothing else reads, can add it to a gradient.
    bool adds(const Op& product, Value v) const {
        const OpDef& def = op_def(product.name);
        return def.addend && def.addend->over_steps && product.results == std::vector<Value>{v} &&
               product.operands.size() == def.addend->operand && uses_.single_user(v);
    }

    Function& f_;
    Uses uses_;
    const LogitsChunk& chunk_;
    Report& report_;
};

}  // namespace

std::optional<std::int64_t> LogitsChunk::of(std::int64_t all_rows, std::int64_t row_bytes) const {
    std::int64_t most = rows.value_or(most_logits_bytes / std::max<std::int64_t>(row_bytes, 1));
    if (rows == 0 || most >= all_rows) return std::nullopt;
    most = std::max<std::int64_t>(most, 1);
    std::int64_t divisor = most;
    while (all_rows % divisor != 0) --divisor;
    // Chunks of far fewer rows would go over the weight many times more.
    if (2 * divisor <= most) return std::nullopt;
    return divisor;
}

std::optional<LogitsChunk> parse_logits_chunk(std::string_view text) {
    if (text == "auto") return LogitsChunk{};
    if (text == "whole") return LogitsChunk{0};
    std::int64_t rows = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), rows);
    if (error != std::errc() || stop != text.data() + text.size() || rows < 1) return std::nullopt;
    return LogitsChunk{rows};
}

bool can_chunk_logits(std::span<const std::string> executors) {
    const auto has = [&](const char* name) {
        return std::find(executors.begin(), executors.end(), name) != executors.end();
    };
    return has("products") && has("cross_entropy");
}

bool may_chunk_logits(const Function& f, const LogitsChunk& chunk, DType compute) {
    const Uses uses(f);
    return std::any_of(f.ops.begin(), f.ops.end(), [&](const Op& op) {
        if (op.name != "cross_entropy" || !head_of(f, uses, op.operands[0])) return false;
        const Dims& logits = f.type(op.operands[0]).dims;
        return chunk.of(logits[0], logits[1] * static_cast<std::int64_t>(size_of(compute))).has_value();
    });
}

Module chunk_logits(Module module, const LogitsChunk& chunk, Report& report) {
    for (Function& f : module.functions)
        while (Chunker(f, chunk, report).run()) continue;
    return module;
}

}  // namespace thunderc
