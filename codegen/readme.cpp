#include "codegen/readme.h"

#include <fmt/format.h>

#include "codegen/model_files.h"
#include "compiler/ir/print.h"

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

}  // namespace

std::string memory_table(const ProgramLayout& layout) {
    const Module& m = layout.module();
    struct Row {
        const char* arena;
        const char* what;
    };
    constexpr Row rows[] = {{"parameters", "the model's tensors, each at a multiple of 64 bytes"},
                            {"gradients", "at the same offsets"},
                            {"optimizer", "its state, at the same offsets, one after the other"},
                            {"saved", "activations that the way back reads, layer after layer"},
                            {"scratch", "everything else, reused"},
                            {"constants", "tables"},
                            {"batch", "the inputs of one micro-batch"}};
    std::string out = "| arena | bytes | | holds |\n|---|---:|---:|---|\n";
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
    out +=
        "\nHow the large ones add up (the table `LAYOUT` in `model.h` has every tensor):\n\n| tensors | bytes "
        "|\n|---|---:|\n";
    for (const LayerStruct& s : layout.structs()) {
        std::int64_t layer = 0;
        for (const LayerField& f : s.fields) layer += static_cast<std::int64_t>(f.type.bytes());
        out += fmt::format("| {}: {} layers of {} bytes in {} tensors | {} |\n", s.name, s.layers, layer,
                           s.fields.size(), layer * s.layers);
    }
    const Function& main = m.main();
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::parameter && !main.type(main.arguments[k]).is_family())
            out += fmt::format("| {} {} | {} |\n", main.argument_info[k].names.front(),
                               layout.symbols().shape(main.type(main.arguments[k]).dims),
                               main.type(main.arguments[k]).bytes());
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
