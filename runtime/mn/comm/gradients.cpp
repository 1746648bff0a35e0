// The communicator's calls for gradients.
#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/calls/call_host_copies.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/comm/device/host_copies.hpp>
#include <mn/comm/on_device.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

std::string gradient_name(std::size_t index, std::span<const std::string> names) {
  return names.empty() ? "gradient " + std::to_string(index) : names[index] + "'s gradient";
}

}  // namespace

void Communicator::check_gradients(std::span<const BufferView> gradients, std::span<const std::string> names) {
  if (!names.empty() && names.size() != gradients.size()) {
    throw ArgumentError("allreduce_grad: " + std::to_string(names.size()) + " names for " +
                        std::to_string(gradients.size()) + " gradients");
  }
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const BufferView& gradient = gradients[i];
    check_buffer("allreduce_grad", gradient_name(i, names), gradient, device_);
    if (!is_float(gradient.dtype)) {
      throw ArgumentError("allreduce_grad: " + gradient_name(i, names) + " holds " +
                          std::string(name_of(gradient.dtype)) + "; gradients are floats");
    }
    if (!calls_->debug()) continue;
    std::string found;
    on_host(host_copies_->after(gradient), gradient, {},
            [&](ConstBufferView in, BufferView) { found = first_non_finite(in); });
    if (!found.empty()) throw ArgumentError("allreduce_grad: " + gradient_name(i, names) + " has " + found);
  }
}

void Communicator::check_grad(std::span<const BufferView> gradients, double scale, std::span<const std::string> names) {
  static_cast<void>(begin_grad(gradients, scale, names));
}

CallScope Communicator::begin_grad(std::span<const BufferView> gradients, double scale,
                                   std::span<const std::string> names) {
  const auto details = [&] {
    std::string text = " of " + std::to_string(gradients.size()) + " gradients, scaled by " + std::to_string(scale);
    for (std::size_t i = 0; i < gradients.size(); ++i) text += '\n' + gradient_name(i, names) + described(gradients[i]);
    return text;
  };
  return calls_->collective(
      "allreduce_grad", counted(gradients), [&] { check_gradients(gradients, names); }, details);
}

bool Communicator::do_sum_gradients_on_device(std::span<const BufferView> gradients, double scale) {
  return on_device(gradients, [&](DeviceCollectives& device) { device.sum_gradients(gradients, scale); });
}

void Communicator::sum_gradients(std::span<const BufferView> gradients, double scale,
                                 std::span<const std::string> names) {
  const auto call = begin_grad(gradients, scale, names);
  std::size_t bytes = 0;
  std::size_t on_devices = 0;
  for (const BufferView& gradient : gradients) {
    bytes += gradient.bytes();
    on_devices += lies_on_device(gradient) ? 1 : 0;
  }
  const auto reduce = [&](std::span<const BufferView> on_host) {
    calls_->give_up_on_mismatch([&] { do_sum_gradients(on_host, scale); });
  };
  if (on_devices == 0) return reduce(gradients);
  // All ranks must make the same calls, even if only some gradients lie on a device.
  if (on_devices == gradients.size() && do_sum_gradients_on_device(gradients, scale)) return;
  HostCopies& copies = host_copies_->of_blocking_calls();
  copies.after(gradients);
  // All host copies lie in one block, with one wait before the reduction and one after the results are copied back.
  copies.reserve(bytes, gradients.size());
  std::vector<BufferView> host_gradients;
  for (const BufferView& gradient : gradients) host_gradients.push_back(copies.copy_in(gradient));
  copies.wait();
  reduce(host_gradients);
  for (std::size_t i = 0; i < gradients.size(); ++i) copies.copy_out(gradients[i], host_gradients[i]);
  copies.wait();
}

}  // namespace mn
