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
  whole_.buffer = keeps ? unit_memory(comm, layout_.size(), options) : at::zeros({layout_.size()}, options);
  share_ = whole_.buffer.narrow(0, layout_.share() * rank_, layout_.share());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    at::Tensor& parameter = parameters_[i];
    const at::Tensor place = whole_.buffer.narrow(0, layout_.offset(i), layout_.count(i));
    place.copy_(parameter.flatten());
    if (const auto piece = find_piece(parameter); piece && piece->forget) piece->forget();
    if (keeps) parameter.set_data(place.view(parameter.sizes()));
    if (!keeps) {
      uses_.push_back(std::make_unique<ParameterUse>(parameter, [use, i](auto kind) { return use(i, kind); }));
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

void ShardedUnit::begin_gather(Communicator& comm, c10::ScalarType type, const UnitBuffers& buffers) {
  const at::NoGradGuard no_grad;
  if (is_on_host()) share_.copy_(updated_, /*non_blocking=*/true);
  if (!has_copies()) type = this->type();
  arriving_ = keeps() ? whole_.buffer : buffers.take(layout_.size(), share_.options().dtype(type));
  at::Tensor sent = share_;
  if (type != this->type()) sent = arriving_.narrow(0, layout_.share() * rank_, layout_.share()).copy_(share_);
  bytes_gathered_ += arriving_.nbytes();
  gather_.emplace(
      comm, [&](DeviceCollectives& device) { device.allgather(buffer_view(sent), buffer_view(arriving_)); },
      [&] { return comm.iallgather(buffer_view(sent), buffer_view(arriving_)); },
      [&] { comm.allgather(buffer_view(sent), buffer_view(arriving_)); });
}

void ShardedUnit::finish_gather(bool drops) {
  std::optional<StreamCall> call = std::exchange(gather_, std::nullopt);
  call->wait();
  const at::Tensor arrived = std::exchange(arriving_, {});
  Gathered& gathered = arrived.scalar_type() == type() ? whole_ : copies_;
  const bool is_known = gathered.buffer.defined() && gathered.buffer.scalar_type() == arrived.scalar_type();
  if (!drops && !is_known) set(gathered, arrived, std::move(call));
}

void ShardedUnit::set(Gathered& gathered, const at::Tensor& buffer, std::optional<StreamCall> call) {
  release(gathered);
  gathered = {.buffer = buffer, .call = std::move(call)};
  record_stream(gathered);
  for (std::size_t i = 0; i < uses_.size(); ++i) {
    uses_[i]->set_memory(buffer.scalar_type(), buffer.narrow(0, layout_.offset(i), layout_.count(i)));
  }
}

void ShardedUnit::record_stream(Gathered& gathered) {
  if (gathered.buffer.is_cpu()) return;
  gathered.user = current_stream(device_);
  gathered.buffer.record_stream(*gathered.user);
}

bool ShardedUnit::use_on_current_stream(c10::ScalarType type) {
  Gathered& gathered = type == this->type() ? whole_ : copies_;
  if (gathered.buffer.defined() && gathered.buffer.scalar_type() == type) {
    if (gathered.buffer.is_cpu() || gathered.user == current_stream(device_)) return true;
    if (gathered.call) {
      gathered.call->wait();
      record_stream(gathered);
      return true;
    }
    // another stream has converted the parameters
  }
  if (type == this->type() || !use_on_current_stream(this->type())) return false;
  const at::NoGradGuard no_grad;
  set(copies_, whole_.buffer.to(type), std::nullopt);
  return true;
}

void ShardedUnit::keep_writes() {
  const at::NoGradGuard no_grad;
  // (1): the share of a unit that keeps its parameters is a view.
  if (!keeps()) share_.copy_(whole_.buffer.narrow(0, layout_.share() * rank_, layout_.share()));
  if (is_on_host()) updated_.copy_(share_);
  release(copies_);
}

std::uint64_t ShardedUnit::gathered_bytes() const {
  std::uint64_t bytes = 0;
  for (const Gathered* gathered : {&whole_, &copies_}) {
    if (!keeps() && gathered->buffer.defined()) bytes += gathered->buffer.nbytes();
  }
  return bytes;
}

void ShardedUnit::release() {
  if (keeps()) return;
  release(whole_);
  release(copies_);
}

void ShardedUnit::release(Gathered& gathered) {
  if (!gathered.buffer.defined()) return;
  for (const auto& use : uses_) use->set_memory(gathered.buffer.scalar_type(), {});
  gathered = {};
}

}  // namespace mn
