# embed_files(TARGET FUNCTION [--gzip] FILES...): a .cc of TARGET that defines server::FUNCTION()
# (src/server/embedded_files.h) with these files.
function(embed_files target function)
  set(output ${CMAKE_BINARY_DIR}/generated/${function}.cc)
  set(files ${ARGN})
  list(REMOVE_ITEM files --gzip)
  add_custom_command(OUTPUT ${output}
    COMMAND ${DEBIAN_PYTHON} ${CMAKE_SOURCE_DIR}/tools/embed_files.py ${output} ${function} ${ARGN}
    DEPENDS ${files} ${CMAKE_SOURCE_DIR}/tools/embed_files.py
            ${CMAKE_SOURCE_DIR}/tools/openapi_json.py VERBATIM)
  target_sources(${target} PRIVATE ${output})
endfunction()
