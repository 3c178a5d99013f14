// Which provider computes the matrix products of this build; see linear_onednn.cpp, linear_reference.cpp.
#pragma once

#include <string>

namespace thunder {

// Its name and version, for the log.
std::string products_provider();

}  // namespace thunder
