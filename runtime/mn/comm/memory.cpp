// Memory from the communicator.
#include <algorithm>
#include <cstring>
#include <new>

#include <mn/comm/call_check.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/cuda.hpp>
#include <mn/comm/shared_reducer.hpp>

namespace mn {
namespace {

std::shared_ptr<std::byte> zeroed(std::size_t bytes) {
  constexpr std::align_val_t kAlignment{64};
  auto* memory = static_cast<std::byte*>(operator new(std::max<std::size_t>(bytes, 1), kAlignment));
  std::memset(memory, 0, bytes);
  return {memory, [](std::byte* old) { operator delete(old, kAlignment); }};
}

std::shared_ptr<std::byte> zeroed_pinned(std::size_t bytes, int device) {
  cuda_set_device(device);
  std::shared_ptr<std::byte> memory = cuda_allocate_pinned(std::max<std::size_t>(bytes, 1));
  std::memset(memory.get(), 0, bytes);
  return memory;
}

}  // namespace

std::shared_ptr<std::byte> Communicator::allocate(std::size_t bytes) {
  calls_->collective("allocate", nothing, [&] { return " of " + std::to_string(bytes) + " bytes"; });
  if (auto memory = do_allocate(bytes)) return memory;
  return device_.type == DeviceType::kCuda ? zeroed_pinned(bytes, device_.index) : zeroed(bytes);
}

std::unique_ptr<SharedReducer> Communicator::share(std::span<const BufferView> buffers) {
  calls_->collective("share", nothing, [&] { return " of " + std::to_string(buffers.size()) + " buffers"; });
  return do_share(buffers);
}

std::shared_ptr<std::byte> Communicator::do_allocate(std::size_t /*bytes*/) { return nullptr; }

std::unique_ptr<SharedReducer> Communicator::do_share(std::span<const BufferView> /*buffers*/) { return nullptr; }

}  // namespace mn
