/// Notices that a rank dies before the peer monitor runs, for instance in MPI_Init, where all other ranks would wait
/// forever.
///
/// mnlaunch leaves the connections open over which its processes agreed to start (start_links.hpp), in a tree over all
/// ranks. A StartWatch's thread reads from them, from before MPI_Init until the monitor runs.
///
/// 1. Once MPI is up on a rank, the rank tells its neighbors, then closes its connections. The end of such a connection
///    is not a loss.
/// 2. The parent of a lost rank reports the loss; if the tree's root is lost, a child of the root reports. The
///    reporting rank first waits a second, because the launcher may end all ranks by itself. Other ranks cut off by the
///    loss end without a line.
/// 3. A reporting rank tells all its neighbors; the neighbors pass the announcement on and end without a line.
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
  /// Takes over the links that mnlaunch left in the calling process. If there are no links, watches nothing.
  explicit StartWatch(const Speaker& speaker);
  /// Tells the neighbors that MPI is up, unless an exception unwinds.
  ~StartWatch();

  /// Tells all ranks that the calling rank reports the end of the job. All of the informed ranks end without a message.
  /// May be called on any thread.
  void announce_report() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Link {
    Fd socket;
    bool reports;
    std::string name;
    bool is_open = true;  ///< while true, the connection's end is a loss
  };
  struct Loss {
    std::string name;
    bool reports;
    Clock::time_point when;  ///< time to end
  };

  void send_to_all(char byte) const noexcept;
  void run();
  void read_from(Link& link);
  [[noreturn]] void end(const Loss& loss) const;

  const Speaker speaker_;
  std::vector<Link> links_;
  std::optional<Loss> loss_;
  Fd wake_;
  std::jthread thread_;  // last: the thread uses all other members
};

}  // namespace mn
