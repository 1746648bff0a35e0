#include <mn/trainer/observation.hpp>

#include <algorithm>
#include <span>

#include <mn/comm/communicator.hpp>
#include <mn/core/json.hpp>

namespace mn {
void Observation::begin(std::int64_t iteration, std::uint64_t bytes_sent) {
  first_iteration_ = iteration;
  first_bytes_ = bytes_sent;
}

Metrics Observation::take(Communicator& comm, std::int64_t iteration, std::uint64_t bytes_sent) {
  Metrics metrics = means_.mean_over_ranks(comm);
  metrics.merge(reported_);
  metrics.merge(reported_means_.mean());
  std::int64_t samples = samples_;
  comm.allreduce(std::span(&samples, 1));
  metrics["images_per_second"] = training_s_ > 0 ? static_cast<double>(samples) / training_s_ : 0;
  const auto steps = std::max<std::int64_t>(earlier_steps_ + iteration - first_iteration_, 1);
  metrics["bytes_per_step"] =
      static_cast<double>(earlier_bytes_ + bytes_sent - first_bytes_) / static_cast<double>(steps);
  *this = Observation();
  begin(iteration, bytes_sent);
  return metrics;
}

nlohmann::json Observation::names() const {
  nlohmann::json names = nlohmann::json::array();
  for (const auto& [name, value] : means_.mean()) names.push_back(name);
  for (const auto& [name, value] : reported_) names.push_back(name);
  for (const auto& [name, value] : reported_means_.mean()) names.push_back(name);
  return names;
}

void Observation::save(nlohmann::json& about, std::int64_t iteration, std::uint64_t bytes_sent) const {
  Summary reported;
  for (const auto& [name, value] : reported_) reported.add(name, value);
  about["reported"] = reported.state();
  about["reported_means"] = reported_means_.state();
  about["training_s"] = training_s_;
  about["observed_steps"] = earlier_steps_ + iteration - first_iteration_;
  about["observed_bytes"] = earlier_bytes_ + bytes_sent - first_bytes_;
}

void Observation::load(const nlohmann::json& about) {
  Summary reported;
  reported.load_state(about.at("reported"));
  reported_ = reported.mean();
  reported_means_ = Summary();
  if (about.contains("reported_means")) reported_means_.load_state(about.at("reported_means"));
  training_s_ = about.at("training_s").get<double>();
  earlier_steps_ = about.value("observed_steps", std::int64_t{0});
  earlier_bytes_ = about.value("observed_bytes", std::uint64_t{0});
}

nlohmann::json Observation::rank_state() const { return {{"observation", means_.state()}, {"samples", samples_}}; }

void Observation::clear_rank_state() {
  means_ = Summary();
  samples_ = 0;
}

void Observation::merge_rank_state(const nlohmann::json& state) {
  Summary theirs;
  theirs.load_state(state.at("observation"));
  means_.merge(theirs);
  samples_ += whole_number<std::int64_t>(state.at("samples"));
}

}  // namespace mn
