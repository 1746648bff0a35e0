#include <mn/app/monitored_value.hpp>

#include <algorithm>
#include <set>
#include <utility>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/extensions/monitor.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::app {
namespace {

constexpr const char* kTraining = "main/";
constexpr const char* kValidation = "validation/main/";

/// Rejects a `monitor` that is nearly one of `names`. Another missing name may still come: a minibatch may lack a
/// metric.
void check_known(const std::string& monitor, const std::vector<std::string>& names) {
  if (std::ranges::find(names, monitor) != names.end()) return;
  const std::string text = "--monitor " + monitor + ": no such value is reported; there are " + join(names);
  if (const auto near = extensions::misspelled(monitor, names))
    throw UsageError(text + "; did you mean " + *near + "?");
  if (!monitor.starts_with(kTraining) && !monitor.starts_with(kValidation)) throw UsageError(text);
  log_info(text + " in the first minibatch");  // only rank 0 shows it
}

}  // namespace

void check_validated_value(const CommonOptions& common, Evaluator& evaluator, Iterator& iterator, Communicator& comm) {
  const nlohmann::json state = iterator.state();
  const NamedTensors random = random_state(comm.device());
  nlohmann::json own = nlohmann::json::array();
  for (const auto& [name, value] : evaluator.evaluate_local().mean()) own.push_back(kValidation + name);
  // Undo the evaluation: a training must see the same samples and random numbers with and without --monitor.
  iterator.load_state(state);
  set_random_state(random, comm.device());
  std::set<std::string> names;
  for (const nlohmann::json& theirs : comm.allgather_obj(own)) {
    for (const nlohmann::json& name : theirs) names.insert(name.get<std::string>());
  }
  check_known(common.monitor, {names.begin(), names.end()});
}

void MonitoredValue::run(Trainer& trainer) {
  if (std::exchange(done_, true)) return;
  std::vector<std::string> names;
  for (const std::string& name : trainer.observed_names()) {
    if (!name.starts_with(kTraining)) continue;
    names.push_back(name);
    if (validates_) names.push_back("validation/" + name);
  }
  check_known(monitor_, names);
}

}  // namespace mn::app
