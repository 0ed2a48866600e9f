// Between the file system's view of a file and SFTP's. Functions of the server's one thread.
#pragma once

#include <sys/stat.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "agent/accounts.h"
#include "agent/sftp_packet.h"

namespace agent::sftp {

Attributes attributes_of(const struct stat& file);
// errno as a status. ok for 0.
Status status_of(int error);

// Applies what the attributes have: size, mode, times, owner, in this order, each though one before
// failed. The errno of the last that failed, else 0.
int apply_to_file(int file, const Attributes& wanted);
enum class Links : uint8_t { follow, keep };
int apply_to_path(const std::string& path, const Attributes& wanted, Links links);

// The line that `ls -l` has of it, in UTC.
class LongNames {
 public:
  std::string of(std::string_view name, const struct stat& file);

 private:
  // The entries of a folder mostly have one owner.
  struct Owner {
    uint32_t id = 0;
    std::string name;  // empty: not looked up yet
  };

  Accounts accounts_;
  Owner user_;
  Owner group_;
};

}  // namespace agent::sftp
