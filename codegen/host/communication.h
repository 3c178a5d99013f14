// SPDX-License-Identifier: Apache-2.0
// What ranks say to each other in a planned module, and the events between streams, as generated text names them.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/ir/op_def.h"

namespace thunderc {

// Whether the op orders streams or is on one of communication: what the text prints apart from the calls.
bool is_communication(const Op& op);

class Communication {
  public:
    explicit Communication(const Module& module);

    bool any() const { return !streams_.empty(); }

    // A member of Model. In a loop, where a wait means the record of an iteration before, there are as many as are
    // waited for at once, and that of layer i is i modulo their number.
    struct EventName {
        std::string name;         // "bucket_0_ready_"
        std::int64_t number = 1;  // more than one: an array
    };
    const std::vector<EventName>& events() const { return events_; }
    const EventName& event(const Function& function, const std::string& name) const;

    // In the order of the module's. A name hides no function that the program calls.
    struct StreamName {
        std::string name;     // "reduce", "gather_stream"
        std::string purpose;  // "gradients are summed over ranks"
    };
    const std::vector<StreamName>& streams() const { return streams_; }
    const std::string& stream_of(const Op& op) const;  // its name; of what computes "stream"
    // Those that have one of these ops of an entry function, or one of their loops, by their places in `streams`.
    std::vector<std::size_t> streams_of(std::span<const Op> ops) const;

    // The name of the scalar under which the op, of a function or of the body of `loop`, is there; "" for always.
    std::string flag(const Function& function, const Op* loop, const Op& op) const;

    // The collectives of a step in the order of the text.
    struct Row {
        Collective kind{};
        std::string name, what;  // "bucket 0", the parameters
        std::int64_t times = 0, elements = 0;
        std::string when;  // "in the first micro-step"; "": in each
        // Of a loop's: how many layers that has, and how many are sent as one, gathered ahead of their turn, there from
        // before, and in memory at once. 0 layers: it stands in no loop.
        std::int64_t layers = 0, together = 1, ahead = 0, resident = 0, slots = 0;
        bool backward = false;
        bool in_turns = false;  // of no loop, in a room that the next ones take turns in
        std::string group, reason;
    };
    std::vector<Row> rows() const;
    // The same in a text: what ranks compare at start, to find out that they run the same program.
    std::vector<std::string> schedule() const;

  private:
    void find_events(const Function& function);

    const Module* module_;
    std::vector<EventName> events_;
    std::map<std::pair<std::string, std::string>, std::size_t> event_of_;  // by function and the IR's name
    std::vector<StreamName> streams_;
};

}  // namespace thunderc
