// SPDX-License-Identifier: Apache-2.0
// Random changes of a Protobuf message, by the fields that its type has.
#pragma once

#include <google/protobuf/message.h>

#include <cstdint>
#include <random>
#include <string>

namespace thunderc::tests {

// Changes one field somewhere in the message: a number becomes one that programs trip over, a name becomes another name
// of the message, an element of a list goes, comes twice or changes its place, a field is cleared. Returns what was
// done, to tell a failure by. The same generator gives the same changes.
std::string mutate(google::protobuf::Message& message, std::mt19937_64& random);

}  // namespace thunderc::tests
