/// Predicts which block of parameters a training step gathers next.
///
/// A step gathers the blocks in the order in which its operators use them, which is the same in each step of most
/// networks. The schedule remembers the order of the last step; a block that comes next is gathered early, while the
/// present block computes.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

namespace mn {

class GatherSchedule {
 public:
  /// A step (or an evaluation) begins.
  void begin();
  /// The present step gathers `block`. Returns the block that came after it in the last step; no value if the last step
  /// had another order so far.
  std::optional<std::size_t> next_after(std::size_t block);

 private:
  std::vector<std::size_t> last_, present_;
  bool follows_ = false;  // the present step has had the order of the last step so far
};

}  // namespace mn
