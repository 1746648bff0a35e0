/// The calls in which the host waits for a GPU, for who counts them.
///
/// A call counts where it would wait on a GPU, however soon the work is done here. A loop of queries counts once.
#pragma once

namespace mn::stand_in {

/// Called on the thread that waits, before it does, with the name of the call of CUDA. Null: nobody listens.
using WaitObserver = void (*)(const char* call);
void observe_waits(WaitObserver observer);

void tell_wait(const char* call);
/// A query of a stream or an event. It counts unless this thread's last call of CUDA was the same query.
void tell_query(const char* call, const void* of);
/// This thread makes another call than a query.
void end_queries();

}  // namespace mn::stand_in
