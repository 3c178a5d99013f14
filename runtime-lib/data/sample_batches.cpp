// SPDX-License-Identifier: Apache-2.0
// Batches of samples from one source or several, in the order of row_order.h.
#include <algorithm>
#include <map>
#include <optional>
#include <string_view>
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
    SampleBatches(const ProgramSpec& program, const Options& options, const BatchCut& cut)
        : cut_(cut),
          schedule_(data_schedule_of(options)),
          restarts_(options.skip_damaged || options.change_data),
          seed_(options.seed) {
        for (const DataSource& source : thunder::sources_of(schedule_)) {
            samples_.push_back(make_samples(program, options, source));
            const std::span<const SampleFile> files = samples_.back()->files();
            opened_.sources.push_back({source.name, {{0, 0, {files.begin(), files.end()}}}});
            for (std::string& note : samples_.back()->notes()) notes_.push_back(std::move(note));
            note_copies(opened_.sources.back());
        }
        check_whole(program);
    }

    void begin(const DataStart& start) override {
        seed_ = start.seed.value_or(seed_);
        record_ = opened_;
        record_.pieces = mixture_of(schedule_, cut_.global_rows(), start.step, start.position).pieces;
        std::vector<std::size_t> places;
        if (start.record.empty()) {
            for (std::size_t k = 0; k < samples_.size(); ++k) places.push_back(k);
        } else {
            std::vector<std::string> notes;
            GoneOn on = go_on(parse_record(start.record, start.path), record_,
                              static_cast<std::uint64_t>(start.position), seed_, restarts_, notes);
            record_ = std::move(on.record);
            places = std::move(on.places);
            if (!order_) notes_.insert(notes_.end(), notes.begin(), notes.end());
        }
        find_files(places);
        order_.emplace(record_.order(seed_));
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
                                 mix_bits(seed_ ^ mix_bits(place.source)) ^ place.draw, row, batch);
        }
        samples_.front()->fill_whole(batch);
    }

    std::int64_t steps() const override {
        return static_cast<std::int64_t>(order_->rows_of_first_epochs()) / cut_.global_rows();
    }

    std::string describe() const override {
        if (samples_.size() == 1) return samples_.front()->describe();
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

    void find_files(std::span<const std::size_t> places) {
        sources_.assign(record_.sources.size(), {});
        for (std::size_t k = 0; k < places.size(); ++k) {
            OfSource& source = sources_[places[k]];
            source.samples = samples_[k].get();
            std::map<std::string_view, std::vector<std::size_t>> held;
            for (const SampleFile& file : source.samples->files())
                held[file.fingerprint].push_back(static_cast<std::size_t>(&file - source.samples->files().data()));
            for (const DataRecord::Epochs& epochs : record_.sources[places[k]].epochs)
                source.epochs.push_back(files_of(epochs, held, source.samples->files().size()));
        }
    }

    static Files files_of(const DataRecord::Epochs& epochs, std::map<std::string_view, std::vector<std::size_t>> held,
                          std::size_t none) {
        Files files;
        std::uint64_t first = 0;
        for (const SampleFile& file : epochs.files) {
            std::vector<std::size_t>& same = held[file.fingerprint];
            // Epochs that are over may have had files that are gone: none is drawn from.
            files.number.push_back(same.empty() ? none : same.front());
            if (same.size() > 1) same.erase(same.begin());  // copies are taken in turn
            files.first.push_back(first);
            first += file.samples;
        }
        return files;
    }

    // Files that hold the same are different samples to an epoch.
    void note_copies(const DataRecord::Source& source) {
        std::map<std::string_view, const SampleFile*> held;
        for (const SampleFile& file : source.epochs.front().files) {
            if (file.samples == 0) continue;
            const auto [first, is_new] = held.emplace(file.fingerprint, &file);
            if (!is_new)
                notes_.push_back(cat("warning: ", source.name, ": ", first->second->name, " and ", file.name,
                                     " hold the same: an epoch has their samples twice"));
        }
    }

    // A batch has rows of several sources, and what has no rows once.
    void check_whole(const ProgramSpec& program) {
        const bool has_rows_alone = std::all_of(program.inputs.begin(), program.inputs.end(),
                                                [](const InputSpec& input) { return input.batched; });
        if (has_rows_alone || samples_.size() == 1) return;
        std::vector<std::byte> first(program.bytes_of(Arena::batch)), other(first.size());
        samples_.front()->fill_whole(first);
        for (std::size_t k = 1; k < samples_.size(); ++k) {
            samples_[k]->fill_whole(other);
            if (first != other)
                fail(cat(opened_.sources[0].name, " and ", opened_.sources[k].name,
                         " have different numbers for the inputs that have no rows, and a batch has rows of both"),
                     "give them the same ones");
        }
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
    DataRecord opened_;                              // as they are there: sources from their first epoch on
    DataRecord record_;
    std::vector<OfSource> sources_;  // of the record
    mutable std::optional<RowOrder> order_;
    std::vector<std::string> notes_;
    DataSchedule schedule_;
    bool restarts_;  // epochs that have lost files
    std::uint64_t seed_;
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
                                                 const BatchCut& cut) {
    return std::make_unique<SampleBatches>(program, options, cut);
}

}  // namespace thunder
