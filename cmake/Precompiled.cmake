# use_precompiled(TARGET): its C++ files get the headers of cmake/precompiled.h already parsed, where
# SANDBOX_PRECOMPILED says so: two fifths of a debug build's time. Not CMake's own
# target_precompile_headers: its absolute paths are in every command, so that another clone would
# find nothing in the compiler cache.
option(SANDBOX_PRECOMPILED "Parse common headers once a build" OFF)

if(SANDBOX_PRECOMPILED)
  set(header ${CMAKE_SOURCE_DIR}/cmake/precompiled.h)
  string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
  separate_arguments(flags UNIX_COMMAND "${CMAKE_CXX_FLAGS} ${CMAKE_CXX_FLAGS_${type}}")
  get_directory_property(options COMPILE_OPTIONS)
  list(APPEND flags -std=c++23 -fPIC ${options})
  # What stands for it in the compiler cache (CCACHE_PCH_EXTSUM): its text, the same in every clone.
  set(sum "${CMAKE_CXX_COMPILER} ${flags} -E -P -x c++-header ${header} | md5sum")
  string(REPLACE ";" " " sum "${sum}")
  add_custom_command(OUTPUT ${CMAKE_BINARY_DIR}/precompiled.pch
    COMMAND ${CMAKE_CXX_COMPILER} ${flags} -fpch-instantiate-templates -Xclang -fno-pch-timestamp
            -x c++-header -o precompiled.pch ${header}
    COMMAND sh -c "${sum} > precompiled.pch.sum"
    DEPENDS ${header} WORKING_DIRECTORY ${CMAKE_BINARY_DIR} VERBATIM)
  add_custom_target(precompiled DEPENDS ${CMAKE_BINARY_DIR}/precompiled.pch)
endif()

function(use_precompiled target)
  if(NOT SANDBOX_PRECOMPILED)
    return()
  endif()
  add_dependencies(${target} precompiled)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    if(source MATCHES "\\.cc$")  # -fPIC: a program's -fPIE would not fit
      set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "-fPIC;-include-pch;precompiled.pch"
        OBJECT_DEPENDS ${CMAKE_BINARY_DIR}/precompiled.pch)
    endif()
  endforeach()
endfunction()
