// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/distributed/distribute.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/structure.h"
#include "compiler/passes/distributed/distribute_parts.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace distributing {
namespace {

constexpr std::int64_t first_bucket_bytes = 1 << 20;  // as torch's DistributedDataParallel begins

std::int64_t all_bytes(const Type& type) {
    return static_cast<std::int64_t>(type.bytes()) * (type.is_family() ? type.count : 1);
}

// Gradients that are sent together; those of a loop's layers are sent by the loop itself.
struct Bucket {
    std::vector<GradientResult> gradients;
    std::int64_t bytes = 0;
    bool layered = false;
};

// In the order in which backward has them ready, which is that of the ops.
std::vector<Bucket> buckets_of(const Function& f, std::vector<GradientResult> gradients, std::int64_t bucket_bytes) {
    std::stable_sort(gradients.begin(), gradients.end(), [](const GradientResult& a, const GradientResult& b) {
        return std::pair(a.op, !a.layered) < std::pair(b.op, !b.layered);
    });
    std::vector<Bucket> out;
    bool full = true;
    for (std::size_t k = 0; k < gradients.size(); ++k) {
        const GradientResult& g = gradients[k];
        const bool new_op = k == 0 || gradients[k - 1].op != g.op || gradients[k - 1].layered != g.layered;
        if (new_op && (full || g.layered || out.back().layered)) out.push_back({{}, 0, g.layered});
        out.back().gradients.push_back(g);
        out.back().bytes += all_bytes(f.type(f.results[g.result]));
        full = out.back().bytes >= (out.size() == 1 ? std::min(first_bucket_bytes, bucket_bytes) : bucket_bytes);
    }
    return out;
}

// "lm_head.weight, model.norm.weight"; of a long list its ends.
std::string what_of(const Bucket& bucket) {
    const auto& g = bucket.gradients;
    std::string text = g.front().parameter;
    if (g.size() > 3) return fmt::format("{} ... {}", text, g.back().parameter);
    for (std::size_t k = 1; k < g.size(); ++k) text += ", " + g[k].parameter;
    return text;
}

Attributes attributes_of(const Mesh& mesh, const std::string& name, const std::string& what) {
    return {{"group", std::string("world")}, {"ranks", mesh.world()}, {"name", name}, {"what", what}};
}

class Replicas {
  public:
    Replicas(Module& module, const DistributeOptions& options, Report& report)
        : module_(module), options_(options), report_(report) {}

    void run() {
        Function& f = module_.main();
        const std::vector<Bucket> buckets = buckets_of(f, gradient_results(f), options_.bucket_bytes);
        order_parameters(buckets);
        last_ = scalar_argument(f, "last_micro_step");
        for (const Bucket& bucket : buckets)
            if (bucket.layered) wrap_loops(module_, f.name, loop_body(loop_of(bucket)));
        // From the last to the first: ops behind a bucket's place may move, those before it stay.
        for (std::size_t k = buckets.size(); k-- > 0;) {
            const std::string name = fmt::format("bucket_{}", k);
            buckets[k].layered ? send_layers(buckets[k], name) : send(buckets[k], name);
        }
    }

  private:
    static Value scalar_argument(Function& f, const std::string& name) {
        ArgInfo info;
        info.kind = ArgInfo::Kind::scalar;
        info.names = {name};
        return f.add_argument(Type::tensor(DType::boolean, {}), unique_value_name(f, name), info);
    }

    Op& loop_of(const Bucket& bucket) {
        return module_.main().ops[static_cast<std::size_t>(bucket.gradients.front().op)];
    }

    // Parameters lie in memory in the order of their arguments, and gradients as they do: what is sent together has to
    // stand together. What backward has ready last comes first, as models have it anyway.
    void order_parameters(const std::vector<Bucket>& buckets) {
        Function& f = module_.main();
        std::map<std::string, std::size_t> bucket_of;
        for (std::size_t k = 0; k < buckets.size(); ++k)
            for (const GradientResult& g : buckets[k].gradients) bucket_of[g.parameter] = k;
        std::vector<std::size_t> places, runs;  // arguments with a gradient; their buckets, each run once
        std::vector<std::pair<Value, ArgInfo>> moved;
        for (std::size_t k = 0; k < f.arguments.size(); ++k) {
            const ArgInfo& info = f.argument_info[k];
            if (info.kind != ArgInfo::Kind::parameter || !bucket_of.contains(info.names.front())) continue;
            places.push_back(k);
            moved.emplace_back(f.arguments[k], info);
            const std::size_t bucket = bucket_of[info.names.front()];
            if (runs.empty() || runs.back() != bucket) runs.push_back(bucket);
        }
        if (std::set<std::size_t>(runs.begin(), runs.end()).size() == runs.size()) return;
        std::stable_sort(moved.begin(), moved.end(), [&](const auto& a, const auto& b) {
            return bucket_of[a.second.names.front()] > bucket_of[b.second.names.front()];
        });
        for (std::size_t k = 0; k < places.size(); ++k) {
            f.arguments[places[k]] = moved[k].first;
            f.argument_info[places[k]] = std::move(moved[k].second);
        }
        report_.done("bucket", "",
                     "parameters lie in the order in which their gradients are ready, the last ones first");
    }

    // Behind the op that gives the last of the bucket's gradients.
    void send(const Bucket& bucket, const std::string& name) {
        Function& f = module_.main();
        const auto at = static_cast<std::ptrdiff_t>(bucket.gradients.back().op + 1);
        std::vector<Op> behind(f.ops.begin() + at, f.ops.end());
        f.ops.erase(f.ops.begin() + at, f.ops.end());
        Builder b(f);
        std::vector<Value> operands;
        for (const GradientResult& g : bucket.gradients) operands.push_back(f.results[g.result]);
        operands.push_back(last_);
        std::vector<Value> sums =
            b.emit("all_reduce_start", operands, attributes_of(options_.mesh, name, what_of(bucket)));
        name_results(f, sums, operands);
        const std::vector<Value> ready = b.emit("await", sums);
        name_results(f, ready, operands);
        for (std::size_t k = 0; k < ready.size(); ++k) f.results[bucket.gradients[k].result] = ready[k];
        f.ops.insert(f.ops.end(), std::make_move_iterator(behind.begin()), std::make_move_iterator(behind.end()));
        report_.done("bucket", name, fmt::format("{} bytes: {}", bucket.bytes, what_of(bucket)));
    }

    static void name_results(Function& f, const std::vector<Value>& results, const std::vector<Value>& operands) {
        for (std::size_t k = 0; k < results.size(); ++k)
            f.info(results[k]).name = f.type(results[k]).kind == Type::Kind::token ? "sent" : f.info(operands[k]).name;
    }

    void send_layers(const Bucket& bucket, const std::string& name) {
        Function& f = module_.main();
        Op& loop = loop_of(bucket);
        Function& body = *module_.find(loop_body(loop));
        const std::int64_t n = loop_count(loop);
        const Value last = body.add_value(f.type(last_), f.info(last_).name);
        body.arguments.push_back(last);
        loop.operands.push_back(last_);

        std::vector<Value> operands;
        std::int64_t layer_bytes = 0;
        for (const GradientResult& g : bucket.gradients) {
            operands.push_back(body.results[g.op_result]);
            layer_bytes += all_bytes(body.type(operands.back()));
        }
        operands.push_back(last);
        const std::string what = body.scope.empty() ? what_of(bucket) : body.scope;
        Attributes attributes = attributes_of(options_.mesh, name, what);
        // A loop that runs backwards ends its buckets at multiples of `layers`: what is left over comes first.
        std::int64_t layers = 1;
        if (loop_reversed(loop))
            layers = std::clamp<std::int64_t>((options_.bucket_bytes + layer_bytes - 1) / layer_bytes, 1, n);
        attributes.set("layers", layers);
        Builder b(body);
        const std::vector<Value> sums = b.emit("all_reduce_start", operands, attributes);
        name_results(body, sums, operands);
        for (std::size_t k = 0; k < bucket.gradients.size(); ++k) body.results[bucket.gradients[k].op_result] = sums[k];
        body.results.push_back(sums.back());

        const Value token = f.add_value(Type::token(), "sent");
        loop.results.push_back(token);
        const auto at = static_cast<std::ptrdiff_t>(bucket.gradients.front().op + 1);
        std::vector<Op> behind(f.ops.begin() + at, f.ops.end());
        f.ops.erase(f.ops.begin() + at, f.ops.end());
        std::vector<Value> families;
        for (const GradientResult& g : bucket.gradients) families.push_back(f.results[g.result]);
        Builder outside(f);
        families.push_back(token);
        const std::vector<Value> ready = outside.emit("await", families);
        name_results(f, ready, families);
        for (std::size_t k = 0; k < ready.size(); ++k) f.results[bucket.gradients[k].result] = ready[k];
        f.ops.insert(f.ops.end(), std::make_move_iterator(behind.begin()), std::make_move_iterator(behind.end()));
        report_.done("bucket", name,
                     fmt::format("{} bytes a layer, {} layer{} together: {}", layer_bytes, layers,
                                 layers == 1 ? "" : "s", what));
    }

    Module& module_;
    const DistributeOptions& options_;
    Report& report_;
    Value last_;
};

}  // namespace

Module distribute_replicas(Module module, const DistributeOptions& options, Report& report) {
    Replicas(module, options, report).run();
    return module;
}

}  // namespace distributing

Module distribute(Module module, const DistributeOptions& options, Report& report) {
    if (!options.mesh.communicates()) return module;
    check(is_step(module), "what is distributed is a training step");
    module.mesh = options.mesh;
    if (options.mesh.has_shards()) return distributing::distribute_shards(std::move(module), options, report);
    return distributing::distribute_replicas(std::move(module), options, report);
}

}  // namespace thunderc
