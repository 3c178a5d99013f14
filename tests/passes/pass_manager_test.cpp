// SPDX-License-Identifier: Apache-2.0
// What the pass manager makes of passes that fail, break the module, or are left out.
#include "compiler/passes/pass_manager.h"

#include <gtest/gtest.h>

#include <new>

#include "compiler/ir/parse.h"
#include "compiler/ir/print.h"

namespace thunderc {
namespace pass_manager_test {

const char* const text = R"(module "m" values

func @main(
    %x: f32[2] input "x") -> (%y "y") {
  %y = neg(%x) : f32[2]
}
)";

Pass failing(const std::function<void(Module&)>& how) {
    return {"second", [how](Module m, Report&) {
                how(m);
                return m;
            }};
}

const Pass first = {"first", [](Module m, Report& r) {
                        r.done("nothing", "");
                        return m;
                    }};

std::string pass_of_failure(const Pass& second, std::string* message = nullptr) {
    std::vector<PassRun> runs;
    try {
        run_passes(parse_module(text), {first, second}, runs);
    } catch (const PassFailure& failure) {
        if (message != nullptr) *message = failure.what();
        EXPECT_EQ(runs.size(), 1U);  // what ran before is told
        return failure.pass();
    }
    return "";
}

TEST(PassManager, NamesThePassThatFails) {
    std::string message;
    EXPECT_EQ(pass_of_failure(failing([](Module&) { throw InternalError("a value is lost"); }), &message), "second");
    EXPECT_EQ(message, "in the pass second: a value is lost");
    // A bug need not be one that was looked for.
    EXPECT_EQ(pass_of_failure(failing([](Module& m) { m.functions.at(7); })), "second");
}

TEST(PassManager, NamesThePassThatBreaksTheModule) {
    std::string message;
    EXPECT_EQ(pass_of_failure(failing([](Module& m) { m.main().ops.clear(); }), &message), "second");
    EXPECT_TRUE(message.starts_with("after the pass second: ")) << message;
}

TEST(PassManager, LeavesTheUsersFaultAndALackOfMemoryAsTheyAre) {
    std::vector<PassRun> runs;
    const auto user = failing([](Module&) { throw UserError(Diagnostic()); });
    EXPECT_THROW(run_passes(parse_module(text), {user}, runs), UserError);
    EXPECT_THROW(run_passes(parse_module(text), {failing([](Module&) { throw std::bad_alloc(); })}, runs),
                 std::bad_alloc);
}

TEST(PassManager, DisabledPassesChangeNothingAndAreStillTold) {
    std::vector<PassRun> runs;
    std::vector<std::string> seen;
    PassOptions options;
    options.disabled = {"second"};
    options.after = [&seen](const Module&, const PassRun& run) { seen.push_back(run.name); };
    const Module m =
        run_passes(parse_module(text), {first, failing([](Module& m) { m.main().ops.clear(); })}, runs, options);
    EXPECT_EQ(to_string(m), text);
    EXPECT_EQ(seen, (std::vector<std::string>{"first", "second"}));
}

}  // namespace pass_manager_test
}  // namespace thunderc
