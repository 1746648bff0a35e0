/// A unit: parameters of a block with one dtype, gathered and freed together.
///
/// The parameters lie in a flat buffer (unit_layout.hpp); each rank owns a share. The torch optimizer updates the
/// rank's pieces of the parameters: views of the share.
/// (1) If the unit keeps its parameters, the buffer always exists, and the share is a view of the buffer. Otherwise the
///     buffer exists only between begin_gather() and release(), and the share has separate memory.
/// (2) The parameters' tensor objects never change. Without a buffer the parameters have no memory, and
///     parameter_uses.hpp calls the function `use` before an operator reads or writes a parameter.
/// (3) The pieces may lie on the host (ShardOptions::offload). Then the share on the device is a copy.
/// (4) On a device the memory is used in the order of streams, and the host does not wait.
/// (5) All ranks begin to gather the units in equal order.
/// Memory of a rank: the share; while the buffer exists, also the parameters and less than 64 bytes for each parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <c10/core/Stream.h>

#include <mn/comm/communicator.hpp>
#include <mn/sharding/parameter_uses.hpp>
#include <mn/sharding/unit_layout.hpp>
#include <mn/tensor/stream_call.hpp>

namespace mn {

class ShardedUnit {
 public:
  using Use = std::function<void(std::size_t parameter, ParameterUse::Kind kind)>;

  /// Collective: divides `parameters` (one dtype, equal values on all ranks) and makes each contiguous. With `keeps`
  /// the parameters stay whole; without `keeps` they have no memory afterwards. With `on_host` the pieces lie on the
  /// host (3).
  ShardedUnit(std::vector<at::Tensor> parameters, Communicator& comm, bool keeps, bool on_host, const Use& use);

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  [[nodiscard]] const UnitLayout& layout() const noexcept { return layout_; }
  /// This rank's piece of parameter i: a leaf of one dimension, possibly empty.
  [[nodiscard]] const at::Tensor& piece(std::size_t i) const { return pieces_[i]; }
  [[nodiscard]] const at::Tensor& share() const noexcept { return share_; }
  [[nodiscard]] bool keeps() const noexcept { return uses_.empty(); }
  /// True if the pieces lie on the host, and the share on a device.
  [[nodiscard]] bool is_on_host() const noexcept { return !updated_.is_same(share_); }

  /// True if the parameters have their values.
  [[nodiscard]] bool is_whole() const noexcept { return is_whole_; }
  /// True between begin_gather() and finish_gather().
  [[nodiscard]] bool is_arriving() const noexcept { return gather_.has_value(); }
  /// Collective: begins to gather the shares of all ranks, without waiting. A rank with the whole unit only takes part.
  /// Values of pieces on the host are first copied to the share.
  void begin_gather(Communicator& comm);
  /// Local: the current stream (on the CPU, the host) waits for the shares. The parameters are whole afterwards.
  void finish_gather();
  /// Local, before an operator uses the whole parameters. On a device the current stream waits for the shares, and the
  /// allocator does not reuse the buffer before the stream's work ends.
  void use_on_current_stream();
  /// Local: copies the program's writes to the whole parameters into this rank's share.
  void keep_writes();
  /// Local: frees the buffer of a unit that does not keep its parameters.
  void release();
  /// Bytes of all buffers that this rank has gathered.
  [[nodiscard]] std::uint64_t bytes_gathered() const noexcept { return bytes_gathered_; }

 private:
  void record_stream();

  std::vector<at::Tensor> parameters_, pieces_;
  UnitLayout layout_;
  int rank_;
  Device device_;
  at::Tensor buffer_, share_;
  at::Tensor arriving_;                              // the buffer of a gather under way
  at::Tensor updated_;                               // has the pieces: the share, or the share's copy on the host (3)
  std::vector<std::unique_ptr<ParameterUse>> uses_;  // [parameters]; empty if the unit keeps them
  std::optional<StreamCall> gather_;                 // until finish_gather()
  std::optional<StreamCall> gathered_;               // the gather of buffer_, until release()
  std::optional<c10::Stream> user_;                  // the last stream that has waited for gathered_
  std::uint64_t bytes_gathered_ = 0;
  bool is_whole_ = true;
};

}  // namespace mn
