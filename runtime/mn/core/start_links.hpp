/// The connections between ranks that mnlaunch leaves open in the program. Until MPI is up, a connection that closes
/// tells that a rank has died. mnlaunch writes the list of connections into an environment variable. mn::StartWatch
/// reads the variable, also if a script starts the program as a child.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mn {

inline constexpr const char* kStartLinksVariable = "MN_START_LINKS";

/// A connection to a peer, a different rank. The connection closes when the peer's process ends.
struct StartLink {
  int fd = -1;
  std::uint64_t inode = 0;  ///< the socket's inode, to detect that `fd` was reused for another file
  bool reports = false;     ///< only this rank reports the loss of the peer
  std::string name;         ///< the peer's name in messages
  friend bool operator==(const StartLink&, const StartLink&) = default;
};

[[nodiscard]] std::string start_links_text(const std::vector<StartLink>& links);
/// Parses the text of the environment variable. Empty if the text is malformed.
[[nodiscard]] std::vector<StartLink> parse_start_links(const std::string& text);

/// The inode of the socket `fd`; 0 if `fd` is not an open socket.
[[nodiscard]] std::uint64_t inode_of_socket(int fd);

}  // namespace mn
