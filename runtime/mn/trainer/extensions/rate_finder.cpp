#include <mn/trainer/extensions/rate_finder.hpp>

#include <algorithm>
#include <cmath>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/tensor/random_state.hpp>
#include <mn/trainer/extensions/try_to_write.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

/// The proposal ignores the first kStart losses, which depend on the first minibatches (Lightning's skip_begin).
constexpr std::size_t kStart = 10;
/// The proposal ignores the last kEnd losses, where the loss has diverged (Lightning's skip_end).
constexpr std::size_t kEnd = 1;

RateFinderOptions checked(const RateFinderOptions& options) {
  const bool is_sound = options.first > 0 && options.last > options.first && std::isfinite(options.last) &&
                        options.steps >= RateFinderOptions::kLeastSteps && options.smoothing >= 0 &&
                        options.smoothing < 1 && options.diverged > 1;
  if (is_sound) return options;
  throw UsageError(
      "a search for the learning rate needs 0 < first < last, at least 20 steps, a smoothing in [0, 1) and an end "
      "above 1 times the least loss; got first " +
      nlohmann::json(options.first).dump() + ", last " + nlohmann::json(options.last).dump() + ", " +
      std::to_string(options.steps) + " steps, smoothing " + nlohmann::json(options.smoothing).dump() + ", end " +
      nlohmann::json(options.diverged).dump());
}

NamedTensors copies_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.emplace_back(name, tensor.detach().clone());
  return copies;
}

/// Returns the model's parameters and buffers. Of experts, returns this rank's pieces.
NamedTensors tensors_of(const torch::nn::Module& model) {
  NamedTensors tensors = named_tensors(model);
  for (auto& [name, tensor] : tensors) {
    if (is_in_pieces(tensor)) tensor = find_piece(tensor)->elements;
  }
  return tensors;
}

/// Collective. Copies the model's parameters and buffers, also if they are sharded.
NamedTensors whole_copies_of(const torch::nn::Module& model) {
  const WholeParameters whole(model);
  return copies_of(tensors_of(model));
}

void copy_back(const NamedTensors& from, const NamedTensors& to) {
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < to.size(); ++i) at::Tensor(to[i].second).copy_(from[i].second);
}

/// As numpy.gradient(): a central difference, which is one-sided at both ends.
double slope(std::span<const double> values, std::size_t i) {
  const std::size_t before = i == 0 ? 0 : i - 1, after = std::min(i + 1, values.size() - 1);
  return (values[after] - values[before]) / static_cast<double>(after - before);
}

}  // namespace

/// The state before the search, for invariant 3.
struct RateFinder::Before {
  explicit Before(Trainer& trainer)
      : model(whole_copies_of(trainer.model())),
        iterator(trainer.iterator().state()),
        random(random_state(trainer.communicator().device())) {
    for (const auto& [name, optimizer] : trainer.optimizers()) {
      Optimizer& each = optimizers.emplace_back(Optimizer{optimizer->state(), copies_of(optimizer->rank_state()), {}});
      for (const auto& group : optimizer->param_groups()) each.rates.push_back(group.options().get_lr());
    }
  }

  void restore(Trainer& trainer) const {
    {
      const WholeParameters whole(trainer.model());
      copy_back(model, tensors_of(trainer.model()));
    }
    for (std::size_t i = 0; i < optimizers.size(); ++i) {
      MultiNodeOptimizer& optimizer = *trainer.optimizers()[i].optimizer;
      optimizer.zero_grad();
      optimizer.actual().state().clear();  // removes moments: there were none before the search
      optimizer.load_state(optimizers[i].state);
      optimizer.load_rank_state(optimizers[i].rank_state);
      for (std::size_t g = 0; g < optimizers[i].rates.size(); ++g) {
        optimizer.param_groups()[g].options().set_lr(optimizers[i].rates[g]);
      }
    }
    trainer.iterator().load_state(iterator);
    set_random_state(random, trainer.communicator().device());
  }

  struct Optimizer {
    nlohmann::json state;
    NamedTensors rank_state;
    std::vector<double> rates;
  };
  NamedTensors model;
  std::vector<Optimizer> optimizers;
  nlohmann::json iterator;
  NamedTensors random;
};

RateFinder::RateFinder(const LogReport& log, const RateFinderOptions& options)
    : log_(log),
      options_(checked(options)),
      rising_(exponential_schedule(options.first, options.last, options.steps - 1)) {}

RateFinder::~RateFinder() = default;

void RateFinder::initialize(Trainer& trainer) {
  if (trainer.iteration() != 0) {
    throw UsageError("a search for the learning rate begins with a new training, not after iteration " +
                     std::to_string(trainer.iteration()));
  }
  before_ = std::make_unique<Before>(trainer);
  rising_.initialize(trainer);
}

void RateFinder::run(Trainer& trainer) {
  if (log_.entries().empty() || log_.entries().back().at("iteration") != trainer.iteration()) {
    throw UsageError("a RateFinder needs a LogReport that runs in each iteration");
  }
  add(log_.last("lr"), log_.last("main/loss"));
  if (const std::string why = reason_to_end(); !why.empty()) return trainer.stop(why);
  rising_.run(trainer);
}

void RateFinder::add(double rate, double loss) {
  const auto count = static_cast<double>(losses_.size() + 1);
  mean_ = options_.smoothing * mean_ + (1 - options_.smoothing) * loss;
  const double smoothed = mean_ / (1 - std::pow(options_.smoothing, count));
  least_ = losses_.empty() ? smoothed : std::min(least_, smoothed);
  rates_.push_back(rate);
  losses_.push_back(loss);
  smoothed_.push_back(smoothed);
}

std::string RateFinder::reason_to_end() const {
  const std::string at_rate = " at the learning rate " + nlohmann::json(rates_.back()).dump();
  if (!std::isfinite(losses_.back())) return "the loss is not finite" + at_rate;
  if (losses_.size() > 1 && smoothed_.back() > options_.diverged * least_) return "the loss has diverged" + at_rate;
  return static_cast<std::int64_t>(rates_.size()) >= options_.steps ? "the search has reached its last learning rate"
                                                                    : "";
}

std::optional<double> RateFinder::proposal() const {
  const auto end = std::ranges::find_if(smoothed_, [](double loss) { return !std::isfinite(loss); });
  const auto count = static_cast<std::size_t>(end - smoothed_.begin());
  if (count < kStart + kEnd + 2) return std::nullopt;
  const auto kept = std::span(smoothed_).subspan(kStart, count - kStart - kEnd);
  // After the least loss, the loss may jump up and fall fast again, at a rate that would ruin a training.
  const auto least = static_cast<std::size_t>(std::ranges::min_element(kept) - kept.begin());
  std::size_t steepest = 0;
  for (std::size_t i = 1; i <= least; ++i) {
    if (slope(kept, i) < slope(kept, steepest)) steepest = i;
  }
  if (slope(kept, steepest) >= 0) return std::nullopt;
  return rates_[kStart + steepest];
}

void RateFinder::finalize(Trainer& trainer) {
  before_->restore(trainer);
  before_.reset();
  if (!trainer.is_root()) return;
  const auto proposed = proposal();
  const nlohmann::json file = {{"rates", rates_},
                               {"losses", losses_},
                               {"smoothed", smoothed_},
                               {"proposed", proposed ? nlohmann::json(*proposed) : nlohmann::json()}};
  bool has_failed = false;
  try_to_write(has_failed, [&] { write_file(trainer.out() / "rate_search.json", file.dump() + "\n"); });
  log_info(proposed ? "the loss falls fastest at the learning rate " + nlohmann::json(*proposed).dump()
                    : "the loss fell at none of the learning rates: there is no proposal");
}

}  // namespace mn::extensions
