// SPDX-License-Identifier: Apache-2.0
// What an update that runs beside a forward pass (train/updates.h) has of a GPU; the compiler's estimates ask here too.
#pragma once

namespace thunder {

// One of so many multiprocessors: products leave it (Stream::leave), and the update, which runs behind all else, takes
// it. More of them would end the update sooner, and slow down products that are bound by them.
inline constexpr int share_of_update = 8;

}  // namespace thunder
