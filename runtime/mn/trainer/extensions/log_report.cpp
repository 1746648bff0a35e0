#include <cmath>
#include <filesystem>
#include <span>
#include <string_view>
#include <system_error>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

constexpr std::string_view kListEnd = "\n]\n";

}  // namespace

LogReport::LogReport() = default;
LogReport::~LogReport() = default;

nlohmann::json LogReport::state() const { return entries_; }

void LogReport::load_state(const nlohmann::json& state) { entries_ = state.get<std::vector<nlohmann::json>>(); }

double LogReport::last(const std::string& name) const {
  if (entries_.empty()) throw ArgumentError("nothing has been reported yet, also no \"" + name + "\"");
  const auto found = entries_.back().find(name);
  if (found != entries_.back().end()) {
    if (found->is_null()) return std::nan("");
    if (found->is_number()) return found->get<double>();
  }
  std::string names;
  for (const auto& [each, value] : entries_.back().items()) names += (names.empty() ? "" : ", ") + each;
  throw ArgumentError("the last report has no \"" + name + "\", but " + names);
}

void LogReport::initialize(Trainer& /*trainer*/) { file_bytes_ = 0; }

void LogReport::run(Trainer& trainer) {
  if (!entries_.empty() && entries_.back().at("iteration") == trainer.iteration()) return;
  nlohmann::json entry = trainer.take_observation();
  entry["epoch"] = trainer.epoch();
  entry["iteration"] = trainer.iteration();
  entry["elapsed_time"] = trainer.elapsed_s();
  for (const auto& [name, optimizer] : trainer.optimizers()) {
    entry[name == trainer.optimizers().front().name ? "lr" : "lr/" + name] =
        optimizer->param_groups().front().options().get_lr();
  }
  entries_.push_back(std::move(entry));
  if (!trainer.is_root() || try_to_write(has_failed_, [&] { write(trainer); })) return;
  file_bytes_ = 0;  // the next report writes all of it
}

/// One write replaces the end of the list by the new entry and the end again. A reader between sees one list or the
/// other; the file is not synced, as a resume rewrites it.
void LogReport::write(const Trainer& trainer) {
  const auto path = trainer.out() / "log";
  std::error_code none;
  if (file_bytes_ == 0 || std::filesystem::file_size(path, none) != file_bytes_) {  // or somebody has changed it
    const std::string all = nlohmann::json(entries_).dump(4) + "\n";
    write_file(path, all);
    file_bytes_ = all.size();
    return;
  }
  const std::string list = nlohmann::json::array({entries_.back()}).dump(4);  // "[\n    {…}\n]"
  const std::string added = "," + list.substr(1) + "\n";
  const std::uint64_t end = file_bytes_ - kListEnd.size();
  File(path, File::Mode::kUpdate).write_at(end, std::as_bytes(std::span(added)));
  file_bytes_ = end + added.size();
}

}  // namespace mn::extensions
