/// What travels when gradients are averaged: the gradients themselves, or fewer bytes that stand for them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/train/flat_buffer.hpp>
#include <mn/train/safetensors.hpp>
#include <mn/train/trace.hpp>

namespace mn {

enum class Compression : std::uint8_t { kNone, kFp16, kBf16, kTopK, kPowerSgd };

/// none, fp16, bf16, topk, powersgd.
[[nodiscard]] std::vector<std::string> compression_names();
/// Throws UsageError that lists the names for any other.
[[nodiscard]] Compression parse_compression(std::string_view name);

struct CompressionOptions {
  Compression kind = Compression::kNone;
  double density = 0.01;  ///< part of each gradient's elements that top-k sends, in (0, 1]
  std::int64_t rank = 4;  ///< of the matrices that PowerSGD sends, at least 1
};

/// Averages gradients over ranks. All ranks end with the same bits on CPU backends. Each parameter is compressed by
/// itself, so the result does not depend on how messages are cut into buckets. What compression loses is kept on the
/// rank that lost it and added to its next gradient (error feedback: Karimireddy et al. 2019, arXiv:1901.09847).
class GradientCompressor {
 public:
  virtual ~GradientCompressor() = default;
  GradientCompressor(const GradientCompressor&) = delete;
  GradientCompressor& operator=(const GradientCompressor&) = delete;

  /// Collective, before the first reduction and whenever the order of the gradients in memory changes.
  virtual void lay_out(std::span<const std::size_t> /*order*/, Communicator& /*comm*/) {}

  /// Collective, in place: messages [first, first + count) become their mean over ranks, approximately. It may be
  /// called again with other gradients before commit(): the last call counts. On a GPU it takes its place in the order
  /// of the caller's current stream and may return before it is done: `gradients` must live on.
  void allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, Communicator& comm);

  /// The step uses what was reduced, for the parameters whose gradient is not None: what those lost is remembered.
  virtual void commit() {}

  /// Counts what was given to a collective, this object's own or another, and returns its bytes.
  std::uint64_t count_bytes(std::span<const BufferView> sent) noexcept;
  /// Bytes that this rank gave to collectives so far.
  [[nodiscard]] std::uint64_t bytes_sent() const noexcept { return bytes_sent_; }

  /// This rank's memory of what was lost, between steps. load_state throws DataError if it is of other parameters.
  [[nodiscard]] virtual NamedTensors state() const { return {}; }
  virtual void load_state(const NamedTensors& /*state*/) {}

 protected:
  explicit GradientCompressor(std::shared_ptr<Trace> trace) : trace_(std::move(trace)) {}
  virtual void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, Communicator& comm) = 0;
  /// Collective: the mean of these over ranks, in place.
  void average(std::span<const BufferView> buffers, Communicator& comm);
  /// Collective: every rank's `own`, by rank.
  void allgather(ConstBufferView own, BufferView all, Communicator& comm);

 private:
  std::shared_ptr<Trace> trace_;
  std::atomic<std::uint64_t> bytes_sent_ = 0;
};

/// For gradients of these parameters. On one rank nothing is compressed.
[[nodiscard]] std::unique_ptr<GradientCompressor> create_compressor(const CompressionOptions& options,
                                                                    const std::vector<at::Tensor>& parameters,
                                                                    const Communicator& comm,
                                                                    std::shared_ptr<Trace> trace);

}  // namespace mn
