/* A CUDA runtime whose waits take known times. */
#include <stddef.h>
#include <time.h>

static int pause_ms(long milliseconds) {
  const struct timespec time = {0, milliseconds * 1000000};
  return nanosleep(&time, NULL);
}

int cudaDeviceSynchronize(void) { return pause_ms(3); }
int cudaStreamSynchronize(void* stream) { return stream == NULL ? pause_ms(20) : 7; }
int cudaEventSynchronize(void* event) { return event == NULL ? pause_ms(3) : 8; }
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) { return (int)bytes + kind + (to == from); }
int cudaMemcpyAsync(void) { return pause_ms(3); }
