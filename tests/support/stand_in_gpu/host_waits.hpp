/// The calls in which the host waits for a GPU, for who counts them.
///
/// A call counts where it would wait on a GPU, however soon the work is done here. A loop of queries counts once. To look
/// at an event now and then does not count: libtorch's allocators do so, and mn where it watches NCCL or asks for times.
#pragma once

namespace mn::stand_in {

/// Called on the thread that waits, before it does, with the name of the call of CUDA. Null: nobody listens.
using WaitObserver = void (*)(const char* call);
void observe_waits(WaitObserver observer);

void tell_wait(const char* call);
/// A query of a stream or an event. It counts once until this thread makes another call of CUDA: the first time if
/// `is_wait`, else when it is asked again within 10 ms.
void tell_query(const char* call, const void* of, bool is_wait);
/// This thread makes another call than a query.
void end_queries();

}  // namespace mn::stand_in
