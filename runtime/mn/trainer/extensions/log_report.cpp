#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {

LogReport::LogReport() = default;
LogReport::~LogReport() = default;

nlohmann::json LogReport::state() const { return entries_; }

void LogReport::load_state(const nlohmann::json& state) { entries_ = state.get<std::vector<nlohmann::json>>(); }

void LogReport::run(Trainer& trainer) {
  nlohmann::json entry = trainer.take_observation();
  entry["epoch"] = trainer.epoch();
  entry["iteration"] = trainer.iteration();
  entry["elapsed_time"] = trainer.elapsed_s();
  entry["lr"] = trainer.optimizer().param_groups().front().options().get_lr();
  entries_.push_back(std::move(entry));
  if (trainer.is_root()) write_file(trainer.out() / "log", nlohmann::json(entries_).dump(4) + "\n");
}

}  // namespace mn::extensions
