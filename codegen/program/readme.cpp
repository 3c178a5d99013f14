// SPDX-License-Identifier: Apache-2.0
#include "codegen/program/readme.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <vector>

#include "codegen/host/parameters.h"
#include "codegen/program/model_files.h"
#include "codegen/program/sums_table.h"
#include "codegen/program/user_files.h"
#include "compiler/ir/print.h"
#include "compiler/ir/structure.h"
#include "compiler/ops/collectives.h"
#include "compiler/planned/scaling_places.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/bytes.h"
#include "compiler/support/error.h"
#include "runtime-lib/optim/rules/codes.h"

namespace thunderc {

std::string parameter_count(const Module& module) {
    std::int64_t count = 0, tensors = 0, trained = 0, trained_tensors = 0, buffers = 0;
    for (const ModelParameter& parameter : model_parameters(module)) {
        const Type& type = parameter.type;
        if (parameter.info->kind == ArgInfo::Kind::buffer) {
            buffers += type.is_family() ? type.count : 1;
            continue;
        }
        const std::int64_t members = type.is_family() ? type.count : 1;
        count += type.elements() * members;
        tensors += members;
        if (!parameter.info->trainable || !is_float(type.dtype)) continue;
        trained += type.elements() * members;
        trained_tensors += members;
    }
    std::string all = fmt::format("{} parameters in {} tensors", count, tensors);
    if (buffers > 0)
        all += fmt::format(", {} running statistic{} that the model moves", buffers, buffers == 1 ? "" : "s");
    if (trained == count) return all;
    return fmt::format("{}, of which {} in {} tensor{} train{}", all, trained, trained_tensors,
                       trained_tensors == 1 ? "" : "s", trained_tensors == 1 ? "s" : "");
}

namespace {

std::string tensor_row(const Function& main, std::size_t k, const std::string& name, const Symbols& symbols,
                       const std::string& what) {
    const Type& type = main.type(main.arguments[k]);
    return fmt::format("| `{}` | {} | {} | {} |\n", name, name_of(type.dtype), symbols.shape(main, main.arguments[k]),
                       what);
}

// The arguments of main that a feed brings; the trainer has the rest.
std::vector<std::size_t> fed_arguments(const Function& main) {
    std::vector<std::size_t> out;
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::input && main.argument_info[k].source != sample_numbers_source)
            out.push_back(k);
    return out;
}

// The file that --feed takes: inputs of one step, with all its micro-batches and ranks.
std::string feed_text(const ProgramLayout& layout) {
    const Module& m = layout.module();
    const Function& main = m.main();
    std::string rows;
    std::int64_t batch = 1;
    for (const std::size_t k : fed_arguments(main)) {
        const ArgInfo& info = main.argument_info[k];
        const Type& type = main.type(main.arguments[k]);
        if (info.batched && type.rank() > 0) batch = type.dims[0];
        std::string dims;
        for (std::size_t d = 0; d < type.dims.size(); ++d)
            dims +=
                fmt::format("{}{}", d == 0 ? "" : ", ", d == 0 && info.batched ? "rows" : std::to_string(type.dims[d]));
        std::string what;
        if (info.entries >= 0) what = fmt::format("0 to {}", info.entries - 1);
        if (info.entries >= 0 && info.ignore_index != 0)
            what += fmt::format(", or {}, which is ignored", info.ignore_index);
        if (what.empty()) what = info.note;  // what the loss that added it takes
        const std::string& name = info.names.front();
        rows += fmt::format("| `{}_0`, `{}_1`, ... | {} | [{}] | {} |\n", name, name, name_of(type.dtype), dims, what);
    }
    if (rows.empty()) return "";
    const std::int64_t ranks = m.mesh.world();
    return "## Feed\n\n`--feed FILE` takes a safetensors file with each input once for each step, counted from 0; "
           "behind "
           "the last step that all inputs have, the\nfirst comes again.\n\n"
           "| tensors | type | shape | numbers |\n|---|---|---|---|\n" +
           rows +
           fmt::format("\n`rows` is what a step takes: {} of a micro-batch, times `--grad-accum`{}.\n\n", batch,
                       ranks > 1 ? fmt::format(", times {} ranks", ranks) : "");
}

// The same for who makes feeds by a script: shapes of one micro-batch, which inputs --loss added,
// `entries` where numbers are below it, and the number besides that is ignored.
std::string feed_json(const ProgramLayout& layout) {
    const Function& main = layout.module().main();
    std::vector<std::string> inputs;
    for (const std::size_t k : fed_arguments(main)) {
        const ArgInfo& info = main.argument_info[k];
        const Type& type = main.type(main.arguments[k]);
        std::string one = fmt::format("{{\"name\": {}, \"type\": {}, \"shape\": [{}]", quote(info.names.front()),
                                      quote(std::string(name_of(type.dtype))), fmt::join(type.dims, ", "));
        if (info.batched) one += ", \"batched\": true";
        if (info.added) one += ", \"added\": true";
        if (info.entries >= 0) one += fmt::format(", \"entries\": {}", info.entries);
        if (info.entries >= 0 && info.ignore_index != 0) one += fmt::format(", \"ignored\": {}", info.ignore_index);
        if (!info.source.empty()) one += fmt::format(", \"source\": {}", quote(info.source));
        inputs.push_back(one + "}");
    }
    if (inputs.empty()) return "";
    return fmt::format("\n  \"inputs\": [\n    {}\n  ],", fmt::join(inputs, ",\n    "));
}

// What the function takes and gives, by the names that the files have.
std::string function_text(const ProgramLayout& layout) {
    const Module& m = layout.module();
    const Function& main = m.main();
    const bool gradients = main.name == "vjp";
    std::string in, out;
    std::string integers, frozen;
    auto add = [](std::string& list, const std::string& name) {
        list += fmt::format("{}`{}`", list.empty() ? "" : ", ", name);
    };
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        const Type& type = main.type(main.arguments[k]);
        const std::string& name = info.names.empty() ? std::string() : info.names.front();
        if (info.kind == ArgInfo::Kind::input) {
            const bool cotangent = info.source == "cotangent";
            in +=
                tensor_row(main, k, name, layout.symbols(),
                           cotangent ? fmt::format("the cotangent of `{}`", name.substr(1))
                           : info.source == sample_numbers_source
                               ? "a number of each row's own: what is drawn for the row, as by dropout, follows from it"
                           : info.source == seed_source ? "the seed of all that is drawn"
                                                        : "input");
            if (!cotangent && !is_float(type.dtype)) add(integers, name);
        } else if (info.kind == ArgInfo::Kind::output) {
            bool of_input = false;
            for (const ArgInfo& other : main.argument_info)
                of_input = of_input || (gradients && other.kind == ArgInfo::Kind::input &&
                                        other.source != "cotangent" && name == "d" + other.names.front());
            out += tensor_row(main, k, name, layout.symbols(),
                              of_input ? fmt::format("the gradient of `{}`", name.substr(1)) : "output");
        } else if (info.kind == ArgInfo::Kind::parameter && (!info.trainable || !is_float(type.dtype))) {
            add(frozen, name_pattern(info.names));
        }
    }
    std::string text =
        "Tensors are read by these names, and parameters by the framework's; `--init FILE` or a folder "
        "of Hugging Face gives\nparameters that `--in` does not have, else they are the export's, where "
        "`weights.safetensors` is here.\n\n";
    text += "| read | type | shape | |\n|---|---|---|---|\n" + in +
            "\n| written | type | shape | |\n|---|---|---|---|\n" + out;
    if (gradients) text += "| `d<parameter>` | | of the parameter | the gradient of each parameter |\n";
    text += "\n";
    if (gradients)
        text +=
            "A gradient is the sum over all outputs of cotangent times derivative. A tied parameter has one gradient, "
            "the "
            "sum over its\nuses, under its first name. ";
    if (gradients && !integers.empty()) text += fmt::format("Integers have no gradient: {}. ", integers);
    if (gradients && !frozen.empty()) text += fmt::format("Frozen, without a gradient: {}. ", frozen);
    if (gradients) {
        text.pop_back();
        text += "\n\n";
    }
    text += fmt::format(
        "From C++: link the CMake target `model`, include `model.h`; take memory for each arena (`FUNCTION.bytes`), "
        "put "
        "parameters and\ninputs where `FUNCTION` says, call `Model(arenas, stream).{}()`, and read results there. "
        "`runtime/run/runner.cpp` does this.\n\n",
        main.name);
    return text;
}

// What is trained beside frozen weights, and where it goes; "" where there are no adapters.
std::string adapters_text(const Module& module) {
    if (!module.adapters) return "";
    const Adapters& a = *module.adapters;
    std::string text = fmt::format(
        "## Adapters\n\nAdapters of rank {}, scaled by {:.6g}, stand beside {}, and are trained; all else is "
        "frozen{}.\n"
        "`--init` names the model's own weights, `--init-adapter DIR` adapters to go on with, and `--save-adapter DIR` "
        "writes them\nas PEFT has them.\n\n",
        a.rank, a.alpha / (a.rank_stabilized ? std::sqrt(static_cast<double>(a.rank)) : static_cast<double>(a.rank)),
        fmt::join(a.targets, ", "), a.saved.empty() ? "" : fmt::format(", but {}", fmt::join(a.saved, ", ")));
    return text;
}

// Which parameters a rank has whole, and how long.
std::string gathered_text(const Communication& communication) {
    std::set<std::string> seen, in_turns;
    std::string turns;
    std::vector<std::string> stay;
    std::int64_t elements = 0;
    for (const Communication::Row& row : communication.rows()) {
        if (row.kind != Collective::all_gather || !seen.insert(row.name).second) continue;
        if (row.in_turns) {
            in_turns.insert(row.what);  // once for each run of its readers
            continue;
        }
        if (row.layers > 0 && row.slots < row.layers) {
            turns +=
                fmt::format("{}{} of the {} layers of {}", turns.empty() ? "" : ", ", row.slots, row.layers, row.what);
            continue;
        }
        stay.push_back(row.what);
        elements += row.elements * std::max<std::int64_t>(row.layers, 1);
    }
    if (seen.empty()) return "";
    std::string out = "A rank has its piece of every parameter. Whole it has\n\n";
    if (!turns.empty()) out += fmt::format("- {}, by turns\n", turns);
    if (!in_turns.empty())
        out += fmt::format("- the weights of 2 of {} products and tables that stand in no loop, by turns\n",
                           in_turns.size());
    if (stay.empty()) return out + "\n";
    constexpr std::size_t named = 6;
    const std::size_t shown = std::min(named, stay.size());
    out += fmt::format("- from the first micro-step of a step to its end {} elements{}: {}", elements,
                       !in_turns.empty() ? ", with which no others take turns"
                       : turns.empty()   ? ""
                                         : ", with which no loop takes turns",
                       fmt::join(stay.begin(), stay.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (stay.size() > shown) out += fmt::format(" and {} more", stay.size() - shown);
    return out + "\n\n";
}

// How a program of several ranks is started, and what these say to each other in a step.
std::string ranks_text(const ProgramLayout& layout) {
    const Mesh& mesh = layout.module().mesh;
    const Communication& communication = layout.communication();
    std::string out = "## Ranks\n\n";
    if (mesh.world() == 1)
        out +=
            "It runs on one rank, which communicates with itself as one of several would: what they take of time and "
            "memory beside\ntheir work, without the network.\n\n"
            "    mpirun -np 1 build/train --data corpus/\n\n";
    else
        out += fmt::format(
            "It runs on {0} ranks, no more and no fewer: {1}. Each works on\nmicro-batches of its own; the loss, the "
            "gradient and its norm are those of all of them. `--save` writes what one rank\nalone would have written; "
            "of a checkpoint each rank writes a part, into a folder that all of them see, and any number of ranks "
            "goes on from it.\n\n"
            "    mpirun -np {0} build/train --data corpus/\n"
            "    srun -n {0} build/train --data corpus/\n\n"
            "INT or TERM to any of the ranks lets all of them end their step and write the checkpoint. Ctrl-C on Open "
            "MPI's "
            "`mpirun` does\nnot get that far where a step and a checkpoint take more than a second: it kills the ranks "
            "by "
            "then, and gives 1. With\n`mpirun --mca odls_base_sigkill_timeout 60` it waits 60 seconds, sends TERM, "
            "waits "
            "60 seconds more, and kills what is left.\nA scheduler that ends jobs has to leave as much time between "
            "TERM "
            "and KILL.\n\n",
            mesh.world(),
            mesh.shards == 1     ? "each has the whole model"
            : mesh.replicas == 1 ? "each has a piece of the model"
                                 : fmt::format("{} times the model, each in {} pieces", mesh.replicas, mesh.shards));
    out += "A rank computes on one stream and communicates on others at the same time: ";
    std::string streams;
    for (const Communication::StreamName& s : communication.streams())
        streams += fmt::format("{}`{}`, {}", streams.empty() ? "" : "; ", s.name, s.purpose);
    out += streams + ".\nIn the order of `model.cpp`, which says what waits for what:\n\n";
    out += "| call | times | elements, whole | of | it stands there because |\n|---|---:|---:|---|---|\n";
    for (const Communication::Row& row : communication.rows())
        out += fmt::format("| `{}`, {}{} | {} {} | {} | {} | {} |\n", name_of(row.kind), row.name,
                           row.layers == 0 ? "" : (row.backward ? ", backward" : ", forward"), row.times,
                           row.when.empty() ? "in each micro-step" : row.when, row.elements, row.what, row.reason);
    return out + "\n" + gathered_text(communication);
}

// What holds the program's gradients, also when somebody has edited it.
std::string tests_text() {
    return "## Tests\n\n"
           "    cmake -S . -B build -DTESTS=ON && cmake --build build && ctest --test-dir build --output-on-failure\n\n"
           "The gradients are held against those of the program in `tests/reference/`, the same model in plain loops, "
           "and "
           "against differences of\nthe program's own loss; what is said at the end follows from which of the two "
           "failed. "
           "A program that was edited to be another model is held\nagainst differences alone, since the reference is "
           "still the old one: `-DREFERENCE=OFF`. Kernels may use the sizes below by their names.\n\n";
}

// What a program with products of a narrow type computes in which type, and why.
std::string precision_text(const ProgramLayout& layout, const CompileOptions& c) {
    const bool narrow_copies = layout.module().arena_bytes.contains("narrow_copies");
    const DTypeRow& row = row_of(layout.compute_dtype());
    const std::string type(row.name), article = fmt::format("a {}", type);
    std::string out = fmt::format(
        "## Precision\n\nProducts read and give {0}; `LAYOUT` has the type of each tensor, `kernels.h` of each "
        "argument. A kernel computes in f32 whatever\nit reads, and rounds what it stores as {0} once, to nearest, "
        "ties to even.\n\n"
        "| what | type | why |\n|---|---|---|\n"
        "| linear layers, attention, embedding tables, and gradients of activations | {0}, sums in f32 | what they "
        "cost is bytes and products |\n"
        "| activations, and what is kept for the backward pass | {0}, but for the next row | half the memory |\n"
        "| statistics of norms, log-sum-exp, softmax, cross entropy, the loss, reductions | f32 | sums of many terms, "
        "or differences of near ones |\n"
        "| rotary tables, products of positions and frequencies | f32 | an angle of a late position has no digit left "
        "of its turn in {0} |\n",
        type);
    out += fmt::format("| gradients of parameters | {0}, `--grad-dtype {0}` | {1} |\n", c.grad_dtype,
                       c.grad_dtype == "f32" ? "sums over micro-steps; products give them unrounded"
                                             : "half the memory; each micro-step's sum is rounded");
    out += fmt::format("| parameters that the optimizer steps, and files | {}, `--master {}` | {} |\n",
                       c.master == "none" ? type : "f32", c.master,
                       c.master == "none" ? "less memory; an update below half a unit in the last place is lost"
                                          : "an update is often less than half a unit in the last place of " + article);
    if (narrow_copies)
        out += fmt::format(
            "| {0} copies: what products read of these | {0}: `w16.`, and `w16_` in `model.cpp` | the optimizer "
            "writes them "
            "with the parameters; what no product reads, as a norm's weight, is read in f32: `w.`, `w_` |\n",
            type);
    const std::vector<ModelParameter> parameters = model_parameters(layout.module());
    if (c.master != "none" && std::any_of(parameters.begin(), parameters.end(), [](const ModelParameter& p) {
            return !p.info->trainable && is_narrow(p.type.dtype);
        }))
        out += fmt::format(
            "| frozen parameters that products alone read, in files as well | {} | no update needs more digits than "
            "products read |\n",
            type);
    out += fmt::format("| the optimizer's states | {0}, `--optim-dtype {0}` | {1} |\n", c.optim_dtype,
                       c.optim_dtype == "f32" ? "a step changes a state by less than half a unit of " + article
                       : c.coded_states()
                           ? fmt::format("of matrices a code for each element and a scale for each {}: a quarter of "
                                         "the memory; of all else f32",
                                         thunder::rules::block_elements)
                           : "half the memory; small changes of a state are lost");
    return out +
           fmt::format(
               "\nOn a CPU the program says at its start how it multiplies {}; `THUNDER_{}=native|emulated` in the "
               "environment decides otherwise.\n\n",
               type, row.stored);
}

}  // namespace

// What layers of loops take turns in: whole tensors, in fewer slots than there are layers.
static std::int64_t bytes_in_turns(const Module& m) {
    std::map<std::string, std::int64_t> by_unit;
    for (const Function& f : m.functions)
        for (const Op& op : f.ops) {
            if (!is_loop(op)) continue;
            const Function& body = callee(m, op);
            for (const Op& inner : body.ops) {
                if (!is_collective(inner, Collective::all_gather)) continue;
                const Placement& place = body.info(inner.results[0]).placement;
                if (place.slots < loop_count(op))
                    by_unit[inner.attributes.string("unit")] = place.slots * place.layer_stride;
            }
        }
    std::int64_t bytes = 0;
    for (const auto& [unit, of_it] : by_unit) bytes += of_it;
    return bytes;
}

// What matrices beside loops take turns in.
static std::int64_t bytes_of_rooms(const Module& m) {
    std::map<std::int64_t, std::int64_t> rooms;
    for (const Function& f : m.functions)
        for (const Op& op : f.ops) {
            if (!op.attributes.has("room")) continue;
            std::int64_t& of_it = rooms[op.attributes.integer("room")];
            of_it = std::max(of_it, op.attributes.integer("room_bytes"));
        }
    std::int64_t bytes = 0;
    for (const auto& [room, of_it] : rooms) bytes += of_it;
    return bytes;
}

static std::string what_scaling_holds(const Module& planned) {
    const planning::ScalingPlaces places = planning::place_scaling(planned);
    const std::string states = "of what is quantised: amaxes, scales, and the amaxes of before";
    if (places.codes == 0) return states;
    const std::string codes = "weights as codes, which products read";
    return places.tensors.empty() ? codes : states + "; and " + codes;
}

std::string memory_table(const ProgramLayout& layout) {
    const Module& m = layout.module();
    struct Row {
        const char* arena;
        std::string what;
    };
    const ParameterArenas& parameters = layout.parameter_arenas();
    const std::string first = parameters.any_frozen() ? fmt::format("; those that train are the first {}",
                                                                    bytes_text(parameters.trained_bytes()))
                                                      : "";
    std::vector<Row> rows = {{"parameters", "the model's tensors" + first}};
    if (m.arena_bytes.at("gradients") > 0)
        rows.push_back({"gradients", layout.mixed_precision() ? "at the same elements" : "at the same offsets"});
    if (m.arena_bytes.contains("narrow_copies"))
        rows.push_back({"narrow_copies",
                        fmt::format("parameters once more in {}, for products", name_of(layout.compute_dtype()))});
    if (m.arena_bytes.contains("scaling")) rows.push_back({"scaling", what_scaling_holds(m)});
    if (layout.trains())
        rows.push_back({"optimizer", has_coded_states(m)                  ? "its states, one after the other; of "
                                                                            "matrices codes of 8 bits and their scales"
                                     : !parameters.states_as_parameters() ? "its states, one after the other"
                                     : layout.mixed_precision()
                                         ? "its state, at the same elements, one after the other"
                                         : "its state, at the same offsets, one after the other"});
    if (m.arena_bytes.contains("gathered")) {
        rows.front().what = "this rank's pieces of the model's tensors" + first;
        const std::int64_t turns = bytes_in_turns(m), rooms = bytes_of_rooms(m);
        const std::int64_t stays = m.arena_bytes.at("gathered") - turns - rooms;
        rows.push_back(
            {"gathered", rooms > 0    ? fmt::format("whole tensors: {} by turns, {} of others, to the end of a step",
                                                    bytes_text(turns + rooms), bytes_text(stays))
                         : turns == 0 ? "whole tensors, to the end of a step: no loop takes turns with them"
                                      : fmt::format("whole tensors: {} of loops' layers, by turns, {} of others, "
                                                    "to the end of a step",
                                                    bytes_text(turns), bytes_text(stays))});
        rows.push_back({"unit_gradients", "gradients of whole tensors, until they are summed over ranks"});
    }
    rows.push_back({"saved", "activations that the backward pass reads, layer after layer"});
    rows.push_back({"scratch", "everything else, reused"});
    rows.push_back({"constants", "tables"});
    rows.push_back({"batch", layout.trains() ? "the inputs of one micro-batch" : "the inputs of one call"});
    if (!layout.trains()) rows.push_back({"results", "outputs, and gradients of inputs"});
    std::string out = "| arena | bytes | that is | holds |\n|---|---:|---:|---|\n";
    std::int64_t total = 0;
    for (const Row& row : rows) {
        const auto at = m.arena_bytes.find(row.arena);
        const std::int64_t bytes = at == m.arena_bytes.end() ? 0 : at->second;
        total += bytes;
        out += fmt::format("| {} | {} | {} | {} |\n", row.arena, bytes, bytes_text(bytes), row.what);
    }
    out += fmt::format("| together | {} | {} | |\n", total, bytes_text(total));
    if (!layout.trains()) return out;
    // A rank copies what it writes: copies of a model share that.
    const std::int64_t state = m.arena_bytes.at("parameters") + m.arena_bytes.at("optimizer");
    const std::int64_t copies = std::max<std::int64_t>(m.mesh.replicas, 1);
    return out + fmt::format(
                     "\nBeside that, `--checkpoint-every` takes up to {} of the host for a copy that is "
                     "written in the background\n(`--checkpoint-async off`: none), and `--ema` what the "
                     "program says when it starts.\n",
                     bytes_text((state + copies - 1) / copies));
}

std::string print_readme(const ProgramLayout& layout, const EmitOptions& options) {
    const Module& m = layout.module();
    const std::string head =
        fmt::format("Written by `thunderc` from an exported model graph: {}.\n\n", parameter_count(m));
    std::string out;
    if (layout.trains()) {
        out += fmt::format("# {}: a training program\n\n{}", options.model_name, head);
        out += "    cmake -S . -B build && cmake --build build\n    build/train --help\n\n";
        if (m.mesh.communicates()) out += ranks_text(layout);
    } else {
        out += fmt::format("# {}: {} as a function library\n\n{}", options.model_name, m.main().name, head);
        out += "    cmake -S . -B build && cmake --build build\n";
        out += "    build/run --in x.safetensors --out y.safetensors\n\n" + function_text(layout);
    }
    out += "| file | holds |\n|---|---|\n";
    out += "| `sizes.h` | sizes by their names, for the model and its kernels |\n";
    out += "| `model.h` | the tensors and where they lie (`LAYOUT`) |\n";
    if (!block_functions(m).empty())
        out += fmt::format("| `blocks.cpp` | the repeated layers, {} |\n",
                           m.main().name == "forward" ? "forward" : "forward and backward");
    out += layout.trains() ? "| `model.cpp` | the schedule of a training step |\n"
                           : "| `model.cpp` | the function, call by call |\n";
    out += "| `kernels.h`, `kernels_cpu.cpp` | kernels fused for this model; each says what it computes |\n";
    if (options.cuda)
        out += "| `kernels_cuda.cuh`, `kernels_cuda.cu` | the same kernels for GPUs, and what launches them |\n";
    if (layout.trains())
        out +=
            "| `spec.cpp` | names, shapes and offsets of parameters and inputs, for the trainer |\n"
            "| `train.cpp` | the loop |\n| `train.json` | what it was made with, and defaults of a run |\n";
    else
        out +=
            "| `spec.cpp` | names, shapes and offsets of parameters, inputs and results |\n"
            "| `run.cpp` | one call, with tensors from files |\n| `emit.json` | what it was made with |\n";
    out += user_files_row(m);
    out += "| `runtime/` | the runtime's sources |\n\n";
    if (!layout.symbols().all().empty()) out += "## Sizes\n\n| name | size | |\n|---|---:|---|\n";
    for (const Symbol& s : layout.symbols().all()) out += fmt::format("| {} | {} | {} |\n", s.name, s.value, s.meaning);
    if (!layout.symbols().all().empty()) out += "\n";
    if (layout.trains()) out += feed_text(layout);
    if (layout.trains() && is_narrow(layout.compute_dtype())) out += precision_text(layout, options.compile);
    out += adapters_text(m);
    if (layout.trains()) out += tests_text();
    out +=
        fmt::format("## Memory\n\nAll of it is taken at the start; libraries may take workspace in the first {}.\n\n{}",
                    layout.trains() ? "step" : "call", memory_table(layout));
    for (std::size_t k = 0; k < options.recompute.size(); ++k)
        out += fmt::format("{}{}.\n", k == 0 ? "\nFor the backward pass, by `--recompute auto`: " : "- ",
                           options.recompute[k]);
    out +=
        "\nHow that adds up: each arena, and below it what is in it. The names are those of the table `LAYOUT` in "
        "`model.h`.\n\n" +
        sums_table(layout);
    return out;
}

namespace {

std::string quoted_list(const std::vector<std::string>& words) {
    std::string list;
    for (const std::string& word : words) list += (list.empty() ? "" : ", ") + quote(word);
    return list;
}

std::string executor_list(const EmitOptions& options) {
    return quoted_list(options.compile.executors);
}

// "architectures": those of the GPUs that DEVICE=cuda builds for; none where there are no kernels for GPUs.
std::string device_lists(const EmitOptions& options) {
    return fmt::format(
        "  \"devices\": [{}],\n  \"architectures\": [{}]",
        quoted_list(options.cuda ? std::vector<std::string>{"cpu", "cuda"} : std::vector<std::string>{"cpu"}),
        quoted_list(options.cuda ? options.architectures : std::vector<std::string>{}));
}

}  // namespace

std::string print_emit_json(const EmitOptions& options) {
    return fmt::format(
        "{{\n  \"thunderc\": {},\n  \"model\": {},\n  \"command\": {},\n  \"transform\": {},\n  \"recompute\": {},\n  "
        "\"executors\": [{}],\n{}\n}}\n",
        quote(options.version), quote(options.model_name), quote(options.command),
        quote(std::string(name_of(options.compile.transform))), quote(options.compile.recompute),
        executor_list(options), device_lists(options));
}

std::string print_train_json(const ProgramLayout& layout, const EmitOptions& options) {
    const CompileOptions& c = options.compile;
    // and ranks, where there are several
    std::string precision =
        fmt::format("\n  \"dtype\": {},\n  \"master\": {},\n  \"grad_dtype\": {},\n  \"optim_dtype\": {},",
                    quote(c.dtype), quote(c.master), quote(c.grad_dtype), quote(c.optim_dtype));
    if (c.mesh.communicates())
        precision +=
            fmt::format("\n  \"ranks\": {{\"replicas\": {}, \"shards\": {}}},", c.mesh.replicas, c.mesh.shards);
    return fmt::format(
        "{{\n  \"thunderc\": {},\n  \"model\": {},\n  \"command\": {},\n  \"optimizer\": {},\n  \"recompute\": {},{}\n "
        " "
        "\"executors\": [{}],\n{},{}\n"
        "  \"defaults\": {{{}}}\n}}\n",
        quote(options.version), quote(options.model_name), quote(options.command), quote(options.compile.optimizer),
        quote(options.compile.recompute), precision, executor_list(options), device_lists(options), feed_json(layout),
        options.default_loss_scale == "off" ? ""
                                            : fmt::format("\"loss-scale\": {}", quote(options.default_loss_scale)));
}

}  // namespace thunderc
