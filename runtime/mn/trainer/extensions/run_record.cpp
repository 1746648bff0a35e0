#include <mn/trainer/extensions/run_record.hpp>

#include <algorithm>
#include <array>
#include <fstream>
#include <utility>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/unix_time.hpp>
#include <mn/trainer/extensions/appended_file.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>

namespace mn::extensions {
namespace {

using nlohmann::json;

json command_line() {
  json arguments = json::array();
  std::ifstream file("/proc/self/cmdline");
  for (std::string argument; std::getline(file, argument, '\0');) arguments.push_back(argument);
  return arguments;
}

/// Collective: adds all ranks' warnings since the previous call to rank 0's `line`.
void add_warnings(Trainer& trainer, json& line) {
  Communicator& comm = trainer.communicator();
  json own = json::array();
  for (const std::string& text : take_warnings()) {
    own.push_back("rank " + std::to_string(comm.rank()) + " (" + host_name() + "): " + text);
  }
  for (const json& texts : comm.gather_obj(own)) {
    for (const json& text : texts) line["warnings"].push_back(text);
  }
}

}  // namespace

RunRecord::RunRecord(const LogReport& log, RunDetails details) : log_(log), details_(std::move(details)) {}
RunRecord::~RunRecord() = default;

void RunRecord::append(const json& line) {
  file_->add(json_text(line) + "\n");
  try_to_write(has_failed_, [this] { file_->write(); });
}

void RunRecord::initialize(Trainer& trainer) {
  reported_ = log_.count_read_by(*this, trainer);
  iteration_ = trainer.iteration();
  times_ = trainer.times();
  const auto hosts = trainer.communicator().gather_obj(host_name());
  if (!trainer.is_root()) return;
  file_ = std::make_unique<AppendedFile>(trainer.out() / "run.jsonl", AppendedFile::Start::kAfterLastLine);
  append({{"event", "start"},
          {"time", unix_time()},
          {"iteration", trainer.iteration()},
          {"command", command_line()},
          {"hosts", hosts},
          {"device", trainer.communicator().device().type == DeviceType::kCuda ? "GPU" : "CPU"},
          {"run", to_json(facts_of(trainer), details_)}});
}

void RunRecord::add_pauses(const Trainer& trainer, json& line) {
  const ExtensionTimes before = std::exchange(pauses_, trainer.extension_times());
  line["validation_s"] = pauses_.validation_s - before.validation_s;
  line["checkpoint_s"] = pauses_.checkpoint_s - before.checkpoint_s;
}

void RunRecord::run(Trainer& trainer) {
  if (std::exchange(reported_, log_.count()) == log_.count()) return;
  json line = {{"event", "report"},
               {"time", unix_time()},
               {"iteration", trainer.iteration()},
               {"epoch", trainer.epoch_detail()}};
  add_pauses(trainer, line);
  const std::int64_t steps = trainer.iteration() - std::exchange(iteration_, trainer.iteration());
  if (steps > 0) add_times(trainer, steps, line);
  add_warnings(trainer, line);
  if (file_) append(line);
}

void RunRecord::add_times(Trainer& trainer, std::int64_t iterations, json& line) {
  const LoaderStats before = std::exchange(loader_, trainer.iterator().stats());
  const StepTimes earlier = std::exchange(times_, trainer.times());
  const auto steps = static_cast<double>(iterations);
  const std::array own = {std::pair("data_s", (times_.data_s - earlier.data_s) / steps),
                          std::pair("compute_s", (times_.compute_s - earlier.compute_s) / steps),
                          std::pair("communication_s", (times_.communication_s - earlier.communication_s) / steps),
                          std::pair("queue_s", (loader_.queue_s - before.queue_s) / steps),
                          std::pair("storage_s", (loader_.storage_s - before.storage_s) / steps),
                          std::pair("transform_s", (loader_.transform_s - before.transform_s) / steps),
                          std::pair("copy_s", (loader_.copy_s - before.copy_s) / steps),
                          std::pair("read_bytes", static_cast<double>(loader_.bytes - before.bytes)),
                          std::pair("opens", static_cast<double>(loader_.opens - before.opens))};
  std::array<double, own.size()> values;
  std::ranges::transform(own, values.begin(), [](const auto& each) { return each.second; });
  std::vector<double> all(own.size() * static_cast<std::size_t>(trainer.communicator().size()));
  trainer.communicator().allgather(std::span<const double>(values), std::span(all));
  for (std::size_t i = 0; i < all.size(); ++i) line[own[i % own.size()].first].push_back(all[i]);
}

void RunRecord::finalize(Trainer& trainer) {
  json line = {{"event", "end"},
               {"time", unix_time()},
               {"iteration", trainer.iteration()},
               {"elapsed_s", trainer.elapsed_s()},
               {"why", trainer.end_reason()}};
  add_pauses(trainer, line);
  add_warnings(trainer, line);
  if (!file_) return;
  append(line);
  complete(has_failed_, [this] { file_->write(); });
}

}  // namespace mn::extensions
