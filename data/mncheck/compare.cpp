#include "data/mncheck/commands.hpp"

#include <algorithm>
#include <cstring>
#include <iostream>
#include <set>
#include <string>

#include <mn/checkpoint/format/safetensors_header.hpp>
#include <mn/checkpoint/format/saved_checkpoint.hpp>

namespace mn::check {
namespace {

std::vector<std::byte> bytes_of(SavedCheckpoint& checkpoint, const std::string& name) {
  std::vector<std::byte> bytes(checkpoint.manifest().tensors.at(name).bytes());
  checkpoint.read(name, bytes);
  return bytes;
}

std::string form(const SavedTensor& tensor) { return tensor.dtype + " " + nlohmann::json(tensor.shape).dump(); }

/// The difference between two checkpoints' tensors; empty if equal. Tensors in different pieces may be equal.
std::string difference(SavedCheckpoint& a, SavedCheckpoint& b, const std::string& name) {
  const auto& in_a = a.manifest().tensors;
  const auto& in_b = b.manifest().tensors;
  const auto first = in_a.find(name), second = in_b.find(name);
  if (second == in_b.end()) return "only in " + a.folder().string();
  if (first == in_a.end()) return "only in " + b.folder().string();
  if (form(first->second) != form(second->second)) return form(first->second) + " and " + form(second->second);
  const auto x = bytes_of(a, name), y = bytes_of(b, name);
  const std::size_t wide = safetensors_element_bytes(first->second.dtype);
  std::size_t differing = 0;
  for (std::size_t i = 0; i < x.size(); i += wide) differing += std::memcmp(&x[i], &y[i], wide) != 0 ? 1 : 0;
  if (differing == 0) return "";
  return std::to_string(differing) + " of " + std::to_string(x.size() / wide) + " elements differ";
}

}  // namespace

int diff(const std::filesystem::path& a, const std::filesystem::path& b) {
  SavedCheckpoint first(checkpoints_at(a).front()), second(checkpoints_at(b).front());
  std::set<std::string> names;
  for (const SavedCheckpoint* each : {&first, &second}) {
    for (const auto& [name, tensor] : each->manifest().tensors) names.insert(name);
  }
  int status = 0;
  for (const std::string& name : names) {
    const std::string what = difference(first, second, name);
    if (what.empty()) continue;
    std::cout << name << ": " << what << '\n';
    status = 1;
  }
  return status;
}

}  // namespace mn::check
