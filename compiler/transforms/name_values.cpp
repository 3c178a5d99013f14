#include "compiler/transforms/name_values.h"

#include <algorithm>
#include <cctype>
#include <map>

#include "compiler/analysis/views.h"
#include "compiler/ops/op.h"

namespace thunderc {
namespace {

// Leaves that say where an op stands in a module, but not what it is.
bool is_name(const std::string& leaf) {
    return !leaf.empty() && leaf.find('{') == std::string::npos &&
           !std::all_of(leaf.begin(), leaf.end(), [](unsigned char c) { return std::isdigit(c) != 0 || c == '.'; });
}

std::string leaf_of(const std::string& scope) {
    return scope.substr(scope.rfind('.') + 1);
}

// q_proj, k_proj, v_proj -> qkv_proj; gate_proj, up_proj -> gate_up_proj.
std::string joined(const std::vector<std::string>& leaves) {
    std::size_t tail = leaves[0].size();
    for (const std::string& leaf : leaves) {
        std::size_t same = 0;
        while (same < std::min(leaf.size(), leaves[0].size()) &&
               leaf[leaf.size() - 1 - same] == leaves[0][leaves[0].size() - 1 - same])
            ++same;
        tail = std::min(tail, same);
    }
    const std::size_t begin = leaves[0].size() - tail;
    std::size_t underscore = leaves[0].find('_', begin);
    const std::string suffix = underscore == std::string::npos ? std::string() : leaves[0].substr(underscore);
    std::string out;
    bool letters = true;
    for (const std::string& leaf : leaves) letters = letters && leaf.size() - suffix.size() <= 1;
    for (const std::string& leaf : leaves)
        out += (out.empty() || letters ? "" : "_") + leaf.substr(0, leaf.size() - suffix.size());
    return out + suffix;
}

bool generic(const std::string& name) {
    return name.empty() || find_op(name) != nullptr;
}

void name_in(Function& f) {
    const Uses uses(f);
    // Scopes in which one op alone works: its value can be called after the module.
    std::map<std::string, int> work;
    for (const Op& op : f.ops)
        if (!is_view(op) && op.name != "constant") ++work[op.provenance.scope];
    for (const Op& op : f.ops) {
        if (op.results.empty() || op.name == "repeat" || op.name == "call" || op.name == "constant") continue;
        ValueInfo& first = f.info(op.results[0]);
        std::string leaf = leaf_of(op.provenance.scope);
        if (is_view(op)) {
            if (op.name == "slice" && is_name(leaf) && work[op.provenance.scope] == 0)
                first.name = leaf;
            else if (generic(first.name))
                first.name = f.info(op.operands[0]).name;
            continue;
        }
        // Several products of one input: what their slices are called.
        std::vector<std::string> parts;
        for (std::int32_t user : uses.users[op.results[0].index]) {
            const Op& slice = f.ops[static_cast<std::size_t>(user)];
            if (slice.name == "slice" && op.attributes.boolean("adjacent_weights", false))
                parts.push_back(leaf_of(slice.provenance.scope));
        }
        const bool merged = parts.size() > 1 && std::all_of(parts.begin(), parts.end(), is_name);
        if (merged)
            first.name = joined(parts);
        else if (generic(first.name) && is_name(leaf) && work[op.provenance.scope] == 1)
            first.name = leaf;
        else if (op.name == "add" && generic(first.name) && !is_name(leaf))
            first.name = "residual";
        else if (generic(first.name))
            first.name = op.name;
        const OpDef& def = op_def(op.name);
        for (std::size_t r = 1; r < op.results.size() && r < def.result_names.size(); ++r)
            f.info(op.results[r]).name = first.name + "_" + def.result_names[r];
    }
}

}  // namespace

Module name_values(Module module, Report&) {
    for (Function& f : module.functions) name_in(f);
    return module;
}

}  // namespace thunderc
