#include <mn/trainer/extensions/observation_aggregator.hpp>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/text.hpp>
#include <mn/trainer/extensions/monitor.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

constexpr const char* kLoss = "main/loss";
constexpr std::string_view kMain = "main/";

}  // namespace

ObservationAggregator::ObservationAggregator(std::string key, std::string aggregated_key,
                                             std::function<double(const RankValues&)> aggregate)
    : key_(std::move(key)), aggregated_key_(std::move(aggregated_key)), aggregate_(std::move(aggregate)) {
  if (!key_.starts_with(kMain) || aggregated_key_.empty() || aggregated_key_ == key_ || !aggregate_) {
    throw ArgumentError("an ObservationAggregator needs a function, a value that begins with main/, and another name " +
                        ("for the result, got \"" + key_) + "\" and \"" + aggregated_key_ + "\"");
  }
}

void ObservationAggregator::observe(const at::Tensor& loss, const Summary& metrics) {
  if (key_ == kLoss) return losses_.push_back(loss.detach());
  const Metrics means = metrics.mean();
  if (const auto found = means.find(key_.substr(kMain.size())); found != means.end()) values_.push_back(found->second);
}

/// Collective. A missing value only causes a warning if no name is similar, because an epoch may lack the value.
void ObservationAggregator::check_key(Trainer& trainer) {
  const std::vector<std::string> names = trainer.observed_names();
  if (std::ranges::find(names, key_) != names.end()) return;
  const std::string text = name() + ": no minibatch has reported " + key_ + " so far, but " + join(names);
  if (const auto near = misspelled(key_, names)) throw ArgumentError(text + "; did you mean " + *near + "?");
  if (trainer.is_root()) log_warning(text);
}

void ObservationAggregator::run(Trainer& trainer) {
  if (!std::exchange(is_checked_, true)) check_key(trainer);
  Communicator& comm = trainer.communicator();
  for (const at::Tensor& loss : std::exchange(losses_, {})) values_.push_back(loss.item<double>());
  RankValues all;
  for (const nlohmann::json& theirs : comm.gather_obj(nlohmann::json(std::exchange(values_, {})))) {
    all.push_back(theirs.get<std::vector<double>>());
  }
  std::array<double, 2> result = {};  // [0]: 1 if any minibatch had a value, else 0; [1]: the result
  const auto aggregate_all = [&] {
    if (!std::ranges::all_of(all, &std::vector<double>::empty)) result = {1, aggregate_(all)};
  };
  on_root<ArgumentError>(comm, aggregate_all, true);
  comm.bcast(std::span(result));
  if (result[0] != 0) trainer.report(aggregated_key_, result[1]);
}

}  // namespace mn::extensions
