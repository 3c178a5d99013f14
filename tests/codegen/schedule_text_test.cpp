// SPDX-License-Identifier: Apache-2.0
// What model.cpp says of streams, events and collectives is what the plan has, which the checker and the interpreter
// work on: action by action, in each micro-step of a step.
#include "tests/codegen/schedule_text.h"

#include <gtest/gtest.h>

#include <map>

#include "codegen/host/statements.h"
#include "codegen/program/program.h"
#include "codegen/text.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/plan_interpreter/expand_plan.h"
#include "tests/planned/reference_step.h"
#include "tests/support/covering.h"

namespace thunderc {
namespace schedule_text_test {

using Kind = ScheduleStep::Kind;

// The actions of a planned function, where its flags are these.
std::vector<ScheduleStep> planned_schedule(const Module& m, const std::string& function, bool first, bool last) {
    const Function& f = *m.find(function);
    const ExpandedPlan plan = expand_plan(m, f);
    std::map<std::int64_t, bool> off;  // flags, by their places
    for (std::size_t k = 0; k < f.arguments.size(); ++k) {
        const std::string& name = f.argument_info[k].names.front();
        if (name == "first_micro_step") off[f.info(f.arguments[k]).placement.offset] = !first;
        if (name == "last_micro_step") off[f.info(f.arguments[k]).placement.offset] = !last;
    }
    std::vector<ScheduleStep> out;
    std::map<std::size_t, std::int64_t> step_of;  // by action
    for (std::size_t k = 0; k < plan.actions.size(); ++k) {
        const PlannedAction& a = plan.actions[k];
        if (a.enabled && off.at(a.enabled->offset)) continue;
        ScheduleStep step{Kind::compute, a.stream == 0 ? "stream" : m.streams[a.stream - 1], "", {}, -1};
        if (is_event(*a.op)) {
            if (a.op->name == "wait" && !a.awaits) continue;  // for an iteration that there was not
            step.kind = a.op->name == "record" ? Kind::record : Kind::wait;
            if (a.awaits) step.record = step_of.contains(*a.awaits) ? step_of.at(*a.awaits) : -1;
        } else if (is_collective(*a.op)) {
            step.kind = Kind::collective;
            step.what = a.op->name;
            auto place = [&step](const PlannedAccess& at) {
                step.places.push_back(std::string(name_of(at.arena)) + "+" + std::to_string(at.offset));
            };
            if (a.op->attributes.has("unit")) place(a.writes.at(0));
            if (a.op->attributes.has("unit") && a.op->name != "all_reduce") place(*a.reads.at(0));
        } else {
            // Of a block all is computed; of the entry and its loops, what is a statement.
            const bool text = a.function == &f || a.function->kind == "loop";
            const bool squares = a.op->name == "sum_of_squares";  // sharded_norm has it
            if (text && !squares && statement_count(*a.function, *a.op) == 0) continue;
            if (!out.empty() && out.back().kind == Kind::compute) continue;
        }
        step_of[k] = static_cast<std::int64_t>(out.size());
        out.push_back(std::move(step));
    }
    return out;
}

struct Printed {
    Module planned;
    std::string model, header;
};

Printed printed(const std::string& model, const CompileOptions& options) {
    CompileOptions naive = options;
    naive.executors = {"reference"};
    naive.mesh = {};
    EmitOptions emit;
    emit.compile = options;
    Printed out{compiled(model, options), "", ""};
    for (OutputFile& file : print_program(out.planned, compiled(model, naive), emit)) {
        if (file.path == "model.cpp") out.model = std::move(file.text);
        if (file.path == "sizes.h" || file.path == "model.h") out.header += file.text;
    }
    return out;
}

struct Case {
    std::string model;
    Mesh mesh;
    std::string reshard = "forward";
    std::string freeze = {};
    std::int64_t bucket_bytes = std::int64_t{25} << 20;
    bool roll = true;

    std::string name() const {
        std::string out = model + "_" + std::to_string(mesh.replicas) + "x" + std::to_string(mesh.shards) + "_" +
                          reshard + (bucket_bytes < 1 << 20 ? "_buckets" : "") + (roll ? "" : "_unrolled");
        return freeze.empty() ? out : out + "_without_" + identifier(freeze);
    }
};

void PrintTo(const Case& c, std::ostream* out) {
    *out << c.name();
}

std::vector<Case> all_cases() {
    std::vector<Case> out;
    for (const char* model : {"llama5", "llama2_tied", "mlp", "deep", "ladder", "chain"}) {
        out.push_back({model, {2, 1}, "forward", "", 4000});
        for (Mesh mesh : {Mesh{1, 2}, Mesh{2, 2}})
            for (const char* reshard : {"never", "forward", "always"}) out.push_back({model, mesh, reshard});
    }
    // Two units in one loop, loops over some layers, nothing of the embedding's.
    for (const char* freeze : {"q_proj", "layers.[02]", "q_proj|norm", "embed"}) {
        out.push_back({"llama5", {2, 1}, "forward", freeze, 4000});
        for (Mesh mesh : {Mesh{1, 2}, Mesh{2, 2}})
            for (const char* reshard : {"never", "forward", "always"}) out.push_back({"llama5", mesh, reshard, freeze});
    }
    out.push_back({"llama5", {2, 2}, "forward", "", std::int64_t{25} << 20, false});
    // Under sanitizers each model, each part that is frozen and each kind of ranks.
    return all_or_covering(out, [](const Case& c) {
        const std::string mesh = std::to_string(c.mesh.replicas) + "x" + std::to_string(c.mesh.shards);
        return Facets{c.model, "without " + c.freeze, mesh + " " + c.reshard, c.roll ? "rolled" : "unrolled"};
    });
}

class ScheduleText : public testing::TestWithParam<Case> {};

TEST_P(ScheduleText, IsThePlan) {
    const Case& c = GetParam();
    CompileOptions o;
    o.mesh = c.mesh;
    o.reshard = c.reshard;
    o.freeze = c.freeze;
    o.bucket_bytes = c.bucket_bytes;
    o.roll = c.roll;
    const Printed p = printed(c.model + "/dynamo.logits.onnx", o);
    for (const bool first : {true, false})
        for (const bool last : {true, false}) {
            const auto text = read_schedule(p.model, p.header, "forward_backward", first, last);
            const auto plan = planned_schedule(p.planned, "forward_backward", first, last);
            EXPECT_EQ(to_string(text), to_string(plan)) << "first " << first << ", last " << last;
            // At least one collective that waits for what it sends, and somebody who waits for it.
            EXPECT_GE(text.size(), first && last ? 6U : 1U);
        }
    EXPECT_EQ(to_string(read_schedule(p.model, p.header, "update", true, true)),
              to_string(planned_schedule(p.planned, "update", true, true)));
}

INSTANTIATE_TEST_SUITE_P(All, ScheduleText, testing::ValuesIn(all_cases()),
                         [](const auto& info) { return info.param.name(); });

// ---- the reader itself: what it would not see, the comparison would not either --------------------------------------

const char* const header = R"(
inline constexpr std::int64_t L = 3;
namespace unit {
inline constexpr thunder::Unit w{.what = "w.{0..2}", .elements = 3, .group = Group::shard, .whole = {.arena = &Arenas::gathered,
    .offset = 64, .stride = 32, .slots = 2}, .shard = {.arena = &Arenas::parameters, .offset = 8, .stride = 12}};
inline constexpr thunder::Unit v{.what = "v", .elements = 3, .group = Group::shard,
    .whole = {.arena = &Arenas::unit_gradients, .offset = 7}, .shard = {.arena = &Arenas::gradients, .offset = 9}};
}
)";

TEST(ScheduleReader, RunsWhatIsThere) {
    const std::string text = R"(
void Model::step(MicroStep micro_step) {
    // gather.wait(nothing_); is a comment
    const auto gather_w = [&](std::int64_t layer) {
        all_gather(arenas_, unit::w, layer, gather);
        gather.record(done_[layer % 2]);
    };
    gather_w(0);
    for (std::int64_t layer = 0; layer < L; ++layer) {
        if (layer + 1 < L) gather_w(layer + 1);
        stream.wait(done_[layer % 2]);
        layer_forward(arenas_, stream);
        layer_forward(arenas_, stream);
        if (layer >= 2)
            stream.wait(free_);
    }
    if (micro_step.last && mode == WriteMode::overwrite) {
        stream.record(ready_);
        reduce.wait(ready_);
        reduce_scatter(arenas_, unit::v, mode, reduce);
    }
})";
    EXPECT_EQ(to_string(read_schedule(text, header, "step", true, true)),
              "0: gather all_gather gathered+64 parameters+8\n1: gather records\n"
              "2: gather all_gather gathered+96 parameters+20\n3: gather records\n4: stream waits for 1\n"
              "5: stream computes\n6: gather all_gather gathered+64 parameters+32\n7: gather records\n"
              "8: stream waits for 3\n9: stream computes\n10: stream waits for 7\n11: stream computes\n"
              "12: stream waits for nothing\n13: stream records\n14: reduce waits for 13\n"
              "15: reduce reduce_scatter gradients+9 unit_gradients+7\n");
    EXPECT_EQ(read_schedule(text, header, "step", true, false).size(), 13U);
    EXPECT_EQ(read_schedule(text, header, "step", false, true).size(), 13U);
}

TEST(ScheduleReader, SeesAConditionThatThePlanDoesNotHave) {
    CompileOptions o;
    o.mesh = {2, 2};
    Printed p = printed("llama5/dynamo.logits.onnx", o);
    const std::string line = "    stream.wait(model_embed_tokens_gradients_done_);";  // at the end
    const std::size_t at = p.model.find(line);
    ASSERT_NE(at, std::string::npos);
    p.model.replace(at, line.size(), "    if (micro_step.last) stream.wait(model_embed_tokens_gradients_done_);");
    auto same = [&p](bool last) {
        return to_string(read_schedule(p.model, p.header, "forward_backward", true, last)) ==
               to_string(planned_schedule(p.planned, "forward_backward", true, last));
    };
    EXPECT_TRUE(same(true));
    EXPECT_FALSE(same(false));
}

}  // namespace schedule_text_test
}  // namespace thunderc
