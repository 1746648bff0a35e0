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

/// Keeps tensors that differ by rank, such as the hidden state that an LSTM carries from minibatch to minibatch. Each
/// rank saves its own tensors in each checkpoint, and Trainer::resume() assigns them.
///
///   at::Tensor hidden, cell;  // [layers, this rank's streams, units]
///   trainer.extend(std::make_unique<RankState>(
///       "lstm", RankState::Tensors{{"hidden", &hidden}, {"cell", &cell}}, RankState::divide_along(1)));
class RankState final : public Extension {
 public:
  /// The program's tensors, with their names in the checkpoint. The tensors must outlive the trainer's calls.
  using Tensors = std::vector<std::pair<std::string, at::Tensor*>>;
  /// A function that makes the tensors of rank comm.rank(), if more or fewer ranks have saved the checkpoint than run
  /// now. saved[r] has the tensors that rank r has saved. Not collective, but called on every rank.
  using Map = std::function<NamedTensors(const std::vector<NamedTensors>& saved, const Communicator& comm)>;

  /// `name` is the key in checkpoints. If there is no `map`, and more or fewer ranks have saved the checkpoint,
  /// resume() throws the same DataError on every rank.
  RankState(std::string name, Tensors tensors, Map map = {});
  /// Returns a Map that joins the tensors of all saved ranks along `dimension`, in rank order, and divides them equally
  /// between the present ranks. The Map throws the same DataError on every rank if the joined length is not a multiple
  /// of the number of ranks.
  [[nodiscard]] static Map divide_along(std::int64_t dimension);

  [[nodiscard]] std::string name() const override { return name_; }
  [[nodiscard]] Interval trigger() const override { return never(); }
  [[nodiscard]] NamedTensors rank_tensors() const override;
  /// Assigns each saved tensor to the program's tensor of this name, on the device where that tensor was. A tensor that
  /// the checkpoint does not have stays as it is.
  void load_rank_tensors(const NamedTensors& tensors) override;
  void map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm) override;

 private:
  std::string name_;
  Tensors tensors_;
  Map map_;
};

}  // namespace mn::extensions
