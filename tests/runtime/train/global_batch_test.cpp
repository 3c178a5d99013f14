// SPDX-License-Identifier: Apache-2.0
// A step keeps its rows when a run goes on with other micro-batches; on several ranks: tests/runtime/comm.
#include "data/token_file.h"
#include "program_test.h"

namespace thunder {
namespace global_batch_test {

class GlobalBatchTest : public ProgramTest {
  protected:
    GlobalBatchTest() {
        TokenFileWriter writer(path("corpus.bin"), V);
        for (std::uint32_t i = 0; i < 500; ++i) writer.append(std::vector<std::uint32_t>{i * i % 11});
        writer.commit();
    }
    const std::string data = "--data corpus.bin --lr 0.1 --warmup 0 --schedule constant ";
};

// words_train takes four rows a micro-step, words_half_train two.
TEST_F(GlobalBatchTest, AccumulationFollows) {
    expect_success(run("words_train", data + "--steps 20 --quiet --log whole.jsonl"));
    expect_success(run("words_train", data + "--steps 7 --quiet --log run.jsonl --checkpoint c"));
    const Outcome half = run("words_half_train", data + "--steps 13 --log run.jsonl --checkpoint c --resume");
    EXPECT_EQ(half.status, 0);
    EXPECT_NE(half.err.find("--grad-accum 2: a step takes 4 rows, as it did before\n"), std::string::npos) << half.err;
    EXPECT_EQ(half.err.find("note"), std::string::npos) << half.err;
    expect_success(run("words_train", data + "--steps 20 --quiet --log run.jsonl --checkpoint c --resume"));
    EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("whole.jsonl"))));
}

TEST_F(GlobalBatchTest, AnotherOneIsAskedFor) {
    expect_success(run("words_half_train", data + "--steps 2 --quiet --checkpoint c"));
    const auto error = [&](const std::string& program, const std::string& options) {
        return run(program, data + "--steps 4 --checkpoint c --resume " + options).err;
    };
    EXPECT_EQ(error("words_train", "--quiet"),
              "error: a step took 2 rows in c/step-00000002, and micro-steps of 4 rows do not add up to "
              "that\nhelp: start another number of ranks, or write the program with another --batch; or --change-batch "
              "goes on with another number of rows\n");
    EXPECT_EQ(error("words_half_train", "--quiet --grad-accum 3"),
              "error: a step took 2 rows in c/step-00000002, and --grad-accum 3 takes 6\nhelp: leave "
              "--grad-accum away; or --change-batch goes on with another number of rows\n");
    EXPECT_EQ(error("words_half_train", "--quiet --grad-accum 1 --steps 2"), "");
    const std::string allowed = error("words_half_train", "--grad-accum 3 --change-batch");
    EXPECT_NE(allowed.find("note: the checkpoint was made with 2 rows a step (now 6)"), std::string::npos) << allowed;
}

}  // namespace global_batch_test
}  // namespace thunder
