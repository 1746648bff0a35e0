#include <mn/tensor/message_form.hpp>

#include <algorithm>

#include <ATen/ops/empty.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn {

MessageForm MessageForm::of(const at::Tensor& tensor, const char* call) {
  if (!tensor.defined()) return {};
  if (tensor.dim() > static_cast<std::int64_t>(kMaxDims)) {
    throw ArgumentError(std::string(call) + ": a tensor of " + std::to_string(tensor.dim()) + " dimensions can't be " +
                        "sent, only up to " + std::to_string(kMaxDims) + ": reshape it");
  }
  MessageForm form{.dtype = static_cast<std::int64_t>(tensor.scalar_type()), .dims = tensor.dim()};
  std::ranges::copy(tensor.sizes(), form.sizes.begin());
  return form;
}

bool MessageForm::is_valid() const noexcept {
  return dtype >= 0 && dtype < static_cast<std::int64_t>(at::ScalarType::NumOptions) && dims >= 0 &&
         dims <= static_cast<std::int64_t>(kMaxDims) && std::ranges::all_of(sizes, [](auto size) { return size >= 0; });
}

at::Tensor MessageForm::empty_on(c10::Device device) const {
  return at::empty(shape(), at::TensorOptions(static_cast<at::ScalarType>(dtype)).device(device));
}

std::string MessageForm::text() const {
  if (dtype < 0) return "an undefined tensor";
  return std::string(toString(static_cast<at::ScalarType>(dtype))) + " [" + join(shape(), ",") + "]";
}

}  // namespace mn
