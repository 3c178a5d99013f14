// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/recognise/place_random.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/batch_share.h"
#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/op_def.h"
#include "compiler/ops/sdpa.h"
#include "compiler/planned/step_form.h"

namespace thunderc {
namespace {

bool is_unplaced_attention(const Op& op) {
    return op.name == "sdpa" && op.attributes.has("dropout") && op.operands.size() <= sdpa_seed;
}

bool is_dropout(const Op& op) {
    return op.name == "unplaced_dropout" || is_unplaced_attention(op);
}

// Ops of which it is not said yet what is drawn for them.
bool draws(const Op& op) {
    return op_def(op.name).draws || is_unplaced_attention(op);
}

const char* rate_of(const Op& op) {
    return op.name == "sdpa" ? "dropout" : "rate";
}

class Placer {
  public:
    Placer(Function& f, bool step) : f_(f), builder_(f), shares_(batch_shares(f)), uses_(f), step_(step) {
        batch_ = std::max<std::int64_t>(1, batch_rows(f));
    }

    std::size_t run() {
        add_arguments();
        std::map<Value, Value> placed;
        before_ = std::exchange(f_.ops, {});
        std::vector<Op> ops = before_;
        for (Op& op : ops) {
            for (Value& v : op.operands)
                if (const auto at = placed.find(v); at != placed.end()) v = at->second;
            if (!draws(op)) {
                f_.ops.push_back(std::move(op));
                continue;
            }
            builder_.set_provenance(op.provenance);
            ++count_;
            if (op.name == "sdpa") {
                place_attention(op);
                f_.ops.push_back(std::move(op));
                continue;
            }
            const Value y = place(op);
            f_.info(y).name = std::exchange(f_.info(op.results[0]).name, "");
            placed[op.results[0]] = y;
        }
        builder_.set_provenance({});
        for (Value& v : f_.results)
            if (const auto at = placed.find(v); at != placed.end()) v = at->second;
        compact_values(f_);
        return count_;
    }

  private:
    void add_arguments() {
        ArgInfo numbers;
        numbers.kind = ArgInfo::Kind::input;
        numbers.names = {unique_value_name(f_, "sample_numbers")};
        numbers.batched = true;
        numbers.source = sample_numbers_source;
        numbers_ = f_.add_argument(Type::tensor(DType::i64, {batch_}), numbers.names.front(), numbers);
        ArgInfo seed;
        seed.kind = step_ ? ArgInfo::Kind::scalar : ArgInfo::Kind::input;
        const std::string name = unique_value_name(f_, "seed");
        seed.names = {step_ ? seed_scalar : name};
        if (!step_) seed.source = seed_source;
        seed_ = f_.add_argument(Type::tensor(DType::i64, {}), name, seed);
    }

    // Numbers of `count` rows: those of each sample one behind the other.
    Value numbers_of(std::int64_t count) {
        const std::int64_t each = count / batch_;
        if (each == 1) return numbers_;
        const Value first = builder_.mul(builder_.reshape(numbers_, {batch_, 1}), static_cast<double>(each));
        const Value within =
            builder_.constant(ConstExpr::affine(Type::tensor(DType::i64, {1, each}), 0, {0.0, 1.0}), "row_of_sample");
        return builder_.reshape(builder_.add(first, within), {count});
    }

    // How the result of an op that draws belongs to the batch, which its operand may not tell (a tensor of the shape of
    // one that has the rows): what it is combined with, element by element, does.
    BatchShare rows_of(Value drawn) const {
        const BatchShare& own = shares_[drawn.index];
        if (own.kind != BatchShare::Kind::same) return own;
        const Dims& dims = f_.values[drawn.index].type.dims;
        std::set<Value> seen{drawn};
        for (std::vector<Value> next{drawn}; !next.empty();) {
            const Value v = next.back();
            next.pop_back();
            for (const std::size_t user : uses_.users[v.index]) {
                const Op& op = before_[user];
                if (!op_def(op.name).acts_by_element() || op.results.size() != 1) continue;
                const Value result = op.results[0];
                const BatchShare& share = shares_[result.index];
                const Dims& of = f_.values[result.index].type.dims;
                const bool fits = of.size() == dims.size() && share.kind == BatchShare::Kind::rows &&
                                  dims[share.axis] == of[share.axis];
                if (fits) return share;
                if (share.kind == BatchShare::Kind::same && of == dims && seen.insert(result).second)
                    next.push_back(result);
            }
        }
        return own;
    }

    Value next_draw() {
        const double number = static_cast<double>(draws_++);
        return builder_.constant(ConstExpr::splat(Type::tensor(DType::i64, {}), number), "draw");
    }

    // Of each of the rows: a dropout of x, or numbers of its shape.
    Value drawn(const Op& op, Value x, Value numbers) {
        if (is_dropout(op)) return builder_.op("dropout", {x, seed_, next_draw(), numbers}, op.attributes);
        const Dims& dims = f_.type(x).dims;
        return builder_.op("uniform", {seed_, next_draw(), numbers}, {{"dims", Dims(dims.begin() + 1, dims.end())}});
    }

    Value place(const Op& op) {
        const Value x = op.operands[0];
        const Dims dims = f_.type(x).dims;
        const BatchShare share = rows_of(op.results[0]);
        const auto axis = static_cast<std::ptrdiff_t>(share.axis);
        const std::int64_t run = share.kind == BatchShare::Kind::rows ? dims[share.axis] / share.outer : 0;
        if (run == 0 || run % batch_ != 0) {
            Dims line{1};
            line.insert(line.end(), dims.begin(), dims.end());
            const Value whole = builder_.reshape(x, line), first = builder_.slice(numbers_, 0, 0, 1);
            return builder_.reshape(drawn(op, whole, first), dims);
        }
        // The rows first: (before, outer, run, behind) becomes (run, before, outer, behind).
        Dims apart(dims.begin(), dims.begin() + axis);
        if (share.outer > 1) apart.push_back(share.outer);
        const auto at = static_cast<std::int64_t>(apart.size());
        apart.push_back(run);
        apart.insert(apart.end(), dims.begin() + axis + 1, dims.end());
        Dims rows_first(apart.size()), back(apart.size());
        std::iota(rows_first.begin(), rows_first.end(), 0);
        std::rotate(rows_first.begin(), rows_first.begin() + at, rows_first.begin() + at + 1);
        for (std::size_t d = 0; d < back.size(); ++d)
            back[static_cast<std::size_t>(rows_first[d])] = static_cast<std::int64_t>(d);
        const Value rows = builder_.transpose(builder_.reshape(x, apart), rows_first);
        return builder_.reshape(builder_.transpose(drawn(op, rows, numbers_of(run)), back), dims);
    }

    // Its probabilities have a row for each of q's first dimension.
    void place_attention(Op& op) {
        const std::int64_t rows = f_.type(op.operands[0]).dims[0];
        const BatchShare& share = shares_[op.results[0].index];
        const bool of_batch = share.kind == BatchShare::Kind::rows && share.axis == 0 && share.outer == 1;
        Value numbers;
        if (of_batch && rows % batch_ == 0) {
            numbers = numbers_of(rows);
        } else {
            const Value first = builder_.mul(builder_.slice(numbers_, 0, 0, 1), static_cast<double>(rows));
            numbers = builder_.add(
                first, builder_.constant(ConstExpr::affine(Type::tensor(DType::i64, {rows}), 0, {1.0}), "row"));
        }
        op.operands.resize(sdpa_seed);
        op.operands.insert(op.operands.end(), {seed_, next_draw(), numbers});
    }

    Function& f_;
    Builder builder_;
    std::vector<BatchShare> shares_;  // by value, before anything was added
    Uses uses_;                       // the same, of before_
    std::vector<Op> before_;
    bool step_;
    std::int64_t batch_ = 1;
    std::int64_t draws_ = 0;
    std::size_t count_ = 0;
    Value numbers_, seed_;
};

}  // namespace

Module place_random(Module module, const PlaceRandomOptions& options, Report& report) {
    Function& main = module.main();
    std::map<Value, Value> removed;
    std::size_t without = 0;
    for (Op& op : main.ops) {
        if (!is_dropout(op)) continue;
        const bool of_adapter = op.attributes.boolean("of_adapter", false);  // whose rate --lora says
        op.attributes.erase("of_adapter");
        if (options.dropout && !of_adapter) op.attributes.set(rate_of(op), *options.dropout);
        if (op.attributes.number(rate_of(op)) != 0) continue;
        ++without;
        if (op.name == "sdpa")
            op.attributes.erase(rate_of(op));
        else
            removed[op.results[0]] = op.operands[0];
    }
    if (without > 0) {
        substitute(main, removed);
        remove_dead_code(main);
        report.done("dropout", "@main", fmt::format("{} of rate 0 {} left out", without, without == 1 ? "is" : "are"));
    }
    if (options.dropout) {
        const bool drops = without > 0 || std::any_of(main.ops.begin(), main.ops.end(), is_dropout);
        const auto attentions = std::count_if(main.ops.begin(), main.ops.end(), [](const Op& op) {
            return op.name == "sdpa" && !op.attributes.has("dropout");
        });
        const auto others =
            std::count_if(main.ops.begin(), main.ops.end(), [](const Op& op) { return op.name == "unplaced_uniform"; });
        if (*options.dropout > 0 && !drops)
            report.warning(
                "dropout", "@main",
                "--dropout sets no rate, since the export shows no dropout: it is trained without; export the "
                "model in train() mode, or with dynamo=True, optimize=False");
        else if (*options.dropout > 0 && attentions > 0)
            report.done(
                "dropout", "@main",
                fmt::format("{} without: an export in eval() mode does not tell whether attention has one",
                            attentions == 1 ? "one attention is" : fmt::format("{} attentions are", attentions)));
        if (others > 0)
            report.done("dropout", "@main",
                        fmt::format("{} drawn, whatever --dropout says: they may be a dropout of whole channels",
                                    others == 1 ? "one tensor is" : fmt::format("{} tensors are", others)));
    }
    if (std::none_of(main.ops.begin(), main.ops.end(), draws)) return module;
    const std::size_t count = Placer(main, options.step).run();
    report.done("random numbers", "@main",
                fmt::format("{} {} drawn by the seed and the number of the sample", count,
                            count == 1 ? "tensor is" : "tensors are"));
    return module;
}

}  // namespace thunderc
