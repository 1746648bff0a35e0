// (1) Each token has k assignments, to the experts of its k largest probabilities (Shazeer et al., arXiv:1701.06538).
// (2) An expert takes at most `capacity` assignments of all ranks together. First choices come before second choices;
//     among them, the order is by rank, then by token. The result is that of one rank with all tokens.
#include <mn/nn/mixture_of_experts.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/nn/collective_forms.hpp>
#include <mn/nn/row_exchange.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

/// The M assignments of a rank's tokens, without assignments that exceed capacities.
struct Assignments {
  at::Tensor tokens;     // [M] index of each assignment's token
  at::Tensor experts;    // [M] index of each assignment's expert
  at::Tensor weights;    // [M] factor of the expert's result; differentiable
  at::Tensor fractions;  // [experts] each expert's fraction of all ranks' assignments, before capacities; float64
};

/// Collective. Gathers the numbers of assignments of all ranks: [ranks, k, experts], on the host.
at::Tensor gather_counts(const at::Tensor& counts, std::int64_t k, Communicator& comm) {
  const at::Tensor own = counts.cpu(), all = at::empty({comm.size(), k, counts.size(0) / k}, own.options());
  comm.allgather(std::span(own.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(own.numel())),
                 std::span(all.mutable_data_ptr<std::int64_t>(), static_cast<std::size_t>(all.numel())));
  return all;
}

/// Invariant 2: returns for how many of a rank's assignments, [k · experts], the experts have room.
at::Tensor room_for(std::int64_t rank, const at::Tensor& all, double capacity_factor) {
  const std::int64_t ranks = all.size(0), k = all.size(1), experts = all.size(2);
  const double mean = static_cast<double>(all.sum().item<std::int64_t>()) / static_cast<double>(experts);
  const auto capacity = static_cast<std::int64_t>(std::ceil(capacity_factor * mean));
  const at::Tensor in_order = all.transpose(0, 1).reshape({k * ranks, experts});
  const at::Tensor earlier = in_order.cumsum(0) - in_order;
  return (capacity - earlier).clamp_min(0).view({k, ranks, experts}).select(1, rank).reshape(-1);
}

/// Collective. `probabilities` is [tokens, experts]. A capacity factor of 0 means no limit.
Assignments assign(const at::Tensor& probabilities, std::int64_t k, double capacity_factor, Communicator& comm) {
  const std::int64_t tokens = probabilities.size(0), experts = probabilities.size(1);
  auto [weights, chosen] = at::topk(probabilities, k, 1);           // [tokens, k]
  if (k > 1) weights = weights / weights.sum(1, /*keepdim=*/true);  // with k = 1 the router needs a gradient
  const at::Tensor choices = at::arange(k, chosen.options());
  const at::Tensor keys = (chosen + choices * experts).t().reshape(-1);  // in the order of (2) on a rank
  const at::Tensor counts = at::bincount(keys, {}, k * experts), all = gather_counts(counts, k, comm);
  at::Tensor kept = at::arange(k * tokens, keys.options());
  if (capacity_factor > 0) {
    const at::Tensor order = at::argsort(keys, /*stable=*/true, 0, /*descending=*/false);
    const at::Tensor sorted = keys.index_select(0, order), first = counts.cumsum(0) - counts;
    const at::Tensor position = kept - first.index_select(0, sorted);  // among equal keys
    const at::Tensor room = room_for(comm.rank(), all, capacity_factor).to(keys.device());
    kept = order.masked_select(position < room.index_select(0, sorted));
  }
  const at::Tensor sums = all.sum(at::IntArrayRef{0, 1}).to(at::kDouble);
  return {.tokens = kept.remainder(std::max<std::int64_t>(tokens, 1)),
          .experts = keys.index_select(0, kept).remainder(experts),
          .weights = weights.t().reshape(-1).index_select(0, kept),
          .fractions = sums / sums.sum().clamp_min(1)};
}

}  // namespace

MixtureOfExpertsImpl::MixtureOfExpertsImpl(std::shared_ptr<Communicator> comm, MixtureOfExpertsOptions options)
    : comm_(std::move(comm)), options_(std::move(options)) {
  if (comm_ && options_.expert_parallel == 0) options_.expert_parallel = comm_->size();
  check_alike();
  check();
  group_ = comm_->split(comm_->rank() / options_.expert_parallel, comm_->rank());
  replicas_ = comm_->split(comm_->rank() % options_.expert_parallel, comm_->rank());
  divide_experts();
  router_ = register_module("router",
                            torch::nn::Linear(torch::nn::LinearOptions(options_.width, options_.experts).bias(false)));
  router_->to(c10::Device(comm_->device()), options_.dtype);
  comm_->broadcast_data(*router_);
  up_ = register_parameter("up_proj", make_parameter(options_.hidden, options_.width));
  down_ = register_parameter("down_proj", make_parameter(options_.width, options_.hidden));
}

MixtureOfExpertsImpl::~MixtureOfExpertsImpl() = default;

/// Collective.
void MixtureOfExpertsImpl::check_alike() const {
  require_communicator(comm_, "MixtureOfExperts");
  const nlohmann::json own = {{"width", options_.width},
                              {"hidden", options_.hidden},
                              {"experts", options_.experts},
                              {"experts_per_token", options_.experts_per_token},
                              {"capacity_factor", options_.capacity_factor},
                              {"expert_parallel", options_.expert_parallel},
                              {"experts_of_rank", options_.experts_of_rank},
                              {"dtype", toString(options_.dtype)}};
  const std::vector<nlohmann::json> all = comm_->allgather_obj(own);
  for (std::size_t r = 1; r < all.size(); ++r) {
    for (const auto& [name, value] : all[0].items()) {
      if (all[r][name] == value) continue;
      throw ArgumentError("a MixtureOfExperts needs equal options on all ranks: " + name + " is " + json_text(value) +
                              " on rank 0 and " + json_text(all[r][name]) + " on rank " + std::to_string(r),
                          true);
    }
  }
}

void MixtureOfExpertsImpl::check() const {
  const auto require = [](bool holds, const std::string& what) {
    if (!holds) throw ArgumentError("a MixtureOfExperts needs " + what, true);
  };
  const MixtureOfExpertsOptions& given = options_;
  require(given.width > 0 && given.hidden > 0 && given.experts > 0, "a width, a hidden width and experts above 0");
  require(given.experts_per_token > 0 && given.experts_per_token <= given.experts,
          "from 1 to " + std::to_string(given.experts) + " experts for each token, got " +
              std::to_string(given.experts_per_token));
  require(given.capacity_factor >= 0 && std::isfinite(given.capacity_factor),
          "a capacity factor of at least 0, got " + std::to_string(given.capacity_factor));
  const int parallel = given.expert_parallel;
  require(parallel > 0 && comm_->size() % parallel == 0, "a number of ranks that expert_parallel divides, got " +
                                                             std::to_string(comm_->size()) + " ranks and " +
                                                             std::to_string(parallel));
  const std::vector<std::int64_t>& counts = given.experts_of_rank;
  const bool fits = std::ssize(counts) == parallel &&
                    std::ranges::all_of(counts, [](auto count) { return count >= 0; }) &&
                    std::reduce(counts.begin(), counts.end()) == given.experts;
  require(counts.empty() || fits, "experts_of_rank with a number for each of " + std::to_string(parallel) +
                                      " ranks and a sum of " + std::to_string(given.experts));
}

void MixtureOfExpertsImpl::divide_experts() {
  std::vector<std::int64_t>& counts = options_.experts_of_rank;
  const std::int64_t ranks = group_->size();
  for (std::int64_t r = std::ssize(counts); r < ranks; ++r) {
    counts.push_back(options_.experts * (r + 1) / ranks - options_.experts * r / ranks);
  }
  const auto own = counts.begin() + group_->rank();
  first_ = std::reduce(counts.begin(), own);
  count_ = *own;
  owners_ = torch::repeat_interleave(torch::tensor(counts, at::kLong)).to(c10::Device(comm_->device()));
}

/// Collective. Returns a parameter [experts, rows, columns] without memory, whose elements on this rank are drawn with
/// the variance of torch::nn::Linear. Rank 0 draws each expert in turn, so that no rank needs memory for all, and any
/// number of ranks begins with the same experts.
at::Tensor MixtureOfExpertsImpl::make_parameter(std::int64_t rows, std::int64_t columns) {
  const torch::NoGradGuard no_grad;
  const double deviation = 1 / std::sqrt(3 * static_cast<double>(columns));
  const std::int64_t each = rows * columns;
  const auto options = at::TensorOptions(options_.dtype).device(c10::Device(comm_->device()));
  const at::Tensor elements = at::empty({count_ * each}, options);
  for (std::int64_t e = 0; e < options_.experts; ++e) {
    const at::Tensor drawn = at::empty({each}, options.device(at::kCPU)).normal_(0, deviation).to(options.device());
    comm_->bcast(drawn);
    if (e >= first_ && e < first_ + count_) elements.narrow(0, (e - first_) * each, each).copy_(drawn);
  }
  const at::Tensor whole = at::empty({0}, options);
  whole.unsafeGetTensorImpl()->set_sizes_contiguous(std::vector<std::int64_t>{options_.experts, rows, columns});
  known_.push_back(std::make_unique<KnownPiece>(ParameterPiece{.whole = whole.requires_grad_(),
                                                               .elements = elements.requires_grad_(),
                                                               .begin = first_ * each,
                                                               .is_replica = replicas_->rank() > 0,
                                                               .ranks = group_.get(),
                                                               .replicas = replicas_,
                                                               .is_taken = is_taken_}));
  return whole;
}

/// Returns this rank's elements, [experts of this rank, rows, columns]. They require a gradient if `parameter` does,
/// which the program may have frozen.
at::Tensor MixtureOfExpertsImpl::elements_of(const at::Tensor& parameter) const {
  at::Tensor elements = find_piece(parameter)->elements;
  elements.set_requires_grad(parameter.requires_grad());
  return elements.view({count_, parameter.size(1), parameter.size(2)});
}

void MixtureOfExpertsImpl::to(torch::Device device, torch::Dtype dtype, bool non_blocking) {
  to(dtype, non_blocking);
  to(device, non_blocking);
}

void MixtureOfExpertsImpl::to(torch::Dtype dtype, bool /*non_blocking*/) {
  if (dtype == options_.dtype) return;
  throw ArgumentError("experts can't be converted: give MixtureOfExpertsOptions::dtype when the layer is made");
}

void MixtureOfExpertsImpl::to(torch::Device device, bool /*non_blocking*/) {
  const c10::Device own(comm_->device());
  if (device.type() == own.type() && (!device.has_index() || device == own)) return;
  throw ArgumentError("experts can't move to " + device.str() + ", because their communicator works on " + own.str());
}

/// Collective. Returns the result of expert experts[i] for row i.
at::Tensor MixtureOfExpertsImpl::run_experts(const at::Tensor& rows, const at::Tensor& experts) const {
  const RowExchange exchange(group_, owners_.index_select(0, experts));
  const at::Tensor received = exchange.send(rows), own = exchange.send(experts) - first_;
  const at::Tensor up = elements_of(up_), down = elements_of(down_);
  // Optimizers make collective calls for each piece with a gradient (LARS, LAMB). Therefore a piece has a gradient also
  // on ranks without experts.
  if (count_ == 0) return exchange.send_back(received + (up.sum() + down.sum()));
  const at::Tensor order = own.argsort(/*stable=*/true, 0, /*descending=*/false);
  const at::Tensor counts = own.bincount({}, count_).cpu();
  const auto parts = received.index_select(0, order).split_with_sizes(
      {counts.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(count_)});
  std::vector<at::Tensor> results;
  for (std::int64_t e = 0; e < count_; ++e) {
    const at::Tensor hidden = torch::gelu(torch::linear(parts[static_cast<std::size_t>(e)], up[e]), "tanh");
    results.push_back(torch::linear(hidden, down[e]));
  }
  return exchange.send_back(torch::cat(results).index_select(0, order.argsort()));
}

/// A usual optimizer would update tensors that the layer does not use.
void MixtureOfExpertsImpl::warn_if_untrained() {
  if (*is_taken_ || has_warned_ || comm_->rank() != 0 || !find_piece(up_)->elements.grad().defined()) return;
  has_warned_ = true;
  log_warning(
      "a MixtureOfExperts has gradients, but no MultiNodeOptimizer has its parameters, so its experts stay as they "
      "are: "
      "use create_multi_node_optimizer");
}

MixtureOfExpertsOutput MixtureOfExpertsImpl::forward(const at::Tensor& input) {
  if (is_training()) warn_if_untrained();
  if (input.dim() < 1 || input.size(-1) != options_.width) {
    throw ArgumentError("a MixtureOfExperts of width " + std::to_string(options_.width) +
                        " got an input whose last dimension differs");
  }
  const at::Tensor x = input.reshape({-1, options_.width});
  const auto wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  at::Tensor logits;
  {
    const c10::impl::ExcludeDispatchKeyGuard no_autocast(c10::autocast_dispatch_keyset);
    logits = torch::linear(x.to(wide), router_->weight.to(wide));
  }
  const at::Tensor probabilities = torch::softmax(logits, 1);
  const double factor = is_training() ? options_.capacity_factor : 0;
  const Assignments routing = assign(probabilities, options_.experts_per_token, factor, *comm_);
  const at::Tensor results = run_experts(x.index_select(0, routing.tokens), routing.experts);
  const at::Tensor weighted = (results * routing.weights.unsqueeze(1)).to(x.scalar_type());

  const auto tokens = static_cast<double>(std::max<std::int64_t>(x.size(0), 1));
  const auto experts = static_cast<double>(options_.experts);
  return {.output = torch::zeros_like(x).index_add(0, routing.tokens, weighted).view(input.sizes()),
          .balance_loss = (probabilities.sum(0) * routing.fractions.to(logits.options())).sum() * (experts / tokens),
          .z_loss = torch::logsumexp(logits, 1).square().sum() / tokens};
}

}  // namespace mn
