#include <mn/sharding/pieces.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_copy.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/stream_order.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

std::mutex mutex;
std::unordered_map<const c10::TensorImpl*, std::shared_ptr<const ParameterPiece>> pieces;  // by whole and by elements

/// This rank's piece of `tensor`, if each rank has only a piece now.
std::optional<ParameterPiece> find_only_piece(const at::Tensor& tensor) {
  auto piece = find_piece(tensor);
  const bool is_only = piece && tensor.is_same(piece->whole) && tensor.numel() > 0 && !tensor.storage().data();
  return is_only ? std::move(piece) : std::nullopt;
}

/// Collective. On a device the host does not wait.
void reduce(at::Tensor& values, ReduceOp op, Communicator& ranks) {
  if (values.is_cpu()) return ranks.allreduce(values, op);
  in_stream_order(
      ranks, [&](DeviceCollectives& device) { device.allreduce(buffer_view(values), op); },
      [&] { ranks.allreduce(values, op); });
}

}  // namespace

std::optional<ParameterPiece> find_piece(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex);
  const auto found = pieces.find(tensor.unsafeGetTensorImpl());
  return found == pieces.end() ? std::nullopt : std::optional(*found->second);
}

bool is_in_pieces(const at::Tensor& tensor) { return find_only_piece(tensor).has_value(); }

at::Tensor whole_on_root(const at::Tensor& tensor) {
  const auto piece = find_only_piece(tensor);
  if (!piece) return tensor;
  Communicator& ranks = *piece->ranks;
  const std::size_t own = piece->elements.numel();
  std::vector<std::size_t> counts(ranks.size());
  ranks.allgather(std::span(&own, 1), counts);
  const bool is_root = ranks.rank() == 0;
  const at::Tensor whole = is_root ? at::empty(tensor.sizes(), piece->elements.options()) : at::Tensor();
  ranks.gatherv(buffer_view(piece->elements), buffer_view(is_root ? whole : piece->elements), counts);
  return whole;
}

void load_piece(const at::Tensor& parameter, const at::Tensor& whole) {
  const at::NoGradGuard no_grad;
  const ParameterPiece piece = *find_piece(parameter);
  at::Tensor elements = piece.elements.detach();
  elements.copy_(whole.flatten().narrow(0, piece.begin, elements.numel()));
}

std::int64_t dimensions_of(const at::Tensor& tensor) {
  const auto piece = find_piece(tensor);
  return piece ? piece->whole.dim() : tensor.dim();
}

void make_whole_norms(at::Tensor& norms, at::TensorList tensors) {
  const std::vector<at::Tensor> columns = norms.unbind(-1);
  std::vector<std::pair<Communicator*, std::vector<at::Tensor>>> groups;  // the columns of each group of ranks
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const auto piece = find_piece(tensors[i]);
    if (!piece) continue;
    auto group = std::ranges::find(groups, piece->ranks, [](const auto& each) { return each.first; });
    if (group == groups.end()) group = groups.insert(group, {piece->ranks, {}});
    group->second.push_back(columns[i]);
  }
  const at::NoGradGuard no_grad;
  for (const auto& [ranks, own] : groups) {
    at::Tensor squares = at::stack(own, -1).square_();
    reduce(squares, ReduceOp::kSum, *ranks);
    at::_foreach_copy_(own, squares.sqrt_().unbind(-1));
  }
}

void make_whole_maximum(at::Tensor& values, const std::vector<at::Tensor>& parameters) {
  std::vector<Communicator*> reduced;
  for (const at::Tensor& parameter : parameters) {
    const auto piece = find_piece(parameter);
    if (!piece || std::ranges::find(reduced, piece->ranks) != reduced.end()) continue;
    reduce(values, ReduceOp::kMax, *piece->ranks);
    reduced.push_back(piece->ranks);
  }
}

KnownPiece::KnownPiece(const ParameterPiece& piece)
    : whole_(piece.whole.unsafeGetTensorImpl()), elements_(piece.elements.unsafeGetTensorImpl()) {
  const auto known = std::make_shared<const ParameterPiece>(piece);
  const std::lock_guard lock(mutex);
  pieces[whole_] = pieces[elements_] = known;
}

KnownPiece::~KnownPiece() {
  const std::lock_guard lock(mutex);
  pieces.erase(whole_);
  pieces.erase(elements_);
}

}  // namespace mn
