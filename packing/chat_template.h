// SPDX-License-Identifier: Apache-2.0
// Conversations as the text that a model was, or will be, trained on: of which its own turns alone are learned.
#pragma once

#include <string>
#include <vector>

#include "support/json.h"

namespace thunderc {

struct ChatPart {
    std::string text;
    bool trained = true;
};

// A turn: {content} stands for what is said. Of what the assistant says, the middle is trained on.
struct TurnTemplate {
    std::string before, content = "{content}", behind;
    bool given = false;
};

struct ChatTemplate {
    std::string name;
    std::string begin, end;  // of a conversation
    TurnTemplate system, user, assistant;
    // Of the first turn of the user, where a system's stands before it and has no turn of its own: {system} is its
    // text.
    std::string user_with_system;
    bool trim = false;  // what is said, of spaces at its ends

    // What looks like special tokens in it: "<|im_start|>". A tokenizer that has no such token cuts it as text.
    std::vector<std::string> marks() const;

    // Fails with `where` where the messages are none, or have a role that the template has not.
    std::vector<ChatPart> render(const thunder::Json& messages, const std::string& where) const;
};

// "chatml", "llama2", "llama3", "gemma", or a file of JSON (docs/data.md).
ChatTemplate read_chat_template(const std::string& name_or_file);
std::vector<std::string> chat_template_names();

}  // namespace thunderc
