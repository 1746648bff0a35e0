#include <mn/sharding/pieces.hpp>

#include <memory>
#include <mutex>
#include <unordered_map>

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
