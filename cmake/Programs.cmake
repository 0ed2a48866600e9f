# program(NAME FOLDER...): src/main/<NAME without "sandbox-">.cc as the program NAME.
function(program name source)
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/main/${source})
    add_executable(${name} ${CMAKE_SOURCE_DIR}/src/main/${source})
    target_link_libraries(${name} PRIVATE ${ARGN})
  endif()
endfunction()

program(sandbox-node node.cc node)
program(sandbox-image image.cc image)
program(sandbox-gateway gateway.cc server service engine store)
program(sandbox cli.cc cli)
program(sandbox-agent agent.cc agent)

# The agent runs in any image, so it depends on nothing in it. Sanitizers that cannot be linked
# statically (address, thread) get a dynamic agent, which is tested outside a sandbox.
if(TARGET sandbox-agent AND NOT SANDBOX_SANITIZE MATCHES "address|thread" AND NOT SANDBOX_FUZZ)
  target_link_options(sandbox-agent PRIVATE -static $<$<CONFIG:Release>:-s>)
endif()

# The tests of the image store start the real helper, which lies beside them.
if(TARGET node_test AND TARGET sandbox-image)
  add_dependencies(node_test sandbox-image)
endif()
