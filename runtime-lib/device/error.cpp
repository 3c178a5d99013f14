#include "device/error.h"

namespace thunder {

void fail(const std::string& message) {
    throw Error(message);
}

}  // namespace thunder
