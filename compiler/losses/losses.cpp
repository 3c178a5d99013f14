// SPDX-License-Identifier: Apache-2.0
#include "compiler/losses/losses.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc {

#define THUNDERC_LOSS(name) AddedLoss name##_loss();
#include "compiler/losses/list.def"
#undef THUNDERC_LOSS

std::span<const AddedLoss> added_losses() {
    static const std::vector<AddedLoss> all = {
#define THUNDERC_LOSS(name) name##_loss(),
#include "compiler/losses/list.def"
#undef THUNDERC_LOSS
    };
    return all;
}

const AddedLoss* find_loss(std::string_view name) {
    const std::span<const AddedLoss> all = added_losses();
    const auto found = std::find_if(all.begin(), all.end(), [&](const AddedLoss& loss) { return loss.name == name; });
    return found == all.end() ? nullptr : &*found;
}

std::string loss_names() {
    const std::span<const AddedLoss> all = added_losses();
    std::string out;
    for (std::size_t k = 0; k < all.size(); ++k)
        out += fmt::format("{}{}", k == 0 ? "" : k + 1 == all.size() ? " or " : ", ", all[k].name);
    return out;
}

const std::vector<double>& LossNumbers::numbers(std::string_view option) const {
    const auto at = values_.find(option);
    check(at != values_.end(), fmt::format("the loss has no option {}", option));
    return at->second;
}

// ---- texts ----------------------------------------------------------------------------------------------------------

std::string range_text(const LossOption& option) {
    if (option.kind == LossOption::Kind::flag) return "0 or 1";
    const std::string one =
        std::isfinite(option.most)
            ? fmt::format("a number {} {} to {}", option.above_least ? "above" : "from", option.least, option.most)
            : fmt::format("a number {} {}", option.above_least ? "above" : "of at least", option.least);
    return option.kind == LossOption::Kind::number_of_each_class ? one + " for each class" : one;
}

std::string default_text(const LossOption& option) {
    return option.kind == LossOption::Kind::number_of_each_class ? option.name + "=W,W,..."
                                                                 : fmt::format("{}={}", option.name, option.standard);
}

std::string losses_help() {
    std::string out = "Losses that --loss adds, each with its new inputs and its options (--loss NAME:OPTION=X,...):\n";
    const Type some = Type::tensor(DType::f32, {2, 2});
    for (const AddedLoss& loss : added_losses()) {
        out += fmt::format("  {}: {}\n", loss.name, loss.what);
        for (const LossInput& input : loss.inputs)
            out += fmt::format("    {}: {}, {}: {}\n", input.name, name_of(input.type(some).dtype), input.shape,
                               input.holds);
        for (const LossOption& option : loss.options)
            out += fmt::format("    {}: {}; {}\n", default_text(option), option.what, range_text(option));
    }
    return out;
}

// ---- the text of --loss ---------------------------------------------------------------------------------------------

namespace {

[[noreturn]] void refuse_loss(std::string message, std::string help) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    throw UsageError(std::move(d));
}

// "its options are delta=1 (where …; a number above 0)"
std::string options_text(const AddedLoss& loss) {
    std::string out;
    for (const LossOption& option : loss.options)
        out += fmt::format("{}{} ({}; {})", out.empty() ? "" : ", ", default_text(option), option.what,
                           range_text(option));
    return out.empty() ? "it takes none: leave away what is behind the colon"
                       : fmt::format("those of --loss {} are {}", loss.name, out);
}

std::vector<std::string_view> pieces_of(std::string_view text) {
    std::vector<std::string_view> out;
    for (std::size_t begin = 0; begin <= text.size();) {
        const std::size_t comma = std::min(text.find(',', begin), text.size());
        out.push_back(text.substr(begin, comma - begin));
        begin = comma + 1;
    }
    return out;
}

double loss_number(const AddedLoss& loss, const LossOption& option, std::string_view text) {
    double number = 0;
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data(), end, number);
    const bool flag = option.kind == LossOption::Kind::flag;
    const bool fits = error == std::errc() && stop == end && std::isfinite(number) && number <= option.most &&
                      (option.above_least ? number > option.least : number >= option.least) &&
                      (!flag || number == 0 || number == 1);
    if (!fits)
        refuse_loss(fmt::format("{} of --loss {} is \"{}\", which is not {}", option.name, loss.name, printed(text),
                                range_text(option)),
                    options_text(loss));
    return number;
}

}  // namespace

GivenLoss parse_loss(std::string_view text) {
    const std::size_t colon = std::min(text.find(':'), text.size());
    GivenLoss out;
    out.loss = find_loss(text.substr(0, colon));
    if (out.loss == nullptr)
        refuse_loss(fmt::format("there is no loss called {}", printed(text.substr(0, colon))),
                    "--loss takes auto, none, " + loss_names());
    const AddedLoss& loss = *out.loss;
    for (const LossOption& option : loss.options)
        out.numbers.set(option.name, option.kind == LossOption::Kind::number_of_each_class
                                         ? std::vector<double>{}
                                         : std::vector<double>{option.standard});
    if (colon == text.size()) return out;
    std::set<std::string> given;
    const LossOption* open = nullptr;  // a list, which a piece without a name goes on with
    std::vector<double> list;
    for (const std::string_view piece : pieces_of(text.substr(colon + 1))) {
        const std::size_t equals = piece.find('=');
        if (equals == std::string_view::npos && open != nullptr) {
            list.push_back(loss_number(loss, *open, piece));
            out.numbers.set(open->name, list);
            continue;
        }
        const std::string name(piece.substr(0, std::min(equals, piece.size())));
        const auto option = std::find_if(loss.options.begin(), loss.options.end(),
                                         [&](const LossOption& known) { return known.name == name; });
        if (option == loss.options.end())
            refuse_loss(name.empty() ? fmt::format("an option of --loss {} has no name", loss.name)
                                     : fmt::format("--loss {} has no option {}", loss.name, printed(name)),
                        options_text(loss));
        if (equals == std::string_view::npos)
            refuse_loss(fmt::format("{} of --loss {} has no number", name, loss.name), options_text(loss));
        if (!given.insert(name).second)
            refuse_loss(fmt::format("{} of --loss {} is given twice", name, loss.name), "leave one of the two out");
        list = {loss_number(loss, *option, piece.substr(equals + 1))};
        out.numbers.set(name, list);
        open = option->kind == LossOption::Kind::number_of_each_class ? &*option : nullptr;
    }
    return out;
}

// ---- sums -----------------------------------------------------------------------------------------------------------

namespace {

std::string_view trimmed(std::string_view text) {
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
}

// At '+', but for that of an exponent, 1e+3.
std::vector<std::string_view> terms_of(std::string_view text) {
    const auto digit = [&](std::size_t k) { return k < text.size() && text[k] >= '0' && text[k] <= '9'; };
    std::vector<std::string_view> out;
    std::size_t begin = 0;
    for (std::size_t k = 0; k < text.size(); ++k) {
        if (text[k] != '+') continue;
        const bool exponent = k >= 2 && (text[k - 1] == 'e' || text[k - 1] == 'E') &&
                              (digit(k - 2) || text[k - 2] == '.') && digit(k + 1);
        if (exponent) continue;
        out.push_back(trimmed(text.substr(begin, k - begin)));
        begin = k + 1;
    }
    out.push_back(trimmed(text.substr(begin)));
    return out;
}

constexpr const char* term_help =
    "--loss takes one loss, or several with factors: cross-entropy@logits+0.5*mse@value; own@NAME is a result that is "
    "a loss itself";

// What stands in front of the first '*', which no loss, and no option, has in it.
double take_factor(std::string_view& term) {
    const std::size_t star = term.find('*');
    const std::size_t name = term.find_first_of("@:");
    if (star == std::string_view::npos || star > name) return 1;
    const std::string_view text = trimmed(term.substr(0, star));
    double factor = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), factor);
    if (error != std::errc() || stop != text.data() + text.size() || !std::isfinite(factor) || factor == 0)
        refuse_loss(fmt::format("the factor \"{}\" of a loss is no number other than 0", printed(text)), term_help);
    term = trimmed(term.substr(star + 1));
    return factor;
}

// A result's name may have a colon in it, as Identity:0 has: options have an equals sign.
std::string take_result(std::string_view& name, std::string_view& options) {
    const std::size_t at = name.find('@');
    if (at == std::string_view::npos) return "";
    std::string_view result = trimmed(name.substr(at + 1));
    const std::size_t equals = result.find('=');
    const std::size_t colon = equals == std::string_view::npos ? equals : result.rfind(':', equals);
    if (colon != std::string_view::npos) {
        options = result.substr(colon);
        result = trimmed(result.substr(0, colon));
    }
    name = trimmed(name.substr(0, at));
    if (result.empty()) refuse_loss(fmt::format("there is no result behind {}@", printed(name)), term_help);
    return std::string(result);
}

}  // namespace

std::vector<LossTerm> parse_losses(std::string_view text) {
    std::vector<LossTerm> out;
    for (std::string_view term : terms_of(text)) {
        if (term.empty()) refuse_loss(fmt::format("a term of --loss \"{}\" is empty", printed(text)), term_help);
        LossTerm made;
        made.factor = take_factor(term);
        std::string_view name = term, options;
        made.result = take_result(name, options);
        if (name != "own" && !name.starts_with("own:"))
            made.loss = parse_loss(std::string(name) + std::string(options));
        else if (name != "own" || !options.empty())
            refuse_loss("own takes no options", term_help);
        out.push_back(std::move(made));
    }
    return out;
}

}  // namespace thunderc
