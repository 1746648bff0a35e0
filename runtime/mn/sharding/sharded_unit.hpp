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
/// (6) If autocast's copies of the parameters are watched (parameter_uses.hpp), a gather may fetch copies alone: each
///     rank converts its share first. The copies have a buffer of their own, with the same layout.
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
#include <mn/sharding/unit_memory.hpp>
#include <mn/tensor/stream_call.hpp>

namespace mn {

class ShardedUnit {
 public:
  /// See ParameterUse::Watcher.
  using Use = std::function<bool(std::size_t parameter, ParameterUse::Kind kind)>;

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

  [[nodiscard]] c10::ScalarType type() const noexcept { return share_.scalar_type(); }
  /// True if copies may be gathered alone (6).
  [[nodiscard]] bool has_copies() const { return !keeps() && ParameterUse::watches_copies(parameters_.front()); }
  /// True if the parameters have their values.
  [[nodiscard]] bool is_whole() const noexcept { return whole_.buffer.defined(); }
  /// Bytes of the parameters and copies that are gathered now and that release() frees.
  [[nodiscard]] std::uint64_t gathered_bytes() const;
  /// Collective: begins to gather the shares of all ranks, without waiting. If has_copies() and `type` is 16-bit,
  /// gathers the copies in `type` alone. Values of pieces on the host are first copied to the share. Takes memory from
  /// `buffers`.
  void begin_gather(Communicator& comm, c10::ScalarType type, const UnitBuffers& buffers = {});
  /// Local: the current stream (on the CPU, the host) waits for the shares. The parameters, or the copies, are whole
  /// afterwards. With `drops` the rank has only taken part.
  void finish_gather(bool drops = false);
  /// Local, before an operator uses the parameters, or the copies in `type`. On a device the current stream waits for
  /// the shares, and the allocator does not reuse the buffer before the stream's work ends. Converts whole parameters
  /// if there are no copies. Returns false if the ranks must gather first.
  [[nodiscard]] bool use_on_current_stream(c10::ScalarType type);
  /// Local: copies the program's writes to the whole parameters into this rank's share.
  void keep_writes();
  /// Local: frees the buffer of a unit that does not keep its parameters.
  void release();
  /// Bytes of all buffers that this rank has gathered.
  [[nodiscard]] std::uint64_t bytes_gathered() const noexcept { return bytes_gathered_; }

 private:
  struct Gathered {
    at::Tensor buffer = {};                // undefined: not gathered
    std::optional<StreamCall> call = {};   // the gather of the buffer; no value: an operator of the stream `user`
    std::optional<c10::Stream> user = {};  // the last stream that has waited for the call
  };
  void record_stream(Gathered& gathered);
  void set(Gathered& gathered, const at::Tensor& buffer, std::optional<StreamCall> call);
  void release(Gathered& gathered);

  std::vector<at::Tensor> parameters_, pieces_;
  UnitLayout layout_;
  int rank_;
  Device device_;
  Gathered whole_, copies_;  // of the parameters and of their copies (6)
  at::Tensor share_;
  at::Tensor arriving_;                              // the buffer of a gather under way
  at::Tensor updated_;                               // has the pieces: the share, or the share's copy on the host (3)
  std::vector<std::unique_ptr<ParameterUse>> uses_;  // [parameters]; empty if the unit keeps them
  std::optional<StreamCall> gather_;                 // until finish_gather()
  std::uint64_t bytes_gathered_ = 0;
};

}  // namespace mn
