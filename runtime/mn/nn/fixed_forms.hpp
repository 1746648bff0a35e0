/// Lets collective calls exchange shapes and dtypes only once, if their tensors have the same forms in every pass.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace mn {

struct FixedCall;

/// Lets a sequence of calls of <mn/nn/collectives.hpp>, for example those of a training step, exchange shapes and
/// dtypes only once. Without FixedForms each call first exchanges 24 bytes between the hosts of all ranks. On GPUs with
/// NCCL, the host waits for other ranks only in this exchange.
///
///     mn::FixedForms forms;  // on every rank
///     while (auto batch = loader.next()) {
///       const auto pass = forms.pass();
///       loss_of(mn::all_gather(comm, model(batch->data))).backward();
///     }
///
/// The calls of the first pass exchange forms. In later passes every rank must repeat the calls of its first pass, with
/// tensors of the same forms; a tensor must need gradients in every pass or in none. If a rank makes a different call,
/// it throws ArgumentError and calls Communicator::abort(); therefore no rank uses data of a wrong form. If the last
/// minibatch has a different size, use a second FixedForms, or none, for it.
class FixedForms {
 public:
  FixedForms();
  ~FixedForms();
  FixedForms(const FixedForms&) = delete;             ///< not copyable
  FixedForms& operator=(const FixedForms&) = delete;  ///< not copyable

  /// While a Pass lives, its thread's calls of <mn/nn/collectives.hpp> belong to the pass. Passes must not nest.
  class Pass {
   public:
    /// @private
    explicit Pass(FixedForms& forms);
    ~Pass();
    Pass(const Pass&) = delete;             ///< not copyable
    Pass& operator=(const Pass&) = delete;  ///< not copyable

   private:
    int exceptions_;  // number of uncaught exceptions when the pass began
  };
  /// Begins a pass. Throws ArgumentError if the last pass made fewer calls than the first one.
  [[nodiscard]] Pass pass() { return Pass(*this); }

  /// @private The FixedForms whose Pass lives on this thread; null if there is none.
  [[nodiscard]] static FixedForms* current() noexcept;
  /// @private
  [[nodiscard]] bool is_first_pass() const noexcept { return is_first_; }
  /// @private The next call of a later pass; null after the last call.
  [[nodiscard]] const FixedCall* next();
  /// @private Adds a call of the first pass.
  void add(FixedCall call);

 private:
  std::vector<FixedCall> calls_;
  std::size_t made_ = 0;  // number of calls of the present pass
  bool is_first_ = true;
};

}  // namespace mn
