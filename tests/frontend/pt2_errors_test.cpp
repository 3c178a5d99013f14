// SPDX-License-Identifier: Apache-2.0
// Damaged archives, programs that are not known, and files that are no model: one message each.
#include <fstream>

#include "tests/frontend/pt2_archive.h"

namespace thunderc {
namespace pt2_errors_test {

std::string bytes_of_file(const std::filesystem::path& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

// The text of the error, with the file's name instead of its path.
std::string error_of_file(const TemporaryFile& file) {
    std::string text = error_of([&] { import_model(file.path(), {}); });
    const std::string own = file.path().filename().string();
    const std::string name = own.substr(own.find('_') + 1);
    for (std::size_t at = text.find(own); at != std::string::npos; at = text.find(own))
        text.replace(at, own.size(), name);
    return text;
}

std::string error_in(const std::string& name, const std::string& bytes) {
    const TemporaryFile file(name);
    std::ofstream(file.path(), std::ios::binary) << bytes;
    return error_of_file(file);
}

std::string error_in_zip(const std::string& name, const Entries& entries) {
    const TemporaryFile file(name);
    write_zip(file.path(), entries);
    return error_of_file(file);
}

std::string error_in_program(const std::function<void(nlohmann::json&)>& change) {
    const TemporaryFile file("model.pt2");
    write_changed(file.path(), "mlp/ep.logits.pt2", change);
    return error_of_file(file);
}

constexpr const char* again =
    "help: save the model again, with torch.export.save(torch.export.export(model, args), \"model.pt2\")\n";
constexpr const char* how_to_export =
    "help: export the model: torch.export.save(torch.export.export(model, args), \"model.pt2\"), or "
    "torch.onnx.export(model, args, \"model.onnx\", dynamo=True, optimize=False)";

TEST(Pt2Errors, TruncatedAnywhere) {
    const std::string whole = bytes_of_file(fixture("mlp/ep.logits.pt2"));
    EXPECT_EQ(error_in("cut.pt2", whole.substr(0, whole.size() - 30)),
              "error: cut.pt2 is a damaged zip archive: it has no list of its entries, as one that was cut off\n"
              "help: copy or download the file again, or save it again\n");
    for (std::size_t size = 0; size < whole.size(); size += 61)
        EXPECT_NE(error_in("cut.pt2", whole.substr(0, size)), "no error") << size;
}

TEST(Pt2Errors, NamesThatLeadOut) {
    for (const char* name : {"model/../../etc/passwd", "/etc/passwd", "model\\data"}) {
        Entries entries = entries_of(fixture("mlp/ep.logits.pt2"));
        entries[name] = "x";
        EXPECT_EQ(error_in_zip("out.pt2", entries),
                  "error: out.pt2 is a damaged zip archive: an entry is called \"" + std::string(name) +
                      "\", a path that leads out of it\nhelp: copy or download the file again, or save it again\n");
    }
}

TEST(Pt2Errors, NoJson) {
    Entries entries = entries_of(fixture("mlp/ep.logits.pt2"));
    entries[model_entry] = "{\"graph_module\": ";
    EXPECT_EQ(error_in_zip("json.pt2", entries),
              "error: the entry model/models/model.json of json.pt2 is no valid JSON, or larger than any program's\n"
              "help: save or copy the file again\n");
    entries[model_entry] = std::string(100000, '[');
    EXPECT_EQ(error_in_zip("json.pt2", entries),
              "error: the entry model/models/model.json of json.pt2 is no valid JSON, or larger than any program's\n"
              "help: save or copy the file again\n");
    entries[model_entry] = "[" + std::string(std::size_t{40} << 20U, ',') + "]";
    EXPECT_EQ(error_in_zip("json.pt2", entries),
              "error: the entry model/models/model.json of json.pt2 is no valid JSON, or larger than any program's\n"
              "help: save or copy the file again\n");
    entries[model_entry] = "[]";
    EXPECT_EQ(error_in_zip("json.pt2", entries),
              "error: the program of the archive is not as torch.export.save writes it: the program has no "
              "\"schema_version\"\n" +
                  std::string(again));
}

TEST(Pt2Errors, AnotherSchema) {
    EXPECT_EQ(error_in_program([](nlohmann::json& program) { program["schema_version"]["major"] = 9; }),
              "error: the program of model.pt2 is of version 9.20 of torch.export's schema, which is not supported\n"
              "  expected: version 8\n"
              "  found: version 9.20, of PyTorch 2.13.0+cu130\n"
              "help: export and save the model with PyTorch 2.13\n");
}

// As these versions of PyTorch wrote them (scripts/make_old_pt2_fixtures.py).
TEST(Pt2Errors, FilesOfOlderVersions) {
    const auto error_of_version = [](const std::string& version) {
        const std::filesystem::path path = fixture("mlp/torch_" + version + ".logits.pt2");
        const std::string text = error_of([&] { import_model(path, {}); });
        return text.substr(text.find("torch_"));
    };
    EXPECT_EQ(error_of_version("2.5.1"),
              "torch_2.5.1.logits.pt2 is a program of torch.export in the form that PyTorch saved before 2.8, which is "
              "not supported\n"
              "help: export the model again with PyTorch 2.9 or later, which does not load this file either\n");
    EXPECT_EQ(error_of_version("2.8.0"),
              "torch_2.8.0.logits.pt2 has no model_weights_config.json\n"
              "help: load and save it again with PyTorch 2.13: torch.export.save(torch.export.load(\"model.pt2\"), "
              "\"again.pt2\")\n");
}

TEST(Pt2Errors, ResultsInTensorsThatAreGiven) {
    const TemporaryFile file("given.pt2");
    write_changed(file.path(), "mlp/ep.logits.pt2", [](nlohmann::json& program) {
        for (nlohmann::json& node : program["graph_module"]["graph"]["nodes"])
            if (node["target"] == "torch.ops.aten.relu.default")
                node["inputs"].push_back({{"name", "values"}, {"arg", node["inputs"][0]["arg"]}, {"kind", 2}});
    });
    const std::string text = error_of([&] { import_model(file.path(), {}); });
    EXPECT_EQ(text.substr(0, text.find('\n')),
              "error: aten.relu.default writes to a tensor that it is given as values, which is not supported");
}

TEST(Pt2Errors, UnknownOperatorsAllAtOnce) {
    EXPECT_EQ(
        error_in_program([](nlohmann::json& program) {
            auto& nodes = program["graph_module"]["graph"]["nodes"];
            nodes[1]["target"] = "torch.ops.aten.made_up.default";
            nodes[3]["target"] = "torch.ops.my.own.default";
        }),
        "error: 2 operators are not supported\n"
        "  found: aten.made_up.default (1 call, first in model.net.1 (make_fixtures.py:34)); my.own.default (1 call, "
        "first in model.net.3 (make_fixtures.py:34))\n"
        "help: a function of your own can compute an operator of a library of your own: --user-executor, "
        "docs/executors.md\n");
}

// Control flow is taken as it goes for all data; what the data decide is refused.
TEST(Pt2Errors, ControlFlowThatDependsOnData) {
    const auto error_of_call = [](const std::string& target, const std::function<void(nlohmann::json&)>& change) {
        const TemporaryFile file("model.pt2");
        write_changed(file.path(), "pt2_operators/control.pt2", [&](nlohmann::json& program) {
            for (nlohmann::json& node : program["graph_module"]["graph"]["nodes"])
                if (node["target"] == "torch.ops.higher_order." + target) return change(node);
            FAIL() << target;
        });
        const std::string text = error_of_file(file);
        const std::size_t help = text.find("help: ");
        return text.substr(0, text.find('\n') + 1) + (help == std::string::npos ? text : text.substr(help));
    };
    const nlohmann::json data = {{"as_tensor", {{"name", "inputs_0"}}}};
    EXPECT_EQ(error_of_call("cond", [&](nlohmann::json& node) { node["inputs"][0]["arg"] = data; }),
              "error: which branch of torch.cond is taken depends on the data\n"
              "help: compute both and choose with torch.where: a program has the same steps for all data\n");
    EXPECT_EQ(error_of_call("while_loop",
                            [&](nlohmann::json& node) {
                                auto& graph = node["inputs"][0]["arg"]["as_graph"]["graph"];
                                graph["outputs"][0] = {{"as_tensor", graph["inputs"][1]["as_tensor"]}};
                            }),
              "error: how often a while_loop is run depends on the data\n"
              "help: count its steps with a tensor of integers that no input changes\n");
    EXPECT_EQ(error_of_call("while_loop",
                            [&](nlohmann::json& node) {  // its counter stays where it is
                                auto& graph = node["inputs"][1]["arg"]["as_graph"]["graph"];
                                graph["outputs"][0] = {{"as_tensor", graph["inputs"][0]["as_tensor"]}};
                            }),
              "error: a while_loop of more than 10000 steps\n"
              "help: the operator is supported in other forms only, or the program is damaged: save it again\n");
    EXPECT_EQ(error_of_call("scan", [&](nlohmann::json& node) { node["inputs"][2]["arg"]["as_tensors"].clear(); }),
              "error: scan of nothing\n"
              "help: the operator is supported in other forms only, or the program is damaged: save it again\n");
}

// What a call gives is held against what PyTorch said of it; the error has the author's line.
TEST(Pt2Errors, AnotherShapeThanTheProgramSays) {
    const std::string text = error_in_program([](nlohmann::json& program) {
        program["graph_module"]["graph"]["tensor_values"]["tanh"]["sizes"][1]["as_int"] = 17;
    });
    EXPECT_EQ(text.substr(0, text.find("help: ")),
              "error: aten.tanh.default gives another shape or type than the program says\n"
              "  node: tanh (make_fixtures.py:34)\n"
              "  module: model.net.3\n"
              "  operator: aten.tanh.default\n"
              "  expected: f32[4,17]\n"
              "  found: f32[4,16]\n");
}

// A step of a program changes parameters by the optimizer alone.
TEST(Pt2Errors, ModelsThatChangeParametersOrBuffers) {
    const auto with_write = [](const char* target, const char* kind) {
        return error_in_program([&](nlohmann::json& program) {
            auto& module = program["graph_module"];
            auto& tensors = module["graph"]["tensor_values"];
            nlohmann::json call = module["graph"]["nodes"][0];
            call["target"] = "torch.ops.aten.mul_.Tensor";
            call["name"] = "mul_";
            call["inputs"] = {{{"name", "self"}, {"arg", {{"as_tensor", {{"name", target}}}}}, {"kind", 1}},
                              {{"name", "other"}, {"arg", {{"as_float", 0.5}}}, {"kind", 1}}};
            call["outputs"] = {{{"as_tensor", {{"name", "mul_"}}}}};
            tensors["mul_"] = tensors[target];
            module["graph"]["nodes"].insert(module["graph"]["nodes"].begin(), call);
            if (std::string(kind) == "buffer")
                for (auto& spec : module["signature"]["input_specs"])
                    if (spec.contains("parameter") && spec["parameter"]["arg"]["name"] == target)
                        spec = {{"buffer",
                                 {{"arg", {{"name", target}}},
                                  {"buffer_name", spec["parameter"]["parameter_name"]},
                                  {"persistent", true}}}};
        });
    };
    for (const char* kind : {"parameter", "buffer"})
        EXPECT_EQ(with_write("p_model_net_2_weight", kind),
                  "error: the model changes the " + std::string(kind) +
                      " model.net.2.weight as it runs, which a program does not do\n"
                      "  node: mul_ (make_fixtures.py:34)\n"
                      "  module: model.net.0\n"
                      "  operator: aten.mul_.Tensor\n"
                      "  expected: what stays as it is while the model is computed, but for statistics of batch norms\n"
                      "help: if it changes in training mode alone, call model.eval() before the export; else leave the "
                      "change out of forward(), and what depends on it make an input\n");
}

TEST(Pt2Errors, WeightsThatAreTooShort) {
    Entries entries = entries_of(fixture("mlp/ep.logits.pt2"));
    entries["model/data/weights/weight_0"].resize(100);
    EXPECT_EQ(error_in_zip("short.pt2", entries),
              "error: the tensor model.net.0.weight needs 768 bytes of model/data/weights/weight_0, which has 100\n"
              "help: the archive is damaged: save the model again\n");
}

TEST(Pt2Errors, SizesThatNoTensorHas) {
    Entries entries = entries_of(fixture("mlp/ep.logits.pt2"));
    const std::string config = "model/data/weights/model_weights_config.json";
    nlohmann::json weights = nlohmann::json::parse(entries.at(config));
    weights["config"]["model.net.0.weight"]["tensor_meta"]["sizes"][0]["as_int"] = std::int64_t{1} << 60;
    entries[config] = weights.dump();
    EXPECT_EQ(error_in_zip("large.pt2", entries),
              "error: the weight model.net.0.weight has a shape that no tensor can have: [1152921504606846976,12]\n"
              "help: the archive is damaged: save the model again\n");
}

// What somebody may take for a model.
TEST(Pt2Errors, FilesThatAreNoModel) {
    EXPECT_EQ(error_in("weights.safetensors", std::string("\x10\0\0\0\0\0\0\0{\"a\": 1}        ", 24)),
              "error: weights.safetensors is a safetensors file: weights, and no graph of a model\n" +
                  std::string(how_to_export) + "; its program begins with such weights by --init\n");
    EXPECT_EQ(error_in("model.gguf", "GGUF\x03"),
              "error: model.gguf is a GGUF file, as llama.cpp reads: weights, and no graph of a model\n" +
                  std::string(how_to_export) + "\n");
    EXPECT_EQ(error_in("old.bin", "\x80\x02}q\x01."),
              "error: old.bin is a pickle, as torch.save wrote before PyTorch 1.6: weights, and no graph of a model\n" +
                  std::string(how_to_export) + "\n");
    EXPECT_EQ(
        error_in("model.pt2", "version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12\n"),
        "error: model.pt2 is a pointer of Git LFS, in place of the file itself\nhelp: fetch the file: git lfs pull\n");
    EXPECT_EQ(error_in("model.pt", "<!DOCTYPE html><html>"),
              "error: model.pt is a web page, in place of the file itself\n"
              "help: download it again: what the server sent may say why it did not\n");
    EXPECT_EQ(error_in_zip("older.pt2", {{"serialized_exported_program.json", "{}"}, {"version", "8.2"}}),
              "error: older.pt2 is a program of torch.export in the form that PyTorch saved before 2.8, which is not "
              "supported\nhelp: load and save it with PyTorch 2.13: "
              "torch.export.save(torch.export.load(\"model.pt2\"), \"again.pt2\")\n");
    EXPECT_EQ(error_in_zip("some.zip", {{"a.txt", "a"}}),
              "error: some.zip is a zip archive, and none of torch.export.save or torch.jit.save\n" +
                  std::string(how_to_export) + "\n");
}

}  // namespace pt2_errors_test
}  // namespace thunderc
