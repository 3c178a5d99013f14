// SPDX-License-Identifier: Apache-2.0
#include "train/verify_data.h"

#include <set>
#include <vector>

#include "data/corpus.h"
#include "data/mixture.h"
#include "data/samples.h"
#include "data/token_file.h"
#include "support/error.h"
#include "support/text.h"
#include "train/evaluation.h"

namespace thunder {

namespace {

// Each file once, however often it is named.
void add_files(const Options& options, std::set<std::string>& paths) {
    for (const DataSource& source : sources_of(data_schedule_of(options))) {
        if (holds_tensors(source)) continue;
        for (const std::string& path : source.paths)
            for (const ListedFile& file : listed_files_of(path)) paths.insert(file.path);
    }
}

}  // namespace

void verify_data(Options& options, Console& console) {
    std::set<std::string> paths;
    if (!options.data.empty() || !options.data_schedule.empty()) add_files(options, paths);
    if (!options.eval_data.empty()) add_files(options_of_evaluation(options), paths);
    double bytes = 0;
    for (const std::string& path : paths) bytes += static_cast<double>(MappedFile(path).bytes().size());
    LongWait waiting(console, "verifying the data", bytes);
    for (const std::string& path : paths) {
        try {
            TokenFile(path).verify([&](std::size_t read) { waiting.add(static_cast<double>(read)); });
        } catch (const Error& error) {
            if (!options.skip_damaged) throw;
            options.damaged_files[path] = error.message();
        }
    }
    console.line(cat("verified ", count_text(paths.size(), "file"), " of tokens, ",
                     bytes_text(static_cast<std::uint64_t>(bytes)),
                     options.damaged_files.empty()
                         ? ""
                         : cat(": ", count_text(options.damaged_files.size(), "damaged one"), " left out")));
}

}  // namespace thunder
