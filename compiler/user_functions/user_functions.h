// SPDX-License-Identifier: Apache-2.0
// Functions that users bring (docs/executors.md): what a file given with --user-executor says, and the ops that follow.
//
// Each function is an op `user.NAME` with results `outputs` and then `saved`, and an op `user.NAME.backward` from what
// the backward function reads to what it gives. Both are calls in the generated program, and have no decomposition.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "compiler/ir/attribute.h"
#include "compiler/ir/module.h"
#include "compiler/ir/op_def.h"
#include "compiler/user_functions/sizes.h"

namespace thunderc {

// A source or header; in the program's folder it lies in user/.
struct UserFile {
    std::string name;  // without folders: "swish.cpp"
    std::string text;
};

struct UserTensor {
    std::string name;
    SizedType type;
};

// What a function consists of on one device.
struct UserDevice {
    std::vector<UserFile> sources;
    std::vector<std::string> link;  // libraries and options of the linker
};

struct UserBackward {
    std::string function;
    std::vector<std::string> reads;  // of d<output>, inputs, outputs and saved values
    std::vector<std::string> gives;  // of d<input>
};

struct UserFunction {
    std::string name;             // "swish"
    std::string summary;          // for comments: "x * sigmoid(beta * x)"
    std::string file;             // that said so: "my.json"
    std::string domain, op_type;  // of the ONNX operator that it computes; "": none
    std::string pattern;          // text IR of what it computes, with letters for sizes; "": nobody says
    std::vector<UserTensor> inputs, outputs, saved;
    std::vector<std::pair<std::string, Attribute>> attributes;  // and what they are where an operator does not say
    std::vector<std::string> no_gradient;                       // inputs of floats that have none
    Rows::Kind rows = Rows::Kind::together;
    std::string forward;
    std::optional<UserBackward> backward;
    UserFile header;
    UserDevice cpu;
    std::optional<UserDevice> cuda;
    std::map<std::string, std::int64_t, std::less<>> sizes;  // at which it is checked by itself

    std::string op() const { return "user." + name; }
    std::string backward_op() const { return "user." + name + ".backward"; }
    std::string header_path() const { return "user/" + header.name; }
};

// Checks each by itself and all together, and makes ops of them, in the place of those that there were. Throws
// UserError.
void set_user_functions(std::vector<UserFunction> functions);
const std::vector<UserFunction>& user_functions();

// Those that an op is a call of; nullptr where it is none of the user's.
const UserFunction* user_function_of(const Op& op);
// The one that computes an operator of ONNX; nullptr where there is none.
const UserFunction* user_function_of(std::string_view domain, std::string_view op_type);
// Of any of them, by its path below the program's folder: "user/swish.h".
const UserFile* find_user_file(std::string_view path);
// Those that a module calls.
std::vector<const UserFunction*> user_functions_of(const Module& module);

// The pattern at these sizes: a module of one function; throws UserError where it is no text IR.
Module pattern_at(const UserFunction& function, const Sizes& sizes);
// Whether the pattern says what this call computes: it does for the attributes that the file names.
bool pattern_says(const UserFunction& function, const Op& op);
// Whether they are the same numbers in f32, as those of ONNX are: a person writes 0.1, and a model has the f32 nearest
// to it.
bool same_in_f32(const Attribute& a, const Attribute& b);
// What letters are where the inputs are of these types; nullopt where they do not fit.
std::optional<Sizes> sizes_of(const UserFunction& function, const std::vector<Type>& inputs);

}  // namespace thunderc
