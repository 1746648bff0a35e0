/// Lets a program note the bad end of a job in its own files.
#pragma once

#include <functional>
#include <string>

namespace mn {

/// Sets the function that notes a bad end of the job in files. Bad ends are an exception, a lost rank, a hang, and
/// exit() before main has returned; fatal signals make no note. The rank that reports the end calls write(why) once, on
/// any thread, and its process ends four seconds later at the latest. Replaces the earlier function. An empty function
/// cancels the note.
void set_end_note(std::function<void(const std::string& why)> write);

/// Calls the function of set_end_note(), if there is one, for the last time, and ignores its exceptions.
void write_end_note(const std::string& why) noexcept;

}  // namespace mn
