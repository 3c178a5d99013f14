// SPDX-License-Identifier: Apache-2.0
#include "codegen/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "compiler/ir/op_def.h"
#include "compiler/ir/structure.h"
#include "compiler/planned/step_form.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

using Id = Dimensions::Id;

void add_term(SizeFormula& sum, const SizeTerm& term) {
    for (SizeTerm& known : sum) {
        if (known.names != term.names) continue;
        known.factor += term.factor;
        return;
    }
    sum.push_back(term);
}

std::string text(const SizeTerm& term) {
    std::string out = term.factor == 1 && !term.names.empty() ? "" : std::to_string(term.factor);
    for (const std::string& name : term.names) out += (out.empty() ? "" : " * ") + name;
    return out;
}

std::string batch_meaning(const Module& module, bool sequences) {
    return fmt::format("{} in a {}", sequences ? "sequences" : "rows", is_step(module) ? "micro-batch" : "batch");
}

}  // namespace

bool is_symbolic(const SizeFormula& f) {
    return std::any_of(f.begin(), f.end(), [](const SizeTerm& t) { return !t.names.empty(); });
}

SizeFormula size_product(const SizeFormula& a, const SizeFormula& b) {
    SizeFormula out;
    for (const SizeTerm& x : a)
        for (const SizeTerm& y : b) {
            SizeTerm term{x.factor * y.factor, x.names};
            term.names.insert(term.names.end(), y.names.begin(), y.names.end());
            add_term(out, term);
        }
    return out;
}

std::string size_text(SizeFormula f) {
    if (f.size() == 1) return text(f[0]);
    std::string behind;
    while (std::all_of(f.begin(), f.end(),
                       [&](const SizeTerm& t) { return !t.names.empty() && t.names.back() == f[0].names.back(); })) {
        behind = " * " + f[0].names.back() + behind;
        for (SizeTerm& t : f) t.names.pop_back();
    }
    std::string sum;
    for (const SizeTerm& t : f) sum += (sum.empty() ? "" : " + ") + text(t);
    return behind.empty() ? sum : "(" + sum + ")" + behind;
}

Symbols::Symbols(const Module& module) : dimensions_(module) {
    name_inputs(module);
    for (const Function& f : module.functions)
        for (const Op& op : f.ops)
            if (is_loop(op) && value("L") == 0)
                symbols_.push_back({"L", loop_count(op), "layers"});  // no tensor's dimension
    // The other sizes are named by the fields of the runtime API's calls.
    struct Field {
        const char *field, *name, *meaning;
    };
    const bool trains = is_step(module);
    const Field fields[] = {{"entries", "V", "entries of the vocabulary"},
                            {"width", "C", "width of the residual stream"},
                            {"B", "B", trains ? "sequences in a micro-batch" : "sequences in a batch"},
                            {"T", "T", "positions in a sequence"},
                            {"S", "S", "positions that are attended to"},
                            {"NH", "NH", "query heads"},
                            {"KVH", "NH", "query heads"},  // where each query head has keys of its own
                            {"KVH", "KVH", "key and value heads"},
                            {"HS", "HS", "size of a head"},
                            {"classes", "V", "entries of the vocabulary"}};
    for (const Field& f : fields) {
        if (std::string(f.field) == "classes" && value("V") == 0) continue;
        for (const Dimensions::Named& known : dimensions_.named())
            if (known.name == f.field) name(known.id, f.name, f.meaning);
    }
    if (value("C") == 0) return;
    for (const Dimensions::Named& known : dimensions_.named()) {
        if (known.name != "in" || is_symbolic(formula(known.id))) continue;
        const bool rank = module.adapters && dimensions_.extent(known.id) == module.adapters->rank;
        name(known.id, rank ? "R" : "H", rank ? "rank of the adapters" : "width inside the MLP");
    }
}

void Symbols::name_inputs(const Module& module) {
    const Function& main = module.main();
    std::set<Id> of_parameters;
    const auto add_sizes = [&](const Function& f, Value v) {
        for (std::size_t d = 0; d < f.type(v).dims.size(); ++d)
            of_parameters.insert(dimensions_.root(dimensions_.of(f, v, d)));
    };
    for (std::size_t k = 0; k < main.arguments.size() && k < main.argument_info.size(); ++k)
        if (main.argument_info[k].kind == ArgInfo::Kind::parameter) add_sizes(main, main.arguments[k]);
    // A rank's arguments are shards; parameters are what is gathered of them.
    for (const Function& f : module.functions)
        for (std::uint32_t v = 0; v < f.values.size(); ++v)
            if (f.values[v].placement.arena == Placement::Arena::gathered) add_sizes(f, Value{v});
    const auto& named = dimensions_.named();
    bool sequences = std::any_of(named.begin(), named.end(), [](const auto& known) { return known.name == "T"; });
    for (std::size_t k = 0; k < main.arguments.size() && k < main.argument_info.size(); ++k) {
        const Type& type = main.type(main.arguments[k]);
        const ArgInfo& info = main.argument_info[k];
        sequences = sequences ||
                    (info.kind == ArgInfo::Kind::input && info.batched && type.rank() >= 2 && is_integer(type.dtype));
    }
    for (std::size_t k = 0; k < main.arguments.size() && k < main.argument_info.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        const Type& type = main.type(main.arguments[k]);
        if (info.kind != ArgInfo::Kind::input || !info.batched || type.rank() == 0) continue;
        // A model that adds a parameter to every row is one for that many rows: the size is the parameter's.
        const Id batch = dimensions_.root(dimensions_.of(main, main.arguments[k], 0));
        if (!of_parameters.contains(batch)) name(batch, "B", batch_meaning(module, sequences));
        if (type.rank() >= 2 && is_integer(type.dtype))
            name(dimensions_.of(main, main.arguments[k], 1), "T", "positions in a sequence");
    }
}

// Where the name stands for another number already, or the dimension has a name, nothing changes.
bool Symbols::name(Id id, const std::string& name, const std::string& meaning) {
    const std::int64_t extent = dimensions_.extent(id);
    const std::int64_t known = value(name);
    if (known != 0 && known != extent) return false;
    if (!names_.emplace(dimensions_.root(id), name).second) return false;
    if (known == 0) symbols_.push_back({name, extent, meaning});
    formulas_.clear();
    return true;
}

std::int64_t Symbols::value(const std::string& name) const {
    for (const Symbol& s : symbols_)
        if (s.name == name) return s.value;
    return 0;
}

std::int64_t Symbols::value(const SizeFormula& formula) const {
    std::int64_t sum = 0;
    for (const SizeTerm& term : formula) {
        std::int64_t product = term.factor;
        for (const std::string& name : term.names) product *= value(name);
        sum += product;
    }
    return sum;
}

SizeFormula Symbols::dimension(const Function& function, Value v, std::size_t axis) const {
    return formula(dimensions_.of(function, v, axis));
}

SizeFormula Symbols::formula(Id id) const {
    std::map<Id, std::size_t> above;
    return formula(id, above).first;
}

// Of what is made of itself, some form on the way is a number. Only what does not depend on from where it was asked is
// kept: `blocked` is the least depth at which such a loop closed, and what closes above `root` is another answer there.
std::pair<SizeFormula, std::size_t> Symbols::formula(Id id, std::map<Id, std::size_t>& above) const {
    constexpr std::size_t most_terms = 4;  // of a sum that can be read
    const Id root = dimensions_.root(id);
    std::size_t blocked = open;
    if (auto at = formulas_.find(root); at != formulas_.end()) return {at->second, blocked};
    SizeFormula out{{dimensions_.extent(root), {}}};
    const std::size_t depth = above.size();
    if (auto at = names_.find(root); at != names_.end()) {
        out = {{1, {at->second}}};
    } else if (const auto [at, fresh] = above.try_emplace(root, depth); !fresh) {
        return {out, at->second};
    } else {
        for (const Dimensions::Parts& parts : dimensions_.made_of(root)) {
            SizeFormula whole = parts.product ? SizeFormula{{1, {}}} : SizeFormula{};
            bool known = true;
            for (Id part : parts.ids) {
                const auto [one, part_blocked] = formula(part, above);
                blocked = std::min(blocked, part_blocked);
                known = known && is_symbolic(one) && whole.size() <= most_terms;
                if (!known) break;
                if (parts.product) {
                    whole = size_product(whole, one);
                } else {
                    for (const SizeTerm& term : one) add_term(whole, term);
                }
            }
            if (!known || whole.size() > most_terms) continue;
            out = std::move(whole);
            break;
        }
        above.erase(root);
    }
    if (blocked >= depth) {
        formulas_.emplace(root, out);
        blocked = open;
    }
    return {std::move(out), blocked};
}

// The text becomes a program's argument, so it has to be that number.
std::string Symbols::argument(const SizeFormula& formula, std::int64_t value) const {
    check(this->value(formula) == value, "the size " + size_text(formula) + " is not " + std::to_string(value));
    return size_text(formula);
}

std::string Symbols::shape(const Function& function, Value v) const {
    const std::size_t rank = function.type(v).dims.size();
    if (rank == 0) return "scalar";
    std::string out;
    for (std::size_t d = 0; d < rank; ++d) {
        std::string one = size_text(formula(dimensions_.of(function, v, d)));
        std::erase(one, ' ');
        out += (d == 0 ? "(" : ",") + one;
    }
    return out + ")";
}

std::string Symbols::call_size(const Function& function, const Op& op, const std::string& field,
                               std::int64_t value) const {
    const Id id = dimensions_.of_call(function, op, field);
    if (id == Dimensions::none || dimensions_.extent(id) != value) return std::to_string(value);
    return argument(formula(id), value);
}

std::string Symbols::elements(const Function& function, Value v, std::int64_t count) const {
    const Dims& dims = function.type(v).dims;
    if (dims.empty() || count == 0) return std::to_string(count);
    // Whole rows: the product of the last dimensions.
    SizeFormula rows{{1, {}}};
    std::int64_t elements = 1;
    for (std::size_t d = dims.size(); d-- > 0;) {
        elements *= dims[d];
        rows = size_product(formula(dimensions_.of(function, v, d)), rows);
        if (elements == count && is_symbolic(rows)) return argument(rows, count);
    }
    // What stands before a part of a row.
    for (const Dimensions::Parts& parts : dimensions_.made_of(dimensions_.of(function, v, dims.size() - 1))) {
        if (parts.product) continue;
        SizeFormula before;
        std::int64_t begin = 0;
        for (Id part : parts.ids) {
            if (begin == count && is_symbolic(before)) return argument(before, count);
            begin += dimensions_.extent(part);
            for (const SizeTerm& term : formula(part)) add_term(before, term);
        }
    }
    return std::to_string(count);
}

}  // namespace thunderc
