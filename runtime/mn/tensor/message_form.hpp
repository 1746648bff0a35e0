/// The form of a tensor (dtype and shape), as ranks send it to each other: a fixed number of integers, and no text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>

namespace mn {

struct MessageForm {
  static constexpr std::size_t kMaxDims = 16;

  std::int64_t dtype = -1;  ///< at::ScalarType; -1: an undefined tensor
  std::int64_t dims = 0;
  std::array<std::int64_t, kMaxDims> sizes = {};  ///< [dims], then zeros
  std::int64_t by_device = 0;                     ///< 1: the device's own collectives can move the elements
  std::int64_t number = 0;                        ///< number of the message with the elements, if the device moves it

  /// The tensor may be undefined. Throws an ArgumentError that begins with `call` for more than kMaxDims dimensions.
  [[nodiscard]] static MessageForm of(const at::Tensor& tensor, const char* call);
  /// True if the numbers, which another process has sent, describe a tensor.
  [[nodiscard]] bool is_valid() const noexcept;
  [[nodiscard]] bool same_as(const MessageForm& other) const noexcept {
    return dtype == other.dtype && dims == other.dims && sizes == other.sizes;
  }
  [[nodiscard]] std::vector<std::int64_t> shape() const { return {sizes.begin(), sizes.begin() + dims}; }
  /// The elements of the new tensor are not set.
  [[nodiscard]] at::Tensor empty_on(c10::Device device) const;
  /// For example "Float [3,4]".
  [[nodiscard]] std::string text() const;

  /// The integers of a form, or of a list of forms, as a buffer for calls of a Communicator.
  /// @{
  [[nodiscard]] static std::span<std::int64_t> numbers(MessageForm& form) noexcept { return numbers({&form, 1}); }
  [[nodiscard]] static std::span<std::int64_t> numbers(std::span<MessageForm> forms) noexcept {
    return {reinterpret_cast<std::int64_t*>(forms.data()), forms.size_bytes() / sizeof(std::int64_t)};
  }
  /// @}
};
static_assert(sizeof(MessageForm) == (MessageForm::kMaxDims + 4) * sizeof(std::int64_t));

}  // namespace mn
