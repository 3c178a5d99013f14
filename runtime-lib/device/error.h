// How the runtime says that something cannot go on.
#pragma once

#include "support/error.h"
