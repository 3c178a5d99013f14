#include "codegen/symbols.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "compiler/ops/op.h"

namespace thunderc {

Symbols::Symbols(const Module& module) {
    const Function& main = module.main();
    const bool trains = module.find("update") != nullptr;
    for (std::size_t k = 0; k < main.arguments.size(); ++k) {
        const ArgInfo& info = main.argument_info[k];
        const Type& type = main.type(main.arguments[k]);
        if (info.kind != ArgInfo::Kind::input || !info.batched || type.rank() == 0) continue;
        add("B", type.dims[0], trains ? "sequences in a micro-batch" : "sequences in a batch");
        if (type.rank() >= 2 && is_integer(type.dtype)) add("T", type.dims[1], "positions in a sequence");
    }
    for (const Function& f : module.functions)
        for (const Op& op : f.ops)
            if (op.name == "repeat") add("L", op.attributes.integer("n"), "layers");
    // The other sizes are named by the fields of the menu's calls.
    auto visit = [&module](const auto& take) {
        for (const Function& f : module.functions)
            for (const Op& op : f.ops)
                if (const OpDef& def = op_def(op.name); def.call)
                    for (const CallField& field : def.call(op, f).fields)
                        if (field.kind == CallField::Kind::literal && !field.literal.empty() &&
                            std::isdigit(static_cast<unsigned char>(field.literal[0])) != 0)
                            take(field.name, std::strtoll(field.literal.c_str(), nullptr, 10));
    };
    visit([this](const std::string& field, std::int64_t size) {
        if (field == "entries") add("V", size, "entries of the vocabulary");
        if (field == "width") add("C", size, "width of the residual stream");
        if (field == "NH") add("NH", size, "query heads");
        if (field == "KVH" && size != value("NH")) add("KVH", size, "key and value heads");
        if (field == "HS") add("HS", size, "size of a head");
    });
    visit([this](const std::string& field, std::int64_t size) {
        if (field == "in" && value("C") > 0 && size != value("C") && size != value("NH") * value("HS"))
            add("H", size, "width inside the MLP");
    });
}

void Symbols::add(std::string name, std::int64_t value, std::string meaning) {
    for (const Symbol& s : symbols_)
        if (s.name == name) return;
    symbols_.push_back({std::move(name), value, std::move(meaning)});
}

std::int64_t Symbols::value(const std::string& name) const {
    for (const Symbol& s : symbols_)
        if (s.name == name) return s.value;
    return 0;
}

std::string Symbols::unique_name(std::int64_t value) const {
    std::string found;
    for (const Symbol& s : symbols_) {
        if (s.value != value || s.name == "L") continue;  // no tensor has a dimension of layers
        if (!found.empty()) return "";
        found = s.name;
    }
    return found;
}

std::string Symbols::size(std::int64_t size, const std::string& wanted) const {
    if (!wanted.empty() && value(wanted) == size) return wanted;
    if (size <= 1) return std::to_string(size);
    if (wanted == "in" || wanted == "out" || wanted == "stride") {
        for (const char* name : {"C", "H"})
            if (value(name) == size) return name;
        const std::int64_t keys = value("KVH") > 0 ? value("KVH") : value("NH");
        if (keys > 0 && size == (value("NH") + 2 * keys) * value("HS"))
            return value("KVH") > 0 ? "(NH + 2 * KVH) * HS" : "3 * NH * HS";
        if (value("H") > 0 && size == 2 * value("H")) return "2 * H";
        if (value("V") == size && wanted != "stride") return "V";
        return std::to_string(size);
    }
    const std::int64_t B = value("B"), T = value("T");
    if (wanted == "rows") {
        if (B > 0 && T > 0 && size == B * T) return "B * T";
        if (B > 0 && size == B) return "B";
    }
    if (std::string name = unique_name(size); !name.empty() && size > 3) return name;
    if (B > 0 && T > 0 && size == B * T && size > 16) return "B * T";
    for (std::int64_t k = 2; k <= 4; ++k)
        for (const char* name : {"C", "H"})
            if (value(name) > 8 && size == k * value(name)) return fmt::format("{} * {}", k, name);
    return std::to_string(size);
}

std::string Symbols::shape(const Dims& dims) const {
    if (dims.empty()) return "scalar";
    std::string out;
    const std::int64_t B = value("B"), T = value("T");
    for (std::size_t d = 0; d < dims.size(); ++d) {
        std::string text;
        // Activations begin with the batch and the positions, whatever else has the same size.
        if (d == 0 && dims.size() > 1 && dims[0] == B)
            text = "B";
        else if (d == 1 && dims[1] == T && ((dims.size() == 2 && dims[0] == B) || (dims.size() == 3 && dims[0] == 1)))
            text = "T";
        else if (d == 1 && dims.size() > 2 && dims[0] == B && dims[1] == T)
            text = "T";
        else if (dims.size() == 4 && d == 2 && dims[2] == value("NH"))
            text = "NH";
        else if (dims.size() == 4 && d == 2 && dims[2] == value("KVH"))
            text = "KVH";
        else if (d + 1 == dims.size() && dims[d] == value("C"))
            text = "C";
        else
            text = size(dims[d]);
        std::erase(text, ' ');
        out += (d == 0 ? "(" : ",") + text;
    }
    return out + ")";
}

}  // namespace thunderc
