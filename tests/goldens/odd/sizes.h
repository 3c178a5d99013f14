// sizes.h: what shapes are made of, for the model and its kernels.
#pragma once

#include <cstdint>

