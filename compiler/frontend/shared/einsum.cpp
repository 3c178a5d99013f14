// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/einsum.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <limits>
#include <map>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {
namespace {

// A value and a label for each of its dimensions. Dimensions of an ellipsis have digits, counted from its end.
struct Term {
    Value value;
    std::string labels;

    bool has(char label) const { return labels.find(label) != std::string::npos; }
};

class Einsum {
  public:
    Einsum(Builder& b, std::string equation, std::vector<Value> operands)
        : b_(b), equation_(std::move(equation)), operands_(std::move(operands)) {}

    Value run() {
        parse();
        for (Term& term : terms_) {
            diagonals(term);
            drop_ones(term);
        }
        while (true) {
            for (std::size_t k = 0; k < terms_.size(); ++k) sum_out(k);
            if (terms_.size() == 1) break;
            const auto [first, second] = next_pair();
            const Term product = contract(first, second);
            terms_.erase(terms_.begin() + static_cast<std::ptrdiff_t>(second));
            terms_[first] = product;
        }
        return arranged(terms_[0], result_);
    }

  private:
    [[noreturn]] void malformed(const std::string& why) const {
        Diagnostic d;
        d.message = fmt::format("the equation of Einsum {}", why);
        d.actual = fmt::format("\"{}\"", equation_);
        throw UserError(std::move(d));
    }

    // The labels of one operand, with its ellipsis written out; `rank` -1: as many of those as any operand has.
    std::string labels_of(const std::string& text, std::int64_t rank) {
        std::string labels;
        const std::size_t dots = text.find("...");
        const auto named = static_cast<std::int64_t>(text.size()) - (dots == std::string::npos ? 0 : 3);
        std::int64_t hidden = dots == std::string::npos ? 0 : rank < 0 ? most_hidden_ : rank - named;
        if (hidden < 0 || hidden > 9 || (rank >= 0 && named + hidden != rank))
            malformed(fmt::format("has \"{}\" for a tensor of {} dimensions", text, rank));
        for (std::size_t k = 0; k < text.size(); ++k) {
            if (k == dots) {
                for (std::int64_t d = hidden; d-- > 0;) labels += static_cast<char>('0' + d);
                k += 2;
            } else if (std::isalpha(static_cast<unsigned char>(text[k])) != 0) {
                labels += text[k];
            } else {
                malformed(fmt::format("has \"{}\", which is no letter", text[k]));
            }
        }
        most_hidden_ = std::max(most_hidden_, hidden);
        return labels;
    }

    void parse() {
        std::string text;
        std::copy_if(equation_.begin(), equation_.end(), std::back_inserter(text), [](char c) { return c != ' '; });
        const std::size_t arrow = text.find("->");
        const std::string left = text.substr(0, arrow);
        std::vector<std::string> parts = {""};
        for (const char c : left)
            if (c == ',')
                parts.emplace_back();
            else
                parts.back() += c;
        if (parts.size() != operands_.size())
            malformed(fmt::format("is of {} operands, and there are {}", parts.size(), operands_.size()));
        for (std::size_t k = 0; k < parts.size(); ++k) {
            const Term& term =
                terms_.emplace_back(Term{operands_[k], labels_of(parts[k], b_.type(operands_[k]).rank())});
            const Dims dims = b_.type(operands_[k]).dims;
            for (std::size_t d = 0; d < dims.size(); ++d) {
                std::int64_t& size = sizes_.try_emplace(term.labels[d], dims[d]).first->second;
                if (size == 1) size = dims[d];
                if (dims[d] != size && dims[d] != 1)
                    malformed(fmt::format("has a label for dimensions of {} and of {}", size, dims[d]));
            }
        }
        result_ = arrow == std::string::npos ? implied_result() : labels_of(text.substr(arrow + 2), -1);
        for (const char label : result_)
            if (!sizes_.contains(label) || std::count(result_.begin(), result_.end(), label) != 1)
                malformed(fmt::format("has the label {} in its result, and {}", label,
                                      sizes_.contains(label) ? "again" : "in no operand"));
    }

    // The ellipsis, and what stands once, in the order of the alphabet.
    std::string implied_result() const {
        std::string out;
        for (std::int64_t d = most_hidden_; d-- > 0;) out += static_cast<char>('0' + d);
        for (const auto& [label, size] : sizes_) {
            std::ptrdiff_t count = 0;
            for (const Term& term : terms_) count += std::count(term.labels.begin(), term.labels.end(), label);
            if (count == 1 && std::isdigit(static_cast<unsigned char>(label)) == 0) out += label;
        }
        return out;
    }

    // Where a label stands twice: both dimensions as one, of which every (size + 1)-th element counts.
    void diagonals(Term& term) {
        for (std::size_t first = 0; first < term.labels.size(); ++first) {
            const std::size_t second = term.labels.find(term.labels[first], first + 1);
            if (second == std::string::npos) continue;
            const Dims dims = b_.type(term.value).dims;
            if (dims[first] != dims[second]) malformed("takes a diagonal of dimensions that differ");
            std::string order = term.labels;
            order.erase(second, 1);
            Dims permutation;
            for (std::size_t d = 0; d < dims.size(); ++d) {
                if (d != second) permutation.push_back(static_cast<std::int64_t>(d));
                if (d == first) permutation.push_back(static_cast<std::int64_t>(second));
            }
            Value v = b_.transpose(term.value, permutation);
            Dims together = b_.type(v).dims;
            const std::int64_t size = together[first];
            together[first] = size * size;
            together.erase(together.begin() + static_cast<std::ptrdiff_t>(first) + 1);
            term.value = b_.slice(b_.reshape(v, together), static_cast<std::int64_t>(first), 0, size * size, size + 1);
            term.labels = order;
            --first;  // it may stand three times
        }
    }

    // A dimension of 1 where others have more is repeated: whatever it is multiplied with has it.
    void drop_ones(Term& term) {
        Dims dims;
        std::string labels;
        const Dims from = b_.type(term.value).dims;
        for (std::size_t d = 0; d < from.size(); ++d) {
            if (from[d] == 1 && sizes_.at(term.labels[d]) != 1) continue;
            dims.push_back(from[d]);
            labels += term.labels[d];
        }
        term = {b_.reshape(term.value, dims), labels};
    }

    bool needed(char label, std::size_t but, std::size_t and_but) const {
        if (result_.find(label) != std::string::npos) return true;
        for (std::size_t k = 0; k < terms_.size(); ++k)
            if (k != but && k != and_but && terms_[k].has(label)) return true;
        return false;
    }

    // Over the labels that nothing else has.
    void sum_out(std::size_t k) {
        Dims axes;
        std::string left;
        for (std::size_t d = 0; d < terms_[k].labels.size(); ++d)
            if (needed(terms_[k].labels[d], k, k))
                left += terms_[k].labels[d];
            else
                axes.push_back(static_cast<std::int64_t>(d));
        if (!axes.empty()) terms_[k] = {b_.reduce_sum(terms_[k].value, axes), left};
    }

    std::int64_t count(const std::string& labels) const {
        std::int64_t out = 1;
        for (const char label : labels) out *= sizes_.at(label);
        return out;
    }

    // With its dimensions in this order, and ones for labels that it does not have.
    Value arranged(const Term& term, const std::string& order) {
        Dims permutation, dims;
        for (const char label : order) {
            const std::size_t at = term.labels.find(label);
            if (at != std::string::npos) permutation.push_back(static_cast<std::int64_t>(at));
            dims.push_back(at == std::string::npos ? 1 : sizes_.at(label));
        }
        return b_.reshape(b_.transpose(term.value, permutation), dims);
    }

    // What is multiplied next: two that share a label, where there are such, with the smallest product; of equal ones
    // the first. From left to right "ab,cd,bc->ad" would have all four labels in between.
    std::pair<std::size_t, std::size_t> next_pair() const {
        std::pair<std::size_t, std::size_t> best{0, 1};
        std::pair<bool, double> least{true, std::numeric_limits<double>::infinity()};  // nothing shared; elements
        for (std::size_t first = 0; first < terms_.size(); ++first)
            for (std::size_t second = first + 1; second < terms_.size(); ++second) {
                const Term &x = terms_[first], &y = terms_[second];
                const bool by_element = !is_float(b_.type(x.value).dtype);  // what is summed over stands there, too
                bool apart = true;
                double elements = 1;
                for (const auto& [label, size] : sizes_) {
                    apart = apart && !(x.has(label) && y.has(label));
                    if ((x.has(label) || y.has(label)) && (by_element || needed(label, first, second)))
                        elements *= static_cast<double>(size);
                }
                if (const std::pair found{apart, elements}; found < least) {
                    least = found;
                    best = {first, second};
                }
            }
        return best;
    }

    // Labels of both that stay are batches; labels of both that nothing else needs are summed over.
    Term contract(std::size_t first, std::size_t second) {
        const Term &x = terms_[first], &y = terms_[second];
        std::string batch, summed, rows, columns;
        for (const char label : x.labels) {
            if (!y.has(label))
                rows += label;
            else if (needed(label, first, second))
                batch += label;
            else
                summed += label;
        }
        for (const char label : y.labels)
            if (!x.has(label)) columns += label;
        const std::string result = batch + rows + columns;
        if (summed.empty() || !is_float(b_.type(x.value).dtype)) {
            const std::string all = result + summed;
            Value v = b_.mul(arranged(x, all), arranged(y, all));
            Dims axes;
            for (std::size_t d = result.size(); d < all.size(); ++d) axes.push_back(static_cast<std::int64_t>(d));
            return {axes.empty() ? v : b_.reduce_sum(v, axes), result};
        }
        const auto matrix = [&](const Term& term, const std::string& order, std::int64_t m, std::int64_t k) {
            Dims dims;
            for (const char label : batch) dims.push_back(sizes_.at(label));
            dims.insert(dims.end(), {m, k});
            return b_.reshape(arranged(term, order), dims);
        };
        const Value left = matrix(x, batch + rows + summed, count(rows), count(summed));
        const Value right = matrix(y, batch + summed + columns, count(summed), count(columns));
        const Value v = b_.op("matmul", {left, right}, {{"transpose_a", false}, {"transpose_b", false}});
        Dims dims;
        for (const char label : result) dims.push_back(sizes_.at(label));
        return {b_.reshape(v, dims), result};
    }

    Builder& b_;
    std::string equation_, result_;
    std::vector<Value> operands_;
    std::vector<Term> terms_;
    std::map<char, std::int64_t> sizes_;
    std::int64_t most_hidden_ = 0;
};

}  // namespace

Value einsum(Builder& b, const std::string& equation, const std::vector<Value>& operands) {
    return Einsum(b, equation, operands).run();
}

}  // namespace thunderc
