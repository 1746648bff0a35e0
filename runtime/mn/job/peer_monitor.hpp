/// Notices the loss of a rank, whatever the launcher does: plain srun leaves the others in a collective for ever.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <mn/job/socket.hpp>

namespace mn {

/// What a byte on a connection says. Also written by signal handlers.
enum class PeerByte : char {
  kHeartbeat = 'h',
  kGoodbye = 'g',     ///< leaves in good order
  kTerminated = 't',  ///< dies of SIGTERM or SIGINT, as all ranks perhaps do
  kReported = 'r',    ///< the job's end was reported to the user: go, without another message
  kAsking = 'a',      ///< to the parent: may this rank, or one below it, report the job's end?
  kGranted = 'y',     ///< the answer
};

struct PeerMonitorOptions {
  int rank = 0;
  int size = 1;
  std::string host;
  std::chrono::milliseconds timeout{5000};  ///< of silence
  std::chrono::milliseconds heartbeat{1000};
  std::chrono::milliseconds patience{2000};  ///< how long ranks that are not the first to speak wait for their own end
};

/// TCP connections in a tree over the ranks (each has up to eight children) and a thread that sends heartbeats on them.
/// The parent of a lost rank reports it, for rank 0 its lowest child; the others give them `patience` to end the job.
class PeerMonitor {
 public:
  /// Collective: what every rank gave, by rank.
  using Exchange = std::function<std::vector<std::string>(const std::string&)>;
  /// Called once at most, by the monitor's thread: the loss to report, or nothing if the end has been reported already.
  using OnLoss = std::function<void(const std::optional<std::string>& message)>;

  /// A neighbour's connection, for signal handlers.
  struct Link {
    int socket;
    std::string loss;                                ///< the message should it be lost
    bool reports;                                    ///< this rank is the one to report that
    std::shared_ptr<const std::atomic<bool>> spoke;  ///< it has announced its end: not a loss
  };

  /// Collective, with deadlines.
  PeerMonitor(const PeerMonitorOptions& options, const Exchange& exchange, OnLoss on_loss);
  /// Says goodbye. Call it when all ranks are about to, or they take this one's end for granted.
  ~PeerMonitor();
  PeerMonitor(const PeerMonitor&) = delete;
  PeerMonitor& operator=(const PeerMonitor&) = delete;

  [[nodiscard]] std::vector<Link> links() const;
  /// Who could not be reached when the tree was built, with the addresses tried; empty if all is well.
  [[nodiscard]] const std::string& unreachable() const noexcept { return unreachable_; }
  /// True for one rank of those that call it: that one reports the end of the job. The others get false once it has,
  /// and `on_loss` is called. Without an answer from rank 0 for two seconds: true. Blocks; any thread.
  [[nodiscard]] bool may_report() noexcept;
  /// The end of the job has been reported by this rank: the others go without a message. Any thread.
  void tell_reported() const noexcept;

 private:
  using Clock = std::chrono::steady_clock;
  struct Peer {
    Peer(int rank_, std::string host_, Fd socket_) : rank(rank_), host(std::move(host_)), socket(std::move(socket_)) {}
    int rank;
    std::string host;
    Fd socket;
    Clock::time_point heard;
    std::shared_ptr<std::atomic<bool>> spoke = std::make_shared<std::atomic<bool>>(false);
    bool left = false;
    bool terminated = false;
    bool gone = false;
  };
  struct Loss {
    std::string message;
    Clock::time_point when;  ///< to report it
  };
  struct Hello;

  void connect_to_parent(const std::vector<std::string>& introductions);
  void accept_children(const Fd& listener, Deadline deadline);
  [[nodiscard]] bool reports_loss_of(int rank) const;
  [[nodiscard]] std::string loss_message(const Peer& peer, const std::string& how) const;
  void send_to_all(PeerByte byte) const noexcept;
  void send_to(int rank, PeerByte byte) const noexcept;

  void run();
  [[nodiscard]] bool wait_for_bytes(Clock::time_point until);
  void read_from(Peer& peer);
  void handle(Peer& peer, PeerByte byte);
  void ask(int asker);
  void grant();
  void look_for_silence();
  void lose(Peer& peer, const std::string& how);
  void wake() const noexcept;

  PeerMonitorOptions options_;
  OnLoss on_loss_;
  std::vector<std::string> hosts_;
  std::array<std::byte, 16> key_ = {};
  std::vector<Peer> peers_;  // not resized once the thread runs
  std::string unreachable_;
  std::optional<Loss> loss_;
  std::atomic<bool> reported_elsewhere_{false};
  std::atomic<bool> asking_{false};   // this rank wants to report
  std::atomic<bool> granted_{false};  // and may
  std::optional<int> asker_;          // who asked first: this rank or a child
  Fd wake_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace mn
