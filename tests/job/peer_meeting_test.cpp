// A monitor and its neighbor meet over a tapped connection; a process that replays all tapped bytes is rejected.
#include <future>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <mn/core/net/socket.hpp>
#include <mn/job/peer_meeting.hpp>

namespace mn {
namespace {

using namespace std::chrono_literals;

PeerIntroduction introduction(const KeyPair& keys, std::uint16_t port = 0) { return {port, keys.open, {"127.0.0.1"}}; }

/// Rank 0, its child and their keys.
struct Pair {
  KeyPair parent = new_key_pair(), child = new_key_pair();

  /// True if a process with these keys meets the child at `listener`.
  [[nodiscard]] bool child_comes_to(Fd listener, std::chrono::milliseconds time) const {
    PeerMeeting meeting(0, std::move(listener), parent, std::nullopt, {{1, introduction(child)}});
    return !meeting.run_until(Clock::now() + time).empty();
  }
  /// True if a process with these keys meets the parent at `port`.
  [[nodiscard]] bool parent_is_at(std::uint16_t port, std::chrono::milliseconds time) const {
    PeerMeeting meeting(1, listen_on_port(0, Reach::kThisHost), child, {{0, introduction(parent, port)}}, {});
    return !meeting.run_until(Clock::now() + time).empty();
  }
};

/// The bytes of a connection, by direction.
struct Record {
  std::string from_caller, from_listener;
};

/// Accepts a connection of `listener` and relays the bytes of both ends, until an end closes.
Record listen_in(const Fd& listener, std::uint16_t to) {
  Record record;
  const Fd caller = accept_until(listener, Clock::now() + 5s);
  const Fd other = connect_until("127.0.0.1", to, Clock::now() + 5s);
  const auto pass_on = [](const Fd& from, const Fd& to_end, std::string& heard) {
    char bytes[4096];
    const ssize_t got = recv(from.get(), bytes, sizeof bytes, MSG_DONTWAIT);
    if (got > 0) heard.append(bytes, static_cast<std::size_t>(got));
    return got > 0 ? send_bytes(to_end, std::as_bytes(std::span(bytes, static_cast<std::size_t>(got)))) : got < 0;
  };
  bool goes_on = true;
  while (goes_on) {
    pollfd entries[] = {{caller.get(), POLLIN, 0}, {other.get(), POLLIN, 0}};
    poll(entries, 2, 5000);
    goes_on = pass_on(caller, other, record.from_caller) && pass_on(other, caller, record.from_listener);
  }
  return record;
}

/// Both have met, and all their bytes are recorded.
Record heard_meeting(const Pair& pair) {
  Fd listener = listen_on_port(0, Reach::kThisHost);
  const std::uint16_t port = port_of(listener);
  const Fd between = listen_on_port(0, Reach::kThisHost);
  auto record = std::async(std::launch::async, [&] { return listen_in(between, port); });
  auto parent = std::async(std::launch::async, [&] { return pair.child_comes_to(std::move(listener), 5000ms); });
  EXPECT_TRUE(pair.parent_is_at(port_of(between), 5000ms));
  EXPECT_TRUE(parent.get());
  return record.get();
}

TEST(PeerMeeting, WhoHasHeardAMeetingDoesNotKnowTheKey) {
  const Pair pair;
  const Record record = heard_meeting(pair);
  const auto key = common_key(pair.parent, pair.child.open);
  EXPECT_EQ(key, common_key(pair.child, pair.parent.open));
  const std::string all = record.from_caller + record.from_listener;
  EXPECT_GT(all.size(), 100U);
  for (const Key& secret : {key.value_or(Key{}), pair.parent.secret, pair.child.secret}) {
    EXPECT_EQ(all.find(std::string(secret.begin(), secret.end())), std::string::npos);
  }
}

TEST(PeerMeeting, WhatAChildSaidServesNobodyAgain) {
  const Pair pair;
  const Record record = heard_meeting(pair);
  Fd listener = listen_on_port(0, Reach::kThisHost);
  const Fd replay = connect_until("127.0.0.1", port_of(listener), Clock::now() + 1s);
  ASSERT_TRUE(send_bytes(replay, std::as_bytes(std::span(record.from_caller))));
  EXPECT_FALSE(pair.child_comes_to(std::move(listener), 500ms));
}

TEST(PeerMeeting, WhatAParentSaidServesNobodyAgain) {
  const Pair pair;
  const Record record = heard_meeting(pair);
  const Fd listener = listen_on_port(0, Reach::kThisHost);
  auto child = std::async(std::launch::async, [&] { return pair.parent_is_at(port_of(listener), 500ms); });
  const Fd replay = accept_until(listener, Clock::now() + 1s);
  ASSERT_TRUE(send_bytes(replay, std::as_bytes(std::span(record.from_listener))));
  EXPECT_FALSE(child.get());
}

TEST(PeerMeeting, AnotherJobsChildIsAStranger) {
  const Pair pair, other;
  Fd listener = listen_on_port(0, Reach::kThisHost);
  const std::uint16_t port = port_of(listener);
  auto child = std::async(std::launch::async, [&] { return other.parent_is_at(port, 500ms); });
  EXPECT_FALSE(pair.child_comes_to(std::move(listener), 500ms));
  EXPECT_FALSE(child.get());
}

}  // namespace
}  // namespace mn
