#include "node/socket_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>

#include "base/sys.h"

namespace node {
namespace {

using base::fail_errno;
using base::Fd;
using base::Result;

// No namespace has the cookie 0; its entry becomes 1 once another could not be written.
constexpr uint64_t kLost = 0;

long bpf(int command, bpf_attr& attributes) {
  return ::syscall(SYS_bpf, command, &attributes, sizeof attributes);
}

uint64_t address_of(const void* object) { return reinterpret_cast<uint64_t>(object); }

constexpr bpf_insn instruction(int code, uint8_t to, uint8_t from, int16_t offset, int32_t value) {
  return {.code = static_cast<uint8_t>(code),
          .dst_reg = static_cast<uint8_t>(to & 0xF),
          .src_reg = static_cast<uint8_t>(from & 0xF),
          .off = offset,
          .imm = value};
}
constexpr bpf_insn call(int function) { return instruction(BPF_JMP | BPF_CALL, 0, 0, 0, function); }
constexpr bpf_insn set(uint8_t to, int32_t value) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn copy(uint8_t to, uint8_t from) {
  return instruction(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0);
}
constexpr bpf_insn add(uint8_t to, int32_t value) {
  return instruction(BPF_ALU64 | BPF_ADD | BPF_K, to, 0, 0, value);
}
constexpr bpf_insn store(uint8_t to, int16_t offset, uint8_t from) {
  return instruction(BPF_STX | BPF_MEM | BPF_DW, to, from, offset, 0);
}
constexpr bpf_insn store_number(uint8_t to, int16_t offset, int32_t value) {
  return instruction(BPF_ST | BPF_MEM | BPF_DW, to, 0, offset, value);
}

// map[cookie of the socket's namespace] = 1; if that fails, map[kLost] = 1; the socket is allowed.
auto program(int map) {
  constexpr int16_t kKey = -8;  // on the stack
  constexpr int16_t kValue = -16;
  constexpr uint8_t kStack = BPF_REG_10;
  return std::to_array<bpf_insn>({
      call(BPF_FUNC_get_netns_cookie),
      store(kStack, kKey, BPF_REG_0),
      store_number(kStack, kValue, 1),
      instruction(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
      instruction(0, 0, 0, 0, 0),
      copy(BPF_REG_2, kStack),
      add(BPF_REG_2, kKey),
      copy(BPF_REG_3, kStack),
      add(BPF_REG_3, kValue),
      set(BPF_REG_4, BPF_ANY),
      call(BPF_FUNC_map_update_elem),
      instruction(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 8, 0),  // written: to the end
      store_number(kStack, kKey, kLost),
      instruction(BPF_LD | BPF_DW | BPF_IMM, BPF_REG_1, BPF_PSEUDO_MAP_FD, 0, map),
      instruction(0, 0, 0, 0, 0),
      copy(BPF_REG_2, kStack),
      add(BPF_REG_2, kKey),
      call(BPF_FUNC_map_lookup_elem),
      instruction(BPF_JMP | BPF_JEQ | BPF_K, BPF_REG_0, 0, 1, 0),
      store_number(BPF_REG_0, 0, 1),
      set(BPF_REG_0, 1),
      instruction(BPF_JMP | BPF_EXIT, 0, 0, 0, 0),
  });
}

Result<Fd> make_map(uint32_t entries) {
  bpf_attr attributes{};
  attributes.map_type = BPF_MAP_TYPE_HASH;
  attributes.key_size = sizeof(uint64_t);
  attributes.value_size = sizeof(uint64_t);
  attributes.max_entries = entries + 1;
  attributes.map_flags = BPF_F_NO_PREALLOC;  // few sandboxes at a time use the network
  Fd map(static_cast<int>(bpf(BPF_MAP_CREATE, attributes)));
  if (!map) {
    return fail_errno(errno, "make a BPF map");
  }
  return map;
}

Result<Fd> load_program(int map) {
  const auto instructions = program(map);
  constexpr char kLicense[] = "none";  // it calls nothing that asks for another
  bpf_attr attributes{};
  attributes.prog_type = BPF_PROG_TYPE_CGROUP_SOCK;
  attributes.expected_attach_type = BPF_CGROUP_INET_SOCK_CREATE;
  attributes.insns = address_of(instructions.data());
  attributes.insn_cnt = static_cast<uint32_t>(instructions.size());
  attributes.license = address_of(static_cast<const char*>(kLicense));
  Fd loaded(static_cast<int>(bpf(BPF_PROG_LOAD, attributes)));
  if (!loaded) {
    return fail_errno(errno, "load a BPF program");
  }
  return loaded;
}

}  // namespace

Result<std::unique_ptr<SocketWatch>> SocketWatch::open(const std::string& cgroup_folder,
                                                       uint32_t name_spaces) {
  std::unique_ptr<SocketWatch> watch(new SocketWatch());
  ASSIGN_OR_RETURN(const Fd cgroup, base::sys::open(cgroup_folder, O_RDONLY | O_DIRECTORY));
  ASSIGN_OR_RETURN(watch->map_, make_map(name_spaces));
  const uint64_t key = kLost;
  const uint64_t value = 0;
  bpf_attr entry{};
  entry.map_fd = static_cast<uint32_t>(watch->map_.get());
  entry.key = address_of(&key);
  entry.value = address_of(&value);
  if (bpf(BPF_MAP_UPDATE_ELEM, entry) != 0) {
    return fail_errno(errno, "write to a BPF map");
  }
  ASSIGN_OR_RETURN(watch->program_, load_program(watch->map_.get()));
  bpf_attr attributes{};
  attributes.link_create.prog_fd = static_cast<uint32_t>(watch->program_.get());
  attributes.link_create.target_fd = static_cast<uint32_t>(cgroup.get());
  attributes.link_create.attach_type = BPF_CGROUP_INET_SOCK_CREATE;
  watch->link_ = Fd(static_cast<int>(bpf(BPF_LINK_CREATE, attributes)));
  if (!watch->link_) {
    return fail_errno(errno, "attach a BPF program to ", cgroup_folder);
  }
  return watch;
}

bool SocketWatch::saw_one(uint64_t name_space) const {
  for (const uint64_t key : {kLost, name_space}) {
    uint64_t value = 0;
    bpf_attr attributes{};
    attributes.map_fd = static_cast<uint32_t>(map_.get());
    attributes.key = address_of(&key);
    attributes.value = address_of(&value);
    const bool found = bpf(BPF_MAP_LOOKUP_ELEM, attributes) == 0;
    // The entry kLost is always there; whatever else goes wrong is no proof of anything.
    if (found ? value != 0 : key == kLost || errno != ENOENT) {
      return true;
    }
  }
  return false;
}

void SocketWatch::forget(uint64_t name_space) {
  bpf_attr attributes{};
  attributes.map_fd = static_cast<uint32_t>(map_.get());
  attributes.key = address_of(&name_space);
  bpf(BPF_MAP_DELETE_ELEM, attributes);
}

}  // namespace node
