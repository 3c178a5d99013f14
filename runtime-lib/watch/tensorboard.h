// SPDX-License-Identifier: Apache-2.0
// Event files, as TensorBoard reads them: records of TFRecord, each with an Event of TensorFlow's event.proto in it,
// written by hand, since the few fields that scalars need are few lines.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace thunder {

// Of the bytes, with Castagnoli's polynomial (RFC 3720, B.4).
std::uint32_t crc32c(std::string_view bytes);

// A record: its length, a masked checksum of that, the bytes, a masked checksum of them.
std::string tensorboard_record(std::string_view bytes);

class TensorBoard {
  public:
    // Begins a file in the folder, which is made. Events of `first_step` and later ones that earlier files in the
    // folder have are taken back: there the run begins, or goes on.
    TensorBoard(const std::string& folder, std::optional<std::int64_t> first_step);
    ~TensorBoard();
    TensorBoard(const TensorBoard&) = delete;
    TensorBoard& operator=(const TensorBoard&) = delete;

    // Scalars by their tags.
    void write(std::int64_t step, std::span<const std::pair<std::string_view, double>> scalars);

  private:
    void append(const std::string& event);

    std::string path_;
    std::FILE* file_ = nullptr;
};

}  // namespace thunder
