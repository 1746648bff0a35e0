/// Calls a peer at its possible endpoints, in turn and repeatedly, until an answer proves that the peer has the key.
/// Peers that come late, strangers on the port, and networks that lose packets only cost time. If no answer has proved
/// the key for two seconds, every second call uses the weak key (explained in greeting.hpp).
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
  /// The caller calls `find_targets` until the result is not empty. `keys` must outlive this Caller.
  Caller(std::function<std::vector<Endpoint>()> find_targets, Call call, Keys& keys);

  /// Begins the attempts whose time has come, and ends attempts that take too long.
  void step(Deadline now);
  /// The time of the next call of step().
  [[nodiscard]] Deadline next_step() const noexcept { return next_; }
  /// True if processes of other users listen on all names that this node's leader may have. Then the leader can't
  /// listen, and reports the failure itself.
  [[nodiscard]] bool is_hopeless() const { return !targets_.empty() && strangers_.size() == targets_.size(); }
  /// The channels of the attempts under way: wait for them with poll(2), and call their progress().
  [[nodiscard]] std::vector<Channel*> attempts() const;
  /// Returns a verified channel and ends all other attempts; null if no channel is verified.
  [[nodiscard]] std::unique_ptr<Channel> take_verified();
  void give_up() { attempts_.clear(); }
  /// Why the last attempt failed; empty if no attempt has failed, or no process listens yet.
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
  std::set<std::size_t> strangers_;  ///< targets of this node on which another user's process listens
  struct Rejection {
    Deadline weak_from;
    bool was_weak = false;  ///< whether the last call was weak
  };
  std::map<std::size_t, Rejection> rejections_;  ///< by target
  std::size_t cursor_ = 0;
  Deadline next_{};
  std::chrono::milliseconds pause_;
  std::string failure_;
};

}  // namespace mn
