// SPDX-License-Identifier: Apache-2.0
// Calls of MPI: their errors, and waiting for them.
#pragma once

#define OMPI_SKIP_MPICXX 1  // Open MPI's and MPICH's C++ interfaces, which nobody needs and which take long to read
#define MPICH_SKIP_MPICXX 1
#include <mpi.h>

namespace thunder {

// Fails with what MPI says of the error.
void check_mpi(int result, const char* call);

// Returns when the request is done. A blocking call of MPI keeps a core busy while it waits, of which the ranks of a
// host have none too many: this one looks, at first often, then less and less so, and sleeps in between.
void wait_for(MPI_Request& request);

}  // namespace thunder
