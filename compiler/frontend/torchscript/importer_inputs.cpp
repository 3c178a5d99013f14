// SPDX-License-Identifier: Apache-2.0
// What a model takes and gives: inputs with the shapes of the trace or of the command line, constants, outputs.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "compiler/frontend/shared/inputs.h"
#include "compiler/frontend/torchscript/importer.h"
#include "compiler/support/error.h"

namespace thunderc::torchscript {
namespace {

constexpr int deepest_output = 32;
constexpr std::size_t most_outputs = 10000;

bool is_tensor_type(const std::string& type) {
    return type == "Tensor" || type == "Optional[Tensor]" || type.empty();
}

constexpr int deepest_input = 16;

}  // namespace

Importer::Example Importer::example_of(const Pickle& pickle, const Pickled& value, int depth) {
    Example out;
    if (value.kind == Pickled::Kind::tensor) {
        out.kind = Item::Kind::tensor;
        out.known = true;
        const aten::StoredTensor tensor = pickle.tensor(value);
        out.type = tensor.type;
        out.dims = tensor.dims;
        return out;
    }
    const bool keyed = value.kind == Pickled::Kind::dictionary;
    if ((!keyed && value.kind != Pickled::Kind::tuple && value.kind != Pickled::Kind::list) || depth > deepest_input)
        return out;
    for (std::size_t k = 0; k < value.items.size(); k += keyed ? 2 : 1) {
        if (keyed) out.keys.push_back(pickle.at(value.items[k]).text);
        out.items.push_back(example_of(pickle, pickle.at(value.items[keyed ? k + 1 : k]), depth + 1));
        if (out.items.back().kind == Item::Kind::none) return {};
    }
    out.kind = keyed                                ? Item::Kind::dictionary
               : value.kind == Pickled::Kind::tuple ? Item::Kind::tuple
                                                    : Item::Kind::list;
    return out;
}

// torch.jit.freeze makes constants without names of all parameters.
void Importer::refuse_frozen() {
    const bool has_parameters = std::any_of(modules_.tensors.begin(), modules_.tensors.end(), [](const auto& tensor) {
        return tensor.kind == aten::NamedTensor::Kind::parameter;
    });
    // It leaves out what says whether a module is trained, and keeps parameters of what it was told to preserve.
    const bool partly = has_parameters && modules_.root().attribute("training") == nullptr;
    if (has_parameters && !partly) return;
    std::vector<std::string> names;
    const std::vector<Pickled::Index>& all = constants_.root().items;
    for (std::size_t k = 0; k < all.size(); ++k) {
        const Pickled& constant = constants_.at(all[k]);
        if (constant.kind != Pickled::Kind::tensor) continue;
        const aten::StoredTensor tensor = constants_.tensor(constant);
        if (!aten::stored_float(tensor.type) || !countable(tensor.dims) || element_count(tensor.dims) < 2) continue;
        if (partly) {
            names.push_back(fmt::format("CONSTANTS.c{} [{}]", k, to_string(tensor.dims)));
            continue;
        }
        fail(fmt::format("{} is frozen: its parameters are constants, and have no names any more",
                         archive_->path().string()),
             "save the model as it is before torch.jit.freeze, or torch.jit.optimize_for_inference");
    }
    if (!names.empty())
        report_.warning("frozen", archive_->path().filename().string(),
                        fmt::format("was frozen in part (preserved_attrs): these tensors are constants, have no names, "
                                    "and are not trained: {}",
                                    fmt::join(names, ", ")));
}

// Tracing keeps the inputs that it was given, without their numbers and names; of keyword inputs tensors alone, so that
// of those that hold others it is not known which are left out.
std::vector<Importer::Example> Importer::traced_inputs(const FunctionCode& forward) const {
    std::vector<Example> out;
    if (archive_->find(root_ + "traced_inputs.pkl") == nullptr) return out;
    const Pickle pickle = read_pickle(*archive_, root_ + "traced_inputs.pkl", root_ + "traced_inputs/");
    const Pickled* inputs = pickle.member(pickle.root(), forward.name);
    if (inputs == nullptr || inputs->items.size() + 1 != forward.parameters.size()) return out;
    for (const Pickled::Index item : inputs->items) out.push_back(example_of(pickle, pickle.at(item), 0));
    if (swapped_ && std::max(swapped_->first, swapped_->second) < out.size())
        std::swap(out[swapped_->first], out[swapped_->second]);
    return out;
}

std::vector<Importer::Pair> Importer::told_by_order() const {
    constexpr std::size_t most = 6;  // pairs grow with the square
    std::vector<Pair> out;
    for (std::size_t b = 0; b < std::min(traced_.size(), most); ++b)
        for (std::size_t a = 0; a < b; ++a) {
            const Example &one = traced_[a].second, &other = traced_[b].second;
            const bool said = options_.inputs.contains(traced_[a].first) || options_.inputs.contains(traced_[b].first);
            const bool same = one.type == other.type && one.dims == other.dims;
            // Others would be given to operators in ways that PyTorch, which has checked the trace, does not let by.
            const bool alike = one.type == other.type && one.dims.size() == other.dims.size();
            if (one.known && other.known && alike && !same && !said) out.emplace_back(a, b);
        }
    return out;
}

std::string Importer::told_of(std::size_t input) const {
    const auto& [name, example] = traced_[input];
    const std::optional<DType> type = aten::dtype_of(example.type);
    return fmt::format("{} {}[{}]", name, type ? name_of(*type) : "", to_string(example.dims));
}

// An input, or those within a tuple, a list or a dictionary, which are called "h.0", "batch.image".
Item Importer::declare(const std::string& name, const Example& example, InputNames& names) {
    if (example.kind != Item::Kind::tensor) {
        std::vector<Item> items;
        for (std::size_t k = 0; k < example.items.size(); ++k) {
            const bool keyed = example.kind == Item::Kind::dictionary;
            if (keyed) items.push_back(Item::of_text(example.keys[k]));
            const std::string key = keyed ? example.keys[k] : std::to_string(k);
            items.push_back(declare(fmt::format("{}.{}", name, key), example.items[k], names));
        }
        return Item::sequence(example.kind, std::move(items));
    }
    names.all.push_back(name);
    DeclaredInput declared;
    declared.name = name;
    if (const auto given = options_.inputs.find(name); given != options_.inputs.end()) {
        const std::optional<aten::ScalarType> type = aten::scalar_type_named(given->second.type);
        if (!type) {
            Diagnostic d;
            d.message = fmt::format("--input {}: there is no type {}", name, given->second.type);
            d.help = "the types are f32, i64, i32, bool, f16, bf16, f64, u8, i8, i16";
            throw UsageError(std::move(d));
        }
        for (const CompileOptions::InputShape::Extent& extent : given->second.shape)
            declared.shape.push_back({extent.value, extent.symbol});
        types_.push_back(*type);
    } else if (example.known) {
        for (const std::int64_t extent : example.dims) declared.shape.push_back({extent, ""});
        types_.push_back(example.type);
    } else {
        names.unknown.push_back(name);
        return Item::tensor(name);
    }
    declared_.push_back(std::move(declared));
    return Item::tensor(name);
}

// What a type says of an input that was not traced: a tensor, a tuple of so many, a list or a dictionary of those that
// --input names.
std::optional<Importer::Example> Importer::example_of_type(const std::string& name, const std::string& type) const {
    Example out;
    out.kind = Item::Kind::tensor;
    if (is_tensor_type(type)) return out;
    std::size_t count = 0;
    if (type == "List[Tensor]") {
        out.kind = Item::Kind::list;
        while (options_.inputs.contains(fmt::format("{}.{}", name, count))) ++count;
        count = std::max<std::size_t>(count, 1);
    } else if (type == "Dict[str,Tensor]") {
        out.kind = Item::Kind::dictionary;
        for (const auto& [key, shape] : options_.inputs)
            if (key.starts_with(name + ".")) out.keys.push_back(key.substr(name.size() + 1));
        count = out.keys.size();
    } else if (type.starts_with("Tuple[")) {
        out.kind = Item::Kind::tuple;
        for (std::string_view rest = std::string_view(type).substr(6); rest.starts_with("Tensor");) {
            ++count;
            rest.remove_prefix(std::min<std::size_t>(rest.size(), 7));  // with what is behind it
            if (rest.empty()) break;
        }
        if (type.size() != 6 + 7 * count) return std::nullopt;  // of something else as well
    }
    Example tensor;
    tensor.kind = Item::Kind::tensor;
    out.items.resize(count, tensor);
    return count == 0 ? std::nullopt : std::optional(out);
}

// --batch and --seq bind the first two dimensions, which a trace has as numbers.
void Importer::make_dynamic() {
    if (declared_.empty()) return;
    std::vector<std::string> changed;
    const auto rebind = [&](std::size_t axis, std::int64_t value, const char* symbol) {
        const DeclaredInput first = declared_.front();
        if (value == 0 || first.shape.size() <= axis || !first.shape[axis].symbol.empty() ||
            first.shape[axis].value == value)
            return;
        if (options_.inputs.contains(first.name)) {
            const char* flag = axis == 0 ? "batch" : "seq";
            Diagnostic d;
            d.message = fmt::format("--{} {} and --input {}, whose dimension {} is {}, contradict one another", flag,
                                    value, first.name, axis, first.shape[axis].value);
            d.help = fmt::format("leave --{} out, or write {} for the number in --input", flag, symbol);
            throw UsageError(std::move(d));
        }
        changed.push_back(fmt::format("{} for {}", first.shape[axis].value, value));
        const std::int64_t before = first.shape[axis].value;
        for (DeclaredInput& input : declared_)
            if (input.shape.size() > axis && input.shape[axis].symbol.empty() && input.shape[axis].value == before)
                input.shape[axis] = {0, symbol};
    };
    rebind(0, options_.batch, "batch");
    rebind(1, options_.seq, "seq");
    if (!changed.empty() && archive_->find(root_ + "traced_inputs.pkl") != nullptr)
        report_.warning("trace", declared_.front().name,
                        fmt::format("has another size than the model was traced with ({}): what Python computed of "
                                    "sizes while it was traced stays what it was then",
                                    fmt::join(changed, ", ")));
}

void Importer::bind_declared() {
    make_dynamic();
    const BoundInputs bound = bind_inputs(declared_, options_);
    for (std::size_t k = 0; k < bound.inputs.size(); ++k) {
        const ShapedInput& input = bound.inputs[k];
        ArgInfo info = input_info(input, options_, report_);
        const Type type = Type::tensor(dtype(types_[k], "the input " + input.name), input.dims);
        names_taken_[input.name] = 1;
        note_type(input.name, types_[k]);
        if (const auto given = options_.bound.find(input.name); given != options_.bound.end()) {
            bind(input.name, aten::Binding::of(bound_constant(input.name, given->second, type)));
            continue;
        }
        const Value v = module_.main().add_argument(type, value_name(input.name), std::move(info));
        if (aten::is_widened(types_[k])) narrow_.insert(v);
        bind(input.name, aten::Binding::of(v));
    }
}

namespace {

// A number that --bind gives, as code has one of the parameter's type: float, bool, int, and the optional ones.
Item number_of_type(const Parameter& p, double number) {
    const auto is = [&](std::string_view type) {
        return p.type == type || p.type == fmt::format("Optional[{}]", type);
    };
    if (is("float")) return Item::of(number);
    if (is("bool")) return Item::of(number != 0);
    if (!is("int") || std::trunc(number) != number || std::abs(number) > 0x1p53) {
        Diagnostic d;
        d.message = fmt::format("--bind {}: the input is of type {}, and {} is given", p.name, p.type, number);
        d.help = is("int") ? "give a whole number" : "numbers are given to inputs of type int, float and bool alone";
        throw UsageError(std::move(d));
    }
    return Item::of(static_cast<std::int64_t>(number));
}

}  // namespace

std::unordered_map<std::string, Item> Importer::import_inputs(const FunctionCode& forward) {
    std::unordered_map<std::string, Item> given;
    InputNames names;
    const std::vector<Example> examples = traced_inputs(forward);
    for (std::size_t k = 0; k < examples.size(); ++k) traced_.emplace_back(forward.parameters[k + 1].name, examples[k]);
    for (std::size_t k = 1; k < forward.parameters.size(); ++k) {
        const Parameter& p = forward.parameters[k];
        std::optional<Example> example;
        if (k - 1 < examples.size() && examples[k - 1].kind != Item::Kind::none) example = examples[k - 1];
        if (!example) example = example_of_type(p.name, p.type);
        if (example) {
            const bool absent = p.type == "Optional[Tensor]" && !example->known && !options_.inputs.contains(p.name);
            if (!absent)
                given.emplace(p.name, declare(p.name, *example, names));
            else if (!p.optional)
                given.emplace(p.name, Item{});  // None
            if (absent) names.all.push_back(p.name);
            continue;
        }
        names.all.push_back(p.name);
        if (const auto number = options_.bound.find(p.name);
            number != options_.bound.end() && number->second.values.size() == 1) {
            given.emplace(p.name, number_of_type(p, number->second.values.at(0)));
            continue;
        }
        if (options_.inputs.contains(p.name)) {
            Diagnostic d;
            d.message = fmt::format("--input {}: the input is of type {}, which is no tensor", p.name, p.type);
            d.help = fmt::format("say its number: --bind {}=1; or leave it out where it has a default", p.name);
            throw UsageError(std::move(d));
        }
        if (p.optional) continue;
        if (p.type.starts_with("Optional[")) {
            given.emplace(p.name, Item{});
            continue;
        }
        fail(fmt::format("the input {} of the model is of type {}, which is not supported", p.name, p.type),
             p.type == "int" || p.type == "float" || p.type == "bool"
                 ? fmt::format("say what it is: --bind {}=1", p.name)
             : p.type == "Dict[str,Tensor]"
                 ? fmt::format("say what tensors it has: --input {}.KEY=f32[2,8]", p.name)
                 : "save a model whose forward() takes tensors, and has defaults for all else");
    }
    require_bound_names(names.all);
    for (const auto& [name, shape] : options_.inputs)
        if (std::find(names.all.begin(), names.all.end(), name) == names.all.end()) {
            Diagnostic d;
            d.message = fmt::format("--input {}: the model has no such input", name);
            d.help = names.all.empty() ? "it has none" : fmt::format("its inputs are {}", fmt::join(names.all, ", "));
            throw UsageError(std::move(d));
        }
    if (!names.unknown.empty()) {
        const bool traced = archive_->find(root_ + "traced_inputs.pkl") != nullptr;
        std::vector<std::string> flags;
        for (const std::string& name : names.unknown) flags.push_back(fmt::format("--input {}=f32[2,8]", name));
        Diagnostic d;
        d.message = fmt::format("nothing says which shape and type the {} {} {}",
                                names.unknown.size() == 1 ? "input" : "inputs", fmt::join(names.unknown, ", "),
                                names.unknown.size() == 1 ? "has" : "have");
        d.help = fmt::format(
            "{} has no shapes; say them: {} (i64 for ids, names instead of numbers for what "
            "--batch, --seq and --dim bind)",
            traced ? "a trace of keyword inputs that hold several tensors" : "scripted code", fmt::join(flags, " "));
        throw UsageError(std::move(d));
    }
    bind_declared();
    return given;
}

// Numbers of the code are constants; tensors that it was given as it was traced are as those of buffers.
void Importer::import_constants() {
    const std::vector<Pickled::Index>& all = constants_.root().items;
    std::vector<aten::NamedTensor> tensors;
    for (std::size_t k = 0; k < all.size(); ++k) {
        const Pickled& constant = constants_.at(all[k]);
        const std::string name = fmt::format("CONSTANTS.c{}", k);
        if (constant.kind != Pickled::Kind::tensor)
            fail(fmt::format("{} of the archive is no tensor", name), "save the model again with torch.jit.save");
        aten::NamedTensor& made = tensors.emplace_back();
        made.name = made.binding = name;
        made.stored = constants_.tensor(constant);
        made.stored.name = name;
    }
    import_tensors(archive_, tensors);
    for (const aten::NamedTensor& tensor : tensors)
        if (!tensor.stored.dims.empty()) note_type(tensor.binding, tensor.stored.type);
}

// Tensors by the keys of dictionaries and the fields of named tuples; else as the last call is called.
void Importer::import_outputs(const Item& result, const std::string& key, int depth) {
    if (++outputs_ > most_outputs)
        fail(fmt::format("the model gives more than {} outputs", most_outputs), "return fewer from forward()");
    Function& main = module_.main();
    if (result.kind == Item::Kind::tensor) {
        const std::string wanted = aten::plain(key.empty() ? result.text : key);
        std::string name = wanted;
        for (int n = 1; !output_names_.insert(name).second; ++n) name = fmt::format("{}_{}", wanted, n);
        if (is_complex(result))
            fail(fmt::format("the result {} is of complex numbers", wanted),
                 "return pairs of real numbers: torch.view_as_real(x)");
        main.results.push_back(find(result.text).value);
        main.result_names.push_back(std::move(name));
        return;
    }
    const bool dictionary = result.kind == Item::Kind::dictionary;
    if ((!result.is_sequence() && !dictionary) || depth > deepest_output) {
        report_.done("output", key.empty() ? "0" : key, "is no tensor: left out");
        return;
    }
    const bool may_be_named = result.kind == Item::Kind::tuple && !result.text.empty();
    const ClassCode* named = may_be_named ? library_.find_class(result.text) : nullptr;
    const std::vector<Item>& items = *result.items;
    for (std::size_t k = 0; k < items.size(); k += dictionary ? 2 : 1) {
        std::string own = dictionary                                         ? items[k].text
                          : named != nullptr && k < named->attributes.size() ? named->attributes[k].name
                                                                             : "";
        if (!own.empty() && !key.empty()) own = key + "." + own;
        import_outputs(items[dictionary ? k + 1 : k], own, depth + 1);
    }
}

}  // namespace thunderc::torchscript
