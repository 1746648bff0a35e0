/// Predicts the next gather of parameters in a training step.
///
/// A step gathers blocks in the order of use, and most networks repeat the order in every step. The schedule records
/// the order of the last step. The caller begins the predicted gather early, while the present block computes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace mn {

class GatherSchedule {
 public:
  /// A step (or an evaluation) begins.
  void begin();
  /// The present step makes gather number `gather`. Returns its successor in the last step. Returns std::nullopt if the
  /// orders of the two steps differ so far.
  std::optional<std::size_t> next_after(std::size_t gather);

 private:
  std::vector<std::size_t> last_, present_;
  bool follows_ = false;  // the present step has repeated the order of the last step so far
};

}  // namespace mn
