// SPDX-License-Identifier: Apache-2.0
// What the command line asks of a device, and what the first line of a run says of the program on it.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "device/api.h"
#include "device/stream.h"
#include "train/options.h"
#include "train/program.h"

namespace thunder {

DeviceOptions device_options(const Options& options, const Communicator& communicator);
// What asks a GPU for something, of what the command line says: "--tf32, --autotune".
std::string gpu_options(const Options& options);
// "174144 parameters, of which 2688 train"
std::string parameter_text(const ProgramSpec& program);
// ", products: oneDNN 3.7.1": who has the program's calls. What it does not call has nobody.
std::string provider_text(const Providers& providers, const Device& device);

}  // namespace thunder
