// SPDX-License-Identifier: Apache-2.0
// The sample of a job that goes back into the queue, with stand-ins for srun, which sends the signal that Slurm would,
// and for scontrol.
#include "program_test.h"

namespace thunder {
namespace requeue_test {

class RequeueTest : public ProgramTest {
  protected:
    RequeueTest() {
        write_feed("feed.safetensors", 3, 4);
        std::filesystem::create_directory(path("bin"));
        // The job's time is over six steps after it began, but for the third job.
        script("srun", R"sh(
lines() { wc -l < run.jsonl 2>/dev/null || echo 0; }
before=$(lines)
"$@" & pid=$!
if [ "$(wc -l < queue)" -lt 2 ]; then
    while [ "$(lines)" -lt $((before + 6)) ] && kill -0 $pid 2>/dev/null; do sleep 0.01; done
    kill -USR1 $pid
fi
wait $pid
)sh");
        script("scontrol", "echo \"$@\" >> queue\n");
        write_file(path("queue"), "");
    }

    void script(const std::string& name, const std::string& text) {
        const std::string file = path("bin/" + name);
        write_file(file, "#!/usr/bin/env bash\n" + text);
        std::filesystem::permissions(file, std::filesystem::perms::owner_all);
    }
    Outcome job() const {
        return shell("PATH=$PWD/bin:$PATH SLURM_JOB_ID=77 TRAIN=" PROGRAMS "/words_train bash " SAMPLES
                     "/slurm/train.sbatch --feed feed.safetensors --steps 20000 --seed 4 --lr 0.01 --quiet --log "
                     "run.jsonl");
    }
};

TEST_F(RequeueTest, ARunOfThreeJobsIsTheUninterruptedOne) {
    for (int k = 0; k < 2; ++k) {
        const Outcome outcome = job();
        EXPECT_EQ(outcome.status, 138) << outcome.err;
        EXPECT_EQ(outcome.out, "out of time: the job goes back into the queue\n");
        EXPECT_LT(read_log("run.jsonl").size(), 20000U);
    }
    const Outcome last = job();
    EXPECT_EQ(last.status, 0) << last.err;
    EXPECT_EQ(last.out, "");
    EXPECT_EQ(read_file(path("queue")), "requeue 77\nrequeue 77\n");
    expect_success(
        run("words_train", "--feed feed.safetensors --steps 20000 --seed 4 --lr 0.01 --quiet --log a.jsonl"));
    EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("a.jsonl"))));
    // What is wrong does not come back for ever.
    std::filesystem::remove(path("feed.safetensors"));
    EXPECT_EQ(job().status, 1);
    EXPECT_EQ(read_file(path("queue")), "requeue 77\nrequeue 77\n");
}

}  // namespace requeue_test
}  // namespace thunder
