#include <algorithm>
#include <string>

#include <mn/core/error.hpp>
#include <mn/data/sampler.hpp>

namespace mn {
namespace {

const SamplerOptions& checked(std::int64_t size, const SamplerOptions& options) {
  if (options.batchsize < 1) {
    throw UsageError("batch size " + std::to_string(options.batchsize) + ": at least 1 sample a rank is needed");
  }
  if (size < options.ranks) {
    throw UsageError("there are more ranks (" + std::to_string(options.ranks) + ") than samples (" +
                     std::to_string(size) + "): start at most " + std::to_string(size) + " ranks");
  }
  if (options.drop_last && size / options.ranks < options.batchsize) {
    throw UsageError("a step takes " + std::to_string(options.batchsize) + " × " + std::to_string(options.ranks) +
                     " samples, but there are only " + std::to_string(size) +
                     ": dropping the short last step leaves none; use a smaller batch size");
  }
  return options;
}

std::string hex(std::uint64_t value) {
  char text[17];
  std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(value));
  return text;
}

data::OrderOptions order_from(const nlohmann::json& state) {
  const data::OrderOptions order{.shuffle = state.at("shuffle"),
                                 .sticky = state.at("sticky"),
                                 .block = state.at("block"),
                                 .window = state.at("window"),
                                 .lanes = state.at("lanes")};
  if (order.block < 1 || order.window < 1 || order.lanes < 1) throw DataError("the sampler's state is damaged");
  return order;
}

}  // namespace

Sampler::Sampler(std::int64_t size, std::uint64_t fingerprint, const SamplerOptions& options)
    : size_(size),
      fingerprint_(fingerprint),
      options_(checked(size, options)),
      order_(size, options.order, options.seed, 0) {}

std::int64_t Sampler::steps_per_epoch() const noexcept {
  const std::int64_t step = options_.batchsize * options_.ranks;
  return (samples_per_epoch() + step - 1) / step;
}

std::int64_t Sampler::samples_per_epoch() const noexcept {
  const std::int64_t step = options_.batchsize * options_.ranks;
  return options_.drop_last ? size_ / step * step : size_;
}

/// Where this epoch ends: after a resume with another batch size, whole steps count from where it goes on.
std::int64_t Sampler::epoch_end() const noexcept {
  const std::int64_t step = options_.batchsize * options_.ranks;
  return options_.drop_last ? consumed_ + (size_ - consumed_) / step * step : size_;
}

std::optional<SamplerStep> Sampler::next() {
  if (consumed_ >= epoch_end()) {
    set_epoch(epoch_ + 1);
    return std::nullopt;
  }
  SamplerStep step;
  step.epoch = epoch_;
  step.first = consumed_;
  step.last = std::min(step.first + options_.batchsize * options_.ranks, epoch_end());
  // Position p belongs to rank p mod ranks, wherever the step begins: a lane then stays with one rank.
  const std::int64_t behind = (options_.rank - step.first % options_.ranks + options_.ranks) % options_.ranks;
  step.indices.reserve(options_.batchsize);
  for (std::int64_t p = step.first + behind; p < step.last; p += options_.ranks) step.indices.push_back(order_(p));
  consumed_ = step.last;
  return step;
}

void Sampler::set_epoch(std::int64_t epoch) {
  epoch_ = epoch;
  consumed_ = 0;
  order_ = data::EpochOrder(size_, options_.order, options_.seed, epoch);
}

nlohmann::json Sampler::state(std::int64_t epoch, std::int64_t consumed) const {
  const data::OrderOptions& order = options_.order;
  return {{"dataset", hex(fingerprint_)}, {"samples", size_},         {"seed", options_.seed},  {"epoch", epoch},
          {"consumed", consumed},         {"shuffle", order.shuffle}, {"sticky", order.sticky}, {"block", order.block},
          {"window", order.window},       {"lanes", order.lanes}};
}

void Sampler::load_state(const nlohmann::json& state) {
  try {
    if (state.at("dataset") != hex(fingerprint_) || state.at("samples") != size_) {
      throw DataError("the state to resume from was taken with another dataset (" + state.at("samples").dump() +
                      " samples, " + state.at("dataset").get<std::string>() + "; here " + std::to_string(size_) + ", " +
                      hex(fingerprint_) + "): give the same data, or start anew");
    }
    const std::int64_t epoch = state.at("epoch");
    const std::int64_t consumed = state.at("consumed");
    if (epoch < 0 || consumed < 0 || consumed > size_) throw DataError("the sampler's state is damaged");
    options_.order = order_from(state);
    options_.seed = state.at("seed");
    set_epoch(epoch);
    consumed_ = consumed;
  } catch (const nlohmann::json::exception& e) {
    throw DataError(std::string("the sampler's state to resume from is damaged: ") + e.what());
  }
}

}  // namespace mn
