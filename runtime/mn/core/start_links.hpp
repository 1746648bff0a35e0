/// The connections that mnlaunch leaves open in the program: until MPI is up, their ends tell which ranks have died.
/// mnlaunch writes the list to a variable, mn::StartWatch reads it, in that program or in one that a script starts.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mn {

inline constexpr const char* kStartLinksVariable = "MN_START_LINKS";

/// A connection to another rank, which ends when that rank's process does.
struct StartLink {
  int fd = -1;
  std::uint64_t inode = 0;  ///< number of the socket: `fd` may be another file's by now
  bool reports = false;     ///< this rank alone reports the loss of the other
  std::string name;         ///< name of the other rank, for people
  friend bool operator==(const StartLink&, const StartLink&) = default;
};

[[nodiscard]] std::string start_links_text(const std::vector<StartLink>& links);
/// Leaves out what is malformed.
[[nodiscard]] std::vector<StartLink> parse_start_links(const std::string& text);

/// 0 if `fd` is not an open socket.
[[nodiscard]] std::uint64_t inode_of_socket(int fd);

}  // namespace mn
