#include <mn/app/job_extensions.hpp>

#include <algorithm>
#include <array>
#include <set>
#include <string_view>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/extensions/monitor.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {
namespace {

/// Options that a resumed run may change without a message, because they do not change what is trained.
constexpr std::array<std::string_view, 6> kOfThisRun = {"out",          "resume",     "stage",
                                                        "stage-budget", "stage-rate", "device"};

constexpr const char* kTraining = "main/";

/// Checks the value of --monitor against `names`, the reported values. Throws UsageError if `monitor` seems to be a
/// misspelling of one of the names, or has neither the form "main/VALUE" nor "VALIDATION/main/VALUE". Accepts every
/// other unknown name, because a later minibatch may report such a value.
void check_known(const std::string& monitor, const std::vector<std::string>& names) {
  if (std::ranges::find(names, monitor) != names.end()) return;
  const std::string text = "--monitor " + monitor + ": no such value is reported; there are " + join(names);
  if (const auto near = extensions::misspelled(monitor, names))
    throw UsageError(text + "; did you mean " + *near + "?");
  const bool may_come = monitor.starts_with(kTraining) || monitor.find("/main/") != std::string::npos;
  if (!may_come) throw UsageError(text);
  log_info(text + " in the first minibatch");  // only rank 0 shows the message
}

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

void MetadataRecord::load_state(const nlohmann::json& state) {
  if (!state.is_object()) return;
  for (const auto& [name, value] : metadata_) {
    if (!state.contains(name) || state[name] == value) continue;
    throw DataError("the checkpoint to resume is of a network whose " + name + " is " + state[name].dump() +
                        ", but this one's is \"" + value + "\"",
                    true);
  }
}

void check_validated_value(const CommonOptions& common, const std::string& name, Evaluator& evaluator,
                           Iterator& iterator, Communicator& comm) {
  const nlohmann::json state = iterator.state();
  const NamedTensors random = random_state(comm.device());
  nlohmann::json own = nlohmann::json::array();
  for (const auto& [metric, value] : evaluator.evaluate_local().mean()) own.push_back(name + "/main/" + metric);
  // Undo the evaluation, because training must see the same samples and random numbers with and without --monitor.
  iterator.load_state(state);
  set_random_state(random, comm.device());
  std::set<std::string> names;
  for (const nlohmann::json& theirs : comm.allgather_obj(own)) {
    for (const nlohmann::json& value : theirs) names.insert(value.get<std::string>());
  }
  check_known(common.monitor, {names.begin(), names.end()});
}

void MonitoredValue::run(Trainer& trainer) {
  if (std::exchange(done_, true)) return;
  std::vector<std::string> names;
  for (const std::string& name : trainer.observed_names()) {
    if (!name.starts_with(kTraining)) continue;
    names.push_back(name);
    for (const std::string& validation : validations_) names.push_back(validation + "/" + name);
  }
  check_known(monitor_, names);
}

}  // namespace mn::app
