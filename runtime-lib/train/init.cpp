// SPDX-License-Identifier: Apache-2.0
#include "train/init.h"

#include <algorithm>
#include <cstring>
#include <optional>
#include <regex>
#include <set>

#include "checkpoint/checkpoint.h"
#include "checkpoint/safetensors.h"
#include "device/cpu/narrow.h"
#include "program/transfer.h"
#include "program/weights.h"
#include "support/file.h"
#include "support/json.h"
#include "support/text.h"
#include "train/adapters.h"
#include "train/world.h"

namespace thunder {

namespace {

// What a rank holds of the parameter: a number depends on its place in the whole.
void draw(const ProgramSpec& program, const ParameterSpec& parameter, const Options& options, const World& world,
          std::byte* arena, Stream& stream) {
    const Piece piece = piece_of(program, parameter, world.rank());
    fill_on_device(arena + static_cast<std::size_t>(piece.at) * size_of(parameter.dtype), parameter.dtype,
                   static_cast<std::size_t>(piece.count), stream, [&](std::size_t done, std::size_t n, std::byte* out) {
                       draw_elements(out, parameter, static_cast<std::uint64_t>(piece.first) + done, n, options);
                   });
    world.gets_on();
}

std::string drawn_text(std::size_t count, const Options& options) {
    return cat(count_text(count, "parameter"), " drawn: norm scales 1, biases 0, all else N(0, ", options.init_std,
               ") with seed ", options.seed);
}

// Whether a tensor of floating point has numbers that a narrow type does not hold.
bool has_more_than(DType dtype, const StoredTensor& tensor) {
    if (tensor.dtype == stored_name(dtype)) return false;
    if (tensor.dtype != stored_name(DType::f32)) return true;
    bool more = false;
    with_narrow(dtype, [&]<typename T>(T*) {
        float value = 0;
        for (std::size_t at = 0; at + sizeof value <= tensor.bytes.size() && !more; at += sizeof value) {
            std::memcpy(&value, tensor.bytes.data() + at, sizeof value);
            more = value == value && to_float(narrowed<T>(value)) != value;
        }
    });
    return more;
}

// Frozen parameters that were stored with more digits than they are held in, where those that train are held in f32.
std::size_t rounded_frozen(const ProgramSpec& program, const std::vector<Weights::Found>& found) {
    std::size_t count = 0;
    bool masters = false;
    for (std::size_t i = 0; i < found.size(); ++i) {
        const ParameterSpec& parameter = program.parameters[i];
        masters = masters || (parameter.trainable && parameter.dtype == DType::f32);
        const bool low = !parameter.trainable && is_narrow(parameter.dtype);
        if (!low || found[i].tensor == nullptr) continue;
        const std::vector<TensorPart> parts = found[i].all_parts();
        count += std::any_of(parts.begin(), parts.end(),
                             [&](const TensorPart& part) { return has_more_than(parameter.dtype, *part.tensor); });
    }
    return masters ? count : 0;
}

const MissingRule* rule_of(const Options& options, const ParameterSpec& parameter) {
    for (const MissingRule& rule : options.init_missing)
        if (std::regex_search(std::string(parameter.name), std::regex(rule.pattern))) return &rule;
    return nullptr;
}

// Parameters that no file has: as the rules say, else drawn. Returns lines for the log.
std::vector<std::string> begin_missing(const ProgramSpec& program, const std::vector<const ParameterSpec*>& missing,
                                       const Options& options, const World& world, std::byte* arena, Stream& stream) {
    using Start = MissingRule::Start;
    std::size_t drawn = 0;
    std::vector<std::string> zeros, ones;
    for (const ParameterSpec* parameter : missing) {
        const MissingRule* rule = rule_of(options, *parameter);
        const Start start = rule == nullptr ? Start::drawn : rule->start;
        ParameterSpec begun = *parameter;
        if (start == Start::drawn) {
            ++drawn;
        } else {
            begun.init = start == Start::zeros ? ParameterSpec::Init::zeros : ParameterSpec::Init::ones;
            (start == Start::zeros ? zeros : ones).emplace_back(parameter->name);
        }
        draw(program, begun, options, world, arena, stream);
    }
    std::vector<std::string> lines;
    if (!zeros.empty()) lines.push_back(cat(list_text(zeros), zeros.size() == 1 ? " begins at 0" : " begin at 0"));
    if (!ones.empty()) lines.push_back(cat(list_text(ones), ones.size() == 1 ? " begins at 1" : " begin at 1"));
    if (drawn > 0) lines.push_back(drawn_text(drawn, options));
    return lines;
}

// What config.json of the checkpoint's folder says of whether its model ties embedding and head; nothing where it says
// nothing of it.
std::optional<bool> says_tied(const std::string& path) {
    if (path.empty()) return std::nullopt;
    const std::size_t slash = path.find_last_of('/');
    const std::string folder = is_folder(path) ? path : slash == std::string::npos ? "." : path.substr(0, slash);
    const std::string config = join_path(folder, "config.json");
    if (!is_file(config)) return std::nullopt;
    const MappedFile file(config);
    const Json json = parse_json({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()}, config);
    const Json* tied = json.find("tie_word_embeddings");
    return tied != nullptr && tied->is(Json::Kind::boolean) ? std::optional(tied->boolean) : std::nullopt;
}

// Whose tensor a missing parameter is in a checkpoint that ties two: files have one of them alone.
class Ties {
  public:
    // path: of the file or its folder; "": there is nothing to ask it.
    Ties(const ProgramSpec& program, const std::vector<Weights::Found>& found, const std::string& path)
        : program_(program), found_(found), tied_(says_tied(path)) {}

    // The parameter whose tensor `i` is: of the pair that the program knows for embedding and head, unless the
    // checkpoint says that it ties nothing; of any that are alike, where it says that it does.
    std::optional<std::size_t> of(std::size_t i) const {
        if (tied_ == false) return std::nullopt;
        const auto& [embedding, logits] = program_.tieable;
        const std::string_view name = program_.parameters[i].name;
        if (!embedding.empty() && (name == embedding || name == logits)) {
            for (std::size_t k = 0; k < found_.size(); ++k)
                if (k != i && (program_.parameters[k].name == embedding || program_.parameters[k].name == logits))
                    return found_[k].tensor == nullptr ? std::nullopt : std::optional(k);
        }
        return tied_ == true ? alike(i) : std::nullopt;
    }

    // What to do where the file might tie two of the missing parameters, and does not say so; "" elsewhere.
    std::string help(const std::vector<std::size_t>& missing) const {
        if (tied_) return "";
        for (const std::size_t i : missing)
            if (const std::optional<std::size_t> other = alike(i))
                return cat("if its model ties ", program_.parameters[i].name, " to ", program_.parameters[*other].name,
                           R"(, say so in config.json beside it: {"tie_word_embeddings": true}; )");
        return "";
    }

  private:
    // The one parameter that is like the missing one, in a shape that embedding and head have: a row for each id that
    // the program takes.
    std::optional<std::size_t> alike(std::size_t i) const {
        const auto& shape = program_.parameters[i].shape;
        const auto takes_as_ids = [&](std::int64_t rows) {
            return std::any_of(program_.inputs.begin(), program_.inputs.end(), [&](const InputSpec& input) {
                return input.ignore_index == 0 && input.entries == rows;
            });
        };
        if (shape.size() != 2 || !takes_as_ids(shape[0])) return std::nullopt;
        std::optional<std::size_t> other;
        for (std::size_t k = 0; k < found_.size(); ++k) {
            const auto& its = program_.parameters[k].shape;
            if (k == i || !std::equal(its.begin(), its.end(), shape.begin(), shape.end())) continue;
            if (other || found_[k].tensor == nullptr) return std::nullopt;
            other = k;
        }
        return other;
    }

    const ProgramSpec& program_;
    const std::vector<Weights::Found>& found_;
    std::optional<bool> tied_;
};

// Adapters begin so that the model is what it was: the one factor is drawn, the other is 0.
void begin_adapters(const ProgramSpec& program, const std::vector<const ParameterSpec*>& adapters,
                    const Options& options, const World& world, std::byte* arena, Stream& stream,
                    std::vector<std::string>& lines) {
    if (world.is_first()) check_folder(options.save_adapter);
    for (const ParameterSpec* parameter : adapters) draw(program, *parameter, options, world, arena, stream);
    if (!adapters.empty() && options.init_adapter.empty())
        lines.push_back(cat(count_text(adapters.size() / 2, "adapter"), adapters.size() == 2 ? " begins" : " begin",
                            " as PEFT's: A drawn with seed ", options.seed, ", B 0"));
    if (!options.init_adapter.empty()) lines.push_back(load_adapters(program, options, world, arena, stream));
}

}  // namespace

std::vector<MissingRule> parse_missing_rules(
    const std::string& value, const std::function<void(const std::string&, const std::string&)>& reject) {
    using Start = MissingRule::Start;
    const std::pair<std::string, Start> words[] = {
        {"random", Start::drawn}, {"zeros", Start::zeros}, {"ones", Start::ones}};
    std::vector<MissingRule> rules;
    std::size_t begin = 0;
    while (begin <= value.size()) {
        bool found = false;
        for (std::size_t end = begin; end <= value.size() && !found; ++end) {
            if (end != value.size() && value[end] != ',') continue;
            const std::string entry = value.substr(begin, end - begin);
            for (const auto& [word, start] : words) {
                const bool bare = entry == word,
                           by_name = entry.size() > word.size() + 1 && entry.ends_with("=" + word);
                if (!bare && !by_name) continue;
                rules.push_back({bare ? "" : entry.substr(0, entry.size() - word.size() - 1), start});
                begin = end + 1;
                found = true;
                break;
            }
        }
        if (!found) reject(value, "random, zeros, ones, or REGEX=zeros and the like, by commas");
    }
    const auto bare = std::stable_partition(rules.begin(), rules.end(),
                                            [](const MissingRule& rule) { return !rule.pattern.empty(); });
    if (rules.end() - bare > 1) reject(value, "one of random, zeros and ones for what no REGEX finds");
    for (const MissingRule& rule : rules) {
        try {
            const std::regex expression(rule.pattern);
        } catch (const std::regex_error&) {
            reject(rule.pattern, "a regular expression");
        }
    }
    return rules;
}

std::string initial_weights(const Options& options) {
    if (options.init == "random") return "";
    return options.init.empty() ? exported_weights(options.program_folder) : options.init;
}

std::vector<std::string> initialise_parameters(const ProgramSpec& program, const Options& options, const World& world,
                                               std::byte* arena, Stream& stream) {
    const std::string path = initial_weights(options);
    std::vector<const ParameterSpec*> adapters;
    if (path.empty()) {
        std::vector<const ParameterSpec*> all;
        for (const ParameterSpec& parameter : program.parameters)
            (is_adapter(program, parameter.name) ? adapters : all).push_back(&parameter);
        std::vector<std::string> lines = begin_missing(program, all, options, world, arena, stream);
        if (!adapters.empty())
            lines.emplace_back(
                "note: the frozen weights are drawn as well, and adapters are of use beside theirs alone: --init names "
                "the model's");
        begin_adapters(program, adapters, options, world, arena, stream, lines);
        return lines;
    }
    const Weights weights(path);
    std::set<std::string> used;
    const std::vector<Weights::Found> found = find_parameters(program.parameters, weights, used);
    std::vector<Weights::Found> sources = found;  // with what tied parameters take from others
    std::vector<const ParameterSpec*> missing, refused;
    std::vector<std::size_t> refused_at;
    std::vector<std::string> tied;  // lines
    // What else the file's folder says is asked where the file does not have everything.
    const bool complete =
        std::all_of(found.begin(), found.end(), [](const Weights::Found& f) { return f.tensor != nullptr; });
    const Ties ties(program, found, complete ? "" : path);
    for (std::size_t i = 0; i < found.size(); ++i) {
        const ParameterSpec& parameter = program.parameters[i];
        if (found[i].tensor != nullptr) continue;
        if (rule_of(options, parameter) != nullptr) {  // what is asked for goes before what is likely
            missing.push_back(&parameter);
        } else if (is_adapter(program, parameter.name)) {
            adapters.push_back(&parameter);
        } else if (const std::optional<std::size_t> other = ties.of(i)) {
            sources[i] = found[*other];
            tied.push_back(cat("note: ", path, " has no ", parameter.name, ", as where a model ties that to ",
                               program.parameters[*other].name,
                               ": it begins with these values; in this program the two are trained apart"));
        } else {
            refused.push_back(&parameter);
            refused_at.push_back(i);
        }
    }
    if (!refused.empty())
        fail_missing(weights, refused,
                     cat(ties.help(refused_at),
                         "--init-missing random draws what is missing, --init-missing "
                         "'REGEX=zeros,random' begins some at 0"));
    for (std::size_t i = 0; i < sources.size(); ++i) {
        const ParameterSpec& parameter = program.parameters[i];
        if (sources[i].tensor != nullptr)
            world.load(sources[i].all_parts(), {{"", parameter.dtype, {}}, &parameter, arena}, stream);
    }
    const std::string& part = weights.chosen();
    std::vector<std::string> lines{cat("parameters from ", path, part.empty() ? "" : cat(": ", part))};
    if (const std::size_t rounded = world.is_first() ? rounded_frozen(program, found) : 0; rounded > 0)
        lines.push_back(cat("note: ", count_text(rounded, "frozen parameter"), rounded == 1 ? " is" : " are",
                            " held in ", compute_type(program), ", as products read them, and had more digits there: ",
                            "--save and checkpoints have them in ", compute_type(program)));
    lines.insert(lines.end(), tied.begin(), tied.end());
    const std::vector<std::string> begun = begin_missing(program, missing, options, world, arena, stream);
    lines.insert(lines.end(), begun.begin(), begun.end());
    begin_adapters(program, adapters, options, world, arena, stream, lines);
    std::vector<std::string> stuck;
    for (const ParameterSpec* parameter : missing)
        if (!parameter->trainable && !parameter->moves &&
            rule_of(options, *parameter)->start == MissingRule::Start::drawn)
            stuck.emplace_back(parameter->name);
    if (!stuck.empty())
        lines.push_back(cat("note: frozen parameters are among those that are drawn, and stay so: ", list_text(stuck)));
    std::vector<std::string> unused;
    for (const std::string& name : weights.names()) {
        if (!used.contains(name)) unused.push_back(name);
    }
    if (!unused.empty()) lines.push_back(cat("not used from there: ", list_text(unused)));
    return lines;
}

}  // namespace thunder
