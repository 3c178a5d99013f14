#include "compiler/transforms/lower_collectives.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "compiler/support/error.h"
#include "compiler/transforms/function_tools.h"

namespace thunderc::planning {
namespace {

bool is_token(const Function& f, Value v) {
    return f.type(v).kind == Type::Kind::token;
}

Op event(const char* what, const std::string& name, const std::string& stream) {
    Op op;
    op.name = what;
    op.attributes.set("event", name);
    op.stream = stream;
    return op;
}

// What stands behind a token: the collective is the last one of its name on the stream.
struct Sent {
    std::string stream, name;
    std::size_t op = 0;  // of the function: the start, or the loop that holds it
    std::optional<std::int64_t> layers;
};

class Lowering {
  public:
    explicit Lowering(Module& module) : module_(module) {}

    void run() {
        // Bodies of loops first: what their tokens stand for.
        for (Function& f : module_.functions)
            if (f.kind == "loop") lower(f);
        for (Function& f : module_.functions)
            if (f.kind.empty()) lower(f);
    }

  private:
    void use_stream(const std::string& name) {
        if (std::find(module_.streams.begin(), module_.streams.end(), name) == module_.streams.end())
            module_.streams.push_back(name);
    }

    // The tokens among a function's results go; what they stand for is kept for the loops that call it.
    void drop_token_results(Function& f, const std::map<Value, Sent>& sent) {
        std::vector<Value> results;
        for (Value v : f.results) {
            if (!is_token(f, v)) {
                results.push_back(v);
                continue;
            }
            given_[f.name].push_back(sent.at(v));
        }
        f.results = std::move(results);
    }

    void lower(Function& f) {
        std::map<Value, Sent> sent = find_tokens(f);
        if (sent.empty()) return;
        // Which tokens' ends are recorded: of those that an await has on one stream, the last.
        std::map<std::size_t, Sent> recorded;                  // by op
        std::map<std::size_t, std::vector<std::string>> ends;  // by await: events
        std::map<Value, Value> forwarded;
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            const Op& op = f.ops[k];
            if (op.name != "await") continue;
            std::map<std::string, Sent> last;  // by stream
            for (Value v : op.operands) {
                if (!is_token(f, v)) continue;
                const Sent& one = sent.at(v);
                auto [at, fresh] = last.try_emplace(one.stream, one);
                if (!fresh && at->second.op < one.op) at->second = one;
            }
            for (const auto& [stream, one] : last) {
                recorded[one.op] = one;
                ends[k].push_back(one.name + "_done");
            }
            for (std::size_t r = 0; r < op.results.size(); ++r) forwarded[op.results[r]] = op.operands[r];
        }
        std::vector<Op> ops;
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            Op& op = f.ops[k];
            if (op.name == "await") {
                for (const std::string& name : ends[k]) {
                    ops.push_back(event("wait", name, ""));
                    ops.back().provenance = op.provenance;
                    if (op.attributes.has("reason"))
                        ops.back().attributes.set("reason", op.attributes.string("reason"));
                }
                continue;
            }
            if (op.name == "all_reduce_start")
                start(f, op, ops);
            else
                ops.push_back(without_tokens(f, op));
            if (auto at = recorded.find(k); at != recorded.end())
                ops.push_back(event("record", at->second.name + "_done", at->second.stream));
        }
        f.ops = std::move(ops);
        drop_token_results(f, sent);
        substitute(f, forwarded);
        compact_values(f);
    }

    std::map<Value, Sent> find_tokens(const Function& f) const {
        std::map<Value, Sent> sent;
        for (std::size_t k = 0; k < f.ops.size(); ++k) {
            const Op& op = f.ops[k];
            if (op.name == "all_reduce_start") {
                sent[op.results.back()] = {"reduce", op.attributes.string("name"), k, {}};
                continue;
            }
            if (op.name != "repeat") continue;
            const auto given = given_.find(op.attributes.string("body"));
            std::size_t next = 0;
            for (Value v : op.results)
                if (is_token(f, v)) {
                    sent[v] = given->second.at(next++);
                    sent[v].op = k;
                }
        }
        return sent;
    }

    void start(const Function& f, const Op& op, std::vector<Op>& ops) {
        const std::string name = op.attributes.string("name"), stream = "reduce";
        use_stream(stream);
        for (const char* what : {"record", "wait"}) {
            ops.push_back(event(what, name + "_ready", std::string(what) == "wait" ? stream : ""));
            if (op.attributes.has("layers")) ops.back().attributes.set("layers", op.attributes.integer("layers"));
        }
        Op collective = without_tokens(f, op);
        collective.name = "all_reduce";
        collective.stream = stream;
        ops.push_back(std::move(collective));
    }

    static Op without_tokens(const Function& f, Op op) {
        std::erase_if(op.results, [&f](Value v) { return is_token(f, v); });
        return op;
    }

    Module& module_;
    std::map<std::string, std::vector<Sent>> given_;  // by a loop's body: what the tokens among its results stand for
};

}  // namespace

void lower_collectives(Module& module) {
    Lowering(module).run();
}

}  // namespace thunderc::planning
