// SPDX-License-Identifier: Apache-2.0
#include "data/batch_source.h"

namespace thunder {

std::unique_ptr<BatchSource> make_batch_source(const ProgramSpec& program, const Options& options,
                                               const BatchCut& cut) {
    return options.feed.empty() ? make_token_windows(program, options, cut) : make_feed(program, options, cut);
}

}  // namespace thunder
