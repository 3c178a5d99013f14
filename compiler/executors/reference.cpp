// The naive program: everything that has a primitive form is decomposed, whatever other executors could do with it.
#include "compiler/executors/executor.h"

namespace thunderc {

Executor reference_executor() {
    return {"reference", "nothing is claimed: the program of primitives that others are compared with",
            [](const Op&, const Function&) -> std::optional<std::string> { return ""; }};
}

}  // namespace thunderc
