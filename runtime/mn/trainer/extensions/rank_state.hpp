/// State of a program that differs by rank, in checkpoints.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Keeps tensors that differ by rank, such as the hidden state that an LSTM carries from minibatch to minibatch. Each
/// rank saves its own tensors in each checkpoint, and Trainer::resume() assigns them.
///
///   at::Tensor hidden, cell;  // [layers, this rank's streams, units]
///   trainer.extend(std::make_unique<RankState>(
///       "lstm", RankState::Tensors{{"hidden", &hidden}, {"cell", &cell}}, RankState::divide_along(1)));
class RankState final : public Extension {
 public:
  /// Names in the checkpoint, and the program's tensors, which must outlive the trainer's calls.
  using Tensors = std::vector<std::pair<std::string, at::Tensor*>>;
  /// Makes the tensors of rank comm.rank(). saved[r] has the tensors that rank r saved in the checkpoint. Local; called
  /// on every rank.
  using Map = std::function<NamedTensors(const std::vector<NamedTensors>& saved, const Communicator& comm)>;

  /// `name` is the key in checkpoints. Without `map`, resume() throws the same DataError on every rank if another
  /// number of ranks has saved the checkpoint.
  RankState(std::string name, Tensors tensors, Map map = {});
  /// A Map that joins the tensors of all ranks along `dimension`, in rank order, and divides them equally. The Map
  /// throws the same DataError on every rank if the joined length is not a multiple of the number of ranks.
  [[nodiscard]] static Map divide_along(std::int64_t dimension);

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] NamedTensors rank_tensors() const override;
  /// Assigns each saved tensor to the program's tensor of this name, on the earlier tensor's device. A tensor that the
  /// checkpoint lacks does not change.
  void load_rank_tensors(const NamedTensors& tensors) override;
  void map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm) override;

 private:
  std::string name_;
  Tensors tensors_;
  Map map_;
};

}  // namespace mn::extensions
