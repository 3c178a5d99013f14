// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/mpi_call.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

void check_mpi(int result, const char* call) {
    if (result == MPI_SUCCESS) return;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length = 0;
    MPI_Error_string(result, text, &length);
    fail(cat("MPI fails: ", call, " says ", std::string(text, static_cast<std::size_t>(length))));
}

void wait_for(MPI_Request& request) {
    constexpr int eager = 100;  // looks before the first sleep
    useconds_t pause = 20;
    for (int looks = 0;; ++looks) {
        int done = 0;
        check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), "MPI_Test");
        if (done != 0) return;
        if (looks < eager) {
            sched_yield();
        } else {
            usleep(pause);
            pause = std::min<useconds_t>(2 * pause, 500);
        }
    }
}

}  // namespace thunder
