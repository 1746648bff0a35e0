#include <mn/trainer/straggler_watch.hpp>

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstdio>

#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/core/slow_rank.hpp>

namespace mn {

using nlohmann::json;

std::vector<StragglerDetector::Straggler> StragglerDetector::add(const std::vector<double>& seconds) {
  ranks_.resize(std::max(ranks_.size(), seconds.size()));
  const double median = seconds.empty() ? 0 : lower_median(seconds);
  std::vector<Straggler> named;
  suspects_ = false;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    Record& record = ranks_[rank];
    if (seconds.empty() || !is_slow_rank(seconds[rank], median)) {
      record = {0, std::max(record.quiet - 1, 0)};
      continue;
    }
    suspects_ = true;
    const bool is_new = ++record.slow >= kWindows && record.quiet == 0;
    if (is_new) named.push_back({rank, seconds[rank], median});
    if (is_new || record.quiet > 0) record.quiet = kQuietWindows;
  }
  return named;
}

void StragglerWatch::add(double data_s, double compute_s) {
  if (ranks_ == 1) return;
  own_s_.push_back(data_s + compute_s);
  data_s_.push_back(data_s);
}

void StragglerWatch::append_to(std::vector<std::int64_t>& flags) const {
  const double own_s = is_complete() ? lower_median(own_s_) : 0;  // the window is complete on all ranks or on none
  const auto nanoseconds = static_cast<std::int64_t>(std::llround(own_s * 1e9));
  flags.insert(flags.end(), {nanoseconds, -nanoseconds});
}

void StragglerWatch::judge(std::span<const std::int64_t> largest, Communicator& comm) {
  if (!is_complete()) return;
  assert(largest.size() == kNumbers);
  const double longest = static_cast<double>(largest[0]) * 1e-9, shortest = static_cast<double>(-largest[1]) * 1e-9;
  std::vector<double> medians;
  if (is_slow_rank(longest, shortest)) {
    const double own = lower_median(own_s_);
    medians.resize(static_cast<std::size_t>(comm.size()));
    comm.allgather(std::span(&own, 1), std::span(medians));
  }
  const auto slow = detector_.add(medians);
  if (!slow.empty()) report(slow, comm);
  if (!detector_.suspects()) before_.reset();
  if (detector_.suspects() && !before_) before_ = conditions_now();
  own_s_.clear();
  data_s_.clear();
}

void StragglerWatch::report(const std::vector<StragglerDetector::Straggler>& slow, Communicator& comm) const {
  json own = before_ ? changes_between(*before_, conditions_now()) : json::object();
  own["data_ms"] = 1e3 * lower_median(data_s_);
  const std::vector<json> changes_of = comm.gather_obj(own);
  if (comm.rank() != 0) return;
  for (const auto& [rank, seconds, median] : slow) {
    char times[160];
    std::snprintf(times, sizeof times,
                  "takes %.1f ms for its part of a step, %.2f times the median of the ranks (%.1f ms)", seconds * 1e3,
                  seconds / median, median * 1e3);
    const std::string difference = what_differs(changes_of, rank);
    log_warning("straggler: rank " + std::to_string(rank) + " on host " + comm.topology().hosts[rank] + " " + times +
                ", and all wait for it: " +
                (difference.empty() ? "no difference in CPU time, clock, heat, page faults and storage is to be seen"
                                    : difference));
  }
}

}  // namespace mn
