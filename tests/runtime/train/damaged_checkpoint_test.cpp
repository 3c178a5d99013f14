// SPDX-License-Identifier: Apache-2.0
// Checkpoints that are damaged, and disks that are full: the last one that is whole is gone on from.
#include <cmath>

#include "checkpoint/folder.h"
#include "checkpoint_test.h"
#include "support/file.h"

namespace thunder {
namespace checkpoint_test {

class DamagedCheckpointTest : public CheckpointTest {};

TEST_F(DamagedCheckpointTest, RefusesATruncatedOne) {
    expect_success(run("words_train", flags + " --checkpoint c"));
    const std::string file = file_of_step("c", 8), whole = read_file(path(file));
    std::uint64_t header = 0;
    std::memcpy(&header, whole.data(), 8);
    write_file(path(file), whole.substr(0, whole.size() - 100));
    expect_failure(run("words_train", flags + " --checkpoint c --resume"),
                   cat("error: ", file, " is truncated: tensor optimizer.v.model.head.weight ends at byte ",
                       whole.size() - 40 - header, " of the data, and there are ", whole.size() - 108 - header,
                       "\nhelp: copy or download the file again"));
    for (const std::size_t length : {std::size_t{0}, std::size_t{7}, std::size_t{8}, std::size_t{9}, std::size_t{500},
                                     static_cast<std::size_t>(header), whole.size() / 2, whole.size() - 1}) {
        write_file(path(file), whole.substr(0, length));
        EXPECT_EQ(run("words_train", flags + " --checkpoint c --resume").status, 1) << length;
    }
}

TEST_F(DamagedCheckpointTest, GoesOnFromTheOneBeforeADamagedOne) {
    expect_success(run("words_train", flags + " --checkpoint c --checkpoint-every 5 --save whole.safetensors"));
    const std::string checkpoint = step_in("c", 8),
                      resume = flags + " --checkpoint c --resume --save resumed.safetensors";
    restore(checkpoint, "whole");
    for (const std::string name : {"/rank-00000.safetensors", "/manifest.json"}) {
        const std::string whole = read_file(path("whole" + name));
        // Cut short, and a bit of each part of the file: its length, its header, each tensor; or not there at all.
        std::vector<std::string> damaged = {whole.substr(0, 9), whole.substr(0, whole.size() - 100), "", "gone"};
        for (std::size_t at = 0; at < whole.size(); at += 97) {
            damaged.push_back(whole);
            damaged.back()[at] = static_cast<char>(damaged.back()[at] ^ (1 << at % 8));
        }
        for (std::size_t k = 0; k < damaged.size(); ++k) {
            restore("whole", checkpoint);
            write_file(path(checkpoint + name), damaged[k]);
            if (damaged[k] == "gone") std::filesystem::remove(path(checkpoint + name));
            const Outcome outcome = run("words_train", resume);
            EXPECT_EQ(outcome.status, 0) << k << outcome.err;
            // Loud, with --quiet as well.
            EXPECT_TRUE(outcome.err.starts_with(cat("warning: ", checkpoint)) &&
                        outcome.err.ends_with(": the run goes on from c/step-00000005\n"))
                << k << outcome.err;
            EXPECT_EQ(read_file(path("resumed.safetensors")), read_file(path("whole.safetensors"))) << k;
            for (const char* anew : {"/rank-00000.safetensors", "/manifest.json"})
                EXPECT_EQ(read_file(path(checkpoint + anew)), read_file(path(cat("whole", anew)))) << k;
            if (damaged[k] != "gone") {
                EXPECT_EQ(read_file(path(checkpoint + ".damaged" + name)), damaged[k]) << k;
            }
        }
    }
    // It is not taken for the newest: what is kept is what the run has written.
    write_file(path(file_of_step("c", 8)), "");
    const Outcome shorter = run("words_train",
                                "--feed feed.safetensors --steps 7 --lr 0.1 --warmup 3 --quiet "
                                "--checkpoint c --resume --checkpoint-every 1 --keep 1");
    EXPECT_EQ(shorter.status, 0) << shorter.err;
    EXPECT_TRUE(std::filesystem::exists(path("c/step-00000007")));
    EXPECT_FALSE(std::filesystem::exists(path(checkpoint)));
    restore("c/step-00000007", "c/step-00000005");
    std::filesystem::remove_all(path("c/step-00000007"));
    // Where none is whole, the newest one's error is told.
    restore("whole", checkpoint);
    write_file(path(file_of_step("c", 8)), "");
    write_file(path(file_of_step("c", 5)), "");
    const Outcome none = run("words_train", resume);
    EXPECT_EQ(none.status, 1);
    EXPECT_TRUE(none.err.starts_with(cat("error: ", checkpoint))) << none.err;
    // Another program's is whole: to go on from the one before is no way out.
    restore("whole", checkpoint);
    Manifest other = read_manifest(path(checkpoint));
    char& digit = other.metadata["identity"][0];
    digit = digit == '0' ? '1' : '0';
    seal(path(checkpoint), other);
    expect_failure(run("words_train", flags + " --checkpoint c --resume"),
                   cat("error: ", checkpoint,
                       " is a checkpoint of another program (words): the same parameters are not all trained in "
                       "both\nhelp: go on with the program that wrote it, or start from its parameters with --init"));
}

TEST_F(DamagedCheckpointTest, AFullDiskLeavesTheOneBefore) {
    expect_success(run("words_train", flags + " --checkpoint c"));
    const std::string before = read_file(path("c/step-00000008/rank-00000.safetensors"));
    // Files may have 4 blocks of 512 bytes (or 1024, as the shell counts): less than a checkpoint takes.
    const Outcome outcome =
        shell(cat("ulimit -f 4; ", PROGRAMS,
                  "/words_train --feed feed.safetensors --steps 9 --quiet --checkpoint c --resume --keep 1"));
    expect_failure(outcome,
                   "error: cannot write c/step-00000009.tmp/rank-00000.safetensors: File too large\nhelp: make room "
                   "there, or name a "
                   "place on another disk");
    EXPECT_EQ(files(),
              (std::vector<std::string>{"c/step-00000008/manifest.json", "c/step-00000008/rank-00000.safetensors",
                                        "constants.safetensors", "feed.safetensors"}));
    EXPECT_EQ(read_file(path("c/step-00000008/rank-00000.safetensors")), before);
    // In the background it ends the run as well, behind the step in which that is known.
    const Outcome later = shell(cat("ulimit -f 4; ", PROGRAMS,
                                    "/words_train --feed feed.safetensors --steps 1000000 --quiet --checkpoint c "
                                    "--resume --checkpoint-every 3 --checkpoint-async on"));
    expect_failure(later,
                   "error: cannot write c/step-00000009.tmp/rank-00000.safetensors: File too large\nhelp: make room "
                   "there, or name a place on another disk");
    EXPECT_EQ(read_file(path("c/step-00000008/rank-00000.safetensors")), before);
}

TEST_F(DamagedCheckpointTest, AFullDiskLeavesTheLogAsItWas) {
    const std::string long_run = "--feed feed.safetensors --quiet --log run.jsonl --checkpoint c";
    expect_success(run("words_train", long_run + " --steps 20"));
    const std::string before = read_file(path("run.jsonl"));
    ASSERT_GT(before.size(), 1024U);
    // Files may have one block, which the log is longer than: no line can be added, and none of those there is lost.
    const Outcome outcome = shell(cat("ulimit -f 1; ", PROGRAMS, "/words_train ", long_run, " --steps 21 --resume"));
    expect_failure(outcome,
                   "error: cannot write run.jsonl: File too large\nhelp: make room there, or name a place on another "
                   "disk");
    EXPECT_EQ(read_file(path("run.jsonl")), before);
    // A line that does not fit leaves no half of itself.
    EXPECT_EQ(
        shell(cat("ulimit -f 1; ", PROGRAMS, "/words_train --feed feed.safetensors --quiet --log new.jsonl --steps 20"))
            .status,
        1);
    const std::string lines = read_file(path("new.jsonl"));
    ASSERT_FALSE(lines.empty());
    EXPECT_EQ(lines.back(), '\n');
    const std::string kept = without_times(lines);
    EXPECT_EQ(kept, without_times(before).substr(0, kept.size()));
}

// A run that trains nothing leaves no folder behind, and keeps what is in one.
TEST_F(DamagedCheckpointTest, AFolderThatWasMadeForNothingIsGone) {
    expect_success(run("words_train", "--feed feed.safetensors --steps 0 --quiet --checkpoint a/c"));
    EXPECT_FALSE(std::filesystem::exists(path("a")));
    EXPECT_EQ(run("words_train", "--feed none.safetensors --quiet --checkpoint a/c").status, 1);
    EXPECT_FALSE(std::filesystem::exists(path("a")));
    std::filesystem::create_directories(path("a/c"));
    expect_success(run("words_train", "--feed feed.safetensors --steps 0 --quiet --checkpoint a/c"));
    EXPECT_TRUE(std::filesystem::exists(path("a/c")));
}

}  // namespace checkpoint_test
}  // namespace thunder
