// SPDX-License-Identifier: Apache-2.0
#include "support/error.h"

#include <cstdio>
#include <new>
#include <utility>

namespace thunder {

Error::Error(std::string message, std::string help, int exit_code)
    : message_(std::move(message)), help_(std::move(help)), exit_code_(exit_code) {
    text_ = "error: " + message_;
    if (!help_.empty()) text_ += "\nhelp: " + help_;
}

void fail(const std::string& message, const std::string& help) {
    throw Error(message, help, 1);
}

void fail_usage(const std::string& message, const std::string& help) {
    throw Error(message, help, 2);
}

void fail_quietly(int exit_code) {
    throw Error("", "", exit_code);
}

namespace {

std::string speaker;
void (*end_program)(int exit_code, bool printed) = nullptr;

}  // namespace

void set_failure_policy(std::string name, void (*end)(int exit_code, bool printed)) {
    speaker = std::move(name);
    end_program = end;
}

int report_error() {
    std::string text;
    int exit_code = 1;
    try {
        throw;
    } catch (const Error& error) {
        if (!error.message().empty()) text = error.what();
        exit_code = error.exit_code();
    } catch (const std::bad_alloc&) {
        text = "error: out of memory";
    } catch (const std::exception& error) {
        text = std::string("error: ") + error.what();
    }
    if (!text.empty()) std::fprintf(stderr, "%s%s\n", speaker.c_str(), text.c_str());
    if (end_program != nullptr) end_program(exit_code, !text.empty());
    return exit_code;
}

}  // namespace thunder
