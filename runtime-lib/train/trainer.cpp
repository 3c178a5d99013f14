// SPDX-License-Identifier: Apache-2.0
#include "train/trainer.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <optional>
#include <utility>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "checkpoint/folder.h"
#include "checkpoint/writer.h"
#include "comm/communicator.h"
#include "data/batch_source.h"
#include "device/team.h"
#include "program/transfer.h"
#include "program/weights.h"
#include "support/clock.h"
#include "support/error.h"
#include "support/text.h"
#include "train/adapters.h"
#include "train/average.h"
#include "train/bad_steps.h"
#include "train/batch_loader.h"
#include "train/best.h"
#include "train/buffers.h"
#include "train/device_options.h"
#include "train/ending.h"
#include "train/evaluation.h"
#include "train/global_batch.h"
#include "train/groups.h"
#include "train/in_flight.h"
#include "train/init.h"
#include "train/loss_scaler.h"
#include "train/memory.h"
#include "train/resume.h"
#include "train/save.h"
#include "train/schedule.h"
#include "train/step_numbers.h"
#include "train/verify_data.h"
#include "train/world.h"
#include "watch/watch.h"

namespace thunder {

struct Trainer::State {
    State(const ProgramSpec& p, const Options& o)
        : program(p),
          options(o),
          communicator(make_communicator()),
          watch(program, options, communicator->rank() == 0),
          console(watch.console()),
          device(device_options(options, *communicator)),
          stream(device),
          world(program, *communicator),
          states(states_of(program, options, communicator->rank())),
          segments(segments_of(program, options, communicator->rank())),
          average(program, options.ema, segments),
          scaler(program, options),
          bad_steps(options),
          best(options),
          writer(program, options, *communicator, world, console),
          cut{communicator->world(), communicator->rank(), options.grad_accum, program.batch},
          loader(program, cut) {
        world.together([] {});  // other ranks' command lines are in order
        steps_of_ranks.resize(static_cast<std::size_t>(communicator->world()));
    }

    // Ranks come to this as one: those of another program would make other streams, or none, and wait for ever.
    void open_streams() {
        streams = communicator->make_streams(device, program.mesh, program.streams);
        for (const auto& made : streams) communication.push_back(options.no_overlap ? &stream : made.get());
        joints = std::vector<Joint>(streams.size());
    }

    void allocate() {
        const ArenaBytes sizes = arena_sizes();
        for (std::size_t i = 0; i < memory.size(); ++i) {
            memory[i] = device.allocate(sizes[i]);
            *place_of(arenas, static_cast<Arena>(i)) = memory[i].data();
        }
        average.allocate(device, options.eval_ema);
        const StepNumbers numbers(program, options);
        const std::size_t step_bytes = numbers.bytes();
        scalar_memory = device.allocate(step_bytes);
        arenas.scalars = scalar_memory.at<StepScalars>(0);
        arenas.loss_weights = {scalar_memory.at<float>(numbers.loss_weights_at()),
                               static_cast<std::size_t>(program.loss_weights)};
        arenas.segments = segments;
        loader.allocate(device);
        for (StepInFlight& in_flight : in_flights) in_flight.memory = device.allocate_staging(2 * step_bytes);
        writer.allocate(device, arenas, states, average);
        const bool beside = options.overlap_update || (device.is_gpu() && !options.no_overlap && options.ema == 0);
        updates.begin(program, arenas, step_bytes, beside, stream);
    }

    // As the program says, but for what this run keeps of matrices that it steps in another way.
    ArenaBytes arena_sizes() const {
        ArenaBytes sizes = program.arena_bytes;
        sizes[static_cast<std::size_t>(Arena::optimizer)] = static_cast<std::size_t>(states.bytes);
        return sizes;
    }

    std::byte* scalars() const { return reinterpret_cast<std::byte*>(arenas.scalars); }

    StepNumbers read_numbers() {
        StepNumbers numbers(program, options);
        std::vector<std::byte> bytes(numbers.bytes());
        from_device(bytes.data(), scalars(), bytes.size(), stream);
        numbers.read(bytes.data());
        return numbers;
    }

    StepInFlight& in_flight(std::int64_t step) { return in_flights[static_cast<std::size_t>(step % 2)]; }

    void check_weight(const StepScalars& read) const {
        if (const std::string why = nothing_to_learn(program, read); !why.empty())
            world.fail_as_one(why, "look at the labels of this step");
    }

    // Notes when steps end, which is not when they are logged: ranks log a step while the next one is done already.
    void note_ends() {
        for (std::int64_t step = reported; step < progress.step; ++step) {
            StepInFlight& issued = in_flight(step);
            if (issued.ended == 0 && issued.arrived.is_complete()) issued.ended = steady_ms();
        }
    }

    // Logs the steps that are done, oldest first, until at most `left` are unfinished. On a device that works while the
    // host goes on, a step is logged while the next one runs.
    void report_steps(std::int64_t left) {
        for (; reported < progress.step; ++reported) {
            StepInFlight& step = in_flight(reported);
            // Ranks log in the same order as they add: when another rank's step is done does not change it.
            const bool waits = progress.step - reported > left;
            if (!waits && (communicator->world() > 1 || !step.arrived.is_complete())) return;
            // The host is a step ahead of the device: while it waits, this is the step in which the rank stands.
            if (device.is_gpu()) communicator->note_progress(reported);
            step.arrived.synchronize();
            note_ends();
            report_step(step);
        }
    }

    void report_step(const StepInFlight& step) {
        StepNumbers numbers(program, options);
        numbers.read(step.memory.data() + numbers.bytes());
        StepScalars& read = numbers.scalars;
        // A device that works while the host goes on comes to a step when the one before it ends.
        const double since = std::max(step.began, last_end);
        last_end = step.ended;
        check_weight(read);
        // Ranks learn in the same step that one of them would end the run.
        const StepOfRank mine{read.loss_sum, end_request(options, began), writer.told()};
        communicator->all_gather(std::as_bytes(std::span(&mine, 1)), std::as_writable_bytes(std::span(steps_of_ranks)),
                                 "the step's loss");
        read.loss_sum = 0;
        for (const StepOfRank& rank : steps_of_ranks) {
            read.loss_sum += rank.loss_sum;
            agreed_end.add(rank.end);
        }
        writer.hear(told_of(steps_of_ranks));
        StepReport report;
        report.step = read.step;
        report.loss = static_cast<double>(read.loss_sum) * static_cast<double>(read.dloss);
        scaler.read(numbers, report, progress);
        report.grad_norm = read.grad_norm;
        report.lr = learning_rate(options, report.step);
        report.tokens = program.tokens * cut.micro_steps * cut.world;
        report.ms = step.ended - since;
        if (const std::string why = scaler.end_of_run(report); !why.empty())
            world.fail_as_one(why, help_of_no_number(numbers.loss_weights));
        const bool bad = bad_steps.add(report, progress);
        report.memory = memory_use().taken(device.is_gpu());
        watch.step(report, cut.micro_steps, last);
        if (const auto warning = scaler.warning(report)) console.line(*warning);
        if (!bad) return;
        if (const std::string why = bad_steps.end_of_run(report); !why.empty())
            world.fail_as_one(why, "a lower --lr, a longer --warmup, or a look at the data of these steps may help");
        watch.event(report.step, cat("step ", report.step, " is skipped: ", bad_steps.why(report)));
        if (bad_steps.goes_back() && !bad_step) bad_step = report.step;
    }

    // All that may fail before the first step, which ranks do not need one another for.
    void prepare() {
        // What is wrong with the batches or with where results go is said before gigabytes are read.
        if (options.verify_data) verify_data(options, console);
        if (evaluates(options)) evaluation.emplace(program, options, cut);
        if (!options.eval_only) source = open_batch_source(program, options, cut);
        if (source && !options.resume) source->begin({});
        if (world.is_first()) check_results(options);
        if (is_narrow(program.compute) && program.providers.products)
            console.line(cat(name_of(program.compute), ": ", device.describe_products_of(program.compute)));
        check_room(device, console, arena_sizes(), average.bytes(), writer.staging_bytes());
        allocate();
        start();
        world.on_read({});
        waiting.reset();
        scaler.begin(scalars(), progress, average, stream);
        make_narrow_copies(program, arenas, stream);
        if (evaluation) tell_notes(evaluation->lines(), console);
        if (options.eval_only) return;
        tell_notes(source->notes(), console);
        if (!progress.made_by.empty() && !source->record().empty()) progress.made_by[data_record] = source->record();
        console.line(cat(source->describe(), "; ", cut.global_rows(), " rows a step",
                         world.is_alone() ? "" : cat(" of ", cut.world, " ranks")));
    }

    // Parameters and optimizer state: from a checkpoint, or from where --init says.
    void start() {
        std::size_t all = program.bytes_of(Arena::parameters);
        if (options.resume) all += arena_sizes()[static_cast<std::size_t>(Arena::optimizer)] + average.bytes();
        waiting.emplace(console, options.resume ? "reading the checkpoint" : "reading weights",
                        static_cast<double>(all));
        world.on_read([this](std::size_t bytes) { waiting->add(static_cast<double>(bytes)); });
        read_constants(program.constants, options.program_folder, arenas.constants, stream);
        begin_scaling(program, arenas, stream);
        if (options.resume) {
            if (checkpoints.empty())
                fail(cat("there is no checkpoint in ", options.checkpoint, " to go on from"),
                     "the first run of a job starts without --resume");
            progress = read_checkpoint(checkpoints.back(), program, arenas, states, average, world, stream);
            keep_seed(options, progress, checkpoints.back());
            console.line(cat("goes on from ", checkpoints.back()));
            last_checkpoint = checkpoints.back();
            saved_step = progress.step;
            bad_steps.begin(progress);
            tell_notes({best.begin(progress)}, console);
            if (progress.ema == 0) average.begin(arenas.parameters, stream);
            last = last_step(program, options, cut, progress);
            if (options.eval_only) return;
            source->begin(data_start_of(progress, checkpoints.back()));
            for (const std::string& line : resume_progress(progress, program, options, cut.global_rows()))
                console.line(line);
            return;
        }
        if (!checkpoints.empty()) {
            fail(cat(options.checkpoint, " holds checkpoints of another run, up to ", checkpoints.back()),
                 "go on from them with --resume, or name another folder");
        }
        last = last_step(program, options, cut, progress);
        begin_progress(progress, program, options, cut.global_rows());
        progress.ema_begun = false;
        for (const std::string& line : initialise_parameters(program, options, world, arenas.parameters, stream))
            console.line(line);
        average.begin(arenas.parameters, stream);
    }

    void save_checkpoint(bool waits) {  // waits: no step goes on beside
        updates.flush();
        if (saved_step == progress.step) return best.name(last_checkpoint, writer, world);  // it is there
        agree_on_buffers(program, options, *communicator, arenas.parameters, stream);
        const bool is_best = best.kept_step() == progress.step;
        last_checkpoint = checkpoint_path(options.checkpoint, progress.step);
        writer.write(progress, stream, waits || is_best, best.kept_step(), [this, is_best] {
            if (is_best) best.write(last_checkpoint);
        });
        saved_step = progress.step;
    }

    void judge(const EvaluationReport& report) {
        if (best.add(report, progress) && options.keep_best) save_checkpoint(true);
        if (!best.ends_run() || progress.step >= last) return;
        last = progress.step;
        console.line(best.describe());
    }

    // All steps are known. False: one of them was such that the run goes back to the last checkpoint, and on with the
    // data behind that step: what was before it may have led there.
    bool settle() {
        report_steps(0);
        if (!bad_step) return true;
        updates.forget();
        writer.finish();
        const std::int64_t bad = *std::exchange(bad_step, std::nullopt);
        const std::int64_t position = progress.data_position - (progress.step - 1 - bad) * cut.global_rows();
        auto made_by = progress.made_by;
        world.together(
            [&] { progress = read_checkpoint(last_checkpoint, program, arenas, states, average, world, stream); });
        const std::int64_t left_out = position - std::exchange(progress.data_position, position);
        begin_progress(progress, program, options, cut.global_rows());
        progress.made_by = std::move(made_by);
        bad_steps.count_way_back(progress, left_out);
        best.begin(progress);
        scaler.begin(scalars(), progress, average, stream);
        make_narrow_copies(program, arenas, stream);
        // Pieces of a schedule that begin with a step begin at other rows than they did.
        loader.forget();
        source->begin(data_start_of(progress, last_checkpoint));
        if (!progress.made_by.empty() && !source->record().empty()) progress.made_by[data_record] = source->record();
        reported = saved_step = progress.step;
        evaluated_step = -1;  // what the log has of later steps goes
        watch.open(progress.step);
        watch.event(progress.step, cat("back to ", last_checkpoint, " after step ", bad, ": ", left_out,
                                       " rows of the data are left out"));
        return false;
    }

    MemoryUse memory_use() const {
        MemoryUse mine;
        for (std::size_t i = 0; i < memory.size(); ++i) mine.arenas[i] = memory[i].bytes();
        mine.average = average.bytes();
        mine.workspace = stream.workspace_bytes();
        for (const auto& other : streams) mine.workspace += other->workspace_bytes();
        for (const StepInFlight& in_flight : in_flights) mine.staging += in_flight.memory.bytes();
        mine.staging += loader.staging_bytes() + writer.staging_bytes();
        mine.process_peak = process_peak();
        return mine;
    }

    BatchLoader::Request request(std::int64_t micro_step) {
        if (evaluating) return evaluation->request(micro_step);
        return {source.get(), progress.step, progress.data_position, micro_step};
    }
    // The one that is asked for behind it.
    std::optional<BatchLoader::Request> next_request(std::int64_t micro_step) {
        const std::int64_t count = evaluating ? evaluation->micro_batches() : cut.micro_steps;
        if (micro_step + 1 < count) return request(micro_step + 1);
        if (weighing && count > 1) return request(0);
        if (evaluating || progress.step + 1 >= last) return std::nullopt;
        return BatchLoader::Request{source.get(), progress.step + 1, progress.data_position + cut.global_rows(), 0};
    }

    // Why the run ends before its last step, as all ranks know it.
    EndRequest end() const { return world.is_alone() ? end_request(options, began) : agreed_end; }

    const double began = steady_ms();  // before ranks wait for one another
    const ProgramSpec& program;
    Options options;
    std::unique_ptr<Communicator> communicator;
    Watch watch;
    Console& console;  // its
    Device device;
    Stream stream;
    std::vector<std::unique_ptr<Stream>> streams;
    std::vector<Joint> joints;           // of these
    std::vector<Stream*> communication;  // these; with --no-overlap the one that computes
    World world;
    OptimizerStates states;
    std::vector<ParameterSegment> segments;
    WeightAverage average;  // over these
    Updates updates;
    LossScaler scaler;
    BadSteps bad_steps;
    BestEvaluation best;
    CheckpointWriter writer;
    std::array<Memory, static_cast<std::size_t>(Arena::count)> memory;
    Memory scalar_memory;
    TrainingArenas arenas;
    BatchCut cut;
    std::unique_ptr<BatchSource> source;
    std::optional<Evaluation> evaluation;  // where one is asked for
    bool evaluating = false;
    std::int64_t evaluated_step = -1;  // how many steps were done at the last one
    double evaluation_began = 0;
    std::optional<LongWait> waiting;  // for what takes its time
    BatchLoader loader;               // reads from the two before it
    bool weighing = false;            // the weight of the loss is summed: micro-batches will be asked for again
    std::array<StepInFlight, 2> in_flights;
    std::vector<StepOfRank> steps_of_ranks;
    std::vector<std::string> checkpoints;  // that were there at the start, the oldest first
    Progress progress;
    EndRequest agreed_end;                 // of ranks
    std::int64_t last = 0;                 // the step before which the run ends
    std::int64_t first_step = 0;           // of this process
    std::int64_t loaded_micro_step = -1;   // what the batch arena holds of this step
    std::int64_t saved_step = -1;          // of the last checkpoint
    std::string last_checkpoint;           // that it wrote, or began from
    std::optional<std::int64_t> bad_step;  // from which the run is to go back
    std::int64_t reported = 0;             // steps that were logged, by this process or an earlier one
    double last_end = 0;                   // of the last of these, in milliseconds
};

Trainer::Trainer(const ProgramSpec& program, const Options& options)
    : state_(std::make_unique<State>(program, options)) {
    State& s = *state_;
    std::signal(SIGXFSZ, SIG_IGN);  // a file larger than allowed is an error of that file, with a message
    catch_lost_pages();
    s.world.check_mesh();
    s.world.together([&] { s.writer.lock(); });
    if (!options.checkpoint.empty()) s.checkpoints = checkpoints_in(options.checkpoint);
    leave_out_damaged(s.checkpoints, s.options, *s.communicator, s.world, s.console);
    s.world.together([&] { keep_global_batch(s.options, s.cut, program, s.checkpoints, s.console); });
    s.communicator->check_config(program, s.options, s.checkpoints.empty() ? "" : s.checkpoints.back());
    s.open_streams();
    s.console.line(cat(program.name, ": ", parameter_text(program), ", ", s.device.describe(),
                       provider_text(program.providers, s.device)));
    for (const std::string& line : describe_groups(program, options)) s.console.line(line);
    if (const std::string asked = gpu_options(options); !asked.empty() && !s.device.is_gpu())
        s.console.line(cat("note: ", asked, " ask a GPU, and this program was built for the CPU"));
    s.communicator->watch({s.options.hang_timeout, s.options.chaos, s.options.timeline, caught_signal});
    s.writer.prepare(s.states, s.average, s.device.is_gpu() ? 0 : bytes_of(s.arena_sizes()) + s.average.bytes());
    s.world.together([&] { s.prepare(); });
    s.first_step = s.reported = s.progress.step;
    s.watch.set_peak(s.device.peak_flops(program.compute));
    s.watch.open(s.first_step);
    const std::string ended = s.best.ends_run() ? s.best.describe() : nothing_left(s.options, s.first_step, s.last);
    if (s.best.ends_run()) s.last = std::min(s.last, s.first_step);
    if (s.first_step >= s.last && !options.eval_only) s.console.line(ended);
    if (s.bad_steps.goes_back() && s.last_checkpoint.empty() && !options.eval_only) s.save_checkpoint(true);
    catch_signals();
}

Trainer::~Trainer() {
    // A step that failed leaves collectives behind, which threads go on with: what they add to stays where it is until
    // the process ends (report_error).
    if (std::uncaught_exceptions() == 0 || state_->streams.empty()) return;
    state_->writer.abandon();
    state_->console.end();
    static_cast<void>(state_.release());
}

const TrainingArenas& Trainer::arenas() const {
    return state_->arenas;
}
Stream& Trainer::stream() {
    return state_->stream;
}
Streams Trainer::streams() {
    return {state_->stream, state_->communication};
}
std::int64_t Trainer::micro_steps() const {
    return state_->evaluating ? state_->evaluation->micro_batches() : state_->cut.micro_steps;
}
MicroStep Trainer::micro_step(std::int64_t micro_step) {
    return {micro_step == 0 ? WriteMode::overwrite : WriteMode::add, micro_step + 1 == state_->cut.micro_steps,
            state_->updates.take()};
}
Updates& Trainer::updates() {
    return state_->updates;
}

bool Trainer::begin_step() {
    State& s = *state_;
    if (s.options.eval_only) return false;
    const auto ends = [&] { return s.progress.step >= s.last || s.end(); };
    if (ends()) {
        s.settle();  // a step that is not known yet may take the run back
        if (ends()) return false;
    }
    const std::int64_t step = s.progress.step;
    s.communicator->note_progress(step);
    StepInFlight& in_flight = s.in_flight(step);  // its last step, two before this one, was logged
    s.note_ends();
    in_flight.began = steady_ms();
    in_flight.ended = 0;
    StepNumbers numbers = numbers_of_step(s.program, s.options, s.cut, step);
    s.scaler.set_rule(numbers, s.progress, s.reported < step);
    numbers.scalars.most_grad_norm = s.bad_steps.most_norm(step);
    numbers.write(in_flight.memory.data());
    copy(s.scalars(), in_flight.memory.data(), numbers.bytes_of_step(), s.stream);
    s.loaded_micro_step = -1;
    s.weighing = s.program.loss != Loss::average;
    return true;
}

void Trainer::load_batch(std::int64_t micro_step) {
    State& s = *state_;
    if (!s.weighing && !s.evaluating) s.watch.numerics().begin_micro_step(s.progress.step, micro_step, s.stream);
    if (s.loaded_micro_step == micro_step) return;
    s.communicator->note_progress(s.progress.step);
    s.note_ends();
    s.loader.load(s.request(micro_step), s.next_request(micro_step), s.arenas.batch, s.stream);
    if (s.evaluating) s.waiting->add(1);
    s.loaded_micro_step = micro_step;
}

void Trainer::set_loss_gradient() {
    State& s = *state_;
    s.weighing = false;
    if (s.program.loss == Loss::average) return s.scaler.scale(s.stream);  // the step began with it
    const bool terms = s.program.loss == Loss::terms;
    if (s.communicator->world() > 1) {
        StepNumbers read = s.read_numbers();
        const std::span<float> weights = terms ? std::span(read.loss_weights) : std::span(&read.scalars.loss_weight, 1);
        s.communicator->all_reduce_sum(weights, "the weight of the step's loss");
        float* const on_device = terms ? s.arenas.loss_weights.data() : &s.arenas.scalars->loss_weight;
        to_device(reinterpret_cast<std::byte*>(on_device), weights.data(), weights.size_bytes(), s.stream);
    }
    if (!terms) seed_loss(s.arenas.scalars, s.stream);
    s.scaler.scale(s.stream);
}

void Trainer::gradients_are_ready() {
    State& s = *state_;
    s.scaler.agree_on_loss(*s.communicator, s.stream);
    const bool dumps = !s.options.dump_gradients.empty() && s.progress.step == s.first_step;
    if (!dumps && !s.watch.numerics().is_due(s.progress.step)) return;
    for (Stream* stream : s.communication) stream->synchronize();
    const StepScalars read = s.read_numbers().scalars;
    const float scale = s.scaler.is_on() ? read.loss_scale : 0;
    s.watch.numerics().gradients(s.progress.step, s.arenas.gradients, scale > 0 ? scale : 1, *s.communicator, s.stream);
    if (!dumps) return;
    s.check_weight(read);
    const SavedParameters gradients{
        .trained = s.arenas.gradients, .dtype = s.program.gradient_dtype, .divided_by = scale};
    save_parameters(s.options.dump_gradients, gradients, s.program, s.world, s.stream);
}

void Trainer::end_step() {
    State& s = *state_;
    StepInFlight& in_flight = s.in_flight(s.progress.step);
    s.scaler.end_step(s.arenas.parameters, s.average, s.stream);
    const std::size_t bytes = StepNumbers(s.program, s.options).bytes();
    copy(in_flight.memory.data() + bytes, s.scalars(), bytes, s.stream);
    s.stream.record(in_flight.arrived);
    ++s.progress.step;
    s.progress.data_position += s.cut.global_rows();
    s.note_ends();
    const bool saves = s.options.checkpoint_every > 0 && s.progress.step % s.options.checkpoint_every == 0;
    s.report_steps(saves ? 0 : 1);  // a step whose loss is no number is in no checkpoint
    if (s.bad_step) return static_cast<void>(s.settle());
    if (saves) s.save_checkpoint(s.progress.step >= s.last);
}

bool Trainer::begin_evaluation() {
    State& s = *state_;
    const std::int64_t step = s.progress.step;
    if (!s.evaluation || s.evaluated_step == step || s.end()) return false;
    // Where a run goes on, what was due behind its last step may not have been done, and the log has lost it.
    if (!s.options.eval_only && !s.evaluation->is_due(step, s.last)) return false;
    if (!s.settle()) return false;
    s.updates.flush();
    swap_average(s.program, s.options, s.average, s.arenas, s.stream);
    s.evaluated_step = step;
    s.evaluation_began = steady_ms();
    s.waiting.emplace(s.console, "evaluating", static_cast<double>(s.evaluation->loads()));
    const StepNumbers numbers = s.evaluation->numbers();
    std::vector<std::byte> bytes(numbers.bytes());
    numbers.write(bytes.data());
    to_device(s.scalars(), bytes.data(), numbers.bytes_of_step(), s.stream);
    s.loaded_micro_step = -1;
    s.evaluating = true;
    s.weighing = s.program.loss != Loss::average;
    return true;
}

void Trainer::join_streams() {
    State& s = *state_;
    for (std::size_t k = 0; k < s.streams.size(); ++k)
        if (s.communication[k] != &s.stream) s.joints[k].join(s.stream, *s.communication[k]);
}

void Trainer::end_evaluation() {
    State& s = *state_;
    for (Stream* stream : s.communication) stream->synchronize();
    const StepNumbers read = s.read_numbers();
    if (s.evaluation->has_no_weight(read))
        s.world.fail_as_one(
            "the batches of the evaluation have nothing to learn from: their loss has no weight, as where "
            "all labels are ignored",
            "look at the labels of --eval-feed");
    Evaluation::Sums sums = Evaluation::sums(read);
    if (!s.world.is_alone()) s.communicator->all_reduce_sum(sums, "the loss of the evaluation");
    swap_average(s.program, s.options, s.average, s.arenas, s.stream);
    EvaluationReport report = s.evaluation->report(read, sums);
    report.step = s.progress.step;
    report.ms = steady_ms() - s.evaluation_began;
    s.waiting.reset();
    s.watch.evaluation(report);
    if (!s.options.eval_only) s.judge(report);
    if (s.options.eval_only && s.world.is_first()) std::printf("%s\n", json_line(report).c_str());
    forget_amaxes(s.program, s.arenas, s.stream);
    s.loaded_micro_step = -1;
    s.evaluating = false;
}

int Trainer::finish() {
    State& s = *state_;
    s.report_steps(0);
    s.updates.flush();
    const bool whole = s.progress.step >= s.last;
    const EndRequest end = s.end();
    const bool trained = s.progress.step > s.first_step;
    if (!s.options.checkpoint.empty() && trained && s.saved_step != s.progress.step) s.save_checkpoint(true);
    s.writer.finish();
    const std::string done = count_text(static_cast<std::uint64_t>(s.progress.step), "step");
    if (end.signal != 0 && !whole) {
        s.communicator->finish();
        s.console.line(cat("interrupted after ", done));
        return 128 + end.signal;
    }
    if (!whole && !s.options.eval_only)
        s.console.line(cat("--max-time ", s.options.max_time, " is over after ", done, " of ", s.last));
    if (const std::string table = s.device.profile_report(); !table.empty()) std::fputs(table.c_str(), stderr);
    if (const std::string counts = describe_loops(); !counts.empty()) std::fputs(counts.c_str(), stderr);
    if ((!s.options.save.empty() || !s.options.save_ema.empty()) && s.saved_step != s.progress.step)
        agree_on_buffers(s.program, s.options, *s.communicator, s.arenas.parameters, s.stream);
    tell_notes(save_at_end(s.program, s.options, s.world, s.arenas.parameters, s.average.arena(), s.stream), s.console);
    if (!s.options.save_adapter.empty())
        s.console.line(save_adapters(s.program, s.options, s.world, s.arenas.parameters, s.stream));
    if (!s.options.memory.empty()) write_memory(s.options.memory, s.memory_use(), *s.communicator);
    s.communicator->finish();
    return 0;
}

}  // namespace thunder
