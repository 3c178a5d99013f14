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
constexpr std::uint32_t plain_version = 1, newest_version = 2;
constexpr std::uint64_t mask_flag = 1;
constexpr std::size_t header_bytes = 64;

struct Header {
    std::array<char, 8> magic;
    std::uint32_t version, width;
    std::uint64_t count, vocabulary, checksum;
    std::uint64_t documents, flags;
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

std::uint64_t padding_behind(std::uint64_t bytes) {
    return (8 - bytes % 8) % 8;
}

std::uint64_t words_of_mask(std::uint64_t count) {
    return count / 64 + (count % 64 != 0 ? 1 : 0);
}

std::uint64_t word_at(const std::byte* words, std::uint64_t index) {
    std::uint64_t word = 0;
    std::memcpy(&word, words + index * 8, 8);
    return word;
}

}  // namespace

TokenFileWriter::TokenFileWriter(const std::string& path, std::uint64_t vocabulary)
    : path_(path), file_(path), vocabulary_(vocabulary), width_(width_for(vocabulary)) {
    if (vocabulary == 0 || vocabulary > (std::uint64_t{1} << 32))
        fail(cat("a vocabulary of ", vocabulary, " is not between 1 and 2^32"));
    const std::array<std::byte, header_bytes> header{};
    file_.write(header.data(), header.size());  // filled in by commit(), when all is known
}

void TokenFileWriter::write(std::span<const std::uint32_t> ids) {
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

void TokenFileWriter::append(std::span<const std::uint32_t> ids) {
    write(ids);
    if (masked_) mark(count_ - ids.size(), count_);
}

void TokenFileWriter::append(std::span<const std::uint32_t> ids, std::span<const std::uint8_t> trained) {
    const std::uint64_t first = count_;
    const auto is_left_out = [](std::uint8_t t) { return t == 0; };
    if (!masked_ && std::any_of(trained.begin(), trained.end(), is_left_out)) {
        masked_ = true;
        mark(0, first);
    }
    write(ids);
    if (!masked_) return;
    mask_.resize(words_of_mask(count_));
    for (std::size_t i = 0; i < trained.size(); ++i)
        if (trained[i] != 0) mark(first + i, first + i + 1);
}

void TokenFileWriter::mark(std::uint64_t from, std::uint64_t to) {
    mask_.resize(std::max<std::size_t>(mask_.size(), words_of_mask(to)));
    for (std::uint64_t i = from; i < to;) {
        if (i % 64 == 0 && to - i >= 64) {
            mask_[i / 64] = ~std::uint64_t{0};
            i += 64;
        } else {
            mask_[i / 64] |= std::uint64_t{1} << i % 64;
            ++i;
        }
    }
}

void TokenFileWriter::end_document() {
    if (count_ > (ends_.empty() ? 0 : ends_.back())) ends_.push_back(count_);
}

std::uint64_t TokenFileWriter::write_sections() {
    Checksum sum;
    const auto add = [&](const void* data, std::size_t bytes) {
        file_.write(data, bytes);
        sum.add(data, bytes);
    };
    constexpr std::array<std::byte, 8> zeros{};
    add(zeros.data(), padding_behind(count_ * width_));
    add(ends_.data(), ends_.size() * 8);
    add(mask_.data(), mask_.size() * 8);
    return sum.value();
}

void TokenFileWriter::commit() {
    if (!ends_.empty()) end_document();
    const bool plain = ends_.empty() && !masked_;  // as programs that know no other version read it
    if (!plain) {
        const std::uint64_t sum = write_sections();
        file_.write(&sum, sizeof sum);
    }
    Header header{};
    std::copy(std::begin(magic), std::end(magic), header.magic.begin());
    header.version = plain ? plain_version : newest_version;
    header.width = width_;
    header.count = count_;
    header.vocabulary = vocabulary_;
    header.checksum = checksum_.value();
    header.documents = ends_.size();
    header.flags = masked_ ? mask_flag : 0;
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
    if (header.version < plain_version || header.version > newest_version)
        fail(cat(path, " has version ", header.version, " of the token format, and this program reads versions ",
                 plain_version, " and ", newest_version),
             "pack it again");
    const bool plain = header.version == plain_version;
    const bool known_width = header.width == 1 || header.width == 2 || header.width == 4;
    const bool known_sections = plain ? header.documents == 0 && header.flags == 0 : (header.flags & ~mask_flag) == 0;
    if (header.header_checksum != checksum_of(header) || !known_width || !known_sections)
        fail(cat(path, " is damaged: its header is not what was written"), "pack it again");

    const std::uint64_t body = bytes.size() - header_bytes, held = body / header.width;
    if (plain ? header.count != held || body % header.width != 0 : header.count > held) {
        fail(cat(path, header.count > held ? " is truncated" : " is damaged", ": it should hold ",
                 count_text(header.count, "token"), " and holds ", held),
             "copy it again, or pack it again");
    }
    ids_ = bytes.data() + header_bytes;
    count_ = header.count;
    vocabulary_ = header.vocabulary;
    checksum_ = header.checksum;
    header_checksum_ = header.header_checksum;
    version_ = header.version;
    width_ = header.width;
    if (plain) return;

    const std::uint64_t ids = count_ * width_ + padding_behind(count_ * width_);
    const bool masked = (header.flags & mask_flag) != 0;
    // The header's numbers may be anything: no sum of theirs is made before each is known to fit.
    const std::uint64_t others = ids + (masked ? 8 * words_of_mask(count_) : 0) + 8;  // than ends of documents
    if (header.documents > count_ || body < others || body - others != 8 * header.documents) {
        fail(cat(path, " is cut short or damaged: the ends of ", count_text(header.documents, "document"),
                 masked ? " and a mask" : "", " should be behind its tokens"),
             "copy it again, or pack it again");
    }
    documents_ = header.documents;
    if (documents_ > 0) ends_ = ids_ + ids;
    if (masked) mask_ = ids_ + ids + 8 * documents_;
    if (documents_ > 0 && document_end(documents_ - 1) != count_)
        fail(cat(path, " is damaged: its last document does not end at its last token"),
             "copy it again, or pack it again");
}

std::uint32_t TokenFile::operator[](std::uint64_t index) const {
    std::uint32_t id = 0;
    std::memcpy(&id, ids_ + index * width_, width_);
    return id;
}

void TokenFile::read(std::uint64_t first, std::span<std::int64_t> out) const {
    const std::byte* const from = ids_ + first * width_;
    const auto widen = [&]<typename T>(T id) {
        for (std::size_t i = 0; i < out.size(); ++i) {
            std::memcpy(&id, from + i * sizeof id, sizeof id);
            out[i] = id;
        }
    };
    if (width_ == 1) return widen(std::uint8_t{});
    if (width_ == 2) return widen(std::uint16_t{});
    widen(std::uint32_t{});
}

void TokenFile::release(std::uint64_t first, std::uint64_t count) const {
    // With a page that is read the system maps those around it that it has in memory: as many bytes at most.
    constexpr std::uint64_t around = 65536;
    const std::uint64_t begin = first * width_, end = begin + count * width_;
    const std::uint64_t low = begin - std::min(begin, around), high = std::min(end + around, count_ * width_);
    file_.release({ids_ + low, high - low});
}

void TokenFile::release_sections() const {
    if (version_ > plain_version) file_.release(file_.bytes().subspan(header_bytes + count_ * width_));
}

std::uint64_t TokenFile::document_end(std::uint64_t i) const {
    return word_at(ends_, i);
}

std::uint64_t TokenFile::document_of(std::uint64_t index) const {
    std::uint64_t first = 0, last = documents_;  // the first whose end is behind it is in [first, last)
    while (first + 1 < last) {
        const std::uint64_t middle = first + (last - first - 1) / 2;
        if (document_end(middle) > index) {
            last = middle + 1;
        } else {
            first = middle + 1;
        }
    }
    return first;
}

bool TokenFile::trained(std::uint64_t index) const {
    return mask_ == nullptr || (word_at(mask_, index / 64) >> index % 64 & 1) != 0;
}

std::uint64_t TokenFile::fingerprint() const {
    Checksum sum;
    sum.add(&header_checksum_, sizeof header_checksum_);
    if (version_ > plain_version) sum.add(file_.bytes().data() + file_.bytes().size() - 8, 8);
    return sum.value();
}

void TokenFile::verify(const std::function<void(std::size_t)>& read) const {
    constexpr std::uint64_t ids_at_once = 1 << 24;
    Checksum sum;
    for (std::uint64_t first = 0; first < count_; first += ids_at_once) {
        const std::uint64_t count = std::min(ids_at_once, count_ - first);
        sum.add(ids_ + first * width_, count * width_);
        release(first, count);
        if (read) read(count * width_);
    }
    if (sum.value() != checksum_)
        fail(cat(path(), " is damaged: its tokens are not what was written"), "copy it again, or pack it again");
    verify_sections();
}

void TokenFile::verify_sections() const {
    if (version_ == plain_version) return;
    const std::byte* const begin = ids_ + count_ * width_;
    const std::byte* const end = file_.bytes().data() + file_.bytes().size() - 8;
    Checksum sum;
    sum.add(begin, static_cast<std::size_t>(end - begin));
    bool right = sum.value() == word_at(end, 0);
    for (std::uint64_t i = 0; i < documents_ && right; ++i) right = document_end(i) > (i > 0 ? document_end(i - 1) : 0);
    release_sections();
    if (!right)
        fail(cat(path(), " is damaged: the ends of its documents and its mask are not what was written"),
             "copy it again, or pack it again");
}

}  // namespace thunder
