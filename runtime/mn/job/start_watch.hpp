/// Notices the death of a rank before the peer monitor can: in MPI_Init, which would wait for it forever.
///
/// mnlaunch leaves the connections open over which its processes agreed to start (start_links.hpp): of each rank one to
/// the rank above it and one to each below it, in a tree over all ranks. Job keeps a StartWatch, with a thread that
/// reads from them, from before MPI_Init until the monitor runs.
///
/// Invariants:
/// 1. A rank whose MPI is up says so before it closes its connections: their end is not a loss then.
/// 2. The rank above reports a loss, and one rank that of the root, after a second: until then the launcher may end all
///    ranks by itself. The others that a lost rank cuts off end without a line.
/// 3. A rank that reports tells all that it is connected to; they pass that on and end without a line.
/// 4. The thread makes no MPI call, and blocks all signals except faults.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <mn/core/fd.hpp>
#include <mn/core/start_links.hpp>
#include <mn/job/failure.hpp>

namespace mn {

class StartWatch {
 public:
  /// Takes the links that mnlaunch left in this process; without any there is nothing to watch.
  explicit StartWatch(const Speaker& speaker);
  /// Says that MPI is up here, unless an exception unwinds.
  ~StartWatch();
  StartWatch(const StartWatch&) = delete;
  StartWatch& operator=(const StartWatch&) = delete;

  /// This rank reports why the job ends: the others end without a line. Any thread.
  void announce_report() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Link {
    Fd socket;
    bool reports;
    std::string name;
    bool is_open = true;  ///< its end would be a loss
  };
  struct Loss {
    std::string name;
    bool reports;
    Clock::time_point when;  ///< to end
  };

  void send_to_all(char byte) const noexcept;
  void run();
  void read_from(Link& link);
  [[noreturn]] void end(const Loss& loss) const;

  const Speaker speaker_;
  std::vector<Link> links_;
  std::optional<Loss> loss_;
  Fd wake_;
  std::jthread thread_;  // last: it uses all the others
};

}  // namespace mn
