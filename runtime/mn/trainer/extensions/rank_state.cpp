#include <mn/trainer/extensions/rank_state.hpp>

#include <algorithm>

#include <ATen/ops/cat.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>

namespace mn::extensions {
namespace {

const at::Tensor& named(const NamedTensors& tensors, const std::string& name) {
  const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
  if (found != tensors.end()) return found->second;
  throw DataError("the checkpoint has the state \"" + name + "\" of some ranks only", true);
}

}  // namespace

RankState::RankState(std::string name, Tensors tensors, Map map)
    : name_(std::move(name)), tensors_(std::move(tensors)), map_(std::move(map)) {
  const bool has_null = std::ranges::any_of(tensors_, [](const auto& each) { return each.second == nullptr; });
  if (name_.empty() || tensors_.empty() || has_null) {
    throw ArgumentError("a RankState needs a name, and a tensor of the program for each name of a tensor");
  }
}

RankState::Map RankState::divide_along(std::int64_t dimension) {
  return [dimension](const std::vector<NamedTensors>& saved, const Communicator& comm) {
    NamedTensors own;
    for (const auto& [name, first] : saved.front()) {
      std::vector<at::Tensor> parts;
      for (const NamedTensors& theirs : saved) parts.push_back(named(theirs, name));
      const at::Tensor all = at::cat(parts, dimension);
      const std::int64_t length = all.size(dimension), part = length / comm.size();
      if (part * comm.size() != length) {
        throw DataError("the state \"" + name + "\" of all ranks has length " + std::to_string(length) +
                            " along dimension " + std::to_string(dimension) + ", which " + std::to_string(comm.size()) +
                            " ranks do not divide equally",
                        true);
      }
      own.emplace_back(name, all.narrow(dimension, comm.rank() * part, part).clone());
    }
    return own;
  };
}

NamedTensors RankState::rank_tensors() const {
  NamedTensors own;
  for (const auto& [name, tensor] : tensors_) own.emplace_back(name, *tensor);
  return own;
}

void RankState::load_rank_tensors(const NamedTensors& tensors) {
  for (const auto& [name, tensor] : tensors_) {
    const auto found = std::ranges::find(tensors, name, &NamedTensors::value_type::first);
    if (found == tensors.end()) continue;
    *tensor = tensor->defined() ? found->second.to(tensor->device()) : found->second;
  }
}

void RankState::map_rank_tensors(const std::vector<NamedTensors>& saved, const Communicator& comm) {
  map_ ? load_rank_tensors(map_(saved, comm)) : Extension::map_rank_tensors(saved, comm);
}

}  // namespace mn::extensions
