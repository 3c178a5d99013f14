// SPDX-License-Identifier: Apache-2.0
// Files of tokens that other programs wrote. nanoGPT: u16 ids and nothing else. llm.c: a header of 1,024 bytes (magic,
// version, count), then u16 or u32 ids. Megatron: .bin with ids, .idx with their type and the lengths of documents.
// NumPy: .npy of integers, its rows one behind the other.
#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstring>
#include <string_view>

#include "packing/documents.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;

enum class Width : std::uint8_t { u8, i8, u16, i16, i32, u32, i64, u64 };

std::size_t bytes_of(Width width) {
    constexpr std::size_t bytes[] = {1, 1, 2, 2, 4, 4, 8, 8};
    return bytes[static_cast<std::size_t>(width)];
}

template <typename T>
T load(const std::byte* from) {
    T value;
    std::memcpy(&value, from, sizeof value);
    return value;
}

struct Layout {
    std::size_t first = 0;  // byte of the first id
    std::uint64_t count = 0;
    Width width = Width::u16;
    std::vector<std::uint64_t> ends;  // of documents; none: the file is one
};

[[noreturn]] void fail_damaged(const std::string& path, const std::string& why) {
    fail(cat(path, " is damaged, or no such file of tokens: ", why), "copy it again, or name its kind with --format");
}

class TokenSource : public DocumentSource {
  public:
    TokenSource(const std::string& path, Layout layout) : file_(path), layout_(std::move(layout)) {
        const std::size_t held = file_.bytes().size();
        if (layout_.first > held || layout_.count > (held - layout_.first) / bytes_of(layout_.width))
            fail_damaged(path, cat("it should hold ", thunder::count_text(layout_.count, "token")));
        if (layout_.ends.empty()) layout_.ends.push_back(layout_.count);
        std::uint64_t last = 0;
        for (const std::uint64_t end : layout_.ends) {
            if (end < last || end > layout_.count) fail_damaged(path, "its documents do not lie in it");
            last = end;
        }
    }

    bool next(Document& document) override {
        document = {};
        document.has_ids = true;
        document.begins = begins_;
        document.where = cat(file_.path(), ", token ", at_);
        while (next_ < layout_.ends.size() && layout_.ends[next_] == at_) ++next_;
        if (next_ == layout_.ends.size()) return false;
        constexpr std::uint64_t slice = 1 << 20;  // long documents come in parts
        const std::uint64_t end = std::min(layout_.ends[next_], at_ + slice);
        document.ends = begins_ = end == layout_.ends[next_];
        document.ids.reserve(end - at_);
        for (; at_ < end; ++at_) document.ids.push_back(id_at(at_));
        return true;
    }
    std::uint64_t bytes_taken() const override { return layout_.first + at_ * bytes_of(layout_.width); }

  private:
    std::uint32_t id_at(std::uint64_t i) const {
        const std::byte* const from = file_.bytes().data() + layout_.first + i * bytes_of(layout_.width);
        std::int64_t id = 0;
        switch (layout_.width) {
            case Width::u8: id = load<std::uint8_t>(from); break;
            case Width::i8: id = load<std::int8_t>(from); break;
            case Width::u16: id = load<std::uint16_t>(from); break;
            case Width::i16: id = load<std::int16_t>(from); break;
            case Width::i32: id = load<std::int32_t>(from); break;
            case Width::u32: id = load<std::uint32_t>(from); break;
            case Width::i64: id = load<std::int64_t>(from); break;
            case Width::u64:
                id = static_cast<std::int64_t>(std::min<std::uint64_t>(load<std::uint64_t>(from), INT64_MAX));
                break;
        }
        if (id < 0 || id > UINT32_MAX)
            fail(cat(file_.path(), ": token ", i, " is ", id, ", which is no id"), "check what the file holds");
        return static_cast<std::uint32_t>(id);
    }

    thunder::MappedFile file_;
    Layout layout_;
    std::uint64_t at_ = 0;
    std::size_t next_ = 0;  // document
    bool begins_ = true;
};

Layout nanogpt_layout(const std::string& path) {
    const thunder::MappedFile file(path);
    if (file.bytes().size() % 2 != 0) fail_damaged(path, "u16 ids take an even number of bytes");
    return {0, file.bytes().size() / 2, Width::u16, {}};
}

Layout llmc_layout(const std::string& path) {
    const thunder::MappedFile file(path);
    constexpr std::size_t header = 1024;
    if (file.bytes().size() < header) fail_damaged(path, "its header is cut short");
    const auto magic = load<std::uint32_t>(file.bytes().data());
    const auto count = load<std::uint32_t>(file.bytes().data() + 8);
    if (magic != 20240520 && magic != 20240801) fail_damaged(path, "it does not begin as llm.c's files do");
    return {header, count, magic == 20240520 ? Width::u16 : Width::u32, {}};
}

Layout megatron_layout(const std::string& path) {
    const std::string index = cat(path.substr(0, path.size() - (path.ends_with(".bin") ? 4 : 0)), ".idx");
    const thunder::MappedFile file(index);
    const std::span<const std::byte> bytes = file.bytes();
    constexpr std::string_view magic("MMIDIDX\0\0", 9);
    constexpr std::size_t header = 9 + 8 + 1 + 8 + 8;
    if (bytes.size() < header || std::memcmp(bytes.data(), magic.data(), magic.size()) != 0)
        fail_damaged(index, "it does not begin as Megatron's do");
    if (const auto version = load<std::uint64_t>(bytes.data() + 9); version != 1)
        fail(cat(index, " has version ", version, " of Megatron's format, and 1 is read"), "write it as version 1");
    constexpr Width widths[] = {Width::u8, Width::i8, Width::i16, Width::i32, Width::i64};
    const auto code = load<std::uint8_t>(bytes.data() + 17);
    Layout layout;
    if (code >= 1 && code <= 5) {
        layout.width = widths[code - 1];
    } else if (code == 8) {
        layout.width = Width::u16;
    } else {
        fail(cat(index, " is of numbers that are no ids (type ", static_cast<int>(code), ")"), "pack integers");
    }
    const auto sequences = load<std::uint64_t>(bytes.data() + 18), documents = load<std::uint64_t>(bytes.data() + 26);
    const std::uint64_t words = (bytes.size() - header) / 4;
    if (sequences > words / 3 || documents > words / 2 || sequences * 12 + documents * 8 > bytes.size() - header)
        fail_damaged(index, "it is cut short");
    // Lengths of sequences, where they begin, and the sequences at which documents begin, the last one's end included.
    const std::byte* const lengths = bytes.data() + header;
    const std::byte* const firsts = lengths + sequences * 12;
    std::uint64_t sequence = 0;
    for (std::uint64_t d = 0; d < documents; ++d) {
        const auto until = load<std::uint64_t>(firsts + d * 8);
        if (until < sequence || until > sequences) fail_damaged(index, "its documents do not lie in it");
        for (; sequence < until; ++sequence) layout.count += load<std::uint32_t>(lengths + sequence * 4);
        if (layout.count > 0) layout.ends.push_back(layout.count);
    }
    if (const std::uint64_t left = sequences - sequence; left > 0)
        fail_damaged(index, cat(thunder::count_text(left, "sequence"), " at its end ", left == 1 ? "is" : "are",
                                " in no document"));
    return layout;
}

Layout npy_layout(const std::string& path) {
    const thunder::MappedFile file(path);
    const std::span<const std::byte> bytes = file.bytes();
    if (bytes.size() < 12 || std::memcmp(bytes.data(), "\x93NUMPY", 6) != 0) fail_damaged(path, "it is no .npy");
    const bool first_version = load<std::uint8_t>(bytes.data() + 6) == 1;
    const std::size_t begin = first_version ? 10 : 12;
    const std::size_t size =
        first_version ? load<std::uint16_t>(bytes.data() + 8) : load<std::uint32_t>(bytes.data() + 8);
    if (size > bytes.size() - begin) fail_damaged(path, "its header is cut short");
    const std::string_view header(reinterpret_cast<const char*>(bytes.data()) + begin, size);
    constexpr std::pair<std::string_view, Width> types[] = {
        {"|u1", Width::u8},  {"|i1", Width::i8},  {"<u2", Width::u16}, {"<i2", Width::i16},
        {"<i4", Width::i32}, {"<u4", Width::u32}, {"<i8", Width::i64}, {"<u8", Width::u64}};
    const auto* const type = std::find_if(std::begin(types), std::end(types), [&](const auto& t) {
        return header.find(cat("'descr': '", t.first, "'")) != std::string_view::npos;
    });
    if (type == std::end(types)) fail(cat(path, " is no array of integers"), "numpy.save(FILE, ids.astype('uint32'))");
    if (header.find("'fortran_order': False") == std::string_view::npos)
        fail(cat(path, " is stored column by column"), "numpy.save(FILE, numpy.ascontiguousarray(ids))");
    Layout layout{begin + size, 1, type->second, {}};
    std::uint64_t row = 1;
    std::size_t dimensions = 0, at = header.find("'shape': (");
    if (at == std::string_view::npos) fail_damaged(path, "its header names no shape");
    for (at += 10; at < header.size() && header[at] != ')'; ++at) {
        if (std::isdigit(static_cast<unsigned char>(header[at])) == 0) continue;
        std::uint64_t n = 0;
        const auto [end, error] = std::from_chars(header.data() + at, header.data() + header.size(), n);
        if (error != std::errc() || (n != 0 && layout.count > bytes.size() / n))
            fail_damaged(path, "its shape is larger than it");
        at = static_cast<std::size_t>(end - header.data()) - 1;
        layout.count *= n;
        if (dimensions++ > 0) row *= n;
    }
    // Each row of a matrix is a document.
    for (std::uint64_t end = row; dimensions == 2 && row > 0 && end <= layout.count; end += row)
        layout.ends.push_back(end);
    return layout;
}

}  // namespace

std::unique_ptr<DocumentSource> open_tokens(const InputFile& file, InputFormat format) {
    const std::string& path = file.path();
    if (file.is_pipe())
        fail(cat(path, " is a pipe, and tokens are read from files"), "write them to a file, and name that");
    Layout layout = format == InputFormat::nanogpt    ? nanogpt_layout(path)
                    : format == InputFormat::llmc     ? llmc_layout(path)
                    : format == InputFormat::megatron ? megatron_layout(path)
                                                      : npy_layout(path);
    return std::make_unique<TokenSource>(path, std::move(layout));
}

}  // namespace thunderc
