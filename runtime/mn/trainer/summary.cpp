#include <limits>

#include <mn/comm/communicator.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/summary.hpp>

namespace mn {

void Summary::add(const std::string& name, double value, double weight) {
  if (weight == 0) return;
  Sum& sum = sums_[name];
  sum.weighted += value * weight;
  sum.weight += weight;
}

void Summary::merge(const Summary& other, const std::string& prefix) {
  for (const auto& [name, theirs] : other.sums_) {
    Sum& sum = sums_[prefix + name];
    sum.weighted += theirs.weighted;
    sum.weight += theirs.weight;
  }
}

Metrics Summary::mean() const {
  Metrics means;
  for (const auto& [name, sum] : sums_) means[name] = sum.weighted / sum.weight;
  return means;
}

Metrics Summary::mean_over_ranks(Communicator& comm) const {
  Summary all;
  for (const auto& theirs : comm.allgather_obj(state())) {
    Summary one;
    one.load_state(theirs);
    all.merge(one);
  }
  return all.mean();
}

nlohmann::json Summary::state() const {
  nlohmann::json state = nlohmann::json::object();
  for (const auto& [name, sum] : sums_) state[name] = {sum.weighted, sum.weight};
  return state;
}

void Summary::load_state(const nlohmann::json& state) {
  sums_.clear();
  for (const auto& [name, sum] : state.items()) {
    // A checkpoint's JSON text has null where a sum is not finite.
    const double weighted = sum.at(0).is_null() ? std::numeric_limits<double>::quiet_NaN() : sum.at(0).get<double>();
    sums_[name] = {weighted, sum.at(1).get<double>()};
  }
}

}  // namespace mn
