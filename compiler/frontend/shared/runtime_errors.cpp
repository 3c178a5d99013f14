// SPDX-License-Identifier: Apache-2.0
#include "compiler/frontend/shared/runtime_errors.h"

#include <utility>

#include "compiler/support/error.h"
#include "support/error.h"

namespace thunderc {

void with_runtime_errors(const std::string& help, const std::function<void()>& what) {
    try {
        what();
    } catch (const thunder::Error& e) {
        Diagnostic d;
        d.message = e.message();
        d.help = e.help().empty() ? help : e.help();
        throw UserError(std::move(d));
    }
}

}  // namespace thunderc
