#include <mn/core/start_links.hpp>

#include <sys/stat.h>

#include <mn/core/classic_stream.hpp>

namespace mn {

std::string start_links_text(const std::vector<StartLink>& links) {
  OutText text;
  for (const auto& link : links) text << link.fd << ' ' << link.inode << ' ' << link.reports << ' ' << link.name << ';';
  return text.str();
}

std::vector<StartLink> parse_start_links(const std::string& text) {
  std::vector<StartLink> links;
  InText entries(text);
  for (std::string entry; std::getline(entries, entry, ';');) {
    InText fields(entry);
    StartLink link;
    if (fields >> link.fd >> link.inode >> link.reports && std::getline(fields >> std::ws, link.name)) {
      links.push_back(link);
    }
  }
  return links;
}

std::uint64_t inode_of_socket(int fd) {
  struct stat status {};
  return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

}  // namespace mn
