#include <mn/tensor/multi_tensor.hpp>

#include <map>
#include <utility>

#include <ATen/TensorOperators.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/where.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/comm/device/pack.hpp>
#include <mn/tensor/factor.hpp>
#include <mn/tensor/native_stream.hpp>
#include <mn/tensor/scalar_type.hpp>

namespace mn {
namespace {

/// True if the elements of both tensors lie in the same order, without gaps.
bool same_order(const at::Tensor& a, const at::Tensor& b) {
  if (a.scalar_type() != b.scalar_type() || !a.is_non_overlapping_and_dense()) return false;
  for (std::int64_t d = 0; d < a.dim(); ++d) {
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;  // the stride of one element means nothing
  }
  return true;
}

void* stream_of(const at::Tensor& tensor) {
  return native_stream(c10::impl::VirtualGuardImpl(tensor.device().type()).getStream(tensor.device()));
}

PackPiece piece_of(const at::Tensor& from, const at::Tensor& to) {
  return {from.const_data_ptr(), to.mutable_data_ptr(), static_cast<std::size_t>(to.numel())};
}

}  // namespace

void copy_on_device(std::span<const TensorCopy> copies) {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView no_versions;
  std::map<std::pair<DType, double>, std::vector<PackPiece>> pieces;
  for (const auto& [from, to, factor] : copies) {
    const auto dtype = float_type(to.scalar_type());
    if (dtype && same_order(from, to)) {
      pieces[{*dtype, factor}].push_back(piece_of(from, to));
      continue;
    }
    to.copy_(from);
    if (factor != 1) to.mul_(exact_factor(factor));
  }
  for (const auto& [kind, some] : pieces) {
    pack_on_device(some, kind.first, kind.first, kind.second, stream_of(copies.front().to));
  }
}

void limit_norm(const std::vector<at::Tensor>& tensors, const at::Tensor& norm, double max_norm) {
  const at::NoGradGuard no_grad;
  const at::AutoDispatchBelowADInplaceOrView no_versions;
  std::map<DType, std::vector<PackPiece>> pieces;
  for (const at::Tensor& tensor : tensors) {
    const auto dtype = float_type(tensor.scalar_type());
    if (dtype && tensor.is_non_overlapping_and_dense()) {
      pieces[*dtype].push_back(piece_of(tensor, tensor));
      continue;
    }
    const at::Tensor factor = max_norm / norm;
    tensor.mul_(at::where((factor < 1).logical_and(factor > 0), factor, 1.0));
  }
  for (const auto& [dtype, some] : pieces) {
    limit_norm_on_device(some, dtype, norm.const_data_ptr<double>(), max_norm, stream_of(norm));
  }
}

}  // namespace mn
