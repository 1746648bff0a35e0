/* How long the host waits for the GPU: preloaded (LD_PRELOAD) into a program, it counts the CUDA runtime's calls that
   wait, and their time. The program reads both with mn_host_waits(). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

static _Atomic long long calls;
static _Atomic long long nanoseconds;

/* Waits so far, over all threads. */
long long mn_host_waits(double* seconds) {
  *seconds = (double)atomic_load(&nanoseconds) * 1e-9;
  return atomic_load(&calls);
}

static long long now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Of the runtime that is loaded, even where only a library sees it that Python has loaded. */
static void* next(const char* name) {
  void* found = dlsym(RTLD_NEXT, name);
  const char* const names[] = {"libcudart.so.13", "libcudart.so.12"};
  for (size_t i = 0; found == NULL && i < sizeof names / sizeof *names; ++i) {
    void* const library = dlopen(names[i], RTLD_LAZY | RTLD_NOLOAD);
    if (library != NULL) found = dlsym(library, name);
  }
  if (found == NULL) {
    fprintf(stderr, "host_waits: no library that this program has loaded has %s\n", name);
    abort();
  }
  return found;
}

static int count(long long begin, int status) {
  atomic_fetch_add(&calls, 1);
  atomic_fetch_add(&nanoseconds, now() - begin);
  return status;
}

int cudaDeviceSynchronize(void) {
  int (*original)(void);
  *(void**)&original = next("cudaDeviceSynchronize");
  const long long begin = now();
  return count(begin, original());
}

int cudaStreamSynchronize(void* stream) {
  int (*original)(void*);
  *(void**)&original = next("cudaStreamSynchronize");
  const long long begin = now();
  return count(begin, original(stream));
}

int cudaEventSynchronize(void* event) {
  int (*original)(void*);
  *(void**)&original = next("cudaEventSynchronize");
  const long long begin = now();
  return count(begin, original(event));
}

int cudaMemcpy(void* to, const void* from, size_t bytes, int kind) {
  int (*original)(void*, const void*, size_t, int);
  *(void**)&original = next("cudaMemcpy");
  const long long begin = now();
  return count(begin, original(to, from, bytes, kind));
}
