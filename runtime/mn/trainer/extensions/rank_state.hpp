/// Keeps, in checkpoints, a state of the program that differs from rank to rank.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/trainer/extension.hpp>

namespace mn::extensions {

/// Keeps tensors that differ from rank to rank, such as the hidden state that an LSTM carries from minibatch to
/// minibatch. Each rank saves its own tensors in each checkpoint, and Trainer::resume() restores them.
///
///   at::Tensor hidden, cell;  // [layers, this rank's streams, units]
///   trainer.extend(std::make_unique<RankState>(
///       "lstm", RankState::Tensors{{"hidden", &hidden}, {"cell", &cell}}, RankState::divide_along(1)));
class RankState final : public Extension {
 public:
  /// Pointers to the program's tensors, with the names of the tensors in the checkpoint. The tensors must outlive the
  /// trainer.
  using Tensors = std::vector<std::pair<std::string, at::Tensor*>>;
  /// Makes the tensors of rank comm.rank() if another number of ranks has saved the checkpoint; saved[r] has the
  /// tensors of its rank r. Called on every rank, but must make no collective calls.
  using Map = std::function<NamedTensors(const std::vector<NamedTensors>& saved, const Communicator& comm)>;

  /// `name` is the key of the state in checkpoints. If `map` is empty, and the checkpoint was saved by more or fewer
  /// ranks than run now, resume() throws the same DataError on every rank.
  RankState(std::string name, Tensors tensors, Map map = {});
  /// Returns a Map that joins the tensors of all saved ranks along `dimension`, in rank order, and divides the result
  /// between the present ranks. Unless the division is equal, the Map throws an equal DataError on every rank.
  [[nodiscard]] static Map divide_along(std::int64_t dimension);

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] NamedTensors rank_tensors() const override;
  /// Assigns each saved tensor to the program's tensor of the same name, on the device of the program's tensor. If the
  /// checkpoint lacks a tensor, the program's tensor stays as it is.
  void load_rank_tensors(const NamedTensors& tensors) override;
  void map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm) override;

 private:
  std::string name_;
  Tensors tensors_;
  Map map_;
};

}  // namespace mn::extensions
