// SPDX-License-Identifier: Apache-2.0
// Groups of ops of a function that become one kernel each. A part of `fuse`.
//
// At first each op is a group of its own; views and lazy constants are nobody's: the kernels that read them take them
// in. Groups are merged where one kernel can do the work of both and costs less.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "compiler/analysis/views.h"
#include "compiler/ir/function_tools.h"
#include "compiler/ir/module.h"
#include "compiler/kernels/description.h"
#include "compiler/passes/fusion/group_order.h"
#include "compiler/passes/fusion/kernel_facts.h"

namespace thunderc {

// A kernel function made of ops of a function, and how the two meet.
struct Extracted {
    Function function;            // its ops still say where they are from
    std::vector<Value> operands;  // values of the surrounding function
    std::vector<Value> results;
    Provenance provenance;
    std::string composite;   // what most of its ops were part of; "" where they were part of none
    std::string place = {};  // see kernel_places.h
};

struct Group {
    std::vector<int> ops;         // indices into the function's ops, ascending; empty: merged into another
    std::vector<Value> operands;  // what the kernel is given
    std::optional<double> cost;   // where somebody has asked for it
    double most = 0;              // what it costs at most
    bool plain = false;           // all ops are, and their results have the same dimensions
    std::size_t values = 0;       // that the kernel computes with at most
    int composite = 0;            // what all ops were part of: a number, or one of the two below
    int version = 0;              // counts what was merged into it
    // Of a group that becomes a kernel:
    std::int64_t bytes = 0;  // that it moves
    std::vector<bool> read;  // by operand: the kernel reads it
};

// Marks the ops that compute a value again where it is read; such a value is not computed again once more.
inline constexpr const char* recomputed_attribute = "recomputed";

// Recomputed by whoever reads it, at no cost: index arithmetic.
bool is_free(const Op& op);
// Forgets the attributes that only fusion reads.
void forget_origin(Op& op);

class KernelGroups {
  public:
    static constexpr int none = -1;

    // Facts are taken from `facts` where they are there, and added to them.
    KernelGroups(const Function& function, KernelFacts& facts);
    // Makes one of groups wherever that moves fewer bytes.
    void merge_all();
    // Undoes what made one group of several: each op is one by itself again.
    void part(int group);
    // Describes the groups as they are now.
    void describe_all();

    const Function& function() const { return f_; }
    const Uses& uses() const { return uses_; }
    const std::vector<Group>& groups() const { return groups_; }
    const std::vector<int>& members(int group) const { return groups_[static_cast<std::size_t>(group)].ops; }
    // The group of an op; none: no kernel's.
    int of(int k) const { return group_of_[static_cast<std::size_t>(k)]; }
    // Whether kernels take the op in: a view or a constant that needs no memory of its own.
    bool is_transparent(int k) const;
    // Whether anything outside of the group reads the value, views of it included.
    bool escapes(Value v, int group) const;
    // Of a group that was described. Without what the kernel would be given and never read: parts of a concatenation
    // that no result shows.
    Extracted extract(int group) const;
    // The operands that this kernel will have.
    std::vector<Value> operands_read(int group) const;

    // The groups whose results an op reads, through views, the nearest first.
    std::vector<int> producers(int k) const;
    // Why the two did not become one.
    std::string why_apart(int a, int b) const;
    // What the ops of the group would move if each was a kernel.
    std::int64_t bytes_apart(int group) const;
    // The module that the group belongs to, or the value that it computes where none is known.
    std::string where(int group) const;

  private:
    const Op& op(int k) const { return f_.ops[static_cast<std::size_t>(k)]; }
    Group& at(int group) { return groups_[static_cast<std::size_t>(group)]; }
    int definition(Value v) const { return uses_.definition[v.index]; }

    void classify();
    void begin_group(int k);
    void check_each();
    bool begin_with_one(int g);
    void keep_views_apart(int g);
    std::optional<ViewLayout> layout_of(Value v) const;
    bool must_copy(int k) const;
    bool read_by_kernels_alone(Value v) const;

    std::uint32_t kind_of(int k);
    // A kernel of these ops, which have the number of one group.
    KernelOutline outline(const std::vector<int>& ops, int group);
    Extracted extract(const std::vector<int>& ops, int group) const;
    void say_where_from(Extracted& kernel, const std::vector<int>& ops) const;
    const KernelFact& fact_of(const std::vector<int>& ops, int group, const KernelOutline& kernel);
    bool is_plain(int k, const KernelDescription& kernel) const;
    void find_compared();
    double cost(int group);

    void collect_readers();
    bool try_merge(int a, int b, double least_saving);
    std::string join(int a, int b, double least_saving);
    bool is_plain(const Group& merged) const;
    void become_one(int a, int b, Group merged);
    void merge_producers();
    void merge_siblings();
    int composite_of(int k);

    static constexpr int of_nothing = -1;  // casts alone, which are between what others are part of
    static constexpr int of_several = -2;  // or of none

    const Function& f_;
    const Uses uses_;
    KernelFacts& facts_;
    std::vector<int> group_of_;  // by op
    std::vector<Group> groups_;
    Mask compared_;                          // by value: it is compared with something, here or in the backward pass
    std::vector<bool> apart_;                // by op: a view that kernels do not take in
    std::vector<bool> widens_;               // by op: a cast to f32 that kernels take in as they do a view
    std::vector<std::int64_t> bytes_apart_;  // by op: what it alone would move
    struct Tried {
        std::pair<int, int> versions;
        std::string why;
    };
    std::map<std::pair<int, int>, Tried> tried_;  // pairs that did not become one
    std::optional<GroupOrder> order_;
    std::vector<std::vector<int>> read_through_views_;  // by op: ops whose results it reads in another shape
    std::map<std::string, int> composites_;             // numbers of what ops were part of
    std::vector<int> seen_;                             // by value: the last walk that came by
    std::vector<std::uint32_t> number_;                 // by value: its number in that walk's outline
    std::vector<std::optional<std::uint32_t>> kinds_;   // by op, where it was asked for
    int walk_ = 0;
};

}  // namespace thunderc
