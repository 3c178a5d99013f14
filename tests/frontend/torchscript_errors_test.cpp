// SPDX-License-Identifier: Apache-2.0
// What is refused of TorchScript archives: one message each, which names the line of code, and no more memory than the
// file has.

#include "tests/frontend/torchscript_archive.h"

namespace thunderc {
namespace torchscript_errors_test {

std::string without_path(std::string text, const std::filesystem::path& file) {
    const std::string folder = file.parent_path().string() + "/";
    for (std::size_t at = text.find(folder); at != std::string::npos; at = text.find(folder))
        text.erase(at, folder.size());
    const std::string own = file.filename().string(), name = own.substr(own.find('_') + 1);
    for (std::size_t at = text.find(own); at != std::string::npos; at = text.find(own))
        text.replace(at, own.size(), name);
    return text;
}

std::string error_of_archive(const Entries& entries, const CompileOptions& options) {
    const TemporaryFile file("script.pt");
    write_zip(file.path(), entries);
    return without_path(error_of([&] { verify(import_model(file.path(), options)); }), file.path());
}

const CompileOptions of_x = with_input("x", "f32", {2, 2});

// Of a model of x f32[2, 2] with these lines in its forward().
std::string error_of_lines(const std::string& lines) {
    return error_of_archive(script_of("  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n" + lines), of_x);
}

const std::string known =
    "help: shapes, loops and branches are decided when compiling: make them follow from numbers and from the shapes of "
    "the inputs, or compute with torch.where\n";

TEST(TorchScriptErrors, WhatDependsOnData) {
    EXPECT_EQ(error_of_lines("    if bool(torch.gt(torch.sum(x), 0)):\n"
                             "      y = x\n"
                             "    else:\n"
                             "      y = torch.neg(x)\n"
                             "    return y\n"),
              "error: the model takes a number out of a tensor, which is not known when compiling\n"
              "  node: __torch__.py:9\n" +
                  known);
    EXPECT_EQ(error_of_lines("    y = x\n"
                             "    while torch.lt(torch.sum(y), 9):\n"
                             "      y = torch.add(y, 1)\n"
                             "    return y\n"),
              "error: a branch depends on the numbers of a tensor\n"
              "  node: __torch__.py:10\n" +
                  known);
    EXPECT_EQ(error_of_lines("    n = int(torch.sum(x))\n    return torch.view(x, [n, -1])\n").substr(0, 40),
              "error: the model takes a number out of a");
}

TEST(TorchScriptErrors, WhatNoProgramDoes) {
    EXPECT_EQ(
        error_of_lines("    if torch.ne(torch.dim(x), 3):\n"
                       "      ops.prim.RaiseException(torch.format(\"{}D\", torch.dim(x)), \"builtins.ValueError\")\n"
                       "    else:\n"
                       "      pass\n"
                       "    return x\n"),
        "error: the model raises an exception: 2D\n"
        "  node: __torch__.py:10\n"
        "help: give inputs of other shapes, or change what the model asserts\n");
    EXPECT_EQ(error_of_lines("    self.n = 4\n    return x\n"),
              "error: the model changes its attribute n as it runs, which a program does not do\n"
              "  node: __torch__.py:9\n"
              "help: leave the change out of forward(); what depends on it make an input\n");
    EXPECT_EQ(error_of_lines("    weight = self.weight\n    _0 = torch.add_(weight, 1)\n    return x\n").substr(0, 75),
              "error: the model changes the parameter weight as it runs, which a program d");
    EXPECT_EQ(error_of_lines("    d = {\"a\": x}\n    d[\"b\"] = x\n    return x\n"),
              "error: dictionaries that change are not supported\n"
              "  node: __torch__.py:10\n"
              "help: return tensors, tuples and lists from the model\n");
    EXPECT_EQ(error_of_lines("    c = __torch__.Thing.__new__(__torch__.Thing)\n    return x\n"),
              "error: objects of classes of one's own are not supported: Thing\n"
              "  node: __torch__.py:9\n"
              "help: use modules, tuples and lists in the model\n");
    EXPECT_EQ(error_of_lines("    return torch.nothing(torch.something(x))\n"),
              "error: the operator something is not supported, nor are others that the code has: nothing\n"
              "  node: __torch__.py:9\n"
              "help: write it with operators that are, or export the model with torch.export.save or "
              "torch.onnx.export\n");
    EXPECT_EQ(error_of_lines("    y = torch.fork(x)\n    return x\n"),
              "error: torch.jit.fork and torch.jit.wait are not supported\n"
              "  node: __torch__.py:9\n"
              "help: call the function itself\n");
    std::string letters;  // of two bytes each: none is cut in two
    for (int k = 0; k < 3000; ++k) letters += "\u00e4";
    const std::string said = error_of_lines("    ops.prim.RaiseException(\"" + letters + "\")\n    return x\n");
    EXPECT_LT(said.size(), 1000U);
    EXPECT_NE(said.find("\u00e4\u2026\n  node"), std::string::npos) << said;
    const std::string up = "    return torch.upsample_nearest2d(torch.view(x, [1, 1, 2, 2]), ";
    EXPECT_EQ(error_of_lines(up + "[4611686018427387904, 8])\n").substr(0, 54),
              "error: upsampling to 4611686018427387904 elements\n  no");
    EXPECT_EQ(error_of_lines(up + "None, [1e300, 2.])\n").substr(0, 51),
              "error: upsampling of a dimension without elements\n ");
    EXPECT_EQ(error_of_lines("    return torch.add(x)\n"),
              "error: no form of add takes what it is given: a tensor\n"
              "  node: __torch__.py:9\n"
              "help: numbers that shapes depend on have to be known when compiling\n");
    EXPECT_EQ(error_of_lines("    return torch.view(x, [3, -1])\n"),
              "error: aten.view.default of 4 elements to another number of them\n"
              "  node: view (__torch__.py:9)\n"
              "  operator: aten.view.default\n"
              "  found: 3,-1\n"
              "help: the operator is supported in other forms only, or the program is damaged: save it again\n");
}

TEST(TorchScriptErrors, LoopsAndCallsWithoutAnEnd) {
    EXPECT_EQ(error_of_lines("    while True:\n      n = 1\n    return x\n"),
              "error: loops over numbers take more steps than a program has\n"
              "  node: __torch__.py:10\n"
              "help: write the loop with tensors\n");
    EXPECT_EQ(error_of_lines("    return (self).forward(x, )\n"),
              "error: calls within calls do not end\n"
              "  node: __torch__.py:9\n"
              "help: call no function from itself\n");
    EXPECT_EQ(error_of_lines("    l = [0, 0]\n    for i in range(99):\n      _0 = torch.extend(l, l)\n    return x\n"),
              "error: a list has more items than a program needs\n"
              "  node: __torch__.py:11\n"
              "help: make the list shorter\n");
}

TEST(TorchScriptErrors, MoreThanAnyModelHas) {
    const std::string work =
        "error: lists and texts of the model take more room and time than a program has\n"
        "  node: __torch__.py:12\nhelp: make them shorter, or compute with tensors\n";
    const std::string list = "    l = torch.mul([0], 100000)\n    k = [l]\n    for i in range(100000):\n";
    EXPECT_EQ(error_of_lines(list + "      m = torch.sum(l)\n    return x\n"), work);
    EXPECT_EQ(error_of_lines(list + "      _0 = torch.append(k, torch.list(l))\n    return x\n"), work);
    // Lists within lists: a hundred thousand deep, and of two to the power of thirty items; one that has itself.
    const std::string deep = "    l = [x]\n    for i in range(100000):\n      l = [l]\n";
    EXPECT_EQ(error_of_lines(deep + "    return x\n"), "no error");
    EXPECT_EQ(error_of_lines("    l = [[0]]\n    for i in range(100000):\n      k = annotate(List[int], [])\n"
                             "      _0 = torch.append(k, l)\n      l = k\n    return x\n"),
              "no error");
    EXPECT_EQ(error_of_lines("    l = [0]\n    for i in range(30):\n      l = [l, l]\n"
                             "    _0 = torch.__contains__([1], 1)\n    n = torch.max(torch.len(l), 1)\n    return x\n"),
              "no error");
    const std::string outputs = "error: the model gives more than 10000 outputs\nhelp: return fewer from forward()\n";
    for (const std::string item : {"x", "0"}) {
        const std::string wide = "    l = [" + item + "]\n    for i in range(30):\n      l = [l, l]\n";
        EXPECT_EQ(error_of_lines(wide + "    return l\n"), outputs);
    }
    EXPECT_EQ(
        error_of_lines("    l = [x, x]\n    _0 = torch._set_item(l, 0, [l, l])\n    _0 = torch._set_item(l, 1, l)\n"
                       "    b = torch.pop(l)\n    _0 = torch.clear(l)\n    return x\n"),
        "no error");
    EXPECT_EQ(error_of_lines("    l = [[0]]\n    k = [[0]]\n    for i in range(99):\n      l = [l]\n      k = [k]\n"
                             "    b = torch.eq(l, k)\n    return x\n")
                  .substr(0, 58),
              "error: lists within lists are compared without an end\n  no");
}

TEST(TorchScriptErrors, InputsThatContradictOneAnother) {
    const Entries entries = script_of("  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    return x\n");
    CompileOptions options = of_x;
    options.batch = 4;
    EXPECT_EQ(error_of_archive(entries, options),
              "error: --batch 4 and --input x, whose dimension 0 is 2, contradict one another\n"
              "help: leave --batch out, or write batch for the number in --input\n");
    options.batch = 2;
    EXPECT_EQ(error_of_archive(entries, options), "no error");
}

TEST(TorchScriptErrors, CodeThatIsNone) {
    const auto wrong = [](const std::string& what, int line) {
        return "error: the code of the archive is none that torch.jit.save writes: " + what +
               "\n  node: __torch__.py:" + std::to_string(line) + "\nhelp: save the model again with torch.jit.save\n";
    };
    EXPECT_EQ(error_of_lines("    return torch.add(x, 1\n"), wrong("a bracket is not closed", 10));
    EXPECT_EQ(error_of_lines("    y = torch.add(x, 1))\n"), wrong("a bracket is closed that is not open", 9));
    EXPECT_EQ(error_of_lines("    y = 1e999\n"), wrong("1e999 is no number", 9));
    EXPECT_EQ(error_of_lines("    y = 9223372036854775809\n"), wrong("9223372036854775809 has more than 64 bits", 9));
    EXPECT_EQ(error_of_lines("    y = -9223372036854775808\n    return x\n"), "no error");
    EXPECT_EQ(error_of_lines("    import os\n"), wrong("\"import\" within a function", 9));
    EXPECT_EQ(error_of_lines("    y = x[0:1]\n"), wrong("a slice, which torch writes as a call", 9));
    EXPECT_EQ(error_of_lines("    y = \"a\n"), wrong("a text is not closed", 9));
    EXPECT_EQ(error_of_lines("    y = " + std::string(100000, '(') + "\n"),
              wrong("its expressions are nested too deeply", 9));
    EXPECT_EQ(error_of_lines("    y = " + std::string(100000, '-') + "1\n"), wrong("it is nested too deeply", 9));
    EXPECT_EQ(error_of_lines("    y = x" + std::string(100000, '.') + "\n"), wrong("a name is expected", 9));
}

// What is compiled in as numbers, or becomes an op for each, is bounded, whatever a line of code asks for.
TEST(TorchScriptErrors, FewWordsThatAskForMuch) {
    const auto error = [](const std::string& line) {
        const std::string text = error_of_lines("    y = " + line + "\n    return x\n");
        return text.substr(0, text.find('\n'));
    };
    EXPECT_EQ(error("torch.upsample_linear1d(torch.zeros([1, 1, 1048576]), [1048577], False, None)"),
              "error: resizing 1048576 elements to 1048577 is not supported");
    EXPECT_EQ(error("torch.slice_scatter(torch.zeros([1073741824]), torch.zeros([536870912]), 0, 0, 1073741824, 2)"),
              "error: a write in steps of 2 to 1073741824 elements is not supported");
    EXPECT_EQ(
        error("torch.embedding_bag(torch.zeros([4, 2]), torch.zeros([3], dtype=4), torch.zeros([1], dtype=4), True, "
              "0, False, None, False)[0]"),
        "error: gradients of bags by frequency are not supported");
    EXPECT_EQ(error("torch.diff(torch.zeros([1048576]), 1048575)"), "error: aten.diff.default 1048575 times");
    EXPECT_EQ(error("torch.unbind(torch.zeros([1048576]))"), "error: aten.unbind.int of 1048576 elements");
    EXPECT_EQ(error("torch.unfold(torch.zeros([1048576]), 0, 524288, 1)"),
              "no error");  // of numbers that follow a rule
}

TEST(TorchScriptErrors, PicklesAreData) {
    const auto with = [](const std::string& pickle) {
        Entries entries = script_of("  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    return x\n");
        entries["m/data.pkl"] = pickle;
        return error_of_archive(entries, of_x);
    };
    EXPECT_EQ(with(PickleText().global("os", "system").text("true").add("\x85R").end()),
              "error: the pickle m/data.pkl of script.pt names os.system, which is no tensor and no number\n"
              "help: pickles are read as data, and nothing in them is run: save tensors, numbers and modules alone\n");
    EXPECT_EQ(with(PickleText().add("i__torch__\nM\n").end()),
              "error: the pickle m/data.pkl of script.pt has the opcode 105, which makes objects that are no tensors\n"
              "help: pickles are read as data, and nothing in them is run: save tensors, numbers and modules alone\n");
    const auto damaged = [](const std::string& why) {
        return "error: the pickle m/data.pkl of script.pt is damaged: " + why +
               "\nhelp: copy or download the file again, or save it again\n";
    };
    EXPECT_EQ(with(""), damaged("it ends too early"));
    EXPECT_EQ(with("\x80\x02."), damaged("its stack is empty"));
    const std::string longer(5000, 'k');
    EXPECT_EQ(with(PickleText().begin_object("__torch__", longer).end_object().end()),
              damaged("a class has a longer name than any model's"));
    EXPECT_EQ(with(PickleText().begin_object("__torch__", "M").text(longer).integer(1).end_object().end()),
              "error: a key in script.pt is longer than any model's\nhelp: save the model again\n");
    EXPECT_EQ(
        with(PickleText().begin_object("__torch__", "M").text("f").global("torch", "FloatStorage").end_object().end()),
        "error: the attribute f is no number, text, tensor or module, nor a list of these\n"
        "help: save the model again with torch.jit.save\n");
    EXPECT_EQ(with("\x80\x02" + std::string(20000, '(') + "."),
              damaged("lists stand within one another without an end"));
    EXPECT_EQ(with("\x80\x02h\x01."), damaged("it asks for what it did not remember"));
    EXPECT_EQ(with("\x80\x02X\xff\xff\xff\xff."), damaged("it ends too early"));
    EXPECT_EQ(with(PickleText().integer(1).end()),
              "error: script.pt holds no module\nhelp: save a module with torch.jit.save\n");
    // A module that holds itself, and one for each of a hundred levels and more.
    const std::string itself = "c__torch__\nM\n)\x81q\x01}(X\x01" + std::string(3, '\0') + "ah\x01ub";
    EXPECT_EQ(with("\x80\x02" + itself + ".").substr(0, 52), "error: modules of script.pt stand within one another");
    PickleText deep;
    for (int k = 0; k < 200; ++k) deep.begin_object("__torch__", "M").text("m");
    deep.none();
    for (int k = 0; k < 200; ++k) deep.end_object();
    EXPECT_EQ(with(deep.end()).substr(0, 52), "error: modules of script.pt stand within one another");
}

TEST(TorchScriptErrors, WhatTorchSaveWrites) {
    const std::string exported =
        "export the model: torch.export.save(torch.export.export(model, args), \"model.pt2\"), or "
        "torch.onnx.export(model, args, \"model.onnx\", dynamo=True, optimize=False)";
    PickleText state;
    state.global("collections", "OrderedDict").add(")R(").text("weight").tensor("FloatStorage", "0", {2}, true);
    state.text("bias").tensor("FloatStorage", "1", {2}, true).op('u');
    EXPECT_EQ(error_of_archive({{"s/data.pkl", state.end()}, {"s/data/0", floats({1, 2})}}, {}),
              "error: script.pt was written by torch.save: a state dict of 2 tensors, and no graph of a model\nhelp: " +
                  exported + "; its program begins with such weights by --init weights.pt\n");
    EXPECT_EQ(error_of_archive({{"s/data.pkl", PickleText().begin_object("my.models", "Net").end_object().end()}}, {}),
              "error: script.pt was written by torch.save: objects of a model, whose code is not in it (the pickle "
              "s/data.pkl of script.pt names my.models.Net, which is no tensor and no number)\nhelp: load it where its "
              "code is, and " +
                  exported + "\n");
}

TEST(TorchScriptErrors, TensorsThatCannotBe) {
    const auto with = [](const Dims& dims, const Dims& strides, std::int64_t offset = 0) {
        Entries entries = script_of("  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    return x\n");
        PickleText data;
        data.begin_object("__torch__", "M").text("weight").tensor("FloatStorage", "0", dims, strides, true, offset, 6);
        entries["m/data.pkl"] = data.end_object().end();
        return error_of_archive(entries, of_x);
    };
    const std::string again = "help: the archive is damaged: save the model again\n";
    EXPECT_EQ(with({std::int64_t{1} << 60, 9}, {9, 1}),
              "error: the weight weight has a shape that no tensor can have: [1152921504606846976,9]\n" + again);
    EXPECT_EQ(with({-1, 3}, {3, 1}), "error: the weight weight has a shape that no tensor can have: [-1,3]\n" + again);
    EXPECT_EQ(with({2, 3}, {3, 1}, 4), "error: the tensor weight needs 40 bytes of m/data/0, which has 24\n" + again);
    EXPECT_EQ(with({2, 3}, {std::int64_t{1} << 62, std::int64_t{1} << 62}),
              "error: the strides of the weight weight lead out of all memory\n" + again);
    EXPECT_EQ(with({2, 3}, {3, 1}), "no error");
    EXPECT_EQ(with({2, 3}, {1, 2}), "no error");  // by columns
    EXPECT_EQ(with({2, 3}, {0, 1}), "no error");  // expanded
}

TEST(TorchScriptErrors, FrozenArchives) {
    Entries entries = script_of(
        "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n"
        "    return torch.matmul(x, CONSTANTS.c0)\n");
    entries["m/data.pkl"] =
        PickleText().begin_object("__torch__", "M").text("training").boolean(false).end_object().end();
    entries["m/constants.pkl"] = PickleText().op('(').tensor("FloatStorage", "0", {2, 3}, false).op('t').end();
    entries["m/constants/0"] = floats({1, 2, 3, 4, 5, 6});
    EXPECT_EQ(error_of_archive(entries, of_x),
              "error: script.pt is frozen: its parameters are constants, and have no names any more\n"
              "help: save the model as it is before torch.jit.freeze, or torch.jit.optimize_for_inference\n");
}

// With preserved_attrs a part keeps its parameters: what does not is named.
TEST(TorchScriptErrors, ArchivesThatAreFrozenInPart) {
    Entries entries = script_of(
        "  def forward(self: __torch__.M,\n    x: Tensor) -> Tensor:\n    weight = self.weight\n"
        "    return torch.mul(torch.matmul(x, weight), CONSTANTS.c0)\n");
    entries["m/constants.pkl"] = PickleText().op('(').tensor("FloatStorage", "0", {3}, false).op('t').end();
    entries["m/constants/0"] = floats({1, 2, 3});
    const auto warned = [&] {
        const TemporaryFile file("script.pt");
        write_zip(file.path(), entries);
        Report report;
        import_model(file.path(), of_x, report);
        return std::any_of(report.notes.begin(), report.notes.end(), [](const auto& note) {
            return note.what == "frozen" && note.text.find("CONSTANTS.c0 [3]") != std::string::npos;
        });
    };
    EXPECT_FALSE(warned());  // a constant of the model
    entries["m/data.pkl"] = PickleText()
                                .begin_object("__torch__", "M")
                                .text("weight")
                                .tensor("FloatStorage", "0", {2, 3}, true)
                                .end_object()
                                .end();
    EXPECT_TRUE(warned());
}

TEST(TorchScriptErrors, DimensionsOfAScalar) {
    for (const auto& [op, rest] : std::vector<std::pair<std::string, std::string>>{{"slice", "0, 0, 1"},
                                                                                   {"select", "0, 0"},
                                                                                   {"narrow", "0, 0, 1"},
                                                                                   {"flip", "[0]"},
                                                                                   {"roll", "[1], [0]"},
                                                                                   {"movedim", "[0], [0]"},
                                                                                   {"unflatten", "0, [1, 1]"},
                                                                                   {"glu", "0"},
                                                                                   {"split", "1, 0"},
                                                                                   {"diff", "1, 0"},
                                                                                   {"diagonal", "0, 0, 1"}}) {
        const std::string text =
            error_of_lines("    s = torch.sum(x)\n    y = torch." + op + "(s, " + rest + ")\n    return s\n");
        EXPECT_TRUE(text.starts_with("error: aten." + op)) << text;
        EXPECT_NE(text.find(" of a scalar\n"), std::string::npos) << text;
    }
}

TEST(TorchScriptErrors, StepsOfRecurrentLayersOfScalars) {
    EXPECT_EQ(error_of_lines("    s = torch.sum(x)\n    y = torch.gru_cell(x, s, x, x)\n    return y\n").substr(0, 58),
              "error: aten.gru_cell.default of a tensor of 0 dimensions\n ");
}

TEST(TorchScriptErrors, NumbersThatAreGivenToOptionalInputs) {
    const Entries entries = script_of(
        "  def forward(self: __torch__.M,\n    x: Tensor,\n    n: Optional[int]=None,\n    s: Optional[float]=None) -> "
        "Tensor:\n    return torch.mul(x, 2)\n");
    CompileOptions options;
    options.inputs["x"] = {"f32", {{2, ""}, {3, ""}}};
    options.bound["s"] = {Tensor::floats({1}, {0.5}), false};
    EXPECT_EQ(error_of_archive(entries, options), "no error");
    options.bound["n"] = {Tensor::floats({1}, {0.5}), false};
    EXPECT_EQ(error_of_archive(entries, options),
              "error: --bind n: the input is of type Optional[int], and 0.5 is given\nhelp: give a whole number\n");
    options.bound.erase("n");
    options.bound.erase("s");
    options.inputs["s"] = {"f32", {}};
    EXPECT_EQ(
        error_of_archive(entries, options),
        "error: --input s: the input is of type Optional[float], which is no tensor\nhelp: say its number: --bind "
        "s=1; or leave it out where it has a default\n");
}

TEST(TorchScriptErrors, InputsWithoutShapes) {
    const Entries entries = script_of(
        "  def forward(self: __torch__.M,\n    x: Tensor,\n    n: int,\n    y: Optional[Tensor]=None) -> Tensor:\n"
        "    return torch.mul(x, n)\n");
    EXPECT_EQ(error_of_archive(entries, {}),
              "error: the input n of the model is of type int, which is not supported\nhelp: say what it is: --bind "
              "n=1\n");
    CompileOptions options;
    options.bound["n"] = {Tensor::ints({2}), false};
    EXPECT_EQ(error_of_archive(entries, options),
              "error: nothing says which shape and type the input x has\n"
              "help: scripted code has no shapes; say them: --input x=f32[2,8] (i64 for ids, names instead of numbers "
              "for what --batch, --seq and --dim bind)\n");
    options.inputs["x"] = {"f32", {{0, "batch"}, {3, ""}}};
    EXPECT_EQ(error_of_archive(entries, options),
              "error: the dynamic dimension batch (dimension 0 of the input x) is not bound\nhelp: add --batch N\n");
    options.batch = 5;
    EXPECT_EQ(error_of_archive(entries, options), "no error");
    options.inputs["x"].type = "f31";
    EXPECT_EQ(error_of_archive(entries, options),
              "error: --input x: there is no type f31\nhelp: the types are f32, i64, i32, bool, f16, bf16, f64, u8, "
              "i8, i16\n");
    options.inputs["z"] = options.inputs["x"] = {"f32", {}};
    EXPECT_EQ(error_of_archive(entries, options),
              "error: --input z: the model has no such input\nhelp: its inputs are x, n, y\n");
}

TEST(TorchScriptErrors, DictionariesWithoutKeys) {
    EXPECT_EQ(error_of_archive(script_of("  def forward(self: __torch__.M,\n    d: Dict[str, Tensor]) -> Tensor:\n"
                                         "    return torch.sum(d[\"a\"])\n"),
                               {}),
              "error: the input d of the model is of type Dict[str,Tensor], which is not supported\n"
              "help: say what tensors it has: --input d.KEY=f32[2,8]\n");
}

TEST(TorchScriptErrors, ShapesAreOfScriptsAlone) {
    EXPECT_EQ(error_of([] {
                  import_model(fixture("mlp/ep.logits.pt2"), with_input("x", "f32", {2, 12}));
              }),
              "error: --input x: the model says itself which types and shapes its inputs have\n"
              "help: leave --input out; --batch, --seq and --dim bind dimensions that are dynamic\n");
}

}  // namespace torchscript_errors_test
}  // namespace thunderc
