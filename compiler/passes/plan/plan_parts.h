// SPDX-License-Identifier: Apache-2.0
// What `plan` is made of: where parameters lie, how scratch memory is packed, and the planner of one function, whose
// steps stand in plan_function.cpp, plan_loops.cpp, plan_within.cpp and plan_scratch.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/kernels/description.h"
#include "compiler/passes/plan/plan.h"
#include "compiler/planned/alignment.h"
#include "compiler/planned/carry_slots.h"
#include "compiler/planned/parameter_places.h"
#include "compiler/planned/scaling_places.h"
#include "compiler/planned/state_places.h"

namespace thunderc::planning {

using Arena = Placement::Arena;

// ---- scratch memory ----

// A piece of scratch memory over a span of ops; the offset is found by `assign_offsets`.
struct Piece {
    std::int64_t bytes = 0;
    std::size_t first = 0, last = 0;  // op indices, both inclusive
    std::int64_t offset = -1;
};

// Finds every piece's offset; the bytes that they need together.
std::int64_t assign_offsets(std::vector<Piece>& pieces);

// ---- the planner of one function ----

struct Shared {  // by all functions of a module
    ParameterPlaces parameters;
    StatePlaces states;
    ScalingPlaces scaling;
    std::int64_t constant_bytes = 0, saved_bytes = 0, batch_bytes = 0, result_bytes = 0;
    std::vector<std::pair<ConstPtr, std::int64_t>> constants;
    std::map<std::string, std::int64_t> batch;  // by the input's name
    std::int64_t scratch_bytes = 0;             // the most that an entry function needs
};

class FunctionPlanner {
  public:
    FunctionPlanner(Module& module, Function& function, Shared& shared)
        : module_(module), f_(function), shared_(shared), entry_(!function.argument_info.empty()) {}

    void run() {
        add_copies();
        uses_.emplace(f_);
        place_arguments();
        place_results();
        place_units();
        place_sums();
        place_loops();
        place_constants();
        place_within();
        place_views();
        place_scratch();
        mark_standing();
    }

  private:
    Placement& at(Value v) { return f_.info(v).placement; }
    bool placed(Value v) { return at(v).arena != Arena::unplaced; }
    const Op* definition(Value v) const {
        std::int32_t k = uses_->definition[v.index];
        return k < 0 ? nullptr : &f_.ops[static_cast<std::size_t>(k)];
    }

    // ---- copies: where a value has to be in a place of its own and its op cannot write it there ----
    bool is_argument(Value v) const;
    bool chained(std::size_t result) const;
    Value copy_at_end(Value v);
    void add_copies();
    bool take_place_of_viewed(Value v);

    // ---- arguments and results ----
    void place_arguments();
    Placement parameter_place(Arena arena, const Type& type, const std::string& name) const;
    Placement entry_argument(const Type& type, const ArgInfo& info);
    Placement state_place(const Type& type, const std::string& name) const;
    void place_results();
    Placement scalar_place(const std::string& name);

    // ---- units of a sharded model: pieces of flat tensors, which have their places ----
    void place_units();
    void place_packed(std::size_t index);

    // ---- sums: calls that add to what is there ----
    static std::vector<std::pair<std::size_t, std::size_t>> added_in_place(const Op& op, const Function& f);
    void place_sums();
    static bool is_carried(const Op& op, Value v);
    void lie_in(Value v, Value place);

    // ---- loops ----
    void place_loops();
    void place_collected(std::size_t index);
    bool is_stacked(Value family) const;
    static std::optional<std::size_t> collected_carry(const Function& body, std::size_t carried, std::size_t r);
    std::size_t place_carried(std::size_t index);
    bool ends_at(Value v, std::size_t index, std::size_t k) const;
    void first_slot(std::size_t& index, std::size_t k, const CarrySlots& slots);

    // ---- constants ----
    void place_constant_family(const Op& family);
    void place_constants();

    // ---- what a call writes straight into what a kernel makes of it ----
    bool is_handed_to(Value v, std::size_t k) const;
    bool is_own_scratch(Value v) const;
    bool is_kept(Value v) const;
    void place_within();
    void mark_standing();
    void place_pieces(const Op& op, std::size_t k, std::size_t r, const KernelDescription& kernel);
    void place_before(const Op& op, std::size_t k, std::size_t r, const KernelDescription& kernel);

    // ---- views: in the order of ops, so that a view of a view names the owner ----
    Value owner(Value v);
    void place_views();

    // ---- scratch ----
    // The results that the op writes as one tensor: they lie side by side, wherever that is.
    static std::vector<std::vector<Value>> adjacent_results(const Op& op);
    void place_scratch();
    const Function* called(const Op& op) const;
    Value in_place(const Op& op, std::size_t r, std::size_t k, const std::vector<std::size_t>& last,
                   const std::map<Value, std::size_t>& piece_of);
    void finish_views();

    struct CarriedScratch {
        Value in, out;  // the loop is the one that gives out
        std::size_t k;
        std::int64_t stride, n;
    };
    void set_carry_base(const CarriedScratch& c, std::int64_t base);

    Module& module_;
    Function& f_;
    Shared& shared_;
    bool entry_;
    std::size_t carried_ = 0;  // arguments whose slots may be what a forward loop collects
    std::optional<Uses> uses_;
    std::set<Value> reserved_;
    std::set<Value> holders_;       // values in which others lie: they lie in no third one
    std::map<Value, Value> taken_;  // values that lie in the place of a result that views them
    std::map<Value, std::int64_t> view_offset_;
    std::vector<CarriedScratch> carried_scratch_;
};

}  // namespace thunderc::planning
