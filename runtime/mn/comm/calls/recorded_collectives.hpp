/// Wraps a device's collectives so that the flight recorder records them. Communicator::device_collectives() returns
/// the wrapper. The communicator's own calls use the device's collectives directly, because they are recorded already.
///
/// Invariants:
/// 1. Enqueued calls count among the group's collective calls: their numbers are equal on all ranks.
/// 2. The record of a call ends once the call is enqueued. The record of a wait has the number of the last enqueued
///    call. So it shows the call for which a rank waits, and a rank with a smaller count has not enqueued this call.
///
/// Cost: a record for each enqueued call and each wait. Calls that a CUDA graph repeats are not recorded.
#pragma once

#include <memory>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/device/device_collectives.hpp>

namespace mn {

/// Wraps `mark`, and records waits for it. `calls` is the communicator's CallCheck.
[[nodiscard]] std::unique_ptr<DeviceMark> recorded(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls);
/// Wraps `device`, and records its calls. `device` must outlive the result.
[[nodiscard]] std::unique_ptr<DeviceCollectives> recorded(DeviceCollectives& device, std::shared_ptr<CallCheck> calls);

}  // namespace mn
