#include <mn/checkpoint/format/storage.hpp>

#include <algorithm>
#include <utility>

#include <linux/magic.h>
#include <sys/vfs.h>

namespace mn {
namespace {

constexpr std::pair<unsigned long, const char*> kOfTheNode[] = {
    {TMPFS_MAGIC, "tmpfs"},     {RAMFS_MAGIC, "ramfs"},       {OVERLAYFS_SUPER_MAGIC, "overlay"},
    {EXT4_SUPER_MAGIC, "ext4"},  // ext2's and ext3's too
    {XFS_SUPER_MAGIC, "xfs"},   {BTRFS_SUPER_MAGIC, "btrfs"}, {F2FS_SUPER_MAGIC, "f2fs"},
    {0x2fc12fc1, "zfs"},  // not part of Linux's source tree
};

}  // namespace

std::string volatile_storage(const std::filesystem::path& folder) {
  struct statfs facts = {};
  if (::statfs(folder.c_str(), &facts) != 0) return "";
  const auto found = std::ranges::find(kOfTheNode, static_cast<unsigned long>(facts.f_type),
                                       &std::pair<unsigned long, const char*>::first);
  return found == std::end(kOfTheNode) ? "" : found->second;
}

bool is_disk(const std::string& kind) { return kind != "tmpfs" && kind != "ramfs" && kind != "overlay"; }

}  // namespace mn
