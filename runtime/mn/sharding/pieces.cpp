#include <mn/sharding/pieces.hpp>

#include <memory>
#include <mutex>
#include <unordered_map>

#include <ATen/core/grad_mode.h>

#include <mn/comm/communicator.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

std::mutex mutex;
std::unordered_map<const c10::TensorImpl*, std::shared_ptr<const ParameterPiece>> pieces;  // by whole and by elements

}  // namespace

std::optional<ParameterPiece> find_piece(const at::Tensor& tensor) {
  const std::lock_guard lock(mutex);
  const auto found = pieces.find(tensor.unsafeGetTensorImpl());
  return found == pieces.end() ? std::nullopt : std::optional(*found->second);
}

std::int64_t dimensions_of(const at::Tensor& tensor) {
  const auto piece = find_piece(tensor);
  return piece ? piece->whole.dim() : tensor.dim();
}

void make_whole_norms(at::Tensor& norms, const at::Tensor& piece) {
  const auto found = find_piece(piece);
  if (!found) return;
  const at::NoGradGuard no_grad;
  norms.square_();
  found->ranks->allreduce(norms);
  norms.sqrt_();
}

void make_whole_maximum(at::Tensor& values, const at::Tensor& piece) {
  if (const auto found = find_piece(piece)) found->ranks->allreduce(values, ReduceOp::kMax);
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
