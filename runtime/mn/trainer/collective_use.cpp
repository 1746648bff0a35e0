#include <mn/core/error.hpp>
#include <mn/trainer/collective_use.hpp>

namespace mn {

void CollectiveUse::check_absence(const std::string& what, std::int64_t epoch) const {
  if (!any_) return;
  throw ArgumentError("this rank has no samples in a step of epoch " + std::to_string(epoch) + " of " + what +
                      ", but the loss makes collective calls (all_gather, MultiNodeBatchNorm, …), in which the other "
                      "ranks wait for it: use a batch size of 2 at least, fewer ranks, or drop_last");
}

}  // namespace mn
