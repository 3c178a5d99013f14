// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/onnx/tie_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <map>
#include <numeric>
#include <utility>

#include "compiler/analysis/parameter_names.h"
#include "compiler/frontend/onnx/copied_numbers.h"
#include "compiler/frontend/onnx/scopes.h"
#include "compiler/frontend/onnx/tensors.h"
#include "compiler/frontend/onnx/traced_operands.h"

namespace thunderc::onnx_frontend {
namespace {

// Numbers that are the same by chance, as ones and zeros are, are fewer.
constexpr std::size_t least_different = 4;

class Tier {
  public:
    Tier(onnx::GraphProto& graph, const TracedProgram& traced, const ReadBytes& read)
        : graph_(graph), traced_(traced), read_(read) {
        for (const auto& tensor : graph.initializer()) initializers_[tensor.name()] = &tensor;
        for (auto& node : *graph.mutable_node()) {
            there_.insert(node.output().begin(), node.output().end());
            if (const std::optional<TracedCall> call = traced_call(node)) there_.insert(call->result);
            for (int k = 0; k < node.input_size(); ++k)
                if (initializers_.contains(node.input(k))) uses_[node.input(k)].push_back({&node, k});
        }
        for (const auto& input : graph.input()) there_.insert(input.name());
        for (const std::string& name : traced.constants())
            if (!initializers_.contains(name) && !buffer_name(name)) missing_constants_.push_back(name);
        std::set<std::string> called;
        for (const auto& node : graph_.node())
            for (const std::string& name : traced_.read_by(node)) called.insert(name);
        for (const auto& name : traced_.parameters())
            if (!initializers_.contains(name) && !called.contains(name)) missing_parameters_.push_back(name);
    }

    TiedParameters run() {
        if (traced_.parameters().empty()) return {};
        std::vector<std::string> unnamed;
        for (const auto& tensor : graph_.initializer()) {
            const std::optional<DType> dtype = dtype_of(tensor.data_type());
            if (!dtype || !is_float(*dtype)) continue;
            const TracedInput what = traced_.input(tensor.name());
            if (elements_of(shape_of(tensor)) < 2) {
                if (what == TracedInput::parameter) part_literals(tensor);
                continue;
            }
            if (what != TracedInput::constant) part_constant(tensor);
            if (!made_by_exporter(tensor, traced_) || uses_[tensor.name()].empty()) continue;
            if (const std::string* parameter = named(tensor.name()))
                copies_[*parameter].push_back(tensor.name());
            else
                unnamed.push_back(tensor.name());
        }
        for (onnx::TensorProto& tensor : parted_) *graph_.add_initializer() = std::move(tensor);
        for (const auto& [parameter, copies] : copies_) tie_named(parameter, copies);
        for (const std::string& name : unnamed) tie_by_numbers(name);
        for (auto& node : *graph_.mutable_node()) turn_back(node);
        finish();
        return std::move(out_);
    }

  private:
    struct Use {
        onnx::NodeProto* node;
        int operand;
    };

    const onnx::TensorProto* initializer(const std::string& name) const {
        const auto at = initializers_.find(name);
        return at == initializers_.end() ? nullptr : at->second;
    }

    // The call has no such argument, or a buffer there, or takes neither a parameter nor a value that is not there.
    bool made_of_nothing(const Use& use) const {
        const TracedOperand operand = traced_operand(*use.node, use.operand, traced_);
        if (operand.nothing || operand.constant) return true;
        if (!traced_call(*use.node) || !traced_.read_by(*use.node).empty()) return false;
        const std::vector<std::string> values = traced_.values_read_by(*use.node);
        return std::all_of(values.begin(), values.end(), [&](const std::string& v) { return there_.contains(v); });
    }

    // What reads the initializer as a constant reads one, though a parameter may begin with the same numbers.
    void part_constant(const onnx::TensorProto& tensor) {
        std::vector<Use>& uses = uses_[tensor.name()];
        const auto constants =
            std::stable_partition(uses.begin(), uses.end(), [&](const Use& use) { return !made_of_nothing(use); });
        if (constants == uses.end()) return;
        if (constants == uses.begin() && traced_.input(tensor.name()) == TracedInput::unknown) {
            out_.constants.insert(tensor.name());
            uses.clear();
            return;
        }
        give_constant(tensor, uses, constants);
    }

    // The uses from `constants` on read a tensor of their own.
    void give_constant(const onnx::TensorProto& tensor, std::vector<Use>& uses, std::vector<Use>::iterator constants) {
        onnx::TensorProto& own = parted_.emplace_back(tensor);
        own.set_name(tensor.name() + "_constant");
        for (auto use = constants; use != uses.end(); ++use) use->node->set_input(use->operand, own.name());
        uses.erase(constants, uses.end());
        out_.constants.insert(own.name());
    }

    // A parameter of one number, and the numbers of the code that it begins equal to: `0.5 * x` is no use of it. Where
    // a call has both, its order tells them apart.
    void part_literals(const onnx::TensorProto& tensor) {
        std::vector<Use>& uses = uses_[tensor.name()];
        const std::string traced_name = traced_.traced_name(tensor.name());
        const auto is_parameter = [&](const Use& use) {
            const std::optional<TracedCall> call = traced_call(*use.node);
            if (!call) return true;
            const std::vector<std::string> mentions = call->mentions();
            const auto count = std::count(mentions.begin(), mentions.end(), traced_name);
            if (count == 0) {
                // What else it may be: a value that is gone, or another parameter that was merged with this one.
                return std::any_of(mentions.begin(), mentions.end(), [&](const std::string& value) {
                    const std::string* other = traced_.parameter("%" + value);
                    return !there_.contains(value) && (other == nullptr || initializer(*other) == nullptr);
                });
            }
            const auto& operands = use.node->input();
            if (std::count(operands.begin(), operands.end(), tensor.name()) <= count) return true;
            const auto k = static_cast<std::size_t>(use.operand);
            if (!takes_numbers(*call) || k >= call->arguments.size() ||
                call->arguments.size() != static_cast<std::size_t>(operands.size())) {
                out_.replaced.push_back({tensor.name(), "a number"});
                return true;
            }
            return call->arguments[k] == "%" + traced_name;
        };
        const auto constants = std::stable_partition(uses.begin(), uses.end(), is_parameter);
        if (constants != uses.end()) give_constant(tensor, uses, constants);
    }

    // Calls of two operands, of which one may be a number, whose node takes them in that order.
    static bool takes_numbers(const TracedCall& call) {
        constexpr std::array<std::string_view, 5> calls = {"aten.add", "aten.sub", "aten.mul", "aten.div", "aten.pow"};
        return call.keywords.empty() &&
               std::find(calls.begin(), calls.end(), without_overload(call.target)) != calls.end();
    }

    // The parameter that all calls which read it name; nullptr: none, or several.
    const std::string* named(const std::string& name) {
        const std::string* parameter = nullptr;
        for (const Use& use : uses_[name]) {
            const std::string* one = traced_operand(*use.node, use.operand, traced_).parameter;
            if (one == nullptr || (parameter != nullptr && *parameter != *one)) return nullptr;
            parameter = one;
        }
        return parameter;
    }

    // ---- by the calls ----

    void tie_named(const std::string& parameter, const std::vector<std::string>& copies) {
        const onnx::TensorProto* base = initializer(parameter);
        for (const std::string& name : copies) {
            const onnx::TensorProto& copy = *initializer(name);
            if (base == nullptr && by_rows(name)) {
                rename(name, parameter);
                base = &copy;
                continue;
            }
            if (base == nullptr) {
                base = &copy;
                sources_.push_back({name, parameter});
                continue;
            }
            const std::optional<View> view = relation(*base, copy, base->name() == parameter && turned(name));
            if (view)
                put(name, base->name(), parameter, *view);
            else
                out_.different.push_back({parameter, name});
        }
    }

    // Whether the calls take rows of it by ids, `embed[tokens]`: then it is the parameter as it was.
    bool by_rows(const std::string& name) {
        return std::all_of(uses_[name].begin(), uses_[name].end(), [](const Use& use) {
            const std::optional<TracedCall> call = traced_call(*use.node);
            return call && without_overload(call->target) == "aten.index" && call->arguments.size() > 1 &&
                   call->arguments[1].starts_with("[%");
        });
    }

    void rename(const std::string& name, const std::string& parameter) {
        for (auto& tensor : *graph_.mutable_initializer())
            if (tensor.name() == name) tensor.set_name(parameter);
        initializers_[parameter] = initializers_[name];
        uses_[parameter] = uses_[name];
        for (const Use& use : uses_[parameter]) use.node->set_input(use.operand, parameter);
    }

    // Whether the calls read the parameter transposed: x Wᵀ.
    bool turned(const std::string& name) {
        return std::all_of(uses_[name].begin(), uses_[name].end(), [](const Use& use) {
            const std::optional<TracedCall> call = traced_call(*use.node);
            return call && without_overload(call->target) == "aten.linear" && use.operand == 1 &&
                   use.node->op_type() == "MatMul";
        });
    }

    // Of what is one parameter by the calls.
    std::optional<View> relation(const onnx::TensorProto& base, const onnx::TensorProto& copy, bool turned) {
        const Shape shape = shape_of(base), wanted = shape_of(copy);
        if (base.data_type() != copy.data_type()) return std::nullopt;
        const std::optional<Bytes>& from = bytes(base);
        const std::optional<Bytes> to = read_(copy);
        if (from && to) {
            const std::optional<View> view = as_shaped(shape, wanted, turned);
            const std::size_t size = stored_bytes(base, *from);
            if (view && holds_same_numbers(*from, shape, *view, *to, size)) return view;
            return find_view(*from, shape, *to, wanted, size);
        }
        return as_shaped(shape, wanted, turned);
    }

    static std::optional<View> as_shaped(const Shape& shape, Shape wanted, bool turned) {
        View view{0, 0, shape.empty() ? 1 : shape[0], std::vector<std::size_t>(shape.size())};
        std::iota(view.order.begin(), view.order.end(), 0U);
        if (turned && shape.size() == 2) {
            std::swap(view.order[0], view.order[1]);
            std::swap(wanted[0], wanted[1]);
        }
        return shape == wanted ? std::optional(view) : std::nullopt;
    }

    // ---- by the numbers ----

    struct Source {
        std::string name, parameter;
    };

    void tie_by_numbers(const std::string& name) {
        const std::string_view call = without_count(name);
        if (call != "val" && !is_rearrangement(call)) return;
        const onnx::TensorProto& copy = *initializer(name);
        const std::optional<Bytes> numbers = read_(copy);
        if (!numbers) return note_unread(copy);
        const std::size_t size = stored_bytes(copy, *numbers);
        if (!varied(*numbers, size)) {
            if (is_transposition(call)) note_alike(copy, *numbers, size);
            return;
        }
        std::vector<std::pair<Source, View>> found;
        bool all_read = true;
        for (const Source& source : sources()) {
            const onnx::TensorProto* from = initializer(source.name);
            if (from->data_type() != copy.data_type() || elements_of(shape_of(*from)) < elements_of(shape_of(copy)))
                continue;
            const std::optional<Bytes>& held = bytes(*from);
            all_read = all_read && held.has_value() && can_be_tried(shape_of(*from));
            if (!held) continue;
            if (std::optional<View> view = find_view(*held, shape_of(*from), *numbers, shape_of(copy), size))
                found.emplace_back(source, std::move(*view));
        }
        if (found.empty()) {
            if (all_read) out_.unmatched.insert(name);
            // Another module that is called twice rearranges a weight that nothing else reads.
            sources_.push_back({name, ""});
            return;
        }
        const std::string scope = scope_of(name);
        const auto named = [&](const Source& source) {
            return std::any_of(uses_[name].begin(), uses_[name].end(), [&](const Use& use) {
                const std::vector<std::string> read = traced_.read_by(*use.node);
                return std::find(read.begin(), read.end(), source.parameter) != read.end();
            });
        };
        const auto fits = [&](const Source& source) {
            if (named(source)) return true;
            return !scope.empty() && (source.parameter.empty() ? scope_of(source.name) == scope
                                                               : source.parameter.starts_with(scope + "."));
        };
        std::vector<std::pair<Source, View>> fitting;
        for (const auto& one : found)
            if (fits(one.first)) fitting.push_back(one);
        const bool in_scope = !fitting.empty();
        // What no module is known for may be another module's copy of the same numbers.
        if (fitting.empty())
            for (const auto& one : found)
                if (!one.first.parameter.empty()) fitting.push_back(one);
        if (fitting.size() == 1 && !named(fitting.front().first)) {
            const auto other =
                std::find_if(missing_constants_.begin(), missing_constants_.end(),
                             [&](const std::string& c) { return !in_scope || c.starts_with(scope + "."); });
            if (other != missing_constants_.end()) {
                const Source& source = fitting.front().first;
                out_.doubtful.push_back({source.parameter.empty() ? source.name : source.parameter, name, *other});
                return;
            }
        }
        if (fitting.size() == 1 && !named(fitting.front().first) && !missing_parameters_.empty()) {
            const Source& source = fitting.front().first;
            out_.guessed.push_back(
                {source.parameter.empty() ? source.name : source.parameter, name, missing_parameters_.front()});
        }
        if (fitting.size() == 1)
            put(name, fitting.front().first.name, fitting.front().first.parameter, fitting.front().second);
        else if (fitting.size() > 1)
            out_.ambiguous.push_back({fitting.front().first.parameter, name});
        else
            sources_.push_back({name, ""});
    }

    // Of zeros nothing tells whose they are.
    void note_alike(const onnx::TensorProto& copy, const Bytes& numbers, std::size_t size) {
        for (const Source& source : sources()) {
            const onnx::TensorProto& from = *initializer(source.name);
            const Shape shape = shape_of(from);
            if (source.parameter.empty() || from.data_type() != copy.data_type() ||
                elements_of(shape) != elements_of(shape_of(copy)))
                continue;
            const std::optional<Bytes>& held = bytes(from);
            if (!held || !find_view(*held, shape, numbers, shape_of(copy), size)) continue;
            out_.alike.push_back({source.parameter, copy.name()});
            return;
        }
    }

    // A graph without its weights. What the exporter evaluated of a parameter has such a name and shape as well.
    void note_unread(const onnx::TensorProto& copy) {
        Shape dims = shape_of(copy);
        if (dims.size() < 2) return;
        std::sort(dims.begin(), dims.end());
        for (const Source& source : sources()) {
            const onnx::TensorProto* from = initializer(source.name);
            Shape others = shape_of(*from);
            std::sort(others.begin(), others.end());
            if (source.parameter.empty() || from->data_type() != copy.data_type() || others != dims) continue;
            out_.unread.push_back({source.parameter, copy.name()});
            return;
        }
    }

    // ---- where a parameter stands for something else of the same numbers ----

    void turn_back(onnx::NodeProto& node) {
        const std::optional<TracedCall> call = traced_call(node);
        if (!call || !keeps_order(*call)) return;
        const std::vector<std::string> mentions = call->mentions();
        if (mentions.size() != static_cast<std::size_t>(node.input_size())) return;
        const bool turns = node.op_type() == "MatMul" && without_overload(call->target) == "aten.linear";
        for (int k = 0; k < node.input_size(); ++k) {
            const std::string parameter = node.input(k);
            const onnx::TensorProto* tensor = initializer(parameter);
            if (tensor == nullptr || traced_.input(parameter) != TracedInput::parameter) continue;
            const std::string& mention = mentions[static_cast<std::size_t>(k)];
            if (traced_.constant("%" + mention)) {  // a number, which part_constant leaves alone
                const std::string own = parameter + "_constant";
                if (out_.constants.insert(own).second) {
                    onnx::TensorProto& copy = *graph_.add_initializer();
                    copy = *tensor;
                    copy.set_name(own);
                }
                node.set_input(k, own);
                continue;
            }
            const bool itself = mention == traced_.traced_name(parameter);
            // What is there, or another's name, is another matter.
            if (!itself && (there_.contains(mention) || traced_.parameter("%" + mention) != nullptr)) continue;
            const std::string_view what = without_count(mention);
            if (!itself && keeps_numbers(what)) continue;
            const Shape shape = shape_of(*tensor);
            const bool square = shape.size() == 2 && shape[0] == shape[1];
            if (itself || (is_transposition(what) && square)) {
                // The operand is the parameter transposed where the call does that or the node wants it, not where
                // both.
                if (itself != (turns && k == 1) || !square || !symmetric(*tensor)) continue;
                const onnx::NodeProto& turned = add_node("Transpose", {parameter}, mention, parameter, node);
                node.set_input(k, turned.output(0));
                out_.turned.push_back({parameter, itself ? "its transpose" : mention});
            } else if (!(turns && k == 1)) {
                out_.replaced.push_back({parameter, mention});
            }
        }
    }

    // A number that cannot be read equals what it has to.
    bool symmetric(const onnx::TensorProto& tensor) {
        const std::optional<Bytes>& numbers = bytes(tensor);
        const Shape shape = shape_of(tensor);
        return !numbers ||
               holds_same_numbers(*numbers, shape, {0, 0, shape[0], {1, 0}}, *numbers, stored_bytes(tensor, *numbers));
    }

    std::string scope_of(const std::string& name) { return provenance_of(*uses_[name].front().node).scope; }

    std::vector<Source> sources() const {
        std::vector<Source> out = sources_;
        for (const auto& tensor : graph_.initializer())
            if (traced_.input(tensor.name()) == TracedInput::parameter) out.push_back({tensor.name(), tensor.name()});
        return out;
    }

    static bool varied(const Bytes& numbers, std::size_t size) {
        std::set<std::vector<std::byte>> different;
        for (std::size_t at = 0; at + size <= numbers.size() && different.size() < least_different; at += size)
            different.emplace(numbers.begin() + static_cast<std::ptrdiff_t>(at),
                              numbers.begin() + static_cast<std::ptrdiff_t>(at + size));
        return different.size() >= least_different;
    }

    static std::size_t stored_bytes(const onnx::TensorProto& tensor, const Bytes& bytes) {
        return bytes.size() / static_cast<std::size_t>(elements_of(shape_of(tensor)));
    }

    const std::optional<Bytes>& bytes(const onnx::TensorProto& tensor) {
        const auto at = bytes_.find(tensor.name());
        return at != bytes_.end() ? at->second : bytes_.emplace(tensor.name(), read_(tensor)).first->second;
    }

    // ---- the graph ----

    // Everything that reads the copy reads the view of its base from here on.
    void put(const std::string& copy, const std::string& base, const std::string& parameter, const View& view) {
        const onnx::TensorProto& from = *initializer(base);
        const Shape shape = shape_of(from), wanted = shape_of(*initializer(copy));
        std::string value = base;
        Shape now = shape;
        if (view.length != shape[view.axis]) {
            now[view.axis] = view.length;
            std::vector<std::string> operands = {value};
            for (const auto& [what, number] : {std::pair<const char*, std::int64_t>{"begin", view.begin},
                                               {"end", view.begin + view.length},
                                               {"axis", static_cast<std::int64_t>(view.axis)}})
                operands.push_back(integers(fmt::format("{}_{}", copy, what), {number}));
            value = add_node("Slice", operands, copy, parameter).output(0);
        }
        if (!std::is_sorted(view.order.begin(), view.order.end())) {
            onnx::NodeProto& node = add_node("Transpose", {value}, copy, parameter);
            onnx::AttributeProto* order = node.add_attribute();
            order->set_name("perm");
            order->set_type(onnx::AttributeProto::INTS);
            Shape turned;
            for (const std::size_t d : view.order) {
                order->add_ints(static_cast<std::int64_t>(d));
                turned.push_back(now[d]);
            }
            now = std::move(turned);
            value = node.output(0);
        }
        if (now != wanted)
            value = add_node("Reshape", {value, integers(copy + "_shape", wanted)}, copy, parameter).output(0);
        for (const Use& use : uses_[copy]) {
            use.node->set_input(use.operand, value);
            uses_[base].push_back(use);
        }
        gone_.insert(copy);
        out_.tied.push_back({parameter.empty() ? base : parameter, copy});
    }

    onnx::NodeProto& add_node(const char* op, const std::vector<std::string>& operands, const std::string& copy,
                              const std::string& parameter) {
        return add_node(op, operands, copy, parameter, *uses_[copy].front().node);
    }

    onnx::NodeProto& add_node(const char* op, const std::vector<std::string>& operands, const std::string& copy,
                              const std::string& parameter, const onnx::NodeProto& reader) {
        onnx::NodeProto& node = added_.emplace_back();
        node.set_op_type(op);
        node.set_name(fmt::format("node_{}_{}", copy, added_.size()));
        for (const std::string& operand : operands) node.add_input(operand);
        node.add_output(fmt::format("{}_{}", copy, added_.size()));
        // It belongs to what reads it; what it is a rearrangement of says the call.
        for (const auto& entry : reader.metadata_props()) *node.add_metadata_props() = entry;
        const std::string traced_name = traced_.traced_name(parameter);
        for (auto& entry : *node.mutable_metadata_props())
            if (entry.key() == traced_call_key && !traced_name.empty())
                entry.set_value(
                    fmt::format("%{} : [num_users=1] = call_function[target=torch.ops.aten.{}.default](args "
                                "= (%{},), kwargs = {{}})",
                                copy, without_count(copy), traced_name));
        return node;
    }

    std::string integers(const std::string& name, const Shape& numbers) {
        onnx::TensorProto* tensor = graph_.add_initializer();
        tensor->set_name(name);
        tensor->set_data_type(onnx::TensorProto::INT64);
        tensor->add_dims(static_cast<std::int64_t>(numbers.size()));
        for (const std::int64_t number : numbers) tensor->add_int64_data(number);
        return name;
    }

    void finish() {
        auto& tensors = *graph_.mutable_initializer();
        for (int k = tensors.size() - 1; k >= 0; --k)
            if (gone_.contains(tensors[k].name())) tensors.DeleteSubrange(k, 1);
        auto& nodes = *graph_.mutable_node();
        const int before = nodes.size();
        for (onnx::NodeProto& node : added_) *graph_.add_node() = std::move(node);
        std::rotate(nodes.pointer_begin(), nodes.pointer_begin() + before, nodes.pointer_end());
    }

    onnx::GraphProto& graph_;
    const TracedProgram& traced_;
    const ReadBytes& read_;
    std::map<std::string, const onnx::TensorProto*> initializers_;
    std::map<std::string, std::vector<Use>> uses_;
    std::set<std::string, std::less<>> there_;                // values, by the graph's name and by the traced program's
    std::map<std::string, std::vector<std::string>> copies_;  // by the parameter that calls name
    std::vector<Source> sources_;  // initializers that stand for a parameter; of what is not known, its name is ""
    std::map<std::string, std::optional<Bytes>> bytes_;
    std::vector<std::string> missing_constants_;   // of the signature, which the graph has under no such name
    std::vector<std::string> missing_parameters_;  // the same, which no call that is left reads
    std::vector<onnx::TensorProto> parted_;
    std::set<std::string> gone_;
    std::deque<onnx::NodeProto> added_;
    TiedParameters out_;
};

}  // namespace

TiedParameters tie_parameters(onnx::GraphProto& graph, const TracedProgram& traced, const ReadBytes& read) {
    return Tier(graph, traced, read).run();
}

}  // namespace thunderc::onnx_frontend
