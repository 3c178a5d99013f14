// SPDX-License-Identifier: Apache-2.0
#include "cli/bisection.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <set>
#include <string_view>
#include <utility>

#include "cli/probe_programs.h"
#include "cli/reproducer.h"
#include "cli/tensor_file.h"
#include "cli/training_program.h"
#include "compiler/ir/dtype.h"
#include "compiler/support/error.h"
#include "compiler/support/text_diff.h"
#include "support/text.h"

namespace thunderc {
namespace fs = std::filesystem;
namespace {

// What products round by at most; 0: by f32's, which is below what sums in another order make. Of products of eight
// bits it is that of the forward pass.
double products_round(const ModelOptions& model, const TrainingProgram& program) {
    if (!model.compile.fp8.empty()) return rounding_of(DType::e4m3);
    return program.compute == DType::f32 ? 0 : rounding_of(program.compute);
}

// Each number times 1 and a draw between the rounding and its opposite.
void write_rounded(const fs::path& from, const fs::path& to, double rounding, std::uint64_t seed) {
    std::uint64_t state = seed;
    const auto unit = [&state] {  // splitmix64
        std::uint64_t z = state += 0x9e3779b97f4a7c15U;
        z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9U;
        z = (z ^ (z >> 27)) * 0x94d049bb133111ebU;
        return static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
    };
    std::vector<StoredTensor> tensors;
    for (auto& [name, tensor] : read_safetensors(from)) {
        Tensor rounded = tensor;
        if (rounded.floating()) {
            rounded.type.dtype = DType::f32;
            for (double& x : rounded.f) x *= 1 + rounding * (2 * unit() - 1);
        }
        tensors.push_back(stored_tensor(name, std::move(rounded)));
    }
    write_safetensors(to, tensors);
}

// ---- runs ----------------------------------------------------------------------------------------------------------

// How programs train, so that losses and norms can be compared: all from the same parameters, on the same batches.
class Trainings {
  public:
    Trainings(const ProbePrograms& programs, const ModelOptions& model, const BisectionOptions& options)
        : programs_(programs),
          parameters_(programs.file("parameters.safetensors")),
          eight_bits_(!model.compile.fp8.empty()) {
        fs::path feed = options.feed;
        if (feed.empty()) programs.write_feed(feed = programs.file("feed.safetensors"));
        // A drawn feed has two micro-batches a step, the second of which adds to gradients.
        common_ = fmt::format("--feed {} --grad-accum {} --seed 7 --grad-clip 0",
                              shell_word(fs::absolute(feed).string()), options.feed.empty() ? 2 : 1);
        // Parameters are drawn large enough for the loss to depend on all that the program does.
        const std::string init =
            options.init.empty() ? "--init random --init-std 0.1" : "--init " + shell_word(options.init);
        programs.require_steps(programs.reference(), fmt::format("{} {} {} --steps 1 --save {}", common_, init, resting,
                                                                 shell_word(parameters_.string())));
        steps_ = options.steps;
    }

    const fs::path& parameters() const { return parameters_; }

    Steps of_reference(const fs::path& parameters) const {
        std::string end;
        return steps(programs_.reference(), parameters, "", true, end);
    }

    // As far as the program comes; `end`: why not further.
    Steps of_program(std::string& end) const { return steps(programs_.train(), parameters_, scale_, false, end); }

    // What has less range than f32 scales its loss, and skips steps until nothing overflows. No step is skipped with a
    // scale that is well below the first of which none is.
    void choose_scale() {
        for (const int scale : {65536, 4096, 256, 16, 1}) {
            scale_ = fmt::format(" --loss-scale {}", std::max(1, scale / 16));
            std::string end;
            const Steps first = programs_.steps(programs_.train(),
                                                fmt::format("{} --init {} {} --steps 1 --loss-scale {}", common_,
                                                            shell_word(parameters_.string()), resting, scale),
                                                end);
            if (first.size() == 1 && std::isfinite(first[0].norm)) return;
        }
    }

  private:
    static constexpr const char* resting = "--lr 0 --weight-decay 0";  // a step that changes no parameter

    // Scales of eight bits are 1 in a run's first step, and follow from what there is in the second one: of both
    // programs, so that optimizers are at the same step, the first one counts nothing and changes no parameter.
    Steps steps(const std::string& program, const fs::path& parameters, const std::string& scale, bool required,
                std::string& end) const {
        const std::string from = "--init " + shell_word(parameters.string());
        const std::string training = "--lr 0.001 --warmup 0 --schedule constant";
        const auto run = [&](const std::string& flags) {
            const std::string all = common_ + scale + " " + flags;
            return required ? programs_.require_steps(program, all) : programs_.steps(program, all, end);
        };
        if (!eight_bits_) return run(fmt::format("{} {} --steps {}", from, training, steps_));
        const fs::path folder = programs_.file("checkpoint");
        fs::remove_all(folder);
        const std::string checkpoint = "--checkpoint " + shell_word(folder.string());
        if (run(fmt::format("{} {} {} --steps 1", from, resting, checkpoint)).size() != 1) return {};
        return run(fmt::format("{} {} --resume --steps {}", training, checkpoint, steps_ + 1));
    }

    const ProbePrograms& programs_;
    fs::path parameters_;
    bool eight_bits_;
    int steps_ = 0;
    std::string common_, scale_;
};

void require_numbers(const Steps& reference, int steps) {
    std::size_t good = 0;
    while (good < reference.size() && std::isfinite(reference[good].loss)) ++good;
    if (good >= static_cast<std::size_t>(steps)) return;
    fail(fmt::format("the loss of the reference is no number at step {}: nothing can be held against it", good),
         good > 0 ? fmt::format("--steps {} ends before it", good)
                  : std::string("--init takes other parameters, and --feed other batches, than those that are drawn"));
}

// ---- what is shown ----

struct SourceLine {
    std::size_t number = 0;  // from 1
    std::string text;
};

std::string_view without_margin(std::string_view line) {
    while (!line.empty() && (line.back() == '\n' || line.back() == ' ')) line.remove_suffix(1);
    while (!line.empty() && line.front() == ' ') line.remove_prefix(1);
    return line;
}

// What does something: no comment, no brace, no place in memory that gets a name.
bool is_code(std::string_view line) {
    return !line.empty() && !line.starts_with("//") && !line.starts_with("}") && !line.starts_with("#") &&
           line.find("= at<") == std::string_view::npos;
}

// "linear_forward({.y = ...": of lower-case letters until the first parenthesis.
bool is_call(std::string_view line) {
    const std::size_t end = line.find('(');
    return end != std::string_view::npos && end > 0 &&
           std::all_of(line.begin(), line.begin() + static_cast<std::ptrdiff_t>(end), [](unsigned char c) {
               return std::islower(c) != 0 || std::isdigit(c) != 0 || c == '_' || c == ':' || c == '.';
           });
}

// The statement that the line with this number is in, on one line.
SourceLine statement_at(const std::vector<std::string_view>& lines, std::size_t number) {
    std::size_t at = number - 1;
    const auto begins = [&](std::size_t k) {
        if (k == 0) return true;
        const std::string_view before = without_margin(lines[k - 1]);
        return before.empty() || before.starts_with("//") || before.ends_with(";") || before.ends_with("{") ||
               before.ends_with("}");
    };
    while (!begins(at)) --at;
    SourceLine out{at + 1, std::string(without_margin(lines[at]))};
    for (std::size_t k = at + 1; k < lines.size() && !begins(k); ++k) {
        if (!out.text.ends_with('(')) out.text += ' ';
        out.text += without_margin(lines[k]);
    }
    return out;
}

// Those that the text has and the other has not, in order.
std::vector<SourceLine> statements_added(const std::string& text, const std::string& other) {
    std::vector<std::string_view> lines;
    std::vector<std::size_t> added;
    for (const LineEdit& edit : diff_lines(other, text)) {
        if (edit.kind == LineEdit::Kind::removed) continue;
        lines.push_back(edit.line);
        if (edit.kind == LineEdit::Kind::added && is_code(without_margin(edit.line))) added.push_back(lines.size());
    }
    std::vector<SourceLine> out;
    for (const std::size_t number : added)
        if (SourceLine statement = statement_at(lines, number); out.empty() || out.back().number != statement.number)
            out.push_back(std::move(statement));
    return out;
}

// Identifiers; not what is short, as in and of.
std::set<std::string> words_of(const std::string& text) {
    std::set<std::string> words;
    std::string word;
    for (const char c : text + " ") {
        if (std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_') {
            word += c;
            continue;
        }
        if (word.size() > 2) words.insert(word);
        word.clear();
    }
    return words;
}

}  // namespace

std::string differing_line(const std::vector<OutputFile>& program, const std::vector<OutputFile>& other,
                           const CountedDecision& decision) {
    const auto find = [](const std::vector<OutputFile>& files, const std::string& path) {
        const auto at = std::find_if(files.begin(), files.end(), [&](const OutputFile& f) { return f.path == path; });
        return at == files.end() ? std::string() : at->text;
    };
    const std::set<std::string> named = words_of(decision.where + " " + decision.text);
    std::string best;
    std::size_t most = 0;
    for (const char* file : {"blocks.cpp", "model.cpp", "kernels_cpu.cpp"}) {
        if (!best.empty() && std::string_view(file) == "kernels_cpu.cpp") break;  // who calls a kernel says where it is
        for (const SourceLine& statement : statements_added(find(program, file), find(other, file))) {
            std::size_t score = is_call(statement.text) ? 3 : 1;
            if (statement.text.starts_with(decision.what)) ++score;  // linear_forward, of a linear
            for (const std::string& word : words_of(statement.text)) score += named.contains(word) ? 2 : 0;
            if (score <= most) continue;
            most = score;
            best = fmt::format("{}:{}: {}", file, statement.number, statement.text);
        }
    }
    return best;
}

std::vector<CountedDecision> decisions_of(const ModelOptions& model) {
    CountedDecisions counted;
    PassOptions passes;
    passes.decisions = &counted;
    compile(model, passes);
    return counted.asked();
}

std::optional<FirstDeparture> first_departure(
    std::size_t all, const std::function<std::optional<Departure>(std::size_t decisions)>& probe) {
    const std::optional<Departure> whole = probe(all);
    if (!whole) return std::nullopt;
    FirstDeparture found{all, *whole};
    if (all == 0) return found;
    if (const std::optional<Departure> without = probe(0)) return FirstDeparture{0, *without};
    // The program of `found` departs and that of `agrees` does not, all the way.
    std::size_t agrees = 0;
    while (found.decisions - agrees > 1) {
        const std::size_t middle = agrees + (found.decisions - agrees) / 2;
        if (const std::optional<Departure> departure = probe(middle))
            found = {middle, *departure};
        else
            agrees = middle;
    }
    return found;
}

Bisection bisect(const ModelOptions& model, const BisectionOptions& options,
                 const std::function<void(const std::string&)>& say) {
    Bisection out;
    out.decisions = decisions_of(model);
    const std::size_t all = model.compile.decisions.value_or(out.decisions.size());
    DeviceOptions device;
    device.devices = {"cpu"};
    const auto program_of = [&](std::optional<std::size_t> decisions, std::optional<std::size_t> without) {
        ModelOptions limited = model;
        limited.silent = true;
        limited.compile.decisions = decisions;
        limited.compile.without_decision = without;
        return training_program(limited, device, {}, false);
    };
    const TrainingProgram whole = program_of(all, std::nullopt);  // refuses more decisions than there are
    say(fmt::format("building the program of {} decisions and its reference", all));
    ProbePrograms programs(options.for_cmake);
    programs.build(whole, options.feed.empty());
    Trainings trainings(programs, model, options);
    const Steps reference = trainings.of_reference(trainings.parameters());
    require_numbers(reference, options.steps);
    StepBounds bounds(reference, options.tolerance);
    if (const double rounding = products_round(model, whole); rounding > 0 && !options.tolerance) {
        const fs::path moved = programs.file("moved.safetensors");
        for (int k = 0; k < StepBounds::draws; ++k) {
            write_rounded(trainings.parameters(), moved, rounding, static_cast<std::uint64_t>(k) + 1);
            bounds.add_moved(trainings.of_reference(moved));
        }
    }
    if (!covers(whole.compute, DType::f32)) trainings.choose_scale();

    const auto probe = [&](const std::string& name) {
        std::string end;
        const Steps steps = trainings.of_program(end);
        std::optional<Departure> departure = bounds.departure(steps);
        if (departure && departure->step >= steps.size() && !end.empty()) departure->what += ": " + end;
        say(fmt::format("{}: {}", name,
                        departure ? fmt::format("departs at step {}: {}", departure->step, departure->what)
                                  : fmt::format("loss {:.7g} after {}, as the reference", steps.back().loss,
                                                thunder::count_text(steps.size(), "step"))));
        return departure;
    };
    out.found = first_departure(all, [&](std::size_t decisions) {
        if (decisions != all) programs.build(program_of(decisions, std::nullopt), false);
        return probe(fmt::format("{} of {} decisions", decisions, all));
    });
    if (!out.found || out.found->decisions == 0) return out;
    // Of as many as were asked for: what is declined may raise questions that come behind all others.
    std::optional<std::size_t> limit;
    if (model.compile.decisions) limit = static_cast<std::size_t>(*model.compile.decisions);
    const TrainingProgram others = program_of(limit, out.found->decisions);
    out.line = differing_line(whole.files, others.files, out.decisions[out.found->decisions - 1]);
    programs.build(others, false);
    out.without = probe(fmt::format("all but decision {}", out.found->decisions));
    return out;
}

}  // namespace thunderc
