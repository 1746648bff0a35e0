// NCCL's calls that make and end communicators.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "tests/support/stand_in_gpu/calls.hpp"
#include "tests/support/stand_in_gpu/cuda_call.hpp"
#include "tests/support/stand_in_gpu/nccl_comm.hpp"

using namespace mn::stand_in;

namespace {

bool is_blocking(const ncclConfig_t* config, bool otherwise) {
  if (config == nullptr || config->blocking == NCCL_CONFIG_UNDEF_INT) return otherwise;
  return config->blocking != 0;
}

SplitLimits last_split{NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT};

/// Where the ranks do not all come, others may still look for the segment: it then stays, and so does its name.
ncclResult_t join(ncclComm& comm, const std::string& segment) {
  const ncclResult_t code = comm.join();
  if (code == ncclSuccess) forget_segment(segment);
  return code;
}

bool has_failed(ncclResult_t code) { return code != ncclSuccess && code != ncclInProgress; }

ncclResult_t initialize(ncclComm_t* result, int size, const ncclUniqueId& id, int rank, bool blocks) {
  *result = nullptr;
  if (size < 1 || rank < 0 || rank >= size) {
    return refuse(ncclInvalidArgument, "rank " + std::to_string(rank) + " of " + std::to_string(size));
  }
  const std::string segment(id.internal, strnlen(id.internal, sizeof id.internal));
  auto comm = std::make_unique<ncclComm>(segment, rank, size, current_device(), blocks);
  const ncclResult_t code = comm->start([raw = comm.get(), segment] { return join(*raw, segment); });
  if (has_failed(code)) return refuse(code, comm->words());
  *result = comm.release();
  return code;
}

ncclResult_t split(ncclComm_t parent, int color, int key, bool blocks, ncclComm_t* result) {
  const int device = parent->device();  // an abort may destroy the parent after its part of the split
  const auto part = parent->split(color, key);
  if (!part) return color == NCCL_SPLIT_NOCOLOR ? ncclSuccess : ncclInternalError;
  auto comm = std::make_unique<ncclComm>(part->segment, part->rank, part->size, device, blocks);
  if (const ncclResult_t code = join(*comm, part->segment); code != ncclSuccess) return refuse(code, comm->words());
  *result = comm.release();
  return ncclSuccess;
}

ncclResult_t destroy(ncclComm_t comm) {
  comm->finish();
  delete comm;
  return ncclSuccess;
}

}  // namespace

SplitLimits mn::stand_in::limits_of_last_split() { return last_split; }

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (nccl_fails("ncclGetVersion")) return ncclInternalError;
  *version = shown_version();
  return ncclSuccess;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (nccl_fails("ncclGetUniqueId")) return ncclInternalError;
  *id = {};
  const std::string name = new_segment();
  if (name.empty()) return refuse(ncclSystemError, "no memory to meet in");
  name.copy(id->internal, sizeof id->internal - 1);
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  if (nccl_fails("ncclCommInitRank")) return ncclInternalError;
  return initialize(comm, size, id, rank, true);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank, ncclConfig_t* config) {
  if (nccl_fails("ncclCommInitRankConfig")) return ncclInternalError;
  return initialize(comm, size, id, rank, is_blocking(config, true));
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part, ncclConfig_t* config) {
  if (nccl_fails("ncclCommSplit")) return ncclInternalError;
  if (comm == nullptr) return refuse(ncclInvalidArgument, "CommSplit of no communicator");
  *part = nullptr;
  last_split = {NCCL_CONFIG_UNDEF_INT, NCCL_CONFIG_UNDEF_INT};
  if (config != nullptr) last_split = {config->maxCTAs, config->CTAPolicy};
  if (comm->is_busy()) return refuse(ncclInvalidUsage, "CommSplit while operations are under way");
  const bool blocks = is_blocking(config, comm->is_blocking());
  return comm->start([=] { return split(comm, color, key, blocks, part); });
}

ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  if (nccl_fails("ncclMemAlloc")) return ncclInternalError;
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

ncclResult_t ncclMemFree(void* memory) {
  if (nccl_fails("ncclMemFree")) return ncclInternalError;
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

/// A window is the address of its memory. Without STAND_IN_WINDOWS there are none, as on GPUs without NVLink.
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window, int /*flags*/) {
  if (nccl_fails("ncclCommWindowRegister")) return ncclInternalError;
  if (comm == nullptr || bytes % 4096 != 0) return refuse(ncclInvalidArgument, "WindowRegister of a wrong size");
  const char* const makes_windows = std::getenv("STAND_IN_WINDOWS");
  *window = makes_windows != nullptr ? static_cast<ncclWindow_t>(memory) : nullptr;
  return ncclSuccess;
}

ncclResult_t ncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window) {
  if (nccl_fails("ncclCommWindowDeregister")) return ncclInternalError;
  return comm == nullptr || window == nullptr ? ncclInvalidArgument : ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (nccl_fails("ncclCommDestroy")) return ncclInternalError;
  return comm == nullptr ? ncclSuccess : destroy(comm);
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (nccl_fails("ncclCommAbort")) return ncclInternalError;
  if (comm == nullptr) return ncclSuccess;
  comm->abort();
  return destroy(comm);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (nccl_fails("ncclCommGetAsyncError")) return ncclInternalError;
  if (comm == nullptr) return refuse(ncclInvalidArgument, "CommGetAsyncError of no communicator");
  *state = comm->error();
  return ncclSuccess;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  if (nccl_fails("ncclCommCount")) return ncclInternalError;
  *count = comm->size();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  if (nccl_fails("ncclCommUserRank")) return ncclInternalError;
  *rank = comm->rank();
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t comm) {
  static thread_local std::string words;
  words = comm != nullptr ? comm->words() : "";
  if (words.empty()) words = last_words();
  return words.c_str();
}

}  // extern "C"
