/// How Communicator makes a call with the device's own collectives. All buffers of the call must lie on the device.
#pragma once

#include <algorithm>
#include <initializer_list>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/comm/device/host_copies.hpp>

namespace mn {

/// Whether a device's collectives can take the buffers. False for 16-bit integers: NCCL does not have them, and their
/// buffers go through the host.
template <class Buffers = std::initializer_list<ConstBufferView>>
[[nodiscard]] bool takes_device(const Buffers& buffers) {
  return std::ranges::all_of(buffers, [](const ConstBufferView& each) {
    return lies_on_device(each) && each.dtype != DType::kInt16 && each.dtype != DType::kUInt16;
  });
}

template <class Buffers, class Call>
bool Communicator::enqueue_on_device(const Buffers& buffers, const Call& call) {
  DeviceCollectives* const device = do_device_collectives();  // not recorded_: the call is recorded already
  if (device == nullptr || !takes_device(buffers)) return false;
  for_each_stream(buffers, [&](void* stream) { device->after(stream); });
  call(*device);
  return true;
}

template <class Buffers, class Call>
bool Communicator::on_device(const Buffers& buffers, const Call& call) {
  if (!enqueue_on_device(buffers, call)) return false;
  do_device_collectives()->wait();
  return true;
}

}  // namespace mn
