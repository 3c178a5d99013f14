// SPDX-License-Identifier: Apache-2.0
#include "packing/chat_template.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunderc {

namespace {

using thunder::cat;
using thunder::fail;
using thunder::Json;

// As the models' own Jinja templates write conversations.
ChatTemplate chatml() {
    ChatTemplate t;
    t.system = {"<|im_start|>system\n", "{content}", "<|im_end|>\n", true};
    t.user = {"<|im_start|>user\n", "{content}", "<|im_end|>\n", true};
    t.assistant = {"<|im_start|>assistant\n", "{content}<|im_end|>", "\n", true};
    return t;
}

ChatTemplate llama2() {
    ChatTemplate t;
    t.user = {"<s>[INST] ", "{content}", " [/INST]", true};
    t.user_with_system = "<<SYS>>\n{system}\n<</SYS>>\n\n{content}";
    t.assistant = {"", " {content} </s>", "", true};
    t.trim = true;
    return t;
}

ChatTemplate llama3() {
    ChatTemplate t;
    t.begin = "<|begin_of_text|>";
    const auto head = [](std::string_view role) { return cat("<|start_header_id|>", role, "<|end_header_id|>\n\n"); };
    t.system = {head("system"), "{content}", "<|eot_id|>", true};
    t.user = {head("user"), "{content}", "<|eot_id|>", true};
    t.assistant = {head("assistant"), "{content}<|eot_id|>", "", true};
    t.trim = true;
    return t;
}

ChatTemplate gemma() {
    ChatTemplate t;
    t.begin = "<bos>";
    t.user = {"<start_of_turn>user\n", "{content}", "<end_of_turn>\n", true};
    t.assistant = {"<start_of_turn>model\n", "{content}<end_of_turn>", "\n", true};
    t.trim = true;
    return t;
}

constexpr std::array<std::pair<std::string_view, ChatTemplate (*)()>, 4> templates = {
    {{"chatml", chatml}, {"llama2", llama2}, {"llama3", llama3}, {"gemma", gemma}}};

void replace_once(std::string& text, std::string_view what, std::string_view by) {
    if (const std::size_t at = text.find(what); at != std::string::npos) text.replace(at, what.size(), by);
}

void replace_last(std::string& text, std::string_view what, std::string_view by) {
    if (const std::size_t at = text.rfind(what); at != std::string::npos) text.replace(at, what.size(), by);
}

std::string trimmed(const std::string& text) {
    constexpr std::string_view spaces = " \t\r\n\v\f";
    const std::size_t begin = text.find_first_not_of(spaces);
    return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(spaces) + 1 - begin);
}

// The names that roles have in collections of conversations.
std::string role_of(const std::string& name) {
    if (name == "human") return "user";
    if (name == "gpt" || name == "model" || name == "bot" || name == "chatgpt") return "assistant";
    return name;
}

const std::string* text_member(const Json& of, std::string_view first, std::string_view second) {
    for (const std::string_view name : {first, second})
        if (const Json* found = of.find(name); found != nullptr && found->is(Json::Kind::string)) return &found->string;
    return nullptr;
}

ChatTemplate parse_template(const std::string& path) {
    const thunder::MappedFile file(path);
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    const std::string help = "docs/data.md says what a file of a template holds";
    const Json json = thunder::parse_json(text, path, help);
    if (const Json* jinja = json.find("chat_template"); jinja != nullptr)
        fail(cat(path, " has a template in Jinja, which is a program and is not run here"),
             cat("name the format: --template ", thunder::list_text(chat_template_names()),
                 "; or write it down as docs/data.md says"));
    ChatTemplate t;
    t.name = path;
    const auto put_text = [&](const Json& value, const std::string& name, std::string& to) {
        if (!value.is(Json::Kind::string)) fail(cat(path, ": ", thunder::json_quote(name), " is no text"), help);
        to = value.string;
    };
    for (const auto& [name, value] : json.object) {
        TurnTemplate* const turn = name == "system"      ? &t.system
                                   : name == "user"      ? &t.user
                                   : name == "assistant" ? &t.assistant
                                                         : nullptr;
        if (turn != nullptr) {
            if (value.array.size() != 3)
                fail(cat(path, ": ", thunder::json_quote(name), " is no list of three texts"), help);
            put_text(value.array[0], name, turn->before);
            put_text(value.array[1], name, turn->content);
            put_text(value.array[2], name, turn->behind);
            turn->given = true;
            if (turn->content.find("{content}") == std::string::npos)
                fail(cat(path, ": the middle of ", thunder::json_quote(name), " has no {content}"), help);
        } else if (name == "begin" || name == "end" || name == "user_with_system") {
            put_text(value, name, name == "begin" ? t.begin : name == "end" ? t.end : t.user_with_system);
        } else if (name == "trim" && value.is(Json::Kind::boolean)) {
            t.trim = value.boolean;
        } else {
            fail(cat(path, " has the member ", thunder::json_quote(name), ", which no template has"), help);
        }
    }
    if (!t.user.given || !t.assistant.given) fail(cat(path, " has no \"user\" or no \"assistant\""), help);
    return t;
}

}  // namespace

std::vector<std::string> chat_template_names() {
    std::vector<std::string> names;
    for (const auto& [name, make] : templates) names.emplace_back(name);
    return names;
}

ChatTemplate read_chat_template(const std::string& name_or_file) {
    for (const auto& [name, make] : templates)
        if (name == name_or_file) {
            ChatTemplate made = make();
            made.name = name;
            return made;
        }
    if (!thunder::is_file(name_or_file)) {
        const std::vector<std::string> names = chat_template_names();
        const std::string near = thunder::nearest(name_or_file, names);
        thunder::fail_usage(cat("there is no template and no file ", name_or_file),
                            cat(near.empty() ? "" : cat("did you mean ", near, "? "), "there are ",
                                thunder::list_text(names), ", and files of JSON"));
    }
    return parse_template(name_or_file);
}

std::vector<std::string> ChatTemplate::marks() const {
    std::vector<std::string> found;
    const auto look_in = [&](const std::string& text) {
        for (std::size_t at = text.find('<'); at != std::string::npos; at = text.find('<', at + 1)) {
            const std::size_t end = text.find_first_of("<> \n", at + 1);
            if (end == std::string::npos || text[end] != '>' || end == at + 1) continue;
            const std::string mark = text.substr(at, end + 1 - at);
            if (mark.find("SYS") == std::string::npos && std::find(found.begin(), found.end(), mark) == found.end())
                found.push_back(mark);  // Llama 2's <<SYS>> is text to its tokenizer
        }
    };
    for (const std::string& text : {begin, end}) look_in(text);
    for (const TurnTemplate* turn : {&system, &user, &assistant})
        for (const std::string& text : {turn->before, turn->content, turn->behind}) look_in(text);
    return found;
}

std::vector<ChatPart> ChatTemplate::render(const Json& messages, const std::string& where) const {
    std::vector<ChatPart> parts;
    const auto add = [&](std::string text, bool trained) {
        if (text.empty()) return;
        if (!parts.empty() && parts.back().trained == trained) {
            parts.back().text += text;
        } else {
            parts.push_back({std::move(text), trained});
        }
    };
    add(begin, false);
    const std::string* waiting = nullptr;  // the system's text, which goes into the user's turn
    bool is_first = true;
    const auto refuse_waiting = [&] {
        fail(cat(where, ": the template ", this->name,
                 " puts what system says into the turn of user that follows, and there is none"),
             "leave the message out, or write a template of your own (docs/data.md)");
    };
    for (const Json& message : messages.array) {
        const std::string* const name = text_member(message, "role", "from");
        const std::string* const said = text_member(message, "content", "value");
        if (name == nullptr || said == nullptr)
            fail(cat(where, ": a message has no text \"role\" and \"content\""),
                 "give each message both, or leave the conversation out");
        const std::string role = role_of(*name);
        const TurnTemplate& turn = role == "system" ? system : role == "assistant" ? assistant : user;
        if (role == "system" && !system.given && !user_with_system.empty() && is_first) {
            waiting = said;
        } else if (!turn.given || (role != "system" && role != "assistant" && role != "user")) {
            fail(cat(where, ": the template ", this->name, " has no place for what ", role, " says",
                     role == "system" ? " there" : ""),
                 "leave the message out, or write a template of your own (docs/data.md)");
        } else {
            if (waiting != nullptr && role != "user") refuse_waiting();
            std::string text = turn.content;
            if (waiting != nullptr) {
                std::string with_system = user_with_system;
                // The last place first, so that nothing that is said is taken for one.
                replace_last(with_system, "{content}", trim ? trimmed(*said) : *said);
                replace_once(with_system, "{system}", trim ? trimmed(*waiting) : *waiting);
                replace_once(text, "{content}", with_system);
                waiting = nullptr;
            } else {
                replace_once(text, "{content}", trim ? trimmed(*said) : *said);
            }
            add(turn.before, false);
            add(std::move(text), role == "assistant");
            add(turn.behind, false);
        }
        is_first = false;
    }
    if (waiting != nullptr) refuse_waiting();
    add(end, false);
    return parts;
}

}  // namespace thunderc
