/// Calls one peer at the endpoints where it may listen, in turn and again and again, until one answers with proof of
/// the key. A peer that has not started yet, a stranger on its port and a network that swallows packets only cost time.
/// Where answers have proved nothing for two seconds, each other call is for the weak key (greeting.hpp).
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
  /// `find_targets` is called until it finds some. `keys` must outlive this.
  Caller(std::function<std::vector<Endpoint>()> find_targets, Call call, Keys& keys);

  /// Begins the attempts that are due, and ends those that take too long.
  void step(Deadline now);
  /// When step() is next to be called.
  [[nodiscard]] Deadline next_step() const noexcept { return next_; }
  /// Whether other users have all names of the leader of this node: then it has none, and says so.
  [[nodiscard]] bool is_hopeless() const { return !targets_.empty() && strangers_.size() == targets_.size(); }
  /// The attempts under way, for poll(2) and progress().
  [[nodiscard]] std::vector<Channel*> attempts() const;
  /// A verified channel, if there is one; all other attempts end.
  [[nodiscard]] std::unique_ptr<Channel> take_verified();
  void give_up() { attempts_.clear(); }
  /// Why the last attempt failed; empty: none has, or nobody listens there yet.
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
  std::vector<Attempt> attempts_;    ///< at most one for each target
  std::set<std::size_t> strangers_;  ///< targets within the node where another user's process listens
  struct Rejection {
    Deadline weak_from;
    bool was_weak = false;  ///< the last call
  };
  std::map<std::size_t, Rejection> rejections_;  ///< by target
  std::size_t cursor_ = 0;
  Deadline next_{};
  std::chrono::milliseconds pause_;
  std::string failure_;
};

}  // namespace mn
