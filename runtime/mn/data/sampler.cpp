// Decides which samples a rank takes in a step.
//
// (1) In every step the counts of two ranks differ by at most one, and all ranks have an equal number of steps.
// (2) Over all ranks, an epoch has each sample exactly once (with a DrawSampler, each draw). Only drop_last may leave
//     out samples at the end.
// (3) With a PositionSampler, step k has equal samples for any number of ranks if batchsize × ranks is equal. A state
//     in mid-epoch resumes with any number of ranks and any batch size, because (seed, epoch, consumed) is a position
//     in one order. A DrawSampler resumes in mid-epoch only with equal weights.
// (4) With a PartSampler, each rank has an order of its own part, so a resume in mid-epoch needs an equal number of
//     ranks and batch size.
// (5) A sampler rejects the state of another dataset, which it recognizes by fingerprint and size.
//
// Cost: a step evaluates the order batchsize times, and has StepDivision's cost. No messages are sent.
#include <mn/data/sampler.hpp>

#include <algorithm>
#include <cassert>
#include <cstdlib>
#include <numeric>
#include <string>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/random.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

constexpr std::int64_t kMaxLanesOfState = std::int64_t{1} << 20;

const SamplerOptions& checked(std::int64_t size, const SamplerOptions& options) {
  if (options.batchsize < 1) {
    throw UsageError("batch size " + std::to_string(options.batchsize) + ": at least 1 sample a rank is needed");
  }
  if (size == 0) throw UsageError("there are no samples: the dataset, or this part of it, is empty");
  if (size < options.ranks) {
    throw UsageError("there are more ranks (" + std::to_string(options.ranks) + ") than samples (" +
                     std::to_string(size) + "): start at most " + std::to_string(size) +
                     (size == 1 ? " rank" : " ranks"));
  }
  if (options.drop_last && size / options.ranks < options.batchsize) {  // a part has at least ⌊size / ranks⌋ samples
    throw UsageError("a step takes " + std::to_string(options.batchsize) + " × " + std::to_string(options.ranks) +
                     " samples, but there are only " + std::to_string(size) +
                     ": dropping the short last step leaves none; use a smaller batch size");
  }
  return options;
}

std::string draws_of(const nlohmann::json& state) { return state.value("draws", std::string()); }

}  // namespace

Sampler::Sampler(std::int64_t size, std::uint64_t fingerprint, const SamplerOptions& options)
    : size_(size), fingerprint_(fingerprint), options_(checked(size, options)) {}

std::optional<SamplerStep> Sampler::next() {
  auto step = do_next();
  if (step) {
    position_.consumed = step->consumed;
  } else {
    set_epoch(position_.epoch + 1);
  }
  return step;
}

void Sampler::set_epoch(std::int64_t epoch) {
  position_ = {.epoch = epoch};
  do_reorder();
}

nlohmann::json Sampler::state(const EpochPosition& position) const {
  const data::OrderOptions& order = options_.order;
  return {{"dataset", to_hex(fingerprint_)},
          {"samples", size_},
          {"seed", options_.seed},
          {"epoch", position.epoch},
          {"consumed", position.consumed},
          {"ranks", options_.ranks},
          {"batchsize", options_.batchsize},
          {"shuffle", order.shuffle},
          {"lanes", order.lanes},
          {"adjacent", order.adjacent},
          {"windows", order.windows},
          {"mixed", order.mixed},
          {"aligned", order.aligned},
          {"draws", do_draws()}};
}

data::OrderOptions Sampler::order_from(const nlohmann::json& state) const {
  data::OrderOptions order{.shuffle = state.at("shuffle"), .lanes = whole_number<std::int64_t>(state.at("lanes"))};
  order.adjacent = whole_number<std::int64_t>(state.at("adjacent"));
  order.windows = whole_number<std::int64_t>(state.at("windows"));
  order.mixed = state.at("mixed");
  order.aligned = whole_number<std::int64_t>(state.at("aligned"));
  const bool good = order.aligned >= 1 && order.aligned <= std::max<std::int64_t>(size_, 1) && order.lanes >= 1 &&
                    order.lanes <= kMaxLanesOfState && order.adjacent >= 1 && order.lanes % order.adjacent == 0 &&
                    order.windows >= 1 && order.windows <= std::max<std::int64_t>(size_ / order.lanes, 1);
  if (!good) throw DataError("the sampler's state is damaged");
  return order;
}

void Sampler::check_origin(const nlohmann::json& state, bool is_mid_epoch) const {
  const auto dataset = state.at("dataset").get<std::string>();
  const auto draws = draws_of(state);
  if (dataset != to_hex(fingerprint_) || (draws == do_draws() && state.at("samples") != size_)) {
    throw DataError("the state to resume from was taken with another dataset (" + state.at("samples").dump() +
                    " samples, " + dataset + "; here " + std::to_string(size_) + ", " + to_hex(fingerprint_) +
                    "): give the same data, or start from the beginning");
  }
  if (is_mid_epoch && draws != do_draws()) {
    throw DataError(
        "the state to resume from was taken in mid-epoch with samples that were drawn by other weights: give the same "
        "weights, or resume from the end of an epoch");
  }
}

void Sampler::load_state(const nlohmann::json& state) {
  try {
    const auto epoch = whole_number<std::int64_t>(state.at("epoch"));
    const auto consumed = whole_number<std::int64_t>(state.at("consumed"));
    check_origin(state, consumed > 0);
    if (epoch < 0 || consumed < 0 || consumed > size_) throw DataError("the sampler's state is damaged");
    if (consumed > 0) do_check_mid_epoch(state);
    if (draws_of(state) == do_draws()) options_.order = order_from(state);
    options_.seed = whole_number<decltype(options_.seed)>(state.at("seed"));
    set_epoch(epoch);
    position_.consumed = consumed;
  } catch (const nlohmann::json::exception& e) {
    throw DataError(std::string("the sampler's state to resume from is damaged: ") + e.what());
  }
}

std::int64_t PositionSampler::do_steps_per_epoch() const {
  const std::int64_t step = options().batchsize * options().ranks;
  return options().drop_last ? size() / step : (size() + step - 1) / step;
}

std::optional<SamplerStep> PositionSampler::do_next() {
  const std::int64_t first = consumed();
  const std::int64_t whole = options().batchsize * options().ranks;
  const std::int64_t left = size() - first;
  const bool halve = options().even_last && !options().drop_last && whole < left && left < 2 * whole;
  const std::int64_t last = first + (halve ? (left + 1) / 2 : std::min(whole, left));
  if (first == last || (options().drop_last && last - first < whole)) return std::nullopt;
  SamplerStep step;
  step.epoch = epoch();
  step.seed = do_step_seed(first);
  step.consumed = last;
  step.ends_epoch = last == size() || (options().drop_last && size() - last < whole);
  step.indices = do_samples(first, last);
  assert(std::abs(std::ssize(step.indices) * options().ranks - (last - first)) < options().ranks);  // counts: ± 1
  return step;
}

GlobalSampler::GlobalSampler(std::int64_t size, std::uint64_t fingerprint, const SamplerOptions& options)
    : PositionSampler(size, fingerprint, options) {
  do_reorder();
}

void GlobalSampler::do_reorder() { division_.emplace(data::EpochOrder(size(), options().order, seed(), epoch())); }

std::vector<std::int64_t> GlobalSampler::do_samples(std::int64_t first, std::int64_t last) {
  return division_->samples(first, last, options().rank, options().ranks);
}

DrawSampler::DrawSampler(std::int64_t samples, std::uint64_t fingerprint, const DrawOptions& draws,
                         const SamplerOptions& options)
    : DrawSampler(data::Draws(draws, samples), fingerprint, options) {}

DrawSampler::DrawSampler(data::Draws draws, std::uint64_t fingerprint, const SamplerOptions& options)
    : PositionSampler(draws.size(), fingerprint, options), draws_(std::move(draws)) {
  do_reorder();
}

void DrawSampler::do_reorder() { draws_.begin(seed(), epoch()); }

std::vector<std::int64_t> DrawSampler::do_samples(std::int64_t first, std::int64_t last) {
  const std::int64_t draws = last - first;
  const std::int64_t begin = first + draws * options().rank / options().ranks;
  const std::int64_t end = first + draws * (options().rank + 1) / options().ranks;
  std::vector<std::int64_t> samples;
  for (std::int64_t position = begin; position < end; ++position) samples.push_back(draws_(position));
  std::ranges::sort(samples);  // so that neighbors are read together
  return samples;
}

std::uint64_t DrawSampler::do_step_seed(std::int64_t first) const {
  return mix_bits(seed() + mix_bits(static_cast<std::uint64_t>(first) + 1));
}

std::string DrawSampler::do_draws() const { return to_hex(draws_.fingerprint()); }

PartSampler::PartSampler(std::vector<std::int64_t> part_sizes, std::uint64_t fingerprint, const SamplerOptions& options)
    : Sampler(std::accumulate(part_sizes.begin(), part_sizes.end(), std::int64_t{0}), fingerprint, options),
      part_sizes_(std::move(part_sizes)),
      order_(part_sizes_[options.rank], options.order, options.seed, 0) {
  assert(std::ranges::max(part_sizes_) - std::ranges::min(part_sizes_) <= 1);  // equal counts (± 1)
}

std::int64_t PartSampler::do_steps_per_epoch() const {
  const std::int64_t b = options().batchsize;
  const auto [least, most] = std::minmax_element(part_sizes_.begin(), part_sizes_.end());
  return options().drop_last ? *least / b : (*most + b - 1) / b;
}

void PartSampler::do_reorder() {
  order_ = data::EpochOrder(part_sizes_[options().rank], options().order, seed(), epoch());
}

std::int64_t PartSampler::end_of(std::int64_t step, std::int64_t part) const {
  const std::int64_t b = options().batchsize;
  const bool halve = options().even_last && !options().drop_last;
  if (halve && step >= 0 && step + 2 == do_steps_per_epoch()) return step * b + (part - step * b + 1) / 2;
  return std::min((step + 1) * b, part);
}

std::optional<SamplerStep> PartSampler::do_next() {
  const std::int64_t whole = options().batchsize * options().ranks;
  // The number of steps taken so far: every step except the last two takes a whole batch on every rank.
  const std::int64_t k = (consumed() + whole - 1) / whole;
  const std::int64_t steps = do_steps_per_epoch();
  if (k >= steps || consumed() == size()) return std::nullopt;
  SamplerStep step;
  step.epoch = epoch();
  step.seed = seed();
  step.ends_epoch = k + 1 == steps;
  for (const std::int64_t part : part_sizes_) step.consumed += end_of(k, part);
  const std::int64_t part = part_sizes_[options().rank];
  for (std::int64_t p = end_of(k - 1, part); p < end_of(k, part); ++p) step.indices.push_back(order_(p));
  return step;
}

void PartSampler::do_check_mid_epoch(const nlohmann::json& state) const {
  if (state.at("ranks") == options().ranks && state.at("batchsize") == options().batchsize) return;
  throw DataError("the state to resume from was taken in mid-epoch by " + state.at("ranks").dump() +
                  " ranks with batch size " + state.at("batchsize").dump() +
                  " over data in the ranks' memory: resume with equal ranks and batch size, resume from the end of an "
                  "epoch, or use shards (mnshard makes them), which resume with any number of ranks");
}

}  // namespace mn
