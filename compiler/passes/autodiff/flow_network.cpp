// SPDX-License-Identifier: Apache-2.0
#include "compiler/passes/autodiff/flow_network.h"

#include <algorithm>
#include <queue>

#include "compiler/support/error.h"

namespace thunderc {

void FlowNetwork::connect(std::size_t from, std::size_t to, std::int64_t capacity) {
    edges_of_[from].push_back(edges_.size());
    edges_.push_back({to, capacity});
    edges_of_[to].push_back(edges_.size());
    edges_.push_back({from, 0});
}

void FlowNetwork::run(std::size_t source, std::size_t sink) {
    while (levels(source, sink)) {
        next_.assign(edges_of_.size(), 0);
        while (augment(source, sink)) {
        }
    }
}

std::vector<bool> FlowNetwork::reaching(std::size_t sink) const {
    std::vector<bool> out(edges_of_.size(), false);
    std::vector<std::size_t> open = {sink};
    out[sink] = true;
    while (!open.empty()) {
        std::size_t node = open.back();
        open.pop_back();
        for (std::size_t e : edges_of_[node]) {
            std::size_t other = edges_[e].to;
            if (out[other] || edges_[e ^ 1].capacity == 0) continue;
            out[other] = true;
            open.push_back(other);
        }
    }
    return out;
}

bool FlowNetwork::levels(std::size_t source, std::size_t sink) {
    level_.assign(edges_of_.size(), -1);
    level_[source] = 0;
    std::queue<std::size_t> open;
    open.push(source);
    while (!open.empty()) {
        std::size_t node = open.front();
        open.pop();
        for (std::size_t e : edges_of_[node]) {
            if (edges_[e].capacity == 0 || level_[edges_[e].to] >= 0) continue;
            level_[edges_[e].to] = level_[node] + 1;
            open.push(edges_[e].to);
        }
    }
    return level_[sink] >= 0;
}

// One augmenting path, kept as a list of edges: recursion would be as deep as the program is long.
bool FlowNetwork::augment(std::size_t source, std::size_t sink) {
    std::vector<std::size_t> path;
    std::size_t node = source;
    while (node != sink) {
        bool advanced = false;
        for (std::size_t& k = next_[node]; k < edges_of_[node].size(); ++k) {
            std::size_t e = edges_of_[node][k];
            if (edges_[e].capacity == 0 || level_[edges_[e].to] != level_[node] + 1) continue;
            path.push_back(e);
            node = edges_[e].to;
            advanced = true;
            break;
        }
        if (advanced) continue;
        if (path.empty()) return false;
        node = edges_[path.back() ^ 1].to;
        path.pop_back();
        ++next_[node];
    }
    std::int64_t flow = unlimited;
    for (std::size_t e : path) flow = std::min(flow, edges_[e].capacity);
    check(flow < unlimited, "a value that backward needs can neither be saved nor computed again");
    for (std::size_t e : path) {
        edges_[e].capacity -= flow;
        edges_[e ^ 1].capacity += flow;
    }
    return true;
}

}  // namespace thunderc
