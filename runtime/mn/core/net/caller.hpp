/// Calls a peer at all possible endpoints (addresses), in turn and repeatedly, until an answer proves that the peer has
/// the job's key. A peer that comes late, a stranger on the port, or a network that loses packets only costs time. If
/// no answer has proved the key for two seconds, every second call uses the weak key (greeting.hpp).
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include <mn/core/net/channel.hpp>
#include <mn/core/net/socket.hpp>

namespace mn {

class Caller {
 public:
  /// This object calls find_targets() until it returns endpoints. `keys` must outlive this object.
  Caller(std::function<std::vector<Endpoint>()> find_targets, Call call, Keys& keys);

  /// Begins the attempts to connect whose time has come, and ends attempts that take too long.
  void step(Deadline now);
  /// The time at which step() must be called next.
  [[nodiscard]] Deadline next_step() const noexcept { return next_; }
  /// True if another user's processes listen on all socket names of the node's leader. The leader then can't listen,
  /// and reports the failure itself.
  [[nodiscard]] bool is_hopeless() const { return !targets_.empty() && strangers_.size() == targets_.size(); }
  /// The channels of the attempts under way. Wait for them with poll(2), and then call their progress().
  [[nodiscard]] std::vector<Channel*> attempts() const;
  /// Returns a channel whose peer has proved the key, and ends all other attempts. Null if there is none yet.
  [[nodiscard]] std::unique_ptr<Channel> take_verified();
  void give_up() { attempts_.clear(); }
  /// The reason why the last attempt failed. Empty if no attempt has failed, or if no process listens yet.
  [[nodiscard]] const std::string& failure() const noexcept { return failure_; }

 private:
  struct Attempt {
    std::size_t target;
    Deadline until;
    std::unique_ptr<Channel> channel;
  };

  void end_attempts(Deadline now);
  void begin(std::size_t target, Deadline now);
  void note_failure(std::size_t target, const std::string& why);
  [[nodiscard]] bool is_weak_turn(std::size_t target, Deadline now);

  std::function<std::vector<Endpoint>()> find_targets_;
  std::vector<Endpoint> targets_;
  Call call_;
  Keys& keys_;
  std::vector<Attempt> attempts_;    ///< at most one per target
  std::set<std::size_t> strangers_;  ///< targets of this node on which a different user's process listens
  struct Rejection {
    Deadline weak_from;
    bool was_weak = false;  ///< true if the last call used the weak key
  };
  std::map<std::size_t, Rejection> rejections_;  ///< the last rejection by each target
  std::size_t cursor_ = 0;
  Deadline next_{};
  std::chrono::milliseconds pause_;
  std::string failure_;
};

}  // namespace mn
