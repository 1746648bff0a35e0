// Stands in for libnvidia-ml.so.1. MN_FAKE_GPUS is the number of GPUs (default 2); MN_FAKE_DRIVER the driver's version;
// GPU 1 cannot be opened if MN_FAKE_FORBIDDEN is set; with MN_FAKE_DEVICES=/run/gpu there is no GPU N if a control
// group forbids /run/gpuN; MN_FAKE_MIG cuts GPU 0 in two; MN_FAKE_ILL makes GPU 1 ill;
// MN_FAKE_PROCESS is the id of a process on GPU 0; with MN_FAKE_HANG the driver does not answer.
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include <fcntl.h>
#include <unistd.h>

namespace {

constexpr int kOk = 0;
constexpr int kNoPermission = 4;
constexpr int kNotFound = 6;

std::uintptr_t number(void* device) { return reinterpret_cast<std::uintptr_t>(device) - 1; }
void* device(std::uintptr_t index) { return reinterpret_cast<void*>(index + 1); }
constexpr std::uintptr_t kSlice = 100;  // devices from here on are instances of GPU 0

bool is_ill(void* device) { return number(device) == 1 && std::getenv("MN_FAKE_ILL") != nullptr; }

bool is_forbidden(unsigned index) {
  const char* devices = std::getenv("MN_FAKE_DEVICES");
  if (devices == nullptr) return index == 1 && std::getenv("MN_FAKE_FORBIDDEN") != nullptr;
  const int file = open((devices + std::to_string(index)).c_str(), O_RDWR | O_CLOEXEC);
  if (file >= 0) close(file);
  return file < 0 && errno == EPERM;
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
  while (std::getenv("MN_FAKE_HANG") != nullptr) pause();
  return kOk;
}
int nvmlShutdown() { return kOk; }
int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  const char* version = std::getenv("MN_FAKE_DRIVER");
  std::snprintf(text, length, "%s", version == nullptr ? "580.95.05" : version);
  return kOk;
}
int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = 13000;
  return kOk;
}
int nvmlDeviceGetCount_v2(unsigned* count) {
  const char* text = std::getenv("MN_FAKE_GPUS");
  *count = text == nullptr ? 2 : static_cast<unsigned>(std::atoi(text));
  return kOk;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** handle) {
  if (is_forbidden(index)) return kNoPermission;
  *handle = device(index);
  return kOk;
}
int nvmlDeviceGetUUID(void* handle, char* text, unsigned length) {
  const auto n = number(handle);
  std::snprintf(text, length, n >= kSlice ? "MIG-0000%zu" : "GPU-abc%zu", static_cast<std::size_t>(n % kSlice));
  return kOk;
}
int nvmlDeviceGetName(void*, char* text, unsigned length) {
  std::snprintf(text, length, "NVIDIA Test");
  return kOk;
}
int nvmlDeviceGetPciInfo_v3(void* handle, void* info) {
  char* text = static_cast<char*>(info);
  std::memset(text, 0, 68);
  std::snprintf(text + 36, 32, "00000000:%02zX:00.0", static_cast<std::size_t>(0x3b + number(handle)));
  return kOk;
}
int nvmlDeviceGetMemoryInfo(void*, unsigned long long* memory) {
  memory[0] = 80ULL << 30;
  return kOk;
}
int nvmlDeviceGetComputeRunningProcesses_v3(void* handle, unsigned* count, unsigned* list) {
  const char* process = std::getenv("MN_FAKE_PROCESS");
  *count = process != nullptr && number(handle) == 0 ? 1 : 0;
  if (*count == 1) list[0] = static_cast<unsigned>(std::atoi(process));
  return kOk;
}
int nvmlDeviceGetComputeMode(void*, int* mode) {
  *mode = 0;
  return kOk;
}
int nvmlDeviceGetCudaComputeCapability(void*, int* major, int* minor) {
  *major = 9;
  *minor = 0;
  return kOk;
}
int nvmlDeviceGetEccMode(void*, int* current, int* pending) {
  *current = *pending = 1;
  return kOk;
}
int nvmlDeviceGetEnforcedPowerLimit(void*, unsigned* milliwatts) {
  *milliwatts = 700'000;
  return kOk;
}
int nvmlDeviceGetMigMode(void* handle, unsigned* current, unsigned* pending) {
  *current = *pending = number(handle) == 0 && std::getenv("MN_FAKE_MIG") != nullptr ? 1 : 0;
  return kOk;
}
int nvmlDeviceGetMaxMigDeviceCount(void*, unsigned* count) {
  *count = 7;
  return kOk;
}
int nvmlDeviceGetMigDeviceHandleByIndex(void*, unsigned index, void** handle) {
  *handle = device(kSlice + index);
  return index < 2 ? kOk : kNotFound;
}
int nvmlDeviceGetNvLinkState(void* handle, unsigned link, unsigned* is_up) {
  *is_up = is_ill(handle) && link == 3 ? 0 : 1;
  return link < 12 ? kOk : kNotFound;
}
int nvmlDeviceGetNvLinkErrorCounter(void* handle, unsigned, int counter, unsigned long long* count) {
  *count = is_ill(handle) || counter != 1 ? 2 : 0;
  return kOk;
}
int nvmlDeviceGetGpuFabricInfo(void* handle, void* info) {
  std::memset(info, 0, 28);
  static_cast<unsigned char*>(info)[24] = is_ill(handle) ? 2 : 3;  // the state: in progress, completed
  return kOk;
}
int nvmlDeviceGetTotalEccErrors(void* handle, int kind, int counter, unsigned long long* count) {
  *count = is_ill(handle) || kind != 1 || counter != 0 ? 5 : 0;
  return kOk;
}
int nvmlDeviceGetRetiredPagesPendingStatus(void* handle, unsigned* pending) {
  *pending = is_ill(handle) ? 1 : 0;
  return kOk;
}
int nvmlDeviceGetRemappedRows(void* handle, unsigned*, unsigned*, unsigned* pending, unsigned* failed) {
  *pending = 0;
  *failed = is_ill(handle) ? 1 : 0;
  return kOk;
}
int nvmlDeviceGetPersistenceMode(void* handle, unsigned* mode) {
  *mode = is_ill(handle) ? 0 : 1;
  return kOk;
}
int nvmlDeviceGetApplicationsClock(void* handle, int clock, unsigned* mhz) {
  *mhz = is_ill(handle) || clock != 1 ? 345 : 1980;
  return kOk;
}
}
