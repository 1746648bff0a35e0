/// Notices the loss of a rank under any launcher. Without a monitor, srun would leave the remaining ranks in a
/// collective call forever. Ranks form a tree, in which the children of rank r are the ranks 8 r + 1 to 8 r + 8. A
/// thread of each rank holds a TCP connection to the parent and to each child, and sends heartbeats. A connection that
/// ends, or is silent for `timeout`, is a loss. The parent of the lost rank reports the loss; if rank 0 is lost, rank 1
/// reports. The remaining neighbors of the lost rank report the loss after the time `patience` if the job still runs. A
/// rank that wants to report a different reason for the job's end first asks rank 0, by way of the tree, for
/// permission. Rank 0 grants only the first request.
///
/// Invariants:
/// 1. The monitor's thread makes no MPI call. Therefore a hang in MPI cannot stop the monitor.
/// 2. A rank that ends normally says goodbye, and then reads until its peers (neighbors) leave, too. Therefore a TCP
///    reset never overtakes the goodbye. The end of a connection after a goodbye is not a loss.
/// 3. If SIGTERM or SIGINT ends a rank, the rank tells its neighbors. Launchers send the two signals to all ranks.
///    Therefore neighbors wait for `patience` before they report such an end as the cause.
/// 4. If a process itself stood still (stopped, swapped out), the process does not count the time as silence of peers.
/// 5. The thread blocks all signals except faults, because the program handles signals on its own threads.
/// 6. Before a rank reports the end, it announces the report and waits until every reachable rank has silenced its
///    stderr, or for half a second. Therefore no text of MPI on broken connections follows the report. A rank answers
///    the announcement after all ranks behind it in the tree have answered. Ranks that a lost rank cuts off silence
///    themselves and their neighbors. A signal handler reports before it announces the report, because its process
///    might not live long enough for both.
/// 7. A survey asks every rank for its state. The answers come up the tree: each rank merges the children's answers
///    with the rank's own answer. Late answers are dropped.
/// 8. A peer on this host under a debugger never counts as lost, however long the silence.
/// 9. Each end of a connection proves to be the expected rank (peer_meeting.hpp).
///
/// Cost: two exchanges over MPI at the start; at most nine connections per rank, each with a byte a second. Source:
/// heartbeats and timeouts as a failure detector (T. Chandra, S. Toueg, "Unreliable failure detectors for reliable
/// distributed systems", 1996).
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include <mn/core/net/socket.hpp>
#include <mn/core/tree.hpp>

namespace mn {

/// The meanings of bytes on a connection. Signal handlers write such bytes, too.
enum class PeerByte : char {
  kHeartbeat = 'h',
  kGoodbye = 'g',     ///< the sender ends normally: no loss
  kTerminated = 't',  ///< the sender dies of SIGTERM or SIGINT, perhaps with all ranks
  kReported = 'r',    ///< the sender reports the job's end; the receiver ends without a message
  kSilent = 's',      ///< answer to kReported: the sender, and the ranks behind it, write no more
  kLost = 'l',        ///< some rank is lost, and a rank reports the loss; the receiver writes no more
  kAsking = 'a',      ///< to the parent: may the sender, or a rank below it, report the job's end?
  kGranted = 'y',     ///< answer to kAsking: yes
  kSurvey = 'q',      ///< asks for the receiver's state; the receiver passes the question on
  kLeft = 'e',        ///< some rank has left main and waits at the end of its Job; passed on to all
  kSurveyed = 'w',    ///< answer for the sender and the ranks behind it: a length of 4 bytes, then a text
};

/// The callbacks of a survey (invariant 7). The monitor's thread calls them.
struct PeerSurvey {
  std::function<std::string()> own;                                         ///< the state of this rank
  std::function<std::string(int rank, const std::string& host)> held;       ///< the state of a rank under a debugger
  std::function<std::string(const std::vector<std::string>& texts)> merge;  ///< makes one text for several ranks
  std::function<void(const std::string& text)> on_result;  ///< receives, on rank 0, the state of all ranks
};

struct PeerMonitorOptions {
  int rank = 0;
  int size = 1;
  std::string host;
  std::chrono::milliseconds timeout{60000};  ///< silence after which a peer counts as lost
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds patience{5000};  ///< delay of later reports; a launcher ends all ranks in 1 to 3 s
  std::function<void()> silence;             ///< hides MPI's text from stderr when the job ends; may be empty
  PeerSurvey survey;                         ///< if its functions are empty, there are no surveys
};

/// Reads the bytes that have arrived on a connection when the monitor's thread cannot. Returns true and sets `silent`
/// once the peer has answered kReported or is gone. Safe in signal handlers.
[[nodiscard]] bool has_answered(int socket, std::atomic<bool>& silent) noexcept;

/// How long a reporting rank waits for the answers to kReported.
inline constexpr std::chrono::milliseconds kReportPatience{500};

class PeerMonitor {
 public:
  /// Collective: takes the calling rank's text, and returns the texts of all ranks, by rank.
  using Exchange = std::function<std::vector<std::string>(const std::string&)>;
  /// The monitor's thread calls this once at most, for a lost rank. `message` has no value if another rank reports.
  using OnLoss = std::function<void(const std::optional<std::string>& message)>;

  /// What signal handlers know of the connection to a neighbor.
  struct Link {
    int socket;
    std::string loss;                                ///< the message if this neighbor is lost
    bool reports;                                    ///< true: this rank is the first to report the loss
    std::shared_ptr<const std::atomic<bool>> spoke;  ///< the neighbor has announced its own end: no loss
    std::shared_ptr<std::atomic<bool>> silent;       ///< true once the neighbor has answered kReported or is gone
  };

  /// Collective: starts the monitor. Each step has a deadline.
  PeerMonitor(const PeerMonitorOptions& options, const Exchange& exchange, OnLoss on_loss);
  /// Says goodbye. Destroy the monitors of all ranks together: after a goodbye, no peer notices the end of the rank.
  ~PeerMonitor();

  [[nodiscard]] std::vector<Link> links() const;
  [[nodiscard]] const std::string& host_of(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  /// The parent's name and the addresses that were tried, if the parent could not be reached; otherwise empty.
  [[nodiscard]] const std::string& unreachable() const noexcept { return unreachable_; }
  /// Blocks until a single rank is chosen to report the job's end. True on the chosen rank, which must then report.
  /// Also true if rank 0 does not answer for two seconds (after a loss `patience` longer, because the lost rank's
  /// neighbors report first). False once another rank has announced its report. Any thread may call the function.
  [[nodiscard]] bool may_report() noexcept;
  /// Tells all ranks that the calling rank has left main. Call leave() once, on any thread.
  void leave() noexcept;
  /// Number of other ranks that have left main. Any thread may call the function.
  [[nodiscard]] int ranks_left() const noexcept { return ranks_left_; }
  /// Starts a survey, unless a survey is under way. Any thread may call the function.
  void start_survey() noexcept;
  /// True if the last survey has reached rank 0 (the judge), or the parent on the way. Any thread may ask.
  [[nodiscard]] bool is_judged_elsewhere() const noexcept { return survey_arrived_; }
  /// Announces that the calling rank reports the job's end, so that all remaining ranks end without a message. Returns
  /// once all ranks have silenced their stderr, or after 0.5 s. Any thread may call the function.
  void announce_report() const noexcept;

 private:
  struct Peer {
    Peer(int rank_, std::string host_, Fd socket_) : rank(rank_), host(std::move(host_)), socket(std::move(socket_)) {}
    int rank;
    std::string host;
    Fd socket;
    pid_t process = 0;  ///< process id; 0 if the peer is on a different host
    Deadline heard;
    std::shared_ptr<std::atomic<bool>> spoke = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<bool>> silent = std::make_shared<std::atomic<bool>>(false);
    bool reported = false;
    bool left = false;
    bool terminated = false;
    bool gone = false;
    bool was_held = false;                  ///< true: was under a debugger when its silence was last checked
    bool answered = false;                  ///< true: has answered in the survey that is under way
    std::optional<std::string> frame = {};  ///< bytes of an incomplete answer, its length first
    std::string unsent = {};                ///< unsent rest of an answer to the peer
  };
  struct Survey {
    std::size_t awaited = 0;  ///< number of children that have not answered yet
    std::vector<std::string> texts;
    Clock::time_point until;
  };
  struct Loss {
    std::string message;
    Deadline when;  ///< time of the report of the loss
  };
  static constexpr Tree kTree{8};  ///< the tree of all ranks

  static void send_byte(const Fd& socket, PeerByte byte) { send_bytes(socket, std::as_bytes(std::span(&byte, 1))); }
  /// Sends a byte to `peer`. Sends nothing while a survey's answer is partly sent, because no byte may split it.
  static void send(const Peer& peer, PeerByte byte) {
    if (peer.unsent.empty()) send_byte(peer.socket, byte);
  }
  void meet_neighbors(const Exchange& exchange);
  [[nodiscard]] bool reports_loss_of(int rank) const;
  [[nodiscard]] std::string loss_message(const Peer& peer, const std::string& how) const;
  void send_to_all(PeerByte byte, int except = -1) const noexcept;
  void send_to(int rank, PeerByte byte) const noexcept;

  /// Sends kReported to the peers that have not sent kReported, and waits for their answers.
  void announce(std::chrono::milliseconds patience) const noexcept;
  void run();
  [[nodiscard]] bool wait_for_bytes(Deadline until);
  void read_from(Peer& peer);
  void handle(Peer& peer, PeerByte byte);
  void pass_report_on();
  void hush();
  void ask(int asker);
  void grant();
  // Defined in peer_monitor_survey.cpp.
  void begin_survey(int asker);
  void take_answer(Peer& peer, char byte);
  void end_survey();
  static void send_rest(Peer& peer);
  void look_for_silence();
  [[nodiscard]] static bool is_held(const Peer& peer);
  void lose(Peer& peer, const std::string& how);
  void wake() const noexcept;

  PeerMonitorOptions options_;
  OnLoss on_loss_;
  std::vector<std::string> hosts_;
  std::vector<Peer> peers_;  // its size does not change while the thread runs
  std::string unreachable_;
  std::optional<Loss> loss_;
  std::atomic<bool> hushed_{false};
  std::atomic<bool> reported_elsewhere_{false};
  std::atomic<bool> asking_{false};
  std::atomic<bool> granted_{false};
  std::optional<int> asker_;  // the rank that asked first: this rank or a child
  std::atomic<bool> leaving_{false};
  std::atomic<int> ranks_left_{0};
  std::atomic<bool> surveying_{false};
  std::optional<Survey> survey_;
  std::atomic<bool> survey_arrived_{false};
  Fd wake_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mn
