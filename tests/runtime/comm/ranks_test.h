// SPDX-License-Identifier: Apache-2.0
// Programs of several ranks, beside those of one.
#pragma once

#include <sys/types.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "program_test.h"

namespace thunder {

// Processes that a process has started.
inline std::vector<pid_t> children_of(pid_t parent) {
    std::vector<pid_t> children;
    std::error_code gone;
    for (const auto& entry : std::filesystem::directory_iterator("/proc", gone)) {
        const std::string name = entry.path().filename().string();
        if (name.find_first_not_of("0123456789") != std::string::npos) continue;
        const std::string stat = read_file(entry.path() / "stat");
        const std::size_t end = stat.rfind(')');
        int its_parent = 0;
        if (end != std::string::npos && std::sscanf(stat.c_str() + end, ") %*c %d", &its_parent) == 1 &&
            its_parent == parent)
            children.push_back(static_cast<pid_t>(std::stol(name)));
    }
    std::sort(children.begin(), children.end());
    return children;
}

class RanksTest : public ProgramTest {
  protected:
    static constexpr const char* mpirun = MPIRUN " --oversubscribe --allow-run-as-root";

    static std::string started(int ranks, const std::string& program, const std::string& arguments) {
        return cat(mpirun, " -np ", ranks, " ", PROGRAMS, "/", program, " ", arguments);
    }
    Outcome run_ranks(int ranks, const std::string& program, const std::string& arguments) const {
        return shell(started(ranks, program, arguments));
    }
};

}  // namespace thunder
