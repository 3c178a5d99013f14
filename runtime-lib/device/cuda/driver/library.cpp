// SPDX-License-Identifier: Apache-2.0
#include "device/cuda/driver/library.h"

#include <dlfcn.h>

#include <string_view>

#include "support/error.h"
#include "support/text.h"

#ifndef THUNDER_LIBRARY_FOLDERS
#define THUNDER_LIBRARY_FOLDERS ""
#endif

namespace thunder {

namespace {

// The folders of a list that colons separate.
std::vector<std::string> folders() {
    std::vector<std::string> out;
    for (std::string_view rest = THUNDER_LIBRARY_FOLDERS; !rest.empty();) {
        const std::size_t end = std::min(rest.find(':'), rest.size());
        if (end > 0) out.emplace_back(rest.substr(0, end));
        rest.remove_prefix(std::min(end + 1, rest.size()));
    }
    return out;
}

}  // namespace

Library::Library(std::string what, const std::vector<std::string>& names, const std::string& help)
    : what_(std::move(what)) {
    std::string found_but;
    const auto open = [&](const std::string& path) {
        // Global: cuDNN's parts look for one another's functions.
        handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL);
        if (handle_ != nullptr) return true;
        // A file that is there and cannot be loaded is told from one that is not there.
        const char* error = dlerror();
        if (error != nullptr && std::string_view(error).find("No such file") == std::string_view::npos)
            found_but = error;
        return false;
    };
    for (const std::string& name : names)
        if (open(name)) return;
    for (const std::string& folder : folders())
        for (const std::string& name : names)
            if (open(cat(folder, "/", name))) return;
    fail(found_but.empty() ? cat(what_, " is not there: no ", list_text(names), " is found")
                           : cat(what_, " cannot be loaded: ", found_but),
         help);
}

void* Library::symbol(const char* name) const {
    if (void* address = dlsym(handle_, name)) return address;
    fail(cat(what_, " is another version than the program was built with: it has no ", name),
         "build the program on this machine, or install the version that it was built with");
}

}  // namespace thunder
