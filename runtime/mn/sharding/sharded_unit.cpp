#include <mn/sharding/sharded_unit.hpp>

#include <utility>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <mn/sharding/pieces.hpp>
#include <mn/sharding/unit_memory.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

std::vector<std::int64_t> counts_of(const std::vector<at::Tensor>& parameters) {
  std::vector<std::int64_t> counts;
  for (const at::Tensor& parameter : parameters) counts.push_back(parameter.numel());
  return counts;
}

/// Returns a copy in page-locked memory of the host.
at::Tensor to_host(const at::Tensor& tensor) {
  return at::empty(tensor.sizes(), tensor.options().device(at::kCPU).pinned_memory(true)).copy_(tensor);
}

}  // namespace

ShardedUnit::ShardedUnit(std::vector<at::Tensor> parameters, Communicator& comm, bool keeps, bool on_host,
                         const Use& use)
    : parameters_(std::move(parameters)),
      layout_(counts_of(parameters_), comm.size()),
      rank_(comm.rank()),
      device_(comm.device()) {
  const at::NoGradGuard no_grad;
  const at::TensorOptions options = parameters_.front().options().requires_grad(false);
  buffer_ = keeps ? unit_memory(comm, layout_.size(), options) : at::zeros({layout_.size()}, options);
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
    share_ = unit_memory(comm, layout_.share(), options).copy_(share_);
    release();
  }
  updated_ = on_host && !share_.is_cpu() ? to_host(share_) : share_;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const UnitLayout::Piece piece = layout_.piece(i, rank_);
    pieces_.push_back(
        updated_.narrow(0, piece.place, piece.size()).detach().requires_grad_(parameters_[i].requires_grad()));
  }
}

void ShardedUnit::begin_gather(Communicator& comm) {
  const at::NoGradGuard no_grad;
  if (is_on_host()) share_.copy_(updated_, /*non_blocking=*/true);
  arriving_ = keeps() ? buffer_ : at::empty({layout_.size()}, share_.options());
  bytes_gathered_ += arriving_.nbytes();
  gather_.emplace(
      comm, [&](DeviceCollectives& device) { device.allgather(buffer_view(share_), buffer_view(arriving_)); },
      [&] { return comm.iallgather(buffer_view(share_), buffer_view(arriving_)); },
      [&] { comm.allgather(buffer_view(share_), buffer_view(arriving_)); });
}

void ShardedUnit::finish_gather() {
  gathered_ = std::exchange(gather_, std::nullopt);
  gathered_->wait();
  const at::Tensor arrived = std::exchange(arriving_, {});
  if (std::exchange(is_whole_, true)) return;
  buffer_ = arrived;
  record_stream();
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    uses_[i]->set_memory(buffer_.narrow(0, layout_.offset(i), layout_.count(i)));
  }
}

void ShardedUnit::record_stream() {
  if (buffer_.is_cpu()) return;
  user_ = current_stream(device_);
  buffer_.record_stream(*user_);
}

void ShardedUnit::use_on_current_stream() {
  if (!gathered_ || buffer_.is_cpu() || user_ == current_stream(device_)) return;
  gathered_->wait();
  record_stream();
}

void ShardedUnit::keep_writes() {
  const at::NoGradGuard no_grad;
  if (!keeps()) share_.copy_(buffer_.narrow(0, layout_.share() * rank_, layout_.share()));  // (1): otherwise a view
  if (is_on_host()) updated_.copy_(share_);
}

void ShardedUnit::release() {
  if (keeps()) return;
  for (const auto& use : uses_) use->set_memory({});
  gathered_.reset();
  buffer_.reset();
  is_whole_ = false;
}

}  // namespace mn
