/// Lets a program note the bad end of a job in its own files.
#pragma once

#include <functional>
#include <string>

namespace mn {

/// Sets the function that notes a bad end of the job in files. An exception, a lost rank, a hang, and exit() before
/// main has returned are bad ends; a fatal signal makes no note. The rank that reports the end calls write(why) once,
/// on any thread. Its process ends at most four seconds later. Replaces the earlier function.
void set_end_note(std::function<void(const std::string& why)> write);

/// Calls the function of set_end_note(), if there is one, and then forgets it. Ignores its exceptions.
void write_end_note(const std::string& why) noexcept;

}  // namespace mn
