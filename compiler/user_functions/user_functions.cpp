// SPDX-License-Identifier: Apache-2.0
#include "compiler/user_functions/user_functions.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "compiler/ir/parse.h"
#include "compiler/ir/structure.h"
#include "compiler/ir/verify.h"
#include "compiler/ops/user_ops.h"
#include "compiler/support/error.h"
#include "compiler/user_functions/call_struct.h"
#include "compiler/user_functions/user_op.h"

namespace thunderc {
namespace {

std::vector<UserFunction>& all() {
    static std::vector<UserFunction> functions;
    return functions;
}

bool has(const std::vector<std::string>& names, std::string_view name) {
    return std::find(names.begin(), names.end(), name) != names.end();
}

// One function's checks; messages begin with the file and the function.
class UserFunctionChecker {
  public:
    explicit UserFunctionChecker(const UserFunction& f) : f_(f) {}

    void run() const {
        check_names();
        check_sizes();
        check_rows();
        check_backward();
        check_header(f_.forward, forward_fields(f_));
        if (f_.backward) check_header(f_.backward->function, backward_fields(f_));
        check_pattern();
    }

  private:
    [[noreturn]] void refuse(const std::string& message, const std::string& help) const {
        fail(fmt::format("{}, {}: {}", f_.file, f_.name, message), help);
    }

    void check_names() const {
        if (!is_letter(f_.name)) refuse("the name is none of C++", "letters, digits and _, no digit in front");
        for (const std::string& function : {f_.forward, f_.backward ? f_.backward->function : f_.forward})
            if (!is_letter(function))
                refuse(fmt::format("{} is no name of a function", function),
                       "letters, digits and _, no digit in front");
        if (f_.outputs.empty()) refuse("there are no outputs", "\"outputs\": {\"y\": \"f32[..., C]\"}, for example");
        if (f_.op_type.empty() && f_.pattern.empty())
            refuse("nothing says what it is taken for",
                   "give \"operator\": \"DOMAIN::TYPE\" of a node of ONNX, or \"pattern\": a file of text IR, or both");
        std::set<std::string> names;
        auto add = [&](const std::string& name) {
            if (!is_letter(name)) refuse(fmt::format("{} is no name of C++", name), "letters, digits and _");
            if (!names.insert(name).second)
                refuse(fmt::format("two things are called {}", name),
                       "inputs, outputs, their gradients, saved values, attributes and letters of sizes are members of "
                       "one struct: each has a name of its own");
        };
        for (const auto* tensors : {&f_.inputs, &f_.outputs, &f_.saved})
            for (const UserTensor& t : *tensors) add(t.name);
        for (const auto& [name, value] : f_.attributes) add(name);
        std::set<std::string> letters = {"rows"};
        for (const auto* tensors : {&f_.inputs, &f_.outputs, &f_.saved})
            for (const UserTensor& t : *tensors)
                for (const std::string& size : t.type.dims)
                    for (const std::string& letter : letters_of(size, t.name)) letters.insert(letter);
        for (const std::string& letter : letters) add(letter);
        for (const auto& [letter, size] : f_.sizes)
            if (letter == "rows" || !letters.contains(letter))
                refuse(fmt::format("\"sizes\" names {}, which is no letter of a size", letter),
                       "letters are those of \"inputs\"; what \"...\" stands for is chosen");
        if (f_.summary.ends_with('\\') ||
            std::any_of(f_.summary.begin(), f_.summary.end(), [](unsigned char c) { return c < 0x20; }))
            refuse("the summary is no line of a comment", "one line of text without a \\ at its end");
        if (!f_.backward) return;
        // Gradients are called after their tensors.
        for (const auto* tensors : {&f_.inputs, &f_.outputs})
            for (const UserTensor& t : *tensors)
                if (is_float(t.type.dtype)) add("d" + t.name);
    }

    // Rows of a batch are followed along the first dimension of the first output.
    void check_rows() const {
        if (f_.rows == Rows::Kind::together) return;
        auto first = [](const UserTensor& t) {
            return t.type.leading ? "..." : t.type.dims.empty() ? std::string{} : t.type.dims.front();
        };
        const std::string rows = first(f_.outputs[0]);
        for (const UserTensor& t : f_.outputs)
            if (first(t) != rows || rows.empty())
                refuse(fmt::format("\"rows\" promises rows of a batch, and {} is {}", t.name, to_string(t.type)),
                       "all outputs begin with the same dimension, that of the rows; leave \"rows\" out else");
        if (std::none_of(f_.inputs.begin(), f_.inputs.end(), [&](const UserTensor& t) { return first(t) == rows; }))
            refuse(fmt::format("\"rows\" promises rows of a batch, and no input begins with {}", rows),
                   "an input has the rows that those of the outputs are made of; leave \"rows\" out else");
    }

    // Every letter has a value wherever inputs are known.
    void check_sizes() const {
        std::set<std::string> bound;
        bool leading = false;
        for (const UserTensor& t : f_.inputs) {
            leading = leading || t.type.leading;
            for (const std::string& size : t.type.dims)
                if (is_letter(size)) bound.insert(size);
        }
        for (const auto* tensors : {&f_.inputs, &f_.outputs, &f_.saved})
            for (const UserTensor& t : *tensors) {
                if (t.type.leading && !leading)
                    refuse(fmt::format("{} is {}, and no input says what \"...\" is", t.name, to_string(t.type)),
                           "write \"...\" in an input as well");
                for (const std::string& size : t.type.dims)
                    for (const std::string& letter : letters_of(size, t.name))
                        if (!bound.contains(letter))
                            refuse(fmt::format("{} is {}, and no input says what {} is", t.name, to_string(t.type),
                                               letter),
                                   "a size follows from the inputs: one of them has it as a dimension of its own");
            }
    }

    void check_backward() const {
        for (const std::string& name : f_.no_gradient)
            if (std::none_of(f_.inputs.begin(), f_.inputs.end(), [&](const UserTensor& t) { return t.name == name; }))
                refuse(fmt::format("\"no_gradient\" names {}, which is no input", name),
                       fmt::format("inputs are {}", fmt::join(names_of(f_.inputs), ", ")));
        if (!f_.backward) return;
        for (const auto* names : {&f_.backward->reads, &f_.backward->gives})
            for (const std::string& name : *names)
                if (std::count(names->begin(), names->end(), name) > 1)
                    refuse(fmt::format("the backward function names {} twice", name),
                           "\"reads\" and \"gives\" have each name once");
        const std::vector<std::string> readable = readable_names(f_);
        for (const std::string& name : f_.backward->reads)
            if (!has(readable, name))
                refuse(fmt::format("the backward function reads {}, which is not there", name),
                       fmt::format("it may read {}", fmt::join(readable, ", ")));
        for (const UserTensor& t : f_.outputs)
            if (is_float(t.type.dtype) && !has(f_.backward->reads, "d" + t.name))
                refuse(fmt::format("the backward function does not read d{}", t.name),
                       "without the gradient of an output it cannot give those of the inputs");
        for (const std::string& name : f_.backward->gives)
            if (std::none_of(f_.inputs.begin(), f_.inputs.end(),
                             [&](const UserTensor& t) { return "d" + t.name == name && is_float(t.type.dtype); }))
                refuse(fmt::format("the backward function gives {}, the gradient of no input of floats", name),
                       fmt::format("inputs are {}", fmt::join(names_of(f_.inputs), ", ")));
        for (const UserTensor& t : f_.inputs) {
            const bool given = has(f_.backward->gives, "d" + t.name);
            if (given && has(f_.no_gradient, t.name))
                refuse(
                    fmt::format("the backward function gives d{}, and \"no_gradient\" says that there is none", t.name),
                    "leave it out of one of the two");
            if (is_float(t.type.dtype) && !given && !has(f_.no_gradient, t.name))
                refuse(fmt::format("the backward function gives no d{}", t.name),
                       fmt::format("give it, or say that there is none: \"no_gradient\": [\"{}\"]", t.name));
        }
        check_backward_sizes();
        if (f_.backward->gives.empty()) refuse("the backward function gives nothing", "leave \"backward\" out");
    }

    // What it reads is all that the backward function's sizes can follow from.
    void check_backward_sizes() const {
        std::set<std::string> bound;
        bool leading = false;
        for (const auto* tensors : {&f_.inputs, &f_.outputs, &f_.saved})
            for (const UserTensor& t : *tensors) {
                if (!has(f_.backward->reads, t.name) && !has(f_.backward->reads, "d" + t.name)) continue;
                leading = leading || t.type.leading;
                for (const std::string& size : t.type.dims)
                    if (is_letter(size)) bound.insert(size);
            }
        std::vector<std::string> needed =
            struct_members(struct_body(f_.header.text, struct_of_call(f_.header.text, f_.backward->function)));
        std::erase_if(needed, [&](const std::string& name) { return !may_be_left_out(f_, name); });
        for (const UserTensor& t : f_.inputs)
            if (has(f_.backward->gives, "d" + t.name)) {
                if (t.type.leading) needed.emplace_back("rows");
                for (const std::string& size : t.type.dims)
                    for (std::string& letter : letters_of(size, t.name)) needed.push_back(std::move(letter));
            }
        for (const std::string& size : needed)
            if (size == "rows" ? !leading : !bound.contains(size))
                refuse(fmt::format("nothing that the backward function reads says what {} is", size),
                       "let it read an input, an output or a gradient that has it as a dimension of its own");
    }

    void check_header(const std::string& function, const std::vector<CallField>& fields) const {
        const std::string type = struct_of_call(f_.header.text, function);
        const std::string form = fmt::format(
            "it is declared as `void {0}(const CALL& call, thunder::Stream& stream);`, with `struct CALL {{`, a member "
            "for each tensor and a line `}};` in the same header (docs/executors.md)",
            function);
        if (type.empty()) refuse(fmt::format("{} does not declare {}", f_.header.name, function), form);
        const std::string_view body = struct_body(f_.header.text, type);
        if (body.empty()) refuse(fmt::format("{} has no struct {}", f_.header.name, type), form);
        const std::vector<std::string> members = struct_members(body);
        for (const CallField& field : fields)
            if (!has(members, field.name) && !may_be_left_out(f_, field.name))
                refuse(fmt::format("struct {} of {} has no member {}", type, f_.header.name, field.name),
                       "each input, output, saved value, gradient and attribute that the function is given has a "
                       "member of its name; sizes may be left out");
        for (const std::string& member : members)
            if (std::none_of(fields.begin(), fields.end(), [&](const CallField& f) { return f.name == member; }))
                refuse(fmt::format("struct {} of {} has a member {}, for which there is nothing", type, f_.header.name,
                                   member),
                       "its members are what the file names, letters of sizes, and rows where \"...\" is written");
    }

    // As it is at the sizes of the check, or at small ones.
    void check_pattern() const {
        if (f_.pattern.empty()) return;
        if (f_.op_type.empty() && f_.outputs.size() > 1)
            refuse("a pattern of several results is not looked for",
                   "give \"operator\": \"DOMAIN::TYPE\" as well, or a pattern with one result");
        const Sizes sizes = sizes_for_check(f_);
        for (const auto* tensors : {&f_.inputs, &f_.outputs})
            for (const UserTensor& t : *tensors)
                if (!type_of(t.type, sizes)) {
                    std::string chosen;
                    for (const auto& [letter, size] : sizes.letters)
                        chosen += fmt::format("{}{} = {}", chosen.empty() ? "" : ", ", letter, size);
                    refuse(
                        fmt::format("{} is {}, which is no whole number where {}", t.name, to_string(t.type), chosen),
                        "\"sizes\" says at which sizes the pattern is read by itself: {\"C\": 16}");
                }
        const Module module = pattern_at(f_, sizes);
        const Function& main = module.main();
        if (main.arguments.size() != f_.inputs.size())
            refuse(fmt::format("the pattern has {} arguments, and there are {} inputs", main.arguments.size(),
                               f_.inputs.size()),
                   "they are the same, in the same order");
        if (main.results.size() != f_.outputs.size())
            refuse(fmt::format("the pattern has {} results, and there are {} outputs", main.results.size(),
                               f_.outputs.size()),
                   "they are the same, in the same order; what is saved is none of the pattern");
        if (std::all_of(main.ops.begin(), main.ops.end(), is_constant_op))
            refuse("the pattern computes nothing", "it is what the function is to be taken for");
        for (std::size_t k = 0; k < main.arguments.size() && f_.op_type.empty(); ++k) {
            const Value argument = main.arguments[k];
            if (std::none_of(main.ops.begin(), main.ops.end(), [&](const Op& op) {
                    return std::find(op.operands.begin(), op.operands.end(), argument) != op.operands.end();
                }))
                refuse(fmt::format("the pattern does not read {}", f_.inputs[k].name),
                       "where a pattern is found, its arguments are what its ops read");
        }
        auto same = [&](const UserTensor& t, const Type& type, const char* what) {
            const std::optional<Type> expected = type_of(t.type, sizes);
            if (expected && *expected != type)
                refuse(fmt::format("the {} {} is {} in the pattern, and {} in the file", what, t.name, to_string(type),
                                   to_string(*expected)),
                       "sizes are letters: they are shown as the numbers at which the pattern was read");
        };
        for (std::size_t k = 0; k < f_.inputs.size(); ++k) same(f_.inputs[k], main.type(main.arguments[k]), "input");
        for (std::size_t k = 0; k < f_.outputs.size(); ++k) same(f_.outputs[k], main.type(main.results[k]), "output");
    }

    const UserFunction& f_;
};

}  // namespace

void set_user_functions(std::vector<UserFunction> functions) {
    std::map<std::string, const UserFunction*> names, operators;
    std::map<std::string, std::pair<const UserFile*, const UserFunction*>> files;
    for (const UserFunction& f : functions) {
        UserFunctionChecker(f).run();
        if (!names.emplace(f.name, &f).second)
            fail(fmt::format("two functions are called {}, in {} and in {}", f.name, names[f.name]->file, f.file),
                 "give one of them another name");
        if (!f.op_type.empty()) {
            const std::string op = (f.domain.empty() ? "ai.onnx" : f.domain) + "::" + f.op_type;
            if (!operators.emplace(op, &f).second)
                fail(fmt::format("{} and {} both compute {}", operators[op]->name, f.name, op),
                     "an operator has one function: leave \"operator\" out of the other");
        }
        auto add = [&](const UserFile& file) {
            const auto [at, fresh] = files.emplace(file.name, std::pair(&file, &f));
            if (!fresh && at->second.first->text != file.text)
                fail(fmt::format("{} and {} bring two different files {}", at->second.second->name, f.name, file.name),
                     "a program keeps them in one folder: give one of them another name");
        };
        add(f.header);
        for (const UserFile& file : f.cpu.sources) add(file);
        if (f.cuda)
            for (const UserFile& file : f.cuda->sources) add(file);
    }
    std::vector<OpDef> ops;
    for (const UserFunction& f : functions) {
        ops.push_back(forward_op(f));
        if (f.backward) ops.push_back(backward_op(f));
    }
    set_user_ops(std::move(ops));
    all() = std::move(functions);
}

const std::vector<UserFunction>& user_functions() {
    return all();
}

const UserFunction* user_function_of(const Op& op) {
    if (!is_user_op(op.name)) return nullptr;
    for (const UserFunction& f : all())
        if (op.name == f.op() || op.name == f.backward_op()) return &f;
    return nullptr;
}

const UserFunction* user_function_of(std::string_view domain, std::string_view op_type) {
    auto plain = [](std::string_view name) { return name == "ai.onnx" ? std::string_view() : name; };
    for (const UserFunction& f : all())
        if (!f.op_type.empty() && plain(f.domain) == plain(domain) && f.op_type == op_type) return &f;
    return nullptr;
}

const UserFile* find_user_file(std::string_view path) {
    if (!path.starts_with("user/")) return nullptr;
    const std::string_view name = path.substr(5);
    for (const UserFunction& f : all()) {
        if (f.header.name == name) return &f.header;
        for (const UserFile& file : f.cpu.sources)
            if (file.name == name) return &file;
        if (!f.cuda) continue;
        for (const UserFile& file : f.cuda->sources)
            if (file.name == name) return &file;
    }
    return nullptr;
}

std::vector<const UserFunction*> user_functions_of(const Module& module) {
    std::vector<const UserFunction*> out;
    for (const UserFunction& f : all())
        if (std::any_of(module.functions.begin(), module.functions.end(), [&](const Function& function) {
                return std::any_of(function.ops.begin(), function.ops.end(),
                                   [&](const Op& op) { return user_function_of(op) == &f; });
            }))
            out.push_back(&f);
    return out;
}

Module pattern_at(const UserFunction& function, const Sizes& sizes) {
    // In one line with the pattern's first, so that messages count the lines of its file.
    const std::string text = "module \"pattern\" values " + with_sizes(function.pattern, sizes);
    const char* help =
        "a pattern is one function in text IR, as `thunderc trace MODEL --after simplify_raised` prints it, with "
        "letters for sizes: func @main(%x: f32[..., C]) -> (%y) { %y = silu(%x) : f32[..., C] }";
    try {
        Module module = parse_module(text);
        if (module.functions.size() != 1)
            fail(fmt::format("there are {} functions, and a pattern is one", module.functions.size()), help);
        verify(module);
        return module;
    } catch (const UserError& error) {
        Diagnostic d = error.diagnostic();
        d.message = fmt::format("{}, {}: the pattern: {}", function.file, function.name, d.message);
        if (d.help.empty()) d.help = help;
        throw UserError(std::move(d));
    } catch (const InternalError& error) {
        fail(fmt::format("{}, {}: the pattern: {}", function.file, function.name, error.what()), help);
    }
}

bool same_in_f32(const Attribute& a, const Attribute& b) {
    const auto same = [](double x, double y) { return static_cast<float>(x) == static_cast<float>(y); };
    if (equal(a, b)) return true;
    const auto *x = std::get_if<double>(&a), *y = std::get_if<double>(&b);
    if (x != nullptr && y != nullptr) return same(*x, *y);
    const auto *p = std::get_if<ConstPtr>(&a), *q = std::get_if<ConstPtr>(&b);
    if (p == nullptr || q == nullptr) return false;
    const ConstExpr &c = **p, &d = **q;
    if (c.kind != d.kind || c.type != d.type || !is_float(c.type.dtype)) return false;
    if (c.kind == ConstExpr::Kind::splat) return same(c.value, d.value);
    return c.kind == ConstExpr::Kind::dense &&
           std::equal(c.data->f.begin(), c.data->f.end(), d.data->f.begin(), d.data->f.end(), same);
}

bool pattern_says(const UserFunction& function, const Op& op) {
    return !function.pattern.empty() &&
           std::all_of(function.attributes.begin(), function.attributes.end(), [&](const auto& entry) {
               const Attribute* here = op.attributes.find(entry.first);
               return here == nullptr || same_in_f32(*here, entry.second);
           });
}

std::optional<Sizes> sizes_of(const UserFunction& function, const std::vector<Type>& inputs) {
    Sizes sizes;
    if (inputs.size() != function.inputs.size()) return std::nullopt;
    for (std::size_t k = 0; k < inputs.size(); ++k)
        if (inputs[k].dtype != function.inputs[k].type.dtype || !bind_sizes(function.inputs[k].type, inputs[k], sizes))
            return std::nullopt;
    for (std::size_t k = 0; k < inputs.size(); ++k)
        if (type_of(function.inputs[k].type, sizes) != inputs[k]) return std::nullopt;
    return sizes;
}

}  // namespace thunderc
