// SPDX-License-Identifier: Apache-2.0
#include "data/token_file.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian, and so is this code");

constexpr char magic[8] = {'t', 'h', 'u', 'n', 'd', 't', 'o', 'k'};
constexpr std::uint32_t format_version = 1;
constexpr std::size_t header_bytes = 64;

struct Header {
    std::array<char, 8> magic;
    std::uint32_t version, width;
    std::uint64_t count, vocabulary, checksum;
    std::array<std::uint64_t, 2> zero;
    std::uint64_t header_checksum;
};
static_assert(sizeof(Header) == header_bytes);

std::uint64_t checksum_of(const Header& header) {
    Checksum sum;
    sum.add(&header, offsetof(Header, header_checksum));
    return sum.value();
}

std::uint32_t width_for(std::uint64_t vocabulary) {
    return vocabulary <= 0x100 ? 1 : vocabulary <= 0x10000 ? 2 : 4;
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::string& path, std::uint64_t vocabulary)
    : path_(path), file_(path), vocabulary_(vocabulary), width_(width_for(vocabulary)) {
    if (vocabulary == 0 || vocabulary > (std::uint64_t{1} << 32))
        fail(cat("a vocabulary of ", vocabulary, " is not between 1 and 2^32"));
    const std::array<std::byte, header_bytes> header{};
    file_.write(header.data(), header.size());  // filled in by commit(), when all is known
}

void TokenFileWriter::append(std::span<const std::uint32_t> ids) {
    buffer_.resize(ids.size() * width_);
    for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] >= vocabulary_) {
            fail(cat(path_, ": token ", count_ + i, " is ", ids[i], ", and the vocabulary has ", vocabulary_),
                 "name the tokenizer's whole vocabulary");
        }
        std::memcpy(buffer_.data() + i * width_, &ids[i], width_);
    }
    file_.write(buffer_.data(), buffer_.size());
    checksum_.add(buffer_.data(), buffer_.size());
    count_ += ids.size();
}

void TokenFileWriter::commit() {
    Header header{};
    std::copy(std::begin(magic), std::end(magic), header.magic.begin());
    header.version = format_version;
    header.width = width_;
    header.count = count_;
    header.vocabulary = vocabulary_;
    header.checksum = checksum_.value();
    header.header_checksum = checksum_of(header);
    file_.rewrite(0, &header, sizeof header);
    file_.commit();
}

TokenFile::TokenFile(const std::string& path) : file_(path) {
    const std::span<const std::byte> bytes = file_.bytes();
    Header header{};
    if (bytes.size() >= sizeof header) std::memcpy(&header, bytes.data(), sizeof header);
    if (!std::equal(std::begin(magic), std::end(magic), header.magic.begin())) {
        fail(cat(path, " is not a file of packed tokens"), "thunderc data pack FILE... -o corpus.bin makes one");
    }
    if (header.version != format_version)
        fail(cat(path, " has version ", header.version, " of the token format, and this program reads version ",
                 format_version),
             "pack it again");
    const bool known_width = header.width == 1 || header.width == 2 || header.width == 4;
    if (header.header_checksum != checksum_of(header) || !known_width)
        fail(cat(path, " is damaged: its header is not what was written"), "pack it again");
    const std::uint64_t held = (bytes.size() - header_bytes) / header.width;
    if (header.count != held || (bytes.size() - header_bytes) % header.width != 0) {
        fail(cat(path, header.count > held ? " is truncated" : " is damaged", ": it should hold ",
                 count_text(header.count, "token"), " and holds ", held),
             "copy it again, or pack it again");
    }
    ids_ = bytes.data() + header_bytes;
    count_ = header.count;
    vocabulary_ = header.vocabulary;
    checksum_ = header.checksum;
    width_ = header.width;
}

std::uint32_t TokenFile::operator[](std::uint64_t index) const {
    std::uint32_t id = 0;
    std::memcpy(&id, ids_ + index * width_, width_);
    return id;
}

void TokenFile::read(std::uint64_t first, std::span<std::int64_t> out) const {
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = (*this)[first + i];
}

void TokenFile::verify() const {
    Checksum sum;
    sum.add(ids_, count_ * width_);
    if (sum.value() != checksum_)
        fail(cat(path(), " is damaged: its tokens are not what was written"), "copy it again, or pack it again");
}

}  // namespace thunder
