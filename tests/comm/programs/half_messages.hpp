/// Messages of a random program with one half posted so far: the send or the receive.
#pragma once

#include <vector>

#include <mn/comm/communicator.hpp>

#include "tests/comm/programs/program.hpp"

namespace mn::testing {

/// A message that the program has begun.
struct Message {
  Action action;  // with the tag of the send
  int source = 0;
  int filter = 0;  // the tag of the receive
  bool is_sent = false;
  bool is_received = false;
  bool from_any = false;  // received from kAnySource
};

/// A message matches a receive with equal source and destination, and an equal tag or any tag; the first match counts.
class HalfMessages {
 public:
  void add(const Message& message) { all_.push_back(message); }
  /// The messages in the order of their first halves.
  [[nodiscard]] const std::vector<Message>& all() const { return all_; }
  /// Forgets messages with both halves posted.
  void forget_whole() {
    std::erase_if(all_, [](const Message& each) { return each.is_sent && each.is_received; });
  }
  /// A posted receive that takes the tag.
  Message* receive_for(const Action& message, int source, int tag) {
    return first_half(message, source, [&](const Message& each) { return !each.is_sent && takes(each.filter, tag); });
  }
  /// A sent message that the receive takes.
  Message* message_for(const Action& message, int source, int filter) {
    return first_half(message, source,
                      [&](const Message& each) { return each.is_sent && takes(filter, each.action.tag); });
  }

 private:
  [[nodiscard]] static bool takes(int filter, int tag) { return filter == Communicator::kAnyTag || filter == tag; }
  /// The first of the group's messages between the two ranks with only one half posted; null if there is none.
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
