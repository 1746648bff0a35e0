// A library with an operator that libtorch does not have, for --operators.
#include <ATen/ATen.h>
#include <torch/library.h>

TORCH_LIBRARY(mn_example, library) {
  library.def("scaled(Tensor x, float by) -> Tensor", [](const at::Tensor& x, double by) { return x * by; });
}
