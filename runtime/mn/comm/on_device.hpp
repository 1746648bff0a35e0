/// Makes a call of a Communicator with the device's own collectives, if all buffers of the call lie on the device.
#pragma once

#include <algorithm>
#include <initializer_list>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/device_collectives.hpp>
#include <mn/comm/device/host_copies.hpp>

namespace mn {

/// True if all buffers lie on the device and its collectives can take them. NCCL has no 16-bit integers, so such
/// buffers go through the host.
template <class Buffers = std::initializer_list<ConstBufferView>>
[[nodiscard]] bool takes_device(const Buffers& buffers) {
  return std::ranges::all_of(buffers, [](const ConstBufferView& each) {
    return lies_on_device(each) && each.dtype != DType::kInt16 && each.dtype != DType::kUInt16;
  });
}

template <class Buffers, class Call>
bool Communicator::enqueue_on_device(const Buffers& buffers, const Call& call) {
  DeviceCollectives* const device = do_device_collectives();  // not `recorded_`: the call is already recorded
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
