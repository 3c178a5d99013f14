#include "compiler/transforms/add_loss.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

constexpr std::int64_t ignored_label = -100;  // torch's default

[[noreturn]] void fail(std::string message, std::string help, std::string expected = {}, std::string actual = {}) {
    Diagnostic d;
    d.message = std::move(message);
    d.help = std::move(help);
    d.expected = std::move(expected);
    d.actual = std::move(actual);
    throw UserError(std::move(d));
}

class LossAdder {
  public:
    LossAdder(Module module, const std::string& loss, Report& report)
        : module_(std::move(module)),
          main_(module_.main()),
          builder_(main_),
          loss_(loss),
          report_(report),
          uses_(main_) {}

    Module run() {
        if (loss_ != "auto" && loss_ != "cross-entropy" && loss_ != "mse" && loss_ != "none")
            fail(fmt::format("there is no loss called {}", loss_), "--loss takes auto, cross-entropy, mse or none");
        const std::optional<std::size_t> own = own_loss();
        if (own && (loss_ == "auto" || loss_ == "none")) {
            split(*own);
        } else if (own) {
            fail(fmt::format("--loss {} is given, but the model ends in a loss of its own, {}", loss_,
                             result_name(*own)),
                 "leave --loss out, or export the model without its loss");
        } else if (loss_ == "none") {
            fail("training needs a loss, and the model ends in none",
                 "use --loss cross-entropy or mse, or export a model that ends in its loss", "a scalar result",
                 outputs());
        } else {
            const std::size_t k = logits();
            if (loss_ == "auto") warn_of_scalars(k);
            append(k);
        }
        return std::move(module_);
    }

  private:
    std::string result_name(std::size_t k) const {
        return k < main_.result_names.size() ? main_.result_names[k] : std::to_string(k);
    }

    std::string outputs() const {
        std::string text;
        for (std::size_t k = 0; k < main_.results.size(); ++k)
            text += fmt::format("{}{} {}", k == 0 ? "" : ", ", result_name(k), to_string(main_.type(main_.results[k])));
        return text.empty() ? "no result" : text;
    }

    // Which result is the model's own loss: a scalar that is the only result, the first one, or called so.
    std::optional<std::size_t> own_loss() const {
        for (std::size_t k = 0; k < main_.results.size(); ++k) {
            if (is_scalar(k) && (k == 0 || result_name(k) == "loss")) return k;
        }
        return std::nullopt;
    }

    bool is_scalar(std::size_t k) const {
        const Type& type = main_.type(main_.results[k]);
        return type.is_tensor() && is_float(type.dtype) && type.elements() == 1 && type.rank() <= 1;
    }

    // A scalar beside the logits may be the model's loss, under the name that an exporter gave it.
    void warn_of_scalars(std::size_t logits) {
        for (std::size_t k = 0; k < main_.results.size(); ++k)
            if (is_scalar(k))
                report_.warning("loss", result_name(k),
                                fmt::format("a scalar beside {}: it is not computed, and a cross entropy is added; if "
                                            "it is the loss, export it as the first result or with the name loss; if "
                                            "not, --loss cross-entropy says so",
                                            result_name(logits)));
    }

    std::size_t logits() const {
        std::vector<std::size_t> candidates;
        for (std::size_t k = 0; k < main_.results.size(); ++k) {
            const Type& type = main_.type(main_.results[k]);
            if (!type.is_tensor() || !is_float(type.dtype) || type.rank() < 2) continue;
            if (result_name(k) == "logits") return k;
            candidates.push_back(k);
        }
        if (candidates.empty())
            fail("training needs a loss, and the model ends neither in logits nor in a scalar",
                 "export a model that ends in logits of two dimensions or more, or in its loss",
                 "logits or a scalar loss", outputs());
        return candidates.front();
    }

    const Op* definition(Value v) const {
        const std::int32_t at = v ? uses_.definition[v.index] : -1;
        return at < 0 ? nullptr : &main_.ops[static_cast<std::size_t>(at)];
    }

    // Through ops that change nothing of a scalar.
    Value behind(Value v) const {
        for (const Op* op = definition(v); op != nullptr && (op->name == "cast" || op->name == "reshape");
             op = definition(v))
            v = op->operands[0];
        return v;
    }

    Value scalar(Value v) { return builder_.reshape(v, {}); }

    void finish(Value loss, Value weight) {
        const std::size_t before = main_.results.size();
        main_.results = {loss};
        main_.result_names = {"loss"};
        if (weight) {
            main_.results.push_back(weight);
            main_.result_names.emplace_back("weight");
        }
        if (before > 1)
            report_.done("results", "main", fmt::format("{} results beside the loss are not computed", before - 1));
    }

    // ---- the model's own loss
    // --------------------------------------------------------------------------------------------

    void split(std::size_t result) {
        const std::string name = result_name(result);
        const Value root = behind(main_.results[result]);
        const Op* op = definition(root);
        const Op* entropy = op;
        Value weight;
        if (op != nullptr && op->name == "div") {
            const Value below = behind(op->operands[1]);
            const Op* count = definition(below);
            entropy = definition(behind(op->operands[0]));
            if (count == nullptr || count->name != "cross_entropy_weight" || entropy == nullptr ||
                entropy->name != "cross_entropy" || count->operands[0] != entropy->operands[1])
                entropy = nullptr;
            else
                weight = below;
        }
        if (entropy == nullptr || entropy->name != "cross_entropy" ||
            behind(op->name == "div" ? op->operands[0] : root) != entropy->results[0]) {
            report_.warning(
                "loss", name,
                "is no mean cross entropy: it is averaged over micro-steps and ranks, each counting the same");
            finish(scalar(main_.results[result]), {});
            return;
        }
        const Op found = *entropy;  // main_.ops grows below
        const std::int64_t ignore = found.attributes.integer("ignore_index", ignored_label);
        describe_labels(found.operands[1]);
        builder_.set_provenance(found.provenance);
        const bool mean = static_cast<bool>(weight);
        if (!mean)
            weight = builder_.op("cross_entropy_weight", {found.operands[1]}, {{"ignore_index", ignore}}, "weight");
        report_.done("loss", name,
                     mean ? "the model's own mean cross entropy, split into sum and weight"
                          : "the model's own summed cross entropy");
        finish(scalar(found.results[0]), weight);
    }

    // Of what is chosen or joined, the one operand that is no constant; none where there are several.
    Value only_computed(const Op& op) const {
        Value found;
        for (std::size_t k = op.name == "select" ? 1 : 0; k < op.operands.size(); ++k) {
            const Op* known = definition(op.operands[k]);
            if (known != nullptr && known->name == "constant") continue;
            if (found) return {};
            found = op.operands[k];
        }
        return found;
    }

    // Walks from the labels that the loss sees back to the input they come from.
    void describe_labels(Value labels) {
        if (!has_tokens()) return;
        bool shifted = false;
        for (const Op* op = definition(labels); op != nullptr; op = definition(labels)) {
            if (op->name == "slice") shifted = shifted || op->attributes.integer("begin") == 1;
            labels = op->name == "select" || op->name == "concat" ? only_computed(*op)
                     : op->name == "slice" || op->name == "reshape" || op->name == "cast" || op->name == "pad" ||
                             op->name == "transpose"
                         ? op->operands[0]
                         : Value{};
        }
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            ArgInfo& info = main_.argument_info[k];
            if (main_.arguments[k] != labels || info.kind != ArgInfo::Kind::input) continue;
            info.source = shifted ? "tokens" : "next_tokens";
        }
    }

    bool has_tokens() const {
        return std::any_of(main_.argument_info.begin(), main_.argument_info.end(),
                           [](const ArgInfo& info) { return info.source == "tokens"; });
    }

    // ---- a loss on logits
    // ------------------------------------------------------------------------------------------------

    // What the labels are called: a parameter may have that name.
    std::string labels_name() const {
        std::set<std::string> taken;
        for (const ArgInfo& info : main_.argument_info) {
            if (info.kind == ArgInfo::Kind::input) continue;  // add_input refuses
            taken.insert(info.names.begin(), info.names.end());
            for (const std::vector<std::string>& aliases : info.aliases) taken.insert(aliases.begin(), aliases.end());
        }
        std::string name = "labels";
        for (int k = 1; taken.contains(name); ++k) name = k == 1 ? "targets" : fmt::format("targets_{}", k);
        return name;
    }

    // An argument behind the inputs that there are.
    Value add_input(Type type, ArgInfo info) {
        std::size_t at = 0;
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            if (main_.argument_info[k].kind != ArgInfo::Kind::input) continue;
            at = k + 1;
            if (main_.argument_info[k].names.front() == info.names.front())
                fail(fmt::format(
                         "the model has an input {} and ends in {} all the same; the loss would need one of that name",
                         info.names.front(), outputs()),
                     "export the model without that input, or with its own loss as its first result");
        }
        const Value v = main_.add_value(std::move(type), info.names.front());
        main_.arguments.insert(main_.arguments.begin() + static_cast<std::ptrdiff_t>(at), v);
        main_.argument_info.insert(main_.argument_info.begin() + static_cast<std::ptrdiff_t>(at), std::move(info));
        return v;
    }

    bool batched(const Type& logits) const {
        return std::any_of(main_.argument_info.begin(), main_.argument_info.end(),
                           [](const ArgInfo& info) { return info.batched; }) &&
               std::any_of(main_.arguments.begin(), main_.arguments.end(), [&](Value v) {
                   return main_.type(v).rank() > 0 && main_.type(v).dims[0] == logits.dims[0];
               });
    }

    void append(std::size_t result) {
        const Value logits = main_.results[result];
        const Type type = main_.type(logits);
        ArgInfo info;
        info.kind = ArgInfo::Kind::input;
        const std::string name = labels_name();
        info.names = {name};
        info.batched = batched(type);
        Provenance provenance;
        provenance.scope = "loss";
        if (loss_ == "mse") {
            const Value labels = add_input(type, std::move(info));
            builder_.set_provenance(provenance);
            const Value difference = builder_.sub(logits, labels);
            Dims axes(static_cast<std::size_t>(type.rank()));
            std::iota(axes.begin(), axes.end(), 0);
            const Value squares = builder_.cast(builder_.mul(difference, difference), DType::f32);
            const Value weight = builder_.constant(
                ConstExpr::splat(Type::tensor(DType::f32, {}), static_cast<double>(type.elements())), "weight");
            report_.done(
                "loss", result_name(result),
                fmt::format("squared error against the new input {}, summed; divided by the number of elements", name));
            finish(builder_.reduce_sum(squares, axes), weight);
            return;
        }
        const std::int64_t classes = type.dims.back();
        const std::int64_t rows = type.elements() / classes;
        if (has_tokens()) info.source = "next_tokens";
        const Value labels =
            add_input(Type::tensor(DType::i64, Dims(type.dims.begin(), type.dims.end() - 1)), std::move(info));
        builder_.set_provenance(provenance);
        const Value label_rows = builder_.reshape(labels, {rows});
        const Attributes attributes = {{"ignore_index", ignored_label}};
        const Value loss = builder_.emit("cross_entropy", {builder_.reshape(logits, {rows, classes}), label_rows},
                                         attributes, "loss")[0];
        const Value weight = builder_.op("cross_entropy_weight", {label_rows}, attributes, "weight");
        report_.done("loss", result_name(result),
                     fmt::format("cross entropy over {} classes against the new input {}; {} is ignored", classes, name,
                                 ignored_label));
        finish(loss, weight);
    }

    Module module_;
    Function& main_;
    Builder builder_;
    std::string loss_;
    Report& report_;
    Uses uses_;
};

}  // namespace

Module add_loss(Module module, const std::string& loss, Report& report) {
    return LossAdder(std::move(module), loss, report).run();
}

}  // namespace thunderc
