// SPDX-License-Identifier: Apache-2.0
// A short list of cases in which everything still happens that the whole list has.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "tests/support/full_form.h"

namespace thunderc {

// What a case is of: names of what it takes, e.g. "llama2", "bf16 fsdp".
using Facets = std::set<std::string>;

template <typename Case, typename FacetsOf>
Facets facets_of_all(const std::vector<Case>& cases, const FacetsOf& facets_of) {
    Facets out;
    for (const Case& c : cases) out.merge(Facets(facets_of(c)));
    return out;
}

// Again and again the case with the most facets that no case before it has.
template <typename Case, typename FacetsOf>
std::vector<Case> covering(const std::vector<Case>& cases, const FacetsOf& facets_of) {
    std::vector<Facets> facets;
    for (const Case& c : cases) facets.push_back(facets_of(c));
    Facets missing = facets_of_all(cases, facets_of);
    std::vector<Case> out;
    while (!missing.empty()) {
        std::size_t best = 0, most = 0;
        for (std::size_t k = 0; k < cases.size(); ++k) {
            std::size_t fresh = 0;
            for (const std::string& facet : facets[k]) fresh += missing.count(facet);
            if (fresh > most) {
                most = fresh;
                best = k;
            }
        }
        for (const std::string& facet : facets[best]) missing.erase(facet);
        out.push_back(cases[best]);
    }
    return out;
}

// All cases in the long form; else, and under sanitizers, a list that has each facet.
template <typename Case, typename FacetsOf>
std::vector<Case> all_or_covering(const std::vector<Case>& cases, const FacetsOf& facets_of) {
    return full_form ? cases : covering(cases, facets_of);
}

}  // namespace thunderc
