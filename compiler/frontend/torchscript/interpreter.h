// SPDX-License-Identifier: Apache-2.0
// Runs TorchScript's code on what is known when compiling: numbers, lists and modules are computed, calls of operators
// on tensors become ops. Loops are unrolled, methods inlined.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "compiler/frontend/torchscript/item.h"
#include "compiler/frontend/torchscript/library.h"
#include "compiler/ir/tensor.h"

namespace thunderc::torchscript {

// A call of a function of torch, with what is given by position and by name.
struct OperatorCall {
    std::string name;  // "add", "add_", of torch.add; "prim.device" of ops.prim.device
    std::vector<Item> arguments;
    std::vector<std::pair<std::string, Item>> named;
    const Item* at(std::size_t k, const char* name) const;  // nullptr: not given
};

// Where the code is: for messages, and for what a module's ops are called.
struct Place {
    std::string file;  // "__torch__/zoo_models.py"
    int line = 0;
    const ModuleObject* module = nullptr;
};

// What the interpreter asks of the import.
class Operators {
  public:
    virtual ~Operators() = default;
    // Adds the ops of a call, and gives its results: one, or a tuple. `gradients`: whether they are kept.
    virtual Item call(const OperatorCall& call, const Place& place, bool gradients) = 0;
    virtual const Type& type(const Item& tensor) const = 0;
    // The numbers of a tensor, where they follow from the program alone; else nullptr.
    virtual const Tensor* known(const Item& tensor) = 0;
    virtual Item constant(Tensor numbers) = 0;
    virtual Item constant_of_archive(std::size_t k, const Place& place) = 0;  // CONSTANTS.c3
    virtual bool requires_gradient(const Item& tensor) = 0;
};

class Interpreter {
  public:
    Interpreter(Library& library, Operators& operators) : library_(library), operators_(operators) {}

    // forward() of the root: `given` by name of parameter, the others have their defaults.
    Item run(const ModuleObject& root, const FunctionCode& code, std::unordered_map<std::string, Item> given);

  private:
    using Names = std::unordered_map<std::string, Item>;
    struct Frame {
        Place place;
        Names names;
        Item result;
        bool done = false;
    };
    class Deeper;  // counts calls and expressions within one another

    void execute(const std::vector<Statement>& body, Frame& frame);
    void execute(const Statement& statement, Frame& frame);
    void assign(const Statement& statement, Frame& frame);
    void assign_one(const Expr& target, Item value, Frame& frame);
    void repeat(const Statement& statement, Frame& frame);
    void each(const Statement& statement, Frame& frame);
    void within(const Statement& statement, Frame& frame);
    bool truth(const Item& value, Frame& frame);

    Item evaluate(const Expr& expr, Frame& frame);
    Item name(const Expr& expr, Frame& frame);
    Item attribute(const Expr& expr, Frame& frame);
    Item attribute_of(const Item& of, const std::string& name, Frame& frame);
    Item operation(const Expr& expr, Frame& frame);  // "+", "not", …
    Item call(const Expr& expr, Frame& frame);
    Item call_function(const std::string& name, OperatorCall given, Frame& frame);
    Item call_method(const Item& of, const std::string& name, OperatorCall given, Frame& frame);
    Item call_code(const FunctionCode& code, const Item* self, const std::string& owner, OperatorCall given,
                   Frame& frame);
    Item make_object(const std::string& type, OperatorCall given, Frame& frame);
    OperatorCall arguments_of(const Expr& call, Frame& frame, std::size_t from = 1);
    Item operator_call(OperatorCall call, Frame& frame);
    void spend(std::size_t work, const Frame& frame);
    Item as_number(const Item& value, const std::string& type, Frame& frame);

    Library& library_;
    Operators& operators_;
    bool gradients_ = true;
    std::size_t depth_ = 0;
    std::uint64_t steps_ = 0, work_ = 0;
};

// What torch computes without tensors: of numbers, texts, lists. nullopt where it is an operator on tensors. Throws
// UserError where the operands cannot be.
std::optional<Item> without_tensors(const OperatorCall& call);
bool is_plain_function(const std::string& name);  // one of these, of whatever is given
// The numbers of a nested list as a tensor: torch.tensor([[1, 2], [3, 4]]).
Tensor tensor_of_numbers(const Item& value);
bool equal(const Item& a, const Item& b);

std::string shortened(std::string text);  // for messages
// UserError at a place of the code.
[[noreturn]] void fail_at(const Place& place, std::string message, std::string help);

}  // namespace thunderc::torchscript
