# embed_migrations(OUTPUT FOLDER): a .cc that defines store::migrations() (src/store/migrations.h)
# from FOLDER/NNNN_name.sql by their numbers, which are the schema's versions. A number may be
# missing (a step that another branch still holds) but is never there twice.
function(embed_migrations output folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.sql)
  list(SORT files)
  set(texts "")
  set(last 0)
  foreach(file IN LISTS files)
    get_filename_component(name ${file} NAME_WE)
    if(NOT name MATCHES "^0*([0-9]+)_(.+)$")
      message(FATAL_ERROR "${file}: the name of a migration is NNNN_what.sql")
    endif()
    set(version ${CMAKE_MATCH_1})
    set(what ${CMAKE_MATCH_2})
    if(version EQUAL last)
      message(FATAL_ERROR "${file}: there are two migrations ${version}")
    endif()
    set(last ${version})
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} sql)
    string(APPEND texts "{.version = ${version}, .name = \"${what}\", .sql = R\"sql(${sql})sql\"},\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "// Made by cmake/Migrations.cmake.
#include \"store/migrations.h\"

#include <array>

namespace store {

std::span<const Migration> migrations() {
  static constexpr auto kMigrations = std::to_array<Migration>({
@texts@});
  return kMigrations;
}

}  // namespace store
")
endfunction()
