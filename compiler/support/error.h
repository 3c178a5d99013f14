// SPDX-License-Identifier: Apache-2.0
// The two kinds of failure: the user's (a message with help, exit 1 or 2) and ours (a bug, exit 3).
#pragma once

#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace thunderc {

// Text of a model as a terminal may show it: what is no text (a new line, an escape) is spelled.
std::string printed(std::string_view text);

// What a user is told: one lower-case sentence, where it is, what was expected and found, what to do. Empty parts are
// not printed.
struct Diagnostic {
    std::string message;  // "the operator Foo is not supported"
    std::string node;     // the exporter's name of the node
    std::string module;   // its module scope: model.layers.0.mlp
    std::string op;       // its operator, as the exporter calls it
    std::string expected;
    std::string actual;
    std::string help;  // a change that the user can make

    // "error: …" and one indented line for each part that is there; ends with a newline.
    std::string text() const;
};

// The model, the data or the machine is at fault: exit status 1.
class UserError : public std::runtime_error {
  public:
    explicit UserError(Diagnostic diagnostic)
        : std::runtime_error(diagnostic.message), diagnostic_(std::move(diagnostic)) {}
    const Diagnostic& diagnostic() const { return diagnostic_; }
    Diagnostic& diagnostic() { return diagnostic_; }

  private:
    Diagnostic diagnostic_;
};

// The command line is at fault: exit status 2.
class UsageError : public UserError {
  public:
    using UserError::UserError;
};

// thunderc is at fault: exit status 3.
class InternalError : public std::logic_error {
  public:
    using std::logic_error::logic_error;
};

// Throws UserError: what is wrong, what to do, what was expected and found.
[[noreturn]] void fail(std::string message, std::string help, std::string expected = {}, std::string actual = {});

// Throws InternalError where an invariant does not hold.
void check(bool condition, std::string_view what);

}  // namespace thunderc
