// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/modules.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "compiler/support/error.h"

namespace thunderc::torchscript {
namespace {

constexpr std::size_t deepest_module = 100;    // modules within modules, lists within lists
constexpr std::size_t most_items = 1U << 22U;  // of lists that are attributes, each time that one is met
constexpr std::size_t longest_key = 4096;      // of attributes

class ModuleReader {
  public:
    ModuleReader(const ZipArchive& archive, const Pickle& pickle, Library& library, Modules& out)
        : archive_(archive), pickle_(pickle), library_(library), out_(out) {}

    void run() {
        const Pickled& root = pickle_.root();
        if (root.kind != Pickled::Kind::object)
            fail(fmt::format("{} holds no module", archive_.path().string()), "save a module with torch.jit.save");
        module(root, "", 0);
    }

  private:
    [[noreturn]] void too_deep(const std::string& path) const {
        fail(fmt::format("modules of {} stand within one another without an end, at {}", archive_.path().string(),
                         path.substr(0, 100)),
             "save the model again");
    }

    static std::string under(const std::string& path, const std::string& name) {
        return path.empty() ? name : path + "." + name;
    }

    // A module that stands in two places is one, under the name that it has first.
    const ModuleObject* module(const Pickled& from, const std::string& path, std::size_t depth) {
        if (depth > deepest_module) too_deep(path);
        if (const auto known = known_.find(&from); known != known_.end()) {
            if (known->second == nullptr) too_deep(path);
            name_again(*known->second, path);
            return known->second;
        }
        known_[&from] = nullptr;
        const ClassCode* code = library_.find_class(from.text);
        if (code == nullptr)
            fail(fmt::format("the code of the class {} is not in {}", from.text, archive_.path().string()),
                 "save the model again with torch.jit.save");
        ModuleObject& made = *out_.all.emplace_back(std::make_unique<ModuleObject>());
        made.path = path;
        made.type = from.text;
        made.code = code;
        const std::vector<Pickled::Index>& entries = pickle_.entries(from);
        // Its own tensors come before those of the modules within it, as named_parameters() has them.
        for (std::size_t k = 0; k + 1 < entries.size(); k += 2) {
            const Pickled& key = pickle_.at(entries[k]);
            if (key.text.size() > longest_key)
                fail(fmt::format("a key in {} is longer than any model's", archive_.path().string()),
                     "save the model again");
            made.attributes.emplace_back(key.text, Item{});
            if (pickle_.at(entries[k + 1]).kind == Pickled::Kind::tensor)
                made.attributes.back().second = tensor(pickle_.at(entries[k + 1]), *code, path, key.text);
        }
        for (std::size_t k = 0; k + 1 < entries.size(); k += 2) {
            const Pickled& value = pickle_.at(entries[k + 1]);
            if (value.kind == Pickled::Kind::tensor) continue;
            const std::string name = made.attributes[k / 2].first;
            const Item item = value_of(value, under(path, name), depth + 1);
            made.attributes[k / 2].second = item;
        }
        for (const Parameter& constant : code->attributes)  // what the class itself says: "eps : Final[float]"
            if (constant.optional) made.attributes.emplace_back(constant.name, literal(constant.otherwise));
        known_[&from] = &made;
        return &made;
    }

    // The names of a module's tensors under another path, which checkpoints have as well.
    void name_again(const ModuleObject& known, const std::string& path) {
        if (known.path == path) return;
        const std::string before = known.path.empty() ? "" : known.path + ".";
        const std::size_t count = out_.tensors.size();
        for (std::size_t k = 0; k < count; ++k) {
            if (!out_.tensors[k].name.starts_with(before) || out_.tensors[k].kind == aten::NamedTensor::Kind::constant)
                continue;
            aten::NamedTensor again = out_.tensors[k];
            again.name = path + "." + again.name.substr(before.size());
            again.binding = "self." + again.name;
            if (out_.tensors.size() > most_items) too_deep(path);
            out_.tensors.push_back(std::move(again));
        }
    }

    Item tensor(const Pickled& from, const ClassCode& code, const std::string& path, const std::string& name) {
        const auto in = [&](const std::vector<std::string>& names) {
            return std::find(names.begin(), names.end(), name) != names.end();
        };
        return add(from,
                   in(code.parameters) ? aten::NamedTensor::Kind::parameter
                   : in(code.buffers)  ? aten::NamedTensor::Kind::buffer
                                       : aten::NamedTensor::Kind::constant,
                   under(path, name));
    }

    Item add(const Pickled& from, aten::NamedTensor::Kind kind, const std::string& name) {
        aten::NamedTensor made;
        made.kind = kind;
        made.name = name;
        made.binding = "self." + name;
        made.stored = pickle_.tensor(from);
        made.stored.name = name;
        made.requires_grad = from.requires_grad;
        out_.tensors.push_back(std::move(made));
        return Item::tensor("self." + name);
    }

    Item value_of(const Pickled& from, const std::string& path, std::size_t depth) {
        if (depth > deepest_module) too_deep(path);
        if (++items_ > most_items)
            fail(fmt::format("the attribute {} is larger than any model's", path.substr(0, 100)),
                 "save the model again");
        switch (from.kind) {
            case Pickled::Kind::boolean: return Item::of(from.integer != 0);
            case Pickled::Kind::integer: return Item::of(from.integer);
            case Pickled::Kind::number: return Item::of(from.number);
            case Pickled::Kind::text: return Item::of_text(from.text);
            case Pickled::Kind::tensor: return add(from, aten::NamedTensor::Kind::constant, path);
            case Pickled::Kind::tuple: return sequence(from, Item::Kind::tuple, path, depth);
            case Pickled::Kind::list: return sequence(from, Item::Kind::list, path, depth);
            case Pickled::Kind::dictionary: return sequence(from, Item::Kind::dictionary, path, depth);
            case Pickled::Kind::object: {
                Item out;
                out.kind = Item::Kind::module;
                out.module = module(from, path, depth);
                return out;
            }
            case Pickled::Kind::none: return {};
            default:
                fail(fmt::format("the attribute {} is no number, text, tensor or module, nor a list of these", path),
                     "save the model again with torch.jit.save");
        }
    }

    Item sequence(const Pickled& from, Item::Kind kind, const std::string& path, std::size_t depth) {
        std::vector<Item> items;
        for (std::size_t k = 0; k < from.items.size(); ++k)
            items.push_back(value_of(pickle_.at(from.items[k]), fmt::format("{}.{}", path, k), depth + 1));
        Item out = Item::sequence(kind, std::move(items));
        if (kind == Item::Kind::list) out.text = path;
        return out;
    }

    static Item literal(const Expr& e) {
        switch (e.kind) {
            case Expr::Kind::boolean: return Item::of(e.integer != 0);
            case Expr::Kind::integer: return Item::of(e.integer);
            case Expr::Kind::number: return Item::of(e.number);
            case Expr::Kind::text: return Item::of_text(e.text);
            case Expr::Kind::unary: {
                const Item of = e.items.empty() ? Item{} : literal(e.items.front());
                const bool least = of.kind == Item::Kind::integer && of.integer == INT64_MIN;  // its sign was read
                if (least) return of;
                return of.kind == Item::Kind::integer ? Item::of(-of.integer) : Item::of(-of.number);
            }
            case Expr::Kind::list:
            case Expr::Kind::tuple: {
                std::vector<Item> items;
                for (const Expr& item : e.items) items.push_back(literal(item));
                return Item::sequence(e.kind == Expr::Kind::list ? Item::Kind::list : Item::Kind::tuple,
                                      std::move(items));
            }
            default: return {};
        }
    }

    const ZipArchive& archive_;
    const Pickle& pickle_;
    Library& library_;
    Modules& out_;
    std::map<const Pickled*, const ModuleObject*> known_;  // null: being read
    std::size_t items_ = 0;
};

}  // namespace

Modules modules_of(const ZipArchive& archive, const Pickle& pickle, Library& library) {
    Modules out;
    ModuleReader(archive, pickle, library, out).run();
    return out;
}

}  // namespace thunderc::torchscript
