#include "codegen/readme.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <vector>

#include "codegen/model_files.h"
#include "compiler/ir/print.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

std::string parameter_count(const Module& module) {
    std::int64_t count = 0, tensors = 0;
    const Function& main = module.main();
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        if (main.argument_info[k].kind != ArgInfo::Kind::parameter) continue;
        const Type& type = main.type(main.arguments[k]);
        count += type.elements() * (type.is_family() ? type.count : 1);
        tensors += type.is_family() ? type.count : 1;
    }
    return fmt::format("{} parameters in {} tensors", count, tensors);
}

// Rows of one arena whose bytes add up to what the arena has.
class SumsTable {
  public:
    explicit SumsTable(const ProgramLayout& layout) : layout_(layout), rows_(layout.rows()) {}

    std::string text() {
        out_ = "| arena | tensors | bytes |\n|---|---|---:|\n";
        tensors("parameters");
        like_parameters("gradients");
        like_parameters("optimizer");
        tensors("saved");
        scratch();
        tensors("constants");
        tensors("batch");
        return out_;
    }

  private:
    std::int64_t bytes_of(const std::string& arena) const { return layout_.module().arena_bytes.at(arena); }

    void line(const std::string& what, std::int64_t bytes) {
        out_ += fmt::format("| | {} | {} |\n", what, bytes);
        sum_ += bytes;
    }

    // What the lines leave are gaps.
    void finish(const std::string& arena) {
        const std::int64_t gaps = bytes_of(arena) - sum_;
        check(gaps >= 0, fmt::format("the tensors of the arena {} are larger than it is", arena));
        if (gaps > 0) line("gaps, since tensors begin at multiples of 64 bytes", gaps);
        out_ += fmt::format("| {} | together | {} |\n", arena, bytes_of(arena));
        sum_ = 0;
    }

    // The structs of the layers, the largest other tensors, and the rest of them in one line.
    void tensors(const std::string& arena) {
        constexpr std::size_t shown = 12;
        std::vector<const LayoutRow*> single;
        for (const LayerStruct& s : layout_.structs()) {
            if (name_of(s.arena) != arena) continue;
            std::int64_t layer = 0;
            for (const LayerField& f : s.fields) layer += static_cast<std::int64_t>(f.type.bytes());
            line(fmt::format("{}: {} layers of {} bytes in {} tensor{}", s.function, s.layers, layer, s.fields.size(),
                             s.fields.size() == 1 ? "" : "s"),
                 layer * s.layers);
        }
        for (const LayoutRow& row : rows_)
            if (row.arena == arena && row.name.find('.') == std::string::npos) single.push_back(&row);
        std::stable_sort(single.begin(), single.end(),
                         [](const LayoutRow* a, const LayoutRow* b) { return total(*a) > total(*b); });
        std::int64_t smaller = 0;
        for (std::size_t k = 0; k < single.size(); ++k) {
            const LayoutRow& row = *single[k];
            if (k >= shown)
                smaller += total(row);
            else
                line(fmt::format("{}{} {}", row.name, row.count == 1 ? "" : fmt::format(": {} layers of", row.count),
                                 layout_.symbols().shape(row.type.dims)),
                     total(row));
        }
        if (smaller > 0) line(fmt::format("{} smaller ones", single.size() - shown), smaller);
        finish(arena);
    }

    static std::int64_t total(const LayoutRow& row) { return static_cast<std::int64_t>(row.type.bytes()) * row.count; }

    void like_parameters(const std::string& arena) {
        const std::int64_t one = bytes_of("parameters"), all = bytes_of(arena);
        if (all == one)
            line("as the parameters", all);
        else if (all > 0)
            line(fmt::format("{} times the parameters", all / one), all);
        finish(arena);
    }

    // Its tensors take turns: what one function needs at once is the most that any needs.
    void scratch() {
        std::map<std::string, std::int64_t> ends;
        for (const LayoutRow& row : rows_)
            if (row.arena == "scratch") {
                std::int64_t& end = ends[row.name.substr(0, row.name.find('.'))];
                end = std::max(end,
                               row.offset + (row.count - 1) * row.stride + static_cast<std::int64_t>(row.type.bytes()));
            }
        auto most = std::max_element(ends.begin(), ends.end(),
                                     [](const auto& a, const auto& b) { return a.second < b.second; });
        if (most != ends.end())
            line(fmt::format("{}, which needs the most: its tensors share bytes and reach as far as this", most->first),
                 most->second);
        finish("scratch");
    }

    const ProgramLayout& layout_;
    std::vector<LayoutRow> rows_;
    std::string out_;
    std::int64_t sum_ = 0;
};

std::string sums_table(const ProgramLayout& layout) {
    return SumsTable(layout).text();
}

}  // namespace

std::string memory_table(const ProgramLayout& layout) {
    const Module& m = layout.module();
    struct Row {
        const char* arena;
        const char* what;
    };
    constexpr Row rows[] = {{"parameters", "the model's tensors"},
                            {"gradients", "at the same offsets"},
                            {"optimizer", "its state, at the same offsets, one after the other"},
                            {"saved", "activations that the way back reads, layer after layer"},
                            {"scratch", "everything else, reused"},
                            {"constants", "tables"},
                            {"batch", "the inputs of one micro-batch"}};
    std::string out = "| arena | bytes | that is | holds |\n|---|---:|---:|---|\n";
    std::int64_t total = 0;
    for (const Row& row : rows) {
        const std::int64_t bytes = m.arena_bytes.at(row.arena);
        total += bytes;
        out += fmt::format("| {} | {} | {} | {} |\n", row.arena, bytes, bytes_text(bytes), row.what);
    }
    return out + fmt::format("| together | {} | {} | |\n", total, bytes_text(total));
}

std::string print_readme(const ProgramLayout& layout, const EmitOptions& options) {
    const Module& m = layout.module();
    std::string out = fmt::format("# {}: a training program\n\n", options.model_name);
    out += fmt::format("Written by `thunderc` from an exported model graph: {}.\n\n", parameter_count(m));
    out += "    cmake -S . -B build && cmake --build build\n    build/train --help\n\n";
    out += "| file | holds |\n|---|---|\n";
    out += "| `model.h` | sizes, the tensors and where they lie (`LAYOUT`) |\n";
    if (!block_functions(m).empty()) out += "| `blocks.cpp` | the repeated layers, forward and backward |\n";
    out += "| `model.cpp` | the schedule of a training step |\n";
    out += "| `kernels.h`, `kernels_cpu.cpp` | kernels fused for this model; each says what it computes |\n";
    out += "| `spec.cpp` | names, shapes and offsets of parameters and inputs, for the trainer |\n";
    out +=
        "| `train.cpp` | the loop |\n| `train.json` | what it was made with, and defaults of a run |\n| `runtime/` | "
        "the runtime's sources |\n\n";
    out += "## Sizes\n\n| name | size | |\n|---|---:|---|\n";
    for (const Symbol& s : layout.symbols().all()) out += fmt::format("| {} | {} | {} |\n", s.name, s.value, s.meaning);
    out += "\n## Memory\n\nAll of it is taken at the start; libraries may take workspace in the first step.\n\n" +
           memory_table(layout);
    out += "\nHow that adds up; the names are those of the table `LAYOUT` in `model.h`, which has every tensor:\n\n" +
           sums_table(layout);
    return out;
}

std::string print_train_json(const EmitOptions& options) {
    std::string executors;
    for (const std::string& e : options.compile.executors) executors += (executors.empty() ? "" : ", ") + quote(e);
    return fmt::format(
        "{{\n  \"thunderc\": {},\n  \"model\": {},\n  \"command\": {},\n  \"optimizer\": {},\n  \"recompute\": {},\n  "
        "\"executors\": [{}],\n"
        "  \"defaults\": {{}}\n}}\n",
        quote(options.version), quote(options.model_name), quote(options.command), quote(options.compile.optimizer),
        quote(options.compile.recompute), executors);
}

}  // namespace thunderc
