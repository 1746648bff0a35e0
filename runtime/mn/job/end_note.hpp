/// A note in the program's files about the bad end of a job.
#pragma once

#include <functional>
#include <string>

namespace mn {

/// Sets the function that notes a bad end in files: an exception, a lost rank, a hang, or exit() before main has
/// returned. The rank that reports the end calls write(why) once, on any thread, with four seconds until its process
/// ends. Fatal signals make no note. Replaces the earlier function; an empty function cancels the note.
void set_end_note(std::function<void(const std::string& why)> write);

/// Calls the function of set_end_note(), if there is one, and cancels it. Ignores exceptions of the function, because
/// the end has a cause already.
void write_end_note(const std::string& why) noexcept;

}  // namespace mn
