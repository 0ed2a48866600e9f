// The floor: what the kernel takes to start and end the smallest process. Prints the median of
// vfork + exec + wait of /bin/true in microseconds; everything in RESULTS.md is told as a multiple
// of it, measured in the same run. With an argument N, that many processes do it for a second and
// the rate of all together is printed.
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { kRounds = 300, kWarmUp = 30, kProcessesMax = 64 };

static double now_us(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (double)time.tv_sec * 1e6 + (double)time.tv_nsec / 1e3;
}

static void once(void) {
  const pid_t pid = vfork();
  if (pid == 0) {
    execl("/bin/true", "true", (char*)NULL);
    _exit(127);
  }
  int status = 0;
  if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0) {
    exit(1);
  }
}

static int by_size(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

static double median_us(void) {
  static double took[kRounds];
  for (int i = -kWarmUp; i < kRounds; ++i) {
    const double start = now_us();
    once();
    if (i >= 0) {
      took[i] = now_us() - start;
    }
  }
  qsort(took, kRounds, sizeof took[0], by_size);
  return took[kRounds / 2];
}

static double rate_of(int processes) {
  int ends[kProcessesMax];
  for (int i = 0; i < processes; ++i) {
    int pair[2];
    if (pipe(pair) != 0) {
      exit(1);
    }
    if (fork() == 0) {
      const double end = now_us() + 1e6;
      int count = 0;
      for (; now_us() < end; ++count) {
        once();
      }
      _exit(write(pair[1], &count, sizeof count) == sizeof count ? 0 : 1);
    }
    close(pair[1]);
    ends[i] = pair[0];
  }
  double total = 0;
  for (int i = 0; i < processes; ++i) {
    int count = 0;
    if (read(ends[i], &count, sizeof count) != sizeof count) {
      exit(1);
    }
    total += count;
    wait(NULL);
  }
  return total;
}

int main(int argc, char** argv) {
  if (argc > 1) {
    const int processes = atoi(argv[1]);
    if (processes < 1 || processes > kProcessesMax) {
      return 2;
    }
    printf("%.0f\n", rate_of(processes));
  } else {
    printf("%.1f\n", median_us());
  }
  return 0;
}
