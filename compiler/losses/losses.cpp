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

}  // namespace thunderc
