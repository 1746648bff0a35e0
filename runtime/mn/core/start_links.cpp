#include <mn/core/start_links.hpp>

#include <exception>

#include <sys/stat.h>

#include <mn/core/json.hpp>

namespace mn {

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(StartLink, fd, inode, reports, name)

std::string start_links_text(const std::vector<StartLink>& links) { return json_text(links); }

std::vector<StartLink> parse_start_links(const std::string& text) {
  try {
    return parse_json(text, kStartLinksVariable).get<std::vector<StartLink>>();
  } catch (const std::exception&) {
    return {};
  }
}

std::uint64_t inode_of_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace mn
