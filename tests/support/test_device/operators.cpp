// The operators that the test device has itself: memory, views and copies. All others run late (late_operator.hpp).
#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/native/TensorFactories.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include "tests/support/stand_in_gpu/memory.hpp"
#include "tests/support/test_device/late_operator.hpp"
#include "tests/support/test_device/memory.hpp"
#include "tests/support/test_device/streams.hpp"

namespace mn::test_device {
namespace {

using torch::jit::Stack;

const c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::SymIntArrayRef sizes, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> device, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  const OnDevice guard(with_index(device.value_or(c10::Device(kType))).index());
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(sizes), &device_allocator(), kKeys,
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                         std::optional<bool> /*pinned*/) {
  const OnDevice guard(with_index(device.value_or(c10::Device(kType))).index());
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           &device_allocator(), kKeys, c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides,
                      std::optional<c10::SymInt> offset) {
  const auto from = offset ? std::optional(offset->guard_int(__FILE__, __LINE__)) : std::nullopt;
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                                           from);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef sizes) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(sizes));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef sizes, c10::SymIntArrayRef strides) {
  return as_strided(self, sizes, strides, std::nullopt);
}

at::Tensor& set_source(at::Tensor& self, const at::Tensor& source) { return at::native::set_tensor_(self, source); }

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef sizes,
                        c10::SymIntArrayRef strides) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(sizes), C10_AS_INTARRAYREF_SLOW(strides),
                              offset.guard_int(__FILE__, __LINE__));
  return self;
}

/// Memory that grows keeps its bytes.
const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef sizes,
                         std::optional<at::MemoryFormat> /*format*/) {
  c10::TensorImpl* const impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(sizes));
  const std::size_t bytes =
      static_cast<std::size_t>(impl->numel() + impl->storage_offset()) * static_cast<std::size_t>(impl->itemsize());
  c10::StorageImpl* const storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage->nbytes() >= bytes) return self;
  const OnDevice guard(self.get_device());
  at::DataPtr grown = device_allocator().allocate(bytes);
  check(cudaMemcpyAsync(grown.get(), storage->data(), storage->nbytes(), cudaMemcpyDeviceToDevice,
                        handle_of(current_stream(self.device()))),
        "cudaMemcpyAsync");
  static_cast<void>(storage->set_data_ptr(std::move(grown)));
  storage->set_nbytes(bytes);
  return self;
}

void record(at::Tensor& self, c10::Stream stream) { record_stream(self.storage().data_ptr(), stream); }

/// libtorch may give a CPU tensor's variable memory of the device: Module::to() does.
bool has_compatible_type(const at::Tensor& /*self*/, const at::Tensor& /*other*/) { return true; }

/// Bytes between host and device, on the device's current stream. Blocks as libtorch's copies do on a GPU: unless
/// `non_blocking` and the host's memory is page-locked.
void copy_bytes(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const bool to_host = !is_ours(to);
  const at::Tensor& host = to_host ? to : from;
  const c10::Device device = to_host ? from.device() : to.device();
  const c10::Stream stream = current_stream(device);
  const OnDevice guard(device.index());
  check(cudaMemcpyAsync(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes(),
                        to_host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, handle_of(stream)),
        "cudaMemcpyAsync");
  if (!is_pinned(host.const_data_ptr())) return;  // CUDA has waited, or has taken the bytes
  record_stream(host.storage().data_ptr(), stream);
  if (!non_blocking) check(cudaStreamSynchronize(handle_of(stream)), "cudaStreamSynchronize");
}

void copy_on_device(const at::Tensor& from, const at::Tensor& to) {
  TORCH_CHECK(from.device() == to.device(), "test device: a copy from ", from.device(), " to ", to.device());
  launch(to.device(), [from = on_device(from), to = on_device(to)] { to.copy_(from); });
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  if (to.numel() == 0) return to;
  if (is_ours(self) && is_ours(to)) {
    copy_on_device(self, to);
  } else if (is_ours(to)) {
    const at::Tensor from = self.to(to.scalar_type()).expand_as(to).contiguous();
    const at::Tensor there = to.is_contiguous() ? to : at::empty(to.sizes(), to.options());
    copy_bytes(from, there, non_blocking);
    if (!there.is_same(to)) copy_on_device(there, to);
  } else {
    const at::Tensor from = at::empty(to.sizes(), self.options().dtype(to.scalar_type()));
    copy_on_device(self, from);
    const at::Tensor here = to.is_contiguous() ? to : at::empty(to.sizes(), to.options());
    copy_bytes(from, here, non_blocking);
    if (!here.is_same(to)) to.copy_(here);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar item(const at::Tensor& self) {
  const at::Tensor here = at::empty({}, self.options().device(c10::kCPU));
  copy_bytes(self, here, false);
  return here.item();
}

c10::OperatorHandle find(const char* name) { return c10::Dispatcher::singleton().findSchemaOrThrow(name, ""); }

/// libtorch asks backends that it does not know for these two by names of their own.
void convolution(const c10::OperatorHandle& /*op*/, Stack* stack) { run_late(find("aten::convolution"), stack); }

void convolution_backward(const c10::OperatorHandle& /*op*/, Stack* stack) {
  const at::Tensor weight = stack->at(stack->size() - 8).toTensor();
  const bool is_transposed = stack->at(stack->size() - 4).toBool();
  const std::int64_t groups = stack->at(stack->size() - 2).toInt();
  const c10::List<std::int64_t> bias_sizes({is_transposed ? weight.size(1) * groups : weight.size(0)});
  stack->insert(stack->end() - 7, c10::IValue(bias_sizes));
  run_late(find("aten::convolution_backward"), stack);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) { m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_late>()); }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", empty);
  m.impl("empty_strided", empty_strided);
  m.impl("as_strided", as_strided);
  m.impl("view", view);
  m.impl("_reshape_alias", reshape_alias);
  m.impl("set_.source_Tensor", set_source);
  m.impl("set_.source_Storage_storage_offset", set_storage);
  m.impl("resize_", resize);
  m.impl("record_stream", record);
  m.impl("_has_compatible_shallow_copy_type", has_compatible_type);
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
  m.impl("_local_scalar_dense", item);
  m.impl("convolution_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution>());
  m.impl("convolution_backward_overrideable", torch::CppFunction::makeFromBoxedFunction<&convolution_backward>());
}

}  // namespace
}  // namespace mn::test_device
