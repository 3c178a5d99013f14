// How the runtime says that something cannot go on: one function, one exception, caught in main.
#pragma once

#include <stdexcept>
#include <string>

namespace thunder {

// Carries a lower-case sentence for the user. The program prints "error: …" and ends with status 1.
class Error : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

[[noreturn]] void fail(const std::string& message);

}  // namespace thunder
