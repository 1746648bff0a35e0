#include <mn/data/stage_directory.hpp>

#include <algorithm>

namespace mn::data {

StageSource StageDirectory::ask(std::uint64_t file, std::uint32_t node, Time now) {
  Entry& entry = files_[file];
  std::erase(entry.nodes, node);  // a node with a copy would not ask
  if (!entry.nodes.empty()) return {StageSource::Kind::kNode, entry.nodes[entry.turn++ % entry.nodes.size()]};
  if (entry.copier != node && now < entry.until) return {StageSource::Kind::kWait};
  entry.copier = node;
  entry.until = now + kMaxCopyTime;
  return {StageSource::Kind::kStorage};
}

void StageDirectory::add(std::uint64_t file, std::uint32_t node) {
  Entry& entry = files_[file];
  if (std::ranges::find(entry.nodes, node) == entry.nodes.end()) entry.nodes.push_back(node);
}

void StageDirectory::remove(std::uint64_t file, std::uint32_t node) {
  Entry& entry = files_[file];
  std::erase(entry.nodes, node);
  if (entry.copier == node) entry.until = {};
}

}  // namespace mn::data
