// SPDX-License-Identifier: Apache-2.0
// docs/ops.md says what the definitions say.
#include "compiler/ops/docs.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

namespace thunderc {
namespace docs_test {

TEST(Docs, OpsPageIsUpToDate) {
    const std::string path = std::string(DOCS) + "/ops.md";
    if (std::getenv("THUNDERC_UPDATE") != nullptr) std::ofstream(path) << ops_table();
    std::stringstream held;
    held << std::ifstream(path).rdbuf();
    EXPECT_TRUE(held.str() == ops_table()) << path << " is out of date: run scripts/generate_docs.sh";
}

}  // namespace docs_test
}  // namespace thunderc
