# Run by `cmake --install` before any file is installed, because `jobs/run` builds only its job. MN_BUILD: build folder.
file(STRINGS ${MN_BUILD}/installed-files files)
list(FILTER files EXCLUDE REGEX "^$")
foreach(file ${files})
  if(NOT EXISTS ${file})
    message(FATAL_ERROR "\n  mn is not built completely (${file} is missing): run `cmake --build ${MN_BUILD}`, then install again")
  endif()
endforeach()
