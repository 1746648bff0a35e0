// Preloaded into mnlaunch on one node, where tests want it to meet a fault: MN_TEST_CLOCK shifts the clock by seconds,
// MN_TEST_BLOCK makes connections to other hosts time out.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec* time) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) real = (int (*)(clockid_t, struct timespec*))dlsym(RTLD_NEXT, "clock_gettime");
  const int status = real(clock, time);
  const char* shift = getenv("MN_TEST_CLOCK");
  if (clock == CLOCK_REALTIME && shift != NULL) time->tv_sec += atoi(shift);
  return status;
}

int connect(int fd, const struct sockaddr* address, socklen_t length) {
  static int (*real)(int, const struct sockaddr*, socklen_t);
  if (real == NULL) real = (int (*)(int, const struct sockaddr*, socklen_t))dlsym(RTLD_NEXT, "connect");
  if (getenv("MN_TEST_BLOCK") != NULL && address->sa_family == AF_INET) {
    struct sockaddr_in to;
    memcpy(&to, address, sizeof to);
    if (ntohl(to.sin_addr.s_addr) >> 24 != 127) {
      errno = ETIMEDOUT;
      return -1;
    }
  }
  return real(fd, address, length);
}
