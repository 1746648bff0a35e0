#include <mn/sharding/unit_memory.hpp>

#include <atomic>
#include <deque>

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/stream_call.hpp>

namespace mn {
namespace {

constexpr std::size_t kAlignment = 64;

bool shares(const Communicator& comm) { return comm.size() > 1 && !gains_from_background(comm); }

}  // namespace

at::Tensor unit_memory(Communicator& comm, std::int64_t count, const at::TensorOptions& options) {
  const std::size_t bytes = static_cast<std::size_t>(count) * options.dtype().itemsize();
  if (!shares(comm)) return at::zeros({count}, options);
  std::shared_ptr<std::byte> memory = comm.allocate(bytes);
  void* const data = memory.get();
  return at::from_blob(
      data, {count}, [memory = std::move(memory)](void*) {}, options);
}

struct UnitBuffers::Block {
  struct Buffer {
    Buffer(std::byte* data_, std::size_t bytes_) : data(data_), bytes(bytes_) {}
    std::byte* data;
    std::size_t bytes;
    std::atomic<bool> is_used = false;  // tensors may be freed on any thread
  };
  std::shared_ptr<std::byte> memory;
  std::deque<Buffer> buffers;
};

UnitBuffers::UnitBuffers(Communicator& comm, const std::vector<std::size_t>& sizes) {
  if (!shares(comm) || sizes.empty()) return;
  const auto room_for = [](std::size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; };
  std::size_t total = 0;
  for (const std::size_t bytes : sizes) total += room_for(bytes);
  block_ = std::make_shared<Block>();
  block_->memory = comm.allocate(total);
  std::byte* next = block_->memory.get();
  for (const std::size_t bytes : sizes) {
    block_->buffers.emplace_back(next, bytes);
    next += room_for(bytes);
  }
}

at::Tensor UnitBuffers::take(std::int64_t count, const at::TensorOptions& options) const {
  const std::size_t bytes = static_cast<std::size_t>(count) * options.dtype().itemsize();
  Block::Buffer* best = nullptr;
  for (std::size_t i = 0; block_ && i < block_->buffers.size(); ++i) {
    Block::Buffer& each = block_->buffers[i];
    if (!each.is_used && each.bytes >= bytes && (best == nullptr || each.bytes < best->bytes)) best = &each;
  }
  if (best == nullptr) return at::empty({count}, options);
  best->is_used = true;
  return at::from_blob(
      best->data, {count}, [best, block = block_](void*) { best->is_used = false; }, options);
}

}  // namespace mn
