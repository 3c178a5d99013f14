// SPDX-License-Identifier: Apache-2.0
// What a run shows: the live line on terminals of any width, lines elsewhere, event files for TensorBoard, the share of
// the peak.
#include <pty.h>

#include <map>

#include "program_test.h"
#include "watch/console.h"
#include "watch/tensorboard.h"

namespace thunder {
namespace watch_test {

// ---- a terminal ----------------------------------------------------------------------------------------------------

// What stands on a terminal that wide when all of this was written to it: its lines, the last one being that of the
// cursor. It knows what the runtime uses: new lines, going back to the left, and wiping to the right.
std::vector<std::string> screen(const std::string& written, std::size_t columns) {
    std::vector<std::string> lines(1);
    std::size_t at = 0;
    for (std::size_t k = 0; k < written.size(); ++k) {
        const char c = written[k];
        if (c == '\n') {
            lines.emplace_back();
        } else if (c == '\r') {
            at = 0;
        } else if (written.compare(k, 3, "\x1b[K") == 0) {
            lines.back().resize(std::min(at, lines.back().size()));
            k += 2;
        } else {
            EXPECT_GE(static_cast<unsigned char>(c), 0x20) << "a control character";
            if (at == columns) {
                lines.emplace_back();
                at = 0;
            }
            if (lines.back().size() <= at) lines.back().resize(at + 1, ' ');
            lines.back()[at++] = c;
        }
    }
    return lines;
}

TEST(LiveLine, DropsTheLeastImportantFieldsOfANarrowTerminal) {
    const std::vector<LiveField> fields = {{"step 5/9", 0}, {"loss 2.5", 1}, {"lr 1e-3", 5}, {"1:02 left", 2}};
    EXPECT_EQ(live_text(fields, 80), "step 5/9  loss 2.5  lr 1e-3  1:02 left");
    EXPECT_EQ(live_text(fields, 38), "step 5/9  loss 2.5  lr 1e-3  1:02 left");
    EXPECT_EQ(live_text(fields, 37), "step 5/9  loss 2.5  1:02 left");
    EXPECT_EQ(live_text(fields, 28), "step 5/9  loss 2.5");
    EXPECT_EQ(live_text(fields, 9), "step 5/9");
    EXPECT_EQ(live_text(fields, 4), "step");
}

class WatchTest : public ProgramTest {
  protected:
    WatchTest() {
        write_feed("feed.safetensors", 3, 4);
        write_feed("other.safetensors", 2, 4);
    }

    struct OnTerminal {
        int status;
        std::string written;
    };
    // Runs a program whose standard error is a terminal of that many columns.
    OnTerminal on_terminal(unsigned short columns, const std::string& arguments, const std::string& variables = "") {
        const std::string command =
            cat("cd '", path("."), "' && TERM=xterm ", variables, " exec " PROGRAMS "/words_train ", arguments);
        const winsize size{24, columns, 0, 0};
        int terminal = -1;
        const pid_t child = forkpty(&terminal, nullptr, nullptr, &size);
        if (child == 0) {
            execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
            _exit(127);
        }
        OnTerminal out{-1, ""};
        char buffer[4096];
        for (ssize_t n; (n = read(terminal, buffer, sizeof buffer)) > 0;)
            out.written.append(buffer, static_cast<std::size_t>(n));
        int raw = 0;
        waitpid(child, &raw, 0);
        close(terminal);
        out.status = WIFEXITED(raw) ? WEXITSTATUS(raw) : 128 + WTERMSIG(raw);
        return out;
    }
};

const std::string flags = "--feed feed.safetensors --steps 40 --lr 0.1 --seed 4";
const std::string evaluating = flags + " --eval-feed other.safetensors --eval-every 15";

// Lines of the run stay, each whole; of the live line there is one, the last.
TEST_F(WatchTest, OneLineIsWrittenOver) {
    const OnTerminal run = on_terminal(120, evaluating + " --checkpoint c --checkpoint-every 20");
    EXPECT_EQ(run.status, 0) << run.written;
    const std::vector<std::string> lines = screen(run.written, 120);
    std::vector<std::string> steps, evaluations, checkpoints;
    for (const std::string& line : lines) {
        if (line.starts_with("step ")) {
            steps.push_back(line);
            EXPECT_LT(line.size(), 120U) << line;  // what is wider would not be written over
        }
        if (line.find("eval loss") != std::string::npos) evaluations.push_back(line);
        if (line.starts_with("checkpoint ")) checkpoints.push_back(line);
    }
    ASSERT_EQ(steps.size(), 1U) << run.written;
    EXPECT_TRUE(steps[0].starts_with("step 39/40  loss ")) << steps[0];
    EXPECT_NE(steps[0].find("  eval "), std::string::npos) << steps[0];
    EXPECT_TRUE(steps[0].ends_with("  0:00 left")) << steps[0];
    ASSERT_EQ(evaluations.size(), 3U) << run.written;
    for (const std::string& line : evaluations) EXPECT_TRUE(line.starts_with("after ")) << line;
    EXPECT_EQ(checkpoints.size(), 2U) << run.written;
    EXPECT_EQ(lines.back(), "");  // the shell's prompt begins at the left
}

TEST_F(WatchTest, NarrowTerminalsAreNotOverrun) {
    for (const unsigned short columns : {20, 40, 60}) {
        const OnTerminal run = on_terminal(columns, flags);
        EXPECT_EQ(run.status, 0);
        std::size_t steps = 0;
        for (const std::string& line : screen(run.written, columns)) {
            if (!line.starts_with("step ")) continue;
            ++steps;
            EXPECT_LT(line.size(), columns);
            EXPECT_TRUE(line.starts_with("step 39/40")) << line;
        }
        EXPECT_EQ(steps, 1U) << run.written;
    }
}

TEST_F(WatchTest, WithoutATerminalThatCanThereAreLines) {
    const OnTerminal dumb = on_terminal(80, flags, "TERM=dumb");
    EXPECT_EQ(dumb.status, 0);
    EXPECT_EQ(dumb.written.find('\x1b'), std::string::npos) << dumb.written;
    for (const char* step : {"\nstep 0/40  ", "\nstep 10/40  ", "\nstep 30/40  ", "\nstep 39/40  "})
        EXPECT_NE(dumb.written.find(step), std::string::npos) << step;
    EXPECT_EQ(dumb.written.find("\nstep 1/40  "), std::string::npos);
    EXPECT_NE(dumb.written.find(" tokens/s"), std::string::npos);

    const OnTerminal quiet = on_terminal(80, evaluating + " --quiet");
    EXPECT_EQ(quiet.status, 0);
    EXPECT_EQ(quiet.written, "");
    // No color is ever used: nothing has to be switched off for who asks for none.
    EXPECT_EQ(on_terminal(80, flags, "NO_COLOR=1").written.find("\x1b[3"), std::string::npos);
    EXPECT_EQ(on_terminal(80, flags).written.find("\x1b[3"), std::string::npos);
}

// What ends the run stands on a line of its own.
TEST_F(WatchTest, ErrorsBeginAtTheLeft) {
    write_feed("bad.safetensors", 1, 4);
    const OnTerminal run = on_terminal(100, "--feed feed.safetensors --steps 400 --lr 1e30 --seed 4 --grad-clip 0");
    EXPECT_EQ(run.status, 1);
    bool told = false;
    for (const std::string& line : screen(run.written, 100)) told = told || line.starts_with("error: ");
    EXPECT_TRUE(told) << run.written;
}

// ---- the log -------------------------------------------------------------------------------------------------------

TEST_F(WatchTest, TheLogHasTheShareOfThePeakAndTheMemory) {
    expect_success(run("words_half_train", flags + " --quiet --grad-accum 2 --log a.jsonl"));
    for (const nlohmann::json& line : read_log("a.jsonl")) {
        EXPECT_FALSE(line.contains("mfu"));  // what a CPU can do is not known
        EXPECT_GT(line.at("memory").get<double>(), 1e6);
    }
    expect_success(run("words_half_train", flags + " --quiet --grad-accum 2 --peak-tflops 1e-3 --log b.jsonl"));
    for (const nlohmann::json& line : read_log("b.jsonl")) {
        // Two micro-batches of two rows; a product and two of its gradients.
        const double flops = 2 * 6.0 * 2 * T * D * V;
        const double expected = flops / (line.at("step_ms").get<double>() / 1e3) / 1e9;
        // The log has a thousandth of a millisecond.
        const double slack = expected * 0.0006 / line.at("step_ms").get<double>() + 1e-6 * expected;
        EXPECT_NEAR(line.at("mfu").get<double>(), expected, slack);
    }
}

// ---- event files ---------------------------------------------------------------------------------------------------

// RFC 3720, B.4, and the check value that catalogues of CRCs have.
TEST(TensorBoardFile, ChecksumsAreCastagnolis) {
    EXPECT_EQ(crc32c(std::string(32, '\0')), 0x8a9136aaU);
    EXPECT_EQ(crc32c(std::string(32, '\xff')), 0x62a8ab43U);
    EXPECT_EQ(crc32c("123456789"), 0xe3069283U);
    EXPECT_EQ(crc32c(""), 0U);
}

std::string bytes_of(const std::string& hexadecimal) {
    std::string out;
    for (std::size_t k = 0; k < hexadecimal.size(); k += 2)
        out += static_cast<char>(std::stoi(hexadecimal.substr(k, 2), nullptr, 16));
    return out;
}

// What tensorboard's RecordWriter (2.21) made of Event(wall_time=1234567890.25, step=300, summary=Summary(value=[
// Summary.Value(tag="train/loss", simple_value=2.5)])).
const std::string recorded_event = "09000090b48065d24110ac022a130a110a0a747261696e2f6c6f73731500002040";

TEST(TensorBoardFile, RecordsAreFramedAsTensorBoardsOwn) {
    EXPECT_EQ(tensorboard_record(bytes_of(recorded_event)),
              bytes_of("2100000000000000017becf6" + recorded_event + "6f325485"));
}

// The records of a file, whose checksums hold.
std::vector<std::string> records_of(const std::string& file) {
    std::vector<std::string> out;
    for (std::size_t at = 0; at < file.size();) {
        std::uint64_t length = 0;
        std::memcpy(&length, file.data() + at, sizeof length);
        out.push_back(file.substr(at + 12, length));
        EXPECT_EQ(file.substr(at, 12 + length + 4), tensorboard_record(out.back()));
        at += 12 + length + 4;
    }
    return out;
}

class TensorBoardRuns : public WatchTest {
  protected:
    std::vector<std::string> events() const {
        std::vector<std::string> out;
        for (const std::string& name : files())
            if (name.find("tfevents.") != std::string::npos)
                for (std::string& record : records_of(read_file(path(name)))) out.push_back(std::move(record));
        return out;
    }
};

// But for its time, an event is that of TensorBoard's own: what stands behind the time's eight bytes.
TEST_F(TensorBoardRuns, EventsHaveTheNumbersOfTheLog) {
    expect_success(
        run("words_train", flags + " --quiet --log a.jsonl --tensorboard runs/a --eval-feed other.safetensors"));
    const std::vector<std::string> written = events();
    ASSERT_EQ(written.size(), 2U + 40 + 1);
    EXPECT_EQ(written[0].substr(9), std::string("\x10\0\x1a\x0d"
                                                "brain.Event:2",
                                                17));
    EXPECT_EQ(written[1].substr(9), std::string("\x10\0\x3a\x02\x08\x01", 6));  // it begins with step 0
    const std::vector<nlohmann::json> log = read_log("a.jsonl");
    for (std::size_t k = 0; k < 40; ++k) {
        const std::string tagged = "\x0a\x0atrain/loss\x15";
        EXPECT_EQ(written[2 + k].substr(9, 2), (std::string{'\x10', static_cast<char>(k)}));
        const std::size_t at = written[2 + k].find(tagged);
        ASSERT_NE(at, std::string::npos) << k;
        float loss = 0;
        std::memcpy(&loss, written[2 + k].data() + at + tagged.size(), sizeof loss);
        // Rounded to a float there, to nine digits here: within a float of each other.
        EXPECT_FLOAT_EQ(loss, static_cast<float>(log[k].at("loss").get<double>())) << k;
        for (const char* tag : {"train/learning_rate", "train/grad_norm", "train/tokens_per_second"})
            EXPECT_NE(written[2 + k].find(tag), std::string::npos) << tag;
    }
    EXPECT_NE(written.back().find("eval/loss"), std::string::npos);
}

// Where a run goes on, what it did behind its last checkpoint before is taken back.
TEST_F(TensorBoardRuns, GoOnWhereTheRunDoes) {
    const std::string all = " --quiet --tensorboard runs --checkpoint c --checkpoint-every 5";
    expect_success(run("words_train", "--feed feed.safetensors --lr 0.1 --seed 4 --steps 10" + all));
    expect_success(run("words_train", "--feed feed.safetensors --lr 0.1 --seed 4 --steps 20 --resume" + all));
    std::vector<int> begins;
    for (const std::string& event : events())
        if (event.ends_with("\x3a\x02\x08\x01")) begins.push_back(event[10]);
    EXPECT_EQ(begins, (std::vector<int>{0, 10}));
}

TEST_F(TensorBoardRuns, AreRefusedWhereNothingCanBeWritten) {
    write_file(path("file"), "");
    const Outcome into_file = run("words_train", flags + " --quiet --tensorboard file");
    EXPECT_EQ(into_file.status, 1);
    EXPECT_TRUE(into_file.err.starts_with("error: cannot ")) << into_file.err;
}

}  // namespace watch_test
}  // namespace thunder
