/* How long the host waits for the GPU: preloaded (LD_PRELOAD) into a program, it counts the CUDA runtime's calls that
   wait, and their time. A thread that asks again and again whether a stream or an event is done waits as well; one that
   asks now and then (libtorch's allocators, mn's watch of NCCL) does not. So does a copy to memory that is not
   page-locked. The program reads both with mn_host_waits(). */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { kNotReady = 600, kUnregistered = 0, kToHost = 2, kDefault = 4 };
/* Nanoseconds: who asks again within them waits. */
static long long again(void) {
  const char* const set = getenv("MN_HOST_WAITS_AGAIN_MS");
  return (set == NULL ? 10 : atoll(set)) * 1000000LL;
}

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

/* What this thread last asked for and was not done, since when, and whether that counts already. */
static _Thread_local struct {
  void* of;
  long long since, last;
  int counted;
} asked;

static int look(void* of, int status) {
  const long long time = now();
  if (asked.of != of || time - asked.last > again()) {
    asked.of = status == kNotReady ? of : NULL;
    asked.since = time;
    asked.counted = 0;
  } else if (!asked.counted) {
    asked.counted = 1;
    count(asked.since, status);
  } else {
    atomic_fetch_add(&nanoseconds, time - asked.last);
  }
  asked.last = time;
  if (status != kNotReady) asked.of = NULL;
  return status;
}

int cudaStreamQuery(void* stream) {
  int (*original)(void*);
  *(void**)&original = next("cudaStreamQuery");
  const int status = original(stream);
  return look((char*)stream + 1, status); /* the default stream is null */
}

int cudaEventQuery(void* event) {
  int (*original)(void*);
  *(void**)&original = next("cudaEventQuery");
  return look(event, original(event));
}

static int is_pageable(const void* memory) {
  struct {
    int type, device;
    char more[120]; /* as long as any version's */
  } attributes = {.type = -1};
  int (*original)(void*, const void*);
  *(void**)&original = next("cudaPointerGetAttributes");
  return original(&attributes, memory) == 0 && attributes.type == kUnregistered;
}

int cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  int (*original)(void*, const void*, size_t, int, void*);
  *(void**)&original = next("cudaMemcpyAsync");
  const int waits = (kind == kToHost || kind == kDefault) && is_pageable(to);
  const long long begin = now();
  const int status = original(to, from, bytes, kind, stream);
  return waits ? count(begin, status) : status;
}
