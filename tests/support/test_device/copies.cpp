// Memory, views and copies: the operators of which the device has kernels of its own.
#include <optional>
#include <utility>

#include <ATen/EmptyTensor.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/unfold_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <torch/library.h>

#include "tests/support/test_device/memory.hpp"
#include "tests/support/test_device/tensors.hpp"

namespace mn::test_device {

at::Tensor as_kernels_see(const at::Tensor& tensor) {
  const auto options = at::TensorOptions(tensor.scalar_type());
  if (tensor.numel() == 0) return at::empty_strided(tensor.sizes(), tensor.strides(), options);
  const std::size_t bytes = at::detail::computeStorageNbytes(tensor.sizes(), tensor.strides(), tensor.element_size());
  const at::Tensor seen = at::from_blob(reach(tensor.data_ptr(), bytes), tensor.sizes(), tensor.strides(), options);
  keep_wrapped_number(tensor, seen);
  return seen;
}

void keep_wrapped_number(const at::Tensor& from, const at::Tensor& to) {
  if (from.unsafeGetTensorImpl()->is_wrapped_number()) to.unsafeGetTensorImpl()->set_wrapped_number(true);
}

at::Tensor read(const at::Tensor& tensor) {
  at::Tensor to = at::empty_strided(tensor.sizes(), tensor.strides(), at::TensorOptions(tensor.scalar_type()));
  const c10::Stream stream = current_stream(tensor.device());
  enqueue(stream, "copying to the host", [to, from = as_kernels_see(tensor)] { to.copy_(from); });
  synchronize(stream);
  return to;
}

namespace {

/// A device that is asked for by type alone is the current one.
class Here {
 public:
  explicit Here(std::optional<c10::Device> device)
      : scope_(device && device->has_index() ? *device : current_device()) {}

 private:
  OnDevice scope_;
};

constexpr c10::DispatchKeySet kKeys(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::SymIntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                 std::optional<at::Device> device, std::optional<bool> /*pinned*/,
                 std::optional<at::MemoryFormat> format) {
  const Here here(device);
  return at::detail::empty_generic(C10_AS_INTARRAYREF_SLOW(size), &device_allocator(), kKeys,
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(c10::SymIntArrayRef size, c10::SymIntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                         std::optional<bool> /*pinned*/) {
  const Here here(device);
  return at::detail::empty_strided_generic(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           &device_allocator(), kKeys, c10::dtype_or_default(dtype));
}

at::Tensor as_strided(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride,
                      std::optional<c10::SymInt> offset) {
  return at::native::as_strided_tensorimpl(
      self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
      offset ? std::optional(offset->guard_int(__FILE__, __LINE__)) : std::nullopt);
}

at::Tensor view(const at::Tensor& self, c10::SymIntArrayRef size) {
  return at::native::view(self, C10_AS_INTARRAYREF_SLOW(size));
}

at::Tensor reshape_alias(const at::Tensor& self, c10::SymIntArrayRef size, c10::SymIntArrayRef stride) {
  return at::native::as_strided_tensorimpl(self, C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                                           std::nullopt);
}

at::Tensor unfold(const at::Tensor& self, std::int64_t dimension, std::int64_t size, std::int64_t step) {
  return at::native::unfold(self, dimension, size, step);
}

const at::Tensor& resize(const at::Tensor& self, c10::SymIntArrayRef size, std::optional<at::MemoryFormat> /*format*/) {
  auto* const impl = self.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(C10_AS_INTARRAYREF_SLOW(size));
  const std::size_t bytes = static_cast<std::size_t>(impl->numel()) * impl->itemsize();
  c10::StorageImpl* const storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (storage->nbytes() >= bytes) return self;
  const Here here(self.device());
  storage->set_data_ptr_noswap(device_allocator().allocate(bytes));  // what was there is lost: only results grow
  storage->set_nbytes(bytes);
  return self;
}

at::Tensor& set_tensor(at::Tensor& self, const at::Tensor& source) { return at::native::set_tensor_(self, source); }

at::Tensor& set_storage(at::Tensor& self, at::Storage storage, c10::SymInt offset, c10::SymIntArrayRef size,
                        c10::SymIntArrayRef stride) {
  auto* const impl = self.unsafeGetTensorImpl();
  impl->set_storage_keep_dtype(std::move(storage));
  impl->set_sizes_and_strides(C10_AS_INTARRAYREF_SLOW(size), C10_AS_INTARRAYREF_SLOW(stride),
                              offset.guard_int(__FILE__, __LINE__));
  return self;
}

void copy_here(const at::Tensor& from, const at::Tensor& to) {
  const c10::Stream stream = current_stream(to.device());
  const c10::Stream source = current_stream(from.device());
  c10::Event ready(kType);
  if (source != stream) {
    ready.record(source);
    ready.block(stream);
  }
  enqueue(stream, "copy", [to = as_kernels_see(to), from = as_kernels_see(from)] { to.copy_(from); });
  if (source != stream) {
    ready.record(stream);
    ready.block(source);
  }
}

/// Page-locked memory is read when the stream comes to the copy; other memory is taken at the call. As libtorch's
/// copies, one that is not non_blocking waits.
void copy_to_device(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::Stream stream = current_stream(to.device());
  const at::Tensor held = is_pinned(from.data_ptr()) ? from : from.clone();
  enqueue(stream, "copying from the host", [to = as_kernels_see(to), held] { to.copy_(held); });
  if (!non_blocking) synchronize(stream);
}

/// CUDA waits for a copy to memory that is not page-locked.
void copy_to_host(const at::Tensor& from, const at::Tensor& to, bool non_blocking) {
  const c10::Stream stream = current_stream(from.device());
  enqueue(stream, "copying to the host", [to, from = as_kernels_see(from)] { to.copy_(from); });
  if (!non_blocking || !is_pinned(to.data_ptr())) synchronize(stream);
}

at::Tensor copy_from(const at::Tensor& self, const at::Tensor& to, bool non_blocking) {
  if (self.numel() == 0) return to;
  if (is_here(self) && is_here(to)) {
    copy_here(self, to);
  } else if (is_here(to)) {
    copy_to_device(self, to, non_blocking);
  } else {
    copy_to_host(self, to, non_blocking);
  }
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor& self, const at::Tensor& to) {
  to.resize_(self.sizes());
  return copy_from(self, to, false);
}

at::Scalar local_scalar(const at::Tensor& self) { return read(self).item(); }

void record_stream(at::Tensor& self, c10::Stream stream) { record_use(self.storage().data_ptr(), stream); }

/// Module::to() puts tensors of this device into variables of the CPU's.
bool is_compatible(const at::Tensor& /*self*/, const at::Tensor& /*from*/) { return true; }

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", empty);
  library.impl("empty_strided", empty_strided);
  library.impl("as_strided", as_strided);
  library.impl("view", view);
  library.impl("_reshape_alias", reshape_alias);
  library.impl("unfold", unfold);
  library.impl("resize_", resize);
  library.impl("set_.source_Tensor", set_tensor);
  library.impl("set_.source_Storage_storage_offset", set_storage);
  library.impl("_copy_from", copy_from);
  library.impl("_copy_from_and_resize", copy_from_and_resize);
  library.impl("_local_scalar_dense", local_scalar);
  library.impl("record_stream", record_stream);
  library.impl("_has_compatible_shallow_copy_type", is_compatible);
}

}  // namespace
}  // namespace mn::test_device
