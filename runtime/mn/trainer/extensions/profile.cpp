#include <mn/trainer/extensions/profile.hpp>

#include <array>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/trace.hpp>
#include <mn/trainer/extensions/appended_file.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

using nlohmann::json;

constexpr std::array<const char*, 4> kColumns = {"data_s", "compute_s", "communication_s", "bytes"};
constexpr std::array<const char*, 3> kLanes = {"compute", "communication", "data"};  // indexed by Trace::Lane

json metadata(const char* what, int rank, int lane, const std::string& name) {
  return {{"name", what}, {"ph", "M"}, {"pid", rank}, {"tid", lane}, {"args", {{"name", name}}}};
}

/// Converts spans to events of Chrome's trace format. The times of events are in microseconds after `zero`.
json events_of(const std::vector<Trace::Span>& spans, Trace::Clock::time_point zero, int rank,
               const std::string& host) {
  const auto microseconds = [](Trace::Clock::duration time) {
    return std::chrono::duration<double, std::micro>(time).count();
  };
  json events = json::array({metadata("process_name", rank, 0, "rank " + std::to_string(rank) + " on " + host)});
  for (std::size_t lane = 0; lane < kLanes.size(); ++lane) {
    events.push_back(metadata("thread_name", rank, static_cast<int>(lane), kLanes[lane]));
  }
  for (const Trace::Span& span : spans) {
    json event = {{"name", span.name},
                  {"ph", "X"},
                  {"pid", rank},
                  {"tid", static_cast<int>(span.lane)},
                  {"ts", microseconds(span.begin - zero)},
                  {"dur", microseconds(span.end - span.begin)}};
    if (span.bytes > 0) event["args"] = {{"bytes", span.bytes}};
    events.push_back(std::move(event));
  }
  return events;
}

}  // namespace

Profile::Profile() = default;
Profile::~Profile() = default;

void Profile::initialize(Trainer& trainer) {
  if (!trainer.options().trace) throw ArgumentError("the extension \"profile\" needs a trainer with a Trace");
  first_iteration_ = trainer.iteration();
  if (trainer.is_root()) {
    const auto start = first_iteration_ > 0 ? AppendedFile::Start::kAfterLastLine : AppendedFile::Start::kAnew;
    file_ = std::make_unique<AppendedFile>(trainer.out() / "profile.jsonl", start);
  }
  static_cast<void>(trainer.options().trace->take());
  trainer.communicator().barrier();
  zero_ = Trace::Clock::now();
}

void Profile::run(Trainer& trainer) {
  steps_.push_back(trainer.last_step());
  if (steps_.size() == kWindow) write_steps(trainer);
  if (tracing_ && trainer.iteration() - first_iteration_ == kTracedSteps) write_trace(trainer);
}

void Profile::finalize(Trainer& trainer) {
  if (!steps_.empty()) write_steps(trainer);
  if (tracing_) write_trace(trainer);
  complete(has_failed_, [this] { file_->write(); });
  complete(has_trace_failed_, [&] { write_file(trainer.out() / "trace.json", trace_); });
}

void Profile::write_steps(Trainer& trainer) {
  json own = json::array();
  for (const StepTimes& step : steps_) {
    own.push_back({step.data_s, step.compute_s, step.communication_s, step.bytes});
  }
  const std::int64_t first = trainer.iteration() - static_cast<std::int64_t>(steps_.size()) + 1;
  steps_.clear();
  const std::vector<json> steps_of = trainer.communicator().gather_obj(own);
  if (!trainer.is_root()) return;
  for (std::size_t k = 0; k < own.size(); ++k) {
    json line = {{"iteration", first + static_cast<std::int64_t>(k)}};
    for (std::size_t c = 0; c < kColumns.size(); ++c) {
      for (const json& steps : steps_of) line[kColumns[c]].push_back(steps[k][c]);
    }
    file_->add(json_text(line) + "\n");
  }
  try_to_write(has_failed_, [this] { file_->write(); });
}

void Profile::write_trace(Trainer& trainer) {
  tracing_ = false;
  Trace& trace = *trainer.options().trace;
  trace.stop();
  Communicator& comm = trainer.communicator();
  const auto rank = static_cast<std::size_t>(comm.rank());
  const std::vector<json> parts =
      comm.gather_obj(events_of(trace.take(), zero_, comm.rank(), comm.topology().hosts[rank]));
  if (!trainer.is_root()) return;
  json all = json::array();
  for (const json& part : parts) all.insert(all.end(), part.begin(), part.end());
  trace_ = json_text({{"traceEvents", std::move(all)}, {"displayTimeUnit", "ms"}});
  if (try_to_write(has_trace_failed_, [&] { write_file(trainer.out() / "trace.json", trace_); })) trace_.clear();
}

}  // namespace mn::extensions
