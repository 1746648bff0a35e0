#include <mn/sharding/sharded_unit.hpp>

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <mn/sharding/pieces.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

std::vector<std::int64_t> counts_of(const std::vector<at::Tensor>& parameters) {
  std::vector<std::int64_t> counts;
  for (const at::Tensor& parameter : parameters) counts.push_back(parameter.numel());
  return counts;
}

}  // namespace

ShardedUnit::ShardedUnit(std::vector<at::Tensor> parameters, const Communicator& comm, bool keeps, const Use& use)
    : parameters_(std::move(parameters)), layout_(counts_of(parameters_), comm.size()), rank_(comm.rank()) {
  const at::NoGradGuard no_grad;
  buffer_ = at::zeros({layout_.size()}, parameters_.front().options().requires_grad(false));
  share_ = buffer_.narrow(0, layout_.share() * rank_, layout_.share());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    const at::Tensor place = buffer_.narrow(0, layout_.offset(i), layout_.count(i));
    place.copy_(parameter.flatten());
    if (const auto piece = find_piece(parameter); piece && piece->forget) piece->forget();
    if (keeps) parameter.set_data(place.view(parameter.sizes()));
    if (!keeps) {
      uses_.push_back(std::make_unique<ParameterUse>(parameter, [use, i](auto kind) { use(i, kind); }));
    }
  }
  if (!keeps) {
    share_ = share_.clone();
    release();
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const UnitLayout::Piece piece = layout_.piece(i, rank_);
    pieces_.push_back(
        share_.narrow(0, piece.place, piece.size()).detach().requires_grad_(parameters_[i].requires_grad()));
  }
}

void ShardedUnit::begin_gather(Communicator& comm) {
  arriving_ = keeps() ? buffer_ : at::empty({layout_.size()}, share_.options());
  gather_ = comm.iallgather(buffer_view(share_), buffer_view(arriving_));
}

void ShardedUnit::finish_gather() {
  gather_->wait();
  gather_.reset();
  const at::Tensor arrived = std::exchange(arriving_, {});
  if (std::exchange(is_whole_, true)) return;
  buffer_ = arrived;
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    uses_[i]->set_memory(buffer_.narrow(0, layout_.offset(i), layout_.count(i)));
  }
}

void ShardedUnit::keep_writes() {
  if (keeps()) return;  // (1): the share is a view
  const at::NoGradGuard no_grad;
  share_.copy_(buffer_.narrow(0, layout_.share() * rank_, layout_.share()));
}

void ShardedUnit::release() {
  if (keeps()) return;
  for (const auto& use : uses_) use->set_memory({});
  buffer_.reset();
  is_whole_ = false;
}

}  // namespace mn
