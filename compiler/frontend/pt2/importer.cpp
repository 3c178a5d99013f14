// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/pt2/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "compiler/frontend/pt2/pt2_frontend.h"
#include "compiler/frontend/pt2/shape_expression.h"
#include "compiler/support/error.h"

namespace thunderc::pt2_frontend {

// ---- the import -----------------------------------------------------------------------------------------------------

Importer::Importer(std::shared_ptr<const ZipArchive> archive, const CompileOptions& options, Report& report)
    : aten::Importer(aten::module_of(archive->path()), options, report),
      archive_(std::move(archive)),
      program_(std::make_shared<const Program>(read_program(*archive_))) {}

Module Importer::run() {
    report_.done(
        "file", archive_->path().filename().string(),
        fmt::format("a program of torch.export{}, schema {}",
                    program_->torch_version.empty() ? "" : " of PyTorch " + program_->torch_version, program_->schema));
    for (const auto& [function, line] : program_->functions)
        report_.warning("backward", fmt::format("{} ({})", aten::plain(function), line),
                        "is an autograd.Function: an export keeps what it computes and not its backward, so that "
                        "gradients are others. "
                        "Write what it is meant for into the model: x + (f(x) - x).detach() has the gradient of x");
    aten::refuse_unknown(program_->graph);
    refuse_changes();
    import_inputs();
    import_tensors();
    import_calls(program_->graph);
    import_outputs();
    require_numbers_of_constants();
    return finished(program_->classes);
}

std::optional<std::int64_t> Importer::size(const Size& size) const {
    return size.expression.empty() ? size.value : evaluate(size.expression, symbols_);
}

const TensorMeta* Importer::meta(const std::string& name) const {
    for (auto graph = graphs_.rbegin(); graph != graphs_.rend(); ++graph)
        if (const auto at = (*graph)->tensors.find(name); at != (*graph)->tensors.end()) return &at->second;
    const auto at = program_->graph.tensors.find(name);
    return at == program_->graph.tensors.end() ? nullptr : &at->second;
}

void Importer::refuse_changes() const {
    for (const OutputSpec& output : program_->outputs) {
        if (output.kind != OutputSpec::Kind::parameter && output.kind != OutputSpec::Kind::input) continue;
        fail(fmt::format("the model changes {} {} as it runs, which a program does not do",
                         output.kind == OutputSpec::Kind::parameter ? "the parameter" : "its input", output.target),
             "leave the change out of forward()");
    }
}

// ---- what comes out -------------------------------------------------------------------------------------------------

void Importer::import_outputs() {
    Function& main = module_.main();
    std::size_t leaf = 0;
    std::set<std::string> taken;
    const auto unique = [&](const std::string& wanted) {
        std::string name = wanted;
        for (int n = 1; !taken.insert(name).second; ++n) name = fmt::format("{}_{}", wanted, n);
        return name;
    };
    for (const OutputSpec& output : program_->outputs) {
        if (output.kind == OutputSpec::Kind::buffer) {
            const aten::Binding& now = find(output.value.text);
            const auto graph_name = std::find_if(buffers_.begin(), buffers_.end(),
                                                 [&](const auto& b) { return b.second == output.target; });
            if (graph_name == buffers_.end() || now.kind != aten::Binding::Kind::tensor) continue;
            const Value before = names_.at(graph_name->first).value;
            if (now.value != before && !moved_.moves(before)) write(graph_name->first, now.value);
            continue;
        }
        if (output.kind == OutputSpec::Kind::other) continue;
        const std::string key = leaf < program_->output_names.size() ? program_->output_names[leaf] : "";
        ++leaf;
        const aten::Binding value = resolve(output.value);
        if (value.kind == aten::Binding::Kind::complex)
            fail(fmt::format("the result {} is of complex numbers", key.empty() ? output.value.text : key),
                 "return pairs of real numbers: torch.view_as_real(x)");
        if (value.kind != aten::Binding::Kind::tensor) {
            report_.done("output", key.empty() ? std::to_string(leaf - 1) : key, "is no tensor: left out");
            continue;
        }
        main.results.push_back(value.value);
        main.result_names.push_back(unique(output.kind == OutputSpec::Kind::loss ? "loss"
                                           : key.empty()                         ? aten::plain(output.value.text)
                                                                                 : aten::plain(key)));
    }
    if (main.results.empty()) fail("the model gives no tensor", "export a model that returns its logits or its loss");
}

}  // namespace thunderc::pt2_frontend

namespace thunderc {

bool is_pt2(const ZipArchive& archive) {
    return pt2_frontend::is_program(archive);
}

void write_pt2_graph(const ZipArchive& archive, const std::filesystem::path& out) {
    constexpr std::uint64_t small = 1024;  // bytes: what may be no weight
    archive.write_without(
        [&](const std::string& name) {
            const bool weight = name.find("/data/weights/") != std::string::npos && !name.ends_with(".json") &&
                                archive.find(name)->size > small;
            return weight || name.find("/data/sample_inputs/") != std::string::npos;
        },
        out);
}

Module import_pt2(std::shared_ptr<const ZipArchive> archive, const CompileOptions& options, Report& report) {
    return pt2_frontend::Importer(std::move(archive), options, report).run();
}

}  // namespace thunderc
