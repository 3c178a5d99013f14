// SPDX-License-Identifier: Apache-2.0
// TorchScript archives: what is read of them, and that it is the same model as the program of torch.export.
#include <algorithm>

#include "compiler/ir/print.h"
#include "compiler/passes/pass_manager.h"
#include "compiler/pipeline.h"
#include "compiler/support/report.h"
#include "tests/frontend/torchscript_archive.h"
#include "tests/support/zip64.h"

namespace thunderc {
namespace torchscript_test {

std::string imported(const Entries& entries, const CompileOptions& options) {
    const TemporaryFile file("script.pt");
    write_zip(file.path(), entries);
    const Module module = import_model(file.path(), options);
    verify(module);
    return to_string(module.main(), {.provenance = false});
}

// The body of main, of a model of x f32[2, 2] with a weight of 2 by 3 and a bias of 3.
std::string body(const std::string& methods, const std::string& more = "") {
    const std::string text = imported(script_of(methods, more), with_input("x", "f32", {2, 2}));
    const std::size_t begin = text.find("{\n"), end = text.rfind('}');
    return text.substr(begin + 2, end - begin - 2);
}

std::string forward(const std::string& lines) {
    return "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    weight = self.weight\n" + lines;
}

// The module after a pass, without what says where it came from.
std::string after(const std::string& pass, const std::string& file) {
    CompileOptions options;
    if (file.starts_with("models/") && file.find("logits") != std::string::npos) options.loss = "cross-entropy";
    std::vector<PassRun> runs;
    std::string text;
    PassOptions watch;
    watch.after = [&](const Module& module, const PassRun& run) {
        if (run.name == pass) text = to_string(module.main(), {.provenance = false});
    };
    run_passes(import_model(fixture(file), options), pipeline(options), runs, watch);
    return text;
}

// To the letter: as it is imported with the names of nodes, scopes and classes; of others, whose code asks for sizes as
// it runs, after recognition.
TEST(TorchScript, IsTheModelOfTheProgramOfTorchExport) {
    EXPECT_EQ(to_string(import_model(fixture("mlp/ts.logits.pt"), {}).main()),
              to_string(import_model(fixture("mlp/ep.logits.pt2"), {}).main()));
    for (const std::string model : {"llama2", "llama2_tied", "models/resnet_train", "models/bert"}) {
        const std::string text = after("simplify_raised", model + "/ts.logits.pt");
        ASSERT_FALSE(text.empty());
        EXPECT_EQ(text, after("simplify_raised", model + "/ep.logits.pt2")) << model;
    }
    EXPECT_EQ(after("simplify_raised", "models/mamba/ts.loss.pt"),
              after("simplify_raised", "models/mamba/ep.loss.pt2"));
}

TEST(TorchScript, MethodsAreInlinedAndLoopsUnrolled) {
    EXPECT_EQ(body(forward("    y = torch.matmul(x, weight)\n"
                           "    for i in range(self.n):\n"
                           "      y = (self).more(y, i, )\n"
                           "    return y\n"
                           "  def more(self: __torch__.M,\n"
                           "    x: Tensor,\n"
                           "    k: int,\n"
                           "    scale: float=0.5) -> Tensor:\n"
                           "    if torch.eq(k, 1):\n"
                           "      y = torch.mul(x, scale)\n"
                           "    else:\n"
                           "      y = torch.add(x, self.bias, alpha=1)\n"
                           "    return y\n")),
              R"(  %matmul = matmul(%x, %weight) {transpose_a = false, transpose_b = false} : f32[2,3]
  %add = add(%matmul, %bias) : f32[2,3]
  %constant = constant() {value = <f32[] splat 0.5>} : f32[]
  %mul = mul(%add, %constant) : f32[2,3]
  %add_1 = add(%mul, %bias) : f32[2,3]
)");
}

// Without gradients what is computed is a constant to them; a list is one, whatever names it.
TEST(TorchScript, ListsTuplesAndGradients) {
    const std::string no_grad = "__torch__.torch.autograd.grad_mode.no_grad";
    EXPECT_EQ(body(forward("    l = annotate(List[Tensor], [x])\n"
                           "    k = l\n"
                           "    _0 = " +
                           no_grad + ".__new__(" + no_grad +
                           ")\n"
                           "    _1 = (_0).__init__()\n"
                           "    with _0:\n"
                           "      y = torch.neg(x)\n"
                           "    _2 = torch.append(k, y)\n"
                           "    a, b, = (l, torch.len(l))\n"
                           "    z = annotate(Optional[Tensor], None)\n"
                           "    if torch.__is__(z, None):\n"
                           "      c = torch.cat(a, -1)\n"
                           "    else:\n"
                           "      c = unchecked_cast(Tensor, z)\n"
                           "    return torch.mul(c, b)\n")),
              R"(  %neg = neg(%x) : f32[2,2]
  %stop_gradient = stop_gradient(%neg) : f32[2,2]
  %concat = concat(%x, %stop_gradient) {axis = 1} : f32[2,4]
  %constant = constant() {value = <f32[] splat 2.0>} : f32[]
  %mul = mul(%concat, %constant) : f32[2,4]
)");
}

// l += [x] is the list itself, longer.
TEST(TorchScript, ListsThatAreAddedTo) {
    EXPECT_EQ(body(forward("    l = [x]\n"
                           "    k = torch.add_(l, [x])\n"
                           "    return torch.cat(l, -1)\n")),
              "  %concat = concat(%x, %x) {axis = 1} : f32[2,4]\n");
}

// By the storages that tensors share; bytes in whatever order of a storage.
TEST(TorchScript, TiedAndFrozenParameters) {
    Entries entries = script_of("  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    return x\n");
    std::string& code = entries["m/code/__torch__.py"];
    code.replace(code.find("\"bias\", "), 8, "\"bias\", \"again\", \"turned\", ");
    PickleText data;
    data.begin_object("__torch__", "M").text("weight").tensor("FloatStorage", "0", {2, 3}, true);
    data.text("bias").tensor("FloatStorage", "1", {3}, false).text("again").tensor("FloatStorage", "0", {2, 3}, true);
    data.text("turned").tensor("FloatStorage", "0", {3, 2}, {1, 3}, true, 0, 6).end_object();
    entries["m/data.pkl"] = data.end();
    const TemporaryFile file("tied.pt");
    write_zip(file.path(), entries);
    Report report;
    const Module module = import_model(file.path(), with_input("x", "f32", {2, 2}), report);
    std::vector<std::string> parameters;
    for (const ArgInfo& info : module.main().argument_info)
        if (info.kind == ArgInfo::Kind::parameter)
            parameters.push_back(info.names.front() + (info.trainable ? "" : ", frozen") +
                                 (info.aliases.front().empty() ? "" : " = " + info.aliases.front().front()));
    EXPECT_EQ(parameters, (std::vector<std::string>{"weight = again", "bias, frozen", "turned"}));
    EXPECT_EQ(stored_numbers(module.main().argument_info.back(), Type::tensor(DType::f32, {3, 2})).f,
              (std::vector<double>{1, 4, 2, 5, 3, 6}));
    const auto warned = [&](const std::string& text) {
        return std::any_of(report.notes.begin(), report.notes.end(),
                           [&](const Note& note) { return note.text.find(text) != std::string::npos; });
    };
    EXPECT_TRUE(warned("has numbers in common with turned"));
}

// As those above 4 GiB are: 64 bits say where an entry stands, and how large it is.
TEST(TorchScript, LargeArchives) {
    const Entries entries = entries_of(fixture("mlp/ts.logits.pt"));
    const TemporaryFile file("large.pt");
    tests::write_zip64(file.path(), {entries.begin(), entries.end()});
    EXPECT_GT(std::filesystem::file_size(file.path()), std::uint64_t{1} << 32U);
    const Module large = import_model(file.path(), {}), same = import_model(fixture("mlp/ts.logits.pt"), {});
    EXPECT_EQ(to_string(large.main()), to_string(same.main()));
    for (std::size_t k = 0; k < same.main().arguments.size(); ++k) {
        const ArgInfo& info = same.main().argument_info[k];
        if (info.kind != ArgInfo::Kind::parameter) continue;
        EXPECT_EQ(large.main().argument_info[k].sources.front()->read(), info.sources.front()->read());
    }
}

// Every second number of a storage, from the first on: as pairs of real ones.
TEST(TorchScript, BuffersOfComplexNumbers) {
    const auto held = [](const std::string& declared) {
        Entries entries = script_of(
            "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n"
            "    return torch.view_as_real(torch.mul(torch.view_as_complex(x), self.turns))\n");
        std::string& code = entries["m/code/__torch__.py"];
        const std::string list = declared + " = [";
        const std::size_t at = code.find(list) + list.size();
        code.insert(at, "\"turns\", ");
        PickleText data;
        data.begin_object("__torch__", "M").text("weight").tensor("FloatStorage", "0", {2, 3}, true);
        data.text("turns").tensor("ComplexFloatStorage", "2", {2}, {2}, false, 1, 4).end_object();
        entries["m/data.pkl"] = data.end();
        entries["m/data/2"] = floats({1, 2, 3, 4, 5, 6, 7, 8});
        return entries;
    };
    const TemporaryFile file("complex.pt");
    write_zip(file.path(), held("__buffers__"));
    const Module module = import_model(file.path(), with_input("x", "f32", {2, 2}));
    EXPECT_EQ(stored_numbers(module.main().argument_info.back(), Type::tensor(DType::f32, {2, 2})).f,
              (std::vector<double>{3, 4, 7, 8}));
    EXPECT_EQ(module.main().type(module.main().results.front()).dims, (Dims{2, 2}));
    EXPECT_EQ(error_of([&] {
                  imported(held("__parameters__"), with_input("x", "f32", {2, 2}));
              }),
              "error: the parameter turns is of complex numbers\n"
              "help: keep its real and imaginary parts as two parameters\n");
}

TEST(TorchScript, InputsWithinOthers) {
    CompileOptions options = with_input("h.0", "f32", {2, 2});
    options.inputs["h.1"] = options.inputs["l.0"] = options.inputs["l.1"] = options.inputs["d.key"] =
        options.inputs["h.0"];
    const std::string text = imported(script_of("  def forward(self: __torch__.M,\n"
                                                "    h: Tuple[Tensor, Tensor],\n"
                                                "    l: List[Tensor],\n"
                                                "    d: Dict[str, Tensor],\n"
                                                "    mask: Optional[Tensor]=None,\n"
                                                "    flag: bool=True) -> Tensor:\n"
                                                "    a, b, = h\n"
                                                "    if torch.__is__(mask, None):\n"
                                                "      c = torch.sub(a, b)\n"
                                                "    else:\n"
                                                "      c = a\n"
                                                "    return torch.mul(torch.add(c, d[\"key\"]), l[-1])\n"),
                                      options);
    EXPECT_NE(text.find("%h.0: f32[2,2] input \"h.0\" {batched},\n    %h.1: f32[2,2] input \"h.1\" {batched},\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("%sub = sub(%h.0, %h.1) : f32[2,2]\n  %add = add(%sub, %d.key) : f32[2,2]\n"
                        "  %mul = mul(%add, %l.1) : f32[2,2]\n"),
              std::string::npos)
        << text;
}

// The inputs that a model was traced with say shapes, of those within dictionaries as well; --batch gives others.
TEST(TorchScript, TracedInputsSayShapes) {
    Entries entries = script_of(
        "  def forward(self: __torch__.M,\n    x: Dict[str, Tensor]) -> Dict[str, Tensor]:\n"
        "    return {\"scores\": torch.matmul(x[\"image\"], self.weight)}\n");
    PickleText inputs;
    inputs.add("}(").text("forward").add("](}(").text("image").tensor("FloatStorage", "0", {4, 2}, false).add("ueu");
    entries["m/traced_inputs.pkl"] = inputs.end();
    entries["m/traced_inputs/0"] = "";
    const std::string text = imported(entries, {});
    EXPECT_NE(text.find("%x.image: f32[4,2] input \"x.image\" {batched}"), std::string::npos) << text;
    EXPECT_NE(text.find("-> (%matmul \"scores\")"), std::string::npos) << text;
    CompileOptions options;
    options.batch = 7;
    EXPECT_NE(imported(entries, options).find("%x.image: f32[7,2] input"), std::string::npos);
}

// torch.jit.trace keeps tensors of keyword inputs in the order of the call, without their names.
TEST(TorchScript, TracedInputsAreToldByTheirOrder) {
    const auto warnings = [](const std::string& result, std::vector<Dims> shapes, const CompileOptions& options = {}) {
        Entries entries = script_of(
            "  def forward(self: __torch__.M,\n    x: Tensor,\n    y: Tensor) -> Tensor:\n    return " + result + "\n");
        PickleText inputs;
        inputs.add("}(").text("forward").add("](");
        for (std::size_t k = 0; k < shapes.size(); ++k)
            inputs.tensor("FloatStorage", std::to_string(k), shapes[k], false);
        entries["m/traced_inputs.pkl"] = inputs.add("eu").end();
        for (std::size_t k = 0; k < shapes.size(); ++k) entries["m/traced_inputs/" + std::to_string(k)] = "";
        const TemporaryFile file("script.pt");
        write_zip(file.path(), entries);
        Report report;
        import_model(file.path(), options, report);
        std::string out;
        for (const Note& note : report.notes)
            if (note.text.find("told apart") != std::string::npos) out += note.where + "; ";
        return out;
    };
    const std::string either = "torch.matmul(torch.sub(x, y), self.weight)",
                      one = "torch.sub(torch.matmul(x, self.weight), y)";
    EXPECT_EQ(warnings(either, {{4, 2}, {1, 2}}), "x f32[4,2], y f32[1,2]; ");
    EXPECT_EQ(warnings(either, {{4, 2}, {4, 2}}), "");
    EXPECT_EQ(warnings(one, {{4, 2}, {4, 3}}), "");
    CompileOptions said = with_input("x", "f32", {1, 2});
    said.inputs["y"] = {"f32", {{4, ""}, {2, ""}}};
    EXPECT_EQ(warnings(either, {{4, 2}, {1, 2}}, said), "");
    // What is not there for each input is of none.
    EXPECT_EQ(error_of([&] {
                  warnings(one, {{4, 3}});
              }),
              "error: nothing says which shape and type the inputs x, y have\n"
              "help: a trace of keyword inputs that hold several tensors has no shapes; say them: --input x=f32[2,8] "
              "--input y=f32[2,8] (i64 for ids, names instead of numbers for what --batch, --seq and --dim bind)\n");
}

// A part that is written to is one of the whole.
TEST(TorchScript, WritesReachWhatTheyAreViewsOf) {
    EXPECT_EQ(body(forward("    y = torch.clone(x)\n"
                           "    _0 = torch.fill_(torch.select(y, 0, 1), 7)\n"
                           "    return y\n")),
              R"(  %slice = slice(%x) {axis = 0, begin = 1, end = 2, step = 1} : f32[1,2]
  %reshape = reshape(%slice) {dims = [2]} : f32[2]
  %constant = constant() {value = <f32[] splat 7.0>} : f32[]
  %broadcast_to = broadcast_to(%constant) {dims = [2]} : f32[2]
  %reshape_1 = reshape(%broadcast_to) {dims = [1, 2]} : f32[1,2]
  %slice_1 = slice(%x) {axis = 0, begin = 0, end = 1, step = 1} : f32[1,2]
  %concat = concat(%slice_1, %reshape_1) {axis = 0} : f32[2,2]
)");
    EXPECT_EQ(body(forward("    y = torch.zeros([2, 2])\n"
                           "    _0 = torch.neg(x, out=y)\n"
                           "    return torch.mul(y, x)\n")),
              R"(  %constant = constant() {value = <f32[2,2] splat 0.0>} : f32[2,2]
  %neg = neg(%x) : f32[2,2]
  %mul = mul(%neg, %x) : f32[2,2]
)");
    const auto error = [](const std::string& lines) { return error_of([&] { body(forward(lines)); }); };
    // Whether it is a copy depends on what nothing says.
    EXPECT_EQ(error("    y = torch.contiguous(x)\n    _0 = torch.add_(y, 1)\n    return x\n").substr(0, 65),
              "error: the model reads x after it wrote, in place, to memory that");
    EXPECT_EQ(error("    y = torch.contiguous(x)\n    _0 = torch.add_(y, 1)\n    return y\n"), "no error");
    const std::string both =
        "    y = torch.mul(x, 2)\n    a, b, = torch.broadcast_tensors([y, x])\n    _0 = torch.add_(a, 1)\n";
    EXPECT_EQ(error(both + "    return y\n").substr(0, 65),
              "error: the model reads mul after it wrote, in place, to memory th");
    EXPECT_EQ(error(both + "    return b\n"), "no error");
}

// Where it says of which version its operators are: PyTorch writes it elsewhere from the sixth on.
TEST(TorchScript, VersionsOfOperators) {
    const auto error = [](const std::string& name, const std::string& version) {
        return error_of([&] {
            Entries entries = script_of(
                "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n"
                "    return torch.div(x, 2, rounding_mode=\"trunc\")\n");
            entries.erase("m/version");
            entries["m/" + name] = version;
            imported(entries, with_input("x", "i64", {2, 2}));
        });
    };
    EXPECT_EQ(error("version", "4\n"), "no error");
    EXPECT_EQ(error(".data/version", "10\n"), "no error");
    EXPECT_EQ(error("version", "3\n").substr(0, 72),
              "error: the archive is of PyTorch before 1.6, where integers were divided");
}

TEST(TorchScript, NumbersThatAreNotWhatTheySeem) {
    const auto error = [](const std::string& type, const std::string& lines) {
        return error_of([&] {
            Entries entries = script_of("  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" + lines);
            std::string& code = entries["m/code/__torch__.py"];
            code.replace(code.find("__buffers__ = []"), 16, "__buffers__ = [\"steps\", ]");
            PickleText data;
            data.begin_object("__torch__", "M").text("weight").tensor("FloatStorage", "0", {2, 3}, true);
            entries["m/data.pkl"] = data.text("steps").tensor("LongStorage", "2", {}, false).end_object().end();
            entries["m/data/2"] = std::string(8, '\0');
            imported(entries, with_input("x", type, {2, 2}));
        });
    };
    const std::string counts = "    steps = self.steps\n    _0 = torch.add_(steps, 1)\n";
    EXPECT_EQ(error("f32", counts + "    return x\n"), "no error");
    const std::string counted =
        "error: the model reads a number of steps that it counts itself, which a program does not do\n"
        "help: give batch norms a momentum (not None), or call eval() before the model is saved\n";
    EXPECT_EQ(error("f32", counts + "    return torch.mul(x, torch.div(1., float(steps)))\n"), counted);
    EXPECT_EQ(error("f32", counts + "    return torch.mul(x, torch.reciprocal(steps))\n"), counted);
    EXPECT_EQ(
        error("f32",
              "    steps = self.steps\n    y = torch.mul(x, steps)\n    _0 = torch.add_(steps, 1)\n    return y\n"),
        counted);
    EXPECT_EQ(error("f32", "    return torch.mul(x, self.steps)\n"), "no error");
    EXPECT_EQ(error("u8", "    return torch.add(x, x)\n").substr(0, 62),
              "error: add of integers of 8 or 16 bits is not supported\n  node");
    EXPECT_EQ(error("u8", "    return torch.add(torch.to(x, 6), x)\n"), "no error");
    EXPECT_EQ(error("i64", "    return torch.add(x, x)\n"), "no error");
}

}  // namespace torchscript_test
}  // namespace thunderc
