/// Converts, scales and moves many tensors on a GPU in one pass over memory. A piece is one tensor's elements. Pieces
/// are cut into chunks of 4096 elements, and the kernel's blocks take the chunks in turn. A thread moves 16 bytes at a
/// time if source and destination are aligned to 16 bytes.
///
/// Invariants:
/// 1. The table of pieces is the kernel's argument. It needs no memory, so a CUDA graph can capture the kernel.
/// 2. Each element is read and written once, by one thread, so a piece may be converted in place.
/// 3. The work of a GPU thread is a plain constexpr function, so tests can run the same code on the host. With the
///    option --expt-relaxed-constexpr, nvcc lets kernels call such functions.
///
/// Cost: one kernel for each group of kPackPieces pieces; every byte is read once and written once.
/// limit_norm_on_device() reads and writes nothing if the norm is within the limit. Source: the table of pieces is
/// modeled on multi_tensor_apply of NVIDIA's Apex.
#pragma once

#include <bit>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>

#include <mn/core/buffer.hpp>
#include <mn/core/half.hpp>

namespace mn {

/// A tensor of `count` elements, and where the kernel writes them. Source and destination must not overlap, unless both
/// have the same address and the same dtype.
struct PackPiece {
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
};

inline constexpr std::size_t kPackPieces = 166;  ///< largest number of pieces of one kernel

/// Enqueues on `stream` (a cudaStream_t) a kernel that computes to[i] = from[i] × scale for every element of every
/// piece. The product is computed in float32, or in float64 if `from` or `to` is float64, and rounded to nearest even.
/// Throws ArgumentError unless both dtypes are floats.
void pack_on_device(std::span<const PackPiece> pieces, DType from, DType to, double scale, void* stream);

/// Enqueues on `stream` a kernel that multiplies each piece in place by norm_factor(*norm, max_norm). `norm` is a
/// number in device memory, for example the norm of all pieces together. `dtype` must be a float dtype.
void limit_norm_on_device(std::span<const PackPiece> pieces, DType dtype, const double* norm, double max_norm,
                          void* stream);

/// The integer key of a float32 or of a 16-bit float. Keys have the order of the numbers; NaNs have the largest keys.
struct FloatKey {
  std::int32_t value;
};
/// The integer key of a float64, in the same order as FloatKey.
struct DoubleKey {
  std::int64_t value;
};
/// Enqueues on `stream` a kernel that writes to the piece's destination the key of `sign` times each element of its
/// source. `dtype` must be a float dtype.
void keys_on_device(const PackPiece& piece, DType dtype, double sign, void* stream);
/// Enqueues the inverse of keys_on_device(): writes `sign` times the number of each key.
void values_of_keys_on_device(const PackPiece& piece, DType dtype, double sign, void* stream);

// The work of each thread of the kernels.

/// Maps the bits of a float to its key, and a key back to the bits. Changes only negative floats, because the order of
/// their bits is reversed.
template <class Bits>
constexpr Bits reorder(Bits bits) {
  return bits < 0 ? bits ^ std::numeric_limits<Bits>::max() : bits;
}
constexpr FloatKey key_of(float value) {
  return {value != value ? std::numeric_limits<std::int32_t>::max() : reorder(std::bit_cast<std::int32_t>(value))};
}
constexpr DoubleKey key_of(double value) {
  return {value != value ? std::numeric_limits<std::int64_t>::max() : reorder(std::bit_cast<std::int64_t>(value))};
}
constexpr float to_float(FloatKey key) { return std::bit_cast<float>(reorder(key.value)); }
constexpr double to_float(DoubleKey key) { return std::bit_cast<double>(reorder(key.value)); }

/// The factor that limits gradients of the norm `norm` to `max_norm`; 1 if `norm` is less or not finite.
constexpr double norm_factor(double norm, double max_norm) {
  const double factor = max_norm / norm;
  return factor < 1 && factor > 0 ? factor : 1;
}

/// Number of elements of a chunk, which one block of threads moves.
inline constexpr std::size_t kPackChunk = 4096;
inline constexpr std::size_t kPackVectorBytes = 16;

/// The kernel's argument: a table of pieces, cut into numbered chunks. CUDA limits arguments to 4 KiB, so numbers of
/// elements have only 32 bits.
struct PackTable {
  const double* norm;  // if not null, the factor is norm_factor() with the scale as max_norm
  const void* from[kPackPieces];
  void* to[kPackPieces];
  std::uint32_t elements[kPackPieces];
  std::uint32_t first_chunk[kPackPieces + 1];  // [piece]; the entry at `count` is the number of chunks
  std::uint32_t count;

  [[nodiscard]] constexpr std::uint32_t chunks() const { return first_chunk[count]; }
  [[nodiscard]] constexpr std::uint32_t piece_of(std::uint32_t chunk) const {
    std::uint32_t low = 0;
    for (std::uint32_t high = count; high - low > 1;) {
      const std::uint32_t middle = (low + high) / 2;
      (first_chunk[middle] <= chunk ? low : high) = middle;
    }
    return low;
  }
};
static_assert(sizeof(PackTable) <= 4000);

inline constexpr std::size_t kPackElements = std::size_t{1} << 31;

/// The kernel's argument for 1 to kPackPieces pieces, none of them empty or larger than kPackElements.
[[nodiscard]] inline PackTable make_pack_table(std::span<const PackPiece> pieces, const double* norm = nullptr) {
  assert(pieces.size() <= kPackPieces);
  PackTable table{};
  table.norm = norm;
  for (const PackPiece& piece : pieces) {
    assert(piece.count <= kPackElements);
    table.from[table.count] = piece.from;
    table.to[table.count] = piece.to;
    table.elements[table.count] = static_cast<std::uint32_t>(piece.count);
    const auto chunks = static_cast<std::uint32_t>((piece.count + kPackChunk - 1) / kPackChunk);
    table.first_chunk[table.count + 1] = table.first_chunk[table.count] + chunks;
    ++table.count;
  }
  return table;
}

template <class T>
inline constexpr bool kIsDouble = std::is_same_v<T, double> || std::is_same_v<T, DoubleKey>;
/// The type in which elements are multiplied by the scale.
template <class From, class To>
using PackMath = std::conditional_t<kIsDouble<From> || kIsDouble<To>, double, float>;

template <class From, class To>
constexpr To pack_element(From value, PackMath<From, To> scale) {
  using Math = PackMath<From, To>;
  Math wide{};
  if constexpr (std::is_floating_point_v<From>)
    wide = static_cast<Math>(value);
  else
    wide = static_cast<Math>(to_float(value));
  if constexpr (std::is_same_v<To, FloatKey> || std::is_same_v<To, DoubleKey>)
    return key_of(wide * scale);
  else
    return round_to<To>(static_cast<Real<To>>(wide * scale));
}

/// Number of elements that a thread loads and stores at once: those of the narrower type fill 16 bytes.
template <class From, class To>
inline constexpr std::size_t kPackWidth = kPackVectorBytes / (sizeof(From) < sizeof(To) ? sizeof(From) : sizeof(To));

template <class T, std::size_t N>
struct alignas(kPackVectorBytes) PackVector {
  T values[N];
};

/// The work of GPU thread `thread` of `threads`, on a chunk of `count` elements.
template <class From, class To>
constexpr void pack_chunk(const From* from, To* to, std::size_t count, PackMath<From, To> scale, unsigned thread,
                          unsigned threads) {
  constexpr std::size_t kWidth = kPackWidth<From, To>;
  const bool aligned =
      (reinterpret_cast<std::uintptr_t>(from) | reinterpret_cast<std::uintptr_t>(to)) % kPackVectorBytes == 0;
  const std::size_t vectors = aligned ? count / kWidth : 0;
  for (std::size_t v = thread; v < vectors; v += threads) {
    const auto in = reinterpret_cast<const PackVector<From, kWidth>*>(from)[v];
    PackVector<To, kWidth> out;
    for (std::size_t i = 0; i < kWidth; ++i) out.values[i] = pack_element<From, To>(in.values[i], scale);
    reinterpret_cast<PackVector<To, kWidth>*>(to)[v] = out;
  }
  for (std::size_t i = vectors * kWidth + thread; i < count; i += threads) {
    to[i] = pack_element<From, To>(from[i], scale);
  }
}

/// The work of GPU thread `thread` of `threads`, in block `block` of `blocks`. The blocks take chunks in turn.
template <class From, class To>
constexpr void pack_thread(const PackTable& table, PackMath<From, To> scale, unsigned block, unsigned blocks,
                           unsigned thread, unsigned threads) {
  if (table.norm != nullptr) {
    scale = static_cast<PackMath<From, To>>(norm_factor(*table.norm, static_cast<double>(scale)));
    if (scale == 1) return;
  }
  for (std::uint32_t chunk = block; chunk < table.chunks(); chunk += blocks) {
    const std::uint32_t p = table.piece_of(chunk);
    const std::size_t first = (chunk - table.first_chunk[p]) * kPackChunk;
    const std::size_t left = table.elements[p] - first;
    pack_chunk(static_cast<const From*>(table.from[p]) + first, static_cast<To*>(table.to[p]) + first,
               left < kPackChunk ? left : kPackChunk, scale, thread, threads);
  }
}

}  // namespace mn
