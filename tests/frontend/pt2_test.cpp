// SPDX-License-Identifier: Apache-2.0
// Programs of torch.export: what is read of them, and that it is the same model as the graph of ONNX.
#include "compiler/frontend/pt2/shape_expression.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/print.h"
#include "compiler/passes/pass_manager.h"
#include "compiler/pipeline.h"
#include "tests/frontend/pt2_archive.h"

namespace thunderc {
namespace pt2_test {

using pt2_frontend::evaluate;
using pt2_frontend::Linear;
using pt2_frontend::linear_form;
using pt2_frontend::symbol_of;

CompileOptions of(std::int64_t batch, std::int64_t seq = 0) {
    CompileOptions options;
    options.batch = batch;
    options.seq = seq;
    return options;
}

std::vector<std::string> parameters(const Module& module) {
    std::vector<std::string> out;
    for (const ArgInfo& info : module.main().argument_info) {
        if (info.kind != ArgInfo::Kind::parameter) continue;
        out.push_back(info.names.front());
        for (const auto& aliases : info.aliases)
            for (const std::string& alias : aliases) out.back() += " = " + alias;
        if (!info.trainable) out.back() += ", frozen";
    }
    return out;
}

// The module after a pass, without what says where it came from.
std::string after(const std::string& pass, const std::string& file, const CompileOptions& options) {
    std::vector<PassRun> runs;
    std::string text;
    PassOptions watch;
    watch.after = [&](const Module& module, const PassRun& run) {
        if (run.name == pass) text = to_string(module.main(), {.provenance = false});
    };
    run_passes(import_model(fixture(file), options), pipeline(options), runs, watch);
    return text;
}

TEST(Pt2, MlpAsText) {
    EXPECT_EQ(to_string(import_model(fixture("mlp/ep.logits.pt2"), {}).main()), R"(func @main(
    %x: f32[4,12] input "x" {batched},
    %model.net.0.weight: f32[16,12] parameter "net.0.weight",
    %model.net.0.bias: f32[16] parameter "net.0.bias",
    %model.net.2.weight: f32[16,16] parameter "net.2.weight",
    %model.net.2.bias: f32[16] parameter "net.2.bias",
    %model.net.4.weight: f32[5,16] parameter "net.4.weight",
    %model.net.4.bias: f32[5] parameter "net.4.bias") -> (%add_2 "linear_2") {
  %transpose = transpose(%model.net.0.weight) {permutation = [1, 0]} : f32[12,16] at "net.0" "Linear" [linear "linear"]
  %matmul = matmul(%x, %transpose) {transpose_a = false, transpose_b = false} : f32[4,16] at "net.0" "Linear" [linear "linear"]
  %add = add(%matmul, %model.net.0.bias) : f32[4,16] at "net.0" "Linear" [linear "linear"]
  %relu = relu(%add) : f32[4,16] at "net.1" "ReLU" [relu "relu"]
  %transpose_1 = transpose(%model.net.2.weight) {permutation = [1, 0]} : f32[16,16] at "net.2" "Linear" [linear "linear_1"]
  %matmul_1 = matmul(%relu, %transpose_1) {transpose_a = false, transpose_b = false} : f32[4,16] at "net.2" "Linear" [linear "linear_1"]
  %add_1 = add(%matmul_1, %model.net.2.bias) : f32[4,16] at "net.2" "Linear" [linear "linear_1"]
  %tanh = tanh(%add_1) : f32[4,16] at "net.3" "Tanh" [tanh "tanh"]
  %transpose_2 = transpose(%model.net.4.weight) {permutation = [1, 0]} : f32[16,5] at "net.4" "Linear" [linear "linear_2"]
  %matmul_2 = matmul(%tanh, %transpose_2) {transpose_a = false, transpose_b = false} : f32[4,5] at "net.4" "Linear" [linear "linear_2"]
  %add_2 = add(%matmul_2, %model.net.4.bias) : f32[4,5] at "net.4" "Linear" [linear "linear_2"]
}
)");
}

// But for what results are called, to the letter: after recognition, and as a whole step. ONNX's exporter gives q and k
// a root of the scale each, whose square is rounded.
TEST(Pt2, IsTheModelOfTheOnnxGraph) {
    const auto replaced = [](std::string text, const std::string& from, const std::string& to) {
        for (std::size_t at = text.find(from); at != std::string::npos; at = text.find(from))
            text.replace(at, from.size(), to);
        return text;
    };
    for (const char* pass : {"simplify_raised", "simplify_step"}) {
        const std::string text = after(pass, "llama2/ep.logits.pt2", {});
        ASSERT_FALSE(text.empty());
        EXPECT_EQ(replaced(text, "\"linear_14\"", "\"logits\""),
                  replaced(after(pass, "llama2/noopt.logits.onnx", {}), "0.5000000000000001", "0.5"))
            << pass;
    }
}

TEST(Pt2, TiedAndFrozenParametersAreAsTheModelHasThem) {
    const std::vector<std::string> tied = parameters(import_model(fixture("llama2_tied/ep.logits.pt2"), {}));
    EXPECT_EQ(tied.size(), reference("llama2_tied").at("parameters").size());
    EXPECT_EQ(tied.front(), "model.embed_tokens.weight = lm_head.weight");
    const TemporaryFile file("frozen.pt2");
    write_changed(file.path(), "mlp/ep.logits.pt2", [](nlohmann::json& program) {
        auto& tensors = program["graph_module"]["graph"]["tensor_values"];
        tensors["p_model_net_2_weight"]["requires_grad"] = false;
    });
    EXPECT_EQ(parameters(import_model(file.path(), {})),
              (std::vector<std::string>{"net.0.weight", "net.0.bias", "net.2.weight, frozen", "net.2.bias",
                                        "net.4.weight", "net.4.bias"}));
}

// One name of a parameter is frozen, or a buffer's: the other one trains it, and it has no gradient through this one.
TEST(Pt2, AParameterIsTrainedByTheNamesThatAre) {
    const auto check = [](const std::string& what, const std::function<void(nlohmann::json&)>& change) {
        const TemporaryFile file("names.pt2");
        write_changed(file.path(), "llama2_tied/ep.logits.pt2", change);
        const Module module = import_model(file.path(), {});
        verify(module);
        EXPECT_TRUE(parameters(module).front().starts_with("model.embed_tokens.weight")) << what;
        EXPECT_FALSE(parameters(module).front().ends_with("frozen")) << what;
        const std::vector<ArgInfo>& all = module.main().argument_info;
        const auto first = std::find_if(all.begin(), all.end(),
                                        [](const ArgInfo& info) { return info.kind == ArgInfo::Kind::parameter; });
        const Value weight = module.main().arguments[static_cast<std::size_t>(first - all.begin())];
        const auto stopped = [&](const Op& op) { return op.name == "stop_gradient" && op.operands.front() == weight; };
        EXPECT_EQ(std::count_if(module.main().ops.begin(), module.main().ops.end(), stopped), 1) << what;
    };
    for (const std::string name : {"p_model_model_embed_tokens_weight", "p_model_lm_head_weight"})
        check(name, [&](nlohmann::json& program) {
            program["graph_module"]["graph"]["tensor_values"][name]["requires_grad"] = false;
        });
    check("a buffer", [](nlohmann::json& program) {
        for (auto& spec : program["graph_module"]["signature"]["input_specs"])
            if (spec.contains("parameter") && spec["parameter"]["parameter_name"] == "model.lm_head.weight")
                spec = {{"buffer",
                         {{"arg", spec["parameter"]["arg"]},
                          {"buffer_name", "model.lm_head.weight"},
                          {"persistent", true}}}};
    });
}

// By the keys of dictionaries and the fields of classes; in a tuple, as the program calls them.
TEST(Pt2, OutputsAreCalledAsForwardReturnsThem) {
    const auto names_for = [](const std::string& spec) {
        const TemporaryFile file("outputs.pt2");
        write_changed(file.path(), "mlp/ep.logits.pt2", [&](nlohmann::json& program) {
            program["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = spec;
        });
        return import_model(file.path(), {}).main().result_names;
    };
    using Names = std::vector<std::string>;
    const std::string leaf = R"({"type": null, "context": null, "children_spec": []})";
    const std::string fields = R"({"type": "some.Output", "context": "[\"scores\"]", "children_spec": [)" + leaf + "]}";
    EXPECT_EQ(names_for("[1, " + fields + "]"), Names{"scores"});
    EXPECT_EQ(
        names_for(R"([1, {"type": "builtins.dict", "context": "[\"head\"]", "children_spec": [)" + fields + "]}]"),
        Names{"head.scores"});
    EXPECT_EQ(names_for(R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": [)" + leaf + "]}]"),
              Names{"linear_2"});
    EXPECT_EQ(names_for("no tree"), Names{"linear_2"});
    // A data class, with a field that is None; a named tuple of the file itself, and of thunderc.export.
    EXPECT_EQ(names_for(R"([1, {"type": "some.Data", "context": "[[\"scores\"], [\"loss\"]]", "children_spec": [)" +
                        leaf + "]}]"),
              Names{"scores"});
    const auto named_tuple = [&](const std::string& context) {
        return names_for(R"([1, {"type": "collections.namedtuple", "context": ")" + context +
                         R"(", "children_spec": [)" + leaf + "]}]");
    };
    EXPECT_EQ(named_tuple("some.Pair(scores)"), Names{"scores"});
    for (const char* other : {"some.Pair", "some.Pair(", "some.Pair()", "some.Pair(a, b)", "(,"})
        EXPECT_EQ(named_tuple(other), Names{"linear_2"}) << other;
}

// An export keeps forward() of an autograd.Function alone: the lines of the author's code tell of it.
TEST(Pt2, FunctionsWithABackwardOfTheirOwn) {
    const auto warned = [](const std::string& trace) {
        const TemporaryFile file("function.pt2");
        write_changed(file.path(), "mlp/ep.logits.pt2", [&](nlohmann::json& program) {
            for (auto& node : program["graph_module"]["graph"]["nodes"]) node["metadata"]["stack_trace"] = trace;
        });
        Report report;
        import_model(file.path(), {}, report);
        std::string out;
        for (const Note& note : report.notes)
            if (note.what == "backward") out += note.where + "; ";
        return out;
    };
    const auto frame = [](const std::string& file, const std::string& function, const std::string& code) {
        return "File \"" + file + "\", line 12, in " + function + "\n    " + code + "\n  ";
    };
    const std::string own = frame("/home/me/model.py", "forward", "y = ops.Round.apply(x) + 1"),
                      inner = frame("/home/me/ops.py", "forward", "return x.round()");
    EXPECT_EQ(warned(own + inner), "ops.Round (model.py:12); ");
    EXPECT_EQ(warned(own + frame("/lib/torch/_functorch/autograd_function.py", "inner", "orig_fwd(x)") + inner),
              "ops.Round (model.py:12); ");
    EXPECT_EQ(warned(own), "");
    EXPECT_EQ(warned(frame("/home/me/model.py", "forward", "return self.layer(x)") + inner), "");
    EXPECT_EQ(warned(own + frame("/home/me/model.py", "<lambda>", "x.round()")), "");
    EXPECT_EQ(warned(frame("/lib/torch/utils/checkpoint.py", "checkpoint", "CheckpointFunction.apply(f, x)") + inner),
              "");
    for (const char* damaged :
         {"", "File \"", "File \"a\", line ", "File \"a\", line 1, in ", "File \"a\", line 1\n.apply("})
        EXPECT_EQ(warned(damaged), "");
}

// Fake tensors have no bytes, and all name one entry: no tie is made of that.
TEST(Pt2, WeightsThatAreAbsentAreNotTied) {
    Entries entries = entries_of(fixture("mlp/ep.logits.pt2"));
    const std::string config = "model/data/weights/model_weights_config.json";
    nlohmann::json weights = nlohmann::json::parse(entries.at(config));
    for (auto& [name, weight] : weights["config"].items()) weight["path_name"] = "weight_0";
    entries[config] = weights.dump();
    entries["model/data/weights/weight_0"].clear();
    const TemporaryFile file("bare.pt2");
    write_zip(file.path(), entries);
    const Module module = import_model(file.path(), {});
    EXPECT_EQ(parameters(module).size(), 6U);
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter) {
            EXPECT_FALSE(info.sources.front()->read);
            EXPECT_NE(info.sources.front()->missing.find("weight_0"), std::string::npos);
        }
}

// Bytes of parameters, whether stored or deflated, in whatever place and order of a storage.
TEST(Pt2, WeightsAreReadInPlace) {
    const std::map<std::string, Tensor> wanted = tensors("mlp/params.safetensors");
    const auto read = [](const std::filesystem::path& path) {
        const Module module = import_model(path, {});
        std::map<std::string, std::vector<std::byte>> out;
        for (const ArgInfo& info : module.main().argument_info)
            if (info.kind == ArgInfo::Kind::parameter) out[info.names.front()] = info.sources.front()->read();
        return out;
    };
    const auto expect_wanted = [&](const std::map<std::string, std::vector<std::byte>>& is) {
        ASSERT_EQ(is.size(), wanted.size());
        for (const auto& [name, bytes] : is) {
            const Tensor& tensor = wanted.at(name);
            ASSERT_EQ(bytes.size(), 4 * tensor.f.size());
            for (std::size_t k = 0; k < tensor.f.size(); ++k) {
                float v = 0;
                std::memcpy(&v, bytes.data() + 4 * k, 4);
                EXPECT_EQ(static_cast<double>(v), tensor.f[k]) << name;
            }
        }
    };
    expect_wanted(read(fixture("mlp/ep.logits.pt2")));
    Entries entries = entries_of(fixture("mlp/ep.logits.pt2"));
    const TemporaryFile file("stored.pt2");
    write_zip(file.path(), entries, false);
    expect_wanted(read(file.path()));
    // The first weight, (16, 12), by columns and behind three other numbers.
    const std::string config = "model/data/weights/model_weights_config.json";
    nlohmann::json weights = nlohmann::json::parse(entries.at(config));
    nlohmann::json& first = weights["config"]["model.net.0.weight"];
    const std::string place = "model/data/weights/" + first.at("path_name").get<std::string>();
    const std::string rows = entries.at(place);
    std::string columns(12, 'x');
    for (std::size_t c = 0; c < 12; ++c)
        for (std::size_t r = 0; r < 16; ++r) columns += rows.substr(4 * (12 * r + c), 4);
    entries[place] = columns;
    first["tensor_meta"]["strides"] = {{{"as_int", 1}}, {{"as_int", 16}}};
    first["tensor_meta"]["storage_offset"] = {{"as_int", 3}};
    entries[config] = weights.dump();
    write_zip(file.path(), entries);
    expect_wanted(read(file.path()));
}

// The losses of PyTorch's first step, by the graph as it is imported, evaluated in fp64.
TEST(Pt2, LossesArePyTorchs) {
    struct Case {
        const char* model;
        CompileOptions options;
    };
    for (const auto& [model, options] : {Case{"mlp", of(4)}, Case{"llama2", of(2, 8)}, Case{"gpt2", of(2, 8)}}) {
        const Module module = import_model(fixture(std::string(model) + "/ep_dyn.loss.pt2"), options);
        verify(module);
        const auto batch = tensors(std::string(model) + "/batch.safetensors");
        const auto params = tensors(std::string(model) + "/params.safetensors");
        const nlohmann::json numbers = reference(model);
        std::vector<Tensor> arguments;
        for (std::size_t k = 0; k < module.main().arguments.size(); ++k) {
            const ArgInfo& info = module.main().argument_info[k];
            const std::string& name = info.names.front();
            if (info.kind == ArgInfo::Kind::input) {
                arguments.push_back(batch.at(numbers.at("loss_graph_inputs").at(name).get<std::string>() + "_0"));
            } else if (params.contains(name)) {
                arguments.push_back(params.at(name));
            } else {  // a constant
                arguments.push_back(stored_numbers(info, module.main().type(module.main().arguments[k])));
            }
        }
        const std::vector<Tensor> results = evaluate(module, module.main(), std::span<const Tensor>(arguments));
        // PyTorch computed in f64 from weights in f32; tables of f32 are a part of what it read.
        EXPECT_NEAR(results.front().f[0], numbers.at("loss64")[0].get<double>(), 1e-6) << model;
    }
}

TEST(Pt2, DimensionsAreHeldAgainstTheRangesOfTheExport) {
    EXPECT_EQ(error_of([] { import_model(fixture("llama2/ep_dyn.loss.pt2"), of(2, 40)); }),
              "error: dimension 1 of the input input_ids is 40, and the model was exported for others\n"
              "  expected: 0 to 32\n"
              "  found: 40\n"
              "help: choose another value for --batch, --seq or --dim, or export the model with a wider range\n");
    EXPECT_EQ(error_of([] { import_model(fixture("llama2/ep_dyn.loss.pt2"), of(2)); }),
              "error: the dynamic dimension s38 (dimension 1 of the input input_ids) is not bound\n"
              "help: add --seq N\n");
    verify(import_model(fixture("llama2/ep_dyn.loss.pt2"), of(3, 32)));
}

// Schemas 8.15 and 8.20 as PyTorch 2.10 and 2.12 wrote them: the same model and weights as 2.13's.
TEST(Pt2, FilesOfOtherVersions) {
    for (const char* version : {"2.10.0", "2.12.0"}) {
        const Module module = import_model(fixture(std::string("mlp/torch_") + version + ".logits.pt2"), of(4));
        verify(module);
        const auto batch = tensors("mlp/batch.safetensors"), params = tensors("mlp/params.safetensors");
        std::vector<Tensor> arguments;
        for (std::size_t k = 0; k < module.main().arguments.size(); ++k) {
            const ArgInfo& info = module.main().argument_info[k];
            if (info.kind == ArgInfo::Kind::input) {
                arguments.push_back(batch.at("x_0"));
            } else {
                arguments.push_back(stored_numbers(info, module.main().type(module.main().arguments[k])));
                EXPECT_EQ(arguments.back().f, params.at(info.names.front()).f) << version;
            }
        }
        const std::vector<Tensor> logits = evaluate(module, module.main(), std::span<const Tensor>(arguments));
        ASSERT_EQ(logits.front().type.dims, (Dims{4, 5}));
        // The loss of PyTorch's first step, by hand.
        double loss = 0;
        for (std::int64_t row = 0; row < 4; ++row) {
            double sum = 0;
            for (std::int64_t c = 0; c < 5; ++c) sum += std::exp(logits.front().at(5 * row + c));
            loss += std::log(sum) - logits.front().at(5 * row + batch.at("labels_0").i[static_cast<std::size_t>(row)]);
        }
        EXPECT_NEAR(loss / 4, reference("mlp").at("loss64")[0].get<double>(), 1e-6) << version;
    }
}

// Conditions that the exporter found in the code, which are no ranges.
TEST(Pt2, GuardsOfTheExport) {
    const auto with = [](const std::vector<std::string>& guards, std::int64_t seq) {
        const TemporaryFile file("model.pt2");
        write_changed(file.path(), "llama2/ep_dyn.loss.pt2",
                      [&](nlohmann::json& program) { program["guards_code"] = guards; });
        return error_of([&] { import_model(file.path(), of(2, seq)); });
    };
    const std::vector<std::string> guards = {"2*L['input_ids'].size()[1] <= 40", "L['input_ids'].size()[1] != 8",
                                             "L['labels'].size()[1] == L['input_ids'].size()[1]",
                                             "L['input_ids'].size()[1] % 3 == 0"};
    EXPECT_EQ(with(guards, 9), "no error");
    EXPECT_EQ(with({guards.begin(), guards.begin() + 3}, 21),
              "error: the model was exported under a condition that does not hold for these sizes\n"
              "  expected: 2*input_ids.size(1) <= 40\n"
              "  found: input_ids [2,21], labels [2,21]\n"
              "help: choose another value for --batch, --seq or --dim, or export the model with a wider range\n");
    EXPECT_NE(with(guards, 8).find("input_ids.size(1) != 8"), std::string::npos);
    EXPECT_NE(with(guards, 10).find("input_ids.size(1) % 3 == 0"), std::string::npos);
    // What is of another form says nothing.
    EXPECT_EQ(with({"L['other'].size()[0] == 1", "L['labels'].size()[9] == 1", "isinstance(L['labels'], Tensor)",
                    "L['labels'", "L['labels'].size()[99999999999999999999] == 1", ""},
                   9),
              "no error");
}

// A batch that the author asked to be even, or one more than something.
TEST(Pt2, DimensionsThatFollowFromWhatIsNone) {
    const auto with = [](const std::string& expression, std::int64_t batch) {
        Entries entries = entries_of(fixture("mlp/ep_dyn.loss.pt2"));
        std::string& text = entries.at(model_entry);
        const std::size_t at = text.find("Symbol('"), end = text.find(')', at) + 1;
        const std::string symbol = text.substr(at, end - at), name = symbol.substr(8, symbol.find('\'', 8) - 8);
        std::string changed = expression;
        changed.replace(changed.find('s'), 1, symbol);
        for (std::size_t next = text.find(symbol); next != std::string::npos;
             next = text.find(symbol, next + changed.size()))
            text.replace(next, symbol.size(), changed);
        const TemporaryFile file("even.pt2");
        write_zip(file.path(), entries);
        CompileOptions options;
        options.batch = batch;
        const Module module = import_model(file.path(), options);
        return to_string(module.main().type(module.main().arguments.front()).dims);
    };
    EXPECT_EQ(with("Mul(Integer(2), s)", 8), "8,12");
    EXPECT_EQ(with("Add(Mul(Integer(3), s), Integer(1))", 7), "7,12");
    const std::string error = error_of([&] { with("Mul(Integer(2), s)", 7); });
    EXPECT_TRUE(error.starts_with(
        "error: dimension 0 of the input x is 7, and the model was exported for others\n  expected: 2*s"))
        << error;
    EXPECT_NE(error.find("\n  found: 7\nhelp: choose another value for --batch"), std::string::npos) << error;
}

TEST(Pt2, ExpressionsOverSizes) {
    const std::map<std::string, std::int64_t> symbols = {{"s0", 7}, {"s77", 4}};
    EXPECT_EQ(evaluate("s77", symbols), 4);
    EXPECT_EQ(evaluate("Symbol('s77', positive=True, integer=True)", symbols), 4);
    EXPECT_EQ(evaluate("Add(Mul(Integer(2), Symbol('s77', integer=True)), Integer(-1))", symbols), 7);
    EXPECT_EQ(evaluate("2*s77 + s0**2", symbols), 57);
    EXPECT_EQ(evaluate("-(s0//2)", symbols), -3);
    EXPECT_EQ(evaluate("(0 - s0)//2", symbols), -4);
    EXPECT_EQ(evaluate("Mod(s0, 4) + Max(1, s0, 3) - Min(s0, 2)", symbols), 8);
    EXPECT_EQ(evaluate("FloorDiv(s0, 2) + CeilDiv(s0, 2)", symbols), 7);
    for (const char* none : {"", "u0", "s0 +", "s0/2", "s0//0", "sin(s0)", "2**99", "9223372036854775807 + 1", "(s0",
                             "s0)", "Symbol('s0'", "s0 s77"})
        EXPECT_EQ(evaluate(none, symbols), std::nullopt) << none;
    EXPECT_EQ(evaluate(std::string(100000, '('), symbols), std::nullopt);
    EXPECT_EQ(evaluate(std::string(100000, '-'), symbols), std::nullopt);
    EXPECT_EQ(symbol_of("Symbol('s77', positive=True, integer=True)"), "s77");
    EXPECT_EQ(symbol_of("s77"), "s77");
    for (const char* none : {"", "2*s77", "Symbol('s77') + Symbol('s1')", "12"})
        EXPECT_EQ(symbol_of(none), std::nullopt);
    EXPECT_EQ(linear_form("Add(Mul(Integer(2), Symbol('s77', integer=True)), Integer(-1))").value().text(), "2*s77-1");
    EXPECT_EQ(linear_form("s77 + 3*s77 + 1").value().text(), "4*s77+1");
    EXPECT_EQ(linear_form("s77").value().text(), "s77");
    for (const char* none : {"", "12", "s77*s77", "s77 + s1", "0 - s77", "s77//2", "Max(s77, 2)", "2*s77 +"})
        EXPECT_EQ(linear_form(none), std::nullopt) << none;
    const Linear odd{"s", 2, 1};
    EXPECT_EQ(odd.solve(7), 3);
    EXPECT_EQ(odd.solve(8), std::nullopt);
    EXPECT_EQ(odd.solve(0), std::nullopt);
}

}  // namespace pt2_test
}  // namespace thunderc
