// SPDX-License-Identifier: Apache-2.0
// What thunderc says of where it writes to and of files that are none; and what it leaves behind where it is ended, was
// killed, or finds the disk full.
#include "tests/errors/errors.h"

namespace thunderc::tests {
namespace {

TEST_F(Errors, OfOutputFolders) {
    const std::string train = "train fixtures/mlp/dynamo.logits.onnx --loss cross-entropy -o ";
    fs::create_directory(folder_ / "used");
    write_file(folder_ / "used/notes.txt", "mine");
    expect_failure(train + "used",
                   "the folder used is in use: it holds files that thunderc did not write\nhelp: choose another folder "
                   "with -o, or write into this one with --force");
    expect_failure(train + "used/notes.txt", "used/notes.txt is a file\nhelp: choose a folder with -o");
    expect_failure(train + "used/notes.txt/out",
                   "cannot make the folder used/notes.txt/out: Not a directory\nhelp: choose another folder with -o");
    expect_failure(train + "none --diff",
                   "there is no folder none to compare with\nhelp: write it first, without --diff");
    fs::create_symlink("nowhere", folder_ / "dangling");
    expect_failure(train + "dangling", "dangling is a link to what does not exist\nhelp: choose a folder with -o");
    EXPECT_EQ(read_file(folder_ / "used/notes.txt"), "mine");
    // A file of that name is no sign that the folder is thunderc's.
    write_file(folder_ / "used/train.json", "{}");
    EXPECT_EQ(thunderc(train + "used").status, 1);
    EXPECT_EQ(read_file(folder_ / "used/train.json"), "{}");
    EXPECT_EQ(shell(folder_ / "used",
                    "'" THUNDERC "' train ../fixtures/mlp/dynamo.logits.onnx --loss cross-entropy --force -o .")
                  .err,
              "error: . is the folder that you are in\nhelp: choose another folder with -o\n");
    // With --force, too, what is not thunderc's stays.
    const Outcome forced = thunderc(train + "used --force --quiet");
    EXPECT_EQ(forced.status, 0);
    EXPECT_EQ(forced.err, "note: train.json was not as thunderc wrote it: it is kept as train.json.before\n");
    EXPECT_EQ(read_file(folder_ / "used/notes.txt"), "mine");
    EXPECT_EQ(read_file(folder_ / "used/train.json.before"), "{}");
}

TEST_F(Errors, OfFilesThatAreNone) {
    for (const char* device : {"/dev/zero", "/dev/null"})
        expect_failure(std::string("train ") + device + " -o out",
                       std::string(device) +
                           " is a device or a pipe, not a file\nhelp: write the model into a file, "
                           "and give its path");
    ASSERT_EQ(shell(folder_, "mkfifo pipe.onnx").status, 0);
    expect_failure("train pipe.onnx -o out",
                   "pipe.onnx is a device or a pipe, not a file\nhelp: write the model into a file, and give its path");
    expect_failure("train fixtures/mlp/dynamo.logits.onnx/x.onnx -o out",
                   "there is no file fixtures/mlp/dynamo.logits.onnx/x.onnx\nhelp: give the path of an exported model, "
                   "e.g. model.pt2 or model.onnx");
}

TEST_F(Errors, LeaveNothingWhereTheCommandIsEnded) {
    const std::vector<std::string> before = names();
    // As soon as it has begun to write; where the signal comes too late, the program is there, and whole. (A shell
    // without job control starts what runs in the background with SIGINT ignored.)
    for (const auto& [signal, status] : {std::pair<const char*, int>{"TERM", 143}, {"INT", 130}, {"HUP", 129}}) {
        const std::string run_it = std::string("env --default-signal '") + THUNDERC +
                                   "' train fixtures/llama5/dynamo.logits.onnx -o a/out & pid=$!; set -- a/out*; "
                                   "while ! [ -e \"$1\" ]; do set -- a/out*; done; kill -" +
                                   signal + " $pid; wait $pid";
        int ended = 0;
        for (int k = 0; k < 400 && ended < 2; ++k) {  // a busy machine may send it late many times
            const Outcome outcome = shell(folder_, run_it);
            if (outcome.status != 0) {
                EXPECT_EQ(outcome.status, status) << outcome.err;
                ++ended;
            }
            if (fs::exists(folder_ / "a/out")) {  // it was done already, or as good as done
                EXPECT_TRUE(fs::exists(folder_ / "a/out/model.cpp"));
                EXPECT_TRUE(fs::exists(folder_ / "a/out/.thunderc-manifest"));
                fs::remove_all(folder_ / "a/out");
                fs::remove(folder_ / "a");
            }
            EXPECT_EQ(names(), before) << "thunderc left files behind";
            fs::remove_all(folder_ / "a");
        }
        EXPECT_GT(ended, 0) << "no SIG" << signal << " came in time";
    }
}

// What one that was killed has left goes with the next; nothing else does, whatever it is called.
TEST_F(Errors, RemoveWhatAKilledThundercHasLeftAndNothingElse) {
    const std::string kill_it =
        "'" THUNDERC
        "' train fixtures/llama5/dynamo.logits.onnx -o out & pid=$!; set -- out; "
        "while ! [ -e \"$1\" ] && kill -0 $pid 2> /dev/null; do "
        "set -- out.thunderc-unfinished-*/.thunderc-unfinished; done; kill -KILL $pid; wait $pid";
    fs::path left;
    for (int k = 0; k < 400 && left.empty(); ++k) {  // a busy machine may send it late many times
        shell(folder_, kill_it);
        for (const auto& entry : fs::directory_iterator(folder_))
            if (fs::exists(entry.path() / ".thunderc-unfinished")) left = entry.path();
        fs::remove_all(folder_ / "out");
    }
    ASSERT_FALSE(left.empty());
    const std::string marker = read_file(left / ".thunderc-unfinished");
    auto copy = [&](const std::string& name, const std::string& text) {
        fs::copy(left, folder_ / name, fs::copy_options::recursive);
        if (!text.empty()) write_file(folder_ / name / ".thunderc-unfinished", text);
    };
    copy("out.thunderc-unfinished-locked", marker);
    copy("out.thunderc-unfinished-elsewhere", marker + "x");  // the last word is the machine
    copy("outs", marker);
    fs::create_directory(folder_ / "out.thunderc-unfinished-mine");
    write_file(folder_ / "out.thunderc-unfinished-mine/notes.txt", "mine");
    fs::create_directory_symlink(folder_ / "outs", folder_ / "out.thunderc-unfinished-link");
    std::vector<std::string> expected = names();
    std::erase(expected, left.filename().string());
    expected.insert(expected.begin() + (std::find(expected.begin(), expected.end(), "fixtures") - expected.begin()) + 1,
                    "out");
    const Outcome next = shell(folder_, "flock out.thunderc-unfinished-locked/.thunderc-unfinished '" THUNDERC
                                        "' train fixtures/mlp/dynamo.logits.onnx --loss cross-entropy -o out");
    EXPECT_EQ(next.status, 0) << next.err;
    EXPECT_EQ(names(), expected);
    EXPECT_TRUE(fs::exists(folder_ / "outs/.thunderc-unfinished"));
    EXPECT_FALSE(fs::exists(folder_ / "out/.thunderc-unfinished"));
    // The lock is gone.
    EXPECT_EQ(thunderc("train fixtures/mlp/dynamo.logits.onnx --loss cross-entropy -o out").status, 0);
    EXPECT_FALSE(fs::exists(folder_ / "out.thunderc-unfinished-locked"));
}

TEST_F(Errors, OfAFullDisk) {
    // A limit on the size of files (in blocks of 512 bytes) stands for a disk that is full: the write fails midway.
    const std::string write = "'" THUNDERC "' train fixtures/llama5/dynamo.logits.onnx -o out",
                      text_alone = "'" THUNDERC
                                   "' train fixtures/mlp/dynamo.logits.onnx --loss cross-entropy --no-weights -o out",
                      help = "\nhelp: make room on the disk, or choose another folder with -o\n";
    const std::vector<std::string> before = names();
    const Outcome text = shell(folder_, "ulimit -f 2; " + text_alone);
    EXPECT_EQ(text.status, 1);
    EXPECT_EQ(text.err, "error: cannot write CMakeLists.txt: File too large" + help);
    EXPECT_EQ(names(), before);
    // Numbers are written before text: they are what does not fit.
    const Outcome data = shell(folder_, "ulimit -f 2; " + write);
    EXPECT_EQ(data.status, 1);
    EXPECT_EQ(data.err, "error: cannot write weights.safetensors: File too large" + help);
    EXPECT_EQ(names(), before);
    // A program that was there before stays as it was.
    ASSERT_EQ(shell(folder_, write).status, 0);
    write_file(folder_ / "out/mark", "");
    EXPECT_EQ(shell(folder_, "ulimit -f 2; " + write).status, 1);
    EXPECT_TRUE(fs::exists(folder_ / "out/mark"));
    EXPECT_TRUE(fs::exists(folder_ / "out/model.cpp"));
}

}  // namespace
}  // namespace thunderc::tests
