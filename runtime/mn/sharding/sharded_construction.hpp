/// Makes a model in pieces, because all parameters together fit on no rank.
///
///   const auto model = mn::construct_sharded(comm, [&] { return std::make_shared<Gpt>(options); });
///   const auto optimizer = mn::create_multi_node_optimizer(…, {.shard = {.what = mn::Shard::kParameters}});
///
/// While the function runs, the ranks divide each finished parameter: a rank keeps its piece of rank 0's values, on the
/// communicator's device. Before an operator uses a divided parameter, the ranks gather the parameter. The values are
/// equal to the values of a model that is made whole. load_model() fills the pieces without a gather.
/// (1) A parameter is a tensor that an operator has made (torch::empty(), torch::randn(), …), and that requires a
///     gradient. All ranks must make the same parameters in the same order.
/// (2) Each operator may divide parameters. Therefore a pointer from data_ptr() is valid only until the next operator.
/// (3) Parameters stay divided until a multi-node optimizer takes them.
/// Memory of a rank: the pieces, `whole_bytes`, and twice the largest parameter.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace mn {

class Communicator;

/// While an object lives, operators of its thread divide parameters. Programs call construct_sharded().
class ShardedConstruction {
 public:
  /// Parameters of at most `whole_bytes` bytes stay whole during construction, and the newest parameter.
  ShardedConstruction(std::shared_ptr<Communicator> comm, std::size_t whole_bytes);
  ~ShardedConstruction();
  ShardedConstruction(const ShardedConstruction&) = delete;
  ShardedConstruction& operator=(const ShardedConstruction&) = delete;

  /// Local: notes a tensor that an operator has made.
  void note(const at::Tensor& tensor);
  /// Collective: divides the oldest whole parameters until at most whole_bytes are whole. The newest parameter stays
  /// whole, because the program may still write its first values.
  void make_room();
  /// Collective: divides all parameters.
  void finish();

 private:
  [[nodiscard]] std::vector<at::Tensor> whole_parameters();

  std::shared_ptr<Communicator> comm_;
  std::size_t whole_bytes_;
  std::vector<c10::weak_intrusive_ptr<c10::TensorImpl>> made_;  // tensors made by operators, in this order
  c10::impl::IncludeDispatchKeyGuard sees_operators_;
};

/// Collective: converts a parameter in pieces to `type`, also if construct_sharded() has returned. Needs memory for the
/// whole parameter. An optimizer must not have the parameter.
void convert_pieces(at::Tensor parameter, at::ScalarType type);

/// Collective: returns make(), whose parameters are divided among the ranks.
template <class Make>
[[nodiscard]] auto construct_sharded(std::shared_ptr<Communicator> comm, const Make& make,
                                     std::size_t whole_bytes = std::size_t{64} << 20) {
  ShardedConstruction construction(std::move(comm), whole_bytes);
  auto model = make();
  construction.finish();
  return model;
}

}  // namespace mn
