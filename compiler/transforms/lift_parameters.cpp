#include "compiler/transforms/lift_parameters.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <utility>

#include "compiler/ir/builder.h"
#include "compiler/ops/op.h"
#include "compiler/support/error.h"

namespace thunderc {
namespace {

// What a consumer takes an initializer for.
enum class Role : std::uint8_t {
    product,  // the right operand of a matrix product
    table,    // rows looked up by ids
    scale,    // of a normalisation or a product by elements
    shift,    // added
    other,
};

// One use of an initializer, behind ops that only rearrange it.
struct Site {
    std::int32_t direct = 0;  // the op that takes the initializer itself
    Role role = Role::other;
    bool rearranged = false;  // a transpose, reshape or cast stands between
    const Op* consumer = nullptr;
    std::string scope, module_class;
};

enum class Verdict : std::uint8_t { parameter, constant };

// A parameter as it will be: one for each name.
struct Lifted {
    std::string name;
    std::vector<std::string> aliases;
    std::string note;
    Type type;
    bool transposed = false;
    std::shared_ptr<const WeightSource> source;
    std::set<std::int32_t> users;  // ops that take it
    std::int32_t first_use = 0;
    std::size_t argument = 0;  // which it comes from
    bool table = false, product = false;
};

bool is_dotted(const std::string& name) {
    return name.find('.') != std::string::npos && name.find('/') == std::string::npos &&
           name.find(':') == std::string::npos;
}

std::string parent(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? std::string() : name.substr(0, dot);
}

std::string leaf(const std::string& name) {
    const std::size_t dot = name.rfind('.');
    return dot == std::string::npos ? name : name.substr(dot + 1);
}

bool within(const std::string& scope, const std::string& outer) {  // outer itself, or a module inside it
    return outer.empty() || scope == outer || scope.starts_with(outer + ".");
}

bool mentions(std::string text, std::string_view word) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text.find(word) != std::string::npos;
}

// Buffers that common models register. They are saved with a model at most, never trained.
bool buffer_name(const std::string& name) {
    static const std::set<std::string> names = {
        "inv_freq",     "original_inv_freq",  "cos_cached", "sin_cached",  "cos",       "sin",          "freqs_cis",
        "embed_scale",  "masked_bias",        "mask",       "causal_mask", "attn_mask", "running_mean", "running_var",
        "position_ids", "num_batches_tracked"};
    return names.contains(leaf(name));
}

bool parameter_name(const std::string& name) {
    static const std::set<std::string> names = {"weight", "bias", "gamma", "beta"};
    return names.contains(leaf(name));
}

// "add_4" -> "add": what the exporter's name says of the op that it evaluated; "" where it does not ("val_7", and
// "onnx::Mul_7", which is called after its consumer).
std::string folded_op(const std::string& name) {
    if (name.find(':') != std::string::npos) return "";
    std::string text = name.substr(0, name.find_last_not_of("0123456789") + 1);
    while (!text.empty() && text.back() == '_') text.pop_back();
    return text == "val" ? "" : text;
}

// A name with its numbers left out, to tell kinds of parameters apart.
std::string without_numbers(const std::string& name) {
    std::string out;
    for (char c : name)
        if (std::isdigit(static_cast<unsigned char>(c)) == 0) out += c;
    return out;
}

bool rearranges(const std::string& op) {
    return op == "transpose" || op == "reshape" || op == "cast" || op == "broadcast_to";
}

Role role_of(const Op& op, Value v) {
    auto is = [&](std::size_t k) { return k < op.operands.size() && op.operands[k] == v; };
    if (op.name == "matmul" || op.name == "linear") return is(1) ? Role::product : is(2) ? Role::shift : Role::other;
    if (op.name == "gather" || op.name == "embedding")
        return is(op.name == "gather" ? 0 : 1) ? Role::table : Role::other;
    if (op.name == "layer_norm" || op.name == "rms_norm")
        return is(1) ? Role::scale : is(2) ? Role::shift : Role::other;
    if (op.name == "mul") return Role::scale;
    if (op.name == "add") return Role::shift;
    return Role::other;
}

std::vector<std::byte> read_source(const WeightSource& source) {
    return source.read ? source.read() : std::vector<std::byte>{};
}

// The elements of a source. Only f32 and bf16 are stored.
Tensor read_tensor(const WeightSource& source, const std::string& name) {
    if (!source.read) {
        Diagnostic d;
        d.message = fmt::format("the constant {} is in the external file {}, which is missing", name, source.missing);
        d.help = "put the file beside the model: constants are compiled into the program";
        throw UserError(std::move(d));
    }
    const std::vector<std::byte> bytes = source.read();
    Tensor out(source.type);
    for (std::size_t k = 0; k < out.f.size(); ++k) {
        float value = 0;
        if (source.type.dtype == DType::bf16) {
            std::uint16_t half = 0;
            std::memcpy(&half, bytes.data() + 2 * k, 2);
            const std::uint32_t bits = static_cast<std::uint32_t>(half) << 16;
            std::memcpy(&value, &bits, 4);
        } else {
            std::memcpy(&value, bytes.data() + 4 * k, 4);
        }
        out.f[k] = static_cast<double>(value);
    }
    return out;
}

// Whether all elements are equal: then two parameters can be equal by initialisation. nullopt: the data is not there.
std::optional<bool> uniform(const WeightSource* source) {
    if (source == nullptr || !source->read) return std::nullopt;
    const std::vector<std::byte> bytes = source->read();
    const std::size_t step = size_of(source->type.dtype);
    for (std::size_t k = step; k + step <= bytes.size(); k += step)
        if (std::memcmp(bytes.data(), bytes.data() + k, step) != 0) return false;
    return true;
}

// Whether two sources hold the same matrix, the one as it is used and the other as it is used. Uniform ones are not
// told apart from an initialisation, so they are no tie.
bool same_matrix(const Lifted& a, const Lifted& b) {
    if (!a.source || !b.source || !a.source->read || !b.source->read || a.type != b.type || a.type.rank() != 2)
        return false;
    const std::vector<std::byte> x = read_source(*a.source), y = read_source(*b.source);
    if (x.size() != y.size()) return false;
    const std::size_t step = size_of(a.type.dtype);
    const auto rows = static_cast<std::size_t>(a.type.dims[0]), columns = static_cast<std::size_t>(a.type.dims[1]);
    auto at = [&](const std::vector<std::byte>& bytes, bool transposed, std::size_t r, std::size_t c) {
        return bytes.data() + step * (transposed ? c * rows + r : r * columns + c);
    };
    bool varied = false;
    for (std::size_t r = 0; r < rows; ++r)
        for (std::size_t c = 0; c < columns; ++c) {
            if (std::memcmp(at(x, a.transposed, r, c), at(y, b.transposed, r, c), step) != 0) return false;
            varied = varied || std::memcmp(x.data(), at(x, a.transposed, r, c), step) != 0;
        }
    return varied;
}

std::optional<std::regex> expression(const std::string& text, const char* flag) {
    if (text.empty()) return std::nullopt;
    try {
        return std::regex(text);
    } catch (const std::regex_error&) {
        Diagnostic d;
        d.message = fmt::format("{} \"{}\" is not a regular expression", flag, text);
        d.help = fmt::format("for example: {} 'model\\.layers\\.[0-9]+\\..*'", flag);
        throw UsageError(std::move(d));
    }
}

class Lifter {
  public:
    Lifter(Module module, const LiftOptions& options, Report& report)
        : options_(options),
          module_(std::move(module)),
          main_(module_.main()),
          report_(report),
          uses_(main_),
          trainable_(expression(options.trainable, "--trainable")),
          constant_(expression(options.constant, "--constant")) {}

    Module run() {
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            const ArgInfo& info = main_.argument_info[k];
            if (info.kind == ArgInfo::Kind::input) continue;
            check(!info.names.empty(), "an initializer has a name");
            const Value v = main_.arguments[k];
            const std::vector<Site> sites = find_sites(v);
            if (sites.empty() && !uses_.is_result[v.index]) {
                report_.done("unused", info.names.front(), "nothing reads it: left out");
                continue;
            }
            const Verdict verdict = decide(k, sites);
            if (verdict == Verdict::constant)
                constants_.push_back(k);
            else
                lift(k, sites);
        }
        expect_match("--constant", options_.constant, constant_matches_);
        expect_match("--trainable", options_.trainable, trainable_matches_);
        warn_of_folded();
        tie_head();
        make_names_unique();
        rebuild();
        return std::move(module_);
    }

  private:
    // ---- where an initializer is used
    // ----------------------------------------------------------------------------------

    void follow(Value v, std::int32_t direct, bool rearranged, std::vector<Site>& sites) const {
        for (std::int32_t user : uses_.users[v.index]) {
            const Op& op = main_.ops[static_cast<std::size_t>(user)];
            const std::int32_t first = direct < 0 ? user : direct;
            if (rearranges(op.name) && !uses_.users[op.results[0].index].empty()) {
                follow(op.results[0], first, true, sites);
                continue;
            }
            sites.push_back({first, role_of(op, v), rearranged, &op, op.provenance.scope, op.provenance.module_class});
        }
    }

    std::vector<Site> find_sites(Value v) const {
        std::vector<Site> sites;
        follow(v, -1, false, sites);
        return sites;
    }

    static void expect_match(const char* flag, const std::string& pattern, std::size_t matches) {
        if (pattern.empty() || matches > 0) return;
        Diagnostic d;
        d.message = fmt::format("{} {} matches no tensor of the graph", flag, pattern);
        d.help = "thunderc inspect lists parameters, and constants with the reason why they are";
        throw UserError(std::move(d));
    }

    // ---- parameter or constant
    // -----------------------------------------------------------------------------------------

    Verdict decide(std::size_t k, const std::vector<Site>& sites) {
        const ArgInfo& info = main_.argument_info[k];
        const std::string& name = info.names.front();
        const std::string restored = sites.empty() ? name : target(k, sites.front());
        auto matches = [&](const std::optional<std::regex>& e) {
            return e && (std::regex_search(name, *e) || std::regex_search(restored, *e));
        };
        const bool wanted_constant = matches(constant_), wanted_trainable = matches(trainable_);
        constant_matches_ += wanted_constant ? 1 : 0;
        trainable_matches_ += wanted_trainable ? 1 : 0;
        if (wanted_constant && wanted_trainable) {
            Diagnostic d;
            d.message = fmt::format("both --constant and --trainable match {}", restored);
            d.help = "make one of the two expressions narrower";
            throw UserError(std::move(d));
        }
        if (wanted_constant) return constant(name, "by --constant");
        if (wanted_trainable) return Verdict::parameter;
        if (info.kind == ArgInfo::Kind::parameter) return Verdict::parameter;
        if (info.kind == ArgInfo::Kind::constant) return constant(name, "a buffer, as the exporter says");
        if (is_dotted(name)) {
            if (buffer_name(name)) return constant(name, "a buffer, by its name");
            if (!parameter_name(name))
                report_.warning(
                    "parameter", name,
                    fmt::format("taken for a parameter by its name; if it is a buffer, add --constant '{}'", name));
            return Verdict::parameter;
        }
        return decide_unnamed(k, sites);
    }

    Verdict constant(const std::string& name, const std::string& why) {
        report_.done("constant", name, why);
        return Verdict::constant;
    }

    Verdict decide_unnamed(std::size_t k, const std::vector<Site>& sites) {
        const std::string& name = main_.argument_info[k].names.front();
        const Type& type = main_.type(main_.arguments[k]);
        if (sites.empty()) return constant(name, "an output of the graph that nothing computes");
        bool rotary = true, scoped = true, classed = true;
        for (const Site& site : sites) {
            rotary = rotary && (mentions(site.scope, "rotary") || mentions(site.module_class, "rotary"));
            scoped = scoped && !site.scope.empty();
            classed = classed && !site.module_class.empty();
        }
        if (rotary) return constant(name, fmt::format("used in {}", sites.front().scope));
        for (const Site& site : sites) {
            const std::string& c = site.module_class;
            const bool layer = c.empty() ? !site.scope.empty() : mentions(c, "linear") || mentions(c, "conv1d");
            if (site.role == Role::product && type.rank() == 2 && layer) return Verdict::parameter;
            if (site.role == Role::table && type.rank() == 2 && (c.empty() ? scoped : mentions(c, "embedding")))
                return Verdict::parameter;
            if (site.role == Role::shift && type.rank() == 1 && !c.empty() && layer) return Verdict::parameter;
            if ((site.role == Role::scale || site.role == Role::shift) && type.rank() == 1 &&
                (mentions(c, "norm") || (c.empty() && mentions(leaf(site.scope), "norm")) ||
                 mentions(site.consumer->name, "norm")))
                return Verdict::parameter;
            if (site.role == Role::shift && folded_op(name) == "embedding") return Verdict::parameter;
            if (site.role == Role::product && type.rank() == 2) {
                report_.warning(
                    "parameter", name,
                    fmt::format(
                        "nothing says what the matrix [{}] in a product{} is: taken for a parameter; if it is not "
                        "to be trained, add --constant '^{}$'",
                        to_string(type.dims), in_scope(site), name));
                return Verdict::parameter;
            }
        }
        if (scoped && classed)
            return constant(name, fmt::format("used in {} ({}), which is no layer with parameters of its own",
                                              sites.front().scope, sites.front().module_class));
        report_.warning(
            "constant", name,
            fmt::format(
                "nothing says what the tensor [{}] in {}{} is: taken for a constant; if it is to be trained, add "
                "--trainable '^{}$'",
                to_string(type.dims), sites.front().consumer->name, in_scope(sites.front()), name));
        return Verdict::constant;
    }

    static std::string in_scope(const Site& site) { return site.scope.empty() ? "" : " in " + site.scope; }

    // ---- names
    // ---------------------------------------------------------------------------------------------------------

    // The name that one use speaks for.
    std::string target(std::size_t k, const Site& site) const {
        const std::string& name = main_.argument_info[k].names.front();
        if (is_dotted(name)) {
            const std::string own = parent(name);
            if (site.scope.empty() || within(own, site.scope) || within(site.scope, own)) return name;
            return site.scope + "." + (parameter_name(name) ? leaf(name) : leaf_of(k, site));
        }
        return site.scope.empty() ? name : site.scope + "." + leaf_of(k, site);
    }

    std::string leaf_of(std::size_t k, const Site& site) const {
        const std::string& name = main_.argument_info[k].names.front();
        const std::string base =
            site.role == Role::shift && main_.type(main_.arguments[k]).rank() == 1 ? "bias" : "weight";
        if (!folded(k, site)) return base;
        return folded_op(name).empty() ? base + "_folded" : base + "_folded_" + folded_op(name);
    }

    // An unnamed tensor where a parameter would keep its name holds what the exporter computed from one. (Products are
    // another matter: transposing a weight renames it too.)
    bool folded(std::size_t k, const Site& site) const {
        return !is_dotted(main_.argument_info[k].names.front()) &&
               (site.role == Role::scale || site.role == Role::shift) &&
               main_.argument_info[k].kind == ArgInfo::Kind::value;
    }

    // torch transposes the weight of a Linear for a product and folds that; a Conv1D of GPT-2 has (in, out) to begin
    // with.
    bool was_transposed(std::size_t k, const std::vector<Site>& sites) const {
        const std::string& name = main_.argument_info[k].names.front();
        if (is_dotted(name) || main_.argument_info[k].kind == ArgInfo::Kind::parameter ||
            main_.type(main_.arguments[k]).rank() != 2)
            return false;
        return std::all_of(sites.begin(), sites.end(), [](const Site& site) {
            return site.role == Role::product && !site.rearranged && !site.scope.empty() &&
                   !mentions(site.module_class, "conv1d") &&
                   !(site.consumer->name == "matmul" && site.consumer->attributes.boolean("transpose_b", false));
        });
    }

    void lift(std::size_t k, const std::vector<Site>& sites) {
        const ArgInfo& info = main_.argument_info[k];
        const std::string& name = info.names.front();
        const std::shared_ptr<const WeightSource> source = info.sources.empty() ? nullptr : info.sources.front();
        // Names in the order of use. An op that takes the initializer speaks for one name.
        std::vector<std::string> targets;
        std::map<std::string, std::vector<Site>> groups;
        std::map<std::int32_t, std::string> spoken;
        for (const Site& site : sites) {
            const std::string wanted = spoken.emplace(site.direct, target(k, site)).first->second;
            if (!groups.contains(wanted)) targets.push_back(wanted);
            groups[wanted].push_back(site);
        }
        if (targets.empty()) targets.push_back(name);
        if (targets.size() == 1) {
            // A table that is named after another module than the one that looks rows up in it is tied to that one's
            // weight, of which the exporter kept a copy, or none.
            const bool foreign = is_dotted(name) && targets.front() != name;
            const bool table =
                std::any_of(sites.begin(), sites.end(), [](const Site& s) { return s.role == Role::table; });
            Lifted& lifted = add(k, foreign && !table ? name : targets.front(), sites, source);
            if (foreign && table) lifted.aliases.push_back(name);
            return;
        }
        const auto table = std::find_if(targets.begin(), targets.end(), [&](const std::string& t) {
            return std::any_of(groups[t].begin(), groups[t].end(), [](const Site& s) { return s.role == Role::table; });
        });
        const bool matrix = main_.type(main_.arguments[k]).rank() >= 2;
        // The same numbers under several names. A table that is also a head is tied on purpose; so is what holds
        // different numbers. What is one number throughout (norms of a model as initialised) is equal by chance.
        const bool tied = table != targets.end() || !uniform(source.get()).value_or(!matrix);
        if (tied) {
            const std::string first = table != targets.end() ? *table : groups.contains(name) ? name : targets.front();
            Lifted& lifted = add(k, first, sites, source);
            for (const std::string& other : targets)
                if (other != first) lifted.aliases.push_back(other);
            if (is_dotted(name) && name != first && !groups.contains(name)) lifted.aliases.push_back(name);
            report_.done("tied", first, fmt::format("also {}", fmt::join(lifted.aliases, ", ")));
            return;
        }
        for (const std::string& t : targets) add(k, t, groups[t], source);
        report_.done("untied", name,
                     fmt::format("one initializer of equal numbers was {} parameters: {}", targets.size(),
                                 fmt::join(targets, ", ")));
    }

    Lifted& add(std::size_t k, const std::string& name, const std::vector<Site>& sites,
                std::shared_ptr<const WeightSource> source) {
        const std::string& before = main_.argument_info[k].names.front();
        Lifted lifted;
        lifted.name = name;
        lifted.type = main_.type(main_.arguments[k]);
        lifted.source = std::move(source);
        lifted.argument = k;
        lifted.first_use = static_cast<std::int32_t>(main_.ops.size());
        for (const Site& site : sites) {
            lifted.users.insert(site.direct);
            lifted.first_use = std::min(lifted.first_use, site.direct);
            lifted.table = lifted.table || site.role == Role::table;
            lifted.product = lifted.product || site.role == Role::product;
            if (!folded(k, site) || !lifted.note.empty()) continue;
            const std::string what = folded_op(before).empty() ? "something" : folded_op(before);
            lifted.note =
                fmt::format("the exporter evaluated {} over the parameter; this is not the checkpoint's tensor", what);
            folded_[{without_numbers(name), what}].push_back(name);
        }
        if (was_transposed(k, sites)) {
            std::swap(lifted.type.dims[0], lifted.type.dims[1]);
            lifted.transposed = true;
        }
        if (name != before || lifted.transposed)
            report_.done("parameter", name,
                         fmt::format("from the initializer {}{}", before, lifted.transposed ? ", transposed" : ""));
        lifted_.push_back(std::move(lifted));
        return lifted_.back();
    }

    // One warning for the layers' tensors of one kind.
    void warn_of_folded() {
        for (const auto& [kind, names] : folded_)
            report_.warning(
                "folded", name_pattern(names),
                fmt::format("holds what the exporter evaluated ({}), not the parameter. Loading and saving it under "
                            "the checkpoint's name would be wrong. Export with optimize=False to keep the parameter.",
                            kind.second));
    }

    // Two initializers of equal, varied content, of which one is an embedding and the other a product's weight: a tie
    // of which the exporter kept two copies, one of them transposed.
    void tie_head() {
        for (std::size_t t = 0; t < lifted_.size(); ++t) {
            if (!lifted_[t].table) continue;
            for (std::size_t h = 0; h < lifted_.size(); ++h) {
                Lifted& head = lifted_[h];
                if (h == t || head.table || !head.product || head.users.empty() || !same_matrix(lifted_[t], head))
                    continue;
                ties_[h] = t;
                std::vector<std::string>& aliases = lifted_[t].aliases;
                if (std::find(aliases.begin(), aliases.end(), head.name) == aliases.end()) aliases.push_back(head.name);
                lifted_[t].first_use = std::min(lifted_[t].first_use, head.first_use);
                report_.done("tied", lifted_[t].name,
                             fmt::format("also {}: two initializers of equal content", head.name));
            }
        }
    }

    void make_names_unique() {
        std::set<std::string> taken;
        for (std::size_t k = 0; k < lifted_.size(); ++k) {
            if (ties_.contains(k)) continue;
            Lifted& lifted = lifted_[k];
            std::string name = lifted.name;
            for (int n = 1; !taken.insert(name).second; ++n) name = fmt::format("{}_{}", lifted.name, n);
            if (name != lifted.name) {
                report_.warning("parameter", name,
                                fmt::format("two parameters would be called {}: check the names of both", lifted.name));
                lifted.note = fmt::format("a second {} of its module", lifted.name);
                lifted.name = name;
            }
        }
    }

    // ---- the new function
    // ----------------------------------------------------------------------------------------------

    void rebuild() {
        Function out;
        out.name = main_.name;
        out.result_names = main_.result_names;
        std::vector<Value> map(main_.values.size());
        for (std::size_t k = 0; k < main_.arguments.size(); ++k) {
            if (main_.argument_info[k].kind != ArgInfo::Kind::input) continue;
            const ValueInfo& info = main_.info(main_.arguments[k]);
            map[main_.arguments[k].index] = out.add_argument(info.type, info.name, main_.argument_info[k]);
        }
        std::vector<std::size_t> order;
        for (std::size_t k = 0; k < lifted_.size(); ++k)
            if (!ties_.contains(k)) order.push_back(k);
        std::stable_sort(order.begin(), order.end(),
                         [&](std::size_t a, std::size_t b) { return lifted_[a].first_use < lifted_[b].first_use; });
        std::vector<Value> arguments(lifted_.size()), turned(lifted_.size());
        for (std::size_t k : order) {
            const Lifted& lifted = lifted_[k];
            ArgInfo info = main_.argument_info[lifted.argument];
            info.kind = ArgInfo::Kind::parameter;
            info.names = {lifted.name};
            info.aliases = {lifted.aliases};
            info.note = lifted.note;
            info.trainable = true;
            if (lifted.source) {
                auto source = std::make_shared<WeightSource>(*lifted.source);
                source->transposed = lifted.transposed;
                info.sources = {std::move(source)};
            }
            arguments[k] = out.add_argument(lifted.type, lifted.name, std::move(info));
        }
        for (const auto& [head, table] : ties_) arguments[head] = arguments[table];
        Builder builder(out);
        for (std::size_t k : constants_) {
            const Value v = main_.arguments[k];
            Provenance provenance;
            if (!uses_.users[v.index].empty())
                provenance = main_.ops[static_cast<std::size_t>(uses_.users[v.index].front())].provenance;
            builder.set_provenance(std::move(provenance));
            const std::string& name = main_.argument_info[k].names.front();
            map[v.index] = builder.constant(
                ConstExpr::dense(read_tensor(*main_.argument_info[k].sources.front(), name)), main_.info(v).name);
        }
        for (std::size_t at = 0; at < main_.ops.size(); ++at) {
            const Op& op = main_.ops[at];
            builder.set_provenance(op.provenance);
            std::vector<Value> operands;
            for (Value v : op.operands) {
                if (!v) {
                    operands.push_back(v);
                    continue;
                }
                Value now = map[v.index];
                for (std::size_t k = 0; k < lifted_.size() && !now; ++k) {
                    const Lifted& lifted = lifted_[k];
                    if (main_.arguments[lifted.argument] != v || !lifted.users.contains(static_cast<std::int32_t>(at)))
                        continue;
                    if (lifted.transposed && !turned[k]) turned[k] = builder.transpose(arguments[k], {1, 0});
                    now = lifted.transposed ? turned[k] : arguments[k];
                }
                check(static_cast<bool>(now),
                      fmt::format("the operand %{} of {} is lifted", main_.info(v).name, op.name));
                operands.push_back(now);
            }
            const std::vector<Value> results = builder.clone(op, std::move(operands), main_);
            for (std::size_t r = 0; r < results.size(); ++r) map[op.results[r].index] = results[r];
        }
        for (Value v : main_.results) {
            Value now = map[v.index];
            for (std::size_t k = 0; k < lifted_.size() && !now; ++k)
                if (main_.arguments[lifted_[k].argument] == v) now = arguments[k];
            check(static_cast<bool>(now), "a result is lifted");
            out.results.push_back(now);
        }
        main_ = std::move(out);
    }

    const LiftOptions& options_;
    Module module_;
    Function& main_;
    Report& report_;
    Uses uses_;
    std::optional<std::regex> trainable_, constant_;
    std::size_t constant_matches_ = 0, trainable_matches_ = 0;
    std::vector<std::size_t> constants_;  // arguments
    std::vector<Lifted> lifted_;
    std::map<std::size_t, std::size_t> ties_;                                         // a head -> the table that it is
    std::map<std::pair<std::string, std::string>, std::vector<std::string>> folded_;  // by kind and what was evaluated
};

}  // namespace

Module lift_parameters(Module module, const LiftOptions& options, Report& report) {
    return Lifter(std::move(module), options, report).run();
}

}  // namespace thunderc
