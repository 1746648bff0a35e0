/// Divides the parameters of a model: each rank holds a share.
///
/// (1) Blocks follow the order of the model. A block has the parameters with an equal name up to the first number
///     ("blocks.3"), and small neighbors. The ranks gather and free all units of a block together: one per dtype, and
///     with Shard::kParameters one of float32 matrices and one of float32 vectors.
/// (2) At most two blocks are whole at a time: the block in use, and the predicted next block (gather_schedule.hpp).
///     Exceptions: units that keep their parameters, hold() to let_go(), and an operator that uses several blocks.
/// (3) Between begin_pass() and end_pass() ranks may use different parameters, but all ranks gather and predict equal
///     blocks (pass_turns.hpp). Outside a pass the use of a parameter without memory throws a UsageError that names the
///     parameter.
/// (4) If autocast makes a copy of a matrix, the ranks gather 16-bit copies of the block's matrices instead of the
///     matrices. If an operator then uses a matrix in float32, the ranks also gather the float32 block.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>
#include <mn/sharding/gather_schedule.hpp>
#include <mn/sharding/pass_turns.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/sharding/shard_options.hpp>
#include <mn/sharding/shard_ranks.hpp>
#include <mn/sharding/sharded_unit.hpp>

namespace mn {

/// Returns the bytes of the largest unit. With `autocast`, the bytes of the unit that the ranks gather: matrices are
/// gathered in the type of autocast.
[[nodiscard]] std::uint64_t largest_unit_bytes(const std::vector<at::Tensor>& parameters, const ShardOptions& options,
                                               std::optional<c10::ScalarType> autocast = {});

class ShardedParameters {
 public:
  /// Collective. The parameters have equal values on all ranks. Throws UsageError on all ranks if `options` do not suit
  /// the ranks.
  ShardedParameters(std::vector<at::Tensor> parameters, const std::shared_ptr<Communicator>& comm,
                    const ShardOptions& options);
  ~ShardedParameters();
  ShardedParameters(const ShardedParameters&) = delete;
  ShardedParameters& operator=(const ShardedParameters&) = delete;

  /// The state that the ranks divide.
  [[nodiscard]] Shard what() const noexcept { return what_; }
  /// Expires when this object ends.
  [[nodiscard]] std::weak_ptr<const void> life() const noexcept { return life_; }
  /// Bytes of all buffers that this rank has gathered.
  [[nodiscard]] std::uint64_t bytes_gathered() const noexcept;
  /// The communicators of the rank's group and of its replicas.
  [[nodiscard]] const ShardRanks& ranks() const noexcept { return ranks_; }
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  /// This rank's piece of each parameter: a leaf of one dimension, possibly empty.
  [[nodiscard]] const std::vector<at::Tensor>& pieces() const noexcept { return pieces_; }
  [[nodiscard]] std::vector<std::unique_ptr<ShardedUnit>>& units() noexcept { return units_; }
  /// A parameter's unit, and the parameter's number in the unit.
  struct Place {
    std::size_t unit;
    std::size_t number;
  };
  [[nodiscard]] Place place(std::size_t parameter) const { return places_[parameter]; }

  /// Who needs a pass: a training step, or a ShardPass object. The pass ends when neither needs it.
  enum class PassOf : std::uint8_t { kStep, kObject };
  /// Local, on all ranks: from now on units may be gathered.
  void begin_pass(PassOf who);
  /// Collective: takes part in the ranks' calls until all ranks have called join(). Does nothing outside a pass.
  void join();
  /// Collective: join(), and frees the units that do not keep their parameters. Does nothing outside a pass.
  void end_pass(PassOf who);
  /// Local: ends the pass after an error of this rank.
  void leave_pass(PassOf who);
  /// From now on reduce_in_turn() calls `reduce`.
  void reduce_by(std::function<void()> reduce) { reduce_ = std::move(reduce); }
  /// Collective: reduces the next unit of gradients; in a pass, as soon as all ranks do.
  void reduce_in_turn();
  /// Collective, after the optimizer has updated the pieces: units with kept parameters gather the new values.
  void publish();
  /// Collective: gathers all units. Until let_go() the parameters stay whole, and the program may write them.
  void hold();
  /// Local: copies the program's writes since hold() to this rank's pieces. Frees the units.
  void let_go();

 private:
  [[nodiscard]] bool in_pass() const noexcept { return in_step_ || objects_ > 0; }
  bool use(std::size_t unit, std::size_t number, ParameterUse::Kind kind);
  void make_call(std::int64_t number, bool is_own);
  [[nodiscard]] UnitBuffers gather_buffers() const;
  void begin_gather(std::size_t gather);
  void drop_prediction();
  [[nodiscard]] std::vector<ShardedUnit*> units_of_block(std::size_t block);
  void release(std::optional<std::size_t> except);  // a block

  Shard what_;
  std::vector<at::Tensor> parameters_, pieces_;
  ShardRanks ranks_;
  UnitBuffers buffers_;  // of gathers
  std::vector<std::unique_ptr<ShardedUnit>> units_;
  std::vector<std::size_t> blocks_;                 // [units] the block of the unit (1)
  std::vector<std::size_t> types_;                  // [blocks] index in kTypes of the last use of a matrix
  std::vector<Place> places_;                       // [parameters]
  std::vector<std::unique_ptr<KnownPiece>> known_;  // [parameters]
  GatherSchedule schedule_;
  std::optional<std::size_t> predicted_;  // the gather that begins before its block is used
  std::shared_ptr<PassTurns> turns_;
  std::size_t model_ = 0;  // the model's number in turns_
  std::function<void()> reduce_;
  bool in_step_ = false;
  int objects_ = 0;  // ShardPass objects that live
  int holds_ = 0;    // hold() without let_go()
  std::shared_ptr<const void> life_ = std::make_shared<char>();
};

}  // namespace mn
