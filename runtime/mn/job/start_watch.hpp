/// Notices that a rank dies before the peer monitor runs, for instance in MPI_Init, where others would wait forever.
///
/// mnlaunch's processes have agreed to start over connections that form a tree over all ranks, and mnlaunch leaves
/// these connections open (start_links.hpp). The thread of a StartWatch reads from them, from before MPI_Init until the
/// monitor runs.
///
/// 1. Once MPI is up on a rank, the rank tells its neighbors, then closes its connections. After that the end of a
///    connection is not a loss.
/// 2. The parent of a lost rank reports the loss; if the tree's root is lost, a child of the root reports. The
///    reporting rank first waits a second, because the launcher may end all ranks by itself. All remaining ranks with a
///    lost connection end without a line.
/// 3. A reporting rank announces its report to all its neighbors. They pass it on, and end without a line.
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
  /// Takes over the connections (links) that mnlaunch left open in this process. Without links, watches nothing.
  explicit StartWatch(const Speaker& speaker);
  /// Tells the neighbors that MPI is up, unless an exception unwinds the stack.
  ~StartWatch();

  /// Announces this rank's report of the end; all other ranks then end without a message. Any thread may call.
  void announce_report() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Link {
    Fd socket;
    bool reports;
    std::string name;
    bool is_open = true;
  };
  struct Loss {
    std::string name;
    bool reports;
    Clock::time_point when;
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
