/// A wrapper around a device's collectives that adds their calls to the flight recorder.
/// Communicator::device_collectives() returns the wrapper to the program. The communicator's own calls are recorded
/// already, so they use the device's collectives without the wrapper.
///
/// Invariants:
/// 1. Enqueued calls count among the group's collective calls, so a call has the same number on all ranks.
/// 2. The record of a call ends once the call is enqueued. The record of a wait has the number of the last call
///    enqueued before the wait. Therefore the record shows for which call a rank waits. A rank with a smaller count of
///    calls has not enqueued this call.
///
/// Cost: a record for each enqueued call and each wait. Calls that a CUDA graph repeats are not recorded.
#pragma once

#include <memory>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/device/device_collectives.hpp>

namespace mn {

/// Returns a mark whose wait() calls mark->wait(), and which adds each wait() to the flight recorder. `calls` is the
/// communicator's CallCheck.
[[nodiscard]] std::unique_ptr<DeviceMark> recorded(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls);
/// Returns collectives that call those of `device`, which must outlive them, and record each call.
[[nodiscard]] std::unique_ptr<DeviceCollectives> recorded(DeviceCollectives& device, std::shared_ptr<CallCheck> calls);

}  // namespace mn
