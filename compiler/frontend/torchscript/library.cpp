// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/library.h"

#include <fmt/format.h>

#include <algorithm>

#include "compiler/support/error.h"

namespace thunderc::torchscript {
namespace {

constexpr std::uint64_t largest_code = std::uint64_t{64} << 20U;  // bytes of a file

void add_calls(const Expr& e, std::set<std::string>& out) {
    if (e.kind == Expr::Kind::call && e.items.front().kind == Expr::Kind::attribute &&
        e.items.front().items.front().kind == Expr::Kind::name && e.items.front().items.front().text == "torch")
        out.insert(e.items.front().text);
    for (const Expr& item : e.items) add_calls(item, out);
}

void add_calls(const std::vector<Statement>& body, std::set<std::string>& out) {
    for (const Statement& statement : body) {
        add_calls(statement.value, out);
        add_calls(statement.body, out);
        add_calls(statement.otherwise, out);
    }
}

template <typename Code>
const Code* named(const std::vector<Code>& all, const std::string& name) {
    const auto at = std::find_if(all.begin(), all.end(), [&](const Code& code) { return code.name == name; });
    return at == all.end() ? nullptr : &*at;
}

}  // namespace

std::string last_part(const std::string& dotted) {
    return dotted.substr(dotted.rfind('.') + 1);  // npos + 1 is 0
}

std::string Library::file_of(const std::string& name) {
    std::string path = name.substr(0, std::min(name.rfind('.'), name.size()));
    std::replace(path.begin(), path.end(), '.', '/');
    return path + ".py";
}

std::set<std::string> Library::names_called() const {
    std::set<std::string> out;
    for (const auto& [path, file] : files_) {
        for (const ClassCode& code : file->classes)
            for (const FunctionCode& method : code.methods) add_calls(method.body, out);
        for (const FunctionCode& function : file->functions) add_calls(function.body, out);
    }
    return out;
}

const FileCode* Library::file(const std::string& name) {
    const std::string path = file_of(name), entry = root_ + "code/" + path;
    const auto at = files_.find(path);
    if (at != files_.end()) return at->second.get();
    const ZipArchive::Entry* found = archive_.find(entry);
    if (found == nullptr) return nullptr;
    if (found->size > largest_code)
        fail(fmt::format("the code {} of {} is larger than any model's", entry, archive_.path().string()),
             "save the model again with torch.jit.save");
    auto parsed = std::make_unique<const FileCode>(parse_code(path, archive_.text(entry)));
    return files_.emplace(path, std::move(parsed)).first->second.get();
}

const ClassCode* Library::find_class(const std::string& name) {
    const FileCode* in = file(name);
    return in == nullptr ? nullptr : named(in->classes, last_part(name));
}

const FunctionCode* Library::find_function(const std::string& name) {
    const FileCode* in = file(name);
    return in == nullptr ? nullptr : named(in->functions, last_part(name));
}

std::string class_name(const std::string& type) {
    constexpr std::string_view root = "__torch__.", mangled = "___torch_mangle_";
    std::string out;
    for (std::size_t at = type.starts_with(root) ? root.size() : 0; at <= type.size();) {
        const std::size_t end = std::min(type.find('.', at), type.size());
        const std::string part = type.substr(at, end - at);
        if (!part.starts_with(mangled)) out += (out.empty() ? "" : ".") + part;
        at = end + 1;
    }
    return out;
}

}  // namespace thunderc::torchscript
