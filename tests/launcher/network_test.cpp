#include <algorithm>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

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

/// A connection that stays open until the end of its scope.
class Connection {
 public:
  explicit Connection(int port) : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0)) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<std::uint16_t>(port));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connect(socket_, reinterpret_cast<const sockaddr*>(&to), sizeof to);
  }
  ~Connection() { close(socket_); }
  Connection(Connection&& other) noexcept : socket_(std::exchange(other.socket_, -1)) {}
  [[nodiscard]] bool is_up(std::chrono::milliseconds patience) const {
    pollfd writable{socket_, POLLOUT, 0};
    int error = 0;
    socklen_t length = sizeof error;
    return poll(&writable, 1, static_cast<int>(patience.count())) == 1 &&
           getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &length) == 0 && error == 0;
  }

 private:
  int socket_;
};

TEST(NetworkTest, AListenerAnswersMoreThanItsBacklogHolds) {
  const Listener listener(4);  // as small against 100 as somaxconn against thousands of nodes
  std::vector<Connection> connections;
  for (int i = 0; i < 100; ++i) connections.emplace_back(listener.port());
  const auto up = std::ranges::count_if(connections, [](const auto& connection) { return connection.is_up(20'000ms); });
  EXPECT_EQ(up, 100);
}

}  // namespace
}  // namespace mn::launcher
