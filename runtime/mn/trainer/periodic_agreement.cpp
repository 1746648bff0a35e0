#include <mn/trainer/periodic_agreement.hpp>

#include <algorithm>

namespace mn {
namespace {

constexpr double kPeriod_s = 0.1;  // all ranks act on a clock or a signal at most this much later

}  // namespace

void PeriodicAgreement::begin(std::int64_t iteration) {
  last_ = next_ = iteration;
  last_at_ = Clock::now();
}

void PeriodicAgreement::exchange(std::vector<std::int64_t>& flags, std::int64_t iteration, Communicator& comm) {
  flags.push_back(comm.rank() == 0 ? next_distance(iteration) : 0);
  comm.allreduce(flags, ReduceOp::kMax);
  next_ = iteration + flags.back();
  flags.pop_back();
  last_ = iteration;
  last_at_ = Clock::now();
}

std::int64_t PeriodicAgreement::next_distance(std::int64_t iteration) const {
  const auto steps = static_cast<double>(std::max<std::int64_t>(iteration - last_, 1));
  const double step_s = std::max(std::chrono::duration<double>(Clock::now() - last_at_).count() / steps, 1e-9);
  return static_cast<std::int64_t>(std::clamp(kPeriod_s / step_s, 1.0, 2 * steps));
}

}  // namespace mn
