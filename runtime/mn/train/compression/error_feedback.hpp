/// What the lossy compressors share: each rank remembers what it did not send.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include <mn/train/compression/gradient_compressor.hpp>

namespace mn {

/// Compresses gradients of float32 for which the derived class says so; all others, and the flat buffer's tail, travel
/// as they are.
class ErrorFeedback : public GradientCompressor {
 public:
  void commit() override;
  [[nodiscard]] NamedTensors state() const override;
  void load_state(const NamedTensors& state) override;

 protected:
  /// `compressed` has one entry for each parameter.
  ErrorFeedback(std::vector<at::Tensor> parameters, std::vector<bool> compressed, std::shared_ptr<Trace> trace);

  /// Collective: for each parameter in `members`, takes corrected(i), writes the mean over ranks of what was sent into
  /// gradient(i), and leaves in corrected(i) what was not sent.
  virtual void reduce(const std::vector<std::size_t>& members, FlatBuffer& gradients, Communicator& comm) = 0;
  [[nodiscard]] bool compressed(std::size_t i) const { return compressed_[i]; }
  /// True if the step that commit() ends uses what was reduced of parameter i.
  [[nodiscard]] bool used(std::size_t i) const { return compressed_[i] && parameters_[i].grad().defined(); }

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const noexcept { return parameters_; }
  /// Gradient plus what was lost before, one-dimensional, in the order of the elements in memory.
  [[nodiscard]] at::Tensor& corrected(std::size_t i) { return corrected_[i]; }
  [[nodiscard]] static const at::Tensor& gradient(const FlatBuffer& gradients, std::size_t i) {
    return gradients.message(gradients.message_index(i));
  }

 private:
  void do_allreduce(FlatBuffer& gradients, std::size_t first, std::size_t count, Communicator& comm) final;

  std::vector<at::Tensor> parameters_;
  std::vector<bool> compressed_;
  std::vector<at::Tensor> lost_;       // by the steps so far
  std::vector<at::Tensor> corrected_;  // becomes lost_ with the step
};

}  // namespace mn
