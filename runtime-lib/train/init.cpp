#include "train/init.h"

#include <set>

#include "checkpoint/safetensors.h"
#include "program/transfer.h"
#include "program/weights.h"
#include "support/text.h"
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

}  // namespace

std::string initial_weights(const Options& options) {
    if (options.init == "random") return "";
    return options.init.empty() ? exported_weights(options.program_folder) : options.init;
}

std::vector<std::string> initialise_parameters(const ProgramSpec& program, const Options& options, const World& world,
                                               std::byte* arena, Stream& stream) {
    const std::string path = initial_weights(options);
    if (path.empty()) {
        for (const ParameterSpec& parameter : program.parameters)
            draw(program, parameter, options, world, arena, stream);
        return {drawn_text(program.parameters.size(), options)};
    }
    const Weights weights(path);
    std::set<std::string> used;
    const std::vector<Weights::Found> found = find_parameters(program.parameters, weights, used);
    std::vector<const ParameterSpec*> missing;
    for (std::size_t i = 0; i < found.size(); ++i) {
        if (found[i].tensor == nullptr) missing.push_back(&program.parameters[i]);
    }
    if (!missing.empty() && !options.init_missing_random)
        fail_missing(weights, missing, "--init-missing random draws what is missing");
    for (std::size_t i = 0; i < found.size(); ++i) {
        const ParameterSpec& parameter = program.parameters[i];
        if (found[i].tensor != nullptr)
            world.load(*found[i].file, *found[i].tensor, {{"", parameter.dtype, {}}, &parameter, arena}, stream);
    }
    for (const ParameterSpec* parameter : missing) draw(program, *parameter, options, world, arena, stream);

    std::vector<std::string> lines{cat("parameters from ", path)};
    if (!missing.empty()) lines.push_back(drawn_text(missing.size(), options));
    std::vector<std::string> unused;
    for (const std::string& name : weights.names()) {
        if (!used.contains(name)) unused.push_back(name);
    }
    if (!unused.empty()) lines.push_back(cat("not used from there: ", list_text(unused)));
    return lines;
}

}  // namespace thunder
