// SPDX-License-Identifier: Apache-2.0
// Runs passes in order; it alone verifies, times, dumps and disables them.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "compiler/ir/module.h"
#include "compiler/support/error.h"
#include "compiler/support/report.h"

namespace thunderc {

struct Pass {
    std::string name;  // "fold_constants": the same word in file, flag, dump and test
    std::function<Module(Module, Report&)> run;
    bool required = false;  // the passes behind it need what it makes: it cannot be left out
};

struct PassRun {
    std::string name;
    double milliseconds = 0;
    Report report;
};

struct PassOptions {
    std::set<std::string> disabled;                            // names of passes that leave everything as it is
    std::function<void(const Module&, const PassRun&)> after;  // called after each pass
    std::string failing = {};                                  // this pass fails as one with a bug does
    CountedDecisions* decisions = nullptr;                     // who counts and declines; none: all are taken
    // Called behind each pass with its name, before the module is verified: a test plants a fault with it.
    std::function<void(Module&, const std::string&)> planted = {};
};

// A pass that failed by a bug of thunderc: what run_passes throws in place of what the pass threw, or where the
// verifier finds an invariant broken after it.
class PassFailure : public InternalError {
  public:
    PassFailure(std::string pass, const std::string& what) : InternalError(what), pass_(std::move(pass)) {}

    const std::string& pass() const { return pass_; }
    // The module that the pass was given, printed; filled in by whoever can make it again, for the report of the bug.
    std::string before;

  private:
    std::string pass_;
};

// Runs what is, or counts as, the pass of this name; PassFailure where it fails by a bug, and where it is to fail.
void run_as_pass(const std::string& name, const std::string& failing, const std::function<void()>& what);

// Verifies between passes. Throws PassFailure; what is the user's fault, and a lack of memory, pass through.
Module run_passes(Module module, const std::vector<Pass>& passes, std::vector<PassRun>& runs,
                  const PassOptions& options = {});

}  // namespace thunderc
