// Commands on the files of a sandbox.
#include "cli/grammar_options.h"

namespace cli {

namespace {

void add_path(CLI::App& app, std::string& to) {
  app.add_option("PATH", to, "Path in the sandbox")->required();
}

void add_paths(CLI::App& app, std::vector<std::string>& to) {
  app.add_option("PATH", to, "Paths in the sandbox")->required();
}

}  // namespace

void add_file_commands(CLI::App& root, Storage& to) {
  auto* files = root.add_subcommand("files", "Files in a sandbox");
  files->require_subcommand(1);

  auto* list = add_command(*files, to, to.file_list, "ls", "List a folder");
  add_target(*list, to.file_list.sandbox);
  add_path(*list, to.file_list.path);
  list->add_option("--depth", to.file_list.depth, "Folders below it, too (default 1)")
      ->check(whole_from(1))
      ->option_text("N");
  list->add_flag("-q,--quiet", to.file_list.names_only, "Paths only");
  add_user(*list, to.file_list.user);

  auto* stat = add_command(*files, to, to.file_stat, "stat", "Show what a path is");
  add_target(*stat, to.file_stat.sandbox);
  add_path(*stat, to.file_stat.path);
  add_user(*stat, to.file_stat.user);

  auto* remove = add_command(*files, to, to.file_remove, "rm", "Delete files");
  add_target(*remove, to.file_remove.sandbox);
  add_paths(*remove, to.file_remove.paths);
  remove->add_flag("-r,--recursive", to.file_remove.recursive, "Folders with all that is in them");
  add_user(*remove, to.file_remove.user);

  auto* make = add_command(*files, to, to.folder_make, "mkdir", "Make folders, parents too");
  add_target(*make, to.folder_make.sandbox);
  add_paths(*make, to.folder_make.paths);
  make->add_option("--mode", to.folder_make.mode, "Octal mode (default 0755)")->option_text("MODE");
  add_user(*make, to.folder_make.user);

  auto* move = add_command(*files, to, to.file_move, "mv", "Rename a file or folder");
  add_target(*move, to.file_move.sandbox);
  move->add_option("FROM", to.file_move.from, "Path in the sandbox")->required();
  move->add_option("TO", to.file_move.to, "New path; a file there is replaced")->required();
  move->add_flag_callback(
      "-n,--no-clobber", [&to] { to.file_move.replace = false; }, "Refuse if something is there");
  add_user(*move, to.file_move.user);

  auto* mode = add_command(*files, to, to.file_mode, "chmod", "Set the mode of files");
  add_target(*mode, to.file_mode.sandbox);
  mode->add_option("MODE", to.file_mode.mode, "Octal, like 0755")->required();
  add_paths(*mode, to.file_mode.paths);
  mode->add_flag("-r,--recursive", to.file_mode.recursive, "Folders with all that is in them");
  add_user(*mode, to.file_mode.user);

  auto* watch = add_command(*files, to, to.file_watch, "watch", "Show changes as they happen");
  add_target(*watch, to.file_watch.sandbox);
  add_path(*watch, to.file_watch.path);
  watch->add_flag("-r,--recursive", to.file_watch.recursive, "Folders below it, too");
  add_user(*watch, to.file_watch.user);
}

}  // namespace cli
