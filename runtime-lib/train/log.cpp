// SPDX-License-Identifier: Apache-2.0
#include "train/log.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "support/error.h"
#include "support/file.h"
#include "support/text.h"

namespace thunder {

namespace {

// How many bytes of the log come before a step: whole lines, up to the first one of that step or a later one.
std::size_t bytes_before(const std::string& path, std::int64_t step) {
    if (step == 0 || !is_file(path)) return 0;
    const MappedFile file(path);
    const std::string_view text{reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()};
    std::size_t kept = 0;
    for (std::size_t end; (end = text.find('\n', kept)) != std::string_view::npos; kept = end + 1) {
        long long number = -1;
        if (std::sscanf(std::string(text.substr(kept, end - kept)).c_str(), "{\"step\":%lld", &number) == 1 &&
            number >= step)
            break;
    }
    return kept;  // what is behind the last line end was cut short when the run before was killed
}

}  // namespace

std::string json_number(double x) {
    return std::isfinite(x) ? digits("%.9g", x) : "null";
}

double tokens_per_second(const StepReport& report) {
    return report.ms > 0 ? static_cast<double>(report.tokens) * 1000 / report.ms : 0;
}

std::string json_line(const StepReport& report) {
    // Nine digits tell any two floats apart.
    return cat("{\"step\":", report.step, ",\"loss\":", json_number(report.loss),
               ",\"grad_norm\":", json_number(report.grad_norm), ",\"lr\":", digits("%.9g", report.lr),
               ",\"tokens\":", report.tokens, ",\"step_ms\":", digits("%.3f", report.ms),
               ",\"tokens_per_second\":", digits("%.1f", tokens_per_second(report)),
               report.mfu > 0 ? cat(",\"mfu\":", digits("%.6g", report.mfu)) : "",
               report.memory > 0 ? cat(",\"memory\":", report.memory) : "",
               report.loss_scale > 0 ? cat(",\"loss_scale\":", digits("%.9g", report.loss_scale)) : "",
               report.may_skip ? cat(",\"skipped\":", report.skipped) : "", "}");
}

std::string json_line(const EvaluationReport& report) {
    const auto where_known = [](const char* name, const std::optional<double>& number) {
        return number ? cat(",\"", name, "\":", json_number(*number)) : std::string();
    };
    return cat("{\"step\":", report.step, ",\"eval_loss\":", json_number(report.loss),
               where_known("eval_perplexity", report.perplexity), where_known("eval_accuracy", report.accuracy),
               ",\"eval_batches\":", report.batches, ",\"eval_ms\":", digits("%.3f", report.ms), "}");
}

JsonLog::JsonLog(std::string path, std::int64_t first_step) : path_(std::move(path)) {
    const std::size_t kept = bytes_before(path_, first_step);
    file_ = std::fopen(path_.c_str(), "a");
    if (file_ == nullptr) fail_writing(path_, errno);
    // Cut, never written again: the lines that stay are on the disk at every moment. A pipe or a terminal has no end to
    // cut.
    struct stat status {};
    const bool cut = fstat(fileno(file_), &status) == 0 && S_ISREG(status.st_mode);
    if (cut && ftruncate(fileno(file_), static_cast<off_t>(kept)) != 0) {
        const int error = errno;
        std::fclose(std::exchange(file_, nullptr));
        fail_writing(path_, error);
    }
    if (cut) bytes_ = kept;
}

JsonLog::~JsonLog() {
    if (file_ != nullptr) std::fclose(file_);
}

void JsonLog::write(const std::string& line) {
    if (std::fprintf(file_, "%s\n", line.c_str()) >= 0 && std::fflush(file_) == 0) {
        if (bytes_) *bytes_ += line.size() + 1;
        return;
    }
    const int error = errno;
    std::fclose(std::exchange(file_, nullptr));  // which tries to write the rest
    if (bytes_) static_cast<void>(truncate(path_.c_str(), static_cast<off_t>(*bytes_)) == 0);  // no half line stays
    fail_writing(path_, error);
}

}  // namespace thunder
