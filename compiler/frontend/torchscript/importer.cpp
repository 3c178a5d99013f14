// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/importer.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "compiler/frontend/torchscript/torchscript_frontend.h"
#include "compiler/support/error.h"

namespace thunderc::torchscript {
namespace {

using aten::ScalarType;

constexpr std::size_t most_calls = 250'000;  // of operators, with those of unrolled loops

constexpr std::string_view data_end = "data.pkl";

std::string root_of_archive(const ZipArchive& archive) {
    const std::optional<std::string> entry = archive.only_with_end("constants.pkl");
    if (!entry) fail(fmt::format("{} has no constants.pkl", archive.path().string()), "save it with torch.jit.save");
    return entry->substr(0, entry->size() - std::string_view("constants.pkl").size());
}

// The classes of modules with their packages, by path.
std::map<std::string, std::string> classes_of(const Modules& modules) {
    std::map<std::string, std::string> out;
    for (const auto& module : modules.all) out[module->path] = class_name(module->type);
    return out;
}

}  // namespace

Importer::Importer(std::shared_ptr<const ZipArchive> archive, const CompileOptions& options, Report& report,
                   std::optional<Pair> swapped)
    : aten::Importer(aten::module_of(archive->path()), options, report),
      archive_(std::move(archive)),
      root_(root_of_archive(*archive_)),
      swapped_(swapped),
      library_(*archive_, root_),
      data_(read_pickle(*archive_, root_ + std::string(data_end), root_ + "data/")),
      constants_(read_pickle(*archive_, root_ + "constants.pkl", root_ + "constants/")),
      modules_(modules_of(*archive_, data_, library_)) {
    for (const char* name : {"version", ".data/version"}) {  // the latter from version 6 on
        if (archive_->find(root_ + name) == nullptr) continue;
        const std::string text = archive_->text(root_ + name);
        std::from_chars(text.data(), text.data() + text.size(), version_);
        return;
    }
}

Module Importer::run() {
    if (archive_->find(root_ + "byteorder") != nullptr && archive_->text(root_ + "byteorder") == "big")
        fail(fmt::format("{} was saved on a machine with the other order of bytes", archive_->path().string()),
             "save it on a little-endian machine");
    const bool traced = archive_->find(root_ + "traced_inputs.pkl") != nullptr;
    report_.done("file", archive_->path().filename().string(),
                 fmt::format("a TorchScript archive, {}", traced ? "traced" : "scripted"));
    const ModuleObject& root = modules_.root();
    const FunctionCode* forward = root.code->method("forward");
    if (forward == nullptr)
        fail(fmt::format("{} has no method forward", class_name(root.type)), "save a module that has one");
    if (traced)
        report_.warning("trace", aten::plain(last_part(root.type)),
                        "was traced, which keeps no torch.no_grad(): what the model computes within it has a gradient "
                        "here. It keeps detach(); torch.jit.script and torch.export keep both");
    refuse_frozen();
    std::unordered_map<std::string, Item> given = import_inputs(*forward);
    import_tensors(archive_, modules_.tensors);
    import_constants();
    for (const aten::NamedTensor& tensor : modules_.tensors) {
        note_type(tensor.binding, tensor.stored.type);
        if (aten::is_widened(tensor.stored.type)) narrow_.insert(find(tensor.binding).value);
    }
    const Item result = Interpreter(library_, *this).run(root, *forward, std::move(given));
    import_outputs(result, "", 0);
    if (module_.main().results.empty())
        fail("the model gives no tensor", "save a model that returns its logits or its loss");
    require_numbers_of_constants();
    return finished(classes_of(modules_));
}

// Code says nothing of its tensors.
const aten::TensorMeta* Importer::meta(const std::string& name) const {
    static_cast<void>(name);
    return nullptr;
}

std::optional<std::int64_t> Importer::size(const aten::Size& size) const {
    return size.expression.empty() ? std::optional(size.value) : std::nullopt;
}

// ---- for the interpreter --------------------------------------------------------------------------------------------

const Type& Importer::type(const Item& tensor) const {
    const aten::Binding& of = find(tensor.text);
    return aten::Importer::type(of.kind == aten::Binding::Kind::complex ? of.items[0].value : of.value);
}

bool Importer::is_complex(const Item& tensor) const {
    return find(tensor.text).kind == aten::Binding::Kind::complex;
}

const Tensor* Importer::known(const Item& tensor) {
    if (is_complex(tensor)) return nullptr;
    const Value v = find(tensor.text).value;
    return aten::Importer::known(v);
}

bool Importer::any_operand(const aten::Call& call, const std::set<Value>& among) const {
    const auto is_among = [&](const aten::Argument& a) {
        const auto at = a.kind == aten::Argument::Kind::name ? names_.find(a.text) : names_.end();
        return at != names_.end() && among.contains(at->second.value);
    };
    return std::any_of(call.arguments.begin(), call.arguments.end(), [&](const aten::NamedArgument& a) {
        return is_among(a.value) || std::any_of(a.value.items.begin(), a.value.items.end(), is_among);
    });
}

// Behind a call: what its results' numbers are.
void Importer::note_numbers(const aten::Call& call) {
    const bool counted = any_operand(call, counted_), narrow = any_operand(call, narrow_);
    std::optional<aten::ScalarType> converted;
    for (const aten::NamedArgument& a : call.arguments)
        if (a.value.kind == aten::Argument::Kind::scalar_type)
            converted = static_cast<aten::ScalarType>(a.value.integer);
    const bool now_narrow = converted ? aten::is_widened(*converted) : narrow;
    for (const aten::Argument& result : call.results) {
        const auto at = names_.find(result.text);
        if (at == names_.end() || at->second.kind != aten::Binding::Kind::tensor) continue;
        const Value v = at->second.value;
        if (counted) counted_.insert(v);
        if (now_narrow && aten::Importer::type(v).dtype == DType::i32) narrow_.insert(v);
    }
}

// ---- types that the model's tensors have, and are computed in others
// -------------------------------------------------

void Importer::note_type(const std::string& name, ScalarType type) {
    const std::optional<DType> dtype = aten::dtype_of(type);
    if (type == ScalarType::unknown || (dtype && number_of(*dtype) != number_of(type)))
        own_types_[name] = type;
    else
        own_types_.erase(name);
}

ScalarType Importer::own_type(const std::string& name) const {
    if (const auto at = own_types_.find(name); at != own_types_.end()) return at->second;
    if (names_.at(name).kind == aten::Binding::Kind::complex) return ScalarType::c64;
    return scalar_type_of(number_of(aten::Importer::type(names_.at(name).value).dtype)).value_or(ScalarType::unknown);
}

// Of the operands: those without dimensions decide only where all are. Integers of two types are of neither.
ScalarType Importer::promoted_type(const aten::Call& call, bool floating) const {
    std::set<ScalarType> with, without;
    const auto add = [&](const aten::Argument& a) {
        const auto at = a.kind == aten::Argument::Kind::name ? names_.find(a.text) : names_.end();
        if (at == names_.end() || at->second.kind != aten::Binding::Kind::tensor) return;
        const Type& type = aten::Importer::type(at->second.value);
        if (is_float(type.dtype) != floating || type.dtype == DType::boolean) return;
        (type.dims.empty() ? without : with).insert(own_type(a.text));
    };
    for (const aten::NamedArgument& a : call.arguments) {
        add(a.value);
        for (const aten::Argument& item : a.value.items) add(item);
    }
    const std::set<ScalarType>& all = with.empty() ? without : with;
    const ScalarType plain = floating ? ScalarType::f32 : ScalarType::i64;
    if (all.size() < 2) return all.empty() ? plain : *all.begin();
    if (!floating || all.contains(ScalarType::unknown)) return ScalarType::unknown;
    return all.contains(ScalarType::f64) ? ScalarType::f64 : ScalarType::f32;
}

// Behind a call: the types that its results have in the model.
void Importer::note_types(const aten::Call& call) {
    if (aten::written_by(call) != nullptr) return;  // a tensor keeps its type
    std::optional<ScalarType> converted;
    for (const aten::NamedArgument& a : call.arguments)
        if (a.value.kind == aten::Argument::Kind::scalar_type) converted = static_cast<ScalarType>(a.value.integer);
    const auto note = [&](const std::string& name) {
        const auto at = names_.find(name);
        if (at == names_.end() || at->second.kind != aten::Binding::Kind::tensor) return;
        const DType dtype = aten::Importer::type(at->second.value).dtype;
        if (dtype == DType::boolean) return;
        const ScalarType own = converted ? *converted : promoted_type(call, is_float(dtype));
        if (own == ScalarType::unknown || aten::dtype_of(own) == dtype) note_type(name, own);
    };
    for (const aten::Argument& result : call.results) {
        note(result.text);
        for (std::size_t k = 0; aten::is_open(result) && names_.contains(aten::item_of(result, k)); ++k)
            note(aten::item_of(result, k));
    }
}

Item Importer::type_of_tensor(const Item& tensor, const Place& place) const {
    static_cast<void>(type(tensor));  // what cannot be read has no type
    const ScalarType own = own_type(tensor.text);
    if (own == ScalarType::unknown)
        fail_at(place, "the model asks for the type of a tensor that is made of tensors of several types",
                "convert them to torch.float32 or torch.int64 in the model");
    return Item::of(number_of(own));
}

std::string Importer::unique(const std::string& wanted) {
    for (;;) {
        const int count = names_taken_[wanted]++;
        std::string name = count == 0 ? wanted : fmt::format("{}_{}", wanted, count);
        if (!names_.contains(name)) return name;
    }
}

Item Importer::constant(Tensor numbers) {
    const std::string name = unique("constant");
    bind(name, aten::Binding::of(builder_.constant(ConstExpr::dense(std::move(numbers)))));
    return Item::tensor(name);
}

Item Importer::constant_of_archive(std::size_t k, const Place& place) {
    const Pickled& all = constants_.root();
    if (k >= all.items.size()) fail_at(place, fmt::format("the archive has no constant {}", k), "save the model again");
    return Item::tensor(fmt::format("CONSTANTS.c{}", k));
}

// Whether what a gradient goes to is on the way to it.
bool Importer::requires_gradient(const Item& tensor) {
    const Function& main = module_.main();
    std::vector<bool> needed(main.values.size(), false);
    const aten::Binding& of = find(tensor.text);
    if (of.kind == aten::Binding::Kind::tensor) needed[of.value.index] = true;
    for (const aten::Binding& part : of.items) needed[part.value.index] = true;  // of complex numbers
    for (auto op = main.ops.rbegin(); op != main.ops.rend(); ++op) {
        const bool on_the_way =
            std::any_of(op->results.begin(), op->results.end(), [&](Value v) { return needed[v.index]; });
        if (!on_the_way || op->name == "stop_gradient" || !is_float(main.type(op->results.front()).dtype)) continue;
        for (const Value v : op->operands)
            if (v) needed[v.index] = true;
    }
    for (std::size_t k = 0; k < main.arguments.size(); ++k)
        if (needed[main.arguments[k].index] && main.argument_info[k].kind == ArgInfo::Kind::parameter &&
            main.argument_info[k].trainable)
            return true;
    return false;
}

// What code asks of a tensor, and is known.
std::optional<Item> Importer::property(const OperatorCall& call, const Place& place, bool gradients) {
    if (call.name == "prim.NumToTensor" || call.name == "tensor" || call.name == "as_tensor")
        return made_tensor(call, place, gradients);
    if (call.arguments.empty() || call.arguments[0].kind != Item::Kind::tensor) return std::nullopt;
    const Item& tensor = call.arguments[0];
    const Type& of = type(tensor);
    if (call.name == "size" || call.name == "sizes" || call.name == "prim.shape") {
        const Item* axis = call.at(1, "dim");
        if (axis == nullptr) {
            std::vector<Item> dims;
            for (const std::int64_t extent : of.dims) dims.push_back(Item::of(extent));
            return Item::sequence(Item::Kind::list, std::move(dims));
        }
        const std::optional<std::int64_t> at = normalize_axis(axis->integer, of.rank());
        if (!at)
            fail_at(place, fmt::format("there is no dimension {} of {}", axis->integer, to_string(of)),
                    "the code is damaged: save the model again");
        return Item::of(of.dims[static_cast<std::size_t>(*at)]);
    }
    if (call.name == "dim" || call.name == "prim.ndim") return Item::of(of.rank());
    if (call.name == "len") return Item::of(of.dims.empty() ? std::int64_t{0} : of.dims.front());
    if (call.name == "numel") return Item::of(of.elements());
    if (call.name == "prim.dtype") return type_of_tensor(tensor, place);
    if (call.name == "is_complex") return Item::of(is_complex(tensor));
    if (call.name == "is_floating_point") return Item::of(is_float(of.dtype) && !is_complex(tensor));
    if (call.name == "prim.is_cuda" || call.name == "prim.is_quantized" || call.name == "prim.is_sparse" ||
        call.name == "prim.is_nested")
        return Item::of(false);
    if (call.name == "is_contiguous") return Item::of(true);
    if (call.name == "__not__") {
        const Tensor* numbers = known(tensor);
        if (numbers != nullptr && numbers->size() == 1) return Item::of(numbers->at(0) == 0);
    }
    if (call.name == "prim.data") {
        OperatorCall detach = call;
        detach.name = "detach";
        return this->call(detach, place, true);
    }
    if (call.name == "requires_grad_" || call.name == "prim.grad")
        fail_at(place, "the model asks for gradients", "leave them to the program");
    return std::nullopt;
}

// torch.tensor(1., dtype=…), of numbers and lists of them; a number that is traced is a tensor of one.
Item Importer::made_tensor(const OperatorCall& call, const Place& place, bool gradients) {
    const Item* data = call.at(0, "data");
    if (data == nullptr) fail("a tensor is made of nothing", "save the model again");
    const Item* given = call.at(1, "dtype");
    const bool typed = given != nullptr && given->kind == Item::Kind::integer;
    if (data->kind == Item::Kind::tensor) {
        OperatorCall to;
        to.name = "to";
        to.arguments = {*data};
        if (typed) to.arguments.push_back(*given);
        return typed ? this->call(to, place, gradients) : *data;
    }
    Tensor numbers = tensor_of_numbers(*data);
    std::optional<aten::ScalarType> own;
    if (typed) {
        const std::optional<aten::ScalarType> scalar = scalar_type_of(given->integer);
        if (!scalar) fail(fmt::format("a tensor of the type {} is not supported", given->integer), "use torch.float32");
        Tensor converted(Type::tensor(dtype(*scalar, "a tensor of numbers"), numbers.type.dims));
        for (std::int64_t k = 0; k < numbers.size(); ++k) {
            if (!aten::holds(*scalar, numbers.at(k)))
                fail_at(place, fmt::format("{} is no number of {}", numbers.at(k), aten::name_of(*scalar)),
                        "compute with torch.int64 in the model");
            if (*scalar == ScalarType::boolean)
                converted.set(k, numbers.at(k) != 0 ? 1 : 0);
            else if (!numbers.floating() && !converted.floating())
                converted.i[static_cast<std::size_t>(k)] = numbers.i[static_cast<std::size_t>(k)];
            else
                converted.set(k, numbers.at(k));
        }
        numbers = std::move(converted);
        own = scalar;
    }
    Item out = constant(std::move(numbers));
    if (own) note_type(out.text, *own);
    if (own && aten::is_widened(*own)) narrow_.insert(find(out.text).value);
    return out;
}

Item Importer::call(const OperatorCall& call, const Place& place, bool gradients) {
    if (std::optional<Item> known_property = property(call, place, gradients)) return *known_property;
    if (call.name == "copy_" && call.arguments.size() >= 2 && call.arguments[0].kind == Item::Kind::tensor &&
        call.arguments[1].kind == Item::Kind::tensor) {
        const ScalarType to = own_type(call.arguments[0].text), from = own_type(call.arguments[1].text);
        if (aten::is_widened(to) && to != from && from != ScalarType::boolean)
            fail_at(place, fmt::format("copy_ from other numbers to those of {} is not supported", aten::name_of(to)),
                    "compute with torch.int64 in the model");
    }
    // To a type that is wider here: to that type, of which the operator knows the range.
    if (const bool as_other = call.name == "type_as" || call.name == "to";
        as_other && call.arguments.size() >= 2 && call.arguments[1].kind == Item::Kind::tensor) {
        const auto own = own_types_.find(call.arguments[1].text);
        if (own != own_types_.end() && own->second != ScalarType::unknown) {
            OperatorCall to = call;
            to.name = "to";
            to.arguments[1] = Item::of(number_of(own->second));
            return this->call(to, place, gradients);
        }
    }
    if (++calls_ > most_calls)
        fail_at(place, fmt::format("the loops of the model make more than {} calls", most_calls),
                "shorten the sequence or the loop");
    const bool has_schema = !aten::schemas_of(call.name).empty();
    if (!has_schema && aten::find_importer("aten." + call.name) == nullptr) refuse_operator(call.name, place);
    if (version_ < 4 && (call.name == "div" || call.name == "div_") && !is_float_division(call))
        fail_at(place, "the archive is of PyTorch before 1.6, where integers were divided otherwise",
                "load and save it with a later version of PyTorch");
    Conversions conversions;
    conversions.as_tensor = [&](const Item& number) { return constant(tensor_of_numbers(number)).text; };
    conversions.as_number = [&](const Item& tensor, bool whole) -> std::optional<Item> {
        const Tensor* numbers = known(tensor);
        if (numbers == nullptr || numbers->size() != 1 || (whole && numbers->floating())) return std::nullopt;
        return numbers->floating() ? Item::of(numbers->at(0)) : Item::of(numbers->i[0]);
    };
    // The forms are those whose result is their own: what it is written to is given once they are found.
    OperatorCall own = call;
    std::optional<Item> out;
    std::erase_if(own.named, [&](const std::pair<std::string, Item>& given) {
        const bool written = given.first == "out" && given.second.kind == Item::Kind::tensor;
        if (written) out = given.second;
        return written;
    });
    std::optional<MatchedCall> found = matched(own, conversions);
    if (!found) {
        std::vector<std::string> given;
        for (const Item& item : call.arguments) given.emplace_back(item.what());
        for (const auto& [key, item] : call.named) given.push_back(fmt::format("{}={}", key, item.what()));
        fail_at(place, fmt::format("no form of {} takes what it is given: {}", call.name, fmt::join(given, ", ")),
                "numbers that shapes depend on have to be known when compiling");
    }
    if (aten::find_importer("aten." + found->schema->name) == nullptr) refuse_operator(call.name, place);
    if (out) {
        aten::NamedArgument& given = found->arguments.emplace_back();
        given.name = "out";
        given.value.kind = aten::Argument::Kind::name;
        given.value.text = out->text;
    }
    return imported(call, std::move(*found), place, gradients);
}

// All that the code calls at once, so that nobody has to try again and again.
void Importer::refuse_operator(const std::string& name, const Place& place) const {
    std::set<std::string> others;
    for (const std::string& called : library_.names_called())
        if (called != name && called.find('.') == std::string::npos &&
            aten::find_importer("aten." + called) == nullptr && !is_plain_function(called))
            others.insert(called);
    fail_at(place,
            others.empty() ? fmt::format("the operator {} is not supported", name)
                           : fmt::format("the operator {} is not supported, nor are others that the code has: {}", name,
                                         fmt::join(others, ", ")),
            "write it with operators that are, or export the model with torch.export.save or torch.onnx.export");
}

// Whether one of the first two is a number with fractions.
bool Importer::is_float_division(const OperatorCall& call) const {
    return std::any_of(call.arguments.begin(), call.arguments.end(), [&](const Item& item) {
        return item.kind == Item::Kind::number || (item.kind == Item::Kind::tensor && is_float(type(item).dtype));
    });
}

Item Importer::imported(const OperatorCall& call, MatchedCall found, const Place& place, bool gradients) {
    aten::Call made;
    const std::string overload =
        found.schema->name.substr(std::min(found.schema->name.find('.'), found.schema->name.size()));
    made.target = fmt::format("aten.{}{}", call.name, overload.empty() ? ".default" : overload);
    made.name = unique(call.name);
    made.arguments = std::move(found.arguments);
    made.scope = place.module == nullptr ? "" : place.module->path;
    made.module_class = place.module == nullptr ? "" : last_part(class_name(place.module->type));
    made.line = fmt::format("{}:{}", place.file, place.line);
    const std::vector<std::string>& results = found.schema->results;
    for (std::size_t k = 0; k < results.size(); ++k) {
        aten::Argument& result = made.results.emplace_back();
        const bool list = results[k].ends_with("[]");
        result.kind = list ? aten::Argument::Kind::list : aten::Argument::Kind::name;
        result.text = results.size() == 1 ? made.name : fmt::format("{}.{}", made.name, k);
    }
    const aten::Argument* written = aten::written_by(made);
    if (written != nullptr && !gradients)
        fail_at(place, fmt::format("{} writes in place where no gradients are kept", call.name),
                "write x = x + y in the model");
    const bool narrow = any_operand(made, narrow_);
    import_call(made);
    note_numbers(made);
    note_types(made);
    const bool to_narrow = std::any_of(made.arguments.begin(), made.arguments.end(), [](const aten::NamedArgument& a) {
        return a.value.kind == aten::Argument::Kind::scalar_type &&
               aten::is_widened(static_cast<ScalarType>(a.value.integer));
    });
    if (const auto at = names_.find(made.results.front().text);
        (narrow || to_narrow) && at != names_.end() && narrow_.contains(at->second.value) &&
        aten::find_importer(made.target)->numbers == aten::computed)
        fail_at(place, fmt::format("{} of integers of 8 or 16 bits is not supported", call.name),
                "compute with torch.int64 in the model");
    const auto stopped = [&](const std::string& name) {
        aten::Binding& binding = names_.at(name);
        if (!gradients && binding.kind == aten::Binding::Kind::tensor &&
            is_float(aten::Importer::type(binding.value).dtype))
            binding = aten::Binding::of(builder_.op("stop_gradient", {binding.value}));
        if (!gradients && binding.kind == aten::Binding::Kind::complex)
            for (aten::Binding& part : binding.items)
                part = aten::Binding::of(builder_.op("stop_gradient", {part.value}));
        return item_of(name);
    };
    // What is written to is known by its own name from here on.
    if (written != nullptr && written->kind == aten::Argument::Kind::name) return Item::tensor(written->text);
    if (aten::is_open(made.results.front())) {
        std::vector<Item> items;
        for (std::size_t k = 0; names_.contains(aten::item_of(made.results.front(), k)); ++k)
            items.push_back(stopped(aten::item_of(made.results.front(), k)));
        return Item::sequence(Item::Kind::list, std::move(items));
    }
    std::vector<Item> items;
    for (const aten::Argument& result : made.results)
        items.push_back(names_.contains(result.text) ? stopped(result.text) : Item{});
    return items.size() == 1 ? items.front() : Item::sequence(Item::Kind::tuple, std::move(items));
}

Item Importer::item_of(const std::string& name) const {
    const aten::Binding& binding = names_.at(name);
    switch (binding.kind) {
        case aten::Binding::Kind::tensor:
        case aten::Binding::Kind::complex: return Item::tensor(name);
        case aten::Binding::Kind::integer: return Item::of(binding.integer);
        case aten::Binding::Kind::number: return Item::of(binding.number);
        case aten::Binding::Kind::boolean: return Item::of(binding.integer != 0);
        default: return {};
    }
}

}  // namespace thunderc::torchscript

namespace thunderc {

bool is_torchscript(const ZipArchive& archive) {
    const std::optional<std::string> constants = archive.only_with_end("constants.pkl");
    if (!constants) return false;
    const std::string code = constants->substr(0, constants->rfind("constants.pkl")) + "code/";
    const auto at = archive.entries().lower_bound(code);
    return at != archive.entries().end() && at->first.starts_with(code);
}

void write_torchscript_graph(const ZipArchive& archive, const std::filesystem::path& out) {
    constexpr std::uint64_t small = 1024;  // bytes: what may be no weight
    archive.write_without(
        [&](const std::string& name) {
            const bool numbers =
                name.find("/data/") != std::string::npos || name.find("/constants/") != std::string::npos;
            return numbers && archive.find(name)->size > small;
        },
        out);
}

Module import_torchscript(std::shared_ptr<const ZipArchive> archive, const CompileOptions& options, Report& report) {
    torchscript::Importer importer(archive, options, report);
    Module out = importer.run();
    for (const auto& [a, b] : importer.told_by_order()) {
        try {
            Report unheard;
            static_cast<void>(torchscript::Importer(archive, options, unheard, std::pair(a, b)).run());
        } catch (const UserError&) {
            continue;  // what the model computes with them tells them apart
        }
        report.warning(
            "trace", importer.told_of(a) + ", " + importer.told_of(b),
            "are told apart by their order in the trace alone, and the model takes them the other way round, "
            "too: torch.jit.trace keeps example_kwarg_inputs in the dictionary's order, without names. Give "
            "them in forward()'s order, or say it by --input");
    }
    return out;
}

}  // namespace thunderc
