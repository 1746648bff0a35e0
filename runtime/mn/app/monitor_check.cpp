#include <mn/app/monitor_check.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/extensions/monitor.hpp>

namespace mn::app {
namespace {

constexpr const char* kTraining = "main/";

/// `names` are the reported values. A name is malformed unless it is "main/VALUE" or "VALIDATION/main/VALUE".
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

void check_validated_value(const CommonOptions& common, const std::string& name, Evaluator& evaluator,
                           Iterator& iterator, Communicator& comm) {
  const nlohmann::json state = iterator.state();
  const NamedTensors random = random_state(comm.device());
  nlohmann::json own = nlohmann::json::array();
  for (const auto& [metric, value] : evaluator.evaluate_local().mean()) own.push_back(name + "/main/" + metric);
  // Undo the evaluation, because with and without --monitor, training must see the same samples and random numbers.
  iterator.load_state(state);
  set_random_state(random, comm.device());
  std::set<std::string> names;
  for (const nlohmann::json& theirs : comm.allgather_obj(own)) {
    for (const nlohmann::json& value : theirs) names.insert(value.get<std::string>());
  }
  check_known(common.monitor, {names.begin(), names.end()});
}

void check_reported_value(const CommonOptions& common, std::vector<std::string> validations, Trainer& trainer) {
  const auto check = [monitor = common.monitor, validations = std::move(validations),
                      is_done = false](Trainer& each) mutable {
    if (std::exchange(is_done, true)) return;
    std::vector<std::string> names;
    for (const std::string& name : each.observed_names()) {
      if (!name.starts_with(kTraining)) continue;
      names.push_back(name);
      for (const std::string& validation : validations) names.push_back(validation + "/" + name);
    }
    check_known(monitor, names);
  };
  trainer.extend("MonitoredValue", Interval(1, IntervalUnit::kIteration), check);
}

}  // namespace mn::app
