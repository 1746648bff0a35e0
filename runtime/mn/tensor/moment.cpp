#include <mn/tensor/moment.hpp>

#include <c10/core/impl/VirtualGuardImpl.h>

#include <mn/tensor/tensor.hpp>

namespace mn {

Moment Moment::now(Device device) {
  Moment moment;
  moment.on_host_ = std::chrono::steady_clock::now();
  if (device.type == DeviceType::kCpu) return moment;
  const c10::Stream stream = current_stream(device);
  moment.on_device_ =
      std::make_shared<c10::Event>(stream.device_type(), c10::EventFlag::BACKEND_DEFAULT);  // events with times
  moment.on_device_->record(stream);
  return moment;
}

double Moment::seconds_since(const Moment& earlier) const {
  if (!on_device_) return std::chrono::duration<double>(on_host_ - earlier.on_host_).count();
  on_device_->synchronize();
  return earlier.on_device_->elapsedTime(*on_device_) * 1e-3;
}

}  // namespace mn
