/// Collectives of a device with records for the flight recorder; Communicator::device_collectives() returns them. The
/// communicator's own calls use the device's collectives directly, because they are recorded already.
///
/// Invariants:
/// 1. Enqueued calls count among the group's collective calls: their numbers are equal on all ranks.
/// 2. A call is recorded as ended once it is enqueued, a wait with the number of the last enqueued call: the others
///    wait for the rank that has not enqueued that call.
///
/// Cost: a record for each enqueued call and each wait. Calls that a CUDA graph repeats are not recorded.
#pragma once

#include <memory>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/device/device_collectives.hpp>

namespace mn {

/// Records the waits for `mark`. `calls` belong to the communicator.
[[nodiscard]] std::unique_ptr<DeviceMark> recorded(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls);
/// Records the calls of `device`, which must outlive the result.
[[nodiscard]] std::unique_ptr<DeviceCollectives> recorded(DeviceCollectives& device, std::shared_ptr<CallCheck> calls);

}  // namespace mn
