/// Notices the loss of a rank, whatever the launcher does: plain srun leaves the others in a collective forever.
///
/// Job makes one on all ranks at once. Ranks form a tree: the children of rank r are 8 r + 1 to 8 r + 8. A thread of
/// each rank holds a TCP connection to the parent and to each child, and sends heartbeats on them. A connection that
/// ends, or that is silent for `timeout`, is a loss. The parent of the lost rank reports it, for rank 0 rank 1; the
/// other neighbors report it `patience` later if the job has not ended by then. Who wants to report the end of the job
/// for another reason asks up the tree, and rank 0 grants the first request.
///
/// Invariants:
/// 1. The monitor's thread makes no MPI call: a rank that hangs in MPI cannot stop it.
/// 2. A rank says goodbye before it leaves in good order, and reads on until its peers leave too: a reset never
///    overtakes the goodbye, and a goodbye is never a loss.
/// 3. A rank that SIGTERM or SIGINT ends announces it. Launchers send these signals to all ranks, so its neighbors wait
///    for `patience` before they report it as a cause.
/// 4. A process that stood still itself (stopped, swapped out) forgets the silence that it seems to have seen.
/// 5. The thread blocks all signals except faults: signals belong to the program.
/// 6. Before a rank reports the end, every rank that it can reach silences its stderr, or half a second passes: what
///    MPI says of broken connections does not follow the line that says why. A rank answers an announcement after the
///    ranks behind it have answered; those that a lost rank cuts off silence themselves and each other. A signal
///    handler reports first: its process might not come to a second step.
/// 7. A survey goes to every rank, and its answers come up the tree, merged on the way: whoever is stuck starts it, and
///    a rank that does not answer in time is left out.
/// 8. A peer on this host that a debugger holds is not lost, however long it is silent.
/// 9. Each end of a connection proves that it is the rank that the other looks for (peer_meeting.hpp).
///
/// Cost: two exchanges over MPI at the start; nine connections for each rank at most, with a byte a second on each.
/// Source: heartbeats and timeouts as a failure detector (T. Chandra, S. Toueg, "Unreliable failure detectors for
/// reliable distributed systems", 1996).
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

#include <mn/core/net/timed_socket.hpp>
#include <mn/core/tree.hpp>

namespace mn {

/// What a byte on a connection says. Also written by signal handlers.
enum class PeerByte : char {
  kHeartbeat = 'h',
  kGoodbye = 'g',     ///< leaves in good order: not a loss
  kTerminated = 't',  ///< dies of SIGTERM or SIGINT, as all ranks perhaps do
  kReported = 'r',    ///< the sender reports the job's end to the user: end without another message
  kSilent = 's',      ///< the answer: this rank and those behind it say no more
  kLost = 'l',        ///< the sender knows of a loss, which some rank reports: say no more
  kAsking = 'a',      ///< to the parent: may this rank, or one below it, report the job's end?
  kGranted = 'y',     ///< the answer
  kSurvey = 'q',      ///< what does each rank do? Goes to all ranks
  kLeft = 'e',        ///< a rank has left main, and waits for the others at its Job's end. Goes to all ranks
  kSurveyed = 'w',    ///< the answer for the sender and the ranks behind it: 4 bytes of length, then a text
};

/// What ranks say of themselves when one asks. The monitor's thread calls these.
struct PeerSurvey {
  std::function<std::string()> own;                                         ///< what this rank does
  std::function<std::string(int rank, const std::string& host)> held;       ///< what one that a debugger holds does
  std::function<std::string(const std::vector<std::string>& texts)> merge;  ///< one text for several ranks
  std::function<void(const std::string& text)> on_result;                   ///< on rank 0: what all do
};

struct PeerMonitorOptions {
  int rank = 0;
  int size = 1;
  std::string host;
  std::chrono::milliseconds timeout{60000};  ///< silence after which a peer counts as lost
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds patience{5000};  ///< for the first to report to end all: a launcher's kill takes 1 to 3 s
  std::function<void()> silence;             ///< keeps MPI from stderr once the job ends; may be empty
  PeerSurvey survey;                         ///< may have empty functions: then there are no surveys
};

/// For threads beside the monitor's, and for signal handlers: reads what waits on a connection. True once the peer has
/// answered kReported, or is gone; `silent` keeps that.
[[nodiscard]] bool has_answered(int socket, std::atomic<bool>& silent) noexcept;

/// How long a rank that has reported waits for answers.
inline constexpr std::chrono::milliseconds kReportPatience{500};

class PeerMonitor {
 public:
  /// Collective: the text of every rank, by rank.
  using Exchange = std::function<std::vector<std::string>(const std::string&)>;
  /// Called once at most, by the monitor's thread: the loss to report, or std::nullopt if the end has been reported.
  using OnLoss = std::function<void(const std::optional<std::string>& message)>;

  /// A neighbor's connection, for signal handlers.
  struct Link {
    int socket;
    std::string loss;                                ///< the message should it be lost
    bool reports;                                    ///< this rank is the first to report that
    std::shared_ptr<const std::atomic<bool>> spoke;  ///< whether it has announced its end: then it is not lost
    std::shared_ptr<std::atomic<bool>> silent;       ///< whether it has answered kReported, or is gone
  };

  /// Collective, with deadlines.
  PeerMonitor(const PeerMonitorOptions& options, const Exchange& exchange, OnLoss on_loss);
  /// Says goodbye. Only when all ranks are about to: they do not notice this one's end any more.
  ~PeerMonitor();
  PeerMonitor(const PeerMonitor&) = delete;
  PeerMonitor& operator=(const PeerMonitor&) = delete;

  [[nodiscard]] std::vector<Link> links() const;
  [[nodiscard]] const std::string& host_of(int rank) const { return hosts_[static_cast<std::size_t>(rank)]; }
  /// The parent that could not be reached when the tree was built, with the addresses tried; empty if it was.
  [[nodiscard]] const std::string& unreachable() const noexcept { return unreachable_; }
  /// True on one rank of those that call it: that one reports the end of the job. The others get false once it has, and
  /// `on_loss` is called. True also if rank 0 does not answer for two seconds, or `patience` more if a rank is lost: its
  /// neighbors report that. Blocks; any thread.
  [[nodiscard]] bool may_report() noexcept;
  /// Tells all ranks that this one has left main. Once; any thread.
  void leave() noexcept;
  /// How many have told that, but this one. Any thread.
  [[nodiscard]] int ranks_left() const noexcept { return ranks_left_; }
  /// Starts a survey, unless one goes on. Any thread.
  void start_survey() noexcept;
  /// Whether the survey that this rank started last came to rank 0, or to the one above on the way there: rank 0 judges
  /// it. Any thread.
  [[nodiscard]] bool is_judged_elsewhere() const noexcept { return survey_arrived_; }
  /// This rank reports the end of the job: the others end without a message. Returns when they are silent, or
  /// after half a second. Any thread.
  void announce_report() const noexcept;

 private:
  struct Peer {
    Peer(int rank_, std::string host_, Fd socket_) : rank(rank_), host(std::move(host_)), socket(std::move(socket_)) {}
    int rank;
    std::string host;
    Fd socket;
    pid_t process = 0;  ///< 0: on another host
    Deadline heard;
    std::shared_ptr<std::atomic<bool>> spoke = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::atomic<bool>> silent = std::make_shared<std::atomic<bool>>(false);
    bool reported = false;
    bool left = false;
    bool terminated = false;
    bool gone = false;
    bool was_held = false;                  ///< by a debugger, when its silence was last looked at
    bool answered = false;                  ///< in the survey that goes on
    std::optional<std::string> frame = {};  ///< the bytes of an answer so far, its length first
    std::string unsent = {};                ///< of the answer to this peer: no other byte may come between
  };
  struct Survey {
    std::size_t awaited = 0;  ///< children that have not answered
    std::vector<std::string> texts;
    Clock::time_point until;
  };
  struct Loss {
    std::string message;
    Deadline when;  ///< to report it
  };
  static constexpr Tree kTree{8};  ///< whose members are the ranks

  static void send_byte(const Fd& socket, PeerByte byte) { send_bytes(socket, std::as_bytes(std::span(&byte, 1))); }
  /// Sends nothing while an answer to `peer` is under way: it shows life, too, and other bytes only hasten a report.
  static void send(const Peer& peer, PeerByte byte) {
    if (peer.unsent.empty()) send_byte(peer.socket, byte);
  }
  void meet_neighbors(const Exchange& exchange);
  [[nodiscard]] bool reports_loss_of(int rank) const;
  [[nodiscard]] std::string loss_message(const Peer& peer, const std::string& how) const;
  void send_to_all(PeerByte byte) const noexcept;
  void send_to(int rank, PeerByte byte) const noexcept;

  /// Sends kReported to the peers that have not sent it, and waits for their answers.
  void announce(std::chrono::milliseconds patience) const noexcept;
  void run();
  [[nodiscard]] bool wait_for_bytes(Deadline until);
  void read_from(Peer& peer);
  void handle(Peer& peer, PeerByte byte);
  void pass_report_on();
  void hush();
  void ask(int asker);
  void grant();
  void pass_left_on(int from);
  // peer_survey.cpp
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
  std::vector<Peer> peers_;  // not resized once the thread runs
  std::string unreachable_;
  std::optional<Loss> loss_;
  std::atomic<bool> hushed_{false};  // a rank is lost, and some rank reports that
  std::atomic<bool> reported_elsewhere_{false};
  std::atomic<bool> asking_{false};   // this rank wants to report
  std::atomic<bool> granted_{false};  // and may
  std::optional<int> asker_;          // who asked first: this rank or a child
  std::atomic<bool> leaving_{false};  // this rank has left main
  std::atomic<int> ranks_left_{0};
  std::atomic<bool> surveying_{false};  // this rank wants a survey
  std::optional<Survey> survey_;
  std::atomic<bool> survey_arrived_{false};
  Fd wake_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mn
