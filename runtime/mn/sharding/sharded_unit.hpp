/// Parameters of one dtype that are gathered and freed together: those of a block of a network.
///
/// The parameters lie in a flat buffer (unit_layout.hpp), of which each rank owns a share. The torch optimizer updates
/// the rank's pieces of the parameters, which are views of the share.
/// (1) If the unit keeps its parameters, the buffer always exists, and the share is a view of it. Otherwise the buffer
///     exists only between begin_gather() and release(), and the share has memory of its own.
/// (2) The parameters' tensor objects never change. Without a buffer they have no memory, and parameter_uses.hpp calls
///     the function `use` before an operator reads or writes them.
/// (3) All ranks begin to gather the units in the same order.
/// Memory of a rank: the share; while the buffer exists, the parameters and less than 64 bytes for each of them.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/sharding/parameter_uses.hpp>
#include <mn/sharding/unit_layout.hpp>

namespace mn {

class ShardedUnit {
 public:
  using Use = std::function<void(std::size_t parameter, ParameterUse::Kind kind)>;

  /// Cuts the parameters, which have one dtype and equal values on all ranks. They become contiguous. With `keeps` the
  /// parameters stay whole; without, they have no memory after this call.
  ShardedUnit(std::vector<at::Tensor> parameters, const Communicator& comm, bool keeps, const Use& use);

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] const UnitLayout& layout() const noexcept { return layout_; }
  /// This rank's piece of parameter i, a leaf of one dimension, which may be empty.
  [[nodiscard]] const at::Tensor& piece(std::size_t i) const { return pieces_[i]; }
  /// This rank's share of the buffer.
  [[nodiscard]] const at::Tensor& share() const noexcept { return share_; }
  [[nodiscard]] bool keeps() const noexcept { return uses_.empty(); }

  /// True if the parameters have their values.
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }
  /// True if begin_gather() was called, and finish_gather() was not.
  [[nodiscard]] bool is_arriving() const noexcept { return gather_.has_value(); }
  /// Collective: begins to collect the shares of all ranks, without waiting. If the unit is whole already, the rank
  /// only takes part for the sake of the other ranks.
  void begin_gather(Communicator& comm);
  /// Local: waits for the shares. The parameters are whole afterwards.
  void finish_gather();
  /// Local: this rank's share takes the values that the program has written to the whole parameters.
  void keep_writes();
  /// Local: frees the buffer of a unit that does not keep its parameters.
  void release();

 private:
  std::vector<at::Tensor> parameters_, pieces_;
  UnitLayout layout_;
  int rank_;
  at::Tensor buffer_, share_;
  at::Tensor arriving_;                              // the buffer of a gather under way
  std::vector<std::unique_ptr<ParameterUse>> uses_;  // [parameters]; empty if the unit keeps them
  std::optional<Request> gather_;
  bool is_whole_ = true;
};

}  // namespace mn
