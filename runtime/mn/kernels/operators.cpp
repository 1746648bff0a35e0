#include <mn/kernels/operators.hpp>

#include <string>

#include <torch/library.h>

#include <mn/core/classic_stream.hpp>
#include <mn/core/error.hpp>
#include <mn/tensor/native_stream.hpp>
#include <mn/tensor/scalar_type.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn::kernels {

void register_operators() {
  // Operators are registered at the first call, not before main(), because a linker leaves out an object of a static
  // library that nothing calls. FRAGMENT, because mn::nn registers further operators of the namespace.
  static torch::Library library(torch::Library::FRAGMENT, "mn", std::nullopt, __FILE__, __LINE__);
  static const bool is_registered = [] {
    library.def(
        "token_loss(Tensor(a!) logits, Tensor targets, Tensor? weights, int ignore_index, float smoothing, "
        "float z_loss, bool mean, bool gradient) -> (Tensor, Tensor)");
    library.def("scale_rows(Tensor(a!) data, Tensor factors) -> ()");
    library.def(
        "norm_forward(Tensor x, Tensor? branch, Tensor weight, Tensor? bias, float eps, bool centered, "
        "ScalarType type) -> (Tensor, Tensor, Tensor)");
    library.def(
        "norm_backward(Tensor d_normalized, Tensor? d_sum, Tensor sum, Tensor statistics, Tensor weight, "
        "bool centered, bool with_branch) -> (Tensor, Tensor, Tensor)");
    library.def("batch_norm_forward(Tensor x, Tensor? added, Tensor[] channels, bool relu) -> Tensor");
    library.def("batch_norm_sums(Tensor dy, Tensor x, Tensor? mask, Tensor[] channels, bool relu) -> (Tensor, Tensor)");
    library.def(
        "batch_norm_backward(Tensor dy, Tensor x, Tensor[] channels, Tensor? sums, float count, bool relu) -> Tensor");
    library.def("gelu_backward(Tensor d_y, Tensor x) -> (Tensor, Tensor)");
    for (const c10::DispatchKey key : {c10::DispatchKey::CPU, c10::DispatchKey::CUDA}) {
      library.impl("token_loss", torch::dispatch(key, TORCH_FN(token_loss_operator)));
      library.impl("scale_rows", torch::dispatch(key, TORCH_FN(scale_rows_operator)));
      library.impl("norm_forward", torch::dispatch(key, TORCH_FN(norm_forward_operator)));
      library.impl("norm_backward", torch::dispatch(key, TORCH_FN(norm_backward_operator)));
      library.impl("batch_norm_forward", torch::dispatch(key, TORCH_FN(batch_norm_forward_operator)));
      library.impl("batch_norm_sums", torch::dispatch(key, TORCH_FN(batch_norm_sums_operator)));
      library.impl("batch_norm_backward", torch::dispatch(key, TORCH_FN(batch_norm_backward_operator)));
      library.impl("gelu_backward", torch::dispatch(key, TORCH_FN(gelu_backward_operator)));
    }
    return true;
  }();
  static_cast<void>(is_registered);
}

DType float_dtype(const at::Tensor& tensor, const char* operation) {
  if (const auto dtype = float_type(tensor.scalar_type())) return *dtype;
  throw ArgumentError(std::string(operation) + " takes float32, bfloat16, float16 and float64, not " +
                      c10::toString(tensor.scalar_type()));
}

at::ScalarType real_type(at::ScalarType type) { return type == at::kDouble ? at::kDouble : at::kFloat; }

std::string text_of(const at::Tensor& tensor) {
  OutText text;
  text << tensor.sizes() << " of " << tensor.scalar_type() << " on " << tensor.device();
  return text.str();
}

void* stream_of(const at::Tensor& tensor) {
  return native_stream(current_stream(Device{DeviceType::kCuda, tensor.get_device()}));
}

const void* data_of(const std::optional<at::Tensor>& tensor) { return tensor ? tensor->const_data_ptr() : nullptr; }

}  // namespace mn::kernels
