/// Connections between ranks, which mnlaunch leaves open for the started program. They close when a rank dies, so the
/// death is noticed even before MPI is up. mnlaunch lists the connections in an environment variable. mn::StartWatch
/// reads this variable, even if a script between mnlaunch and the program starts the program as a child.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mn {

inline constexpr const char* kStartLinksVariable = "MN_START_LINKS";

/// A connection to a different rank, the peer. The connection closes when the peer's process ends.
struct StartLink {
  int fd = -1;
  std::uint64_t inode = 0;  ///< the socket's inode, to detect that `fd` was reused for another file
  bool reports = false;     ///< true: this rank, and no other, reports the loss of the peer
  std::string name;         ///< the peer's name in messages
  friend bool operator==(const StartLink&, const StartLink&) = default;
};

[[nodiscard]] std::string start_links_text(const std::vector<StartLink>& links);
/// Parses the text of start_links_text(). Empty if the text is malformed.
[[nodiscard]] std::vector<StartLink> parse_start_links(const std::string& text);

/// The inode of the socket `fd`; 0 if `fd` is not an open socket.
[[nodiscard]] std::uint64_t inode_of_socket(int fd);

}  // namespace mn
