// SPDX-License-Identifier: Apache-2.0
// Schemas of ATen's operators: whoever calls them by position finds each that has an importer.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/aten/schemas.h"

namespace thunderc {
namespace aten_schemas_test {

using aten::Schema;
using aten::schemas_of;

const Schema* overload(const std::string& name) {
    for (const Schema& schema : schemas_of(name.substr(0, name.find('.'))))
        if (schema.name == name) return &schema;
    return nullptr;
}

TEST(AtenSchemas, AreThereForEveryImporter) {
    // Of torch.export's programs alone: what it asserts, and a function of Python's.
    const std::set<std::string_view> without = {"_assert_scalar", "softsign", "sym_constrain_range",
                                                "sym_constrain_range_for_size"};
    std::size_t overloads = 0;
    for (const std::string_view name : aten::names_of_importers()) {
        const std::string_view base = name.substr(0, name.find('.'));
        if (base == "_operator" || base == "torch" || base == "math" || base == "builtins" || base == "higher_order" ||
            base == "transformers" || without.contains(name))
            continue;
        EXPECT_FALSE(schemas_of(base).empty()) << name;
        EXPECT_TRUE(base == name || overload(std::string(name)) != nullptr) << name;
        ++overloads;
    }
    EXPECT_GT(overloads, 300U);
}

TEST(AtenSchemas, SayNamesAndTypes) {
    const Schema* add = overload("add.Tensor");
    ASSERT_NE(add, nullptr);
    ASSERT_EQ(add->parameters.size(), 3U);
    EXPECT_EQ(add->parameters[0].type + " " + add->parameters[0].name, "Tensor self");
    EXPECT_EQ(add->parameters[2].type + " " + add->parameters[2].name, "Scalar alpha");
    EXPECT_FALSE(add->parameters[1].keyword);
    EXPECT_TRUE(add->parameters[2].keyword);
    EXPECT_FALSE(add->parameters[1].optional);
    EXPECT_TRUE(add->parameters[2].optional);
    EXPECT_EQ(add->results, std::vector<std::string>{"Tensor"});
    EXPECT_EQ(overload("max.dim")->results, (std::vector<std::string>{"Tensor", "Tensor"}));
    EXPECT_EQ(overload("avg_pool2d")->parameters[3].type, "int[2]");
    EXPECT_EQ(overload("unbind.int")->results, std::vector<std::string>{"Tensor[]"});
    EXPECT_TRUE(schemas_of("nothing_of_that_name").empty());
}

}  // namespace aten_schemas_test
}  // namespace thunderc
