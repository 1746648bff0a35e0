/// The gradients of a unit of sharded parameters, and their reduction (sharded_reduction.hpp). A unit's gradients
/// collect in a flat buffer with the layout of the unit's parameters. A reduce-scatter, and between replicas an
/// allreduce, leaves the rank its share of the mean over ranks.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/sharding/shard_ranks.hpp>
#include <mn/sharding/unit_layout.hpp>
#include <mn/sharding/unit_memory.hpp>
#include <mn/tensor/stream_call.hpp>

namespace mn {

class UnitReduction {
 public:
  UnitReduction(const UnitLayout& layout, const at::TensorOptions& options, const ShardRanks& ranks)
      : layout_(&layout), options_(options), ranks_(&ranks) {}

  /// True if the buffer has gradients that begin() will take.
  [[nodiscard]] bool has_gradients() const noexcept { return gradients_.defined(); }
  /// Local: adds a gradient of the unit's parameter `number`. The first gradient takes memory from `buffers`.
  void add(std::size_t number, const at::Tensor& gradient, const UnitBuffers& buffers);
  /// Local: multiplies the gradients in the buffer.
  void multiply(double factor);
  /// Collective: begins to reduce the gradients times `factor`, or with `takes` false to reduce zeros, and returns the
  /// bytes that this rank gives. With `in_place`, the rank's share stays in the buffer.
  std::size_t begin(bool takes, double factor, const UnitBuffers& buffers, bool in_place);
  /// Collective: waits for the reduce-scatter, frees the buffer, and begins the allreduce between replicas.
  void end_scatter();
  /// Collective: waits for the reduction, and adds its result to share().
  void wait();
  /// The rank's share of all reductions since drop(). Undefined if there was none.
  [[nodiscard]] at::Tensor& share() noexcept { return share_; }
  /// Local: forgets the gradients and the share.
  void drop();

 private:
  void zero_rest(at::Tensor& gradients, const std::vector<bool>& filled) const;
  [[nodiscard]] at::Tensor place(const at::Tensor& buffer, std::size_t number) const;

  const UnitLayout* layout_;
  at::TensorOptions options_;
  const ShardRanks* ranks_;
  at::Tensor gradients_;
  std::vector<bool> filled_;           // [parameters of the unit] gradients_ has the parameter's gradient
  at::Tensor sent_, arriving_;         // the buffers of a reduction under way
  std::optional<StreamCall> scatter_;  // the reduce-scatter under way
  std::optional<StreamCall> across_;   // the allreduce between replicas under way
  at::Tensor share_;
};

}  // namespace mn
