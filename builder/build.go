package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"sort"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/log"
	"github.com/distribution/reference"
	"github.com/moby/buildkit/client"
	"github.com/moby/buildkit/frontend/dockerfile/command"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	gatewaypb "github.com/moby/buildkit/frontend/gateway/pb"
	"github.com/moby/buildkit/solver/errdefs"
	"github.com/moby/buildkit/sourcepolicy"
	spb "github.com/moby/buildkit/sourcepolicy/pb"
	"github.com/moby/buildkit/util/grpcerrors"
	"github.com/moby/buildkit/util/progress/progressui"
	"github.com/opencontainers/go-digest"
	"github.com/tonistiigi/fsutil"
	"google.golang.org/grpc/codes"
)

const (
	// How long buildkitd may take to listen after the builder's start.
	daemonPatience = 30 * time.Second
	daemonPause    = 50 * time.Millisecond
	// A person looks at it; each write is a rename on the builder's disk.
	progressPause = 250 * time.Millisecond
	// What a client sends along as a Dockerfile that is no part of its folder.
	inlineName = ".sandbox.Dockerfile"
	// The result itself could not be written: the disk is full.
	exitWithoutResult = 75
)

// FOLDER/result.json.
type result struct {
	OK      bool   `json:"ok"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
}

// FOLDER/progress.json.
type progress struct {
	Done  int    `json:"done"`
	Total int    `json:"total"`
	Step  string `json:"step"`
}

func sortedKeys(values map[string]string) []string {
	keys := make([]string, 0, len(values))
	for key := range values {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

func connect(ctx context.Context) (*client.Client, error) {
	deadline := time.Now().Add(daemonPatience)
	for {
		daemon, err := client.New(ctx, "unix://"+socketPath)
		if err == nil {
			if _, err = daemon.ListWorkers(ctx); err == nil {
				return daemon, nil
			}
			daemon.Close()
		}
		if time.Now().After(deadline) || ctx.Err() != nil {
			return nil, failure{"builder_failed", fmt.Sprintf("buildkitd does not answer: %s", err)}
		}
		time.Sleep(daemonPause)
	}
}

// The Dockerfile without its syntax line and, beside it, the ignore file that is its own.
func writeDockerfile(folder string, description *job) error {
	text, err := readDockerfile(folder, description)
	if err != nil {
		return err
	}
	if text, err = withoutSyntax(text); err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(folder, "dockerfile"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(folder, "dockerfile", "Dockerfile"), text, 0o644); err != nil {
		return err
	}
	if description.Dockerfile == inlineName {
		if err := os.Remove(filepath.Join(folder, "context", inlineName)); err != nil {
			return err
		}
		return nil // it has no ignore file of its own
	}
	own := *description
	own.Dockerfile += ".dockerignore"
	ignored, err := readDockerfile(folder, &own)
	var missing failure
	if errors.As(err, &missing) {
		return nil
	}
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, "dockerfile", "Dockerfile.dockerignore"), ignored, 0o644)
}

// As the frontend looks a name up: familiar, and without the tag that everyone means.
func contextKey(name string) (string, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return "", err
	}
	return "context:" + strings.TrimSuffix(reference.FamiliarString(named), ":latest"), nil
}

func attributes(ctx context.Context, description *job, store content.Store) (map[string]string, error) {
	attrs := map[string]string{"filename": "Dockerfile"}
	if description.Target != "" {
		attrs["target"] = description.Target
	}
	if description.Platform != "" {
		attrs["platform"] = description.Platform
	}
	if description.NoCache {
		attrs["no-cache"] = ""
	}
	for name, value := range description.Args {
		attrs["build-arg:"+name] = value
	}
	for _, name := range sortedKeys(description.Bases) {
		manifest, err := assemble(ctx, store, description.Bases[name])
		if err != nil {
			return nil, fmt.Errorf("base image %s: %w", name, err)
		}
		key, err := contextKey(name)
		if err != nil {
			return nil, err
		}
		attrs[key] = "oci-layout://bases@" + manifest.String()
	}
	return attrs, nil
}

// Images come from the gateway, which has asked what the team may use.
func onlyGivenImages() *spb.Policy {
	return &spb.Policy{Rules: []*spb.Rule{{Action: spb.PolicyAction_DENY,
		Selector: &spb.Selector{Identifier: "docker-image://*"}}}}
}

func solveOptions(ctx context.Context, folder string, description *job) (*client.SolveOpt, error) {
	store, err := openStore()
	if err != nil {
		return nil, err
	}
	attrs, err := attributes(ctx, description, store)
	if err != nil {
		return nil, err
	}
	given, err := attachSecrets(folder, description)
	if err != nil {
		return nil, err
	}
	mounts := map[string]fsutil.FS{}
	for _, name := range []string{"context", "dockerfile"} {
		if mounts[name], err = fsutil.NewFS(filepath.Join(folder, name)); err != nil {
			return nil, err
		}
	}
	return &client.SolveOpt{
		Frontend:      "dockerfile.v0",
		FrontendAttrs: attrs,
		LocalMounts:   mounts,
		OCIStores:     map[string]content.Store{"bases": store},
		SourcePolicy:  onlyGivenImages(),
		SharedKey:     filepath.Base(folder),
		Session:       given,
		Exports: []client.ExportEntry{{Type: client.ExporterOCI,
			Attrs: map[string]string{"compression": "uncompressed"},
			Output: func(map[string]string) (io.WriteCloser, error) {
				return os.Create(filepath.Join(folder, "image.tar"))
			}}},
	}, nil
}

// Counts what the daemon tells on its way to the log.
type counter struct {
	folder string
	seen   map[digest.Digest]bool // and whether it is done
	told   time.Time
	step   string
}

func (c *counter) take(status *client.SolveStatus) {
	for _, vertex := range status.Vertexes {
		c.seen[vertex.Digest] = c.seen[vertex.Digest] || vertex.Completed != nil
		if vertex.Started != nil && vertex.Completed == nil {
			c.step = vertex.Name
		}
	}
	if time.Since(c.told) < progressPause {
		return
	}
	c.told = time.Now()
	done := 0
	for _, completed := range c.seen {
		if completed {
			done++
		}
	}
	_ = writeJSON(filepath.Join(c.folder, "progress.json"),
		progress{Done: done, Total: len(c.seen), Step: c.step})
}

func solve(ctx context.Context, folder string) error {
	description, err := readJob(folder)
	if err != nil {
		return err
	}
	if err := writeDockerfile(folder, description); err != nil {
		return err
	}
	if !hasBuildKit() {
		return solveWithBuildah(ctx, folder, description)
	}
	options, err := solveOptions(ctx, folder, description)
	if err != nil {
		return err
	}
	daemon, err := connect(ctx)
	if err != nil {
		return err
	}
	defer daemon.Close()
	display, err := progressui.NewDisplay(os.Stdout, progressui.PlainMode)
	if err != nil {
		return err
	}
	told, shown := make(chan *client.SolveStatus), make(chan *client.SolveStatus)
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		_, _ = display.UpdateFrom(context.Background(), shown)
	}()
	go func() {
		defer close(shown)
		count := counter{folder: folder, seen: map[digest.Digest]bool{}}
		for status := range told {
			count.take(status)
			shown <- status
		}
	}()
	_, err = daemon.Solve(ctx, nil, *options, told)
	<-finished
	return err
}

// What a failed solve is to the caller: by the types that BuildKit's errors keep on their way here.
// What a step printed is in none of them, but its command is in their text, so of that only the end
// of the chain counts, and only where there is no type.
func reasonOf(err error) string {
	var known failure
	var vertex *errdefs.VertexError
	var exit *gatewaypb.ExitError
	switch {
	case errors.As(err, &known):
		return known.reason
	case isDiskFull(err):
		return "disk_full"
	case errors.As(err, &exit), errors.As(err, &vertex) && isOfCommand(err):
		return "step_failed"
	case grpcerrors.Code(err) == codes.Unavailable:
		return "builder_failed" // the daemon ended under it: a step took the memory that it needs
	case strings.HasSuffix(err.Error(), sourcepolicy.ErrSourceDenied.Error()):
		return "image_not_allowed"
	case !errors.As(err, &vertex) && len(errdefs.Frontends(err)) > 0:
		return "dockerfile_invalid" // nothing has run: it is said while the Dockerfile is read
	}
	return "build_failed"
}

// Whether the lines that it is about are a RUN: one whose command could not even be started.
func isOfCommand(err error) bool {
	for _, source := range errdefs.Sources(err) {
		if source.Info == nil || len(source.Ranges) == 0 {
			continue
		}
		parsed, err := parser.Parse(bytes.NewReader(source.Info.Data))
		if err != nil {
			continue
		}
		for _, node := range parsed.AST.Children {
			if node.StartLine == int(source.Ranges[0].Start.Line) {
				return strings.EqualFold(node.Value, command.Run)
			}
		}
	}
	return false
}

// System calls' errors come as text, at the end of it.
func isDiskFull(err error) bool {
	text := err.Error()
	return strings.HasSuffix(text, ": "+syscall.ENOSPC.Error()) ||
		strings.HasSuffix(text, ": "+syscall.EDQUOT.Error())
}

// The lines of the Dockerfile that the error is about, where it knows them.
func printSources(err error) string {
	where := ""
	for _, source := range errdefs.Sources(err) {
		fmt.Println()
		_ = source.Print(os.Stdout)
		if len(source.Ranges) > 0 && where == "" {
			where = fmt.Sprintf("line %d: ", source.Ranges[0].Start.Line)
		}
	}
	return where
}

// The exit code: 0 with an image, 1 with a reason in result.json.
func build(folder string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	_ = os.Setenv("TMPDIR", filepath.Join(stateFolder, "tmp"))
	_ = log.SetLevel("error") // of the libraries; what concerns the build comes as its log
	outcome := result{OK: true}
	if err := solve(ctx, folder); err != nil {
		where := printSources(err)
		outcome = result{Reason: reasonOf(err),
			Message: where + strings.TrimPrefix(err.Error(), "failed to solve: ")}
		if ctx.Err() != nil {
			outcome.Reason = "cancelled"
		}
		fmt.Println("ERROR:", outcome.Message)
	}
	if err := writeJSON(filepath.Join(folder, "result.json"), outcome); err != nil {
		fmt.Println("ERROR:", err)
		return exitWithoutResult
	}
	if !outcome.OK {
		return 1
	}
	return 0
}
