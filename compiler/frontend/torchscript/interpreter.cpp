// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/torchscript/interpreter.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_set>

#include "compiler/support/error.h"

namespace thunderc::torchscript {
namespace {

constexpr std::size_t deepest_call = 600;         // expressions and calls within one another
constexpr std::uint64_t most_steps = 20'000'000;  // statements and expressions of all loops
constexpr std::uint64_t most_work = 1U << 24U;    // items of lists that are read and made, and sixteen letters each
constexpr std::size_t most_list_items = std::size_t{1} << 20U;

const char* const known_help =
    "shapes, loops and branches are decided when compiling: make them follow from numbers and from the shapes of the "
    "inputs, or compute with torch.where";

// "torch.add" of attributes of a name; "" where it is none.
std::string dotted(const Expr& e) {
    if (e.kind == Expr::Kind::name) return e.text;
    if (e.kind != Expr::Kind::attribute) return "";
    const std::string base = dotted(e.items.front());
    return base.empty() ? "" : base + "." + e.text;
}

// Whether a dotted name begins with one that is no variable.
std::string_view root_of(std::string_view name) {
    return name.substr(0, name.find('.'));
}

// What torch names a context of gradients by, and whether gradients are kept within.
std::optional<bool> keeps_gradients(const std::string& type) {
    const std::string name = class_name(type);
    if (name == "torch.autograd.grad_mode.no_grad" || name == "torch.autograd.grad_mode.inference_mode") return false;
    if (name == "torch.autograd.grad_mode.enable_grad") return true;
    return std::nullopt;
}

// What a list or a text costs where all of it is read or made.
std::size_t work_of(const Item& item) {
    return item.items != nullptr ? item.items->size() : item.text.size() / 16;
}

}  // namespace

// What a model says itself may be longer than anyone reads. The cut is between letters of UTF-8.
std::string shortened(std::string text) {
    constexpr std::size_t most = 800;
    if (text.size() <= most) return text;
    std::size_t end = most;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0U) == 0x80U) --end;
    return text.substr(0, end) + "…";
}

class Interpreter::Deeper {
  public:
    Deeper(Interpreter& of, const Place& place) : of_(of) {
        if (++of_.depth_ > deepest_call)
            fail_at(place, "calls within calls do not end", "call no function from itself");
        if (++of_.steps_ > most_steps)
            fail_at(place, "loops over numbers take more steps than a program has", "write the loop with tensors");
    }
    ~Deeper() { --of_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;

  private:
    Interpreter& of_;
};

void fail_at(const Place& place, std::string message, std::string help) {
    Diagnostic d;
    d.message = shortened(std::move(message));
    if (!place.file.empty()) d.node = fmt::format("{}:{}", place.file, place.line);
    d.module = place.module == nullptr ? "" : place.module->path;
    d.help = std::move(help);
    throw UserError(std::move(d));
}

const Item* OperatorCall::at(std::size_t k, const char* by_name) const {
    if (k < arguments.size()) return &arguments[k];
    for (const auto& [key, value] : named)
        if (key == by_name) return &value;
    return nullptr;
}

Item Interpreter::run(const ModuleObject& root, const FunctionCode& code, std::unordered_map<std::string, Item> given) {
    Frame frame;
    frame.place = {Library::file_of(root.type), code.line, &root};
    Item self;
    self.kind = Item::Kind::module;
    self.module = &root;
    OperatorCall call;
    for (auto& [key, value] : given) call.named.emplace_back(key, std::move(value));
    return call_code(code, &self, root.type, std::move(call), frame);
}

// ---- statements -----------------------------------------------------------------------------------------------------

void Interpreter::execute(const std::vector<Statement>& body, Frame& frame) {
    for (const Statement& statement : body) {
        if (frame.done) return;
        execute(statement, frame);
    }
}

void Interpreter::execute(const Statement& statement, Frame& frame) {
    frame.place.line = statement.line;
    const Deeper deeper(*this, frame.place);
    switch (statement.kind) {
        case Statement::Kind::pass: return;
        case Statement::Kind::evaluate: static_cast<void>(evaluate(statement.value, frame)); return;
        case Statement::Kind::assign: return assign(statement, frame);
        case Statement::Kind::give_back:
            frame.result = evaluate(statement.value, frame);
            frame.done = true;
            return;
        case Statement::Kind::condition:
            return execute(truth(evaluate(statement.value, frame), frame) ? statement.body : statement.otherwise,
                           frame);
        case Statement::Kind::repeat: return repeat(statement, frame);
        case Statement::Kind::each: return each(statement, frame);
        case Statement::Kind::within: return within(statement, frame);
    }
}

void Interpreter::assign(const Statement& statement, Frame& frame) {
    const Item value = evaluate(statement.value, frame);
    if (!statement.unpacks) return assign_one(statement.targets.front(), value, frame);
    if (!value.is_sequence() || value.items->size() != statement.targets.size())
        fail_at(frame.place,
                fmt::format("{} names take {}{}", statement.targets.size(), value.what(),
                            value.is_sequence() ? fmt::format(" of {} items", value.items->size()) : ""),
                "save the model again");
    const std::vector<Item> items = *value.items;
    for (std::size_t k = 0; k < items.size(); ++k) assign_one(statement.targets[k], items[k], frame);
}

void Interpreter::assign_one(const Expr& target, Item value, Frame& frame) {
    if (target.kind == Expr::Kind::name) {
        frame.names[target.text] = std::move(value);
        return;
    }
    if (target.kind == Expr::Kind::attribute)
        fail_at(frame.place,
                fmt::format("the model changes its attribute {} as it runs, which a program does not do", target.text),
                "leave the change out of forward(); what depends on it make an input");
    if (target.kind != Expr::Kind::subscript || target.items.size() != 2)
        fail_at(frame.place, "a value is given to what is no name", "the code is damaged: save the model again");
    const Item list = evaluate(target.items[0], frame), index = evaluate(target.items[1], frame);
    OperatorCall set;
    set.name = "_set_item";
    set.arguments = {list, index, std::move(value)};
    static_cast<void>(operator_call(std::move(set), frame));
}

bool Interpreter::truth(const Item& value, Frame& frame) {
    if (value.is_number()) return value.number != 0;
    if (value.kind == Item::Kind::tensor) {
        const Tensor* known = operators_.known(value);
        if (known != nullptr && known->size() == 1) return known->at(0) != 0;
        fail_at(frame.place, "a branch depends on the numbers of a tensor", known_help);
    }
    fail_at(frame.place, fmt::format("a branch depends on {}", value.what()), known_help);
}

void Interpreter::repeat(const Statement& statement, Frame& frame) {
    while (!frame.done) {
        frame.place.line = statement.line;
        const Deeper deeper(*this, frame.place);
        if (!truth(evaluate(statement.value, frame), frame)) return;
        execute(statement.body, frame);
    }
}

void Interpreter::each(const Statement& statement, Frame& frame) {
    const auto round = [&](Item item) {
        frame.place.line = statement.line;
        const Deeper deeper(*this, frame.place);
        assign_one(statement.targets.front(), std::move(item), frame);
        execute(statement.body, frame);
    };
    const Expr& over = statement.value;
    if (statement.unpacks) fail_at(frame.place, "a loop over several names", "save the model again");
    if (over.kind == Expr::Kind::call && dotted(over.items.front()) == "range") {
        const OperatorCall range = arguments_of(over, frame);
        if (range.arguments.size() != 1) fail_at(frame.place, "a range without an end", "save the model again");
        const Item end = as_number(range.arguments.front(), "int", frame);
        for (std::int64_t k = 0; k < end.integer && !frame.done; ++k) round(Item::of(k));
        return;
    }
    const Item list = evaluate(over, frame);
    if (!list.is_sequence()) fail_at(frame.place, fmt::format("a loop over {}", list.what()), known_help);
    for (std::size_t k = 0; k < list.items->size() && !frame.done; ++k) round((*list.items)[k]);
}

void Interpreter::within(const Statement& statement, Frame& frame) {
    const Item context = evaluate(statement.value, frame);
    if (context.kind != Item::Kind::gradients)
        fail_at(frame.place, fmt::format("\"with\" of {} is not supported", context.what()),
                "use torch.no_grad() and torch.enable_grad() alone");
    const bool before = gradients_;
    gradients_ = context.integer != 0;
    execute(statement.body, frame);
    gradients_ = before;
}

// ---- expressions ----------------------------------------------------------------------------------------------------

Item Interpreter::evaluate(const Expr& expr, Frame& frame) {
    const Deeper deeper(*this, frame.place);
    switch (expr.kind) {
        case Expr::Kind::none: return {};
        case Expr::Kind::boolean: return Item::of(expr.integer != 0);
        case Expr::Kind::integer: return Item::of(expr.integer);
        case Expr::Kind::number: return Item::of(expr.number);
        case Expr::Kind::text: return Item::of_text(expr.text);
        case Expr::Kind::name: return name(expr, frame);
        case Expr::Kind::attribute: return attribute(expr, frame);
        case Expr::Kind::subscript: {
            OperatorCall get;
            get.name = "__getitem__";
            get.arguments = {evaluate(expr.items[0], frame), evaluate(expr.items[1], frame)};
            return operator_call(std::move(get), frame);
        }
        case Expr::Kind::call: return call(expr, frame);
        case Expr::Kind::list:
        case Expr::Kind::tuple:
        case Expr::Kind::dictionary: {
            std::vector<Item> items;
            for (const Expr& item : expr.items) items.push_back(evaluate(item, frame));
            spend(items.size(), frame);
            return Item::sequence(expr.kind == Expr::Kind::list    ? Item::Kind::list
                                  : expr.kind == Expr::Kind::tuple ? Item::Kind::tuple
                                                                   : Item::Kind::dictionary,
                                  std::move(items));
        }
        case Expr::Kind::unary:
        case Expr::Kind::binary: return operation(expr, frame);
        case Expr::Kind::choice:
            return evaluate(expr.items[truth(evaluate(expr.items[0], frame), frame) ? 1 : 2], frame);
    }
    return {};
}

Item Interpreter::name(const Expr& expr, Frame& frame) {
    const auto at = frame.names.find(expr.text);
    if (at != frame.names.end()) return at->second;
    fail_at(frame.place, fmt::format("the name {} is read before it has a value", expr.text), "save the model again");
}

Item Interpreter::attribute(const Expr& expr, Frame& frame) {
    const std::string full = dotted(expr);
    const std::string_view root = root_of(full);
    if (!full.empty() && !frame.names.contains(std::string(root))) {
        if (root == "CONSTANTS") {
            std::size_t number = 0;
            for (const char c : expr.text.substr(1)) {
                if (c < '0' || c > '9' || number > most_list_items)
                    fail_at(frame.place, fmt::format("there is no {}", full), "save the model again");
                number = number * 10 + static_cast<std::size_t>(c - '0');
            }
            return operators_.constant_of_archive(number, frame.place);
        }
        if (root == "__torch__") {
            Item out = Item::of_text(full);
            out.kind = Item::Kind::function;
            return out;
        }
    }
    return attribute_of(evaluate(expr.items.front(), frame), expr.text, frame);
}

Item Interpreter::attribute_of(const Item& of, const std::string& name, Frame& frame) {
    if (of.kind == Item::Kind::module)
        if (const Item* found = of.module->attribute(name)) return *found;
    if (of.kind == Item::Kind::tuple && !of.text.empty())
        if (const ClassCode* type = library_.find_class(of.text))
            for (std::size_t k = 0; k < type->attributes.size() && k < of.items->size(); ++k)
                if (type->attributes[k].name == name) return (*of.items)[k];
    fail_at(frame.place, fmt::format("{} has no attribute {}", of.what(), name), "save the model again");
}

Item Interpreter::operation(const Expr& expr, Frame& frame) {
    const std::string& sign = expr.text;
    if (sign == "and" || sign == "or") {
        const Item left = evaluate(expr.items[0], frame);
        return truth(left, frame) == (sign == "and") ? evaluate(expr.items[1], frame) : left;
    }
    OperatorCall made;
    for (const Expr& item : expr.items) made.arguments.push_back(evaluate(item, frame));
    static const std::unordered_map<std::string, std::string> names = {{"+", "add"},
                                                                       {"-", "sub"},
                                                                       {"*", "mul"},
                                                                       {"/", "div"},
                                                                       {"//", "floordiv"},
                                                                       {"%", "remainder"},
                                                                       {"**", "pow"},
                                                                       {"==", "eq"},
                                                                       {"!=", "ne"},
                                                                       {"<", "lt"},
                                                                       {"<=", "le"},
                                                                       {">", "gt"},
                                                                       {">=", "ge"},
                                                                       {"is", "__is__"},
                                                                       {"is not", "__isnot__"},
                                                                       {"&", "__and__"},
                                                                       {"|", "__or__"},
                                                                       {"^", "__xor__"},
                                                                       {"@", "matmul"},
                                                                       {"not", "__not__"},
                                                                       {"in", "__contains__"},
                                                                       {"not in", "__contains__"}};
    const auto at = names.find(sign);
    if (expr.kind == Expr::Kind::unary && sign == "-")
        made.name = "neg";
    else if (at != names.end())
        made.name = at->second;
    else
        fail_at(frame.place, fmt::format("the operator {} is not supported", sign),
                "write it with a function of torch");
    const bool contains = made.name == "__contains__";
    if (contains) std::swap(made.arguments[0], made.arguments[1]);
    const Item out = operator_call(std::move(made), frame);
    return sign == "not in" ? Item::of(!truth(out, frame)) : out;
}

// ---- calls ----------------------------------------------------------------------------------------------------------

OperatorCall Interpreter::arguments_of(const Expr& call, Frame& frame, std::size_t from) {
    OperatorCall out;
    const std::size_t positional = call.items.size() - call.names.size();
    for (std::size_t k = from; k < call.items.size(); ++k) {
        Item value = evaluate(call.items[k], frame);
        if (k < positional)
            out.arguments.push_back(std::move(value));
        else
            out.named.emplace_back(call.names[k - positional], std::move(value));
    }
    return out;
}

Item Interpreter::call(const Expr& expr, Frame& frame) {
    const Expr& callee = expr.items.front();
    const std::string full = dotted(callee);
    const std::string_view root = root_of(full);
    const bool variable = !full.empty() && frame.names.contains(std::string(root));
    if (callee.kind == Expr::Kind::name && !variable) {
        // annotate(T, x), unchecked_cast(T, x): the first argument is a type.
        if (full == "annotate" || full == "unchecked_cast") {
            if (expr.items.size() != 3)
                fail_at(frame.place, full + " takes a type and a value", "save the model again");
            const Item value = evaluate(expr.items[2], frame);
            const Expr& type = expr.items[1];
            return type.kind == Expr::Kind::name ? as_number(value, type.text, frame) : value;
        }
        if (full == "uninitialized") {
            Item out;
            out.kind = Item::Kind::uninitialized;
            return out;
        }
        if (full == "int" || full == "float" || full == "bool") {
            const OperatorCall given = arguments_of(expr, frame);
            if (given.arguments.size() != 1) fail_at(frame.place, full + " takes one value", "save the model again");
            return as_number(given.arguments.front(), full, frame);
        }
        if (full == "getattr" && expr.items.size() == 3)
            return attribute_of(evaluate(expr.items[1], frame), expr.items[2].text, frame);
        if (full == "str" || full == "print" || full == "range" || full == "isinstance" || full == "hasattr")
            fail_at(frame.place, fmt::format("{} is not supported", full), "leave it out of the model");
        fail_at(frame.place, fmt::format("there is no function {}", full), "save the model again");
    }
    if (!variable && (root == "torch" || root == "ops")) {
        OperatorCall made = arguments_of(expr, frame);
        made.name = full.substr(full.find('.') + 1);
        if (made.name.starts_with("aten.")) made.name.erase(0, 5);
        return operator_call(std::move(made), frame);
    }
    if (!variable && root == "__torch__") {
        if (callee.kind == Expr::Kind::attribute && callee.text == "__new__") {
            Item made;
            made.kind = Item::Kind::gradients;
            const std::string type = dotted(callee.items.front());
            const std::optional<bool> keeps = keeps_gradients(type);
            if (!keeps)
                fail_at(frame.place,
                        fmt::format("objects of classes of one's own are not supported: {}", class_name(type)),
                        "use modules, tuples and lists in the model");
            made.integer = *keeps ? 1 : 0;
            return made;
        }
        return call_function(full, arguments_of(expr, frame), frame);
    }
    if (callee.kind == Expr::Kind::attribute) {
        const Item of = evaluate(callee.items.front(), frame);
        return call_method(of, callee.text, arguments_of(expr, frame), frame);
    }
    const Item function = evaluate(callee, frame);
    if (function.kind != Item::Kind::function)
        fail_at(frame.place, fmt::format("{} is called", function.what()), "save the model again");
    return call_function(function.text, arguments_of(expr, frame), frame);
}

Item Interpreter::call_function(const std::string& name, OperatorCall given, Frame& frame) {
    if (const FunctionCode* code = library_.find_function(name))
        return call_code(*code, nullptr, name, std::move(given), frame);
    return make_object(name, std::move(given), frame);
}

Item Interpreter::call_method(const Item& of, const std::string& name, OperatorCall given, Frame& frame) {
    if (of.kind == Item::Kind::gradients) {
        // set_grad_enabled(mode) and the like say it as they are made.
        if (name == "__init__" && !given.arguments.empty() && given.arguments.front().is_number())
            fail_at(frame.place, "torch.set_grad_enabled is not supported", "use torch.no_grad() in the model");
        return {};
    }
    if (of.kind != Item::Kind::module)
        fail_at(frame.place, fmt::format("a method {} of {} is called", name, of.what()), "use modules in the model");
    const FunctionCode* code = of.module->code->method(name);
    if (code == nullptr)
        fail_at(frame.place, fmt::format("{} has no method {}", class_name(of.module->type), name),
                "save the model again");
    return call_code(*code, &of, of.module->type, std::move(given), frame);
}

Item Interpreter::make_object(const std::string& type, OperatorCall given, Frame& frame) {
    const ClassCode* code = library_.find_class(type);
    if (code == nullptr || code->base != "NamedTuple")
        fail_at(frame.place,
                code == nullptr
                    ? fmt::format("the code of {} is not in the archive", type)
                    : fmt::format("objects of classes of one's own are not supported: {}", class_name(type)),
                "use modules, tuples and lists in the model");
    std::vector<Item> items = std::move(given.arguments);
    for (auto& [name, value] : given.named) items.push_back(std::move(value));
    Item out = Item::sequence(Item::Kind::tuple, std::move(items));
    out.text = type;
    return out;
}

Item Interpreter::call_code(const FunctionCode& code, const Item* self, const std::string& owner, OperatorCall given,
                            Frame& frame) {
    Frame inner;
    inner.place.file = Library::file_of(owner);
    inner.place.line = code.line;
    inner.place.module = self == nullptr ? frame.place.module : self->module;
    std::size_t next = 0;
    for (std::size_t k = 0; k < code.parameters.size(); ++k) {
        const Parameter& p = code.parameters[k];
        if (k == 0 && self != nullptr) {
            inner.names[p.name] = *self;
            continue;
        }
        const auto named =
            std::find_if(given.named.begin(), given.named.end(), [&](const auto& one) { return one.first == p.name; });
        if (next < given.arguments.size())
            inner.names[p.name] = std::move(given.arguments[next++]);
        else if (named != given.named.end())
            inner.names[p.name] = std::move(named->second);
        else if (p.optional)
            inner.names[p.name] = evaluate(p.otherwise, inner);
        else
            fail_at(frame.place, fmt::format("{} is called without {}", code.name, p.name), "save the model again");
    }
    if (next < given.arguments.size())
        fail_at(frame.place, fmt::format("{} is called with too many arguments", code.name), "save the model again");
    execute(code.body, inner);
    return inner.result;
}

void Interpreter::spend(std::size_t work, const Frame& frame) {
    work_ += work;
    if (work_ > most_work)
        fail_at(frame.place, "lists and texts of the model take more room and time than a program has",
                "make them shorter, or compute with tensors");
}

Item Interpreter::operator_call(OperatorCall call, Frame& frame) {
    const auto raises = [&] {
        const Item* message = call.at(0, "msg");
        fail_at(frame.place,
                fmt::format("the model raises an exception: {}",
                            message != nullptr && message->kind == Item::Kind::text ? message->text : ""),
                "give inputs of other shapes, or change what the model asserts");
    };
    if (call.name == "prim.RaiseException") raises();
    if (call.name == "fork" || call.name == "wait")
        fail_at(frame.place, "torch.jit.fork and torch.jit.wait are not supported", "call the function itself");
    if (call.name == "is_grad_enabled") return Item::of(gradients_);
    if (call.name == "prim.requires_grad" && call.arguments.size() == 1)
        return Item::of(gradients_ && operators_.requires_gradient(call.arguments[0]));
    std::optional<Item> out;
    try {
        out = without_tensors(call);
    } catch (UserError& error) {
        fail_at(frame.place, error.diagnostic().message, error.diagnostic().help);
    }
    // One item alone is looked at or added by these.
    static const std::unordered_set<std::string> of_one = {"__getitem__", "_set_item", "len", "append", "pop"};
    std::size_t work = 1;
    if (!of_one.contains(call.name)) {
        for (const Item& item : call.arguments) work += work_of(item);
        if (out) work += work_of(*out);
    }
    spend(work, frame);
    if (out) return *out;
    return operators_.call(call, frame.place, gradients_);
}

// What a type of numbers makes of a value: a tensor of one number that is known is that number.
Item Interpreter::as_number(const Item& value, const std::string& type, Frame& frame) {
    const bool whole = type == "int", real = type == "float", truth_value = type == "bool";
    if (!whole && !real && !truth_value) return value;
    double number = value.number;
    std::int64_t integer = value.integer;
    if (value.kind == Item::Kind::tensor) {
        const Tensor* known = operators_.known(value);
        if (known == nullptr || known->size() != 1)
            fail_at(frame.place, "the model takes a number out of a tensor, which is not known when compiling",
                    known_help);
        number = known->at(0);
        if (whole && known->floating() && !(std::abs(number) < 0x1p63))
            fail_at(frame.place, fmt::format("{} as a whole number", number), known_help);
        integer = known->floating() ? static_cast<std::int64_t>(number) : known->i[0];
    } else if (value.kind == Item::Kind::number) {
        if (!(std::abs(number) < 0x1p63) && whole)
            fail_at(frame.place, fmt::format("{} as a whole number", number), known_help);
        integer = whole ? static_cast<std::int64_t>(number) : 0;
    } else if (!value.is_number()) {
        return value;
    }
    if (truth_value) return Item::of(number != 0);
    return whole ? Item::of(integer) : Item::of(number);
}

}  // namespace thunderc::torchscript
