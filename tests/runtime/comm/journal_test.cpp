// What a rank says of where it stands.
#include "comm/ranks/journal.h"

#include <gtest/gtest.h>

#include "comm/ranks/watch.h"

namespace thunder {
namespace {

// A tensor's name lives as long as it is sent; the watch asks at any time.
TEST(Journal, KeepsTheNameOfTheLastCollective) {
    Journal journal;
    std::string name = "optimizer.m.model.layers.0.self_attn.q_proj.weight";
    journal.run(journal.main(), {"receive", name.c_str(), -1, 4}, [] {});
    name.assign(name.size(), 'x');
    EXPECT_EQ(where_it_stands(journal).find("in no collective, the last was receive of "
                                            "optimizer.m.model.layers.0.self_attn.q_proj.weight, number 1 of stream "
                                            "compute, "),
              0U)
        << where_it_stands(journal);
}

}  // namespace
}  // namespace thunder
