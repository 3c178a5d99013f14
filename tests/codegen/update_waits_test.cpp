// SPDX-License-Identifier: Apache-2.0
// The text waits for each part of an update where the check of the plan takes it to: the waits are read off the text,
// by their names, and these off the header.
#include <regex>

#include "codegen/program/program.h"
#include "compiler/ir/structure.h"
#include "compiler/planned/update_parts.h"
#include "tests/planned/reference_step.h"

namespace thunderc {
namespace update_waits_test {

struct Case {
    std::string model;
    bool roll = true;
    std::string optimizer = "adamw";
};

// "embed_tokens", "layers + layer", ... in the order of the text.
std::vector<std::string> waits_in(const std::string& text) {
    std::vector<std::string> out;
    const std::regex wait("wait_for_update\\(arenas_, update_part::([^,]*), stream\\);");
    for (std::sregex_iterator at(text.begin(), text.end(), wait), none; at != none; ++at) out.push_back((*at)[1]);
    return out;
}

TEST(UpdateWaits, StandWhereThePlanIsChecked) {
    for (const Case& c : {Case{"llama2/noopt.logits.onnx"}, Case{"llama2/noopt.logits.onnx", false},
                          Case{"mlp/dynamo.logits.onnx"}, Case{"deep/dynamo.logits.onnx"}, Case{"gpt2/noopt.loss.onnx"},
                          Case{"llama2/noopt.logits.onnx", true, "muon"}}) {
        SCOPED_TRACE(c.model + (c.roll ? "" : " straight") + " " + c.optimizer);
        CompileOptions options, naive;
        options.roll = c.roll;
        options.optimizer = c.optimizer;
        naive.executors = {"reference"};
        EmitOptions emit;
        emit.compile = options;
        const Module planned = compiled(c.model, options);
        std::string text, header;
        for (const OutputFile& file : print_program(planned, compiled(c.model, naive), emit)) {
            if (file.path == "model.cpp") text = file.text;
            if (file.path == "model.h") header = file.text;
        }
        const std::vector<std::string> waits = waits_in(text);
        const UpdateParts parts = update_parts(planned);
        const bool any = c.optimizer != "muon";
        EXPECT_EQ(!parts.parts.empty(), any);
        std::vector<const UpdatePart*> waited;
        for (const UpdatePart& part : parts.parts)
            if (part.op < parts.join) waited.push_back(&part);
        ASSERT_EQ(waits.size(), waited.size()) << text;
        for (std::size_t k = 0; k < waits.size(); ++k) {
            const std::string name = waits[k].substr(0, waits[k].find(' '));
            EXPECT_NE(
                header.find("inline constexpr std::int64_t " + name + " = " + std::to_string(waited[k]->first) + ";"),
                std::string::npos)
                << name << header;
            EXPECT_EQ(waits[k].ends_with("+ layer"), waited[k]->layered) << waits[k];
        }
        // For all of them once, behind these and before the first gradient.
        const std::size_t join = text.find("wait_for_updates(arenas_, stream);");
        EXPECT_EQ(join != std::string::npos, any);
        if (!any) continue;
        EXPECT_EQ(text.find("wait_for_updates(arenas_, stream);", join + 1), std::string::npos);
        EXPECT_GT(join, text.rfind("wait_for_update(arenas_, "));
        EXPECT_GT(text.find(".mode = mode"), join);
    }
}

}  // namespace update_waits_test
}  // namespace thunderc
