#include <mn/app/options_record.hpp>

#include <algorithm>
#include <array>
#include <string_view>

#include <mn/app/common_options.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {
namespace {

/// Options that a resumed run may change without a message, because the options do not change how the network trains.
constexpr std::array<std::string_view, 6> kOfThisRun = {"out",          "resume",     "stage",
                                                        "stage-budget", "stage-rate", "device"};

}  // namespace

OptionsRecord::OptionsRecord(const Options& options) : ini_(options.ini()) {
  InText lines(ini_);
  for (std::string line; std::getline(lines, line);) {
    const auto equals = line.find(" = ");
    if (line.starts_with('#') || equals == std::string::npos) continue;
    const std::string name = line.substr(0, equals);
    if (std::ranges::find(kOfThisRun, name) != kOfThisRun.end()) continue;
    const std::string earlier = options_.contains(name) ? options_[name].get<std::string>() + ", " : "";  // a list
    options_[name] = earlier + line.substr(equals + 3);
  }
}

void OptionsRecord::write(const Trainer& trainer) {
  if (!trainer.is_root()) return;
  extensions::try_to_write(has_failed_, [&] { write_file(trainer.out() / "config.ini", ini_); });
}

void OptionsRecord::finalize(Trainer& trainer) {
  extensions::complete(has_failed_, [&] { write_file(trainer.out() / "config.ini", ini_); });
}

void OptionsRecord::check_state(const nlohmann::json& state, const std::string& source) const {
  if (!state.is_object()) return;
  const auto now = options_.value("precision", std::string());
  const auto then = state.value("precision", now);
  if ((now == kNarrowWeights) == (then == kNarrowWeights)) return;
  throw DataError(source + " was written with --precision " + then + ", but this job has --precision " + now +
                      ", whose weights have another type: give --precision " + then,
                  true);
}

void OptionsRecord::initialize(Trainer& trainer) {
  if (!trainer.is_root() || !earlier_.is_object()) return;
  const auto shown = [](const nlohmann::json& value) {
    const std::string text = value.is_string() ? value.get<std::string>() : json_text(value);
    return text.empty() ? "\"\"" : text;
  };
  std::string changes;
  for (const auto& [name, value] : options_.items()) {
    if (!earlier_.contains(name) || earlier_[name] == value) continue;
    changes += (changes.empty() ? "--" : ", --") + name + " was " + shown(earlier_[name]) + ", is " + shown(value);
    if (name == "seed") changes += " (which changes nothing: the checkpoint's random numbers go on)";
  }
  earlier_ = nlohmann::json::object();
  if (!changes.empty()) log_info("resumed with other options than the checkpoint's: " + changes);
}

void MetadataRecord::check_state(const nlohmann::json& state, const std::string& source) const {
  if (!state.is_object()) return;
  for (const auto& [name, value] : metadata_) {
    if (!state.contains(name) || state[name] == value) continue;
    throw DataError(source + " is of a network whose " + name + " is " + state[name].dump() + ", but this one's is \"" +
                        value + "\"",
                    true);
  }
}

}  // namespace mn::app
