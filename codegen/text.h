// SPDX-License-Identifier: Apache-2.0
// Writes source text: indentation, lines of at most 120 columns, comments.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace thunderc {

class SourceText {
  public:
    static constexpr std::size_t width = 120;

    // Its lines will be appended so many levels deeper than they are here.
    explicit SourceText(std::size_t inset = 0) : inset_(inset) {}
    void clear() { *this = SourceText(inset_); }

    // One statement. Where it is too long it goes on in the next line, four columns further in, broken where the fewest
    // parentheses are open.
    void line(std::string_view text);
    void blank();                             // never two in a row
    void comment(std::string_view text);      // "// ...", broken between words
    void banner(std::string_view title);      // "// ---- title -------..." up to the width
    void open(std::string_view text);         // a line, then one level deeper
    void close(std::string_view text = "}");  // one level back, then a line
    void indent() { ++depth_; }
    void outdent() { --depth_; }
    void append(const SourceText& other);      // its lines, at this depth
    void append_lines(std::string_view text);  // text of several lines, as it is, at this depth

    bool empty() const { return text_.empty(); }
    const std::string& str() const { return text_; }

  private:
    std::size_t margin() const { return 4 * depth_; }
    std::size_t columns() const { return width - 4 * inset_; }

    std::string text_;
    std::size_t depth_ = 0;
    std::size_t inset_ = 0;
};

// Letters, digits and underscores; begins with none of the digits; no keyword of C++ and no macro of the
// headers that programs include. "x" where nothing is left.
std::string identifier(std::string_view text);
// Whether `text` has the identifier, by itself: not as a name within a namespace or an object.
bool names_identifier(std::string_view text, std::string_view identifier);
// The names that stand for something already, in a part of the text.
class UsedNames {
  public:
    UsedNames() = default;
    explicit UsedNames(const std::vector<std::string>& names) : names_(names.begin(), names.end()) {}
    // With those that stand for something all around this part, too, which are not copied: they outlive it.
    explicit UsedNames(const UsedNames* around) : around_(around) {}

    void add(std::string name) { names_.insert(std::move(name)); }
    void add(const std::vector<std::string>& names) { names_.insert(names.begin(), names.end()); }
    bool has(const std::string& name) const {
        return names_.contains(name) || (around_ != nullptr && around_->has(name));
    }
    // An identifier that was not used yet, and is now: x, x_2, x_3, ...
    std::string unique(std::string_view wanted);

  private:
    bool take(const std::string& name);  // false: it was used

    const UsedNames* around_ = nullptr;
    std::set<std::string> names_;
    std::map<std::string, int>
        next_;  // the number to try next: what was numbered once is often numbered a thousand times
};

// A literal of C++: 0.5F, 1e-05F, std::numeric_limits<float>::infinity().
std::string float_literal_text(double value);

}  // namespace thunderc
