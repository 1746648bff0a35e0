#include <gtest/gtest.h>

#include "launcher/facts/addresses.hpp"

namespace mn::launcher {
namespace {

using std::chrono_literals::operator""ms;

TEST(NetworkTest, TheNamesAddressWinsIfAnInterfaceHasIt) {
  const std::vector<Interface> interfaces = {{"eth0", "10.0.0.1", "10.0.0.0/24"}, {"ib0", "10.1.0.1", "10.1.0.0/16"}};
  EXPECT_EQ(own_address(interfaces, {"10.1.0.1"}), "10.1.0.1");
  EXPECT_EQ(own_address(interfaces, {"127.0.1.1"}), "10.0.0.1");
  EXPECT_EQ(own_address(interfaces, {}), "10.0.0.1");
  EXPECT_EQ(own_address({}, {"127.0.0.1"}), "127.0.0.1");
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
  const Listener listener;
  EXPECT_FALSE(is_free_port(listener.port()));
}

TEST(NetworkTest, ConnectsToAListenerOnly) {
  int port = 0;
  {
    const Listener listener;
    port = listener.port();
    EXPECT_EQ(try_connect("127.0.0.1", port, 1000ms), "");
  }
  EXPECT_NE(try_connect("127.0.0.1", port, 1000ms), "");
}

}  // namespace
}  // namespace mn::launcher
