// SPDX-License-Identifier: Apache-2.0
#include "train/schedule.h"

#include "helpers.h"

namespace thunder {
namespace schedule_test {

TEST(ScheduleTest, FollowsTheTable) {
    // Computed with Python's floats from the definitions: 20 steps, 4 of warm-up, from 1e-3 to 1e-4.
    const std::pair<Schedule, std::vector<double>> tables[] = {
        {Schedule::cosine,
         {0.00025,
          0.0005,
          0.00075,
          0.001,
          0.001,
          0.0009913533761814538,
          0.000965745789630079,
          0.0009241613255361454,
          0.0008681980515339464,
          0.000800006604858821,
          0.0007222075445642905,
          0.0006377906449072579,
          0.00055,
          0.0004622093550927423,
          0.0003777924554357096,
          0.00029999339514117913,
          0.00023180194846605365,
          0.0001758386744638546,
          0.00013425421036992097,
          0.00010864662381854631}},
        {Schedule::linear, {0.00025,    0.0005,     0.00075,    0.001,      0.001,      0.00094375, 0.0008875,
                            0.00083125, 0.000775,   0.00071875, 0.0006625,  0.00060625, 0.00055,    0.00049375,
                            0.0004375,  0.00038125, 0.000325,   0.00026875, 0.0002125,  0.00015625}},
        {Schedule::constant, {0.00025, 0.0005, 0.00075, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001,
                              0.001,   0.001,  0.001,   0.001, 0.001, 0.001, 0.001, 0.001, 0.001, 0.001}},
        {Schedule::wsd, {0.00025, 0.0005, 0.00075, 0.001, 0.001, 0.001, 0.001, 0.001,    0.001,   0.001,
                         0.001,   0.001,  0.001,   0.001, 0.001, 0.001, 0.001, 0.000775, 0.00055, 0.000325}},
    };
    Options o;
    o.steps = 20;
    o.warmup = 4;
    o.lr = 1e-3;
    o.min_lr = 1e-4;
    for (const auto& [schedule, table] : tables) {
        o.schedule = schedule;
        for (std::int64_t step = 0; step < 20; ++step) {
            // A few roundings of fp64 in another order.
            EXPECT_NEAR(learning_rate(o, step), table[static_cast<std::size_t>(step)], 1e-18)
                << static_cast<int>(schedule) << " step " << step;
        }
    }
}

TEST(ScheduleTest, HasNoHolesAtTheEdges) {
    Options o;
    o.lr = 1;
    o.min_lr = 0;
    for (const Schedule schedule : {Schedule::cosine, Schedule::linear, Schedule::constant, Schedule::wsd}) {
        o.schedule = schedule;
        for (const std::int64_t steps : {0, 1, 2, 10}) {
            for (const std::int64_t warmup : {0, 1, 10, 20}) {
                o.steps = steps;
                o.warmup = warmup;
                for (std::int64_t step = 0; step < steps + 2; ++step) {
                    EXPECT_GE(learning_rate(o, step), 0);
                    EXPECT_LE(learning_rate(o, step), 1);
                }
            }
        }
        o.steps = 10;
        o.warmup = 0;
        EXPECT_EQ(learning_rate(o, 0), 1);
        EXPECT_NEAR(learning_rate(o, 10), schedule == Schedule::constant ? 1 : 0, 1e-16);
    }
}

}  // namespace schedule_test
}  // namespace thunder
