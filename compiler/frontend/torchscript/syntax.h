// SPDX-License-Identifier: Apache-2.0
// TorchScript's code as a tree: the small part of Python that torch.jit.save writes. Plain values.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace thunderc::torchscript {

struct Expr {
    enum class Kind : std::uint8_t {
        none,
        boolean,
        integer,
        number,
        text,
        name,
        attribute,   // items: of what; text: which
        subscript,   // items: of what, the index
        call,        // items: what is called, arguments; names: of the last arguments, which are given by them
        list,        // items
        tuple,       // items
        dictionary,  // items: key, value, key, value
        unary,       // text: "-", "not"; items: the operand
        binary,      // text: "+", "==", "and", "is not"; items: both operands
        choice,      // items: condition, then, else
    };
    Kind kind = Kind::none;
    std::int64_t integer = 0;  // of booleans as well
    double number = 0;
    std::string text;
    std::vector<Expr> items;
    std::vector<std::string> names;
    int line = 0;
};

struct Statement {
    enum class Kind : std::uint8_t {
        assign,  // targets = value; several targets, or one with `unpacks`, take the items of a tuple or a list
        evaluate,
        give_back,  // return
        condition,  // if value: body else: otherwise
        repeat,     // while value: body
        each,       // for targets in value: body
        within,     // with value: body
        pass,
    };
    Kind kind = Kind::pass;
    std::vector<Expr> targets;
    bool unpacks = false;
    Expr value;
    std::vector<Statement> body, otherwise;
    int line = 0;
};

struct Parameter {
    std::string name, type;
    bool optional = false;  // has a default, which is `otherwise`
    Expr otherwise;
};

struct FunctionCode {
    std::string name, result;
    std::vector<Parameter> parameters;
    std::vector<Statement> body;
    int line = 0;
};

struct ClassCode {
    std::string name, base;  // "Module", "NamedTuple", "Enum", "" of a class of the author's own
    std::vector<std::string> parameters, buffers;
    std::vector<Parameter> attributes;  // with their types; constants have a value
    std::vector<FunctionCode> methods;
    int line = 0;
    const FunctionCode* method(const std::string& name) const;  // nullptr: there is none
};

struct FileCode {
    std::string path;  // in the archive's code/: "__torch__/zoo_models.py"
    std::vector<ClassCode> classes;
    std::vector<FunctionCode> functions;
};

// Throws UserError that names the line: no code as torch.jit.save writes it, nested too deeply.
FileCode parse_code(const std::string& path, const std::string& text);

}  // namespace thunderc::torchscript
