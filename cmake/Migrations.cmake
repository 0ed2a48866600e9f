# embed_migrations(OUTPUT FOLDER): a .cc that defines store::migrations() (src/store/migrations.h)
# from FOLDER/NNNN_name.sql in order; the version of a migration is its place, from 1.
function(embed_migrations output folder)
  file(GLOB files CONFIGURE_DEPENDS ${folder}/*.sql)
  list(SORT files)
  set(texts "")
  set(expected 0)
  foreach(file IN LISTS files)
    math(EXPR expected "${expected} + 1")
    get_filename_component(name ${file} NAME_WE)
    if(NOT name MATCHES "^0*${expected}_")
      message(FATAL_ERROR "${file}: migration ${expected} must come next")
    endif()
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${file})
    file(READ ${file} sql)
    string(APPEND texts "R\"sql(${sql})sql\",\n")
  endforeach()
  file(CONFIGURE OUTPUT ${output} @ONLY CONTENT "// Made by cmake/Migrations.cmake.
#include \"store/migrations.h\"

#include <array>

namespace store {

std::span<const char* const> migrations() {
  static constexpr auto kMigrations = std::to_array<const char*>({
@texts@});
  return kMigrations;
}

}  // namespace store
")
endfunction()
