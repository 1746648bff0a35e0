/// The GPU errors in the kernel's log (XIDs of NVIDIA's driver) that mean broken hardware, not broken programs.
#pragma once

#include <string_view>

namespace mn::launcher {

/// The advice is "isolate" (leave the node out until it is repaired), "reboot", "reset" (the GPU), or "watch". NVIDIA's
/// list says what is broken; mn isolates worn out parts, and reboots if a reset does not help.
struct XidAdvice {
  int xid;
  std::string_view advice;
};

inline constexpr XidAdvice kXidAdvice[] = {
    {48, "reset"},    // uncorrectable error of memory
    {62, "reset"},    // internal controller halted
    {64, "isolate"},  // memory rows or pages cannot be replaced
    {74, "reset"},    // NVLink
    {79, "reboot"},   // fallen off the bus
    {92, "isolate"},  // many corrected errors of memory
    {95, "reset"},    // uncontained error of memory
    {119, "reset"},   // GSP does not answer
    {120, "reset"},   // GSP failed
    {140, "reset"},   // uncorrected error of memory
};

/// The advice for the error `xid`; empty if the table does not have it.
[[nodiscard]] constexpr std::string_view advice_on(int xid) {
  for (const auto& row : kXidAdvice) {
    if (row.xid == xid) return row.advice;
  }
  return "";
}

}  // namespace mn::launcher
