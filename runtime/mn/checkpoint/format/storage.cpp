#include <linux/magic.h>
#include <sys/vfs.h>

#include <mn/checkpoint/format/storage.hpp>

namespace mn {

std::string volatile_storage(const std::filesystem::path& folder) {
  struct statfs facts = {};
  if (::statfs(folder.c_str(), &facts) != 0) return "";
  switch (static_cast<unsigned long>(facts.f_type)) {
    case TMPFS_MAGIC:
      return "tmpfs";
    case RAMFS_MAGIC:
      return "ramfs";
    case OVERLAYFS_SUPER_MAGIC:
      return "overlay";
    default:
      return "";
  }
}

}  // namespace mn
