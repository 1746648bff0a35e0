#include <mn/checkpoint/weights_reader.hpp>

#include <ATen/ops/empty.h>

namespace mn {

at::Tensor WeightsReader::read(std::size_t i) const {
  const at::Tensor& form = i < tensors.size() ? tensors[i].second : averages[i - tensors.size()].second;
  at::Tensor tensor = at::empty(form.sizes(), form.options().device(at::kCPU));
  read_bytes(i, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
  return tensor;
}

}  // namespace mn
