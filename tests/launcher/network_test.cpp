#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/net/interfaces.hpp>

#include "launcher/exchange/group.hpp"
#include "launcher/rounds/rendezvous.hpp"
#include "launcher/start/exports.hpp"
#include "tests/support/own_network.hpp"

namespace mn::launcher {
namespace {

using std::chrono_literals::operator""ms;

TEST(NetworkTest, TheNamesAddressWinsIfAnInterfaceHasIt) {
  const std::vector<Interface> interfaces = {{"eth0", "10.0.0.1", "10.0.0.0/24"}, {"ib0", "10.1.0.1", "10.1.0.0/16"}};
  EXPECT_EQ(own_address(interfaces, {"10.1.0.1"}), "10.1.0.1");
  EXPECT_EQ(own_address(interfaces, {"127.0.1.1"}), "10.0.0.1");
  EXPECT_EQ(own_address(interfaces, {}), "10.0.0.1");
  EXPECT_EQ(own_address({}, {"127.0.0.1"}), "127.0.0.1");
  EXPECT_EQ(own_address({{"eth0", "2001:db8::7", "2001:db8::/64"}}, {"::1", "2001:db8::7"}), "2001:db8::7");
}

TEST(NetworkTest, AHostMayHaveIpv6Alone) {
  const int status = test::status_in_own_network(
      "ip link add eth7 type veth peer name eth8 && ip link set eth8 up && ip link set eth7 up && "
      "ip addr add 2001:db8::7/64 dev eth7 nodad",
      [] {
        const auto interfaces = routed_interfaces();
        const bool is_right = interfaces.size() == 1 && interfaces[0].name == "eth7" &&
                              interfaces[0].address == "2001:db8::7" && interfaces[0].subnet == "2001:db8::/64";
        return is_right && own_address(interfaces, {}) == "2001:db8::7";
      });
  if (status == test::kNoOwnNetwork) GTEST_SKIP() << "no network of its own";
  EXPECT_EQ(status, 0);
}

TEST(NetworkTest, LibrariesGetTheInterfaceOfTheRouteUnlessTheyHaveOne) {
  Variables variables;
  variables.set("NCCL_SOCKET_IFNAME", "ib0");
  Equipment equipment;
  add_exports(variables, {}, {}, equipment);
  EXPECT_FALSE(variables.has("GLOO_SOCKET_IFNAME"));
  equipment.route = "eth0";
  add_exports(variables, {}, {}, equipment);
  EXPECT_EQ(variables.get("GLOO_SOCKET_IFNAME"), "eth0");
  EXPECT_EQ(variables.get("NCCL_SOCKET_IFNAME"), "ib0");
  Variables unset;
  add_exports(unset, {}, {}, equipment);
  EXPECT_EQ(unset.get("NCCL_SOCKET_IFNAME"), "=eth0");
}

TEST(NetworkTest, PortsOfJobsAreStableAndOutOfTheEphemeralRange) {
  EXPECT_EQ(port_of_job("7.0", kDefaultPorts), port_of_job("7.0", kDefaultPorts));
  EXPECT_NE(port_of_job("7.0", kDefaultPorts), port_of_job("7.1", kDefaultPorts));
  for (int job = 0; job < 1000; ++job) {
    const int port = port_of_job(std::to_string(job), kDefaultPorts);
    EXPECT_TRUE(port >= 20000 && port < 32000) << port;
  }
}

TEST(NetworkTest, AGivenRangeIsTriedWholeAndNothingElse) {
  const PortRange range[] = {{40000, 40009}};
  std::set<int> tried;
  const auto note = [&](int port) { return !tried.insert(port).second; };
  try {
    static_cast<void>(free_port_of_job("7.0", range, note));
    ADD_FAILURE() << "nothing thrown";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("none of the TCP ports 40000-40009 is free on this host"));
  }
  EXPECT_EQ(tried.size(), 10u);
  EXPECT_EQ(*tried.begin(), 40000);
  EXPECT_EQ(*tried.rbegin(), 40009);
}

TEST(NetworkTest, ATakenPortIsPassedOver) {
  const int first = port_of_job("7.0", kDefaultPorts);
  EXPECT_EQ(free_port_of_job("7.0", kDefaultPorts, [&](int port) { return port != first; }),
            first == 31999 ? 20000 : first + 1);
  const int lower = free_port_of_job("7.0", kDefaultPorts, [](int port) { return port < 20000; });
  EXPECT_TRUE(lower >= 8000 && lower < 20000) << lower;
  EXPECT_THROW(static_cast<void>(free_port_of_job("7.0", kDefaultPorts, [](int) { return false; })), CommError);
  std::uint16_t taken = 20000;
  Fd listener;
  while (!(listener = listen_on_port(taken))) ++taken;
  EXPECT_FALSE(is_free_port(taken));
}

TEST(NetworkTest, ProbesReachListenersOnly) {
  std::uint16_t port = 20000;
  std::vector<std::string> failures;
  {
    Fd listener;
    while (!(listener = listen_on_port(port))) ++port;
    failures = probe({{"127.0.0.1", port}, {"::1", port}, {"255.255.255.255", port}}, 5000ms);
  }
  EXPECT_EQ(failures[0], "");
  EXPECT_EQ(failures[1], "");
  EXPECT_NE(failures[2], "");
  EXPECT_NE(probe({{"127.0.0.1", port}}, 5000ms)[0], "");
}

}  // namespace
}  // namespace mn::launcher
