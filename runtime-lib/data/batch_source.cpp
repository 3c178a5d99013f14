// SPDX-License-Identifier: Apache-2.0
#include "data/batch_source.h"

namespace thunder {

std::unique_ptr<BatchSource> make_batch_source(const ProgramSpec& program, const Options& options, const BatchCut& cut,
                                               const DataStart& start) {
    return options.feed.empty() ? make_sample_batches(program, options, cut, start) : make_feed(program, options, cut);
}

}  // namespace thunder
