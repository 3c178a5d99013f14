// SPDX-License-Identifier: Apache-2.0
#include "data/document_fit.h"

#include <algorithm>
#include <bit>
#include <limits>

#include "support/error.h"
#include "support/text.h"

namespace thunder {

namespace {

constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();

// Rows that are begun, by how many tokens they still take.
class OpenRows {
  public:
    explicit OpenRows(std::uint64_t capacity) : last_(capacity + 1, none), some_(capacity / 64 + 1) {}

    // One of those that this leaves the least room in; `none` where no row takes so many.
    std::uint32_t take(std::uint64_t size, std::uint64_t& room) {
        std::size_t word = size / 64;
        std::uint64_t bits = some_[word] & (~std::uint64_t{0} << size % 64);
        while (bits == 0) {
            if (++word == some_.size()) return none;
            bits = some_[word];
        }
        room = word * 64 + static_cast<std::uint64_t>(std::countr_zero(bits));
        const std::uint32_t row = last_[room];
        last_[room] = before_[row];
        if (last_[room] == none) some_[room / 64] &= ~(std::uint64_t{1} << room % 64);
        return row;
    }
    std::uint32_t begin() {
        before_.push_back(none);
        return static_cast<std::uint32_t>(before_.size() - 1);
    }
    void put(std::uint32_t row, std::uint64_t room) {
        before_[row] = last_[room];
        last_[room] = row;
        some_[room / 64] |= std::uint64_t{1} << room % 64;
    }
    std::size_t count() const { return before_.size(); }

  private:
    std::vector<std::uint32_t> last_;    // of each room, the row that came to it last
    std::vector<std::uint32_t> before_;  // of each row, the one that came to its room before
    std::vector<std::uint64_t> some_;    // a bit for each room
};

}  // namespace

DocumentFit::DocumentFit(const TokenFile& file, std::uint64_t length) : length_(length) {
    if (file.documents() >= none) fail(cat(file.path(), " has more than 2^32 documents"), "pack it into several files");
    std::vector<std::uint32_t> sizes;  // of what is put beside others; 0: nothing is
    sizes.reserve(file.documents());
    std::vector<std::uint32_t> parts_of_size(length + 1);
    std::uint64_t begin = 0;
    for (std::uint64_t d = 0; d < file.documents(); ++d) {
        const std::uint64_t end = file.document_end(d), labels = end - begin - 1;
        begin = end;
        if (labels > length) ++cut_;
        if (labels >= length) long_.push_back({static_cast<std::uint32_t>(d), whole_rows() + labels / length});
        const auto rest = static_cast<std::uint32_t>(labels % length);
        sizes.push_back(rest > 0 ? rest + 1 : 0);
        if (rest > 0) ++parts_of_size[rest + 1];
    }
    // Documents by size, the longest first, in the file's order where they are equal.
    std::vector<std::uint32_t> at(length + 1);
    std::uint32_t count = 0;
    for (std::uint64_t size = length; size > 0; --size) {
        at[size] = count;
        count += parts_of_size[size];
    }
    std::vector<std::uint32_t> by_size(count);
    for (std::size_t d = 0; d < sizes.size(); ++d)
        if (sizes[d] > 0) by_size[at[sizes[d]]++] = static_cast<std::uint32_t>(d);
    sizes = {};
    fit(parts_of_size, by_size);
}

void DocumentFit::fit(const std::vector<std::uint32_t>& parts_of_size, const std::vector<std::uint32_t>& by_size) {
    if (by_size.empty()) return;
    OpenRows open(length_ + 1);
    std::vector<std::uint32_t> row_of;
    row_of.reserve(by_size.size());
    std::uint64_t tokens = 0;
    for (std::uint64_t size = length_; size > 0; --size) {
        for (std::uint32_t k = 0; k < parts_of_size[size]; ++k) {
            std::uint64_t room = length_ + 1;
            std::uint32_t row = open.take(size, room);
            if (row == none) row = open.begin();
            open.put(row, room - size);
            row_of.push_back(row);
            tokens += size;
        }
    }
    padding_ = open.count() * (length_ + 1) - tokens;
    // Each row's side by side, in the order in which they came to it.
    begins_.resize(open.count() + 1);
    for (const std::uint32_t row : row_of) ++begins_[row + 1];
    for (std::size_t row = 0; row + 1 < begins_.size(); ++row) begins_[row + 1] += begins_[row];
    documents_.resize(by_size.size());
    std::vector<std::uint32_t> next(begins_.begin(), begins_.end() - 1);
    for (std::size_t k = 0; k < by_size.size(); ++k) documents_[next[row_of[k]]++] = by_size[k];
}

void DocumentFit::read(const TokenFile& file, std::uint64_t row, std::vector<Part>& parts) const {
    parts.clear();
    const auto begin_of = [&](std::uint64_t document) { return document > 0 ? file.document_end(document - 1) : 0; };
    if (row < whole_rows()) {
        const auto found = std::upper_bound(long_.begin(), long_.end(), row,
                                            [](std::uint64_t r, const Long& one) { return r < one.rows; });
        const std::uint64_t before = found == long_.begin() ? 0 : std::prev(found)->rows;
        parts.push_back({begin_of(found->document) + (row - before) * length_, static_cast<std::size_t>(length_ + 1)});
        return;
    }
    row -= whole_rows();
    for (std::uint32_t k = begins_[row]; k < begins_[row + 1]; ++k) {
        const std::uint64_t begin = begin_of(documents_[k]), end = file.document_end(documents_[k]);
        const std::uint64_t done = (end - begin - 1) / length_ * length_;
        parts.push_back({begin + done, static_cast<std::size_t>(end - begin - done)});
    }
}

}  // namespace thunder
