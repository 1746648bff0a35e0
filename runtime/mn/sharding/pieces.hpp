/// Finds a rank's piece of a sharded parameter.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

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
};

/// Returns the piece whose `whole` or `elements` is `tensor`; no value if `tensor` is not sharded.
[[nodiscard]] std::optional<ParameterPiece> find_piece(const at::Tensor& tensor);

/// True if `tensor` is a sharded parameter that is not whole now: each rank has only its piece.
[[nodiscard]] bool is_in_pieces(const at::Tensor& tensor);
/// Collective if is_in_pieces(tensor): returns the whole parameter on the first of its ranks, and an undefined tensor on
/// the other ranks. Returns any other tensor as it is.
[[nodiscard]] at::Tensor whole_on_root(const at::Tensor& tensor);
/// Local: this rank's piece of `parameter`, which is in pieces, takes the values of `whole`.
void load_piece(const at::Tensor& parameter, const at::Tensor& whole);

/// The number of dimensions of a parameter, or of the parameter of which `tensor` is a piece.
[[nodiscard]] std::int64_t dimensions_of(const at::Tensor& tensor);

/// Collective if `piece` is a piece; otherwise does nothing. Turns `norms`, each of this rank's piece of some parameter,
/// into the norms of the whole parameters. With one number, turns the norm of all of this rank's pieces together into
/// the norm of the whole.
void make_whole_norms(at::Tensor& norms, const at::Tensor& piece);
/// Collective if `piece` is a piece; otherwise does nothing. Replaces `values` by their maximum over ranks.
void make_whole_maximum(at::Tensor& values, const at::Tensor& piece);

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
