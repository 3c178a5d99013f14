// SPDX-License-Identifier: Apache-2.0
// Whole documents in rows, as many as fit: best fit, the longest first, as in "Fewer Truncations Improve Language
// Modeling" (Ding et al., 2024), which cuts no document that a row holds.
//
// A row has `length` + 1 tokens, of which all but the first are labels. What is longer fills rows of its own, each of
// which begins with the token that the one before ends with, so that each token but a document's first is a label
// once; what is left of it is put beside others. A row of several documents has the longest first.
//
// Four bytes are held for each document, four for a row of several, and twelve for each document that is longer than a
// row; while it is made as much again. It follows from the ends of documents alone.
#pragma once

#include <cstdint>
#include <vector>

#include "data/token_file.h"

namespace thunder {

class DocumentFit {
  public:
    // Tokens [first, first + count) of the file.
    struct Part {
        std::uint64_t first = 0;
        std::size_t count = 0;
    };

    DocumentFit(const TokenFile& file, std::uint64_t length);

    std::uint64_t rows() const { return whole_rows() + (begins_.empty() ? 0 : begins_.size() - 1); }
    // Of all rows together, the places that hold no token but padding.
    std::uint64_t padding() const { return padding_; }
    // Documents that a row does not hold.
    std::uint64_t cut() const { return cut_; }
    // What a row holds, into `parts`.
    void read(const TokenFile& file, std::uint64_t row, std::vector<Part>& parts) const;

  private:
    struct Long {
        std::uint32_t document;
        std::uint64_t rows;  // that such documents fill, this one's and those before
    };

    std::uint64_t whole_rows() const { return long_.empty() ? 0 : long_.back().rows; }
    void fit(const std::vector<std::uint32_t>& parts_of_size, const std::vector<std::uint32_t>& by_size);

    std::uint64_t length_, padding_ = 0, cut_ = 0;
    std::vector<Long> long_;
    std::vector<std::uint32_t> documents_, begins_;  // of the other rows, and where in it each of them begins
};

}  // namespace thunder
