package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"

	"github.com/moby/buildkit/frontend/dockerfile/command"
	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"
	"github.com/moby/buildkit/frontend/dockerfile/shell"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// buildah stands in where the builder's root holds no BuildKit. It is one program without a daemon;
// steps run in the same runtime, within the builder's namespaces.
const (
	buildkitdPath = "/bin/buildkitd"
	buildahPath   = "/bin/buildah"
	selfPath      = "/proc/self/exe"
	// Of what buildah says when it fails: the end.
	complaintBytesMax = 16 << 10
)

func hasBuildKit() bool {
	_, err := os.Stat(buildkitdPath)
	return err == nil
}

// Flags of instructions that Debian's buildah (1.28) takes.
var buildahFlags = map[string][]string{
	command.Add:         {"chown", "chmod"},
	command.Copy:        {"from", "chown", "chmod"},
	command.From:        {"platform"},
	command.Run:         {"mount"},
	command.Healthcheck: {"interval", "timeout", "start-period", "retries"},
}

var buildahMounts = []string{"bind", "cache", "tmpfs"}

func unsupported(line int, what string) error {
	return failure{"not_supported",
		fmt.Sprintf("line %d: %s: this installation builds with buildah, which cannot do that", line, what)}
}

// What buildah cannot do is said before anything begins: it would take a here-document's lines for
// instructions.
func checkForBuildah(nodes []*parser.Node) error {
	for _, node := range nodes {
		if err := checkInstruction(node, node.StartLine); err != nil {
			return err
		}
	}
	return nil
}

// `line`: an instruction of an ONBUILD has none of its own.
func checkInstruction(node *parser.Node, line int) error {
	if len(node.Heredocs) > 0 {
		return unsupported(line, "here-documents")
	}
	kind := strings.ToLower(node.Value)
	for _, flag := range node.Flags {
		name, value, _ := strings.Cut(strings.TrimPrefix(flag, "--"), "=")
		if !slices.Contains(buildahFlags[kind], name) {
			return unsupported(line, fmt.Sprintf("%s --%s", strings.ToUpper(kind), name))
		}
		if kind == command.Run && !slices.Contains(buildahMounts, mountType(value)) {
			return unsupported(line, "RUN --mount=type="+mountType(value))
		}
	}
	if kind == command.Onbuild && node.Next != nil {
		for _, trigger := range node.Next.Children {
			if err := checkInstruction(trigger, line); err != nil {
				return err
			}
		}
	}
	return nil
}

func mountType(options string) string {
	for _, option := range strings.Split(options, ",") {
		if value, ok := strings.CutPrefix(option, "type="); ok {
			return value
		}
	}
	return "bind"
}

// A program's complaint, kept to its end.
type tail struct{ bytes.Buffer }

func (t *tail) Write(piece []byte) (int, error) {
	t.Buffer.Write(piece)
	if extra := t.Len() - complaintBytesMax; extra > 0 {
		t.Next(extra)
	}
	return len(piece), nil
}

// One call of buildah; its error is the last sentence that it said itself. `log` is written by steps
// as well.
func buildah(ctx context.Context, log *os.File, arguments ...string) (string, error) {
	global := []string{"--root", filepath.Join(stateFolder, "buildah"), "--runroot", "/run/buildah",
		"--storage-driver", "overlay"}
	program := exec.CommandContext(ctx, selfPath, append(append([]string{"first"}, global...), arguments...)...)
	program.Env = []string{"PATH=/bin", "HOME=/root", "XDG_RUNTIME_DIR=/run",
		"TMPDIR=" + filepath.Join(stateFolder, "tmp")}
	var told bytes.Buffer
	var complaint tail
	program.Stdout, program.Stderr = &told, &complaint
	if log != nil {
		program.ExtraFiles = []*os.File{log}
	}
	// Steps are in groups of their own, where no end of a job finds them: they end with the first
	// process of their namespace.
	program.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID | syscall.CLONE_NEWNS}
	if err := program.Run(); err != nil {
		lines := strings.Split(strings.TrimSpace(complaint.String()), "\n")
		said := strings.TrimPrefix(lines[len(lines)-1], "Error: ")
		if said == "" {
			said = err.Error()
		}
		return "", errors.New(said)
	}
	return strings.TrimSpace(told.String()), nil
}

// Becomes buildah, as the first process of a namespace that was just made.
func becomeBuildah(arguments []string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	flags := uintptr(syscall.MS_NOSUID | syscall.MS_NODEV | syscall.MS_NOEXEC)
	if err := syscall.Mount("proc", "/proc", "proc", flags, ""); err != nil {
		return fmt.Errorf("its own /proc: %w", err)
	}
	return syscall.Exec(buildahPath, append([]string{buildahPath}, arguments...), os.Environ())
}

// A base image under a name that no Dockerfile has, in buildah's store.
func importBase(ctx context.Context, folder string, name string) (string, error) {
	store, err := openStore()
	if err != nil {
		return "", err
	}
	manifest, err := assemble(ctx, store, name)
	if err != nil {
		return "", err
	}
	info, err := store.Info(ctx, manifest)
	if err != nil {
		return "", err
	}
	// The content store has an OCI layout's blobs; what else a layout is made of goes beside a link.
	layout := filepath.Join(folder, "bases", manifest.Encoded())
	if err := os.MkdirAll(layout, 0o755); err != nil {
		return "", err
	}
	if err := os.Symlink(filepath.Join(stateFolder, "store", "blobs"),
		filepath.Join(layout, "blobs")); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2},
		Manifests: []ocispec.Descriptor{{MediaType: ocispec.MediaTypeImageManifest,
			Digest: manifest, Size: info.Size,
			Annotations: map[string]string{ocispec.AnnotationRefName: "base"}}}}
	for file, value := range map[string]any{"index.json": index,
		ocispec.ImageLayoutFile: ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}} {
		if err := writeJSON(filepath.Join(layout, file), value); err != nil {
			return "", err
		}
	}
	id, err := buildah(ctx, nil, "pull", "--quiet", "oci:"+layout+":base")
	if err != nil {
		return "", err
	}
	tag := "localhost/base:" + manifest.Encoded()
	_, err = buildah(ctx, nil, "tag", id, tag)
	return tag, err
}

func buildahArguments(ctx context.Context, folder string, description *job, text []byte) ([]string, error) {
	arguments := []string{"build", "--isolation", "oci", "--runtime", "/bin/runc", "--network", "host",
		"--pull=never", "--format", "docker", "--layers", "--identity-label=false",
		"--logfile", "/proc/self/fd/3",
		"--file", filepath.Join(folder, "dockerfile", "Dockerfile"),
		"--tag", "localhost/" + filepath.Base(folder)}
	if description.Target != "" {
		arguments = append(arguments, "--target", description.Target)
	}
	if description.NoCache {
		arguments = append(arguments, "--no-cache")
	}
	own := filepath.Join(folder, "dockerfile", "Dockerfile.dockerignore")
	if _, err := os.Stat(own); err == nil {
		arguments = append(arguments, "--ignorefile", own)
	}
	given := platformArguments()
	for name := range given {
		if !bytes.Contains(text, []byte(name)) {
			delete(given, name) // it would complain that nobody takes them
		}
	}
	for name, value := range description.Args {
		given[name] = value
	}
	for _, name := range sortedKeys(given) {
		arguments = append(arguments, "--build-arg", name+"="+given[name])
	}
	written, err := writtenNames(description, text)
	if err != nil {
		return nil, err
	}
	for _, name := range sortedKeys(description.Bases) {
		tag, err := importBase(ctx, folder, description.Bases[name])
		if err != nil {
			return nil, fmt.Errorf("base image %s: %w", name, err)
		}
		for _, as := range append(written[name], name) {
			arguments = append(arguments, "--build-context", as+"=container-image://"+tag)
		}
	}
	return append(arguments, filepath.Join(folder, "context")), nil
}

// How FROM lines have the names of base images: "$BASE" for "debian". buildah asks for those.
func writtenNames(description *job, text []byte) (map[string][]string, error) {
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, err
	}
	stages, declared, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, err
	}
	lex := shell.NewLex(parsed.EscapeToken)
	known := metaArguments(description, declared, lex)
	written := map[string][]string{}
	for _, stage := range stages {
		word, err := lex.ProcessWordWithMatches(stage.BaseName, known)
		if err == nil && word.Result != stage.BaseName {
			written[word.Result] = append(written[word.Result], stage.BaseName)
		}
	}
	return written, nil
}

var stepLine = regexp.MustCompile(`^(?:\[\d+/\d+\] )?STEP \d+/\d+: (.*)$`)

// Passes the log on, and counts its steps. A step can print such a line: it counts wrong then.
func followBuildah(log io.Reader, folder string, steps int) {
	reader := bufio.NewReader(log)
	seen := 0
	for {
		line, err := reader.ReadString('\n')
		_, _ = os.Stdout.WriteString(line)
		if found := stepLine.FindStringSubmatch(strings.TrimRight(line, "\n")); found != nil {
			seen = min(seen+1, steps)
			_ = writeJSON(filepath.Join(folder, "progress.json"),
				progress{Done: seen - 1, Total: steps, Step: found[1]})
		}
		if err != nil {
			return
		}
	}
}

// buildah's last sentence, with the line of the step that it quotes. No step has a word in it, but
// its command has: only the end of the sentence and what kind of step it is decide.
func explainBuildah(err error, nodes []*parser.Node) error {
	reason := "build_failed"
	quoted, isOfStep := strings.CutPrefix(err.Error(), `building at STEP "`)
	if isOfStep && strings.HasPrefix(quoted, strings.ToUpper(command.Run)+" ") {
		reason = "step_failed"
	}
	if isDiskFull(err) {
		reason = "disk_full"
	}
	where := ""
	for end := 0; isOfStep && where == ""; end++ {
		next := strings.Index(quoted[end:], `": `)
		if next < 0 {
			break
		}
		end += next
		for _, node := range nodes {
			if isQuoted(node, quoted[:end]) {
				where = fmt.Sprintf("line %d: ", node.StartLine)
				break
			}
		}
	}
	return failure{reason, where + err.Error()}
}

// Whether buildah means that instruction: it quotes it as it stands, or taken apart.
func isQuoted(node *parser.Node, quoted string) bool {
	words := []string{node.Value}
	for next := node.Next; next != nil; next = next.Next {
		words = append(words, next.Value)
	}
	wanted := strings.Join(strings.Fields(quoted), " ")
	return strings.EqualFold(strings.Join(strings.Fields(node.Original), " "), wanted) ||
		strings.EqualFold(strings.Join(words, " "), wanted)
}

// The image as an OCI layout in a tar. Its configuration stays byte for byte what buildah wrote:
// Docker's fields, which OCI's own form lacks, are in it.
func packImage(folder string, target string) error {
	text, err := os.ReadFile(filepath.Join(folder, "manifest.json"))
	if err != nil {
		return err
	}
	var manifest ocispec.Manifest
	if err := json.Unmarshal(text, &manifest); err != nil {
		return err
	}
	manifest.MediaType = ocispec.MediaTypeImageManifest
	manifest.Config.MediaType = ocispec.MediaTypeImageConfig
	for i := range manifest.Layers {
		manifest.Layers[i].MediaType = ocispec.MediaTypeImageLayer
	}
	if text, err = json.Marshal(manifest); err != nil {
		return err
	}
	descriptor := ocispec.Descriptor{MediaType: manifest.MediaType, Digest: digest.FromBytes(text),
		Size: int64(len(text))}
	index, err := json.Marshal(ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2},
		Manifests: []ocispec.Descriptor{descriptor}})
	if err != nil {
		return err
	}
	file, err := os.Create(target)
	if err != nil {
		return err
	}
	defer file.Close()
	writer := tar.NewWriter(file)
	blob := func(name digest.Digest) string { return "blobs/sha256/" + name.Encoded() }
	for _, part := range []struct {
		name string
		text []byte
	}{{ocispec.ImageLayoutFile, []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{"index.json", index}, {blob(descriptor.Digest), text}} {
		header := tar.Header{Name: part.name, Mode: 0o644, Size: int64(len(part.text))}
		if err := writer.WriteHeader(&header); err != nil {
			return err
		}
		if _, err := writer.Write(part.text); err != nil {
			return err
		}
	}
	written := map[digest.Digest]bool{}
	for _, part := range append(manifest.Layers, manifest.Config) {
		if written[part.Digest] {
			continue
		}
		written[part.Digest] = true
		if err := packBlob(writer, blob(part.Digest), filepath.Join(folder, part.Digest.Encoded())); err != nil {
			return err
		}
	}
	if err := writer.Close(); err != nil {
		return err
	}
	return file.Close()
}

func packBlob(writer *tar.Writer, name string, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	header := tar.Header{Name: name, Mode: 0o644, Size: info.Size()}
	if err := writer.WriteHeader(&header); err != nil {
		return err
	}
	_, err = io.Copy(writer, file)
	return err
}

// As solve(): the job's image in FOLDER/image.tar, the log on stdout.
func solveWithBuildah(ctx context.Context, folder string, description *job) error {
	if description.Secrets {
		if _, err := takeSecrets(folder); err != nil { // nothing of them stays
			return err
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "dockerfile", "Dockerfile"))
	if err != nil {
		return err
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return invalid("%s", located(err))
	}
	nodes := parsed.AST.Children
	arguments, err := buildahArguments(ctx, folder, description, text)
	if err != nil {
		return err
	}
	reading, writing, err := os.Pipe()
	if err != nil {
		return err
	}
	followed := make(chan struct{})
	go func() {
		defer close(followed)
		followBuildah(reading, folder, len(nodes))
	}()
	_, err = buildah(ctx, writing, arguments...)
	writing.Close()
	<-followed
	reading.Close()
	if err != nil {
		return explainBuildah(err, nodes)
	}
	_ = writeJSON(filepath.Join(folder, "progress.json"), progress{Done: len(nodes), Total: len(nodes)})
	image := filepath.Join(folder, "image")
	defer os.RemoveAll(image)
	if _, err := buildah(ctx, nil, "push", "--quiet", "--format", "v2s2", "--disable-compression",
		"localhost/"+filepath.Base(folder), "dir:"+image); err != nil {
		return err
	}
	return packImage(image, filepath.Join(folder, "image.tar"))
}

// Where the platform's arguments come from, which BuildKit knows by itself.
func platformArguments() map[string]string {
	return map[string]string(metaArguments(&job{}, nil, nil))
}
