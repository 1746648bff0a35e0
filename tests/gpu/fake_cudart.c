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
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  return to == from || stream != NULL ? -1 : (int)bytes + kind;
}

/* 0: pageable memory, 1: page-locked memory; here memory says itself what it is. */
int cudaPointerGetAttributes(int* attributes, const int* memory) {
  attributes[0] = *memory;
  return 0;
}

/* Not ready so often. */
int cudaStreamQuery(void* stream) {
  static int left = 3;
  return stream == NULL && left-- > 0 ? pause_ms(3) + 600 : 0;
}
int cudaEventQuery(int* left) {
  const int is_ready = (*left)-- <= 0;
  return is_ready ? 0 : 600;
}
