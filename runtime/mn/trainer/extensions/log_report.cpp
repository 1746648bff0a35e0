#include <mn/trainer/extensions/log_report.hpp>

#include <algorithm>
#include <cassert>
#include <filesystem>
#include <utility>

#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/list_file.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

using nlohmann::json;

/// Returns OUT/log for the checkpoint OUT/ckpt/step-N, and an empty path for an empty path.
std::filesystem::path log_beside(const std::filesystem::path& checkpoint) {
  std::error_code none;
  const auto folder = std::filesystem::canonical(checkpoint, none).parent_path().parent_path();
  return folder.empty() ? folder : folder / "log";
}

}  // namespace

LogReport::LogReport(Derive derive) : derive_(std::move(derive)) {}
LogReport::~LogReport() = default;

json LogReport::state() const {
  if (!file_) return nullptr;  // only rank 0's state is stored
  return {{"file", file_->state(is_rest_ ? 1 : 0)}};
}

void LogReport::load_state(const json& state) { restored_ = std::make_unique<json>(state); }

void LogReport::keep(std::vector<json> entries) {
  count_ += static_cast<std::int64_t>(entries.size());
  entries_.assign(entries.end() - static_cast<std::ptrdiff_t>(std::min(entries.size(), kEntries)), entries.end());
}

double LogReport::last(const std::string& name) const {
  if (entries_.empty()) throw ArgumentError("nothing has been reported yet, so there is no \"" + name + "\"");
  const auto found = entries_.back().find(name);
  if (found != entries_.back().end()) {
    if (found->is_null()) return std::nan("");
    if (found->is_number()) return found->get<double>();
  }
  std::string names;
  for (const auto& [each, value] : entries_.back().items()) names += (names.empty() ? "" : ", ") + each;
  throw ArgumentError("the last report has no \"" + name + "\", but " + names);
}

std::span<const json> LogReport::since(std::int64_t count) const {
  const auto newer = static_cast<std::size_t>(std::max<std::int64_t>(count_ - count, 0));
  return std::span(entries_).last(std::min(newer, entries_.size()));
}

std::int64_t LogReport::count_read_by(const Extension& reader, const Trainer& trainer) const {
  return trainer.is_pending(reader) && has_entry(trainer) ? count_ - 1 : count_;
}

void LogReport::initialize(Trainer& trainer) {
  const std::unique_ptr<const json> state = std::move(restored_);
  if (trainer.is_root() && (!file_ || state)) file_ = std::make_unique<ListFile>(trainer.out() / "log");
  if (state) is_rest_ = false;
  if (state && state->is_object()) resume(trainer, state->at("file"));
}

/// Collective: continues the log of a checkpoint. Rank 0 reads the entries from the file, and sends them to all ranks.
void LogReport::resume(Trainer& trainer, const json& state) {
  std::vector<json> rows;
  on_root<DataError>(
      trainer.communicator(), [&] { rows = file_->load(state, log_beside(trainer.resumed_from()), kEntries); }, true);
  keep(trainer.communicator().bcast_obj(json(std::move(rows))).get<std::vector<json>>());
}

bool LogReport::has_entry(const Trainer& trainer) const {
  return !entries_.empty() && entries_.back().at("iteration") == trainer.iteration();
}

void LogReport::run(Trainer& trainer) {
  if (!has_entry(trainer)) add(trainer);
}

/// If a later run continues the training, an entry of the whole period replaces the entry of this rest.
void LogReport::at_end(Trainer& trainer) {
  if (has_entry(trainer)) return;
  add(trainer);
  is_rest_ = true;
}

void LogReport::add(Trainer& trainer) {
  if (std::exchange(is_rest_, false)) {
    entries_.pop_back();
    if (file_) file_->remove_last();
  }
  json entry = trainer.take_observation();
  entry["epoch"] = trainer.epoch();
  entry["iteration"] = trainer.iteration();
  entry["elapsed_time"] = trainer.elapsed_s();
  add_rates(trainer, entry);
  if (derive_) derive_(entry);
  if (entries_.size() == kEntries) entries_.erase(entries_.begin());
  entries_.push_back(std::move(entry));
  ++count_;
  assert(entries_.size() <= kEntries && static_cast<std::int64_t>(entries_.size()) <= count_);
  if (!file_) return;
  file_->add(entries_.back());
  try_to_write(has_failed_, [this] { file_->write(); });
}

/// A rate that has ever differed from the first group's is in every later entry, so its curve has no gaps.
void LogReport::add_rates(const Trainer& trainer, json& entry) const {
  for (const auto& [name, optimizer] : trainer.optimizers()) {
    const std::string key = name == trainer.optimizers().front().name ? "lr" : "lr/" + name;
    const auto& groups = optimizer->param_groups();
    const double first = groups.front().options().get_lr();
    entry[key] = first;
    for (std::size_t i = 1; i < groups.size(); ++i) {
      const std::string group = optimizer->group_name(i);
      const std::string own = key + "/" + group;
      if (group == optimizer->group_name(0) || entry.contains(own)) continue;
      const double rate = groups[i].options().get_lr();
      if (rate != first || (!entries_.empty() && entries_.back().contains(own))) entry[own] = rate;
    }
  }
}

bool LogReport::take_report(Trainer& trainer, const std::string& name, double value) {
  if (!has_entry(trainer)) return false;
  entries_.back()[name] = value;
  if (!file_) return true;
  file_->change_last(entries_.back());
  try_to_write(has_failed_, [this] { file_->write(); });
  return true;
}

void LogReport::finalize(Trainer& /*trainer*/) {
  if (file_) complete(has_failed_, [this] { file_->write(); });
}

}  // namespace mn::extensions
