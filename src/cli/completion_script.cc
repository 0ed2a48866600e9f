#include "cli/completion_script.h"

#include <algorithm>

namespace cli {

using base::cat;

namespace {

std::string joined(const std::vector<std::string>& words) {
  std::string out;
  for (const auto& word : words) {
    out += cat(out.empty() ? "" : " ", word);
  }
  return out;
}

// Words that can follow a command: subcommands for the groups, options for all.
std::string subcommands_of(const std::vector<CommandInfo>& commands, std::string_view group) {
  std::vector<std::string> names;
  for (const auto& command : commands) {
    const size_t blank = command.name.find(' ');
    const std::string parent = blank == command.name.npos ? "" : command.name.substr(0, blank);
    if (parent == group) {
      names.push_back(blank == command.name.npos ? command.name : command.name.substr(blank + 1));
    }
  }
  return joined(names);
}

std::string option_names(const CommandInfo& command) {
  std::vector<std::string> names;
  for (const auto& option : command.options) {
    names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return joined(names);
}

std::string in_quotes(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  }
  return out + "'";
}

// "files|image|sessions": the commands that have commands of their own.
std::string group_pattern(const std::vector<CommandInfo>& commands) {
  std::string out;
  for (const auto& command : commands) {
    if (!subcommands_of(commands, command.name).empty()) {
      out += cat(out.empty() ? "" : "|", command.name);
    }
  }
  return out;
}

// The part bash and zsh share: what the words so far allow.
std::string bash_tables(const std::vector<CommandInfo>& commands) {
  std::string out = "  case \"$command\" in\n";
  for (const auto& command : commands) {
    out += cat("    ", in_quotes(command.name), ") words=", in_quotes(option_names(command)));
    const std::string subs = subcommands_of(commands, command.name);
    out += subs.empty() ? "" : cat(" subs=", in_quotes(subs));
    out += command.takes_id ? " ids=1" : "";
    out += command.name == "completion" ? " subs='bash zsh fish'" : "";
    out += " ;;\n";
  }
  out += cat("    '') subs=", in_quotes(subcommands_of(commands, "")),
             " words='--help --version' ;;\n  esac\n");
  return out;
}

std::string bash_choices(const std::vector<CommandInfo>& commands) {
  std::string out = "  case \"$previous\" in\n";
  std::vector<std::string> seen;
  for (const auto& command : commands) {
    for (const auto& option : command.options) {
      const std::string key = option.names.empty() ? "" : option.names.front();
      if (option.choices.empty() || std::ranges::find(seen, key) != seen.end()) {
        continue;
      }
      seen.push_back(key);
      std::string pattern;
      for (const auto& name : option.names) {
        pattern += cat(pattern.empty() ? "" : "|", name);
      }
      out += cat("    ", pattern, ") COMPREPLY=($(compgen -W ", in_quotes(joined(option.choices)),
                 " -- \"$current\")); return ;;\n");
    }
  }
  return out +
         "    --token-file|--ca-file|--env-file) COMPREPLY=($(compgen -f -- \"$current\")); return "
         ";;\n"
         "  esac\n";
}

std::string bash_script(const std::vector<CommandInfo>& commands) {
  return cat(
      "# bash completion of sandbox: source <(sandbox completion bash)\n"
      "_sandbox() {\n"
      "  local current=\"${COMP_WORDS[COMP_CWORD]}\" previous=\"${COMP_WORDS[COMP_CWORD-1]}\"\n"
      "  local command='' words='' subs='' ids='' i\n"
      "  COMPREPLY=()\n"
      "  for ((i = 1; i < COMP_CWORD; i++)); do\n"
      "    case \"${COMP_WORDS[i]}\" in\n"
      "      --) COMPREPLY=($(compgen -c -- \"$current\")); return ;;\n"
      "      -o|--output|--url|--token-file|--ca-file) ((i++)) ;;\n"
      "      -*) ;;\n"
      "      *) case \"$command\" in\n"
      "           '') command=\"${COMP_WORDS[i]}\" ;;\n"
      "           ",
      group_pattern(commands),
      ") command=\"$command ${COMP_WORDS[i]}\" ;;\n"
      "         esac ;;\n"
      "    esac\n"
      "  done\n",
      bash_choices(commands), bash_tables(commands),
      "  if [ -n \"$ids\" ] && [[ \"$current\" != -* ]]; then\n"
      "    subs=\"$(sandbox list --quiet 2>/dev/null)\"\n"
      "  fi\n"
      "  if [[ \"$current\" == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "  elif [ -n \"$subs\" ]; then\n"
      "    COMPREPLY=($(compgen -W \"$subs\" -- \"$current\"))\n"
      "  elif [ \"$command\" = cp ] || [ \"$command\" = 'image import' ]; then\n"
      "    COMPREPLY=($(compgen -f -- \"$current\"))\n"
      "  fi\n"
      "}\n"
      "complete -F _sandbox sandbox\n");
}

std::string zsh_script(const std::vector<CommandInfo>& commands) {
  // zsh runs bash's completion functions; so there is one description for both.
  return cat(
      "#compdef sandbox\n"
      "# zsh completion of sandbox: source <(sandbox completion zsh)\n"
      "autoload -U +X compinit && compinit -u\n"
      "autoload -U +X bashcompinit && bashcompinit\n",
      bash_script(commands),
      // As a file of fpath it is itself the completion that was asked for.
      "if (( ${+CURRENT} )); then _bash_complete -F _sandbox; fi\n");
}

std::string fish_option(const OptionInfo& option, std::string_view condition) {
  std::string line = cat("complete -c sandbox -n ", in_quotes(condition));
  for (const auto& name : option.names) {
    line += name.starts_with("--") ? cat(" -l ", name.substr(2)) : cat(" -s ", name.substr(1));
  }
  if (option.takes_value) {
    const std::string first = option.names.empty() ? "" : option.names.front();
    const bool file = first == "--token-file" || first == "--ca-file" || first == "--env-file";
    line += file ? " -r -F" : " -x";
    line += option.choices.empty() ? "" : cat(" -a ", in_quotes(joined(option.choices)));
  }
  return cat(line, " -d ", in_quotes(option.description), "\n");
}

std::string fish_script(const std::vector<CommandInfo>& commands) {
  std::string out =
      "# fish completion of sandbox: sandbox completion fish | source\n"
      "complete -c sandbox -f\n";
  const std::string top = subcommands_of(commands, "");
  for (const auto& command : commands) {
    const size_t blank = command.name.find(' ');
    const bool nested = blank != command.name.npos;
    const std::string word = nested ? command.name.substr(blank + 1) : command.name;
    const std::string group = nested ? command.name.substr(0, blank) : "";
    const std::string offered =
        nested ? cat("__fish_seen_subcommand_from ", group,
                     "; and not __fish_seen_subcommand_from ", subcommands_of(commands, group))
               : cat("not __fish_seen_subcommand_from ", top);
    out += cat("complete -c sandbox -n ", in_quotes(offered), " -a ", word, " -d ",
               in_quotes(command.description), "\n");
    const std::string inside = nested ? cat("__fish_seen_subcommand_from ", group,
                                            "; and __fish_seen_subcommand_from ", word)
                                      : cat("__fish_seen_subcommand_from ", word);
    for (const auto& option : command.options) {
      out += fish_option(option, inside);
    }
    if (command.takes_id) {
      out += cat("complete -c sandbox -n ", in_quotes(inside),
                 " -a '(sandbox list --quiet 2>/dev/null)' -d sandbox\n");
    }
    if (word == "cp" || word == "import") {
      out += cat("complete -c sandbox -n ", in_quotes(inside), " -F\n");
    }
  }
  return out +
         "complete -c sandbox -n '__fish_seen_subcommand_from completion' -a 'bash zsh fish'\n";
}

}  // namespace

std::string completion_script(std::string_view shell, const std::vector<CommandInfo>& commands) {
  if (shell == "zsh") {
    return zsh_script(commands);
  }
  return shell == "fish" ? fish_script(commands) : bash_script(commands);
}

}  // namespace cli
