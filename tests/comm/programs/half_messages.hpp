/// Messages of a random program of which one half alone, the send or the receive, is posted so far.
#pragma once

#include <vector>

#include <mn/comm/communicator.hpp>

#include "tests/comm/programs/program.hpp"

namespace mn::testing {

/// A message whose program is not at its end.
struct Message {
  Action action;  // with the tag that is sent
  int source = 0;
  int filter = 0;  // the tag that is received
  bool is_sent = false;
  bool is_received = false;
  bool from_any = false;  // received from kAnySource
};

/// A message from a source to a destination matches a receive if that takes its tag or any; the first one does.
class HalfMessages {
 public:
  void add(const Message& message) { all_.push_back(message); }
  /// In the order in which they were posted.
  [[nodiscard]] const std::vector<Message>& all() const { return all_; }
  /// Forgets those of which both halves are posted.
  void forget_whole() {
    std::erase_if(all_, [](const Message& each) { return each.is_sent && each.is_received; });
  }
  /// A receive that is posted and takes this tag.
  Message* receive_for(const Action& message, int source, int tag) {
    return first_half(message, source, [&](const Message& each) { return !each.is_sent && takes(each.filter, tag); });
  }
  /// A message that is sent and that such a receive takes.
  Message* message_for(const Action& message, int source, int filter) {
    return first_half(message, source,
                      [&](const Message& each) { return each.is_sent && takes(filter, each.action.tag); });
  }

 private:
  [[nodiscard]] static bool takes(int filter, int tag) { return filter == Communicator::kAnyTag || filter == tag; }
  /// The first of the group's messages between these ranks of which one half alone is posted; null.
  template <class Matches>
  Message* first_half(const Action& like, int source, const Matches& matches) {
    for (Message& each : all_) {
      if (each.action.group == like.group && each.source == source && each.action.peer == like.peer && matches(each)) {
        return &each;
      }
    }
    return nullptr;
  }

  std::vector<Message> all_;
};

}  // namespace mn::testing
