/// Finds a rank's piece of a sharded parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

class Communicator;
class ShardedParameters;

/// A rank's piece of a parameter: elements [begin, begin + elements.numel()) in row-major order.
struct ParameterPiece {
  at::Tensor whole;     ///< the parameter
  at::Tensor elements;  ///< one dimension; may be empty
  std::int64_t begin = 0;
  bool keeps = false;                  ///< the parameter is always whole; `elements` are a view of it or on the host
  bool is_replica = false;             ///< a rank of another group writes this piece to checkpoints
  Communicator* ranks = nullptr;       ///< the ranks among which the parameter is divided
  ShardedParameters* owner = nullptr;  ///< null before an optimizer takes the parameter
  std::function<void()> forget = {};   ///< if owner is null: makes the whole parameter a usual tensor again
  /// Only for experts (MixtureOfExperts): the ranks that hold copies of this piece. An expert's parameter is never
  /// gathered, and the gradient that backward makes of the piece already includes the losses of all `ranks`.
  std::shared_ptr<Communicator> replicas = {};
  std::shared_ptr<bool> is_taken = {};  ///< only for experts: an optimizer updates the piece
};

/// Returns the piece with `tensor` as `whole` or `elements`; std::nullopt if `tensor` is not sharded.
[[nodiscard]] std::optional<ParameterPiece> find_piece(const at::Tensor& tensor);

/// True if `tensor` is a sharded parameter, and each rank has only a piece now.
[[nodiscard]] bool is_in_pieces(const at::Tensor& tensor);
/// Collective if is_in_pieces(tensor): returns the whole parameter on rank 0 of ParameterPiece::ranks, and an undefined
/// tensor on the rest. Otherwise returns `tensor`.
[[nodiscard]] at::Tensor whole_on_root(const at::Tensor& tensor);
/// Local: copies the values of `whole` to this rank's piece. Requires is_in_pieces(parameter).
void load_piece(const at::Tensor& parameter, const at::Tensor& whole);

/// The number of dimensions of the whole parameter; `tensor` is the parameter or a piece.
[[nodiscard]] std::int64_t dimensions_of(const at::Tensor& tensor);

/// Collective if any of `tensors` is a piece; all ranks pass pieces of the same parameters. The last dimension of
/// `norms` has an element for each tensor. Turns norms of pieces into norms of the whole parameters.
void make_whole_norms(at::Tensor& norms, at::TensorList tensors);
/// Collective if any of `parameters` is a piece; otherwise does nothing. Replaces `values` by the maximum over ranks.
void make_whole_maximum(at::Tensor& values, const std::vector<at::Tensor>& parameters);

/// While an object lives, find_piece() finds the piece.
class KnownPiece {
 public:
  explicit KnownPiece(const ParameterPiece& piece);
  ~KnownPiece();
  KnownPiece(const KnownPiece&) = delete;
  KnownPiece& operator=(const KnownPiece&) = delete;

 private:
  const c10::TensorImpl* whole_;
  const c10::TensorImpl* elements_;
};

}  // namespace mn
