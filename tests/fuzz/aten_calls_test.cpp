// SPDX-License-Identifier: Apache-2.0
// Calls of ATen's operators that no PyTorch let through: a hand-written or damaged file has them. Each operator of the
// table is called as PyTorch's recorded samples do, with arguments that are others, left out or more, and by its schema
// with arguments drawn by their types. It gives what the verifier takes and the evaluator computes, or one message that
// names the operator. FUZZ_ROUNDS and FUZZ_SEED are as in models_test.cpp; FUZZ_VERBOSE=1 prints each call before it
// is tried, of which the last is the one that crashed.
#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <random>
#include <set>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/schemas.h"
#include "compiler/frontend/pt2/program.h"
#include "compiler/frontend/shared/inputs.h"
#include "compiler/interpreter/evaluate.h"
#include "compiler/ir/verify.h"
#include "compiler/support/error.h"
#include "tests/frontend/pt2_archive.h"
#include "tests/support/full_form.h"

namespace thunderc::tests {
namespace aten_calls_test {

using aten::Argument;
using aten::Call;
using aten::ScalarType;
using aten::Schema;
using aten::TensorMeta;
using Random = std::mt19937_64;

constexpr double longest_seconds = 20;  // of one call, on a machine that does other things as well

// A graph, and what its inputs are like.
struct Trial {
    aten::Graph graph;
    std::map<std::string, TensorMeta> inputs;
};

// Imports a graph that stands in no file.
class Probe final : public aten::Importer {
  public:
    Probe(const Trial& trial, const CompileOptions& options, Report& report)
        : aten::Importer(aten::module_of("probe"), options, report), trial_(trial) {}

    Module run() {
        for (const auto& [name, of] : trial_.inputs) {
            const bool pair = aten::part_of_complex(of.type) != ScalarType::unknown;
            const std::optional<DType> type = aten::dtype_of(pair ? aten::part_of_complex(of.type) : of.type);
            const auto argument = [&](const std::string& called) {
                ArgInfo info;
                info.names = {called};
                return module_.main().add_argument(Type::tensor(type.value(), *dims(of)), value_name(called), info);
            };
            aten::Binding binding = aten::Binding::of(argument(name));
            if (pair) {
                binding.kind = aten::Binding::Kind::complex;
                binding.items = {aten::Binding::of(binding.value), aten::Binding::of(argument(name + "_imaginary"))};
            }
            bind(name, std::move(binding));
        }
        aten::refuse_unknown(trial_.graph);
        import_calls(trial_.graph);
        for (const Argument& output : trial_.graph.outputs)
            if (output.kind != Argument::Kind::name || names_.contains(output.text)) add_result(resolve(output));
        return finished({});
    }

    const TensorMeta* meta(const std::string& name) const override {
        const auto at = trial_.inputs.find(name);
        return at == trial_.inputs.end() ? nullptr : &at->second;
    }
    std::optional<std::int64_t> size(const aten::Size& size) const override { return size.value; }

  private:
    void add_result(const aten::Binding& binding) {
        for (const aten::Binding& item : binding.items) add_result(item);
        if (binding.kind != aten::Binding::Kind::tensor) return;
        module_.main().results.push_back(binding.value);
        module_.main().result_names.push_back("r" + std::to_string(module_.main().results.size()));
    }

    const Trial& trial_;
};

// ---- what is drawn --------------------------------------------------------------------------------------------------

template <typename T, std::size_t N>
T one_of(const std::array<T, N>& choices, Random& random) {
    return choices[random() % N];
}

TensorMeta tensor_of(ScalarType type, Dims dims) {
    TensorMeta out;
    out.type = type;
    const Dims strides = dense_strides(dims);
    for (const std::int64_t extent : dims) out.sizes.push_back({extent, ""});
    for (const std::int64_t stride : strides) out.strides.push_back({stride, ""});
    return out;
}

TensorMeta random_tensor(Random& random) {
    static constexpr std::array types = {ScalarType::f32, ScalarType::f32,     ScalarType::f32, ScalarType::i64,
                                         ScalarType::i64, ScalarType::boolean, ScalarType::i32, ScalarType::c64};
    static constexpr std::array<std::int64_t, 8> extents = {2, 3, 4, 1, 2, 3, 5, 0};
    Dims dims(random() % 6);
    for (std::int64_t& extent : dims) extent = one_of(extents, random);
    return tensor_of(one_of(types, random), std::move(dims));
}

Argument of_kind(Argument::Kind kind, std::int64_t integer = 0, std::string text = {}) {
    Argument out;
    out.kind = kind;
    out.integer = integer;
    out.number = static_cast<double>(integer);
    out.text = std::move(text);
    return out;
}

std::int64_t random_integer(Random& random) {
    static constexpr std::array<std::int64_t, 16> odd = {
        -1, 0, 1, 2, 3, 4, -2, 7, 1, 2, 0, 1000, std::int64_t{1} << 31, std::int64_t{1} << 62, INT64_MIN, INT64_MAX};
    return one_of(odd, random);
}

Argument random_integers(Random& random) {
    Argument out = of_kind(Argument::Kind::list);
    out.items.resize(random() % 6);
    for (Argument& item : out.items) item = of_kind(Argument::Kind::integer, random_integer(random));
    return out;
}

Argument random_number(Random& random) {
    static constexpr std::array odd = {0.0,  1.0,    -1.0,
                                       0.5,  1e300,  std::numeric_limits<double>::infinity(),
                                       -0.0, 1e-300, std::numeric_limits<double>::quiet_NaN()};
    Argument out = of_kind(Argument::Kind::number);
    out.number = one_of(odd, random);
    return out;
}

Argument new_tensor(Trial& trial, Random& random) {
    const std::string name = "drawn_" + std::to_string(trial.inputs.size());
    trial.inputs[name] = random_tensor(random);
    return of_kind(Argument::Kind::name, 0, name);
}

Argument random_argument(Trial& trial, Random& random) {
    static constexpr std::array<std::int64_t, 6> types = {7, 5, 12, 10, 0, 99};
    static const std::array<std::string, 5> texts = {"", "none", "mean", "ij,jk->ik", "x"};
    switch (random() % 9) {
        case 0: return new_tensor(trial, random);
        case 1: return of_kind(Argument::Kind::integer, random_integer(random));
        case 2: return random_integers(random);
        case 3: return random_number(random);
        case 4: return of_kind(Argument::Kind::boolean, static_cast<std::int64_t>(random() % 2));
        case 5: return of_kind(Argument::Kind::none);
        case 6: return of_kind(Argument::Kind::scalar_type, one_of(types, random));
        case 7: return of_kind(Argument::Kind::text, 0, one_of(texts, random));
        default: {
            Argument out = of_kind(Argument::Kind::list);
            for (std::size_t k = random() % 4; k > 0; --k) out.items.push_back(new_tensor(trial, random));
            return out;
        }
    }
}

// Of a type as schemas have them, mostly.
Argument argument_for(std::string_view type, Trial& trial, Random& random) {
    if (random() % 16 == 0) return random_argument(trial, random);
    if (type.ends_with('?')) {
        if (random() % 2 == 0) return of_kind(Argument::Kind::none);
        type.remove_suffix(1);
    }
    if (const std::size_t bracket = type.find('['); bracket != std::string_view::npos && !type.starts_with("int")) {
        Argument out = of_kind(Argument::Kind::list);
        for (std::size_t k = random() % 4; k > 0; --k)
            out.items.push_back(argument_for(type.substr(0, bracket), trial, random));
        return out;
    }
    if (type.starts_with("int[")) return random_integers(random);
    if (type == "Tensor") return new_tensor(trial, random);
    if (type == "int") return of_kind(Argument::Kind::integer, random_integer(random));
    if (type == "float" || type == "Scalar")
        return random() % 2 == 0 ? random_number(random) : of_kind(Argument::Kind::integer, random_integer(random));
    if (type == "bool") return of_kind(Argument::Kind::boolean, static_cast<std::int64_t>(random() % 2));
    return random_argument(trial, random);
}

// ---- what is changed ------------------------------------------------------------------------------------------------

// An argument that is another, an item of a list, one that is left out or one too many; a result more or less.
void change(Trial& trial, Random& random) {
    if (trial.graph.calls.empty()) return;
    Call& call = trial.graph.calls[random() % trial.graph.calls.size()];
    if (random() % 12 == 0) {
        if (random() % 2 == 0 && call.results.size() > 1)
            call.results.pop_back();
        else
            call.results.push_back(of_kind(Argument::Kind::name, 0, "more_" + std::to_string(call.results.size())));
        return;
    }
    if (call.arguments.empty() || random() % 12 == 0) {
        call.arguments.push_back({"more", random_argument(trial, random)});
        return;
    }
    const std::size_t at = random() % call.arguments.size();
    Argument& argument = call.arguments[at].value;
    if (random() % 12 == 0) {
        call.arguments.erase(call.arguments.begin() + static_cast<std::ptrdiff_t>(at));
        return;
    }
    const auto input = argument.kind == Argument::Kind::name ? trial.inputs.find(argument.text) : trial.inputs.end();
    if (input != trial.inputs.end() && random() % 4 != 0) {
        input->second = random_tensor(random);
    } else if (argument.kind == Argument::Kind::integer && random() % 4 != 0) {
        argument = of_kind(Argument::Kind::integer, random_integer(random));
    } else if (argument.kind == Argument::Kind::list && random() % 4 != 0) {
        switch (random() % 3) {
            case 0:
                if (!argument.items.empty()) argument.items.pop_back();
                break;
            case 1:
                argument.items.push_back(argument.items.empty() ? random_argument(trial, random) : argument.items[0]);
                break;
            default:
                for (Argument& item : argument.items)
                    if (item.kind == Argument::Kind::integer && random() % 2 == 0)
                        item = of_kind(Argument::Kind::integer, random_integer(random));
        }
    } else {
        argument = random_argument(trial, random);
    }
}

// ---- what is asked of it --------------------------------------------------------------------------------------------

std::string text_of(const Argument& argument, const Trial& trial) {
    switch (argument.kind) {
        case Argument::Kind::none: return "None";
        case Argument::Kind::name: {
            const auto at = trial.inputs.find(argument.text);
            if (at == trial.inputs.end()) return argument.text;
            Dims dims;
            for (const aten::Size& size : at->second.sizes) dims.push_back(size.value);
            return name_of(at->second.type) + to_string(dims);
        }
        case Argument::Kind::number: return std::to_string(argument.number);
        case Argument::Kind::list: {
            std::string out;
            for (const Argument& item : argument.items) out += (out.empty() ? "" : ", ") + text_of(item, trial);
            return "[" + out + "]";
        }
        case Argument::Kind::text: return "\"" + argument.text + "\"";
        default: return std::to_string(argument.integer);
    }
}

std::string text_of(const Trial& trial) {
    std::string out;
    for (const Call& call : trial.graph.calls) {
        out += call.target + "(";
        for (const aten::NamedArgument& a : call.arguments) out += a.name + "=" + text_of(a.value, trial) + ", ";
        out += ") of " + std::to_string(call.results.size()) + " results\n";
    }
    return out;
}

// Whether the evaluator has it in no time.
bool is_small(const Function& main) {
    constexpr std::int64_t most = 20000;
    std::int64_t all = 0;
    for (const Op& op : main.ops)
        for (const Value v : op.results) {
            const std::int64_t elements = main.type(v).elements();
            if (elements > most - all) return false;
            all += elements;
        }
    return true;
}

void compute(const Module& module, Random& random) {
    const Function& main = module.main();
    std::vector<Tensor> arguments;
    for (const Value v : main.arguments) {
        Tensor& given = arguments.emplace_back(main.type(v));
        for (double& x : given.f) x = static_cast<double>(random() % 1000) / 250 - 2;
        for (std::int64_t& x : given.i)
            x = static_cast<std::int64_t>(random() % (given.type.dtype == DType::boolean ? 2 : 4));
    }
    evaluate(module, main, std::span<const Tensor>(arguments));
}

// "" where all is well.
std::string tried(const Trial& trial, Random& random) {
    const auto begin = std::chrono::steady_clock::now();
    const CompileOptions options;
    Report report;
    std::string problem;
    bool imported = false;
    try {
        const Module module = Probe(trial, options, report).run();
        imported = true;
        verify(module);
        if (is_small(module.main())) compute(module, random);
    } catch (const UserError& error) {  // of what is computed: a number that is out of range
        if (!imported && error.diagnostic().op.empty() &&
            error.diagnostic().message.find("not supported") == std::string::npos)
            problem = "no operator is named: " + error.diagnostic().text();
    } catch (const std::exception& error) {
        problem = std::string("thunderc is at fault: ") + error.what();
    }
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - begin;
    if (took.count() > longest_seconds) problem += " took " + std::to_string(took.count()) + " s";
    return problem;
}

std::uint64_t from_environment(const char* name, std::uint64_t otherwise) {
    const char* value = std::getenv(name);
    return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

class AtenCalls : public testing::Test {
  protected:
    // Tries `count` of what `draw` gives, in each round.
    template <typename Draw>
    void try_many(const std::string& what, std::uint64_t count, const Draw& draw) {
        static const std::uint64_t rounds = from_environment("FUZZ_ROUNDS", full_form ? 50 : 1),
                                   first = from_environment("FUZZ_SEED", 0);
        static const bool verbose = std::getenv("FUZZ_VERBOSE") != nullptr;
        count *= rounds;
        for (std::uint64_t seed = first * count; seed < (first + 1) * count; ++seed) {
            Random random(seed ^ std::hash<std::string>{}(what));
            const Trial trial = draw(random);
            if (verbose) std::fputs((what + " " + std::to_string(seed) + ": " + text_of(trial)).c_str(), stderr);
            const std::string problem = tried(trial, random);
            if (problem.empty()) continue;
            ADD_FAILURE() << what << ", seed " << seed << ": " << problem << "\n" << text_of(trial);
            return;
        }
    }
};

TEST_F(AtenCalls, OfSamplesWithOtherArguments) {
    const Entries all = entries_of(fixture("aten/samples.zip"));
    std::set<std::string> tried_targets;
    const TemporaryFile file("sample.pt2");
    for (const auto& [entry, bytes] : all) {
        if (!entry.ends_with("/models/model.json")) continue;
        write_zip(file.path(),
                  {{"model/archive_format", "pt2"},
                   {"model/archive_version", "0"},
                   {"model/byteorder", "little"},
                   {"model/data/weights/model_weights_config.json", R"({"config": {}})"},
                   {"model/data/constants/model_constants_config.json", R"({"config": {}})"},
                   {"model/models/model.json", bytes}},
                  false);
        const pt2_frontend::Program program = pt2_frontend::read_program(ZipArchive(file.path()));
        // In the short form one sample for each operator.
        bool is_new = false;
        for (const Call& call : program.graph.calls) is_new = tried_targets.insert(call.target).second || is_new;
        if (short_form && !is_new) continue;
        Trial sample{program.graph, {}};
        for (const pt2_frontend::InputSpec& spec : program.inputs)
            if (const auto at = program.graph.tensors.find(spec.name); at != program.graph.tensors.end())
                sample.inputs[spec.name] = at->second;
        for (auto& [name, of] : sample.inputs)
            for (aten::Size& size : of.sizes)
                if (!size.expression.empty()) size = {4, ""};
        try_many(entry.substr(0, entry.find('/')), 2, [&](Random& random) {
            Trial trial = sample;
            for (std::size_t k = 1 + random() % 2; k > 0; --k) change(trial, random);
            return trial;
        });
    }
    EXPECT_GT(tried_targets.size(), 300U);
}

TEST_F(AtenCalls, ByTheTypesOfTheirSchemas) {
    for (const std::string_view name : aten::names_of_importers()) {
        const std::string base(name.substr(0, name.find('.')));
        const std::vector<Schema>& schemas = aten::schemas_of(base);
        try_many(std::string(name), 3 * std::max<std::size_t>(schemas.size(), 1), [&](Random& random) {
            Trial trial;
            Call& call = trial.graph.calls.emplace_back();
            call.name = "call";
            std::size_t results = 1 + random() % 3;
            if (schemas.empty()) {
                call.target = std::string(name);
                for (std::size_t k = random() % 5; k > 0; --k)
                    call.arguments.push_back({"", random_argument(trial, random)});
            } else {
                const Schema& schema = schemas[random() % schemas.size()];
                call.target = "aten." + schema.name + (schema.name == base ? ".default" : "");
                for (const Schema::Parameter& p : schema.parameters)
                    if (!p.optional || random() % 2 == 0)
                        call.arguments.push_back({p.name, argument_for(p.type, trial, random)});
                if (random() % 8 != 0) results = schema.results.size();
            }
            for (std::size_t k = 0; k < results; ++k)
                call.results.push_back(of_kind(Argument::Kind::name, 0, "result_" + std::to_string(k)));
            trial.graph.outputs = call.results;
            return trial;
        });
    }
}

}  // namespace aten_calls_test
}  // namespace thunderc::tests
