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

int report_error() {
    try {
        throw;
    } catch (const Error& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return error.exit_code();
    } catch (const std::bad_alloc&) {
        std::fprintf(stderr, "error: out of memory\n");
        return 1;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "error: %s\n", error.what());
        return 1;
    }
}

}  // namespace thunder
