// What streams are measured against, as bare as it can be. Static, so that it also runs in a
// sandbox.
//
//   bounds pipe MIB          a process writes to a pipe, a second copies it into a unix socket, a
//                            third reads that: the least a session's output needs
//   bounds spool FILE MIB    the bytes are written to FILE by way of a pipe and then sent into a
//                            unix socket: the least an exec's output needs
//   bounds many FOLDER N     makes N small files (for the tars)
//   bounds produce MIB       writes so much to its standard output, and no time
//
// Prints the milliseconds it took.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kPiece = 64 * 1024, kFilesPerFolder = 100 };

static char buffer[kPiece];

static double now_ms(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void write_whole(int fd, const char* from, ssize_t size) {
  while (size > 0) {
    const ssize_t count = write(fd, from, (size_t)size);
    if (count <= 0) {
      exit(1);
    }
    from += count;
    size -= count;
  }
}

static void produce(int fd, long mib) {
  memset(buffer, 'x', sizeof buffer);
  for (long left = mib * 1024 * 1024 / kPiece; left > 0; --left) {
    write_whole(fd, buffer, kPiece);
  }
}

static long copy(int from, int to) {
  long copied = 0;
  for (;;) {
    const ssize_t count = read(from, buffer, sizeof buffer);
    if (count <= 0) {
      return copied;
    }
    if (to >= 0) {
      write_whole(to, buffer, count);
    }
    copied += count;
  }
}

// Forks a producer; the pipe's reading end.
static int start_producer(long mib) {
  int ends[2];
  if (pipe(ends) != 0) {
    exit(1);
  }
  if (fork() == 0) {
    close(ends[0]);
    produce(ends[1], mib);
    _exit(0);
  }
  close(ends[1]);
  return ends[0];
}

// Forks a reader that counts; the socket to write to.
static int start_reader(long mib) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) {
    exit(1);
  }
  if (fork() == 0) {
    close(ends[1]);
    _exit(copy(ends[0], -1) == mib * 1024 * 1024 ? 0 : 1);
  }
  close(ends[0]);
  return ends[1];
}

static void wait_all(void) {
  int status = 0;
  while (wait(&status) > 0) {
    if (status != 0) {
      exit(1);
    }
  }
}

static void stream(long mib) {
  const int to = start_reader(mib);
  copy(start_producer(mib), to);
  close(to);
  wait_all();
}

static void spool(const char* path, long mib) {
  const int file = open(path, O_CREAT | O_TRUNC | O_RDWR, 0600);
  if (file < 0) {
    exit(1);
  }
  copy(start_producer(mib), file);
  lseek(file, 0, SEEK_SET);
  const int to = start_reader(mib);
  copy(file, to);
  close(to);
  wait_all();
  unlink(path);
}

static void make_files(const char* folder, long count) {
  char path[4096];
  mkdir(folder, 0755);
  for (long i = 0; i < count; ++i) {
    if (i % kFilesPerFolder == 0) {
      snprintf(path, sizeof path, "%s/%ld", folder, i / kFilesPerFolder);
      mkdir(path, 0755);
    }
    snprintf(path, sizeof path, "%s/%ld/file-%ld", folder, i / kFilesPerFolder, i);
    const int file = open(path, O_CREAT | O_TRUNC | O_WRONLY, 0644);
    write_whole(file, path, (ssize_t)strlen(path));
    close(file);
  }
}

int main(int argc, char** argv) {
  const double start = now_ms();
  if (argc == 3 && strcmp(argv[1], "produce") == 0) {
    produce(STDOUT_FILENO, atol(argv[2]));
    return 0;
  }
  if (argc == 3 && strcmp(argv[1], "pipe") == 0) {
    stream(atol(argv[2]));
  } else if (argc == 4 && strcmp(argv[1], "spool") == 0) {
    spool(argv[2], atol(argv[3]));
  } else if (argc == 4 && strcmp(argv[1], "many") == 0) {
    make_files(argv[2], atol(argv[3]));
  } else {
    return 2;
  }
  printf("%.1f\n", now_ms() - start);
  return 0;
}
