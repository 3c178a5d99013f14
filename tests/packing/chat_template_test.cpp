// SPDX-License-Identifier: Apache-2.0
// Beside what the models' own templates write, as `transformers` renders them (of Llama 2 and 3, Gemma and Qwen).
#include "packing/chat_template.h"

#include "folder.h"

namespace thunderc {
namespace {

using ChatTemplateTest = InFolderOfItsOwn;

thunder::Json messages(std::initializer_list<std::pair<const char*, const char*>> turns) {
    std::string text = "[";
    for (const auto& [role, content] : turns)
        text += std::string(text.size() > 1 ? "," : "") + "{\"role\":\"" + role +
                "\",\"content\":" + thunder::json_quote(content) + "}";
    return thunder::parse_json(text + "]", "messages");
}

// What is trained on stands between « and ».
std::string rendered(const std::string& name, const thunder::Json& messages) {
    std::string text;
    for (const ChatPart& part : read_chat_template(name).render(messages, "a.jsonl:1"))
        text += part.trained ? "«" + part.text + "»" : part.text;
    return text;
}

TEST_F(ChatTemplateTest, AreThoseOfTheModels) {
    const thunder::Json talk = messages({{"user", " U\n"}, {"assistant", "A "}, {"user", "V"}, {"assistant", "B"}});
    const thunder::Json with_system = messages({{"system", "S"}, {"user", "{content} {system}"}, {"assistant", "A"}});
    EXPECT_EQ(rendered("chatml", talk),
              "<|im_start|>user\n U\n<|im_end|>\n<|im_start|>assistant\n«A <|im_end|>»\n<|im_start|>user\nV<|im_end|>\n"
              "<|im_start|>assistant\n«B<|im_end|>»\n");
    EXPECT_EQ(rendered("llama2", talk), "<s>[INST] U [/INST]« A </s>»<s>[INST] V [/INST]« B </s>»");
    EXPECT_EQ(rendered("llama2", with_system), "<s>[INST] <<SYS>>\nS\n<</SYS>>\n\n{content} {system} [/INST]« A </s>»");
    EXPECT_EQ(rendered("llama3", with_system),
              "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nS<|eot_id|><|start_header_id|>user<|end_"
              "header_id|>\n\n"
              "{content} {system}<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n«A<|eot_id|>»");
    EXPECT_EQ(rendered("gemma", talk),
              "<bos><start_of_turn>user\nU<end_of_turn>\n<start_of_turn>model\n«A<end_of_turn>»\n<start_of_turn>"
              "user\nV<end_of_turn>\n"
              "<start_of_turn>model\n«B<end_of_turn>»\n");
}

TEST_F(ChatTemplateTest, TellTheirMarks) {
    EXPECT_EQ(read_chat_template("chatml").marks(), (std::vector<std::string>{"<|im_start|>", "<|im_end|>"}));
    EXPECT_EQ(read_chat_template("llama2").marks(), (std::vector<std::string>{"<s>", "</s>"}));
    EXPECT_EQ(read_chat_template("gemma").marks(),
              (std::vector<std::string>{"<bos>", "<start_of_turn>", "<end_of_turn>"}));
}

TEST_F(ChatTemplateTest, RefuseWhatTheyHaveNoPlaceFor) {
    const auto error = [&](const std::string& name, const thunder::Json& said) {
        return error_of([&] { rendered(name, said); });
    };
    EXPECT_EQ(error("gemma", messages({{"system", "S"}, {"user", "U"}})),
              "error: a.jsonl:1: the template gemma has no place for what system says there\nhelp: leave the message "
              "out, or write a "
              "template of your own (docs/data.md)");
    EXPECT_NE(error("llama2", messages({{"user", "U"}, {"system", "S"}})), "");
    // What system says is to stand in a turn of user.
    for (const thunder::Json& said :
         {messages({{"system", "S"}, {"assistant", "A"}, {"user", "U"}}), messages({{"system", "S"}})})
        EXPECT_EQ(error("llama2", said),
                  "error: a.jsonl:1: the template llama2 puts what system says into the turn of user that follows, and "
                  "there is none\nhelp: leave the message out, or write a template of your own (docs/data.md)");
    EXPECT_NE(error("chatml", messages({{"tool", "T"}})), "");
    EXPECT_EQ(error("chatml", thunder::parse_json("[{\"role\": \"user\"}]", "x")),
              "error: a.jsonl:1: a message has no text \"role\" and \"content\"\nhelp: give each message both, or "
              "leave the conversation "
              "out");
    EXPECT_EQ(error("chatm", {}),
              "error: there is no template and no file chatm\nhelp: did you mean chatml? there are chatml, llama2, "
              "llama3, gemma, and files "
              "of JSON");
}

TEST_F(ChatTemplateTest, AreReadFromFiles) {
    const std::string file = write("mine.json", R"({"begin": "[", "end": "]", "system": ["s:", "{content}", ";"],
                                                    "user": ["u:", "{content}", ";"], "assistant": ["a:", "{content}!", ";"]})");
    EXPECT_EQ(rendered(file, messages({{"system", "S"}, {"user", "U"}, {"assistant", "A"}})), "[s:S;u:U;a:«A!»;]");
    const auto error = [&](const std::string& text) {
        return error_of([&] { read_chat_template(write("t.json", text)); });
    };
    EXPECT_NE(error(R"({"user": ["", "{content}", ""]})"), "");
    EXPECT_NE(error(R"({"user": ["", "", ""], "assistant": ["", "{content}", ""]})"), "");
    EXPECT_NE(error(R"({"user": ["", "{content}"], "assistant": ["", "{content}", ""]})"), "");
    EXPECT_NE(error(R"({"usr": 1})"), "");
    EXPECT_EQ(error(R"({"chat_template": "{% for %}"})"),
              "error: " + path("t.json") +
                  " has a template in Jinja, which is a program and is not run here\nhelp: name the format: "
                  "--template chatml, llama2, llama3, gemma; or write it down as docs/data.md says");
}

}  // namespace
}  // namespace thunderc
