/// A wrapper around a device's collectives that adds their calls to the flight recorder.
/// Communicator::device_collectives() returns the wrapper to the program. The communicator's own calls are recorded
/// already, so they use the device's collectives without the wrapper.
///
/// Invariants:
/// 1. Enqueued calls count among the group's collective calls, so a call has the same number on all ranks.
/// 2. The record of a call ends once the call is enqueued. The record of a wait has the number of the last call
///    enqueued before the wait, so it shows for which call the rank waits. A rank with a smaller count of calls has not
///    enqueued that call.
///
/// Cost: a record for each enqueued call and each wait. Calls that a CUDA graph repeats are not recorded.
#pragma once

#include <memory>

#include <mn/comm/calls/call_check.hpp>
#include <mn/comm/device/device_collectives.hpp>

namespace mn {

/// Returns a mark that calls mark->wait() and records each wait().
[[nodiscard]] std::unique_ptr<DeviceMark> recorded(std::unique_ptr<DeviceMark> mark, std::shared_ptr<CallCheck> calls);
/// Returns collectives that call those of `device` and record each call. `device` must outlive them.
[[nodiscard]] std::unique_ptr<DeviceCollectives> recorded(DeviceCollectives& device, std::shared_ptr<CallCheck> calls);

}  // namespace mn
