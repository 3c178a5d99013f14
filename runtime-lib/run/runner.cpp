// SPDX-License-Identifier: Apache-2.0
#include "run/runner.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <numeric>
#include <optional>
#include <set>
#include <vector>

#include "program/inputs.h"
#include "program/transfer.h"
#include "program/weights.h"
#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

std::vector<std::string> input_names(const FunctionSpec& function) {
    std::vector<std::string> names;
    for (const InputSpec& input : function.inputs) names.emplace_back(input.name);
    return names;
}

std::string like(const std::string& name, std::span<const std::string> candidates) {
    const std::string meant = nearest(name, candidates);
    return meant.empty() ? "" : cat("did you mean ", meant, "? ");
}

// The tensor of each input; fails where one is missing, or does not fit.
std::vector<const StoredTensor*> find_inputs(const FunctionSpec& function, const Weights& in,
                                             std::set<std::string>& used) {
    std::vector<const StoredTensor*> tensors;
    for (const InputSpec& input : function.inputs) {
        const std::string name(input.name);
        const Weights::Found* found = in.find(name);
        if (found == nullptr) {
            const std::vector<std::string> held = in.names();
            fail(cat(in.path(), " has no tensor ", name),
                 cat("add it: ", stored_name(input.dtype), " ", shape_text(input.shape), "; the file holds ",
                     held.empty() ? "nothing" : list_text(held)));
        }
        check_fits(in.path(), *found->tensor, input.dtype, input.shape, cat("input ", name));
        used.insert(name);
        tensors.push_back(found->tensor);
    }
    return tensors;
}

// A tensor that nothing takes was meant to be something.
void refuse_unused(const FunctionSpec& function, const Weights& in, const std::set<std::string>& used) {
    const std::vector<std::string> inputs = input_names(function);
    std::vector<std::string> known = inputs;
    for (const ParameterSpec& parameter : function.parameters) known.emplace_back(parameter.name);
    for (const std::string& name : in.names()) {
        if (used.contains(name)) continue;
        fail(cat(in.path(), " holds ", name, ", which is neither an input nor a parameter of ", function.name),
             cat(like(name, known), inputs.empty() ? "there are no inputs" : cat("the inputs are ", list_text(inputs)),
                 "; a checkpoint that holds more than the parameters is given with --init"));
    }
}

}  // namespace

struct Runner::State {
    State(const FunctionSpec& f, const RunOptions& o) : function(f), options(o), device(o.threads), stream(device) {}

    void allocate() {
        const ArenaSizes& bytes = function.bytes;
        std::byte** const places[] = {&arenas.parameters, &arenas.gradients, &arenas.saved,  &arenas.scratch,
                                      &arenas.constants,  &arenas.batch,     &arenas.results};
        const std::size_t sizes[] = {bytes.parameters, bytes.gradients, bytes.saved,  bytes.scratch,
                                     bytes.constants,  bytes.batch,     bytes.results};
        const std::size_t total = std::accumulate(std::begin(sizes), std::end(sizes), std::size_t{0});
        device.check_room(total, cat("memory of the function ", function.name),
                          "thunderc emit needs less with a smaller --batch or a shorter --seq");
        for (std::size_t i = 0; i < std::size(places); ++i) {
            memory.push_back(device.allocate(sizes[i]));
            *places[i] = memory.back().data();
        }
    }

    // Where each parameter is: in --in, else where --init says, else beside the program.
    void find_all_parameters(const Weights& in, std::set<std::string>& used) {
        parameters = find_parameters(function.parameters, in, used);
        const auto missing = [&] {
            std::vector<const ParameterSpec*> out;
            for (std::size_t i = 0; i < parameters.size(); ++i)
                if (parameters[i].tensor == nullptr) out.push_back(&function.parameters[i]);
            return out;
        };
        const std::string path = options.init.empty() ? exported_weights(options.program_folder) : options.init;
        if (!path.empty() && (!options.init.empty() || !missing().empty())) {
            other.emplace(path);
            std::set<std::string> ignored;
            const std::vector<Weights::Found> there = find_parameters(function.parameters, *other, ignored);
            for (std::size_t i = 0; i < parameters.size(); ++i)
                if (parameters[i].tensor == nullptr) parameters[i] = there[i];
        }
        if (const std::vector<const ParameterSpec*> left = missing(); !left.empty())
            fail_missing(other ? *other : in, left,
                         other ? cat("put what is missing into ", in.path())
                               : "name a file or a folder that has the parameters with --init");
    }

    void load() {
        if (is_folder(options.in)) fail(cat(options.in, " is a folder"), "--in takes a safetensors file");
        const Weights in(options.in);
        std::set<std::string> used;
        const std::vector<const StoredTensor*> inputs = find_inputs(function, in, used);
        find_all_parameters(in, used);
        refuse_unused(function, in, used);
        allocate();
        read_constants(function.constants, options.program_folder, arenas.constants, stream);
        for (std::size_t i = 0; i < parameters.size(); ++i) {
            const ParameterSpec& parameter = function.parameters[i];
            for (const TensorPart& part : parameters[i].all_parts())
                load_tensor(*part.file, *part.tensor, parameter.dtype,
                            arenas.parameters + parameter.offset +
                                static_cast<std::size_t>(part.first) * size_of(parameter.dtype),
                            stream);
        }
        std::vector<std::byte> host(function.bytes.batch);
        for (std::size_t i = 0; i < inputs.size(); ++i)
            read_input(in.path(), *inputs[i], function.inputs[i], 0, host.data() + function.inputs[i].offset);
        to_device(arenas.batch, host.data(), host.size(), stream);
    }

    const FunctionSpec& function;
    RunOptions options;
    Device device;
    Stream stream;
    std::vector<Memory> memory;
    Arenas arenas;
    std::optional<Weights> other;  // beside --in
    std::vector<Weights::Found> parameters;
};

Runner::Runner(const FunctionSpec& function, const RunOptions& options)
    : state_(std::make_unique<State>(function, options)) {
    std::signal(SIGXFSZ, SIG_IGN);  // a file larger than allowed is an error of that file, with a message
    check_writable(options.out);
    state_->load();
}

Runner::~Runner() = default;

const Arenas& Runner::arenas() const {
    return state_->arenas;
}
Stream& Runner::stream() {
    return state_->stream;
}

void Runner::save() {
    State& s = *state_;
    s.stream.synchronize();
    std::vector<DeviceTensor> tensors;
    std::vector<std::string> names;
    for (const OutputSpec& output : s.function.outputs) {
        names.emplace_back(output.name);
        tensors.push_back({{names.back(), output.dtype, {output.shape.begin(), output.shape.end()}},
                           s.arenas.results + output.offset});
    }
    for (const ParameterSpec& parameter : s.function.parameters) {
        if (s.function.bytes.gradients == 0 || !parameter.trainable) continue;
        names.push_back(cat("d", parameter.name));
        tensors.push_back({{names.back(), parameter.dtype, {parameter.shape.begin(), parameter.shape.end()}},
                           s.arenas.gradients + parameter.offset});
    }
    save_tensors(s.options.out, tensors, {}, s.stream);
    std::printf("%s holds %s\n", s.options.out.c_str(), list_text(names).c_str());
}

}  // namespace thunder
