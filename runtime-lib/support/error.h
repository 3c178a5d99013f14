// SPDX-License-Identifier: Apache-2.0
// How the runtime says that something cannot go on: one function, one exception, caught in main.
#pragma once

#include <exception>
#include <string>

namespace thunder {

// What a person reads when the program ends early: what is wrong, and what to do about it.
class Error : public std::exception {
  public:
    // Data and models at fault: 1; the command line: 2.
    explicit Error(std::string message, std::string help = "", int exit_code = 1);

    const char* what() const noexcept override { return text_.c_str(); }  // "error: …\nhelp: …"
    const std::string& message() const { return message_; }
    const std::string& help() const { return help_; }
    int exit_code() const { return exit_code_; }

  private:
    std::string message_, help_, text_;
    int exit_code_;
};

// A file whose bytes are not what was written into it: another one of its kind may do.
class DamagedFile : public Error {
  public:
    using Error::Error;
    explicit DamagedFile(const Error& error) : Error(error) {}
};

// message: a lower-case sentence without a full stop; help: a change that the user can make, or "".
[[noreturn]] void fail(const std::string& message, const std::string& help = "");
[[noreturn]] void fail_usage(const std::string& message, const std::string& help = "");

// A failure that another rank tells of: nothing is printed.
[[noreturn]] void fail_quietly(int exit_code);

// Of a program of several ranks: what stands before its messages, "rank 3: ", and what report_error does at last, so
// that the others do not wait for this one; whether it had something to print is told.
void set_failure_policy(std::string speaker, void (*end)(int exit_code, bool printed));

// Prints the error that is being handled on standard error and returns the program's exit status; for main's catch
// (...).
int report_error();

}  // namespace thunder
