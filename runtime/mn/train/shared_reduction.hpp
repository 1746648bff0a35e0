/// Reduces gradients within a node while the slower ranks are still in backward.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <mn/comm/shared_reducer.hpp>
#include <mn/train/gradient_reduction.hpp>
#include <mn/train/ready_hooks.hpp>

namespace mn {

/// In place, as the direct reduction and with the same bits. Where the step was announced, backward publishes gradients
/// as they become final, in the order in which it meets them, and the ranks that are through with theirs reduce them:
/// time that ranks would wait for each other is used. Needs no thread.
class SharedReduction : public GradientReduction {
 public:
  SharedReduction(GradientBuffer gradients, std::unique_ptr<SharedReducer> reducer, int ranks,
                  std::shared_ptr<GradientCompressor> compressor, std::shared_ptr<Trace> trace);

  const std::vector<at::Tensor>& parameters() const noexcept override { return gradients_.parameters(); }
  void clear() override;
  void announce() override;
  bool reduce(double weight) override;
  void release() noexcept override { gradients_.release(); }

 private:
  void ready(std::size_t i);
  void check_published(double weight) const;
  void forget_announcement();
  [[noreturn]] static void fail(const std::string& what);

  GradientBuffer gradients_;
  std::unique_ptr<SharedReducer> reducer_;
  int ranks_;
  std::shared_ptr<Trace> trace_;
  bool announced_ = false;
  std::vector<std::optional<std::uint32_t>> ready_;  // [messages] version of the view when it was ready
  std::size_t published_ = 0;                        // messages
  std::optional<ReadyHooks> hooks_;                  // from the first announcement on
};

}  // namespace mn
