// SPDX-License-Identifier: Apache-2.0
// The import of one TorchScript archive.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/frontend/aten/importer.h"
#include "compiler/frontend/shared/dimensions.h"
#include "compiler/frontend/torchscript/interpreter.h"
#include "compiler/frontend/torchscript/modules.h"
#include "compiler/frontend/torchscript/operators.h"

namespace thunderc::torchscript {

class Importer final : public aten::Importer, private Operators {
  public:
    // Places of two inputs.
    using Pair = std::pair<std::size_t, std::size_t>;
    // `swapped`: inputs that have what the trace says of the other one.
    Importer(std::shared_ptr<const ZipArchive> archive, const CompileOptions& options, Report& report,
             std::optional<Pair> swapped = {});
    Module run();

    // After run(): inputs of which the order of the trace alone says what each is, and what that is.
    std::vector<Pair> told_by_order() const;
    std::string told_of(std::size_t input) const;

    const aten::TensorMeta* meta(const std::string& name) const override;
    aten::ScalarType torch_type(const std::string& name) const override { return own_type(name); }
    std::optional<std::int64_t> size(const aten::Size& size) const override;

  private:
    // ---- what goes in and comes out (importer_inputs.cpp) ----
    // An input as the model was traced with it, or as its type says: a tensor, or several.
    struct Example {
        Item::Kind kind = Item::Kind::none;
        bool known = false;  // shape and type of a tensor
        aten::ScalarType type = aten::ScalarType::f32;
        Dims dims;
        std::vector<std::string> keys;  // of a dictionary
        std::vector<Example> items;
    };
    struct InputNames {
        std::vector<std::string> all, unknown;
    };
    static Example example_of(const Pickle& pickle, const Pickled& value, int depth);
    std::optional<Example> example_of_type(const std::string& name, const std::string& type) const;
    void refuse_frozen();
    std::unordered_map<std::string, Item> import_inputs(const FunctionCode& forward);
    std::vector<Example> traced_inputs(const FunctionCode& forward) const;
    Item declare(const std::string& name, const Example& example, InputNames& names);
    void make_dynamic();
    void bind_declared();
    void import_constants();
    void import_outputs(const Item& result, const std::string& key, int depth);

    // ---- for the interpreter (importer.cpp) ----
    Item call(const OperatorCall& call, const Place& place, bool gradients) override;
    const Type& type(const Item& tensor) const override;
    const Tensor* known(const Item& tensor) override;
    bool is_complex(const Item& tensor) const;
    Item constant(Tensor numbers) override;
    Item constant_of_archive(std::size_t k, const Place& place) override;
    bool requires_gradient(const Item& tensor) override;

    std::optional<Item> property(const OperatorCall& call, const Place& place, bool gradients);
    Item made_tensor(const OperatorCall& call, const Place& place, bool gradients);
    Item type_of_tensor(const Item& tensor, const Place& place) const;
    Item imported(const OperatorCall& call, MatchedCall matched, const Place& place, bool gradients);
    Item item_of(const std::string& name) const;
    std::string unique(const std::string& wanted);
    [[noreturn]] void refuse_operator(const std::string& name, const Place& place) const;
    bool is_float_division(const OperatorCall& call) const;
    // ---- what numbers are not those that they seem ----
    bool any_operand(const aten::Call& call, const std::set<Value>& among) const;
    void note_numbers(const aten::Call& call);
    void note_type(const std::string& name, aten::ScalarType type);
    void note_types(const aten::Call& call);
    aten::ScalarType own_type(const std::string& name) const;
    aten::ScalarType promoted_type(const aten::Call& call, bool floating) const;

    std::shared_ptr<const ZipArchive> archive_;
    std::string root_;  // the folder of the archive's entries, with its slash
    std::optional<Pair> swapped_;
    std::vector<std::pair<std::string, Example>> traced_;  // inputs, with what the trace says of them
    Library library_;
    Pickle data_, constants_;
    Modules modules_;
    std::vector<DeclaredInput> declared_;
    std::vector<aten::ScalarType> types_;  // of declared inputs
    std::map<std::string, int> names_taken_;
    std::set<std::string> output_names_;
    std::size_t calls_ = 0;
    std::set<Value> narrow_;  // integers of types that are wider here
    std::unordered_map<std::string, aten::ScalarType>
        own_types_;  // where it is computed in another; unknown: of several
    std::size_t outputs_ = 0;
    int version_ = 3;  // of the archive's operators
};

}  // namespace thunderc::torchscript
