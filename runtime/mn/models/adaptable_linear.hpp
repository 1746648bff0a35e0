/// A linear layer that may get a low-rank adapter.
#pragma once

#include <cstdint>
#include <memory>

#include <torch/nn/modules/linear.h>

namespace mn::models {

class AdaptableLinear : public torch::nn::LinearImpl {
 public:
  AdaptableLinear(std::int64_t inputs, std::int64_t outputs, bool has_bias = true)
      : LinearImpl(torch::nn::LinearOptions(inputs, outputs).bias(has_bias)) {}

  [[nodiscard]] torch::Tensor forward(const torch::Tensor& x);
  [[nodiscard]] bool is_adapted() const noexcept { return down_ != nullptr; }
  /// Adds an adapter (lora.hpp), whose product with B = 0 is 0. Draws A from libtorch's random numbers.
  void add_lora(std::int64_t rank, double scale, double dropout);
  /// Adds the adapter to the weight; forward() then leaves the adapter out.
  void merge_lora();

 private:
  double scale_ = 0, dropout_ = 0;
  std::shared_ptr<LinearImpl> down_, up_;  // lora_A and lora_B; null: no adapter
};

}  // namespace mn::models
