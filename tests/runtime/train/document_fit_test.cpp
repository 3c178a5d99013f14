// SPDX-License-Identifier: Apache-2.0
// Whole documents in rows: each label once, no row longer than it may be, and as full as best fit has it.
#include "data/document_fit.h"

#include <algorithm>
#include <numeric>
#include <random>

#include "helpers.h"

namespace thunder {
namespace {

class DocumentFitTest : public InFolder {
  protected:
    TokenFile pack(const std::vector<std::size_t>& lengths) const {
        TokenFileWriter writer(path("x.bin"), 1000);
        for (const std::size_t length : lengths) {
            writer.append(std::vector<std::uint32_t>(length, 7));
            writer.end_document();
        }
        writer.commit();
        return TokenFile(path("x.bin"));
    }
};

// Rows that best fit takes for these, written as plainly as it can be: the longest first, each where the least is left.
std::size_t rows_of_best_fit(std::vector<std::uint64_t> sizes, std::uint64_t capacity) {
    std::sort(sizes.begin(), sizes.end(), std::greater<>());
    std::vector<std::uint64_t> rooms;
    for (const std::uint64_t size : sizes) {
        std::uint64_t* best = nullptr;
        for (std::uint64_t& room : rooms)
            if (room >= size && (best == nullptr || room < *best)) best = &room;
        if (best == nullptr) best = &rooms.emplace_back(capacity);
        *best -= size;
    }
    return rooms.size();
}

TEST_F(DocumentFitTest, EachLabelIsInOneRow) {
    std::mt19937 random(7);
    for (int round = 0; round < 200; ++round) {
        const std::uint64_t length = 1 + random() % 70;
        const std::size_t longest = 1 + random() % (3 * length);
        std::vector<std::size_t> lengths(1 + random() % 60);
        for (std::size_t& one : lengths) one = 1 + random() % longest;
        const TokenFile file = pack(lengths);
        const DocumentFit fit(file, length);

        std::vector<int> labelled(file.count());
        std::vector<DocumentFit::Part> parts;
        std::uint64_t held = 0;
        for (std::uint64_t row = 0; row < fit.rows(); ++row) {
            fit.read(file, row, parts);
            std::uint64_t tokens = 0;
            for (const DocumentFit::Part& part : parts) {
                EXPECT_EQ(file.document_of(part.first), file.document_of(part.first + part.count - 1));
                for (std::size_t i = 1; i < part.count; ++i) ++labelled[part.first + i];
                tokens += part.count;
            }
            EXPECT_LE(tokens, length + 1);
            held += tokens;
        }
        EXPECT_EQ(fit.padding(), fit.rows() * (length + 1) - held);

        std::uint64_t begin = 0, cut = 0, rows = 0;
        std::vector<std::uint64_t> rests;
        for (const std::size_t one : lengths) {
            EXPECT_EQ(labelled[begin], 0);
            for (std::size_t i = 1; i < one; ++i) EXPECT_EQ(labelled[begin + i], 1);
            begin += one;
            cut += one > length + 1 ? 1 : 0;
            rows += (one - 1) / length;
            if ((one - 1) % length > 0) rests.push_back((one - 1) % length + 1);
        }
        EXPECT_EQ(fit.cut(), cut);
        EXPECT_EQ(fit.rows(), rows + rows_of_best_fit(rests, length + 1));
    }
}

TEST_F(DocumentFitTest, ADocumentOfOneTokenIsNowhere) {
    const TokenFile file = pack({1, 1, 1});
    EXPECT_EQ(DocumentFit(file, 4).rows(), 0U);
}

}  // namespace
}  // namespace thunder
