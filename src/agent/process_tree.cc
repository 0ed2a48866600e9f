#include "agent/process_tree.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/random.h"
#include "base/sys.h"
#include "base/text.h"

namespace agent {
namespace {

constexpr size_t kIdleGroupsMax = 16;
// /proc/PID/stat and cgroup.procs stay far below.
constexpr size_t kProcFileBytesMax = size_t{1024} * 1024;
constexpr std::string_view kMarkerName = "SANDBOX_COMMAND";

std::string read_at(int folder, const std::string& path) {
  const auto file = base::sys::open_at(folder, path, O_RDONLY);
  auto text = file ? base::sys::read_all(file->get(), kProcFileBytesMax)
                   : base::Result<std::string>(std::unexpected(file.error()));
  return text ? std::move(*text) : std::string();
}

void write_at(int folder, const char* name, std::string_view text) {
  const base::Fd file(::openat(folder, name, O_WRONLY | O_CLOEXEC));
  [[maybe_unused]] const ssize_t size = ::write(file.get(), text.data(), text.size());
}

struct ProcessRow {
  pid_t pid = 0;
  pid_t parent = 0;
  pid_t session = 0;
};

// "PID (name) S PPID PGRP SESSION ...": the name may hold blanks and brackets.
ProcessRow parse_stat(pid_t pid, std::string_view stat) {
  const size_t bracket = stat.rfind(')');
  if (bracket == std::string_view::npos || bracket + 2 > stat.size()) {
    return {};
  }
  const auto fields = base::split(stat.substr(bracket + 2), ' ');
  constexpr size_t kParent = 1;
  constexpr size_t kSession = 3;
  if (fields.size() <= kSession || fields[0] == "Z") {
    return {};
  }
  return {.pid = pid,
          .parent = base::parse_number<pid_t>(fields[kParent]).value_or(0),
          .session = base::parse_number<pid_t>(fields[kSession]).value_or(0)};
}

std::vector<ProcessRow> read_processes() {
  std::vector<ProcessRow> rows;
  const auto names = base::sys::list_folder("/proc");
  for (const std::string& name : names ? *names : std::vector<std::string>{}) {
    if (const auto pid = base::parse_number<pid_t>(name)) {
      const ProcessRow row =
          parse_stat(*pid, read_at(AT_FDCWD, base::cat("/proc/", name, "/stat")));
      if (row.pid != 0) {
        rows.push_back(row);
      }
    }
  }
  return rows;
}

bool uses(pid_t pid, const std::vector<FileIdentity>& files) {
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    struct stat status{};
    if (::stat(base::cat("/proc/", pid, "/fd/", stream).c_str(), &status) == 0) {
      const FileIdentity file{.device = status.st_dev, .inode = status.st_ino};
      if (std::ranges::find(files, file) != files.end()) {
        return true;
      }
    } else if (errno != ENOENT && errno != ESRCH) {
      return true;
    }
  }
  return false;
}

}  // namespace

FileIdentity identity_of(int fd) {
  struct stat status{};
  ::fstat(fd, &status);
  return {.device = status.st_dev, .inode = status.st_ino};
}

ProcessTree::~ProcessTree() {
  if (folder_) {
    owner_.give_back({.name = std::move(name_),
                      .folder = std::move(folder_),
                      .events = std::move(events_),
                      .killed = killed_});
  }
}

void ProcessTree::abandon_cgroup() {
  owner_.give_back(
      {.name = std::move(name_), .folder = std::move(folder_), .events = std::move(events_)});
  folder_.reset();
  base::KernelRandom random;
  marker_ = base::cat(kMarkerName, "=", base::new_id(random, "c"));
}

std::vector<pid_t> ProcessTree::find() const {
  if (folder_) {
    std::vector<pid_t> pids;
    const std::string text = read_at(folder_.get(), "cgroup.procs");
    for (const std::string_view line : base::split(text, '\n')) {
      if (const auto pid = base::parse_number<pid_t>(line); pid && *pid > 1) {
        pids.push_back(*pid);
      }
    }
    return pids;
  }
  const auto rows = read_processes();
  std::map<pid_t, bool> inside;
  for (const ProcessRow& row : rows) {
    const bool own = row.pid == leader_ || row.session == leader_ ||
                     (!marker_.empty() &&
                      base::cat('\0', read_at(AT_FDCWD, base::cat("/proc/", row.pid, "/environ")))
                              .find(base::cat('\0', marker_, '\0')) != std::string::npos);
    inside[row.pid] = own && row.pid != ::getpid();
  }
  // Descent, until nothing is added: rows are in no order that helps.
  for (bool grown = true; grown;) {
    grown = false;
    for (const ProcessRow& row : rows) {
      const auto parent = inside.find(row.parent);
      if (!inside[row.pid] && parent != inside.end() && parent->second) {
        inside[row.pid] = true;
        grown = true;
      }
    }
  }
  std::vector<pid_t> pids;
  for (const auto& [pid, own] : inside) {
    if (own) {
      pids.push_back(pid);
    }
  }
  return pids;
}

void ProcessTree::signal(int number) {
  if (folder_ && number == SIGKILL) {
    killed_ = true;
    write_at(folder_.get(), "cgroup.kill", "1");
    return;
  }
  for (const pid_t pid : find()) {
    ::kill(pid, number);
  }
}

std::vector<pid_t> ProcessTree::users_of(const std::vector<FileIdentity>& files) const {
  std::vector<pid_t> pids = find();
  std::erase_if(pids, [&files](pid_t pid) { return !uses(pid, files); });
  return pids;
}

bool ProcessTree::empty() const {
  return folder_ ? !ProcessTrees::populated(events_) : find().empty();
}

bool ProcessTrees::populated(const base::Fd& events) {
  std::array<char, 256> text{};
  const ssize_t size = ::pread(events.get(), text.data(), text.size(), 0);
  // An answer that cannot be read must not let a used group be used again.
  return size <= 0 ||
         std::string_view(text.data(), static_cast<size_t>(size)).find("populated 0") ==
             std::string_view::npos;
}

bool ProcessTrees::make_group(Group& group) {
  group.name = base::cat("command-", ++last_name_);
  if (::mkdirat(folder_.get(), group.name.c_str(), 0755) != 0 && errno != EEXIST) {
    return false;
  }
  group.folder =
      base::Fd(::openat(folder_.get(), group.name.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  group.events = base::Fd(::openat(group.folder.get(), "cgroup.events", O_RDONLY | O_CLOEXEC));
  return group.folder.valid() && group.events.valid();
}

std::unique_ptr<ProcessTree> ProcessTrees::make() {
  std::unique_ptr<ProcessTree> tree(new ProcessTree(*this));
  Group group;
  if (!idle_.empty()) {
    group = std::move(idle_.back());
    idle_.pop_back();
  } else if (!folder_ || !make_group(group)) {
    tree->abandon_cgroup();
    return tree;
  }
  tree->name_ = std::move(group.name);
  tree->folder_ = std::move(group.folder);
  tree->events_ = std::move(group.events);
  return tree;
}

void ProcessTrees::give_back(Group group) {
  if (!group.folder) {
    return;
  }
  if (populated(group.events)) {
    lingering_.push_back(std::move(group));
    return;
  }
  if (idle_.size() < kIdleGroupsMax && !group.killed) {
    idle_.push_back(std::move(group));
    return;
  }
  ::unlinkat(folder_.get(), group.name.c_str(), AT_REMOVEDIR);
}

void ProcessTrees::sweep() {
  std::vector<Group> left;
  left.swap(lingering_);
  for (Group& group : left) {
    give_back(std::move(group));
  }
}

}  // namespace agent
