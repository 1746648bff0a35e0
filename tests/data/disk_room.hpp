/// How much of a disk fstatfs() calls free, in a program that links disk_room.cpp: always half of the disk.
#pragma once

namespace mn::test {

/// During the object's life, as if only `part` (0 to 1) of each disk were free.
class FreePart {
 public:
  explicit FreePart(double part);
  ~FreePart();
  FreePart(const FreePart&) = delete;
  FreePart& operator=(const FreePart&) = delete;
};

}  // namespace mn::test
