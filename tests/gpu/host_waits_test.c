/* With host_waits.so preloaded: waits are counted with their times, pass their arguments on and return what they did.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int cudaDeviceSynchronize(void);
int cudaStreamSynchronize(void* stream);
int cudaEventSynchronize(void* event);
int cudaMemcpy(void* to, const void* from, size_t bytes, int kind);
int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream);
int cudaStreamQuery(void* stream);
int cudaEventQuery(int* left);

static int failures = 0;

static void expect(int holds, const char* what) {
  if (holds) return;
  fprintf(stderr, "host_waits_test: %s\n", what);
  ++failures;
}

int main(void) {
  setenv("MN_HOST_WAITS_AGAIN_MS", "1000", 1); /* a busy machine may keep a loop from asking for longer than 10 ms */
  long long (*waits)(double*);
  *(void**)&waits = dlsym(RTLD_DEFAULT, "mn_host_waits");
  if (waits == NULL) {
    fprintf(stderr, "host_waits_test: host_waits.so is not preloaded\n");
    return 1;
  }
  int here = 0;
  double seconds = 1;
  expect(waits(&seconds) == 0 && seconds == 0, "something was counted before any wait");
  int pinned = 1, pageable = 0, device = 2, looks = 1;
  expect(cudaMemcpyAsync(&pinned, &device, 30, 2, NULL) == 32, "cudaMemcpyAsync's arguments");
  expect(cudaMemcpyAsync(&device, &pageable, 30, 1, NULL) == 31, "cudaMemcpyAsync's arguments");
  expect(cudaEventQuery(&looks) == 600, "one look at an event");
  expect(cudaStreamQuery(&here) == 0, "one look at a stream");
  expect(waits(&seconds) == 0, "what does not wait was counted");
  expect(cudaStreamSynchronize(NULL) == 0, "cudaStreamSynchronize");
  expect(waits(&seconds) == 1 && seconds >= 0.019 && seconds < 5, "a wait of 20 ms was measured wrongly");
  expect(cudaStreamSynchronize(&here) == 7, "cudaStreamSynchronize's error");
  expect(cudaEventSynchronize(&here) == 8, "cudaEventSynchronize's error");
  expect(cudaDeviceSynchronize() == 0, "cudaDeviceSynchronize");
  expect(cudaMemcpy(&here, &here, 30, 2) == 33, "cudaMemcpy's arguments");
  expect(waits(&seconds) == 5, "the number of waits is wrong");
  expect(cudaMemcpyAsync(&pageable, &device, 30, 2, NULL) == 32, "cudaMemcpyAsync");
  expect(waits(&seconds) == 6, "a copy to pageable memory was not counted");
  while (cudaStreamQuery(NULL) == 600) {
  }
  double polled = 0;
  expect(waits(&polled) == 7 && polled >= seconds + 0.005, "a loop of looks is one wait, with its time");
  looks = 1;
  while (cudaEventQuery(&looks) == 600) nanosleep(&(struct timespec){1, 200000000}, NULL);
  expect(waits(&seconds) == 7, "looks now and then were counted");
  return failures;
}
