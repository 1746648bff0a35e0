#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/net/interfaces.hpp>

#include "launcher/exchange/probe.hpp"
#include "launcher/facts/job_port.hpp"
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

TEST(NetworkTest, PortsOfJobsAreStableAndOutOfTheEphemeralRange) {
  EXPECT_EQ(port_of_job("7.0"), port_of_job("7.0"));
  EXPECT_NE(port_of_job("7.0"), port_of_job("7.1"));
  for (int job = 0; job < 1000; ++job) {
    const int port = port_of_job(std::to_string(job));
    EXPECT_TRUE(port >= 20000 && port < 32000) << port;
  }
}

TEST(NetworkTest, ATakenPortIsPassedOver) {
  const int first = port_of_job("7.0");
  EXPECT_EQ(free_port_of_job("7.0", [&](int port) { return port != first; }), first == 31999 ? 20000 : first + 1);
  EXPECT_EQ(free_port_of_job("7.0", [](int port) { return port < 20000; }), 19999);
  EXPECT_THROW(static_cast<void>(free_port_of_job("7.0", [](int) { return false; })), CommError);
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
