/// Vectors that do not set new elements to zero, for memory that the program overwrites at once.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace mn {

/// An allocator like std::allocator, except that a vector's resize() does not initialize new elements.
template <class T>
struct UninitializedAllocator : std::allocator<T> {
  static_assert(std::is_trivially_default_constructible_v<T>);
  /// The C++ standard requires this member of every allocator. It names the allocator for elements of a different type.
  template <class U>
  struct rebind {
    /// An allocator of `U`.
    using other = UninitializedAllocator<U>;
  };
  UninitializedAllocator() = default;
  /// Converts from an allocator for a different type. Allocators have no state, so nothing is copied.
  template <class U>
  explicit(false) UninitializedAllocator(const UninitializedAllocator<U>&) noexcept {}

  /// Makes an element by default initialization, which does not write to its memory.
  template <class U>
  void construct(U* at) noexcept {
    ::new (static_cast<void*>(at)) U;
  }
  /// Makes an element as std::allocator does.
  template <class U, class... Args>
  void construct(U* at, Args&&... args) {
    ::new (static_cast<void*>(at)) U(std::forward<Args>(args)...);
  }
};

/// A vector of bytes into which data are read.
using ByteBuffer = std::vector<std::byte, UninitializedAllocator<std::byte>>;

}  // namespace mn
