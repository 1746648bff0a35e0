# `cmake --build build --target docs` makes a site in build/docs/html: README.md, the pages of docs/ and the API
# reference of the public headers. A warning is an error.
find_package(Doxygen QUIET)
if(NOT DOXYGEN_FOUND)
  add_custom_target(docs COMMAND ${CMAKE_COMMAND} -E echo "the API reference needs doxygen: install it and configure again"
                    COMMAND ${CMAKE_COMMAND} -E false VERBATIM)
  return()
endif()

get_property(headers GLOBAL PROPERTY MN_PUBLIC_HEADERS)
set(DOXYGEN_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
set(DOXYGEN_STRIP_FROM_PATH ${PROJECT_SOURCE_DIR}/runtime)
set(DOXYGEN_STRIP_FROM_INC_PATH ${PROJECT_SOURCE_DIR}/runtime)
set(DOXYGEN_JAVADOC_AUTOBRIEF YES)
set(DOXYGEN_EXTRACT_ALL NO)
set(DOXYGEN_SORT_MEMBER_DOCS NO)
set(DOXYGEN_DISTRIBUTE_GROUP_DOC YES)  # one comment for overloads that differ in a type only
set(DOXYGEN_SHOW_USED_FILES NO)
set(DOXYGEN_GENERATE_LATEX NO)
set(DOXYGEN_HAVE_DOT NO)
set(DOXYGEN_QUIET YES)
set(DOXYGEN_WARN_AS_ERROR FAIL_ON_WARNINGS)
set(DOXYGEN_PROJECT_BRIEF "multi-node training for libtorch, on Slurm clusters")
set(DOXYGEN_USE_MDFILE_AS_MAINPAGE ${PROJECT_SOURCE_DIR}/README.md)
set(DOXYGEN_FILTER_PATTERNS "*.md=${PROJECT_SOURCE_DIR}/cmake/docs_page")
set(DOXYGEN_IMAGE_PATH ${PROJECT_SOURCE_DIR}/docs/images)
set(DOXYGEN_GENERATE_TREEVIEW YES)
file(GLOB pages CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/*.md)
doxygen_add_docs(docs ${headers} ${PROJECT_SOURCE_DIR}/runtime/mn/mn.hpp ${PROJECT_SOURCE_DIR}/README.md ${pages}
                 COMMENT "Writing the documentation to ${PROJECT_BINARY_DIR}/docs/html")
