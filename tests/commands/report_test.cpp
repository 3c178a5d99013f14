// SPDX-License-Identifier: Apache-2.0
// thunderc report: what stands in the page, against the lines that it was made of. How it looks and answers to keys is
// tests/commands/report_browser.sh's.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/commands/commands_test.h"

namespace thunderc {
namespace report_test {

using namespace commands;

class ReportPage : public Commands {
  protected:
    static std::string report(const std::string& arguments) {
        const Ran ran = run("report " + arguments + " -o page.html");
        EXPECT_EQ(ran.status, 0) << ran.err;
        return contents("page.html");
    }
    // What the page's script draws.
    static nlohmann::json data_of(const std::string& page) {
        const std::string begin = "<script type=\"application/json\" id=\"data\">";
        const std::size_t at = page.find(begin);
        if (at == std::string::npos) {
            ADD_FAILURE() << "the page has no data";
            return {};
        }
        const std::size_t from = at + begin.size();
        return nlohmann::json::parse(page.substr(from, page.find("</script>", from) - from));
    }
    static std::string step(int number, const std::string& loss, double tokens_per_second = 1000) {
        return fmt::format(
            "{{\"step\":{},\"loss\":{},\"grad_norm\":1.5,\"lr\":0.001,\"tokens\":64,\"step_ms\":{},"
            "\"tokens_per_second\":{}}}\n",
            number, loss, 64e3 / tokens_per_second, tokens_per_second);
    }
    static std::size_t count(const std::string& text, const std::string& what) {
        std::size_t n = 0;
        for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++n;
        return n;
    }
};

TEST_F(ReportPage, HasTheNumbersOfARun) {
    write("run.jsonl", step(0, "5.5") + step(1, "5.25", 500) +
                           "{\"step\":2,\"eval_loss\":5.3,\"eval_batches\":10,\"eval_ms\":1000}\n" + step(2, "5") +
                           "{\"step\":3,\"eval_loss\":5.125,\"eval_batches\":10,\"eval_ms\":1000}\n");
    const std::string page = report("run.jsonl");
    const nlohmann::json run = data_of(page).at("runs").at(0);
    EXPECT_EQ(run.at("name"), "run");
    EXPECT_EQ(run.at("steps").at("first"), (std::vector<int>{0, 1, 2}));
    EXPECT_EQ(run.at("steps").at("loss").at("mean"), (std::vector<double>{5.5, 5.25, 5}));
    EXPECT_FALSE(run.at("steps").at("loss").contains("least"));  // of a single line it is the number itself
    EXPECT_EQ(run.at("steps").at("tokens"), (std::vector<double>{64, 128, 192}));
    // A step of 64 ms, one of 128, an evaluation of a second, a step.
    EXPECT_EQ(run.at("steps").at("seconds"), (std::vector<double>{0.064, 0.192, 1.256}));
    EXPECT_EQ(run.at("evaluations").at("eval_loss").at("mean"), (std::vector<double>{5.3, 5.125}));
    // The table can be read without the script. 192 tokens in 256 ms.
    EXPECT_NE(page.find("<td>3</td><td>5</td><td>5.125 <small>after step 3</small></td><td>750</td><td>–</td>"
                        "<td>192</td>"),
              std::string::npos)
        << page;
}

TEST_F(ReportPage, LoadsNothing) {
    write("run.jsonl", step(0, "5.5"));
    std::string page = report("run.jsonl");
    EXPECT_EQ(count(page, "http"), 1U) << "the name of the SVG namespace alone";
    EXPECT_EQ(count(page, "http://www.w3.org/2000/svg"), 1U);
    for (const char* loads : {" src=", "@import", "fetch(", "XMLHttpRequest", "<link rel=\"stylesheet\""})
        EXPECT_EQ(count(page, loads), 0U) << loads;
    EXPECT_EQ(count(page, "url("), count(page, "url(#"));
    EXPECT_EQ(count(page, "<!--@"), 0U);
}

TEST_F(ReportPage, IsTheSameForTheSameInput) {
    write("a.jsonl", step(0, "5.5") + step(1, "5.25"));
    write("b.jsonl", step(0, "5.5") + step(1, "null"));
    const std::string once = report("a.jsonl b.jsonl");
    EXPECT_EQ(once, report("a.jsonl b.jsonl"));
    EXPECT_NE(once, report("b.jsonl a.jsonl"));
}

// However long a run is, a point is the mean of its lines, with the least and the most of them, and every line is in
// one point.
TEST_F(ReportPage, MakesLongRunsSmall) {
    constexpr int lines = 20'001;
    const auto loss = [](int k) { return 2 + std::sin(k * 0.37) + 1.0 / (1 + k % 97); };
    std::string text;
    for (int k = 0; k < lines; ++k) text += k == 7777 ? step(k, "null") : step(k, fmt::format("{:.17g}", loss(k)));
    write("run.jsonl", text);
    const std::string page = report("run.jsonl");
    EXPECT_LT(page.size(), 600'000U);
    const nlohmann::json steps = data_of(page).at("runs").at(0).at("steps");
    EXPECT_EQ(steps.at("lines"), lines);
    const std::size_t points = steps.at("first").size();
    EXPECT_GT(points, 1000U);
    EXPECT_LE(points, 2048U);
    int next = 0, none = 0;
    for (std::size_t p = 0; p < points; ++p) {
        ASSERT_EQ(steps.at("first").at(p), next);
        const int last = steps.at("last").at(p);
        double sum = 0, least = 1e9, most = -1e9;
        int numbers = 0;
        for (int k = next; k <= last; ++k) {
            if (k == 7777) continue;
            sum += loss(k);
            least = std::min(least, loss(k));
            most = std::max(most, loss(k));
            ++numbers;
        }
        const nlohmann::json& column = steps.at("loss");
        const auto near = [&](const char* key, double expected) {
            EXPECT_NEAR(column.at(key).at(p).get<double>(), expected, 1e-5) << key << " of point " << p;  // six digits
        };
        near("mean", sum / numbers);
        near("least", least);
        near("most", most);
        none += column.at("none").at(p).get<int>();
        next = last + 1;
    }
    EXPECT_EQ(next, lines);
    EXPECT_EQ(none, 1);
    EXPECT_EQ(steps.at("tokens").back(), 64 * lines);
}

TEST_F(ReportPage, EscapesNames) {
    fs::create_directories("<");
    write("</script>.jsonl", step(0, "5.5"));
    write("script>.jsonl", step(0, "5.5"));
    write("a\"&'b.jsonl", step(0, "5.5") + "{\"step\":0,\"event\":\"<!--<script>alert(1)</script>\"}\n");
    const std::string page =
        report("'</script>.jsonl' 'script>.jsonl' \"a\\\"&'b.jsonl\" --title '</title><script>alert(1)</script>'");
    EXPECT_EQ(count(page, "</script>"), 2U);
    EXPECT_EQ(count(page, "<script"), 2U);
    EXPECT_EQ(count(page, "<title>&lt;/title&gt;&lt;script&gt;"), 1U);
    EXPECT_EQ(count(page, "&lt;/script&gt;</button>"), 1U);
    const nlohmann::json runs = data_of(page).at("runs");
    EXPECT_EQ(runs.at(0).at("name"), "</script>");  // with its folder, since the next one has the name as well
    EXPECT_EQ(runs.at(1).at("name"), "script>");
    EXPECT_EQ(runs.at(2).at("name"), "a\"&'b");
    EXPECT_EQ(runs.at(2).at("events").at(0).at("text"), "<!--<script>alert(1)</script>");
}

TEST_F(ReportPage, TellsRunsApart) {
    fs::create_directories("x/lr1");
    fs::create_directories("x/lr2");
    for (const char* name : {"x/lr1/run.jsonl", "x/lr2/run.jsonl", "other.jsonl"}) write(name, step(0, "5.5"));
    const nlohmann::json runs = data_of(report("x/lr1/run.jsonl x/lr2/run.jsonl other.jsonl")).at("runs");
    EXPECT_EQ(runs.at(0).at("name"), "lr1/run");
    EXPECT_EQ(runs.at(1).at("name"), "lr2/run");
    EXPECT_EQ(runs.at(2).at("name"), "other");
}

TEST_F(ReportPage, CopesWithWhatKilledRunsLeave) {
    write("cut.jsonl", step(0, "5.5") + "{\"step\":1,\"lo");
    write("empty.jsonl", "");
    write("mended.jsonl", step(0, "5.5") + "\x01\xff garbage\n" + step(1, "null") + step(2, "1e400") + step(1, "4"));
    const Ran ran = run("report cut.jsonl empty.jsonl mended.jsonl -o page.html");
    EXPECT_EQ(ran.status, 0);
    EXPECT_EQ(ran.out, "page.html: 3 runs, 3 steps\n");
    EXPECT_EQ(ran.err,
              "note: cut.jsonl: its last line is cut short, and left out\n"
              "note: empty.jsonl: it has no line yet\n"
              "note: mended.jsonl: 2 lines are no line of a log and are left out, the first is line 2\n"
              "note: mended.jsonl: 1 line is of steps that came before and is left out: two runs in one file?\n");
    const nlohmann::json runs = data_of(contents("page.html")).at("runs");
    EXPECT_EQ(runs.at(0).at("steps").at("lines"), 1);
    EXPECT_EQ(runs.at(1).at("steps").at("lines"), 0);
    EXPECT_EQ(runs.at(2).at("steps").at("loss").at("mean"), nlohmann::json::parse("[5.5,null]"));
    EXPECT_EQ(runs.at(2).at("steps").at("loss").at("none"), (std::vector<int>{0, 1}));
}

TEST_F(ReportPage, RefusesWhatIsNoLog) {
    write("notes.txt", "a line\nand another\n");
    write("binary", std::string("\x7f"
                                "ELF\0\0",
                                6));
    for (const char* name : {"notes.txt", "binary"}) {
        const Ran ran = run(std::string("report ") + name + " -o page.html");
        EXPECT_EQ(ran.status, 1);
        EXPECT_EQ(ran.err, fmt::format("error: {} is not the log of a training run: none of its lines has a step\n"
                                       "help: name a file that out/build/train --log FILE wrote\n",
                                       name));
        EXPECT_FALSE(fs::exists("page.html"));
    }
    write("run.jsonl", step(0, "5.5"));
    const Ran itself = run("report run.jsonl -o ./run.jsonl");
    EXPECT_EQ(itself.status, 2);
    EXPECT_EQ(itself.err, "error: run.jsonl would be written over itself\nhelp: choose another file with -o\n");
    EXPECT_EQ(run("report none.jsonl -o page.html").err,
              "error: no such file: none.jsonl\nhelp: check the name of the file\n");
}

// The tensors are those of LAYOUT, which the golden has; what an arena holds ends where its last tensor does.
TEST_F(ReportPage, HasTheMemoryOfAProgram) {
    write("run.jsonl", step(0, "5.5"));
    const std::string page = report("run.jsonl --program " + std::string(GOLDENS) + "/mlp");
    EXPECT_NE(page.find("<title>dynamo.logits</title>"), std::string::npos);
    const nlohmann::json program = data_of(page).at("program");
    EXPECT_EQ(program.at("arenas"), nlohmann::json::parse(R"([["parameters",2260],["gradients",2260],
        ["optimizer",4564],["scratch",1024],["batch",224]])"));
    EXPECT_EQ(program.at("tensors").size(), 41U);
    EXPECT_EQ(
        program.at("tensors").at(29),
        nlohmann::json::parse(
            R"json(["forward_backward.tanh","(B,16)","f32","scratch",256,256,1,0,"forward_backward, calls 2 to 9","drelu, evaluate.tanh"])json"));

    EXPECT_EQ(run("report run.jsonl --program . -o page.html").err,
              "error: . holds no training program: there is no model.h in it\n"
              "help: name the folder that thunderc train -o wrote, or leave --program away\n");
    write("model.h",
          "inline constexpr LayoutRow LAYOUT[] = {\n    {\"w\", \"(2)\", \"f32\", \"parameters\", 0, 8},\n};\n");
    EXPECT_NE(run("report run.jsonl --program . -o page.html").err.find("row 1 of LAYOUT in its model.h is not"),
              std::string::npos);
}

// Each call says which one it waited for: none began before that one's end.
TEST_F(ReportPage, HasTheTimelineOfAStep) {
    write("run.jsonl", step(0, "5.5"));
    ASSERT_EQ(run("plan " + fixtures + "/llama2/dynamo.logits.onnx --machine h100 --fsdp 4 --timeline t.json").status,
              0);
    const nlohmann::json timeline = data_of(report("run.jsonl --timeline t.json")).at("timeline");
    EXPECT_EQ(timeline.at("lanes"), (std::vector<std::string>{"compute", "gather", "reduce"}));
    std::map<int, double> ends;
    for (const auto& span : timeline.at("spans"))
        ends[span.at(6)] = span.at(3).get<double>() + span.at(4).get<double>();
    int waits = 0, across = 0;
    for (const auto& span : timeline.at("spans")) {
        const int after = span.at(7);
        if (after < 0) continue;
        ++waits;
        EXPECT_NEAR(span.at(3).get<double>(), ends.at(after), 0.01) << span.dump();  // it begins when that one ends
        for (const auto& other : timeline.at("spans"))
            if (other.at(6) == after && other.at(2) != span.at(2)) ++across;
    }
    EXPECT_GT(waits, 20);
    EXPECT_GT(across, 0) << "some wait for another stream";
    write("t.json", "{}");
    EXPECT_EQ(run("report run.jsonl --timeline t.json -o page.html").status, 1);
}

// A line of --numerics, of a tensor.
std::string tensor_line(int step, const std::string& name, double mean_square, double underflow, double overflow,
                        int nan, const std::string& more = "") {
    return fmt::format(
        "{{\"step\":{},\"function\":\"layer_forward\",\"call\":\"linear_forward\",\"tensor\":\"{}\",\"of\":\"\","
        "\"dtype\":\"bf16\",\"shape\":[2,8],\"amax\":1,\"least\":0.5,\"mean_square\":{},\"zeros\":0,\"underflow\":{},"
        "\"overflow\":{},\"nan\":{}{}}}\n",
        step, name, mean_square, underflow, overflow, nan, more);
}

// In the order of what is worst; of each the worst of all steps, and how much it has grown from the first to the last.
TEST_F(ReportPage, HasTheTensorsToLookAt) {
    write("run.jsonl", step(0, "5.5"));
    std::string lines;
    for (const int s : {0, 100}) {
        lines += tensor_line(s, "quiet", 1, 0, 0, 0);  // nothing to look at
        lines += tensor_line(s, "grows", s == 0 ? 1 : 16, 0, 0, 0);
        lines += tensor_line(s, "vanishes", 1, s == 0 ? 0.25 : 0.125, 0, 0);
        lines += tensor_line(s, "saturates", 1, 0, s == 0 ? 0.0625 : 0.5, 0);
        lines += tensor_line(s, "broken", 1, 0, 0, s == 0 ? 0 : 3);
        lines += tensor_line(s, "noisy<b>", 1, 0, 0, 0, s == 0 ? ",\"snr_db\":20.5" : ",\"snr_db\":55");
        lines += fmt::format(
            "{{\"step\":{},\"gradient\":\"lm_head.weight\",\"dtype\":\"f32\",\"shape\":[2],\"norm\":{},"
            "\"amax\":1,\"least\":1,\"mean_square\":1,\"zeros\":0,\"underflow\":0,\"overflow\":0,"
            "\"nan\":0}}\n{{\"step\":{},\"layer\":\"lm_head\",\"norm\":{}}}\n",
            s, s == 0 ? 8 : 2, s, s == 0 ? 8 : 2);
    }
    write("n.jsonl", lines + "{\"step\":200,\"tens");
    const Ran ran = run("report run.jsonl --numerics n.jsonl -o page.html");
    EXPECT_EQ(ran.status, 0) << ran.err;
    EXPECT_EQ(ran.err, "note: n.jsonl: 1 line is of no tensor and is left out, the first is line 17\n");
    EXPECT_EQ(ran.out, R"(page.html: 1 run, 1 step

what tensors held in 2 steps, 0 to 100: 6 of 7 tensors and gradients

tensor          call            dtype  nan  overflow  underflow  at step  least dB  size  growth
broken          linear_forward  bf16     3         0          0      100         -     1      1x
saturates       linear_forward  bf16     0       50%          0      100         -     1      1x
vanishes        linear_forward  bf16     0         0        25%        0         -     1      1x
noisy<b>        linear_forward  bf16     0         0          0        -      20.5     1      1x
grows           linear_forward  bf16     0         0          0        -         -     4      4x
lm_head.weight  gradient        f32      0         0          0        -         -     2   0.25x
)");
    const std::string page = contents("page.html");
    const std::size_t section = page.find("<h2 id=\"numerics-title\">What tensors hold</h2>");
    ASSERT_NE(section, std::string::npos);
    std::size_t before = section;
    for (const char* name : {"broken", "saturates", "vanishes", "noisy&lt;b&gt;", "grows", "lm_head.weight"}) {
        const std::size_t at = page.find("<tr><th scope=\"row\">" + std::string(name) + "</th>", section);
        EXPECT_LT(before, at) << name;
        before = at;
    }
    EXPECT_EQ(page.find(">quiet<"), std::string::npos);
    EXPECT_NE(page.find("1 line is of no tensor and is left out"), std::string::npos);
    EXPECT_EQ(report("run.jsonl").find("numerics-title"), std::string::npos);
}

TEST_F(ReportPage, RefusesNumericsThatAreNone) {
    write("run.jsonl", step(0, "5.5"));
    const Ran ran = run("report run.jsonl --numerics run.jsonl -o page.html");
    EXPECT_EQ(ran.status, 1);
    EXPECT_EQ(ran.err,
              "error: run.jsonl does not say what tensors hold: none of its lines is of one\nhelp: name a file that "
              "out/build/train --numerics FILE wrote\n");
    const Ran itself = run("report run.jsonl --numerics page.html -o page.html");
    EXPECT_NE(itself.status, 0);
}

}  // namespace report_test
}  // namespace thunderc
