// SPDX-License-Identifier: Apache-2.0
// Libraries that are opened when the program runs, so that one that is missing is a message and not the loader's.
#pragma once

#include <string>
#include <vector>

namespace thunder {

class Library {
  public:
    // Opens the first of `names` that is found: where the system looks for libraries, then in the folders where the
    // build saw them. `what` and `help` are for the message where none is: "cuBLASLt".
    Library(std::string what, const std::vector<std::string>& names, const std::string& help);
    Library(const Library&) = delete;
    Library& operator=(const Library&) = delete;
    // Libraries stay open until the process ends: what they registered with it outlives every object here.
    ~Library() = default;

    // One of its functions; fails where the library has none of that name.
    template <typename Function>
    Function* function(const char* name) const {
        return reinterpret_cast<Function*>(symbol(name));
    }

    void* handle() const { return handle_; }

  private:
    void* symbol(const char* name) const;

    std::string what_;
    void* handle_ = nullptr;
};

}  // namespace thunder
