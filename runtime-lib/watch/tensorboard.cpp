// SPDX-License-Identifier: Apache-2.0
#include "watch/tensorboard.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <ctime>
#include <utility>

#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::array<std::uint32_t, 256> make_crc_table() {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t byte = 0; byte < 256; ++byte) {
        std::uint32_t crc = byte;
        for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1U) ^ ((crc & 1U) != 0 ? 0x82f63b78U : 0U);
        table[byte] = crc;
    }
    return table;
}

// A checksum of data that holds checksums says little: TensorFlow's record format turns and shifts it.
std::uint32_t masked(std::uint32_t crc) {
    return std::rotr(crc, 15) + 0xa282ead8U;
}

std::string little_endian(std::uint64_t number, std::size_t bytes) {
    std::string out;
    for (std::size_t k = 0; k < bytes; ++k) out += static_cast<char>(number >> (8 * k) & 0xffU);
    return out;
}

// ---- protocol buffers: fields of the types that an Event needs -----------------------------------------------------

std::string varint(std::uint64_t number) {
    std::string out;
    for (; number >= 0x80; number >>= 7U) out += static_cast<char>((number & 0x7fU) | 0x80U);
    return out + static_cast<char>(number);
}

enum class Wire : std::uint8_t { varint = 0, eight_bytes = 1, length = 2, four_bytes = 5 };

std::string key(std::uint64_t field, Wire wire) {
    return varint(field << 3U | static_cast<std::uint64_t>(wire));
}
std::string whole(std::uint64_t field, std::int64_t number) {
    return key(field, Wire::varint) + varint(static_cast<std::uint64_t>(number));
}
std::string real64(std::uint64_t field, double number) {
    return key(field, Wire::eight_bytes) + little_endian(std::bit_cast<std::uint64_t>(number), 8);
}
std::string real32(std::uint64_t field, float number) {
    return key(field, Wire::four_bytes) + little_endian(std::bit_cast<std::uint32_t>(number), 4);
}
std::string text(std::uint64_t field, std::string_view bytes) {
    return key(field, Wire::length) + varint(bytes.size()) + std::string(bytes);
}

// Event: wall_time = 1, step = 2, and one of file_version = 3, summary = 5, session_log = 7.
std::string event(std::int64_t step, const std::string& what) {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    return real64(1, static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9) + whole(2, step) + what;
}

std::string name_of_file() {
    char host[256] = "localhost";
    gethostname(host, sizeof host - 1);
    char seconds[32];
    // Ten digits: TensorBoard reads the files of a folder in the order of their names.
    std::snprintf(seconds, sizeof seconds, "%010lld", static_cast<long long>(std::time(nullptr)));
    return cat("events.out.tfevents.", seconds, ".", host, ".", static_cast<std::int64_t>(getpid()), ".0");
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
    static constexpr std::array<std::uint32_t, 256> table = make_crc_table();
    std::uint32_t crc = 0xffffffffU;
    for (const char byte : bytes) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xffU] ^ (crc >> 8U);
    return ~crc;
}

std::string tensorboard_record(std::string_view bytes) {
    const std::string length = little_endian(bytes.size(), 8);
    return length + little_endian(masked(crc32c(length)), 4) + std::string(bytes) +
           little_endian(masked(crc32c(bytes)), 4);
}

TensorBoard::TensorBoard(const std::string& folder, std::optional<std::int64_t> first_step) {
    make_folders(folder);
    path_ = join_path(folder, name_of_file());
    file_ = std::fopen(path_.c_str(), "ab");
    if (file_ == nullptr) fail_writing(path_, errno);
    append(event(0, text(3, "brain.Event:2")));
    // SessionLog: status = 1, of which START is 1. TensorBoard drops what earlier files have from this step on.
    if (first_step) append(event(*first_step, text(7, whole(1, 1))));
}

TensorBoard::~TensorBoard() {
    if (file_ != nullptr) std::fclose(file_);
}

// Summary: value = 1, repeated; Value: tag = 1, simple_value = 2.
void TensorBoard::write(std::int64_t step, std::span<const std::pair<std::string_view, double>> scalars) {
    std::string summary;
    for (const auto& [tag, number] : scalars) summary += text(1, text(1, tag) + real32(2, static_cast<float>(number)));
    append(event(step, text(5, summary)));
}

void TensorBoard::append(const std::string& event) {
    const std::string record = tensorboard_record(event);
    if (std::fwrite(record.data(), 1, record.size(), file_) == record.size() && std::fflush(file_) == 0) return;
    const int error = errno;
    std::fclose(std::exchange(file_, nullptr));
    fail_writing(path_, error);
}

}  // namespace thunder
