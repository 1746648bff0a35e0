/// How much of a disk fstatfs() calls free, in a program that links disk_room.cpp: half of it, whatever lies there.
#pragma once

namespace mn::test {

/// As if only `part` (0 to 1) of each disk were free, until the end of its life.
class FreePart {
 public:
  explicit FreePart(double part);
  ~FreePart();
  FreePart(const FreePart&) = delete;
  FreePart& operator=(const FreePart&) = delete;
};

}  // namespace mn::test
