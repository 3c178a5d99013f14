#include "compiler/transforms/freeze_parameters.h"

#include "compiler/support/error.h"
#include "tests/transforms/equal_programs.h"

namespace thunderc {
namespace {

using testing::module_of;

const char* const program = R"(
func @main(
    %a: f32[2] parameter "embed.weight",
    %b: f32[2] parameter "layers.0.weight",
    %c: f32[2] parameter "layers.1.weight") -> (%a) {
})";

std::string frozen(const std::string& pattern) {
    Report report;
    std::string out;
    const Module m = freeze_parameters(module_of(program), pattern, report);
    for (const ArgInfo& info : m.main().argument_info)
        if (!info.trainable) out += name_pattern(info.names) + " ";
    return out;
}

std::string message(const std::string& pattern) {
    try {
        frozen(pattern);
    } catch (const UserError& error) {
        return error.diagnostic().text();
    }
    return "";
}

TEST(FreezeParameters, ByName) {
    EXPECT_EQ(frozen(""), "");
    EXPECT_EQ(frozen("^embed"), "embed.weight ");
    EXPECT_EQ(frozen("layers"), "layers.0.weight layers.1.weight ");
    EXPECT_EQ(frozen("layers.1"), "layers.1.weight ");
    EXPECT_EQ(frozen("weight"), "embed.weight layers.0.weight layers.1.weight ");
}

TEST(FreezeParameters, Messages) {
    EXPECT_EQ(message("bias"),
              "error: --freeze bias matches no parameter\nhelp: thunderc inspect lists the parameters\n");
    EXPECT_EQ(message("("),
              "error: --freeze \"(\" is not a regular expression\n"
              "help: for example: --freeze 'model\\.layers\\.[0-9]+\\..*'\n");
}

}  // namespace
}  // namespace thunderc
