#include "engine/local/node_process_testing.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <filesystem>
#include <thread>

#include "base/sys.h"
#include "base/text.h"

namespace engine {
namespace {

constexpr const char* kBusybox = "/bin/busybox";
constexpr uid_t kIdBase = 1'300'000'000;  // far from those of any other node on the machine
constexpr uid_t kIdsPerSlot = 1024 * 65'536;
constexpr int kSlots = 8;
constexpr std::chrono::seconds kStartMax{60};
constexpr size_t kTarBlock = 512;
constexpr size_t kStatusMax = size_t{16} * 1024;
constexpr size_t kProgramMax = size_t{64} * 1024 * 1024;

bool has_programs(const std::string& folder) {
  for (const char* const name : {"sandbox-node", "sandbox-agent", "sandbox-image", "sandbox-dns"}) {
    if (::access(base::cat(folder, "/", name).c_str(), X_OK) != 0) {
      return false;
    }
  }
  return true;
}

// Sanitizer builds have a dynamic agent, which no root file system of a sandbox can start.
bool is_dynamic(const std::string& program) {
  const auto bytes = base::sys::read_file(program, kProgramMax);
  return !bytes || bytes->find("/ld-linux") != std::string::npos;
}

std::string find_programs() {
  if (const char* const given = ::getenv("SANDBOX_TEST_PROGRAMS"); given != nullptr) {
    return has_programs(given) ? given : "";
  }
  std::array<char, 4096> path{};
  const ssize_t size = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  const std::string self(path.data(), size > 0 ? static_cast<size_t>(size) : 0);
  const std::string folder = self.substr(0, self.rfind('/'));
  return has_programs(folder) ? folder : "";
}

// One ustar entry; `type`: '0' file, '2' link, '5' folder.
void add_entry(std::string& tar, const std::string& name, char type, std::string_view content,
               const std::string& link = "") {
  std::array<char, kTarBlock> head{};
  const auto put = [&](size_t offset, std::string_view text) {
    ::memcpy(head.data() + offset, text.data(), text.size());
  };
  const auto octal = [](size_t number, size_t digits) {
    std::string text(digits, '0');
    for (size_t i = digits; i-- > 0; number /= 8) {
      text[i] = static_cast<char>('0' + number % 8);
    }
    return text;
  };
  put(0, name);
  put(100, octal(0755, 7));
  put(108, octal(0, 7));
  put(116, octal(0, 7));
  put(124, octal(content.size(), 11));
  put(136, octal(0, 11));
  put(148, "        ");
  head[156] = type;
  put(157, link);
  put(257, std::string_view("ustar\00000", 8));
  size_t sum = 0;
  for (const char byte : head) {
    sum += static_cast<unsigned char>(byte);
  }
  put(148, octal(sum, 6));
  head[154] = '\0';
  tar.append(head.data(), head.size());
  tar += content;
  tar.append((kTarBlock - content.size() % kTarBlock) % kTarBlock, '\0');
}

// The first word of a line of /proc/PID/status.
std::string_view status_field(std::string_view status, std::string_view name) {
  for (std::string_view line : base::split(status, '\n')) {
    if (line.starts_with(name) && line.substr(name.size()).starts_with(":\t")) {
      line.remove_prefix(name.size() + 2);
      return line.substr(0, line.find('\t'));
    }
  }
  return {};
}

}  // namespace

base::Fd NodeProcess::busybox_tar() {
  std::string tar;
  add_entry(tar, "bin/", '5', "");
  add_entry(tar, "etc/", '5', "");
  add_entry(tar, "tmp/", '5', "");
  add_entry(tar, "etc/passwd", '0', "root:x:0:0:root:/:/bin/sh\n");
  const auto busybox = base::sys::read_file(kBusybox, kProgramMax);
  add_entry(tar, "bin/busybox", '0', busybox.value_or(""));
  for (const char* const name : {"true", "echo", "sleep", "sh"}) {
    add_entry(tar, base::cat("bin/", name), '2', "", "busybox");
  }
  tar.append(2 * kTarBlock, '\0');
  // The protocol wants a regular file.
  base::Fd file(::open(testing_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
  if (!file || !base::sys::write_all(file.get(), tar) || ::lseek(file.get(), 0, SEEK_SET) != 0) {
    return {};
  }
  return file;
}

const char* NodeProcess::testing_folder() {
  const char* const given = ::getenv("TMPDIR");
  return given != nullptr ? given : "/tmp";
}

std::string NodeProcess::prefix() const {
  return base::cat("sgct", static_cast<char>('a' + slot_));
}
uid_t NodeProcess::id_base() const { return kIdBase + static_cast<uid_t>(slot_) * kIdsPerSlot; }

std::unique_ptr<NodeProcess> NodeProcess::start(std::string& why) {
  const std::string programs = find_programs();
  if (::geteuid() != 0 || programs.empty() || ::access(kBusybox, X_OK) != 0) {
    why = "needs root, busybox and the programs beside the test or in SANDBOX_TEST_PROGRAMS";
    return nullptr;
  }
  if (is_dynamic(programs + "/sandbox-agent")) {
    why = "the agent beside the test is a dynamic program (a sanitizer build)";
    return nullptr;
  }
  int slot = 0;
  base::Fd lock;
  for (; slot < kSlots && !lock; ++slot) {
    const std::string path = base::cat("/run/sandbox-contract-", slot, ".lock");
    auto file = base::sys::open(path, O_RDWR | O_CREAT, 0600);
    if (file && ::flock(file->get(), LOCK_EX | LOCK_NB) == 0) {
      lock = std::move(*file);
      break;
    }
  }
  if (!lock) {
    why = "too many test programs run at once";
    return nullptr;
  }
  std::string folder = base::cat(testing_folder(), "/node-XXXXXX");
  if (::mkdtemp(folder.data()) == nullptr) {
    why = "cannot make a temporary folder";
    return nullptr;
  }
  std::unique_ptr<NodeProcess> node(new NodeProcess(programs, folder, slot, std::move(lock)));
  if (!node->spawn()) {
    why = "sandbox-node does not start";
    ADD_FAILURE() << why;  // all it needs is there
    return nullptr;
  }
  return node;
}

bool NodeProcess::spawn() {
  const std::string program = programs_ + "/sandbox-node";
  const std::string agent = programs_ + "/sandbox-agent";
  const std::string helper = programs_ + "/sandbox-image";
  const std::string names = programs_ + "/sandbox-dns";
  const std::string ids = base::cat(id_base());
  const std::string name_prefix = prefix();
  const std::string subnet = base::cat("10.", 210 + slot_, ".0.0/16");
  const std::array arguments{program.c_str(),
                             "--state",
                             folder_.c_str(),
                             "--gateway-group",
                             "0",
                             "--agent",
                             agent.c_str(),
                             "--image-helper",
                             helper.c_str(),
                             "--dns-helper",
                             names.c_str(),
                             "--shells",
                             "4",
                             "--storage-pool-mb",
                             "512",
                             "--storage-driver",
                             "tmpfs",
                             "--name-prefix",
                             name_prefix.c_str(),
                             "--subnet",
                             subnet.c_str(),
                             "--id-base",
                             ids.c_str(),
                             static_cast<const char*>(nullptr)};
  ::unlink(socket().c_str());
  pid_ = ::fork();
  if (pid_ == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ::execv(program.c_str(), const_cast<char* const*>(arguments.data()));
    ::_exit(127);
  }
  const auto end = std::chrono::steady_clock::now() + kStartMax;
  while (std::chrono::steady_clock::now() < end) {
    if (base::sys::connect_unix(socket(), false)) {
      return true;
    }
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) {
      pid_ = -1;
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return false;
}

void NodeProcess::stop(int signal_number) {
  if (pid_ > 0) {
    ::kill(pid_, signal_number);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
}

bool NodeProcess::restart() {
  stop(SIGKILL);
  return spawn();
}

bool NodeProcess::kill_agents() const {
  bool found = false;
  for (const std::string& name :
       base::sys::list_folder("/proc").value_or(std::vector<std::string>{})) {
    // /proc/PID belongs to root where a process cannot be dumped, so its status is read.
    const std::string status =
        base::sys::read_file(base::cat("/proc/", name, "/status"), kStatusMax).value_or("");
    const auto pid = base::parse_number<pid_t>(name);
    const auto uid = base::parse_number<uid_t>(status_field(status, "Uid"));
    if (pid && uid && *uid >= id_base() && *uid - id_base() < kIdsPerSlot &&
        status_field(status, "Name").find("sandbox-a") != std::string_view::npos) {
      found = ::kill(*pid, SIGKILL) == 0 || found;
    }
  }
  return found;
}

// A node that stops leaves what sandboxes may still need: its firewall and its cgroups.
void NodeProcess::clean_up() const {
  for (const char* const table : {"_sandbox", "_images"}) {
    const std::string command =
        base::cat("nft delete table inet ", prefix(), table, " 2>/dev/null");
    [[maybe_unused]] const int status = ::system(command.c_str());
  }
  const std::string root = "/sys/fs/cgroup";
  std::vector<std::string> hierarchies{root};
  for (const std::string& name :
       base::sys::list_folder(root).value_or(std::vector<std::string>{})) {
    hierarchies.push_back(base::cat(root, "/", name));
  }
  for (const std::string& hierarchy : hierarchies) {
    const std::string folder = base::cat(hierarchy, "/", prefix());
    for (const std::string& name :
         base::sys::list_folder(folder).value_or(std::vector<std::string>{})) {
      ::rmdir(base::cat(folder, "/", name).c_str());
    }
    ::rmdir(folder.c_str());
  }
}

NodeProcess::~NodeProcess() {
  stop(SIGTERM);
  clean_up();
  for (const char* const mounted : {"/lib/storage", "/run/sandboxes"}) {
    ::umount2((folder_ + mounted).c_str(), MNT_DETACH);
  }
  std::error_code ignored;
  std::filesystem::remove_all(folder_, ignored);
}

}  // namespace engine
