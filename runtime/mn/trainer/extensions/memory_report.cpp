#include <mn/trainer/extensions/memory_report.hpp>

#include <algorithm>
#include <atomic>
#include <iostream>

#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <mn/checkpoint/optimizer_state.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/classic_stream.hpp>
#include <mn/core/text.hpp>
#include <mn/sharding/sharded_parameters.hpp>
#include <mn/tensor/stream_call.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

/// The peak of the allocator of a GPU. Empty on a CPU.
std::string peak_text(c10::Device device) {
  auto* const allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(device.type()));
  if (allocator == nullptr || !allocator->initialized()) return "";
  constexpr auto kAll = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto peak = allocator->getDeviceStats(device.index()).allocated_bytes[kAll].peak;
  return "Peak of the allocator on rank 0: " + bytes_text(static_cast<std::uint64_t>(peak)) + "\n";
}

/// Bytes of the units that are gathered now and that MemoryReport::Counter has counted: units in memory that the ranks
/// of a node share (unit_memory.hpp) are not counted.
std::uint64_t counted_units(ShardedParameters* shards) {
  if (shards == nullptr) return 0;
  const Communicator& group = *shards->ranks().group;
  if (group.size() > 1 && !gains_from_background(group)) return 0;
  std::uint64_t bytes = 0;
  for (const auto& unit : shards->units()) bytes += unit->gathered_bytes();
  return bytes;
}

}  // namespace

ModelBytes model_bytes(MultiNodeOptimizer& optimizer, std::optional<at::ScalarType> autocast) {
  ShardedParameters* const shards = optimizer.shards();
  const std::vector<at::Tensor> parameters = shards != nullptr ? shards->parameters() : optimizer.trained_parameters();
  ModelBytes model;
  for (const at::Tensor& parameter : parameters) {
    model.parameters += parameter.nbytes();
    if (parameter.requires_grad()) model.gradients += parameter.nbytes();
  }
  model.largest_unit = largest_unit_bytes(parameters, ShardOptions());
  model.gathered_unit = largest_unit_bytes(parameters, ShardOptions(), autocast);
  const int shares = shards != nullptr ? shards->ranks().group->size() : 1;  // which have nearly the same size
  model.optimizer = optimizer_state_bytes(optimizer.actual()) * static_cast<std::uint64_t>(shares);
  return model;
}

namespace extensions {

/// Counts the bytes of tensors that the thread, and backwards that the thread starts, make and free.
class MemoryReport::Counter {
 public:
  Counter() : guard_(c10::DebugInfoKind::PROFILER_STATE, count_) {}
  [[nodiscard]] std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(std::max<std::int64_t>(count_->now, 0));
  }

 private:
  struct Count final : c10::MemoryReportingInfoBase {
    void reportMemoryUsage(void*, std::int64_t bytes, std::size_t, std::size_t, c10::Device) override { now += bytes; }
    bool memoryProfilingEnabled() const override { return true; }
    std::atomic<std::int64_t> now = 0;
  };
  std::shared_ptr<Count> count_ = std::make_shared<Count>();
  c10::DebugInfoGuard guard_;
};

MemoryReport::MemoryReport(std::optional<at::ScalarType> autocast) : autocast_(autocast) {}
MemoryReport::~MemoryReport() = default;

void MemoryReport::initialize(Trainer& /*trainer*/) { counter_ = std::make_unique<Counter>(); }

void MemoryReport::after_forward(Trainer& trainer, const at::Tensor& /*loss*/) {
  if (!counter_ || activations_) return;
  const std::uint64_t bytes = counter_->bytes();
  activations_ = bytes - std::min(bytes, counted_units(trainer.optimizer().shards()));
}

void MemoryReport::run(Trainer& trainer) {
  if (!counter_) return;
  counter_.reset();
  MultiNodeOptimizer& optimizer = trainer.optimizer();
  const Shard what = optimizer.shards() != nullptr ? optimizer.shards()->what() : Shard::kNone;
  const ModelBytes model = model_bytes(optimizer, autocast_);
  const int ranks =
      optimizer.shards() != nullptr ? optimizer.shards()->ranks().group->size() : trainer.communicator().size();
  if (!trainer.is_root()) return;
  const std::string text = memory_table(model, what, ranks, activations_.value_or(0)) +
                           peak_text(c10::Device(trainer.communicator().device()));
  std::cout << text << std::flush;
  OutFile(trainer.out() / "memory.txt") << text;
}

}  // namespace extensions
}  // namespace mn
