// SPDX-License-Identifier: Apache-2.0
// Custom operators in .pt2 files, which functions of the user's compute.
#include <fstream>

#include "cli/user_executor.h"
#include "compiler/user_functions/user_functions.h"
#include "tests/frontend/pt2_archive.h"

namespace thunderc {
namespace pt2_user_functions_test {

// The sample's functions, one of them for `my::squareplus(Tensor x, float bend) -> Tensor`.
class Pt2UserFunctions : public testing::Test {
  protected:
    Pt2UserFunctions()
        : folder_(std::filesystem::temp_directory_path() / ("thunderc-pt2-user-" + std::to_string(::getpid()))) {
        std::filesystem::remove_all(folder_);
        std::filesystem::copy(std::filesystem::path(FIXTURES) / "../../samples/user_executor", folder_);
        std::ifstream in(folder_ / "my.json");
        std::string text{std::istreambuf_iterator<char>(in), {}};
        const std::string from = "com.example::Squareplus";
        text.replace(text.find(from), from.size(), "my::squareplus");
        std::ofstream(folder_ / "my.json") << text;
        load_user_executors({folder_ / "my.json"});
    }
    ~Pt2UserFunctions() override {
        std::filesystem::remove_all(folder_);
        set_user_functions({});
    }

    // The MLP with such a call in the place of its tanh, changed.
    static Module import_with(const std::function<void(nlohmann::json& call)>& change) {
        const TemporaryFile file("model.pt2");
        write_changed(file.path(), "mlp/ep.logits.pt2", [&](nlohmann::json& program) {
            nlohmann::json& call = program["graph_module"]["graph"]["nodes"][3];
            call["target"] = "torch.ops.my.squareplus.default";
            call["inputs"][0]["name"] = "x";
            call["inputs"].push_back({{"name", "bend"}, {"arg", {{"as_float", 2.5}}}, {"kind", 1}});
            change(call);
        });
        return import_model(file.path(), {});
    }

    std::filesystem::path folder_;
};

TEST_F(Pt2UserFunctions, TakeTheirOperators) {
    const Module module = import_with([](nlohmann::json&) {});
    verify(module);
    std::size_t found = 0;
    for (const Op& op : module.main().ops) {
        if (op.name != "user.squareplus") continue;
        ++found;
        EXPECT_EQ(op.attributes.number("bend"), 2.5);
        EXPECT_EQ(module.main().type(op.results[0]).dims, (Dims{4, 16}));
        EXPECT_EQ(op.provenance.scope, "net.3");
    }
    EXPECT_EQ(found, 1U);
}

// What the call does not say is what the file says.
TEST_F(Pt2UserFunctions, KnowDefaults) {
    const Module module = import_with([](nlohmann::json& call) { call["inputs"].erase(1); });
    for (const Op& op : module.main().ops) {
        if (op.name == "user.squareplus") {
            EXPECT_EQ(op.attributes.number("bend"), 4);
        }
    }
}

TEST_F(Pt2UserFunctions, SayWhatDoesNotFit) {
    const auto message = [](const std::function<void(nlohmann::json&)>& change) {
        const std::string text = error_of([&] { import_with(change); });
        return text.substr(0, text.find('\n'));
    };
    EXPECT_EQ(message([](nlohmann::json& call) { call["inputs"][1]["name"] = "bent"; }),
              "error: squareplus of my.json knows no attribute bent");
    EXPECT_EQ(message([](nlohmann::json& call) {
                  call["inputs"][1]["arg"] = {{"as_string", "much"}};
              }),
              "error: squareplus of my.json takes another type of bend than the call has");
    EXPECT_EQ(message([](nlohmann::json& call) { call["inputs"].push_back(call["inputs"][0]); }),
              "error: squareplus of my.json takes 1 inputs, and the call has 2");
    EXPECT_EQ(message([](nlohmann::json& call) {
                  call["outputs"].push_back({{"as_tensor", {{"name", "more"}}}});
              }),
              "error: squareplus of my.json gives 1 outputs, and the call has 2");
    EXPECT_EQ(message([](nlohmann::json& call) { call["target"] = "torch.ops.my.other.default"; }),
              "error: the operator my.other.default is not supported");
}

}  // namespace pt2_user_functions_test
}  // namespace thunderc
