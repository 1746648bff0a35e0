/// Shows how much memory training needs on a rank, for each way of sharding.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include <mn/trainer/extension.hpp>
#include <mn/trainer/memory_account.hpp>

namespace mn {

class MultiNodeOptimizer;

/// Local: returns the bytes of a model and of its optimizer's state after the first step. `autocast` is the type of the
/// network's 16-bit operators.
[[nodiscard]] ModelBytes model_bytes(MultiNodeOptimizer& optimizer, std::optional<at::ScalarType> autocast = {});

namespace extensions {

/// After the first iteration, rank 0 prints the table of memory_account.hpp, and writes it to OUT/memory.txt, which
/// mnreport shows. The activations are all tensors that are in memory after the first forward pass and were made since
/// training began, also the minibatch, but not gathered parameters. On a GPU, the peak of libtorch's allocator on
/// rank 0 follows the table.
class MemoryReport final : public Extension {
 public:
  /// `autocast` is the type of the network's 16-bit operators; no value: none.
  explicit MemoryReport(std::optional<at::ScalarType> autocast = {});
  ~MemoryReport() override;
  MemoryReport(const MemoryReport&) = delete;             ///< not copyable
  MemoryReport& operator=(const MemoryReport&) = delete;  ///< not copyable

  [[nodiscard]] std::string name() const override { return "MemoryReport"; }
  void initialize(Trainer& trainer) override;
  void after_forward(Trainer& trainer, const at::Tensor& loss) override;
  void run(Trainer& trainer) override;

 private:
  class Counter;
  std::unique_ptr<Counter> counter_;  // null before training and after the first iteration
  std::optional<at::ScalarType> autocast_;
  std::optional<std::uint64_t> activations_;  // of the first forward pass: later passes also find gradients
};

}  // namespace extensions
}  // namespace mn
