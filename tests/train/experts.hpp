/// Experts that live on different ranks, with optimizers that weigh the ranks' losses.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <torch/torch.h>

#include <mn/nn/collectives.hpp>
#include <mn/tensor/messages.hpp>
#include <mn/tensor/tensor.hpp>

#include "tests/train/toy.hpp"

namespace mn::toy {

using Comm = std::shared_ptr<Communicator>;

inline std::unique_ptr<MultiNodeOptimizer> sgd(std::vector<at::Tensor> parameters, const Comm& comm, double rate = 1,
                                               const OptimizerOptions& options = {}) {
  return create_multi_node_optimizer(
      std::make_unique<torch::optim::SGD>(std::move(parameters), torch::optim::SGDOptions(rate)), comm, options);
}
inline at::Tensor ones(at::IntArrayRef shape, at::ScalarType dtype = at::kFloat) {
  return torch::ones(shape, dtype).requires_grad_();
}

/// Twelve experts, a slice on each rank of a group; sample i is for expert i % 12. Rank r has r + 1 of a step's parts.
class Experts {
 public:
  /// `comm` consists of groups; `group` is this rank's group.
  Experts(Comm comm, Comm group, const OptimizerOptions& options)
      : comm_(std::move(comm)),
        group_(std::move(group)),
        count_(kExperts / group_->size()),
        first_(count_ * group_->rank()) {
    own_ = (torch::arange(kExperts * 2).view({kExperts, 2}).to(at::kDouble) * 0.1)
               .narrow(0, first_, count_)
               .clone()
               .requires_grad_();
    of_shared_ = sgd({shared_}, comm_, 0.05);
    of_own_ = sgd({own_}, comm_->split(group_->rank(), comm_->rank()), 0.05, options);
  }
  void step(std::int64_t k, bool weighed, bool own_first) {
    const std::int64_t parts = world()->size() * (world()->size() + 1) / 2;
    const bool alone = comm_->size() == 1;
    const std::int64_t all = 24 * (weighed ? parts : world()->size());
    const std::int64_t own = alone ? all : 24 * (weighed ? comm_->rank() + 1 : 1);
    const std::int64_t begin = alone ? 0 : 24 * (weighed ? comm_->rank() * (comm_->rank() + 1) / 2 : comm_->rank());
    const at::Tensor x = torch::sin(torch::arange(begin, begin + own).to(at::kDouble) + 0.1 * static_cast<double>(k));
    of_shared_->zero_grad();
    of_own_->zero_grad();
    const at::Tensor loss = (outputs(x.unsqueeze(1)) - 1).square().mean();
    const auto samples = static_cast<double>(own);
    (weighed ? of_shared_->scale_loss(loss, samples) : loss).backward();
    for (auto* each : {(own_first ? of_own_ : of_shared_).get(), (own_first ? of_shared_ : of_own_).get()}) {
      weighed ? each->step(samples) : each->step();
    }
  }
  /// The shared parameters, and those of all experts.
  [[nodiscard]] at::Tensor parameters() const {
    at::Tensor all = torch::empty({kExperts, 2}, at::kDouble);
    group_->allgather(own_.detach(), all);
    return torch::cat({shared_.detach(), all.flatten()});
  }

 private:
  static constexpr std::int64_t kExperts = 12;

  at::Tensor outputs(const at::Tensor& x) {
    const at::Tensor expert = torch::arange(x.size(0)) % kExperts;
    std::vector<at::Tensor> rows, tokens, ids;
    for (int r = 0; r < group_->size(); ++r) {
      rows.push_back(expert.floor_divide(count_).eq(r).nonzero().squeeze(1));
      tokens.push_back((x * shared_).index_select(0, rows.back()));
      ids.push_back(expert.index_select(0, rows.back()));
    }
    const auto got = alltoall(group_, tokens), which = alltoall_tensors(*group_, ids);
    std::vector<at::Tensor> back;
    for (std::size_t r = 0; r < got.size(); ++r) back.push_back(got[r] * own_.index_select(0, which[r] - first_));
    return torch::zeros({x.size(0), 2}, at::kDouble)
        .index_copy(0, torch::cat(rows), torch::cat(alltoall(group_, back)));
  }

  Comm comm_, group_;
  std::int64_t count_, first_;
  at::Tensor shared_ = ones({2}, at::kDouble), own_;
  std::unique_ptr<MultiNodeOptimizer> of_shared_, of_own_;
};

}  // namespace mn::toy
