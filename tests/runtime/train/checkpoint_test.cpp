// SPDX-License-Identifier: Apache-2.0
// Checkpoints: a run that goes on is the run that was never interrupted, bit for bit; what does not belong is refused.
#include "checkpoint_test.h"

#include <cmath>

#include "checkpoint/folder.h"
#include "data/token_file.h"
#include "support/file.h"

namespace thunder {
namespace checkpoint_test {

TEST_F(CheckpointTest, AResumedRunIsTheUninterruptedOne) {
    const std::string averaged = flags + " --ema 0.75";
    expect_success(run("words_train",
                       averaged + " --log whole.jsonl --save whole.safetensors --save-ema whole_average.safetensors"));
    expect_success(run("words_train", averaged + " --log run.jsonl --checkpoint c --checkpoint-every 3"));
    EXPECT_EQ(std::filesystem::exists(path("c/step-00000003")), true);
    const std::string last = read_file(path("c/step-00000008/rank-00000.safetensors"));
    // As if the machine had gone down in step 7, after the log's line of step 6 and half of the next.
    std::filesystem::remove_all(path("c/step-00000008"));
    const std::string log = read_file(path("run.jsonl"));
    const std::size_t seven = log.find("{\"step\":7");
    write_file(path("run.jsonl"), log.substr(0, seven + 20));
    expect_success(run("words_train",
                       averaged +
                           " --log run.jsonl --checkpoint c --checkpoint-every 3 --resume --save resumed.safetensors "
                           "--save-ema resumed_average.safetensors"));
    EXPECT_EQ(read_file(path("resumed.safetensors")), read_file(path("whole.safetensors")));
    EXPECT_EQ(read_file(path("resumed_average.safetensors")), read_file(path("whole_average.safetensors")));
    EXPECT_EQ(read_file(path("c/step-00000008/rank-00000.safetensors")), last);
    EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("whole.jsonl"))));
}

TEST_F(CheckpointTest, TheOrderOfTheDataGoesOn) {
    TokenFileWriter writer(path("corpus.bin"), V);
    for (std::uint32_t i = 0; i < 500; ++i) writer.append(std::vector<std::uint32_t>{i * i % 11});
    writer.commit();
    const std::string data =
        "--data corpus.bin --steps 30 --lr 0.1 --quiet";  // 83 windows, 120 rows: into the second epoch
    expect_success(run("words_train", data + " --seed 4 --log whole.jsonl"));
    expect_success(run("words_train", data + " --seed 4 --log run.jsonl --checkpoint c --checkpoint-every 10"));
    for (const char* name : {"c/step-00000020", "c/step-00000030"}) std::filesystem::remove_all(path(name));
    // The seed is the checkpoint's: it is not named again.
    expect_success(run("words_train", data + " --log run.jsonl --checkpoint c --resume"));
    EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("whole.jsonl"))));
    // Another batch on each rank, the same steps: a checkpoint belongs to the parameters, not to how rows are cut.
    std::filesystem::remove_all(path("c/step-00000030"));
    expect_success(run("words_half_train", data + " --grad-accum 2 --log run.jsonl --checkpoint c --resume"));
    EXPECT_EQ(without_times(read_file(path("run.jsonl"))), without_times(read_file(path("whole.jsonl"))));
}

TEST_F(CheckpointTest, KeepsTheNewest) {
    expect_success(run("words_train", flags + " --checkpoint c --checkpoint-every 2 --keep 2"));
    EXPECT_EQ(files(),
              (std::vector<std::string>{"c/step-00000006/manifest.json", "c/step-00000006/rank-00000.safetensors",
                                        "c/step-00000008/manifest.json", "c/step-00000008/rank-00000.safetensors",
                                        "constants.safetensors", "feed.safetensors"}));
}

TEST_F(CheckpointTest, KeepsThoseThatAreAskedFor) {
    expect_success(run("words_train", flags + " --checkpoint c --checkpoint-every 1 --keep 1 --keep-every 3"));
    EXPECT_EQ(files(),
              (std::vector<std::string>{"c/step-00000003/manifest.json", "c/step-00000003/rank-00000.safetensors",
                                        "c/step-00000006/manifest.json", "c/step-00000006/rank-00000.safetensors",
                                        "c/step-00000008/manifest.json", "c/step-00000008/rank-00000.safetensors",
                                        "constants.safetensors", "feed.safetensors"}));
}

TEST_F(CheckpointTest, SaysWhenNothingIsLeftToDo) {
    expect_success(run("words_train", flags + " --checkpoint c --save a.safetensors"));
    const Outcome again = run(
        "words_train", "--feed feed.safetensors --steps 8 --checkpoint c --resume --save b.safetensors --threads 1");
    EXPECT_EQ(again.status, 0);
    EXPECT_NE(again.err.find("goes on from c/step-00000008\n"), std::string::npos) << again.err;
    EXPECT_NE(again.err.find("8 steps are done, --steps is 8: nothing to train\n"), std::string::npos) << again.err;
    EXPECT_EQ(read_file(path("a.safetensors")), read_file(path("b.safetensors")));
}

TEST_F(CheckpointTest, SaysWhereProductsWereOfAnotherType) {
    const std::string loud = "--feed feed.safetensors --steps 9 --lr 0.1 --warmup 3 --checkpoint c --resume";
    expect_success(run("words_train", flags + " --checkpoint c"));
    const std::string checkpoint = path("c/step-00000008");
    const auto resume = [&] {
        const Outcome outcome = run("words_train", loud);
        std::filesystem::remove_all(path("c/step-00000009"));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        return outcome.err;
    };
    EXPECT_EQ(resume().find("products of"), std::string::npos);
    rewrite(checkpoint, "\"compute\":\"f32\"", "\"compute\":\"f16\"");
    const std::string said = resume();
    EXPECT_NE(
        said.find("note: the checkpoint is of a program with products of f16, this one's are of f32: the steps to "
                  "come are not those that it would have done\n"),
        std::string::npos)
        << said;
    // One that does not tell, as older programs wrote them.
    rewrite(checkpoint, "\"compute\"", "\"compote\"");
    EXPECT_EQ(resume().find("products of"), std::string::npos);
}

TEST_F(CheckpointTest, SaysWhereTheScheduleIsAnotherOne) {
    const std::string run_of = "--feed feed.safetensors --lr 0.1 --checkpoint c --checkpoint-every 4 --steps ";
    expect_success(run("words_train", run_of + "20 --quiet"));
    for (const char* step : {"08", "12", "16", "20"}) std::filesystem::remove_all(path(cat("c/step-000000", step)));
    // Each run goes on from step 4: what it writes is removed again.
    const auto note = [&](const std::string& more, const std::string& steps) {
        const Outcome outcome = run("words_train", cat(run_of, steps, " --resume ", more));
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        for (const std::string& checkpoint : checkpoints_in(path("c")))
            if (!checkpoint.ends_with("04")) std::filesystem::remove_all(checkpoint);
        const std::size_t begin = outcome.err.find("note: ");
        return begin == std::string::npos ? "" : outcome.err.substr(begin, outcome.err.find('\n', begin) - begin);
    };
    EXPECT_EQ(note("", "40"),
              "note: the checkpoint was made with --steps 20 --warmup 2; with --steps 40 --warmup 4 the schedule of "
              "the learning rate changes");
    EXPECT_EQ(note("--warmup 2 --schedule wsd", "8"),
              "note: the checkpoint was made with --steps 20 --warmup 2; with --steps 8 --warmup 2 the schedule of "
              "the learning rate changes");
    EXPECT_EQ(note("--warmup 9 --schedule constant", "20"),
              "note: the checkpoint was made with --steps 20 --warmup 2; with --steps 20 --warmup 9 the schedule of "
              "the learning rate changes");
    EXPECT_EQ(note("", "20"), "");
    // warm in both, but one has gone down by then
    EXPECT_EQ(note("--schedule constant", "40"),
              "note: the checkpoint was made with --schedule cosine (now constant): the steps to come are not those "
              "that it would have done");
    EXPECT_EQ(note("", "4"), "");  // nothing to train
    EXPECT_EQ(note("--quiet", "40"), "");
}

TEST_F(CheckpointTest, ASignalEndsTheRunAfterItsStep) {
    // Waits until steps are done, then sends the signal; the run has no end of its own.
    const std::string command = cat(PROGRAMS,
                                    "/words_train --feed feed.safetensors --steps 1000000000 --schedule constant "
                                    "--warmup 0 --log run.jsonl --checkpoint c --quiet & pid=$!; "
                                    "while ! grep -q '\"step\":5,' run.jsonl 2>/dev/null; do sleep 0.01; done; kill -");
    for (const auto& [name, status] : {std::pair<const char*, int>{"TERM", 143}, {"INT", 130}}) {
        const Outcome outcome = shell(cat(command, name, " $pid; wait $pid"));
        EXPECT_EQ(outcome.status, status) << outcome.err;
        EXPECT_EQ(outcome.err, "");
        const auto log = read_log("run.jsonl");
        const std::string last = step_in("c", static_cast<int>(log.size()));  // every step in the log is in it
        EXPECT_TRUE(std::filesystem::exists(path(last))) << last;
        std::filesystem::remove_all(path("c"));
        std::filesystem::remove(path("run.jsonl"));
    }
}

TEST_F(CheckpointTest, RefusesWhatDoesNotBelong) {
    expect_success(run("words_train", flags + " --checkpoint c"));
    const std::string resume = "--feed feed.safetensors --steps 9 --quiet --checkpoint c --resume",
                      file = "c/step-00000008";
    const std::string help = "\nhelp: go on with the program that wrote it, or start from its parameters with --init";
    restore(file, "whole");

    expect_failure(run("words_train", resume + " --seed 5"),
                   cat("error: ", file, " was begun with --seed 4, not 5\nhelp: leave --seed away"));
    expect_failure(run("words_train", flags + " --checkpoint c"),
                   cat("error: c holds checkpoints of another run, up to ", file,
                       "\nhelp: go on from them with --resume, or name another folder"));
    expect_failure(
        run("words_train", flags + " --checkpoint none --resume"),
        "error: there is no checkpoint in none to go on from\nhelp: the first run of a job starts without --resume");

    write_tensors(
        path("line.safetensors"),
        {floats("x_0", {2, 3}, std::vector<float>(6)), tensor<std::uint8_t>("use_0", DType::boolean, {2}, {1, 1}),
         longs("kind_0", {2}, {0, 0}), floats("offset_0", {3}, {0, 0, 0}), floats("target_0", {2}, {1, 1})});
    expect_failure(
        run("line_train", "--feed line.safetensors --quiet --checkpoint c --resume"),
        cat("error: ", file,
            " is a checkpoint of another program (words): its optimizer is adamw, this program's is sgd", help));

    // The same model with one parameter of another shape, name or number, as another export would have it.
    const auto changed = [&](const std::string& from, const std::string& to) {
        restore("whole", file);
        rewrite(path(file), from, to);
        Manifest manifest = read_manifest(path(file));
        char& digit = manifest.metadata["identity"][0];
        digit = digit == '0' ? '1' : '0';
        seal(path(file), manifest);
        return run("words_train", resume);
    };
    expect_failure(changed("\"model.head.weight\":{\"dtype\":\"F32\",\"shape\":[11,8]",
                           "\"model.head.weight\":{\"dtype\":\"F32\",\"shape\":[8,11]"),
                   cat("error: ", file,
                       " is a checkpoint of another program (words): its model.head.weight is F32 [8, 11], this "
                       "program's is F32 [11, 8]",
                       help));
    expect_failure(changed("model.head.weight", "model.tail.weight"),
                   cat("error: ", file,
                       " is a checkpoint of another program (words): it has no parameter model.head.weight", help));
    expect_failure(
        changed("optimizer.v.model.head.bias\":{\"dtype\":\"F32\"", "optimizer.v.model.head.bias\":{\"dtype\":\"I32\""),
        cat("error: ", file,
            " is a checkpoint of another program (words): its optimizer's states are I32, this program's are "
            "F32",
            help));
    expect_failure(
        changed("\"seed\"", "\"seed\""),
        cat("error: ", file,
            " is a checkpoint of another program (words): the same parameters are not all trained in both", help));

    const auto same_program = [&](const std::string& from, const std::string& to) {
        restore("whole", file);
        rewrite(path(file), from, to);
        return run("words_train", resume);
    };
    expect_failure(
        same_program("\"version\":\"2\"", "\"version\":\"3\""),
        cat("error: ", file, " has version 3 of the checkpoint format, and this program reads version 2", help));
    expect_failure(
        same_program("optimizer.v.model.head.bias", "optimizer.w.model.head.bias"),
        cat("error: ", file, ": the checkpoint lacks optimizer.v.model.head.bias [11]\nhelp: the file is damaged"));
    expect_failure(same_program("optimizer.v.model.head.bias\":{\"dtype\":\"F32\"",
                                "optimizer.v.model.head.bias\":{\"dtype\":\"I32\""),
                   cat("error: ", file,
                       ": the checkpoint says that it is of this program, and its optimizer.v.model.head.bias is I32 "
                       "[11], not F32 [11]\nhelp: the file is damaged"));
    expect_failure(same_program("\"step\":\"8\"", "\"step\":\"x\""),
                   cat("error: ", file, ": the checkpoint does not say its step\nhelp: the file is damaged"));

    std::filesystem::remove_all(path(file));
    expect_success(run("words_train", flags + " --save c/step-00000008.safetensors"));
    expect_failure(run("words_train", resume),
                   cat("warning: ", file, ".safetensors was written without a checksum: whether its bytes are as they ",
                       "were is not known\nerror: ", file,
                       ".safetensors is not a checkpoint of a training run\nhelp: weights alone are read with --init"));
}

// The run that wrote it had diverged: it is not the learning rate of this one.
TEST_F(CheckpointTest, NamesTheTensorWhoseNumberIsNone) {
    expect_success(run("words_train", flags + " --checkpoint c"));
    const std::string file = file_of_step("c", 8), whole = read_file(path(file));
    std::uint64_t header = 0;
    std::memcpy(&header, whole.data(), 8);
    const float bad[] = {std::nanf(""), -HUGE_VALF};
    for (const float number : bad) {
        for (const std::string name : {"model.head.bias", "optimizer.v.model.embed.weight"}) {
            const std::size_t of_name = whole.find(cat("\"", name, "\":{"));
            const std::string before = "\"data_offsets\":[";
            const std::size_t data = std::stoul(whole.substr(whole.find(before, of_name) + before.size()));
            std::string text = whole;
            std::memcpy(text.data() + 8 + header + data + 7 * sizeof number, &number, sizeof number);
            write_file(path(file), text);
            seal(path(step_in("c", 8)));
            expect_failure(run("words_train", "--feed feed.safetensors --steps 9 --quiet --checkpoint c --resume"),
                           cat("error: ", file, ": element 7 of ", name,
                               " is infinite or no number\nhelp: the run that wrote the file had diverged, or the file "
                               "is damaged: take an earlier one"));
        }
    }
}

// What earlier programs wrote: one file, whose metadata is what a manifest's is. Where it has no checksum, as files
// that were edited by hand, the run says that nobody knows whether it is whole.
TEST_F(CheckpointTest, GoesOnFromOneOfOneFile) {
    expect_success(
        run("words_train", flags + " --ema 0.5 --checkpoint c --checkpoint-every 5 --save whole.safetensors"));
    std::filesystem::remove_all(path(step_in("c", 8)));
    const std::string five = step_in("c", 5);
    for (const bool has_checksum : {true, false}) {
        const Manifest manifest = read_manifest(path(five));
        std::vector<std::pair<std::string, std::string>> metadata(manifest.metadata.begin(), manifest.metadata.end());
        for (auto& [key, value] : metadata)
            if (key == "version") value = "1";
        if (has_checksum) metadata.emplace_back(checksum_key, "");
        const SafetensorsFile file(path(file_of_step("c", 5)));
        std::filesystem::create_directory(path(cat("old", static_cast<int>(has_checksum))));
        std::vector<TensorToWrite> tensors;
        for (const StoredTensor& t : file.tensors()) tensors.push_back({t.name, DType::f32, t.shape});
        SafetensorsWriter writer(path(cat("old", static_cast<int>(has_checksum), "/step-00000005.safetensors")),
                                 tensors, metadata);
        for (const StoredTensor& t : file.tensors()) writer.append(t.bytes.data(), t.bytes.size());
        writer.commit();
        const Outcome outcome =
            run("words_train", cat(flags, " --ema 0.5 --checkpoint old", static_cast<int>(has_checksum),
                                   " --resume --save resumed.safetensors"));
        EXPECT_EQ(outcome.status, 0);
        EXPECT_EQ(outcome.err, has_checksum ? ""
                                            : "warning: old0/step-00000005.safetensors was written without a checksum: "
                                              "whether its bytes are as they were is not known\n");
        EXPECT_EQ(read_file(path("resumed.safetensors")), read_file(path("whole.safetensors")));
    }
}

// --init takes the parameters of a checkpoint, as errors say that it does.
TEST_F(CheckpointTest, ParametersOfOneAreReadWithInit) {
    expect_success(run("words_train", flags + " --checkpoint c --save a.safetensors"));
    const Outcome outcome = run("words_train",
                                "--feed feed.safetensors --init c/step-00000008 --steps 0 --save "
                                "b.safetensors --threads 1");
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_NE(outcome.err.find("parameters from c/step-00000008\n"), std::string::npos) << outcome.err;
    EXPECT_EQ(outcome.err.find("not used"), std::string::npos) << outcome.err;
    EXPECT_EQ(read_file(path("a.safetensors")), read_file(path("b.safetensors")));
}

// A program with products of bf16 holds frozen parameters in it; one with products of f32 goes on from what it wrote.
TEST_F(CheckpointTest, SaysThatFrozenParametersWereRounded) {
    const std::string last = file_of_step("c", 8), note = "1 frozen parameter comes from there in bf16";
    expect_success(run("words_train", flags + " --checkpoint c"));
    const std::string further = "--feed feed.safetensors --steps 9 --checkpoint c --resume";
    EXPECT_EQ(run("words_train", further).err.find(note), std::string::npos);
    std::filesystem::remove_all(path(step_in("c", 9)));
    Manifest manifest = read_manifest(path(step_in("c", 8)));
    {
        const SafetensorsFile file(path(last));
        std::vector<TensorToWrite> tensors;
        for (const StoredTensor& t : file.tensors())
            tensors.push_back({t.name, t.name == "model.frozen.weight" ? DType::bf16 : DType::f32, t.shape});
        for (Manifest::Tensor& t : manifest.tensors)
            if (t.name == "model.frozen.weight") t.dtype = "BF16";
        const std::vector<std::pair<std::string, std::string>> metadata(file.metadata().begin(), file.metadata().end());
        SafetensorsWriter writer(path("bf16.safetensors"), tensors, metadata);
        for (const TensorToWrite& t : tensors) {
            std::vector<std::byte> values(file.find(t.name)->elements() * size_of(t.dtype));
            read_elements(*file.find(t.name), t.dtype, 0, file.find(t.name)->elements(), values.data());
            writer.append(values.data(), values.size());
        }
        writer.commit();
    }
    std::filesystem::rename(path("bf16.safetensors"), path(last));
    seal(path(step_in("c", 8)), manifest);
    const Outcome told = run("words_train", further);
    EXPECT_EQ(told.status, 0) << told.err;
    EXPECT_NE(told.err.find("\nnote: " + note +
                            ", as the program that wrote it holds them: what they were before is in the file that the "
                            "run began with alone, from which a new run has them by --init\n"),
              std::string::npos)
        << told.err;
}

TEST_F(CheckpointTest, AFolderIsNoCheckpoint) {
    std::filesystem::create_directories(path("c/step-00000099.safetensors"));
    expect_failure(run("words_train", flags + " --checkpoint c --resume"),
                   "error: there is no checkpoint in c to go on from\nhelp: the first run of a job starts without "
                   "--resume");
    expect_success(run("words_train", flags + " --checkpoint c"));
    expect_success(run("words_train", flags + " --checkpoint c --resume"));
}

TEST_F(CheckpointTest, AFolderIsOneRuns) {
    std::filesystem::create_directories(path("c"));
    {
        const FolderLock other(path("c"));
        expect_failure(
            run("words_train", flags + " --checkpoint c"),
            "error: another run is writing into the folder c\nhelp: let that run end, or name another folder");
        EXPECT_EQ(files(), (std::vector<std::string>{"c/.lock", "constants.safetensors", "feed.safetensors"}));
    }
    EXPECT_EQ(files(), (std::vector<std::string>{"constants.safetensors", "feed.safetensors"}));
    expect_success(run("words_train", flags + " --checkpoint c"));
}

// Two runs begin in a folder that is not there: the second learns of it before it has trained.
TEST_F(CheckpointTest, ANewFolderIsOneRunsFromTheStart) {
    const std::string another =
        "error: another run is writing into the folder a/c\n"
        "help: let that run end, or name another folder";
    {
        const FolderLock other(path("a/c"));
        expect_failure(run("words_train", flags + " --checkpoint a/c"), another);
    }
    EXPECT_FALSE(std::filesystem::exists(path("a")));  // nothing was written
    // The first step that is logged is behind the lock; a checkpoint is far.
    const Outcome outcome = shell(
        PROGRAMS
        "/words_train --feed feed.safetensors --steps 1000000000 --quiet --checkpoint a/c --log first.jsonl & "
        "first=$!; i=0; while [ ! -s first.jsonl ] && [ $i -lt 1200 ]; do sleep 0.05; i=$((i + 1)); done; " PROGRAMS
        "/words_train " +
        flags + " --checkpoint a/c; status=$?; kill -KILL $first; wait $first 2>/dev/null; (exit $status)");
    expect_failure(outcome, another);
    // What that one left behind is in nobody's way.
    expect_success(run("words_train", flags + " --checkpoint a/c"));
}

TEST_F(CheckpointTest, SaysThatBatchesComeFromElsewhere) {
    TokenFileWriter writer(path("corpus.bin"), V);
    for (std::uint32_t i = 0; i < 500; ++i) writer.append(std::vector<std::uint32_t>{i * i % 11});
    writer.commit();
    expect_success(run("words_train", flags + " --checkpoint c"));
    const std::string more = " --steps 9 --checkpoint c --resume";
    const std::string note = "note: the checkpoint's batches came from --feed, these come from --data, from row ";
    const Outcome other = run("words_train", "--data corpus.bin" + more);
    EXPECT_EQ(other.status, 0) << other.err;
    EXPECT_NE((other.out + other.err).find(note), std::string::npos) << other.out << other.err;
    const Outcome same = run("words_train", "--data corpus.bin --steps 10 --checkpoint c --resume");
    EXPECT_EQ((same.out + same.err).find("batches came from"), std::string::npos) << same.out << same.err;
    // A feed has batches of a step each: which row was the last is of no matter to it.
    const Outcome back = run("words_train", "--feed feed.safetensors --steps 11 --checkpoint c --resume");
    EXPECT_NE(
        back.err.find("note: the checkpoint's batches came from --data, these come from --feed, from step 10 on\n"),
        std::string::npos)
        << back.err;
}

TEST_F(CheckpointTest, SaysWhatTheStepsBeforeWereMadeBy) {
    expect_success(run("words_train", flags + " --checkpoint c"));
    const auto note = [&](const std::string& program, const std::string& options) {
        const Outcome outcome = run(program, options + " --steps 9 --warmup 3 --checkpoint c --resume");
        EXPECT_EQ(outcome.status, 0) << outcome.err;
        std::filesystem::remove_all(path("c/step-00000009"));
        const std::size_t end = outcome.err.find(": the steps to come are not those"),
                          begin = outcome.err.rfind("note: ", end);
        return end == std::string::npos ? "" : outcome.err.substr(begin, outcome.err.find('\n', end) - begin);
    };
    const std::string same = "--feed feed.safetensors --lr 0.1";
    EXPECT_EQ(note("words_train", same), "");
    EXPECT_EQ(note("words_half_train", same + " --grad-accum 2"), "");  // the same rows a step
    const std::string end = ": the steps to come are not those that it would have done";
    EXPECT_EQ(
        note("words_train", "--feed feed.safetensors --lr 0.2 --grad-clip 0 --decay all"),
        "note: the checkpoint was made with --decay matrices (now all), --grad-clip 1 (now 0), --lr 0.1 (now 0.2)" +
            end);
    write_feed("other.safetensors", 4, 4);
    EXPECT_EQ(note("words_train", "--feed other.safetensors --lr 0.1"),
              "note: the checkpoint was made with another --feed" + end);
    // One that was written before checkpoints had that.
    rewrite(path("c/step-00000008"), "\"made_by.", "\"nothing.");
    EXPECT_EQ(note("words_train", "--feed other.safetensors --lr 0.2"), "");
}

// In the background or not, the checkpoints are the same, and so are the steps; the copy is in the memory that is told.
TEST_F(CheckpointTest, InTheBackgroundItIsTheSame) {
    const std::string often = flags + " --ema 0.5 --checkpoint-every 1 ";
    expect_success(run("words_train", often + "--checkpoint off --checkpoint-async off --log off.jsonl"));
    expect_success(run("words_train", often + "--checkpoint on --checkpoint-async on --log on.jsonl"));
    for (int step = 1; step <= 8; ++step)
        for (const std::string& name : {file_of_step("", step), step_in("", step) + "/manifest.json"})
            EXPECT_EQ(read_file(path("on" + name)), read_file(path("off" + name))) << name;
    EXPECT_EQ(without_times(read_file(path("on.jsonl"))), without_times(read_file(path("off.jsonl"))));
    const std::string loud = "--feed feed.safetensors --steps 1 --checkpoint-every 1 --threads 1 ";
    const std::string copies = "copies for checkpoints ";
    EXPECT_NE(run("words_train", loud + "--checkpoint a").err.find(copies), std::string::npos);
    EXPECT_EQ(run("words_train", loud + "--checkpoint b --checkpoint-async off").err.find(copies), std::string::npos);
    // Where there is no room for it, a run says that its steps wait; it is refused where it was asked for.
    const auto with_memory = [&](const std::string& more) {
        return shell(cat("THUNDER_MEMORY=8000 ", PROGRAMS, "/words_train ", loud, more));
    };
    const Outcome little = with_memory("--checkpoint d");
    EXPECT_EQ(little.status, 0) << little.err;
    EXPECT_NE(little.err.find("note: steps wait while checkpoints are written: a copy of what they hold, "),
              std::string::npos)
        << little.err;
    EXPECT_EQ(little.err.find(copies), std::string::npos) << little.err;
}

}  // namespace checkpoint_test
}  // namespace thunder
