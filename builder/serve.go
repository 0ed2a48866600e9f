package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"
)

const (
	stateFolder = "/state"
	socketPath  = "/run/buildkit/buildkitd.sock"
	runsFolder  = stateFolder + "/buildkit/runc-overlayfs/executor"
	// A crashed buildkitd comes back after this; one that cannot start does not fill its log.
	restartPause = time.Second
)

// The builder's own mounts: temporary files beside the state, since the root is an overlay.
func prepare() error {
	for _, folder := range []string{"buildkit", "bases", "jobs", "store", "tmp"} {
		if err := os.MkdirAll(filepath.Join(stateFolder, folder), 0o755); err != nil {
			return err
		}
	}
	for _, folder := range []string{"/run/buildkit", "/tmp"} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := os.MkdirAll("/root", 0o700); err != nil {
		return err
	}
	if err := prepareRuns(); err != nil {
		return err
	}
	// The runtime wants a group for each step. The tree of its own is all that the builder sees.
	err := syscall.Mount("cgroup", "/sys/fs/cgroup", "cgroup2", 0, "")
	if err == syscall.EBUSY {
		return nil // by an earlier run of this
	}
	return err
}

// What a step is run by holds its environment, and secrets may stand in that: memory alone has it.
func prepareRuns() error {
	const tmpfsMagic = 0x01021994
	if err := os.MkdirAll(runsFolder, 0o711); err != nil {
		return err
	}
	var status syscall.Statfs_t
	if err := syscall.Statfs(runsFolder, &status); err != nil || status.Type == tmpfsMagic {
		return err // or by an earlier run of this
	}
	return syscall.Mount("runs", runsFolder, "tmpfs", 0, "mode=0711")
}

func buildkitd() *exec.Cmd {
	command := exec.Command("/bin/buildkitd",
		"--rootless",
		"--root", filepath.Join(stateFolder, "buildkit"),
		"--addr", "unix://"+socketPath,
		"--containerd-worker=false",
		"--oci-worker-snapshotter=overlayfs",
		"--oci-worker-net=host",
		"--oci-worker-binary=/bin/runc")
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	command.Env = []string{"PATH=/bin", "HOME=/root", "XDG_RUNTIME_DIR=/run",
		"TMPDIR=" + filepath.Join(stateFolder, "tmp"), "BUILDKIT_STEP_LOG_MAX_SIZE=10485760",
		"BUILDKIT_STEP_LOG_MAX_SPEED=-1"}
	command.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return command
}

func serve() error {
	if err := prepare(); err != nil {
		return err
	}
	if !hasBuildKit() {
		// buildah has no daemon; while this runs, the builder is prepared.
		ended := make(chan os.Signal, 1)
		signal.Notify(ended, syscall.SIGTERM)
		<-ended
		return nil
	}
	for {
		err := buildkitd().Run()
		fmt.Fprintln(os.Stderr, "buildkitd ended:", err)
		time.Sleep(restartPause)
	}
}
