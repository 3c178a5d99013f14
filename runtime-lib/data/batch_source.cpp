// SPDX-License-Identifier: Apache-2.0
#include "data/batch_source.h"

namespace thunder {

std::unique_ptr<BatchSource> open_batch_source(const ProgramSpec& program, const Options& options,
                                               const BatchCut& cut) {
    return options.feed.empty() ? make_sample_batches(program, options, cut) : make_feed(program, options, cut);
}

std::unique_ptr<BatchSource> make_batch_source(const ProgramSpec& program, const Options& options, const BatchCut& cut,
                                               const DataStart& start) {
    std::unique_ptr<BatchSource> source = open_batch_source(program, options, cut);
    source->begin(start);
    return source;
}

}  // namespace thunder
