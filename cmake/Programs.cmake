# program(NAME FOLDER...): src/main/<NAME without "sandbox-">.cc as the program NAME.
function(program name source)
  if(EXISTS ${CMAKE_SOURCE_DIR}/src/main/${source})
    add_executable(${name} ${CMAKE_SOURCE_DIR}/src/main/${source})
    target_link_libraries(${name} PRIVATE ${ARGN})
    use_precompiled(${name})
  endif()
endfunction()

program(sandbox-node node.cc node config)
program(sandbox-image image.cc image)
program(sandbox-dns dns.cc dns)
program(sandbox-gateway gateway.cc server service engine store config tls definition)
if(TARGET sandbox-gateway)
  target_sources(sandbox-gateway PRIVATE ${CMAKE_SOURCE_DIR}/src/main/operator_files.cc
                 ${CMAKE_SOURCE_DIR}/src/main/gateway_places.cc
                 ${CMAKE_SOURCE_DIR}/src/main/gateway_commands.cc
                 ${CMAKE_SOURCE_DIR}/src/main/process.cc)
endif()
program(sandbox-ssh ssh.cc ssh config)
if(TARGET sandbox-ssh)
  target_sources(sandbox-ssh PRIVATE ${CMAKE_SOURCE_DIR}/src/main/process.cc)
endif()
program(sandbox cli.cc cli)
program(sandbox-agent agent.cc agent)
program(sandbox-agent-tls agent.cc agent tls)
if(TARGET sandbox-agent)
  target_sources(sandbox-agent PRIVATE ${CMAKE_SOURCE_DIR}/src/main/agent_no_tcp.cc)
  target_sources(sandbox-agent-tls PRIVATE ${CMAKE_SOURCE_DIR}/src/main/agent_tcp.cc)
endif()

# The agent runs in any image, so it depends on nothing in it. The node copies its address space for
# every sandbox that it starts, so it has few mappings (at random addresses, as any daemon).
# Sanitizers that cannot be linked statically (address, thread) get dynamic ones; the agent is then
# tested outside a sandbox.
if(NOT SANDBOX_SANITIZE MATCHES "address|thread" AND NOT SANDBOX_FUZZ)
  foreach(agent sandbox-agent sandbox-agent-tls)
    if(TARGET ${agent})
      target_link_options(${agent} PRIVATE -static $<$<CONFIG:Release>:-s>
                          $<$<CONFIG:Release>:-Wl,--icf=safe>)
    endif()
  endforeach()
  if(TARGET sandbox-node)
    target_link_options(sandbox-node PRIVATE -static-pie)
  endif()
endif()

# The tests of the image store start the real helper, and those of engines the real agent, which
# lie beside them.
if(TARGET node_test AND TARGET sandbox-image)
  add_dependencies(node_test sandbox-image)
endif()
if(TARGET engine_test AND TARGET sandbox-agent-tls)
  add_dependencies(engine_test sandbox-agent-tls)
endif()
