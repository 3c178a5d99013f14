// SPDX-License-Identifier: Apache-2.0
// Batches of samples from one source or several, in the order of row_order.h.
#include <algorithm>
#include <optional>
#include <utility>

#include "data/batch_source.h"
#include "data/data_record.h"
#include "data/mixture.h"
#include "data/row_order.h"
#include "data/samples.h"
#include "support/error.h"
#include "support/mix_bits.h"
#include "support/text.h"

namespace thunder {

namespace {

class SampleBatches : public BatchSource {
  public:
    SampleBatches(const ProgramSpec& program, const Options& options, const BatchCut& cut, const DataStart& start)
        : cut_(cut) {
        const Mixture mixture = options.data_schedule.empty() ? parse_mixture(options.data)
                                                              : read_schedule(options.data_schedule, cut.global_rows(),
                                                                              start.step, start.position);
        record_.pieces = mixture.pieces;
        for (const DataSource& source : mixture.sources) {
            samples_.push_back(make_samples(program, options, source));
            const std::span<const SampleFile> files = samples_.back()->files();
            record_.sources.push_back({source.name, {{0, 0, {files.begin(), files.end()}}}});
            for (std::string& note : samples_.back()->notes()) notes_.push_back(std::move(note));
        }
        const std::size_t count = samples_.size();
        if (!start.record.empty())
            record_ = go_on(parse_record(start.record, start.path), record_, static_cast<std::uint64_t>(start.position),
                            options.seed, options.skip_damaged, notes_);
        find_files(mixture);
        order_.emplace(record_.order(options.seed));
        mixed_ = count > 1;
    }

    void load(std::int64_t /*step*/, std::int64_t position, std::int64_t micro_step,
              std::span<std::byte> batch) override {
        for (std::int64_t row = 0; row < cut_.batch; ++row) {
            const RowOrder::Place place =
                (*order_)(static_cast<std::uint64_t>(position + cut_.first_row(micro_step) + row));
            const OfSource& source = sources_[place.source];
            const Files& files = source.epochs[place.epochs];
            const auto behind = std::upper_bound(files.first.begin(), files.first.end(), place.sample);
            const auto file = static_cast<std::size_t>(behind - files.first.begin() - 1);
            source.samples->fill(files.number[file], place.sample - files.first[file],
                                 mix_bits(place.source) ^ place.draw, row, batch);
        }
        samples_.front()->fill_whole(batch);
    }

    std::int64_t steps() const override {
        return static_cast<std::int64_t>(order_->rows_of_first_epochs()) / cut_.global_rows();
    }

    std::string describe() const override {
        if (!mixed_) return samples_.front()->describe();
        std::string text;
        for (std::size_t k = 0; k < sources_.size(); ++k)
            if (sources_[k].samples != nullptr)
                text += cat(text.empty() ? "" : "; ", share_text(k), sources_[k].samples->describe());
        return text;
    }

    std::vector<std::string> notes() const override { return notes_; }
    std::string record() const override { return record_text(record_); }

  private:
    // Of epochs that have the same files.
    struct Files {
        std::vector<std::size_t> number;   // in Samples::files()
        std::vector<std::uint64_t> first;  // sample of each
    };
    struct OfSource {
        Samples* samples = nullptr;  // null where rows before drew from it, and none to come
        std::vector<Files> epochs;
    };

    void find_files(const Mixture& mixture) {
        for (std::size_t k = 0; k < record_.sources.size(); ++k) {
            const DataRecord::Source& recorded = record_.sources[k];
            OfSource source;
            const auto is_it = [&](const auto& other) { return other.name == recorded.name; };
            // Of two with one name the later one is the run's: the other is what it was with other samples.
            const bool is_last = std::none_of(record_.sources.begin() + static_cast<std::ptrdiff_t>(k) + 1,
                                              record_.sources.end(), is_it);
            const auto found = std::find_if(mixture.sources.begin(), mixture.sources.end(), is_it);
            if (found != mixture.sources.end() && is_last) {
                source.samples = samples_[static_cast<std::size_t>(found - mixture.sources.begin())].get();
                for (const DataRecord::Epochs& epochs : recorded.epochs)
                    source.epochs.push_back(files_of(epochs, *source.samples));
            }
            sources_.push_back(std::move(source));
        }
    }

    static Files files_of(const DataRecord::Epochs& epochs, const Samples& samples) {
        Files files;
        std::uint64_t first = 0;
        const std::span<const SampleFile> held = samples.files();
        for (const SampleFile& file : epochs.files) {
            std::size_t k = files.number.size();  // most often none is between
            if (k >= held.size() || held[k].name != file.name)
                k = static_cast<std::size_t>(
                    std::find_if(held.begin(), held.end(),
                                 [&](const SampleFile& other) { return other.name == file.name; }) -
                    held.begin());
            files.number.push_back(k);  // epochs that are over may have had files that are gone: none is drawn from
            files.first.push_back(first);
            first += file.samples;
        }
        return files;
    }

    // "70% ", where there is one mixture in all.
    std::string share_text(std::size_t source) const {
        if (record_.pieces.size() > 1) return "";
        const std::vector<double>& weights = record_.pieces.front().weights;
        double sum = 0;
        for (const double weight : weights) sum += weight;
        return cat(digits("%.3g", 100 * weights[source] / sum), "% ");
    }

    BatchCut cut_;
    std::vector<std::unique_ptr<Samples>> samples_;  // of the mixture's sources
    DataRecord record_;
    std::vector<OfSource> sources_;  // of the record
    mutable std::optional<RowOrder> order_;
    std::vector<std::string> notes_;
    bool mixed_ = false;
};

}  // namespace

std::string shown_name(const DataSource& source, const std::string& path) {
    return source.paths.size() > 1 ? path : path.substr(path.rfind('/') + 1);
}

std::unique_ptr<Samples> make_samples(const ProgramSpec& program, const Options& options, const DataSource& source) {
    return holds_tensors(source) ? make_tensor_samples(program, options, source)
                                 : make_token_samples(program, options, source);
}

std::unique_ptr<BatchSource> make_sample_batches(const ProgramSpec& program, const Options& options,
                                                 const BatchCut& cut, const DataStart& start) {
    return std::make_unique<SampleBatches>(program, options, cut, start);
}

}  // namespace thunder
