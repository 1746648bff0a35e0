#include <array>
#include <ctime>
#include <limits>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <mn/core/kernel_random.hpp>
#include <mn/core/net/channel.hpp>
#include <mn/core/net/deadline.hpp>
#include <mn/core/net/interfaces.hpp>
#include <mn/core/net/socket.hpp>
#include <mn/core/tree.hpp>

#include "tests/support/own_network.hpp"

namespace mn {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NetTest, EveryNodeOfATreeIsItsParentsChild) {
  for (const int arity : {1, 2, 8, 16}) {
    const Tree tree(arity);
    for (const int nodes : {1, 2, 3, 17, 273, 300}) {
      std::multiset<int> reached;
      for (int node = 0; node < nodes; ++node) {
        for (const int child : tree.children_of(node, nodes)) {
          EXPECT_EQ(tree.parent_of(child), node);
          EXPECT_TRUE(tree.is_below(child, node) && !tree.is_below(node, child));
          reached.insert(child);
        }
      }
      EXPECT_EQ(reached.size(), static_cast<std::size_t>(nodes - 1)) << arity << " " << nodes;
    }
  }
  EXPECT_THAT(Tree(8).children_of(1, 12), ElementsAre(9, 10, 11));
  EXPECT_THAT(Tree(8).children_of(11, 12), IsEmpty());
}

TEST(NetTest, MillisecondsOfADeadlineAreRoundedUpAndLimited) {
  using std::chrono::milliseconds;
  EXPECT_EQ(milliseconds_until(Clock::now() - milliseconds(5)), 0);
  EXPECT_EQ(milliseconds_until(Clock::now() + milliseconds(5000), milliseconds(7)), 7);
  EXPECT_EQ(milliseconds_until(Deadline::max()), std::numeric_limits<int>::max());
}

TEST(NetTest, AFreePortIsTakenOnce) {
  for (const Reach reach : {Reach::kAllHosts, Reach::kThisHost}) {
    const Fd listener = listen_on_port(0, reach);
    ASSERT_TRUE(listener);
    EXPECT_GT(port_of(listener), 0);
    EXPECT_FALSE(listen_on_port(port_of(listener), reach));
  }
}

/// CPU time of this thread.
double cpu_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

TEST(NetTest, AConnectionThatFindsNoDescriptorWaitsForOne) {
  const Fd listener = listen_on_port(0, Reach::kThisHost);
  const Fd caller = begin_connection({"127.0.0.1", port_of(listener)});
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const int next = dup(caller.get());
  close(next);
  const rlimit full{static_cast<rlim_t>(next), before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &full), 0);
  const double begin = cpu_seconds();
  const Fd none = accept_until(listener, Clock::now() + std::chrono::milliseconds(300));
  const double spent = cpu_seconds() - begin;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_FALSE(none);
  EXPECT_LT(spent, 0.05) << "it asks again and again";
  EXPECT_TRUE(accept_until(listener, Clock::now() + std::chrono::seconds(9)));
}

TEST(NetTest, RandomKeysDiffer) {
  std::array<std::byte, 32> a{};
  std::array<std::byte, 32> b{};
  draw_random(a);
  draw_random(b);
  EXPECT_NE(a, b);
}

TEST(NetTest, VirtualInterfacesComeLast) {
  // Link-local IPv6 addresses are omitted.
  const int status = test::status_in_own_network(
      "ip link add eth7 type veth peer name vnet7 && ip link set vnet7 up && ip link set eth7 up && "
      "ip addr add 10.7.0.1/24 dev vnet7 && ip addr add 10.8.0.1/24 dev eth7",
      [] {
        const auto routed = routed_interfaces();
        const auto all = local_addresses();
        const bool is_last = all.size() == 2 && all[0] == "10.8.0.1" && all[1] == "10.7.0.1";
        return routed.size() == 1 && routed[0].name == "eth7" && is_last;
      });
  if (status == test::kNoOwnNetwork) GTEST_SKIP() << "no network of its own";
  EXPECT_EQ(status, 0);
}

TEST(NetTest, TheInterfaceTowardAnAddressIsThatOfTheRoute) {
  const int status = test::status_in_own_network(
      "ip link set lo up && ip link add eth7 type veth peer name eth8 && ip link set eth7 up && ip link set eth8 up && "
      "ip addr add 10.7.0.1/24 dev eth7 && ip addr add 10.8.0.1/24 dev eth8 && "
      "ip addr add 2001:db8::1/64 dev eth8 nodad",
      [] {
        const bool is_routed = interface_toward("10.7.0.9") == "eth7" && interface_toward("10.8.0.9") == "eth8" &&
                               interface_toward("2001:db8::9") == "eth8";
        const bool is_own = interface_toward("10.8.0.1") == "eth8";
        const bool is_empty = interface_toward("127.0.0.1").empty() && interface_toward("10.9.0.1").empty() &&
                              interface_toward("vn1").empty() && interface_toward("").empty();
        return is_routed && is_own && is_empty;
      });
  if (status == test::kNoOwnNetwork) GTEST_SKIP() << "no network of its own";
  EXPECT_EQ(status, 0);
}

TEST(NetTest, WhoProvesItselfAndEndsAtOnceHasComeAllTheSame) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  SharedKey keys(key_of_text("net_test"));
  Channel listener{Fd(ends[0])};
  {
    Channel caller(Fd(ends[1]), Call{1, 0}, keys);
    caller.progress();
    listener.progress();
    listener.answer(keys);
    caller.progress();
    caller.open();
    caller.send("the last words");
    EXPECT_TRUE(caller.flush());
  }
  listener.progress();
  ASSERT_TRUE(listener.is(Channel::State::kVerified)) << listener.why();
  listener.open();
  listener.progress();
  EXPECT_EQ(listener.receive(), "the last words");
  EXPECT_TRUE(listener.is(Channel::State::kClosed));
}

}  // namespace
}  // namespace mn
