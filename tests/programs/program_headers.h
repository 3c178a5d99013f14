// SPDX-License-Identifier: Apache-2.0
// What the sources of most programs include of the runtime: compiled once, ahead of those that are compiled as one
// file, which take half of their time to read it (GeneratedProgram).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>

#include "comm/collectives.h"
#include "comm/units.h"
#include "device/api.h"
#include "device/check_cpu.h"
#include "device/cpu/row_reduction.h"
#include "device/cpu/vec_math.h"
#include "device/parallel.h"
#include "device/stream.h"
#include "device/timed.h"
#include "device/types.h"
#include "optim/global_norm.h"
#include "optim/step_scalars.h"
#include "optim/update.h"
#include "support/error.h"
#include "train/arenas.h"
#include "train/options.h"
#include "train/program.h"
#include "train/trainer.h"
