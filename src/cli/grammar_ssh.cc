// Commands that reach a sandbox by SSH.
#include "cli/grammar_options.h"

namespace cli {

void add_ssh_commands(CLI::App& root, Storage& to) {
  auto* ssh = add_command(root, to, to.ssh, "ssh", "Connect to a sandbox with ssh");
  add_target(*ssh, to.ssh.sandbox);
  ssh->footer(
      "What stands behind -- goes to ssh: options (-L 8080:localhost:80), then a command.\n"
      "The connection is made through the gateway's API; nothing is written to known_hosts.");

  auto* config = add_command(root, to, to.ssh_config, "ssh-config",
                             "Print an entry for ~/.ssh/config: then ssh, git and editors find it");
  add_target(*config, to.ssh_config.sandbox);
  config->add_option("--name", to.ssh_config.name, "Name of the entry (default: the id)")
      ->option_text("NAME");

  auto* proxy = add_command(root, to, to.ssh_proxy, "ssh-proxy",
                            "Carry an SSH connection (what ssh-config's ProxyCommand runs)");
  add_target(*proxy, to.ssh_proxy.sandbox);
  proxy->add_flag("--host-key", to.ssh_proxy.host_key,
                  "Print the gateway's host key as a line of known_hosts instead");
}

}  // namespace cli
