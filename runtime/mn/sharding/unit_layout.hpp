/// Where the parameters of one unit lie in a flat buffer, and which part of the buffer each rank owns.
///
/// The parameters follow one another, in row-major order. The buffer is cut into as many equal shares as there are
/// ranks; rank r owns share r. Therefore a reduce-scatter and an all-gather work on the buffer in place. The part of a
/// parameter in a rank's share is the rank's piece of the parameter.
/// (1) Parameters and shares begin at multiples of kAlignment elements. Therefore the vector loop of a fused optimizer
///     treats each element of a piece as it treats the element of the whole parameter, and the results are equal bits.
/// (2) A rank's piece of a parameter is contiguous; it may be empty.
/// (3) The layout depends on the numbers of elements and on the number of ranks alone.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace mn {

class UnitLayout {
 public:
  static constexpr std::int64_t kAlignment = 16;  ///< elements: 64 bytes of float32

  /// `counts` has the number of elements of each parameter.
  UnitLayout(std::vector<std::int64_t> counts, int ranks);

  /// Elements of the whole buffer; a multiple of kAlignment × ranks.
  [[nodiscard]] std::int64_t size() const noexcept { return share_ * ranks_; }
  /// Elements of each rank's share.
  [[nodiscard]] std::int64_t share() const noexcept { return share_; }
  /// The place of parameter i's first element in the buffer.
  [[nodiscard]] std::int64_t offset(std::size_t i) const { return offsets_[i]; }
  [[nodiscard]] std::int64_t count(std::size_t i) const { return counts_[i]; }
  /// The number of parameters.
  [[nodiscard]] std::size_t parameters() const noexcept { return counts_.size(); }

  /// A rank's piece of a parameter: elements [begin, end) of the parameter. `place` is the place of element `begin` in
  /// the rank's share.
  struct Piece {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t place = 0;
    [[nodiscard]] std::int64_t size() const noexcept { return end - begin; }
  };
  [[nodiscard]] Piece piece(std::size_t i, int rank) const;

 private:
  std::vector<std::int64_t> counts_, offsets_;
  std::int64_t share_ = 0;
  int ranks_;
};

}  // namespace mn
